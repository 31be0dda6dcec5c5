"""Rows of kernels that reach the CPU engine as PTX of NVRTC, beside their CUDA C there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final

from bench import executors, program_executors, programs, ptx, workloads
from bench.device import Device, Span
from bench.executors import Timed
from bench.lab import Lab
from bench.programs import Program
from bench.registry import Outcome, row
from bench.results import Goal, outcome
from bench.rows.compute import STAGING_BYTES
from bench.stats import alternate
from bench.workloads import Workload

GOAL: Final = Goal("ratio", "<", 1.2)

Load = Callable[[Device, str], int]


def _prepared(work: Workload | Program, device: Device, staging: Span, load: Load) -> AbstractContextManager[Timed]:
    if isinstance(work, Workload):
        return executors.on_device(device, work, staging, load)
    return program_executors.on_device(device, work, staging, load)


def _register(make: Callable[[], Workload | Program]) -> None:
    name = f"ptx_{make.__name__}"

    @row(name)
    def compare(lab: Lab) -> Iterator[Outcome]:
        device, work = lab.device("cpu").device, make()
        staging = lab.staging(device, STAGING_BYTES)
        with (
            _prepared(work, device, staging, ptx.load) as ours,
            _prepared(work, device, staging, Device.load) as source,
        ):
            own, theirs = alternate(lab.samples(15, 5), ours, source)
        yield outcome(name, own, "ms", "lower", theirs, against="its CUDA C on the same device", goal=GOAL)


_MAKERS: Final[tuple[Callable[[], Workload | Program], ...]] = (*workloads.ALL, *programs.ALL)
for _make in _MAKERS:
    _register(_make)
