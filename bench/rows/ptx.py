"""Rows of kernels that reach the CPU engine as PTX of NVRTC, beside their CUDA C there."""

from __future__ import annotations

import time
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
from bench.rows.compile import fresh, large, load_ms
from bench.rows.compute import STAGING_BYTES
from bench.stats import alternate
from bench.workloads import Workload
from virtio_proto.schema import ProgramKind

GOAL: Final = Goal("ratio", "<", 1.2)

SIZES: Final = {"": lambda: fresh("cu"), "medium_": lambda: large(1), "large_": lambda: large(3)}
"""Makers of sources that were never compiled before, by the part of a row's name."""
UNROLLED: Final = 100_000
"""Instructions of the unrolled module."""

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


def _register_compilation(size: str, make: Callable[[], str]) -> None:
    name = f"ptx_compile_cold_{size}ms"

    @row(name)
    def compare(lab: Lab) -> Iterator[Outcome]:
        device = lab.device("cpu").device

        def as_ptx() -> float:
            text = ptx.module(make())
            return load_ms(device, f"{text}// {time.time_ns()}\n", ProgramKind.PTX)

        own, theirs = alternate(lab.samples(7, 3), as_ptx, lambda: load_ms(device, make()))
        yield outcome(name, own, "ms", "lower", theirs, against="its CUDA C on the same device")


for _size, _source in SIZES.items():
    _register_compilation(_size, _source)


@row("ptx_compile_unrolled_s")
def unrolled(lab: Lab) -> Iterator[Outcome]:
    """PROGRAM_LOAD of a kernel of 100,000 instructions without a branch, never compiled before."""
    device = lab.device("cpu").device
    (own,) = alternate(lab.samples(3, 1), lambda: load_ms(device, _unrolled(), ProgramKind.PTX) / 1e3)
    yield outcome("ptx_compile_unrolled_s", own, "s", "lower", goal=Goal("value", "<", 5.0))


def _unrolled() -> str:
    """A product of a row and a column in shared memory, unrolled, over 16 sums that are alive throughout."""
    sums, words = 16, 1024
    lines = [
        f"// {time.time_ns()}",
        ".version 8.0",
        ".target sm_80",
        ".address_size 64",
        ".visible .entry unrolled(.param .u64 out) {",
        f".reg .f32 %sum<{sums}>, %x, %y;",
        ".reg .b64 %out;",
        ".reg .b32 %words;",
        f".shared .align 16 .b8 words[{4 * words}];",
        "ld.param.u64 %out, [out];",
        "mov.u32 %words, words;",
        *(f"mov.f32 %sum{k}, 0f00000000;" for k in range(sums)),
    ]
    for k in range(UNROLLED // 3):
        lines.append(f"ld.shared.f32 %x, [%words+{4 * (k % words)}];")
        lines.append(f"ld.shared.f32 %y, [%words+{4 * (7 * k % words)}];")
        lines.append(f"fma.rn.f32 %sum{k % sums}, %x, %y, %sum{k % sums};")
    lines += [*(f"st.global.f32 [%out+{4 * k}], %sum{k};" for k in range(sums)), "ret;", "}"]
    return "\n".join(lines) + "\n"
