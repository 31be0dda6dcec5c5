"""Rows of kernels on the GPU through the device, beside the same cubins launched natively with the same geometry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from bench import workloads
from bench.cuda import work
from bench.cuda.work import Native, OnDevice, on_device
from bench.lab import Lab
from bench.registry import Outcome, row
from bench.results import Goal, Samples, SkipRow, outcome
from bench.rows.cuda import NATIVE
from bench.workloads import Workload

DEPTH: Final = 16
"""Launches in flight in the rows without copies."""

SAMPLE_S: Final = 0.1
"""Rough time of a sample of the rows without copies."""

GOAL: Final = Goal("ratio", ">=", 0.97)

QUOTED: Final = "_256m"
"""Size that is quoted: arrays of 64 MiB fit largely in a GPU's cache (60 MB on an H200), and would not measure its
memory."""

WORK: Final[dict[str, tuple[Callable[[], Workload], Callable[[], Workload]]]] = {
    "saxpy_64m": (partial(workloads.saxpy, 1 << 24), partial(workloads.saxpy, 1 << 12)),
    "saxpy_256m": (partial(workloads.saxpy, 1 << 26), partial(workloads.saxpy, 1 << 14)),
    "reduce_64m": (partial(workloads.reduce, 1 << 24, 1024), partial(workloads.reduce, 1 << 12, 4)),
    "reduce_256m": (partial(workloads.reduce, 1 << 26, 1024), partial(workloads.reduce, 1 << 14, 4)),
    "stencil_64m": (partial(work.stencil, 1 << 12), partial(work.stencil, 1 << 6)),
    "stencil_256m": (partial(work.stencil, 1 << 13), partial(work.stencil, 1 << 7)),
    "matmul_64m": (partial(workloads.matmul_tiled, 1 << 12), partial(workloads.matmul_tiled, 1 << 6)),
    "nbody_128k": (partial(work.nbody, 1 << 17), partial(work.nbody, 1 << 10)),
}
"""Workloads by name, which has the bytes of one array or the number of bodies; in full size, and small for --smoke."""


def _pipelined(lab: Lab, ours: OnDevice, theirs: Native) -> Iterator[Samples | SkipRow]:
    """Measures launches per second: native, then ours."""
    count = lab.cuda.size(max(DEPTH, min(2_000, int(SAMPLE_S * 1e9 / theirs.compute()))), DEPTH)
    launches = ours.launches(DEPTH)

    def through_us() -> float:
        per_second = lab.cuda.vm.driver.pipelined(launches.native, count)
        launches.check()
        return per_second

    yield from lab.cuda.alternate(lab.samples(9, 5), lambda: theirs.per_second(count), through_us)


def _compare(lab: Lab, name: str, made: Workload) -> Iterator[Outcome]:
    native = lab.cuda.native
    with on_device(lab.cuda.vm.device, made, lab.cuda.room) as ours:
        theirs = Native(native, made, lab.cuda.cubin(made.source))
        floor, whole = lab.cuda.alternate(lab.samples(15, 7), lambda: 1e9 / theirs.whole(), lambda: 1e9 / ours.whole())
        bare, alone = _pipelined(lab, ours, theirs)
        ours.prove()
        theirs.prove()
    native.free_all()
    quoted = name.endswith(QUOTED)
    for figure, own, theirs_of_it in (("per_s", alone, bare), ("end_to_end_per_s", whole, floor)):
        full_name = f"cuda_{name}_{figure}"
        yield outcome(full_name, own, "1/s", "higher", theirs_of_it, against=NATIVE, goal=GOAL, quoted=quoted)


def _register(name: str, full: Callable[[], Workload], smoke: Callable[[], Workload]) -> None:
    @row(f"cuda_{name}_per_s", f"cuda_{name}_end_to_end_per_s")
    def measure(lab: Lab) -> Iterator[Outcome]:
        assert lab.cuda.vm  # fails early: making the work takes a while
        return _compare(lab, name, lab.cuda.size(full, smoke)())


for _name, (_full, _smoke) in WORK.items():
    _register(_name, _full, _smoke)
