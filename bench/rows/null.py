"""Rows of null requests: cost of the data path without engine work, beside bare primitives and QEMU's vhost-user
backend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from bench.driver import check, nanoseconds
from bench.lab import Lab
from bench.native.loops import lib
from bench.placement import apart, device_cpus
from bench.registry import Outcome, row
from bench.results import Goal, SkipRow, outcome
from bench.stats import Subject, alternate, attempt

DEPTH: Final = 80
"""Requests in flight in the pipelined rows: up to three descriptors each, in a ring of 256."""

IDLE_NS: Final = 1_000_000
"""Rest before each request of the sleeping rows: long enough for both sides to go to sleep."""

NAP_NS: Final = 20_000
"""Shortest nap of the data plane during a GPU's work."""

WORKER_SLACK_NS: Final = 1
"""Timer slack that a worker sets."""
DEFAULT_SLACK_NS: Final = 50_000
"""Timer slack that every process starts with."""

PEER: Final = "qemu-storage-daemon"
Side = Literal["peer", "ours"]
SIDES: Final[tuple[Side, Side]] = ("peer", "ours")

Times = npt.NDArray[np.uint64]


class Percentiles:
    """Subject that yields the p50 (us) of a run of round trips and keeps the p99 of every run."""

    def __init__(self, times: Callable[[], Times]) -> None:
        self._times = times
        self._p99: list[float] = []

    def __call__(self) -> float:
        times = self._times()
        self._p99.append(float(np.percentile(times, 99)) / 1e3)
        return float(np.percentile(times, 50)) / 1e3

    @property
    def p99(self) -> float:
        return float(np.median(self._p99))


def _eventfd(count: int) -> Times:
    times, pointer = nanoseconds(count)
    partner_cpu = max(device_cpus())
    with apart():
        check(lib.vgcb_eventfd_ping_pong(partner_cpu, count, IDLE_NS, pointer), "eventfd ping-pong")
    return times


def _cache_line(count: int) -> Times:
    times, pointer = nanoseconds(count)
    partner_cpu = max(device_cpus())
    with apart():
        check(lib.vgcb_cache_line_ping_pong(partner_cpu, count, pointer), "cache line ping-pong")
    return times


def _naps(count: int, slack_ns: int) -> Times:
    times, pointer = nanoseconds(count)
    with apart():
        check(lib.vgcb_naps(count, NAP_NS, slack_ns, pointer), "naps")
    return times


class Nulls:
    """Null requests to the peer or to our device, the driver on one CPU and the device on the others.

    :raise SkipRow: the backend cannot run on this machine.
    """

    def __init__(self, lab: Lab, side: Literal["peer", "ours"], count: int = 1) -> None:
        self._backend = lab.peer if side == "peer" else lab.device("null")
        self._driver = self._backend.driver
        self._requests = self._backend.null_requests(count)

    def polled(self, count: int) -> Times:
        with apart(self._backend.pids):
            return self._driver.polled(self._requests, count)

    def sleeping(self, count: int) -> Times:
        """Measures round trips with both sides asleep.

        :raise SkipRow: the device was not asleep, so that the figure would be wrong.
        """
        before = self._driver.kicks
        with apart(self._backend.pids):
            times = self._driver.sleeping(self._requests, count, IDLE_NS)
        kicked = self._driver.kicks - before
        if kicked < count * 9 // 10:
            raise SkipRow(f"the device slept before {kicked} of {count} requests only")
        return times

    def per_second(self, count: int) -> float:
        """Measures requests per second with all requests in flight."""
        with apart(self._backend.pids):
            return self._driver.pipelined(self._requests, count)


@row("cache_line_ping_pong_us_p50")
def cache_line_ping_pong(lab: Lab) -> Iterator[Outcome]:
    """Round trip between two processes that spin on a cache line each: the lower bound of every polled row."""
    (samples,) = alternate(lab.samples(9, 5), Percentiles(lambda: _cache_line(20_000)))
    yield outcome("cache_line_ping_pong_us_p50", samples, "us", "lower")


