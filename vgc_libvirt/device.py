"""Device of one VM of `vgcd` as QEMU's options: the region that guest and host share, and the virtio device."""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from vgc_libvirt import arguments
from vhost_backend.config.daemon import VmConfig
from vhost_backend.errors import ConfigError
from virtio_proto.schema import LIMITS, VIRTIO_ID

DRIVER: Final = "vhost-user-test-device-pci"
OLD_DRIVER: Final = "vhost-user-device-pci"
"""Name of the driver up to QEMU 10.1, in which users cannot create it."""

REGION_DRIVER: Final = "ivshmem-plain"
QUEUE_SIZE: Final = LIMITS["MAX_QUEUE_SIZE"]
CONFIG_BYTES: Final = LIMITS["CONFIG_SIZE"]
SHM_FOLDER: Final = Path("/dev/shm")  # noqa: S108  libvirt's place of files of <shmem>


class RegionKind(enum.Enum):
    """Memory that the region is made of."""

    MEMFD = "memfd"
    """Anonymous memory of QEMU's, which ends with it. The usual one."""
    SHMEM = "shmem"
    """Element of libvirt's, whose file in /dev/shm stays, readable by all users, when the domain has ended."""
    FILE = "file"
    """File at another place, which must be there before QEMU starts, or in a folder in which QEMU may make it."""


@dataclass(frozen=True, slots=True)
class Device:
    """Device of a VM. `region_file` is None for anonymous memory."""

    vm: str
    socket: Path
    num_queues: int
    region_bytes: int
    region_file: Path | None = None

    @property
    def id(self) -> str:
        """Id of device and character device in QEMU."""
        return f"vgc-{self.vm}"

    @property
    def region_id(self) -> str:
        """Id of region and its memory in QEMU."""
        return f"vgcmem-{self.vm}"

    @property
    def kind(self) -> RegionKind:
        return region_kind(self.region_file)

    @property
    def shmem_name(self) -> str:
        """Name of libvirt's ``<shmem>``; "" if the region is of another kind."""
        return self.region_file.name if self.region_file is not None and self.kind is RegionKind.SHMEM else ""

    def memory(self) -> dict[str, Any]:
        """Object of the region's memory: properties of QEMU's ``object-add``. Not for regions of libvirt's ``<shmem>``."""
        common = {"id": self.region_id, "size": self.region_bytes, "share": True}
        if self.region_file is None:
            return {"qom-type": "memory-backend-memfd", **common}
        return {"qom-type": "memory-backend-file", **common, "mem-path": str(self.region_file), "discard-data": True}

    def region(self) -> dict[str, Any]:
        """Region's device in the guest: properties of QEMU's ``device_add``."""
        return {"driver": REGION_DRIVER, "id": self.region_id, "memdev": self.region_id}

    def device(self) -> dict[str, Any]:
        """Compute device: properties of QEMU's ``device_add``."""
        shape = {"virtio-id": VIRTIO_ID, "num_vqs": self.num_queues, "vq_size": QUEUE_SIZE, "config_size": CONFIG_BYTES}
        return {"driver": DRIVER, "id": self.id, "chardev": self.id, **shape}

    def command_line(self) -> list[str]:
        """Arguments of QEMU's command line that make the device.

        Devices are written as JSON: QEMU makes those after the ones of libvirt, which have taken their slots by then. It makes
        devices of key=value lists before, in a slot that libvirt has given to something else.
        """
        region = []
        if self.kind is not RegionKind.SHMEM:
            region = ["-object", arguments.as_json(self.memory()), "-device", arguments.as_json(self.region())]
        return [
            *region,
            *("-chardev", f"socket,id={self.id},path={arguments.escaped(str(self.socket))}"),
            *("-device", arguments.as_json(self.device())),
        ]


def region_kind(file: Path | None) -> RegionKind:
    """Kind of a region, by the file in the configuration."""
    if file is None:
        return RegionKind.MEMFD
    return RegionKind.SHMEM if Path(os.path.normpath(file)).parent == SHM_FOLDER else RegionKind.FILE


def device_of(vm: VmConfig) -> Device:
    """Device of a VM of the configuration.

    :raise ConfigError: `vgcd` inherits the VM's socket, so that QEMU cannot be told where it is.
    """
    if vm.socket is None:
        raise ConfigError([f"vms.{vm.name} has no socket; allowed for libvirt: a VM whose socket has a path"])
    return Device(vm.name, vm.socket, vm.num_queues, vm.region_bytes, vm.region_file)
