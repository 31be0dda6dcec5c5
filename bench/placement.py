"""Who runs on which CPU. The latency rows give the driver one CPU and the device the others, as a guest's vCPU and its
device have: left alone, the scheduler at times puts two processes that wake each other on the same one,
and a figure then depends on its mood.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def _threads(pids: Iterable[int]) -> list[int]:
    return [int(task.name) for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]


def driver_cpu() -> int:
    return min(os.sched_getaffinity(0))


def device_cpus() -> set[int]:
    """All others, where there are more than one."""
    cpus = os.sched_getaffinity(0)
    return cpus - {driver_cpu()} or cpus


@contextmanager
def apart(device_pids: Iterable[int] = ()) -> Iterator[None]:
    """While the block runs, this thread has one CPU, and every thread of `device_pids` the others."""
    mine, theirs = {driver_cpu()}, device_cpus()
    before = {0: os.sched_getaffinity(0)} | {tid: os.sched_getaffinity(tid) for tid in _threads(device_pids)}
    try:
        for tid in before:
            os.sched_setaffinity(tid, theirs if tid else mine)
        yield
    finally:
        for tid, cpus in before.items():
            _restore(tid, cpus)


def _restore(tid: int, cpus: set[int]) -> None:
    try:
        os.sched_setaffinity(tid, cpus)
    except ProcessLookupError:
        return  # the thread has ended meanwhile
