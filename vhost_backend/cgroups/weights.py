"""Weights of processes on hosts without control groups: nice values, of which a step is a quarter more of the processors.

Where the kernel shares processors among sessions (autogroup), a session's nice value counts for all threads in it
together, as a group's weight does; elsewhere each thread that has work counts by itself.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import resource
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias

from vhost_backend.cgroups.limits import USUAL_WEIGHT
from vhost_backend.cores import threads

Sharing: TypeAlias = Literal["cgroup1", "cgroup2", "session", "thread"]
"""Unit that a VM's weight counts for: its control group, in version 1 or 2; a session of processes; each thread."""

LEAST_NICE: Final = -20
MOST_NICE: Final = 19
_STEP: Final = 1.25
_CAP_SYS_NICE: Final = 23
_AUTOGROUP: Final = Path("/proc/sys/kernel/sched_autogroup_enabled")
_NOT_IN_ROOT: Final = "cpu.weight"
"""File of version 2 that every group has in which processors are shared, but that of all processes."""


def nice_of(weight: int, least: int = LEAST_NICE) -> int:
    """Number to add to the nice value of a process, so that it has a weight as nearly as `least` allows."""
    nice = round(math.log(USUAL_WEIGHT / weight, _STEP))
    return max(least, min(MOST_NICE, nice))


def highest(least: int) -> int:
    """Highest weight that nice values from `least` on can give."""
    return round(USUAL_WEIGHT * _STEP**-least)


def least_nice(proc: Path = Path("/proc/self")) -> int:
    """Lowest number that this process may add to the nice value of its children."""
    status = (proc / "status").read_text()
    capabilities = int(status.partition("CapEff:")[2].split()[0], 16)
    if capabilities >> _CAP_SYS_NICE & 1:
        return LEAST_NICE
    allowed, _hard = resource.getrlimit(resource.RLIMIT_NICE)
    if allowed == resource.RLIM_INFINITY:
        return LEAST_NICE
    return min(0, 20 - allowed - os.getpriority(os.PRIO_PROCESS, 0))


def has_nice(pid: int, nice: int) -> bool:
    """True if a process has the nice value that `renice` gives it.

    :raise ProcessLookupError: it is gone.
    """
    return os.getpriority(os.PRIO_PROCESS, pid) == _with_ours(nice)


def renice(pid: int, nice: int) -> None:
    """Gives a process that runs the nice value that children with `nice` added have, and its session that of `nice`.

    Where sessions share the processors, that of the session is what counts beside others.

    :raise OSError: the process is gone, this one may not raise its priority, or (EAGAIN) not so soon after another change.
    """
    with contextlib.suppress(FileNotFoundError):  # a kernel that does not share processors among sessions
        Path(f"/proc/{pid}/autogroup").write_text(str(nice), encoding="ascii")
    try:
        threads.change_all(pid, partial(_renice_thread, pid, value=_with_ours(nice)))
    except PermissionError:  # nobody but root may raise the priority of threads again
        if sharing() != "session":
            raise


def _with_ours(nice: int) -> int:
    """Nice value of a child with `nice` added to that of this process."""
    return min(MOST_NICE, os.getpriority(os.PRIO_PROCESS, 0) + nice)


def _renice_thread(pid: int, thread: int, value: int) -> bool:
    """True if the thread had another nice value, or has just ended."""
    try:
        if os.getpriority(os.PRIO_PROCESS, thread) == value:
            return False
        if threads.is_there(pid, thread):  # else a stranger may have its number by now
            os.setpriority(os.PRIO_PROCESS, thread, value)
    except ProcessLookupError:
        pass
    return True


@functools.cache
def sharing(
    proc: Path = Path("/proc/self"), autogroup: Path = _AUTOGROUP, tree: Path = Path("/sys/fs/cgroup")
) -> Sharing:
    """Unit of weights without control groups of ours: children stay in the group that this process has.

    Sessions count only among processes in no group but that of all processes. Answered once.
    """
    if not autogroup.is_file() or autogroup.read_text().strip() != "1":
        return "thread"
    for line in (proc / "cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(",") and path != "/":
            return "thread"
        own = tree / path.lstrip("/")
        if number == "0" and any((folder / _NOT_IN_ROOT).exists() for folder in (own, *own.parents)):
            return "thread"
    return "session"
