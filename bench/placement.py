"""Placement of driver and device on CPUs. The latency rows give the driver one CPU and the device the others, as a
guest's vCPU and its device have: otherwise the scheduler at times puts two processes that wake each other on one CPU,
and figures depend on chance.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def _threads(pids: Iterable[int]) -> list[int]:
    return [int(task.name) for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]


def driver_cpu() -> int:
    return min(os.sched_getaffinity(0))


def device_cpus() -> set[int]:
    """CPUs of the device: all but the driver's, or the only one."""
    cpus = os.sched_getaffinity(0)
    return cpus - {driver_cpu()} or cpus


@contextmanager
def apart(device_pids: Iterable[int] = ()) -> Iterator[None]:
    """Gives this thread one CPU, and every thread of `device_pids` the others, during the block."""
    mine, theirs = {driver_cpu()}, device_cpus()
    before = {0: os.sched_getaffinity(0)}
    for tid in _threads(device_pids):
        with suppress(ProcessLookupError):
            before[tid] = os.sched_getaffinity(tid)
    try:
        for tid in before:
            _place(tid, theirs if tid else mine)
        yield
    finally:
        for tid, cpus in before.items():
            _place(tid, cpus)


def _place(tid: int, cpus: set[int]) -> None:
    """Sets the CPUs of a thread, unless it has ended meanwhile."""
    with suppress(ProcessLookupError):
        os.sched_setaffinity(tid, cpus)
