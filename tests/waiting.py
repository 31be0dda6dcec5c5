"""Waiting for states that no event announces. Where an event, a descriptor or a lock exists, tests wait for that.

Nothing here sleeps: a test that sleeps is slow, and wrong on a busy machine where the sleep is too short.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from tests.limits import ANSWERS_WITHIN_S
from vhost_backend.sandbox.syscalls import X86_64

_T = TypeVar("_T")

_INT: Final = (1 << 32) - 1
_POINTER: Final = (1 << 64) - 1
_WAITS: Final = {
    X86_64["futex"]: (3, _POINTER, 0),
    X86_64["poll"]: (2, _INT, _INT),
    X86_64["epoll_wait"]: (3, _INT, _INT),
    X86_64["epoll_pwait"]: (3, _INT, _INT),
    X86_64["epoll_pwait2"]: (3, _POINTER, 0),
    X86_64["rt_sigtimedwait"]: (2, _POINTER, 0),
}
"""System calls that wait: index of the timeout argument, mask of its bits, and their value for "no timeout"."""


def until(condition: Callable[[], _T | None]) -> _T:
    """Waits until `condition` returns something true, and returns that.

    :raise AssertionError: that does not happen in time.
    """
    end = time.monotonic() + ANSWERS_WITHIN_S  # noqa: TID251  here alone
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"  # noqa: TID251
        os.sched_yield()
    return found


async def turns_until(condition: Callable[[], _T | None]) -> _T:
    """Waits as `until` does, while the event loop runs."""
    async with asyncio.timeout(ANSWERS_WITHIN_S):
        while not (found := condition()):  # noqa: ASYNC110
            await asyncio.sleep(0)  # noqa: TID251  a turn of the loop, no nap
    return found


def sleeps_for_good(thread: Path) -> bool:
    """True if a thread (``/proc/PID/task/TID``) waits in the kernel without a timeout.

    Such a thread uses no processor time until something wakes it.
    """
    words = (thread / "syscall").read_text().split()
    if len(words) < 7 or int(words[0]) not in _WAITS:  # it runs, or is stopped in something else
        return False
    index, bits, endless = _WAITS[int(words[0])]
    return int(words[1 + index], 16) & bits == endless


def threads_of(pid: int, name: str = "") -> list[Path]:
    """The threads of a process whose names begin with `name`, as folders of ``/proc``."""
    return [
        thread
        for thread in sorted(Path(f"/proc/{pid}/task").iterdir())
        if (thread / "comm").read_text().startswith(name)
    ]
