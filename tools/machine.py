"""Virtual machine that tests, demo and `make vm` boot, as QEMU's command line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools import architecture, image, qemu
from tools.architecture import Architecture

QUIET: Final = "quiet mitigations=off"
PANIC_ENDS_QEMU: Final = "panic=-1"
"""Makes a guest that panics reset at once, which ends QEMU (-no-reboot), so that no test waits for it."""

MEMORY_MIB: Final = 512
DEVELOPMENT_MEMORY_MIB: Final = 2048
"""Memory of a guest that compiles: LLVM's libraries stay in its page cache, beside two compilers at work."""

NVDIMM_ROOM_MIB: Final = 4096
"""Room for NVDIMMs in a guest's physical addresses."""

SHELL: Final = "vgc.shell"
"""Kernel argument that starts a shell on the guest's console instead of the test agent (tools/guest/start)."""

FILES: Final = "vgc.files"
FRAMEWORKS: Final = "vgc.frameworks"
"""Kernel arguments that name a shell's disks: files to unpack, and frameworks in Python."""

JOB: Final = "vgc.job"
"""Kernel argument that has the guest run job.py of its first further disk, a tar, with the frameworks of the second."""


@dataclass(frozen=True, slots=True)
class Device:
    """Compute device on QEMU's command line; the numbers must be those of the daemon's configuration."""

    socket: Path
    region_bytes: int = 64 << 20
    num_queues: int = 4
    queue_size: int = 256
    config_bytes: int = 256
    virtio_id: int = 38
    is_ivshmem: bool = True
    """The guest sees the region as the BAR of an ivshmem function."""

    is_nvdimm: bool = False
    """The guest sees the region as an NVDIMM, too, or instead."""

    nvdimm_bytes: int = 0
    """Size of the NVDIMM; 0: that of the region, which it must have to be one."""

    def argv(self, region_fd: int) -> list[str]:
        name = self.socket.stem  # a machine may have several
        backend = f"memory-backend-file,share=on,mem-path=/proc/self/fd/{region_fd}"
        shape = f"virtio-id={self.virtio_id},num_vqs={self.num_queues},vq_size={self.queue_size}"
        argv = []
        if self.is_ivshmem:
            argv += [
                "-object",
                f"{backend},id=region-{name},size={self.region_bytes}",
                "-device",
                f"ivshmem-plain,memdev=region-{name}",
            ]
        if self.is_nvdimm:
            size = self.nvdimm_bytes or self.region_bytes
            argv += ["-object", f"{backend},id=nvdimm-{name},size={size},align=2M"]
            argv += ["-device", f"nvdimm,memdev=nvdimm-{name}"]
        return [
            *argv,
            *("-chardev", f"socket,id=vgc-{name},path={self.socket}"),
            *("-device", f"{qemu.DEVICE},chardev=vgc-{name},{shape},config_size={self.config_bytes}"),
        ]

    @contextmanager
    def region(self) -> Iterator[int]:
        """Yields the shared region as a file descriptor. It has no name, so it vanishes with its last user."""
        descriptor = os.memfd_create("vgc-region")
        try:
            os.ftruncate(descriptor, self.region_bytes)
            yield descriptor
        finally:
            os.close(descriptor)


def disk(image: Path) -> list[str]:
    """Gives a guest a read-only disk with the file system in `image`. The first, /dev/vda, is the machine's own."""
    return ["-drive", f"if=virtio,format=raw,readonly=on,file={image}"]


@dataclass(frozen=True, slots=True)
class Machine:
    """Machine that boots the guest image, with the accelerator that works on this host."""

    memory_mib: int
    cpus: int
    accelerator: str
    qemu: qemu.Qemu
    files: image.Image
    shared_ram: bool = False
    """If set, the guest's RAM is shared memory that vhost-user backends are given, as virtiofs needs it."""
    architecture: Architecture = architecture.X86_64

    nvdimms: int = 0
    """Number of NVDIMMs for which there is room."""

    def __str__(self) -> str:
        name = "" if self.architecture.is_native else f"{self.architecture.name}, "
        return f"QEMU {self.qemu.version}, {name}{self.accelerator.upper()}"

    def argv(self, kernel_arguments: str) -> list[str]:
        """Returns QEMU's command line without consoles, control connections and the device."""
        shape = self.architecture.machine
        shape += (",memory-backend=ram" if self.shared_ram else "") + (",nvdimm=on" if self.nvdimms else "")
        cpu = "host" if self.accelerator == "kvm" else self.architecture.cpu
        return [
            *self.qemu.argv,
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *self._ram(),
            *("-machine", shape, "-accel", self.accelerator, "-cpu", cpu),
            *("-smp", str(self.cpus), "-m", f"{self.memory_mib}M{self._slots()}"),
            *("-kernel", str(self.files.kernel), "-initrd", str(self.files.initramfs)),
            *("-append", f"console={self.architecture.console} {QUIET} {kernel_arguments}"),
            *disk(self.files.base),
        ]

    def _slots(self) -> str:
        return f",slots={self.nvdimms},maxmem={self.memory_mib + NVDIMM_ROOM_MIB}M" if self.nvdimms else ""

    def _ram(self) -> list[str]:
        return ["-object", f"memory-backend-memfd,id=ram,share=on,size={self.memory_mib}M"] if self.shared_ram else []


def machine(
    *,
    memory_mib: int | None = None,
    cpus: int = 2,
    shared_ram: bool = False,
    development: bool = False,
    nvdimms: int = 0,
    wanted: Architecture | None = None,
) -> Machine:
    """Describes a machine that boots on this host; builds or fetches QEMU and the image if they are missing.

    `development`: its guest has compilers, and memory for them unless `memory_mib` says how much.
    `wanted`: None for the one that the environment names.
    """
    wanted = wanted or architecture.wanted()
    found, files = qemu.find(wanted), image.build(development=development, machine=wanted)
    memory_mib = memory_mib or (DEVELOPMENT_MEMORY_MIB if development else MEMORY_MIB)
    accelerator = qemu.accelerator(found, files.kernel) if wanted.is_native else "tcg"
    return Machine(memory_mib, cpus, accelerator, found, files, shared_ram, wanted, nvdimms)
