"""A guest's source that keeps the CPU engine's compiler busy for ever gets an error that names the place.

The sources are compiled as the daemon compiles them.
"""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import replace

import pytest

from tests.limits import HANGS_AFTER_S
from vhost_backend.compiler.run import CompileLimits, CompileOutcome, run_compile
from vhost_backend.engines.cpu import CpuEngine
from vhost_backend.sandbox import build

PATIENT = CompileLimits(wall_seconds=HANGS_AFTER_S, cpu_seconds=HANGS_AFTER_S)
KERNEL = 'extern "C" __global__ void f() {}\n'
LIST = """
template <int... N> struct List {};
template <class A, class B> struct Join;
template <int... A, int... B> struct Join<List<A...>, List<B...>> { using type = List<A..., B...>; };
template <int N> struct Twice
{
    using half = typename Twice<N - 1>::type;
    using type = typename Join<half, half>::type;
};
template <> struct Twice<0> { using type = List<7>; };
"""
"""`Twice<N>` has a list of 2^N numbers."""
SUM = """
template <int N, int M> struct Sum { static const int value = Sum<N - 1, 2 * M>::value + Sum<N - 1, 2 * M + 1>::value; };
template <int M> struct Sum<0, M> { static const int value = 1; };
"""
"""`Sum<N, 0>` has 2^N instances."""


@pytest.fixture(scope="module", autouse=True)
def launcher() -> None:
    build.main()


def compiled(source: str, limits: CompileLimits) -> CompileOutcome:
    job = CpuEngine.compile_job("CUDA_SOURCE", source.encode(), (), {})
    outcome = asyncio.run(run_compile(job, source.encode(), limits, "strict"))
    if outcome.image_fd is not None:
        os.close(outcome.image_fd)
    return outcome


def test_end_of_memory_names_the_place() -> None:
    limits = replace(PATIENT, memory_bytes=320 << 20)
    outcome = compiled(f"{LIST}Twice<40>::type x;\n{KERNEL}", limits)
    assert re.search(r"^vgc-cpucc: error: the compiler ran out of memory, at source\.cu:\d+:\d+: ", outcome.log)
    assert compiled(f"{LIST}Twice<4>::type x;\n{KERNEL}", limits).ok


def test_end_of_time_names_the_place() -> None:
    endless = f"{SUM}\nint x = Sum<28, 0>::value;\n{KERNEL}"
    outcome = compiled(endless, replace(PATIENT, cpu_seconds=2))
    assert re.search(r"error: the compiler took too much processor time, at source\.cu:\d+:\d+: ", outcome.log)
