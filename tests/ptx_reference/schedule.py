"""Order of execution: each thread runs up to a barrier or an operation of its warp, then the next one."""

from __future__ import annotations

from typing import Any, Final

from tests.ptx_reference.threads import LANES, STOP, ExecutionError, Thread, Wait

MOST_STEPS: Final = 2_000_000
"""Statements of one thread between two barriers, beyond which a kernel counts as hanging."""


def run_block(threads: list[Thread]) -> None:
    """Runs the threads of a block to their ends."""
    while True:
        moved = False
        for thread in threads:
            if not thread.done and thread.wait is None:
                run_thread(thread)
                moved = True
        for first in range(0, len(threads), LANES):
            moved |= meet_in_warp(threads[first : first + LANES])
        moved |= meet_at_barriers(threads)
        if all(thread.done for thread in threads):
            return
        if not moved:
            raise ExecutionError("threads wait for each other for ever")


def run_thread(thread: Thread) -> None:
    """Runs a thread up to its next wait, or to its end."""
    for _ in range(MOST_STEPS):
        steps = thread.frames[-1].program.steps
        if thread.pc >= len(steps):
            if not leave(thread):
                return
            continue
        found = steps[thread.pc](thread)
        if found is None:
            thread.pc += 1
        elif found == STOP:
            return
        else:
            thread.pc = found
    raise ExecutionError("a thread does not end")


def leave(thread: Thread) -> bool:
    """Returns from a function; false if it was the kernel."""
    finish = thread.frame.finish
    if finish is None:
        thread.done = True
        return False
    finish()
    return True


def meet_in_warp(lanes: list[Thread]) -> bool:
    """Lets lanes go on that all wait at one operation of the warp; true if some do."""
    moved = False
    for thread in lanes:
        wait = thread.wait
        if wait is None or not wait.mask:
            continue
        members = {other.lane: other for other in lanes if wait.mask >> other.lane & 1 and not other.done}
        if all(other.wait is not None and other.wait.key == wait.key for other in members.values()):
            release(members, wait)
            moved = True
    return moved


def meet_at_barriers(threads: list[Thread]) -> bool:
    """Lets threads go on whose barrier is complete; true if some do."""
    waiting: dict[tuple[Any, ...], list[Thread]] = {}
    for thread in threads:
        if thread.wait is not None and not thread.wait.mask:
            waiting.setdefault(thread.wait.key, []).append(thread)
    alive = sum(not thread.done for thread in threads)
    moved = False
    for group in waiting.values():
        wait = group[0].wait
        if wait is not None and len(group) == (wait.count or alive):
            release({thread.number: thread for thread in group}, wait)
            moved = True
    return moved


def release(members: dict[int, Thread], wait: Wait) -> None:
    wait.finish(members)
    for thread in members.values():
        thread.wait = None
        thread.pc += 1
