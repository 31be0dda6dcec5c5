"""What NVIDIA's driver needs of a worker's process: files of the host before the walls stand, system calls behind them.

The driver is a library of NVIDIA's whose every release opens other files and makes other calls, and it does so at any
time: a new stream, a module or an event may open the device once more. So a worker on a GPU keeps its root, which
shows little else than what is said here, and the filter lets through whatever concerns files that are there.
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
"""Where libraries lie, and what hardware there is."""

_CONTROL_NODES: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-caps")
_FDS: Final = Path("/proc/self/fd")
_MAX_FDS: Final = 4096

_SYSTEM_CALLS: Final = """
    ioctl mmap madvise mbind get_mempolicy set_mempolicy
    open openat stat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat getdents64 getcwd
    statfs fstatfs pipe2 fcntl memfd_create
    getresuid getresgid capget getrlimit sched_getparam sched_getscheduler sched_setaffinity
"""
"""Beyond what every worker may do. Paths lead into the read-only root alone, and devices are those in it."""

_NEEDS: Final = WorkerNeeds(
    system_calls=tuple(_SYSTEM_CALLS.split()),
    keeps_root=True,
    unfiltered_at_best_effort=True,
    threads=32,
    files=512,
    private_bytes=16 << 30,
    address_space_bounded=False,  # the driver reserves as much of it as all GPUs and the host have memory
)


def view(options: EngineOptions, dev: Path = Path("/dev"), proc: Path = Path("/proc")) -> HostView:
    """The device nodes of the GPU that `options` name, the driver's libraries, and what tells of the hardware."""
    library = options.get("driver")
    folders = () if library is None else _folders(Path(str(library)))
    others = (Path(name) for name in _OTHERS)
    return HostView(
        devices=tuple(_nodes(options.get("device"), dev, proc)),
        paths=tuple(path for path in (*folders, *others) if path.exists()),
        proc=True,
    )


def needs(opened_before: frozenset[int]) -> WorkerNeeds:
    """What the driver, started since those descriptors were open, needs from now on."""
    return replace(_NEEDS, kept_fds=tuple(sorted(open_fds() - opened_before)))


def open_fds() -> frozenset[int]:
    """All descriptors of this process."""
    most = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], _MAX_FDS)
    numbers = [int(path.name) for path in _FDS.iterdir()] if _FDS.exists() else range(most)
    return frozenset(fd for fd in numbers if _is_open(fd))  # what listed them is among them, and closed by now


def _is_open(fd: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_GETFD)
    except OSError:
        return False
    return True


def _nodes(device: object, dev: Path, proc: Path) -> Iterator[Path]:
    """Where the kernel says which node is the GPU's, none of another GPU."""
    minor = _minor(str(device), proc)
    for path in sorted(dev.glob("nvidia*")):
        number = path.name.removeprefix("nvidia")
        if path.name in _CONTROL_NODES or (number.isdecimal() and minor in (None, number)):
            yield path


def _minor(uuid: str, proc: Path) -> str | None:
    """The number of the node of the GPU with this UUID; None: unknown, as that of a MIG instance."""
    for path in proc.glob("driver/nvidia/gpus/*/information"):
        text = path.read_text(errors="replace")
        found = dict(re.findall(r"^([^:\n]+):[ \t]*(.*?)[ \t]*$", text, re.MULTILINE))
        if found.get("GPU UUID", "").lower() == uuid.lower():
            return found.get("Device Minor")
    return None


def _folders(library: Path) -> Iterator[Path]:
    """Where the library lies, by its name and in truth: the driver's other libraries lie beside it."""
    yield from dict.fromkeys((library.parent, library.resolve().parent))
