"""Rows of kernels on the CPU engine, launched through the device, beside plain C++ and PoCL with equal threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Final

from bench import workloads
from bench.executors import on_device, on_pocl
from bench.lab import Lab
from bench.registry import Outcome, row
from bench.results import Goal, Samples, SkipRow, outcome
from bench.stats import Subject, alternate, attempt
from bench.workloads import Workload

STAGING_BYTES: Final = 64 << 20

Trio = tuple[Samples | SkipRow, Samples | SkipRow, Samples | SkipRow]
"""Figures of plain C++, PoCL and our device."""


def measured(lab: Lab, name: str, *sides: Subject | SkipRow) -> Trio:
    """Measures plain C++, PoCL and our device in turns; the lab keeps the samples for the geometric means."""
    theirs, peers, own = alternate(lab.samples(15, 5), *sides)
    lab.trios[name] = (theirs, peers, own)
    return lab.trios[name]


def measure(lab: Lab, work: Workload) -> Trio:
    """Measures a workload on all three sides."""
    with ExitStack() as prepared:
        cpp = lab.cpp.prepare(work, lab.threads)
        pocl = attempt(lambda: prepared.enter_context(on_pocl(lab.pocl(), work)))
        ours = attempt(lambda: prepared.enter_context(_on_ours(lab, work)))
        return measured(lab, work.name, cpp, pocl, ours)


def outcomes(lab: Lab, name: str, trio: Trio, goal: Goal | None = None) -> Iterator[Outcome]:
    """Lines of a workload or program; `goal` is that beside PoCL."""
    theirs, peers, own = trio
    cpp, pocl = f"plain C++, {lab.threads} threads", f"PoCL, {lab.threads} threads"
    yield outcome(name, own, "ms", "lower", theirs, against=cpp)
    yield outcome(f"{name}_beside_pocl", own, "ms", "lower", peers, against=pocl, goal=goal)
    yield outcome(f"pocl_{name}", peers, "ms", "lower", theirs, against=cpp)


def _on_ours(lab: Lab, work: Workload) -> AbstractContextManager[Subject]:
    device = lab.device("cpu").device
    return on_device(device, work, lab.staging(device, STAGING_BYTES))


def _register(make: Callable[[], Workload]) -> None:
    name = make.__name__

    @row(name, f"{name}_beside_pocl", f"pocl_{name}")
    def compare(lab: Lab) -> Iterator[Outcome]:
        yield from outcomes(lab, name, measure(lab, make()))


for _make in workloads.ALL:
    _register(_make)
