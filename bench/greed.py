"""Guests that always want more: each repeats its work on a thread, from the begin of a block to its end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from bench.cuda.work import busy, on_device
from bench.device import Device, Prepared, RequestError
from bench.driver import DriverError, Sustained, clock_ns
from bench.host_vms import MIB
from bench.results import SkipRow
from bench.vgcd import OurDevice
from bench.workloads import Workload

DEPTH: Final = 8
STREAMS: Final = 4
"""Launches that a greedy guest has in flight in each stream, and streams: all elements of its VM always have work."""
BLOCKS: Final = 64
_TRIAL_ROUNDS: Final = 20_000
_RESTS: Final = 9
_WARM_UP_NS: Final = 1_000_000_000
"""Time in which the daemon sees that a VM always has work, and gives each of its elements a core."""
_LONGEST_S: Final = 30.0
_ROOM: Final = MIB
_FAULT: Final = 'extern "C" __global__ void fault(unsigned *nowhere) { *nowhere = 1; }\n'

Times = npt.NDArray[np.uint64]


class Job(Protocol):
    """Work that goes on until it is stopped."""

    def forget(self) -> None:
        """Forgets an earlier run, and that it was stopped."""
        ...

    def run(self) -> None:
        """Works until `stop` is called, and ends what is under way. :raise: what the work raises."""
        ...

    def stop(self) -> None: ...

    @property
    def times(self) -> Times:
        """Times of :func:`clock_ns` at which equal parts of the work have ended, when :meth:`run` has returned."""
        ...


class Turns:
    """Job that repeats a turn."""

    def __init__(self, turn: Callable[[], None]) -> None:
        self._turn = turn
        self._ended = threading.Event()
        self._times: list[int] = []

    def forget(self) -> None:
        self._ended.clear()
        self._times.clear()

    def run(self) -> None:
        while not self._ended.is_set():
            self._turn()
            self._times.append(clock_ns())

    def stop(self) -> None:
        self._ended.set()

    @property
    def times(self) -> Times:
        return np.array(self._times, np.uint64)


class Launches:
    """Job that keeps equal launches in flight, so that the VM never waits for its driver."""

    def __init__(self, ours: OurDevice, launches: Prepared) -> None:
        self._ours, self._launches = ours, launches
        self._sustained = Sustained()

    def forget(self) -> None:
        self._sustained.forget()

    def run(self) -> None:
        self._ours.driver.sustain(self._launches.native, self._sustained)
        self._launches.check()

    def stop(self) -> None:
        self._sustained.stop()

    @property
    def times(self) -> Times:
        return self._sustained.times


def rate(times: Times, from_ns: int, to_ns: int) -> float | None:
    """Ends per second between two times of :func:`clock_ns`: the slope of the line that fits them best, since launches of several streams end
    nearly together. None: there are too few.
    """
    seen = times[(times >= from_ns) & (times <= to_ns)]
    if len(seen) < 2 * STREAMS or seen[-1] == seen[0]:
        return None
    seconds = (seen - seen[0]) / 1e9
    return float(np.polyfit(seconds, np.arange(len(seen)), 1)[0])


@contextmanager
def greedy(jobs: Sequence[Job], cores: Collection[int] = ()) -> Iterator[None]:
    """Has all jobs work, each on a thread, until the block ends; the threads run on `cores`; empty: on any.

    :raise: what one raises, at the end.
    """
    for job in jobs:
        job.forget()
    with ThreadPoolExecutor(max(1, len(jobs)), initializer=lambda: _settle(cores)) as pool:
        running = [pool.submit(job.run) for job in jobs]
        try:
            yield
        finally:
            for job in jobs:
                job.stop()
        for one in running:
            one.result()


def _settle(cores: Collection[int]) -> None:
    if cores:
        os.sched_setaffinity(0, cores)


def rates(jobs: Sequence[Job], seconds: float) -> list[float]:
    """Measures parts of work per second of all jobs, which work at one time; again for longer if one is too slow.

    :raise SkipRow: one is too slow for any time.
    """
    from_ns = clock_ns() + _WARM_UP_NS
    with greedy(jobs):
        time.sleep(seconds + _WARM_UP_NS / 1e9)
        to_ns = clock_ns()  # what is in flight then ends with less competition
    found = [rate(job.times, from_ns, to_ns) for job in jobs]
    if None in found and seconds > _LONGEST_S:
        raise SkipRow(f"a VM does not end two launches in {seconds:g} s")
    return rates(jobs, 4 * seconds) if None in found else [one for one in found if one is not None]


# ---- jobs ----------------------------------------------------------------------------------------


def sized(ours: OurDevice, pes: int, target_ms: float) -> Workload:
    """Makes a kernel that only computes, and takes about `target_ms` on one of the VM's `pes` elements."""
    trial = busy(BLOCKS, _TRIAL_ROUNDS)
    room = (ours.driver.take(_ROOM), _ROOM)
    with on_device(ours.device, trial, room) as work:
        took_ms = min(work.compute() for _ in range(_RESTS)) / 1e6 * min(pes, BLOCKS)
    return busy(BLOCKS, max(1, int(_TRIAL_ROUNDS * target_ms / took_ms)))


@contextmanager
def computing(ours: OurDevice, made: Workload, depth: int = DEPTH) -> Iterator[Job]:
    """Job of launches of a kernel, `depth` in each stream, whose result is verified at begin and end."""
    room = (ours.driver.take(_ROOM), _ROOM)
    with on_device(ours.device, made, room) as work:
        yield Launches(ours, work.launches(depth, STREAMS))
        work.prove()


def compiling(ours: OurDevice, fresh: Callable[[], str]) -> Job:
    """Job that loads a program; `fresh` makes a source that was never compiled before."""

    def turn() -> None:
        ours.device.unload(ours.device.load(fresh()))

    return Turns(turn)


def copying(ours: OurDevice, size: int) -> Job:
    """Job of copies in and out, of `size` bytes each."""
    span = (ours.driver.take(size), size)
    address = ours.device.alloc(size)
    into, out = ours.device.copy_in(address, span), ours.device.copy_out(address, span)

    def turn() -> None:
        ours.device.run(into)
        ours.device.run(out)

    return Turns(turn)


def faulting(ours: OurDevice) -> Job:
    """Job in which a kernel writes where it may not, which ends its worker; waits for the next worker.

    Each takes a megabyte of the region.
    """

    def turn() -> None:
        device = _new_context(ours)
        try:
            fault = device.function(device.load(_FAULT), "fault")
            device.run(device.launch(fault, (1,), (1,), (bytes(8),)))
        except RequestError:
            return
        raise ArithmeticError("a kernel that writes to address 0 does not fault")

    return Turns(turn)


def _new_context(ours: OurDevice) -> Device:
    """Context of the worker that serves, as soon as one does. :raise SkipRow: none does."""
    for _ in range(_RESTS):
        try:
            return Device(ours.driver)
        except (RequestError, DriverError) as error:
            last = error
    raise SkipRow(f"no worker serves after a fault: {last}") from last
