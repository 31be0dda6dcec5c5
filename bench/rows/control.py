"""Rows of the control system: cost of its hooks for kernels, and its throughput, beside runs without it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np

from bench.control_lab import Controlled, controlled
from bench.lab import Lab
from bench.registry import Outcome, row
from bench.results import Goal, Samples, outcome
from bench.stats import alternate
from virtio_proto.control.records import Function

AREA_BYTES: Final = 64 << 20
BLOCK_US: Final = 5.0
"""Time of a short block, for which the cost of hooks shows most."""
LONG_BLOCK_US: Final = 50.0
BLOCKS: Final = 400
EMPTY_BLOCKS: Final = 20_000
EVENTS: Final = 1000
"""Number of events per block of a kernel that floods the links."""
MANY_PES: Final = 1024
KERNEL_S: Final = 0.1
"""Time of a kernel that runs during several rounds of opening and closing channels."""
FOUR: Final = (Function.STDIO, Function.PERF, Function.LOG, Function.FAULT)
BUDGET_PPM: Final = 10_000
CRITICAL: Final = 1
INFO: Final = 4


def _ratio(rounds: int, run: Callable[[], float], beside: Callable[[], float]) -> float:
    """Ratio of the fastest `run` to the fastest `beside`, measured alternately: undisturbed runs show small costs."""
    pairs = [(run(), beside()) for _ in range(rounds)]
    return min(with_it for with_it, _ in pairs) / min(without for _, without in pairs)


def _percent(rounds: int, made: Controlled, plain: Controlled, block_us: float) -> float:
    """Cost of hooks relative to a block of `block_us`, in percent, measured as the difference of almost empty blocks.

    The difference of runs of real blocks would be smaller than the noise of this machine.
    """
    pairs = [(made.spin(EMPTY_BLOCKS, 1), plain.spin(EMPTY_BLOCKS, 1)) for _ in range(rounds)]
    added_ns = (min(with_it for with_it, _ in pairs) - min(without for _, without in pairs)) / EMPTY_BLOCKS
    return added_ns / (block_us * 1000) * 100


@row("hook_unbound_percent", "hook_block_percent", "hook_records_percent")
def hooks(lab: Lab) -> Iterator[Outcome]:
    """Cost of hooks without channels, with counters on every element, and with a record of each begin and end."""
    rounds = lab.samples(101, 25)
    with controlled(1) as plain, controlled(1, area_bytes=AREA_BYTES) as made:
        against = "the same engine without an area, blocks of {:g} us: by the difference of empty ones"
        percent = _percent(rounds, made, plain, BLOCK_US)
        baseline = against.format(BLOCK_US)
        yield outcome("hook_unbound_percent", percent, "%", "lower", against=baseline, goal=Goal("value", "<", 0.1))
        channels = made.open(Function.PERF, CRITICAL, period_ns=10**9)
        baseline = against.format(LONG_BLOCK_US)
        with made.drained():
            percent = _percent(rounds, made, plain, LONG_BLOCK_US)
        yield outcome("hook_block_percent", percent, "%", "lower", against=baseline, goal=Goal("value", "<", 0.44))
        made.driver.set(channels, INFO, 0)
        with made.drained():
            percent = _percent(rounds, made, plain, LONG_BLOCK_US)
            made.release(channels)
        yield outcome("hook_records_percent", percent, "%", "lower", against=baseline)


@row("ring_full_ratio", "governed_ratio")
def ring(lab: Lab) -> Iterator[Outcome]:
    """Slowdown of a kernel with blocks of 5 us whose begins and ends are recorded and read, also with the governor."""
    rounds = lab.samples(101, 25)
    with controlled(1) as plain, controlled(1, area_bytes=AREA_BYTES) as made:
        turns = plain.turns_for(BLOCK_US)
        channels = made.open(Function.PERF, INFO, slots=4096, period_ns=10**9)
        for name, budget_ppm, goal in (
            ("ring_full_ratio", 0, Goal("value", "<", 1.2)),
            ("governed_ratio", BUDGET_PPM, None),
        ):
            with made.drained(budget_ppm):
                _warm_up(lab, made, turns)
                ratio = _ratio(rounds, lambda: made.spin(BLOCKS, turns), lambda: plain.spin(BLOCKS, turns))
            yield outcome(name, ratio, "", "lower", 1.0, against="the same engine without an area", goal=goal)
        made.release(channels)


def _warm_up(lab: Lab, made: Controlled, turns: int) -> None:
    """Runs the kernel long enough for the governor to settle."""
    end = time.monotonic() + (2.0 if lab.samples(2, 1) == 2 else 0.5)
    while time.monotonic() < end:
        made.spin(BLOCKS, turns)


@row("records_per_s", "records_per_s_pe", "records_lost_uncounted")
def records(lab: Lab) -> Iterator[Outcome]:
    """Records per second of kernels that only make events, read by one thread: from all elements, from one."""
    uncounted = 0
    for name, pes in (("records_per_s", lab.threads), ("records_per_s_pe", 1)):
        with controlled(pes, area_bytes=AREA_BYTES) as made:
            bound, unbound = [], []
            for _ in range(lab.samples(9, 3)):
                rate, missing = _flood(made, pes * 200, EVENTS)
                bound.append(rate)
                unbound.append(_events_per_s(made, pes * 200))
                uncounted += missing
        against = "events per second of the same kernel with no channel open"
        yield outcome(name, Samples(tuple(bound)), "1/s", "higher", Samples(tuple(unbound)), against=against)
    yield outcome("records_lost_uncounted", float(uncounted), "", "lower", goal=Goal("value", "<", 1))


def _events_per_s(made: Controlled, blocks: int) -> float:
    """Measures the events per second that a kernel makes with no channel open."""
    began = time.perf_counter()
    made.rig.launch("events", blocks, 1, np.int32(EVENTS))
    return blocks * EVENTS / (time.perf_counter() - began)


def _flood(made: Controlled, blocks: int, each: int) -> tuple[float, int]:
    """Measures records read per second; also returns the number of records neither read nor counted as lost."""
    channels = made.open(Function.PERF, INFO, slots=8192, period_ns=10**12)
    with made.drained():
        began = time.perf_counter()
        made.rig.launch("events", blocks, 1, np.int32(each))
        seconds = time.perf_counter() - began
    during = made.taken
    made.release(channels)
    return during / seconds, abs(blocks * (each + 2) - made.taken - made.lost)


@row("channels_4096_open_close_s", "channels_4096_kernel_ratio", "snapshot_all_ms")
def many(lab: Lab) -> Iterator[Outcome]:
    """Opening and closing of four functions on 1024 elements, its effect on a running kernel, and a snapshot."""
    with controlled(MANY_PES, area_bytes=AREA_BYTES) as made, controlled(1, area_bytes=AREA_BYTES) as one:

        def beside_a_kernel() -> float:
            with made.busy(lab.threads):
                return _open_and_close(made)

        times, idle = alternate(lab.samples(9, 3), beside_a_kernel, lambda: _open_and_close(made))
        goal = Goal("value", "<", 1.0)
        against = "the same while no kernel runs"
        yield outcome("channels_4096_open_close_s", times, "s", "lower", idle, against=against, goal=goal)
        ratio = _disturbance(made, lab.samples(21, 7))
        against = "the same kernel of one block while nothing is opened"
        yield outcome("channels_4096_kernel_ratio", ratio, "", "lower", 1.0, against=against)
        looks, single = alternate(lab.samples(21, 7), lambda: _look_ms(made), lambda: _look_ms(one))
        yield outcome("snapshot_all_ms", looks, "ms", "lower", single, against=f"one element; here {MANY_PES}")


def _open_and_close(made: Controlled) -> float:
    """Opens and closes all channels of all elements; returns the time in seconds."""
    began = time.perf_counter()
    opened = [made.open(function, INFO, 1 + MANY_PES * place) for place, function in enumerate(FOUR)]
    for channels in opened:
        made.release(channels)
    return time.perf_counter() - began


def _disturbance(made: Controlled, rounds: int) -> float:
    """Ratio of a kernel's time while all channels are repeatedly opened and released to its time without that."""
    turns = made.turns_for_one(KERNEL_S)
    done = threading.Event()

    def churn() -> None:
        while not done.is_set():
            _open_and_close(made)

    def beside() -> float:
        done.clear()
        with ThreadPoolExecutor(1) as pool:
            churning = pool.submit(churn)
            try:
                return made.spin(1, turns)
            finally:
                done.set()
                churning.result()

    return _ratio(rounds, beside, lambda: made.spin(1, turns))


def _look_ms(made: Controlled) -> float:
    began = time.perf_counter()
    made.driver.look(0)
    return (time.perf_counter() - began) * 1000
