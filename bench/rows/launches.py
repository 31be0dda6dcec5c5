"""Rows of launches on the CPU engine: their round trip, their cost back to back, and how blocks are shared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from bench.device import Device, Prepared
from bench.lab import Lab
from bench.registry import Outcome, row
from bench.results import Goal, outcome
from bench.stats import alternate
from bench.workloads import KERNELS

IN_FLIGHT: Final = 1000
"""Launches of the row back to back."""

IN_GRAPH: Final = 20
"""Launches of the graph."""

BLOCKS: Final = 64
LONG_ONE: Final = BLOCKS // 4
LONGER: Final = 50
ROUNDS: Final = 25_000
"""Steps of a block of the uneven grid, about 100 us."""

TINY: Final = 1_000_000
"""Blocks of the grid of tiny blocks."""


@row("launch_us_p50", "launch_us_p99")
def launch(lab: Lab) -> Iterator[Outcome]:
    """LAUNCH of an empty kernel with one thread, while the driver spins."""
    device = lab.device("cpu").device
    program = device.load((KERNELS / "empty.cu").read_text())
    empty = device.launch(device.function(program, "empty"), (1,), (1,))
    p99: list[float] = []

    def run() -> float:
        times = device.driver.polled(empty.native, lab.samples(5_000, 2_000)) / 1e3
        empty.check()
        p99.append(float(np.percentile(times, 99)))
        return float(np.median(times))

    (p50,) = alternate(lab.samples(15, 7), run)
    device.unload(program)
    yield outcome("launch_us_p50", p50, "us", "lower")
    yield outcome("launch_us_p99", float(np.median(p99)), "us", "lower")


def _milliseconds(device: Device, launches: Prepared) -> Callable[[], float]:
    return lambda: device.run_all(launches) / 1e6


@row("launch_back_to_back_us", "launch_back_to_back_blocks_us")
def back_to_back(lab: Lab) -> Iterator[Outcome]:
    """Launches of an empty kernel in one stream, sent all at once: time of each, with one block and with a block for
    each processing element.
    """
    device = lab.device("cpu").device
    program = device.load((KERNELS / "empty.cu").read_text())
    empty = device.function(program, "empty")
    one, several = (device.launches(IN_FLIGHT, empty, (blocks,), (32,)) for blocks in (1, lab.threads))
    scale = 1e3 * IN_FLIGHT  # ns of all to us of one
    single, grid = alternate(
        lab.samples(31, 15), lambda: device.run_all(one) / scale, lambda: device.run_all(several) / scale
    )
    device.unload(program)
    yield outcome("launch_back_to_back_us", single, "us", "lower", goal=Goal("value", "<", 3.0))
    yield outcome("launch_back_to_back_blocks_us", grid, "us", "lower", single, against="one block")


@row("graph_launch_us", "graph_launch_awaited_us")
def graph(lab: Lab) -> Iterator[Outcome]:
    """Graph of 20 launches of an empty kernel, launched by one request, beside 20 requests: sent all at once, and each
    when the one before it is done. The driver spins.
    """
    device = lab.device("cpu").device
    program = device.load((KERNELS / "empty.cu").read_text())
    empty = device.function(program, "empty")
    made = device.graph(IN_GRAPH, empty, (1,), (1,))
    as_one, at_once = device.graph_launch(made), device.launches(IN_GRAPH, empty, (1,), (1,))
    each = device.launch(empty, (1,), (1,))

    def polled(prepared: Prepared) -> float:
        times = device.driver.polled(prepared.native, lab.samples(2_000, 500)) / 1e3
        prepared.check()
        return float(np.median(times))

    def batches() -> float:
        return float(np.median([device.run_batch(at_once) / 1e3 for _ in range(lab.samples(500, 100))]))

    ours, batch, awaited = alternate(
        lab.samples(15, 7), lambda: polled(as_one), batches, lambda: polled(each) * IN_GRAPH
    )
    device.drop_graph(made)
    device.unload(program)
    yield outcome("graph_launch_us", ours, "us", "lower", batch, against="20 launches sent at once")
    yield outcome("graph_launch_awaited_us", ours, "us", "lower", awaited, against="20 launches, each awaited")


@row("uneven_blocks_ms")
def uneven(lab: Lab) -> Iterator[Outcome]:
    """Grid in which one block takes as long as 50 others, beside the same work in equal blocks."""
    device = lab.device("cpu").device
    program = device.load((KERNELS / "uneven.cu").read_text())
    function = device.function(program, "uneven")
    out = device.alloc(BLOCKS * 4)
    equal = ROUNDS * (BLOCKS - 1 + LONGER) // BLOCKS

    def grid(rounds: int, longest: int) -> Callable[[], float]:
        arguments = (np.uint32(rounds), np.uint32(LONG_ONE), np.uint32(longest), np.uint64(out))
        raw = [value.tobytes() for value in arguments]
        return _milliseconds(device, device.launch(function, (BLOCKS,), (1,), raw))

    ours, ideal = alternate(lab.samples(31, 15), grid(ROUNDS, ROUNDS * LONGER), grid(equal, equal))
    device.free(out)
    device.unload(program)
    yield outcome("uneven_blocks_ms", ours, "ms", "lower", ideal, against="equal blocks of the same work")


@row("tiny_block_ns")
def tiny(lab: Lab) -> Iterator[Outcome]:
    """Time of an empty block in a grid of a million, beside one in a grid of a thousand, launches included."""
    device = lab.device("cpu").device
    program = device.load((KERNELS / "empty.cu").read_text())
    empty = device.function(program, "empty")
    few = TINY // 1000
    million = _milliseconds(device, device.launch(empty, (TINY,), (1,)))
    thousands = _milliseconds(device, device.launches(100, empty, (few,), (1,)))
    ours, theirs = alternate(
        lab.samples(15, 7), lambda: million() * 1e6 / TINY, lambda: thousands() * 1e6 / (100 * few)
    )
    device.unload(program)
    yield outcome("tiny_block_ns", ours, "ns", "lower", theirs, against="100 grids of 1,000 blocks")
