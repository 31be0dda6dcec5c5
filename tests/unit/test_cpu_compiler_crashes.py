"""Failures of the compiler itself are errors that name what it compiled, and show nothing of the host."""

from __future__ import annotations

import re
import resource
import subprocess
from pathlib import Path

import pytest

from tests.limits import HANGS_AFTER_S
from tests.unit.cpu_rig import CompileError, compile_image
from vhost_backend.engines.cpu import CpuEngine

SOURCE = """
extern "C" __device__ unsigned odd(unsigned a, unsigned b) __asm__("llvm.aarch64.crc32b");
extern "C" __global__ void fine(unsigned *p) { p[0] = 1; }
extern "C" __global__ void broken(unsigned *p) { p[1] = odd(p[0], 2); }
extern "C" __global__ void later(unsigned *p) { p[2] = 7; }
"""
MEMORY_BYTES = 256 << 20


def log_of(source: str) -> str:
    with pytest.raises(CompileError) as caught:
        compile_image(source)
    log = str(caught.value)
    assert re.search(r"0x[0-9a-f]{6}|/usr/|Stack dump", log) is None  # nothing of the host
    return log


def test_fatal_error_of_the_code_generator_names_the_kernel() -> None:
    """By an instruction that processors of this kind do not have."""
    log = log_of(SOURCE)
    assert "vgc-cpucc: error: a defect of the compiler: Cannot select: " in log
    assert "in broken (source.cu:4)" in log
    assert log.count("\n") == 1


def test_failed_assertion_is_a_defect() -> None:
    """By a name that LLVM keeps for itself."""
    log = log_of('__device__ int annotations __asm__("llvm.global.annotations") = 0;\n' + SOURCE)
    assert "vgc-cpucc: error: a defect of the compiler: assertion `" in log
    assert log.endswith("failed, in the list of kernels\n")
    assert log.count("\n") == 1


@pytest.mark.parametrize(
    ("failure", "name"),
    [("crash", "SIG(ILL|TRAP)"), ("llvm_fatal_error", "#pragma clang __debug llvm_.*")],
)
def test_crash_of_the_front_end_names_the_line(failure: str, name: str) -> None:
    log = log_of(f"int x;\n#pragma clang __debug {failure}\n")
    assert re.fullmatch(rf"vgc-cpucc: error: a defect of the compiler: {name}, at source\.cu:2:\d+: .*\n", log)


def test_end_of_the_stack_names_the_line() -> None:
    log = log_of(f"\n__device__ int g(int x) {{ return {'~' * 100000} x; }}\n{SOURCE}")
    assert re.fullmatch(r"vgc-cpucc: error: a defect of the compiler: SIGSEGV, at source\.cu:2:\d+: .*\n", log)


def test_end_of_memory_names_the_place(tmp_path: Path) -> None:
    """By instances of a template without end."""
    source = (
        "template <int... N> struct List {};\n"
        "template <class A, class B> struct Join;\n"
        "template <int... A, int... B> struct Join<List<A...>, List<B...>> { using type = List<A..., B...>; };\n"
        "template <int N> struct Twice { using half = typename Twice<N - 1>::type;"
        " using type = typename Join<half, half>::type; };\n"
        "template <> struct Twice<0> { using type = List<7>; };\n"
        "Twice<60>::type x;\n"
    )
    job = CpuEngine.compile_job("CUDA_SOURCE", source.encode(), (), {})
    (tmp_path / job.input_name).write_text(source)
    done = subprocess.run(
        job.argv,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_AFTER_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)),
    )
    assert done.returncode == 1
    assert re.search(r"vgc-cpucc: error: the compiler ran out of memory, at source\.cu:\d:\d+: .*\n$", done.stderr)
