"""Threads on the processors that their VM may use. Their process may not change it: its system call filter does not allow it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PASSES: Final = 64
"""Passes over a process's threads, each of which may start further ones meanwhile."""
_QUIET: Final = 3
"""Passes in a row that find nothing to change: one may miss a thread, if others end while the kernel lists them."""


class RestlessError(OSError):
    """A process starts threads faster than they can be changed."""


def settle(pid: int, cores: Collection[int]) -> None:
    """Has all threads of a process run on `cores`.

    :raise OSError: the process is gone, or this one may not do it.
    """
    _settle(pid, lambda _thread, _present: cores)


def settle_family(pid: int, cores: Collection[int]) -> None:
    """Has all threads of a process, and of the processes that descend from it, run on `cores`.

    :raise OSError: the process is gone, or this one may not do it.
    """
    settle(pid, cores)
    for child in _children(pid):  # those of later ones, too: they inherit the processors
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            settle_family(child, cores)


def place(pid: int, elements: Collection[int], own: Collection[int], others: Collection[int]) -> None:
    """Has the threads `elements` of a process run on the processors `own`, and all others on `others`.

    :raise OSError: the process is gone, or this one may not do it.
    """
    _settle(pid, lambda thread, _present: own if thread in elements else others)


def move(pid: int, own: frozenset[int], others: Collection[int]) -> None:
    """Has all threads of a process that do not run on `own` alone run on `others`.

    :raise OSError: the process is gone, or this one may not do it.
    """
    _settle(pid, lambda _thread, present: present if present <= own else others)


def keep(pid: int, servers: Collection[int], others: frozenset[int], rest: frozenset[int]) -> None:
    """Puts threads of a process that are not where they may be there: `servers` on `others`, and the rest on `rest`.

    Guest code may have started some in a serving thread that it has interrupted, or just when all were moved.

    :raise OSError: the process is gone, or this one may not do it.
    """
    for task in Path(f"/proc/{pid}/task").iterdir():
        thread = int(task.name)
        allowed = others if thread in servers else rest
        with contextlib.suppress(ProcessLookupError):
            if not allowed.issuperset(os.sched_getaffinity(thread)):
                put(pid, thread, allowed)


@dataclass(frozen=True, slots=True)
class Times:
    """Time that a thread has had since its begin."""

    ran_ns: int
    waited_ns: int
    """Time for which it waited for a processor."""
    turns: int
    """Number of times that it got one."""


def times(pid: int, thread: int) -> Times | None:
    """Times of a thread of a process; None: it has ended, or this kernel does not count them
    [Linux: Documentation/scheduler/sched-stats.rst, "/proc/<pid>/schedstat"].
    """
    try:
        ran, waited, turns = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()
    except (OSError, ValueError):
        return None
    return Times(int(ran), int(waited), int(turns))


def is_there(pid: int, thread: int) -> bool:
    """True if a process has this thread."""
    return Path(f"/proc/{pid}/task/{thread}").exists()


def put(pid: int, thread: int, cores: Collection[int]) -> None:
    """Has one thread of a process run on `cores`; nothing happens if it has ended, as its number may be a stranger's by now.

    :raise OSError: this process may not do it, or the host has lost all of these processors.
    """
    if is_there(pid, thread):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(thread, cores)


def named(pid: int, beginning: str) -> frozenset[int]:
    """Threads of a process whose names begin like this; guest code may give its threads any name.

    :raise OSError: the process is gone.
    """
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return frozenset(int(task.name) for task in tasks if _text(task / "comm").startswith(beginning))


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in _text(task / "children").split()]


def _settle(pid: int, wanted: Callable[[int, frozenset[int]], Collection[int]]) -> None:
    """Moves threads until none is left to move. `wanted`: processors of a thread, by its number and its present ones."""
    change_all(pid, lambda thread: _move(pid, thread, wanted))


def change_all(pid: int, change: Callable[[int], bool]) -> None:
    """Changes threads of a process until none is left to change; those that they start meanwhile inherit the change.

    `change` returns true if the thread was not changed before, or has just ended.

    :raise OSError: the process is gone, or it starts threads without end (`RestlessError`).
    """
    quiet = 0
    for _ in range(_PASSES):
        changed = [change(int(task.name)) for task in Path(f"/proc/{pid}/task").iterdir()]
        quiet = 0 if any(changed) else quiet + 1
        if quiet == _QUIET:
            return
    raise RestlessError(f"process {pid} starts threads without end")


def _move(pid: int, thread: int, wanted: Callable[[int, frozenset[int]], Collection[int]]) -> bool:
    """True if the thread was elsewhere, or has just ended. Of processors that the host has lost, it gets those that are left."""
    try:
        present = frozenset(os.sched_getaffinity(thread))
        cores = frozenset(wanted(thread, present))
        if cores == present:
            return False
        if not is_there(pid, thread):
            return True
        os.sched_setaffinity(thread, cores)
        if not is_there(pid, thread):  # a stranger may have its number by now
            os.sched_setaffinity(thread, present)
            return True
        return frozenset(os.sched_getaffinity(thread)) != present
    except ProcessLookupError:
        return True


def _text(file: Path) -> str:
    """Contents of a thread's file; "" if it has ended."""
    try:
        return file.read_text(errors="replace")  # guest code names its threads as it likes
    except (FileNotFoundError, ProcessLookupError):
        return ""
