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

from vhost_backend.cgroups.limits import CONTROLLERS, MAX_WEIGHT, MIN_WEIGHT, USUAL_WEIGHT, Limits, Usage

Folders: TypeAlias = Mapping[str, Path]
"""Folders of a group, by controller."""

PROCESSES: Final = "cgroup.procs"
_USUAL_SHARES: Final = 1024
"""``cpu.shares`` of a group with the usual weight."""
_MIN_SHARES: Final = 2
_MAX_SHARES: Final = 1 << 18
_PERIOD_US: Final = 100_000


class Version(ABC):
    """Version of control groups. Its methods raise `OSError` where the host does not allow what they do."""

    number: ClassVar[int]

    @abstractmethod
    def admit_children(self, folders: Folders) -> None:
        """Lets groups within the group have limits; the group may then have no processes itself."""

    @abstractmethod
    def limit(self, folders: Folders, limits: Limits) -> None:
        """Sets the limits of a group."""

    @abstractmethod
    def set_processors(self, folders: Folders, limits: Limits) -> None:
        """Sets the limits on processors alone, at any time."""

    @abstractmethod
    def set_weight(self, folders: Folders, weight: float) -> None:
        """Sets the weight alone, at any time; rounded, and within what this version has."""

    @abstractmethod
    def make_thread_group(self, folders: Folders, name: str) -> tuple[Folders, Path]:
        """Makes a group within one of processes, for some of their threads; only its limits on processors count.

        Returns its folders, and the file to which the number of a thread is written that is to join.
        """

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
        self.set_processors(folders, limits)

    def set_processors(self, folders: Folders, limits: Limits) -> None:
        cpu, quota_us = folders["cpu"], _quota_us(limits)
        with _optional(quota_us):
            write(cpu / "cpu.max", f"{'max' if quota_us is None else quota_us} {_PERIOD_US}")
        self.set_weight(folders, limits.weight)

    def set_weight(self, folders: Folders, weight: float) -> None:
        write(folders["cpu"] / "cpu.weight", max(MIN_WEIGHT, min(MAX_WEIGHT, round(weight))))

    def make_thread_group(self, folders: Folders, name: str) -> tuple[Folders, Path]:
        outer = folders["cpu"]
        inner = outer / name
        inner.mkdir(exist_ok=True)
        # In this order: a group with processes may divide processors only among threads.
        write(inner / "cgroup.type", "threaded")
        write(outer / "cgroup.subtree_control", "+cpu")
        return {"cpu": inner}, inner / "cgroup.threads"

    def usage(self, folders: Folders) -> Usage:
        folder = folders["memory"]
        kills = _fields((folder / "memory.events").read_text()).get("oom_kill", 0)
        return Usage(int((folder / "memory.current").read_text()), kills)


class V1(Version):
    """A tree for each controller."""

    number = 1

    def admit_children(self, folders: Folders) -> None:
        """Needs nothing done: groups within groups always have limits."""

    def limit(self, folders: Folders, limits: Limits) -> None:
        memory = folders["memory"]
        if limits.memory_bytes is not None:
            with contextlib.suppress(OSError):  # must not lie below the other one: first if raised, last if lowered
                write(memory / "memory.memsw.limit_in_bytes", limits.memory_bytes)
            write(memory / "memory.limit_in_bytes", limits.memory_bytes)
            with contextlib.suppress(FileNotFoundError):  # a kernel that does not count swap
                write(memory / "memory.memsw.limit_in_bytes", limits.memory_bytes)
        if limits.processes is not None:
            write(folders["pids"] / "pids.max", limits.processes)
        self.set_processors(folders, limits)

    def set_processors(self, folders: Folders, limits: Limits) -> None:
        cpu, quota_us = folders["cpu"], _quota_us(limits)
        with _optional(quota_us):
            write(cpu / "cpu.cfs_period_us", _PERIOD_US)
            write(cpu / "cpu.cfs_quota_us", -1 if quota_us is None else quota_us)
        self.set_weight(folders, limits.weight)

    def set_weight(self, folders: Folders, weight: float) -> None:
        write(
            folders["cpu"] / "cpu.shares",
            max(_MIN_SHARES, min(_MAX_SHARES, int(_USUAL_SHARES * weight / USUAL_WEIGHT))),
        )

    def make_thread_group(self, folders: Folders, name: str) -> tuple[Folders, Path]:
        inner = folders["cpu"] / name
        inner.mkdir(exist_ok=True)
        return {"cpu": inner}, inner / "tasks"

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


def _optional(quota_us: int | None) -> contextlib.AbstractContextManager[None]:
    """A kernel that bounds no processor time can do without the files if there is no bound."""
    return contextlib.suppress(FileNotFoundError) if quota_us is None else contextlib.nullcontext()


def _fields(text: str) -> dict[str, int]:
    """Numbers of lines such as ``oom_kill 0``."""
    rows = (line.split() for line in text.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}
