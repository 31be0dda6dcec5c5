"""Names that the device plugin, pods and the hook sidecar must agree on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from virtio_proto.yaml_values import GIB, MIB

DOMAIN: Final = "vgc.dev"
ELEMENTS: Final = f"{DOMAIN}/processing-elements"
"""Resource that counts processing elements: cores of the software GPU, multiprocessors of a GPU."""
CONTAINER_FOLDER: Final = PurePosixPath("/var/run/vgc")
"""Folder in a container in which the socket of its VM lies."""
SOCKET: Final = "vgc.sock"
REGION_BYTES: Final = 64 * MIB
NUM_QUEUES: Final = 16
MEMORY_UNIT_BYTES: Final = 256 * MIB


@dataclass(frozen=True, slots=True)
class DeviceShape:
    """Shape of a VM's device, which must be equal at QEMU and at ``vgcd``."""

    region_bytes: int = REGION_BYTES
    num_queues: int = NUM_QUEUES


def memory_resource(unit_bytes: int) -> str:
    """Name of the resource that counts device memory in units of `unit_bytes`, which is a multiple of 1 MiB."""
    number, unit = (unit_bytes // GIB, "gi") if unit_bytes % GIB == 0 else (unit_bytes // MIB, "mi")
    return f"{DOMAIN}/memory-{number}{unit}"
