"""Files of the two versions of control groups [Linux: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/].

A group has a folder for each of `CONTROLLERS`: in version 2 it is the same for all, in version 1 each controller has a
tree of its own.
"""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final, TypeAlias

from vhost_backend.cgroups.limits import CONTROLLERS, USUAL_WEIGHT, Limits, Usage

Folders: TypeAlias = Mapping[str, Path]
"""Folders of a group, by controller."""

PROCESSES: Final = "cgroup.procs"
_PERIOD_US: Final = 100_000


class Version(ABC):
    """Version of control groups. Its methods raise `OSError` where the host does not allow what they do."""

    number: ClassVar[int]

    @abstractmethod
    def admit_children(self, folders: Folders) -> None:
        """Lets groups within the group have limits; the group may then have no processes itself."""

    @abstractmethod
    def limit(self, folders: Folders, limits: Limits) -> None:
        """Sets the limits of a new group."""

    @abstractmethod
    def usage(self, folders: Folders) -> Usage:
        """Reads what a group uses."""


class V2(Version):
    """One tree with all controllers."""

    number = 2

    def admit_children(self, folders: Folders) -> None:
        write(folders["memory"] / "cgroup.subtree_control", " ".join(f"+{name}" for name in CONTROLLERS))

    def limit(self, folders: Folders, limits: Limits) -> None:
        folder = folders["memory"]
        if limits.memory_bytes is not None:
            write(folder / "memory.max", limits.memory_bytes)
            write(folder / "memory.oom.group", 1)
            with contextlib.suppress(FileNotFoundError):  # a kernel without swap
                write(folder / "memory.swap.max", 0)
        if limits.processes is not None:
            write(folder / "pids.max", limits.processes)
        if (quota_us := _quota_us(limits)) is not None:
            write(folder / "cpu.max", f"{quota_us} {_PERIOD_US}")
        write(folder / "cpu.weight", limits.weight)

    def usage(self, folders: Folders) -> Usage:
        folder = folders["memory"]
        kills = _fields((folder / "memory.events").read_text()).get("oom_kill", 0)
        return Usage(int((folder / "memory.current").read_text()), kills)


class V1(Version):
    """A tree for each controller."""

    number = 1
    _SHARES: ClassVar[int] = 1024
    """``cpu.shares`` of a group with the usual weight."""

    def admit_children(self, folders: Folders) -> None:
        """Needs nothing done: groups within groups always have limits."""

    def limit(self, folders: Folders, limits: Limits) -> None:
        memory, cpu = folders["memory"], folders["cpu"]
        if limits.memory_bytes is not None:
            write(memory / "memory.limit_in_bytes", limits.memory_bytes)
            with contextlib.suppress(FileNotFoundError):  # a kernel that does not count swap
                write(memory / "memory.memsw.limit_in_bytes", limits.memory_bytes)
        if limits.processes is not None:
            write(folders["pids"] / "pids.max", limits.processes)
        if (quota_us := _quota_us(limits)) is not None:
            write(cpu / "cpu.cfs_period_us", _PERIOD_US)
            write(cpu / "cpu.cfs_quota_us", quota_us)
        write(cpu / "cpu.shares", max(2, self._SHARES * limits.weight // USUAL_WEIGHT))

    def usage(self, folders: Folders) -> Usage:
        kills = _fields((folders["memory"] / "memory.oom_control").read_text()).get("oom_kill", 0)
        return Usage(int((folders["memory"] / "memory.usage_in_bytes").read_text()), kills)


def write(path: Path, value: int | str) -> None:
    """Writes a value in one system call, as these files want it. Creates nothing.

    :raise OSError: the kernel refuses it; the error names the file.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, str(value).encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(fd)


def _quota_us(limits: Limits) -> int | None:
    """Time of processors for each period; None: all that there is."""
    if limits.cpus is None or limits.cpus >= (os.cpu_count() or 1):
        return None
    return max(1000, int(limits.cpus * _PERIOD_US))


def _fields(text: str) -> dict[str, int]:
    """Numbers of lines such as ``oom_kill 0``."""
    rows = (line.split() for line in text.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}
