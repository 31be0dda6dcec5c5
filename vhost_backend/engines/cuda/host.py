"""Needs of NVIDIA's driver in a worker: files of the host before the sandbox is built, system calls inside it.

Each release of the driver opens other files and makes other calls, and at any time: a new stream, module or event may
open the device again. A worker on a GPU therefore keeps its root, which shows little besides the paths named here, and
the filter allows all calls that access files in it.
"""

from __future__ import annotations

import fcntl
import re
import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from vhost_backend.engines.base import EngineOptions, HostView, WorkerNeeds

_OTHERS: Final = ("/etc/ld.so.cache", "/sys/devices", "/sys/bus/pci", "/sys/module/nvidia", "/sys/module/nvidia_uvm")
"""Files about libraries and hardware."""

_CONTROL_NODES: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-caps")
_FDS: Final = Path("/proc/self/fd")
_MAX_FDS: Final = 4096

_SYSTEM_CALLS: Final = """
    ioctl mmap mbind get_mempolicy set_mempolicy
    open openat stat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat getdents64 getcwd
    statfs fstatfs pipe2 fcntl memfd_create
    getresuid getresgid capget getrlimit sched_getparam sched_getscheduler sched_setaffinity
    sched_get_priority_max sched_get_priority_min
"""
"""System calls in addition to those of every worker. Paths lead only into the read-only root, and devices are those in
it. ``sched_get_priority_*`` return two constants.

Not allowed, although the driver may try: ``socket``, as it exposes the host kernel's protocols to code that has
exploited the driver (a network namespace bounds where packets go, not which code of the kernel they reach), and the
servers that the driver wants to reach (MPS, the persistence daemon) are outside of the sandbox; ``mlock``, as the limit
of locked memory is 0, for which the kernel returns the same EPERM. ``sandbox: permissive`` logs further calls of a new
driver.
"""

_NEEDS: Final = WorkerNeeds(
    system_calls=tuple(_SYSTEM_CALLS.split()),
    keeps_root=True,
    unfiltered_at_best_effort=True,
    threads=32,
    files=512,
    private_bytes=16 << 30,
    address_space_bounded=False,  # the driver reserves as much of it as the memory of all GPUs and the host
)


_DRIVER_BYTES: Final = 4 << 30
"""Memory of the host that a driver may use: far more than it was seen to need, far less than what it reserves."""
_DRIVER_CPUS: Final = 2


def view(options: EngineOptions, dev: Path = Path("/dev"), proc: Path = Path("/proc")) -> HostView:
    """Device nodes of the GPU and libraries that `options` name, and files about the hardware."""
    libraries = (options.get(name) for name in ("driver", "cublas", "cufft", "cudnn"))
    folders = dict.fromkeys(
        folder for library in libraries if library is not None for folder in _folders(Path(str(library)))
    )
    others = (Path(name) for name in _OTHERS)
    return HostView(
        devices=tuple(_nodes(options.get("device"), dev, proc)),
        paths=tuple(path for path in (*folders, *others) if path.exists()),
        proc=True,
        memory_bytes=_DRIVER_BYTES,
        threads=_NEEDS.threads,
        cpus=_DRIVER_CPUS,
    )


def needs(opened_before: frozenset[int]) -> WorkerNeeds:
    """Needs of the started driver; the descriptors that it has opened are those not in `opened_before`."""
    return replace(_NEEDS, kept_fds=tuple(sorted(open_fds() - opened_before)))


def open_fds() -> frozenset[int]:
    """All descriptors of this process."""
    most = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], _MAX_FDS)
    numbers = [int(path.name) for path in _FDS.iterdir()] if _FDS.exists() else range(most)
    return frozenset(fd for fd in numbers if _is_open(fd))  # the descriptor that listed them is closed by now


def _is_open(fd: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_GETFD)
    except OSError:
        return False
    return True


def _nodes(device: object, dev: Path, proc: Path) -> Iterator[Path]:
    """Device nodes of a GPU; nodes of other GPUs are left out if the kernel tells which node is this GPU's."""
    minor = _minor(str(device), proc)
    for path in sorted(dev.glob("nvidia*")):
        number = path.name.removeprefix("nvidia")
        if path.name in _CONTROL_NODES or (number.isdecimal() and minor in (None, number)):
            yield path


def _minor(uuid: str, proc: Path) -> str | None:
    """Minor number of the GPU with this UUID; None: unknown, as for a MIG instance."""
    for path in proc.glob("driver/nvidia/gpus/*/information"):
        text = path.read_text(errors="replace")
        found = dict(re.findall(r"^([^:\n]+):[ \t]*(.*?)[ \t]*$", text, re.MULTILINE))
        if found.get("GPU UUID", "").lower() == uuid.lower():
            return found.get("Device Minor")
    return None


def _folders(library: Path) -> Iterator[Path]:
    """Folders of the library, by its name and by its real path: others that it loads are beside it."""
    yield from dict.fromkeys((library.parent, library.resolve().parent))
