"""Programs whose functions the CPU engine's compiler divides among processes are what they would be without that."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.fakes.units import Unit
from tests.limits import HANGS_AFTER_S
from tests.unit.cpu_rig import rig
from tests.unit.test_cpu_compile_work import Values, compiled
from tests.waiting import until
from vhost_backend.compiler.run import CompileLimits, run_compile
from vhost_backend.engines.cpu.toolchain import compile_job
from vhost_backend.sandbox import launch
from vhost_backend.sandbox.memfd import read

KERNELS = 60
REPOSITORY = Path(__file__).resolve().parents[2]

ALONE = """
import ctypes, os, sys
from vhost_backend.sandbox import seccomp
from vhost_backend.sandbox.seccomp import Action, Policy
PR_SET_NO_NEW_PRIVS = 38
ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
seccomp.install(Policy({"clone": Action.EPERM, "clone3": Action.ENOSYS, "fork": Action.EPERM}, Action.ALLOW))
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Program that turns into a compiler which cannot make processes."""

PROGRAM = (
    """
#include <cstdio>
__device__ int calls;
static __device__ int order[4];
__constant__ int factor = 3;
static __device__ const int squares[] = {0, 1, 4, 9, 16, 25, 36, 49};

// functions of this name are the runtime's elsewhere
extern "C" __device__ __noinline__ int fmod(int n) { return n * 1000; }

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

struct Shape { virtual __device__ int area() const = 0; };
template <int N> struct Square : Shape { __device__ int area() const override { return N * N; } };
__device__ __noinline__ int area(const Shape *shape) { return shape->area(); }

template <int N> __device__ void work(int *out) {
    Square<N % 3 + 2> square;
    __shared__ int part[64];
    int t = threadIdx.x;
    part[t] = out[t] + fibonacci(N % 8) + squares[(t + N) % 8];
    __syncthreads();
    int sum = 0;
    for (int d = 0; d < 64; d++) sum += part[(t + d) % 64] * (d ^ N);
    out[t] = sum * factor + fmod(N) + area(&square);
    if (t == 0) order[atomicAdd(&calls, 1) % 4] = N;
    if (t == 1 && N == 5) printf("kernel %d\\n", N);
}
"""
    + "\n".join(f'extern "C" __global__ void k{n}(int *out) {{ work<{n}>(out); }}' for n in range(KERNELS))
    + 'extern "C" __global__ void state(int *out) { out[0] = calls; for (int i = 0; i < 4; i++) out[1 + i] = order[i]; }'
)


def expected(values: Values, n: int) -> Values:
    fibonacci = (0, 1, 1, 2, 3, 5, 8, 13)[n % 8]
    t, d = np.arange(64), np.arange(64)
    part = values + fibonacci + np.square((t + n) % 8)
    sums: Values = (part[(t[:, None] + d) % 64] * (d ^ n)).sum(axis=1) * 3 + n * 1000 + (n % 3 + 2) ** 2
    return sums


def test_program_is_divided_and_still_one(tmp_path: Path) -> None:
    assert compiled(PROGRAM, tmp_path).steps["optimised"].shares == 2
    values = np.random.default_rng(3).integers(0, 100, 64).astype(np.int32)
    with rig() as cpu:
        cpu.load(PROGRAM)
        for n in range(KERNELS):
            out = cpu.array(64, np.int32, values)
            cpu.launch(f"k{n}", 1, 64, out)
            assert np.array_equal(out, expected(values, n)), n
        state = cpu.array(5, np.int32)
        cpu.launch("state", 1, 1, state)
        assert state.tolist() == [KERNELS, *range(KERNELS - 4, KERNELS)]


def test_image_is_the_same_each_time(tmp_path: Path) -> None:
    images = []
    for _ in range(2):
        compiled(PROGRAM, tmp_path)
        images.append((tmp_path / compile_job((), b"").output_name).read_bytes())
        assert [path.name for path in tmp_path.glob("*.o")] == []
    assert images[0] == images[1]


def test_kernels_of_one_name_in_several_units() -> None:
    """Kernels that no other unit may see have their unit's name in theirs, which no linker may take for a version."""
    kernel = "static __global__ void work(int *out) {{ out[threadIdx.x] = threadIdx.x * {}; }}\n"
    with rig() as cpu:
        cpu.link(Unit("first.cu", PROGRAM + kernel.format(2)), Unit("second.cu", kernel.format(3)))
        for unit, factor in (("first.cu", 2), ("second.cu", 3)):
            out = cpu.array(64, np.int32)
            cpu.launch(f"_ZL4workPi@{unit}", 1, 64, out)
            assert out.tolist() == [factor * x for x in range(64)]


def test_image_is_the_same_without_a_second_process(tmp_path: Path) -> None:
    compiled(PROGRAM, tmp_path)
    job = compile_job((), PROGRAM.encode())
    image = tmp_path / job.output_name
    divided = image.read_bytes()
    image.unlink()
    argv = [sys.executable, "-c", ALONE, job.argv[0], "--work", "alone", *job.argv[1:]]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=HANGS_AFTER_S
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert (tmp_path / "alone").read_text().count("\noptimised ") == 2
    assert image.read_bytes() == divided
    assert [path.name for path in tmp_path.glob("*.o")] == []


@pytest.mark.skipif(launch.missing_feature() is not None, reason=f"no sandbox here: {launch.missing_feature()}")
@pytest.mark.parametrize("processes", [16, 1])
def test_sandboxed_compilers_divide_programs(processes: int) -> None:
    job = compile_job((), PROGRAM.encode())
    job = dataclasses.replace(job, argv=(job.argv[0], "--work", "work", *job.argv[1:]), output_name="work")
    limits = CompileLimits(wall_seconds=HANGS_AFTER_S, processes=processes)
    outcome = asyncio.run(run_compile(job, PROGRAM.encode(), limits, "strict"))
    assert outcome.image_fd is not None, outcome.log
    assert read(outcome.image_fd, 4096).decode().count("\noptimised ") == 2


def test_failure_in_the_other_process_fails_the_compilation(tmp_path: Path) -> None:
    job = compile_job((), PROGRAM.encode())
    (tmp_path / job.input_name).write_text(PROGRAM)
    blocked = tmp_path / f"{job.output_name}.1.o"
    blocked.mkdir()
    done = subprocess.run(job.argv, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=HANGS_AFTER_S)
    assert done.returncode == 1
    assert done.stderr == f"vgc-cpucc: error: cannot write {blocked.name}: Is a directory\n"
    assert not (tmp_path / job.output_name).exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGSYS])
def test_signal_that_ends_the_other_process_ends_the_compiler(tmp_path: Path, number: signal.Signals) -> None:
    """While the other process opens a FIFO that nobody reads, instead of its file."""
    job = compile_job((), PROGRAM.encode())
    (tmp_path / job.input_name).write_text(PROGRAM)
    os.mkfifo(tmp_path / f"{job.output_name}.1.o")
    with subprocess.Popen(job.argv, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        os.kill(int(until(children.read_text)), number)
        _, log = process.communicate(timeout=HANGS_AFTER_S)
    if number == signal.SIGSEGV:
        assert log.startswith("vgc-cpucc: error: a defect of the compiler: SIGSEGV")
        assert process.returncode == 1
    else:
        assert (process.returncode, log) == (-number, "")
    assert not (tmp_path / job.output_name).exists()
