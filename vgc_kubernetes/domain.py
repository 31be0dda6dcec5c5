"""The device in the domain of a pod's virtual machine, as `vgc_libvirt` adds devices."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from vgc_kubernetes import terms
from vgc_kubernetes.errors import RequestError
from vgc_kubernetes.terms import DeviceShape
from vgc_libvirt.device import Device
from vgc_libvirt.domain import Domain
from vgc_libvirt.errors import DomainError

_NAME: Final = "pod"
"""Name in the ids of QEMU's objects. A pod has one VM."""
_ARCHITECTURES: Final = ("", "x86_64")
_MAX_BYTES: Final = 4 << 20


def with_device(domain: bytes, shape: DeviceShape) -> bytes:
    """Adds the device at the container's socket to a domain, of which nothing else changes.

    The region is anonymous memory: a ``<shmem>`` would lie in /dev/shm, of which a container has 64 MiB.

    :raise RequestError: `domain` is not the XML of a domain, or of one that cannot have the device, or has it already.
    """
    if len(domain) > _MAX_BYTES:
        raise RequestError(f"the domain has {len(domain)} bytes; allowed: at most {_MAX_BYTES}")
    socket = Path(terms.CONTAINER_FOLDER) / terms.SOCKET
    try:
        read = Domain.parse(domain, "the domain")
        if read.architecture not in _ARCHITECTURES:
            raise RequestError(f"the domain's architecture is {read.architecture:.40}; allowed: x86_64")
        read.attach(Device(_NAME, socket, shape.num_queues, shape.region_bytes))
    except DomainError as error:
        raise RequestError(str(error)) from None
    return read.text().encode()
