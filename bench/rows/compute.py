"""Rows of kernels on the CPU engine, launched through the device, beside plain C++ and PoCL with equal threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Final

import numpy as np

from bench import workloads
from bench.executors import on_device, on_pocl
from bench.lab import Lab
from bench.registry import Outcome, row
from bench.results import outcome
from bench.stats import Subject, alternate, attempt
from bench.workloads import KERNELS, Workload

STAGING_BYTES: Final = 64 << 20


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


def _compare(lab: Lab, work: Workload) -> Iterator[Outcome]:
    with ExitStack() as prepared:
        cpp = lab.cpp.prepare(work, lab.threads)
        pocl = attempt(lambda: prepared.enter_context(on_pocl(lab.pocl(), work)))
        ours = attempt(lambda: prepared.enter_context(_on_ours(lab, work)))
        theirs, peers, own = alternate(lab.samples(15, 5), cpp, pocl, ours)
    yield outcome(work.name, own, "ms", "lower", theirs, against=f"plain C++, {lab.threads} threads")
    yield outcome(f"{work.name}_beside_pocl", own, "ms", "lower", peers, against=f"PoCL, {lab.threads} threads")
    yield outcome(f"pocl_{work.name}", peers, "ms", "lower", theirs, against=f"plain C++, {lab.threads} threads")


def _on_ours(lab: Lab, work: Workload) -> AbstractContextManager[Subject]:
    device = lab.device("cpu").device
    return on_device(device, work, lab.staging(device, STAGING_BYTES))


def _register(make: Callable[[], Workload]) -> None:
    name = make.__name__

    @row(name, f"{name}_beside_pocl", f"pocl_{name}")
    def measure(lab: Lab) -> Iterator[Outcome]:
        return _compare(lab, make())


for _make in workloads.ALL:
    _register(_make)