@row("peer_null_us_p50", "peer_null_us_p99", "null_polled_us_p50", "null_polled_us_p99")
def polled(lab: Lab) -> Iterator[Outcome]:
    """Null requests, one at a time, while the driver spins; the device is in a separate process."""
    count = lab.samples(20_000, 5_000)
    peer, ours = (attempt(partial(_polled, lab, side, count)) for side in SIDES)
    theirs, own = alternate(lab.samples(15, 7), peer, ours)
    theirs99, own99 = (s if isinstance(s, SkipRow) else s.p99 for s in (peer, ours))
    yield outcome("peer_null_us_p50", theirs, "us", "lower")
    yield outcome("peer_null_us_p99", theirs99, "us", "lower")
    yield outcome("null_polled_us_p50", own, "us", "lower", theirs, against=PEER, goal=Goal("value", "<", 1.0))
    yield outcome("null_polled_us_p99", own99, "us", "lower", theirs99, against=PEER)


def _polled(lab: Lab, side: Side, count: int) -> Percentiles:
    nulls = Nulls(lab, side)
    return Percentiles(lambda: nulls.polled(count))


@row("eventfd_ping_pong_us_p50", "peer_sleeping_us_p50", "null_sleeping_us_p50")
def sleeping(lab: Lab) -> Iterator[Outcome]:
    """Null requests, one at a time, both sides asleep before each, beside two processes with an eventfd each way."""
    count = lab.samples(300, 100)
    peer, ours = (attempt(partial(_sleeping, lab, side, count)) for side in SIDES)
    floor, theirs, own = alternate(lab.samples(9, 5), Percentiles(lambda: _eventfd(count)), peer, ours)
    against = "eventfd ping-pong"
    yield outcome("eventfd_ping_pong_us_p50", floor, "us", "lower")
    yield outcome("peer_sleeping_us_p50", theirs, "us", "lower", floor, against=against)
    yield outcome("null_sleeping_us_p50", own, "us", "lower", floor, against=against, goal=Goal("ratio", "<", 2.0))


def _sleeping(lab: Lab, side: Side, count: int) -> Percentiles:
    nulls = Nulls(lab, side)
    return Percentiles(lambda: nulls.sleeping(count))


@row("nap_20us_us_p50", "nap_20us_us_p99")
def naps(lab: Lab) -> Iterator[Outcome]:
    """Real time of a nap of 20 us with a worker's timer slack, after which the napping data plane sees the end of a
    GPU's work; beside a nap with the default slack.
    """
    count = lab.samples(2_000, 500)
    ours, theirs = (Percentiles(partial(_naps, count, slack)) for slack in (WORKER_SLACK_NS, DEFAULT_SLACK_NS))
    own, default = alternate(lab.samples(15, 7), ours, theirs)
    against = "timer slack of 50 us"
    yield outcome("nap_20us_us_p50", own, "us", "lower", default, against=against)
    yield outcome("nap_20us_us_p99", ours.p99, "us", "lower", theirs.p99, against=against)


@row("peer_null_pipelined_per_s", "null_pipelined_per_s")
def pipelined(lab: Lab) -> Iterator[Outcome]:
    """Null requests per second with 80 in flight on one queue, while the driver spins."""
    count = lab.samples(400_000, 200_000)
    peer, ours = (attempt(partial(_pipelined, lab, side, count)) for side in SIDES)
    theirs, own = alternate(lab.samples(15, 7), peer, ours)
    yield outcome("peer_null_pipelined_per_s", theirs, "1/s", "higher")
    goal = Goal("value", ">=", 2e6)
    yield outcome("null_pipelined_per_s", own, "1/s", "higher", theirs, against=PEER, goal=goal)


def _pipelined(lab: Lab, side: Side, count: int) -> Subject:
    nulls = Nulls(lab, side, DEPTH)
    return lambda: nulls.per_second(count)
