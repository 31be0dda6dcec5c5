"""Rows of whole programs on the CPU engine, beside plain C++ and PoCL, and the geometric means of all compute rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from bench import programs, workloads
from bench.lab import Lab
from bench.program_executors import on_device, on_pocl, plain_cpp
from bench.programs import Program
from bench.registry import Outcome, row
from bench.results import Figure, Goal, Samples, SkipRow, outcome
from bench.rows import compute
from bench.stats import alternate, attempt
from vhost_backend.engines.cpu.cccl import HINT, cccl

SLOWEST = Goal("ratio", "<", 1.0)
MEAN = Goal("ratio", "<", 0.5)


def _measure(lab: Lab, make: Callable[[], Program]) -> compute.Trio:
    program = make()
    with ExitStack() as prepared:
        cpp = plain_cpp(lab.cpp, program, lab.threads)
        pocl = attempt(lambda: prepared.enter_context(on_pocl(lab.pocl(), program)))
        device = lab.device("cpu").device
        staging = lab.staging(device, compute.STAGING_BYTES)
        ours = prepared.enter_context(on_device(device, program, staging))
        return compute.measured(lab, program.name, cpp, pocl, ours)


def _register(make: Callable[[], Program]) -> None:
    name = make.__name__

    @row(name, f"{name}_beside_pocl", f"pocl_{name}")
    def measure(lab: Lab) -> Iterator[Outcome]:
        yield from compute.outcomes(lab, name, _measure(lab, make), SLOWEST)


for _make in programs.ALL:
    _register(_make)


@row("radix_sort")
def radix_sort(lab: Lab) -> Iterator[Outcome]:
    """Radix sort with CUB's algorithms for blocks, beside std::sort on as many threads; not part of the means, as PoCL
    has no CUB.
    """
    if cccl() is None:
        raise SkipRow(f"CUB is not installed: {HINT}")
    program = programs.radix_sort()
    device = lab.device("cpu").device
    with on_device(device, program, lab.staging(device, compute.STAGING_BYTES)) as run:
        ours, theirs = alternate(lab.samples(15, 5), run, plain_cpp(lab.cpp, program, lab.threads))
    yield outcome("radix_sort", ours, "ms", "lower", theirs, against=f"std::sort, {lab.threads} threads")


def _mean(samples: list[Figure]) -> Figure:
    """Geometric mean of medians, or the reason why a figure is missing."""
    logarithms = []
    for figure in samples:
        if isinstance(figure, SkipRow):
            return figure
        logarithms.append(math.log(figure.median if isinstance(figure, Samples) else figure))
    return math.exp(sum(logarithms) / len(logarithms))


@row("software_gpu_geomean", "software_gpu_geomean_beside_pocl")
def geomean(lab: Lab) -> Iterator[Outcome]:
    """Geometric means over the compute rows and programs; those that this run has not measured yet are measured."""
    trios = [lab.trios.get(make.__name__) or compute.measure(lab, make()) for make in workloads.ALL]
    trios += [lab.trios.get(make.__name__) or _measure(lab, make) for make in programs.ALL]
    theirs, peers, own = (_mean([trio[side] for trio in trios]) for side in range(3))
    count = len(trios)
    yield outcome(
        *("software_gpu_geomean", own, "ms", "lower", theirs),
        against=f"plain C++, {lab.threads} threads, {count} programs",
    )
    yield outcome(
        *("software_gpu_geomean_beside_pocl", own, "ms", "lower", peers),
        against=f"PoCL, {lab.threads} threads, {count} programs",
        goal=MEAN,
    )
