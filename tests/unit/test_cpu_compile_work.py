"""Sizes of the code that the CPU engine's compiler makes of large sources: they grow with the sources, and no faster."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.limits import HANGS_AFTER_S
from tests.unit.cpu_rig import rig
from vhost_backend.engines.cpu.toolchain import compile_job

Values = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Work:
    """Sizes of a program's code after a step of the compiler."""

    functions: int
    blocks: int
    instructions: int
    largest: int


@dataclass(frozen=True, slots=True)
class Compiled:
    """Sizes after each step, and the compiler's remarks."""

    steps: dict[str, Work]
    log: str


def compiled(source: str, folder: Path) -> Compiled:
    """Compiles a source with the compiler's report of its work."""
    job = compile_job((), source.encode())
    (folder / job.input_name).write_text(source)
    report = folder / "work"
    report.unlink(missing_ok=True)
    argv = [job.argv[0], "--work", report, *job.argv[1:]]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=HANGS_AFTER_S)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in report.read_text().splitlines()]
    return Compiled({name: Work(*map(int, sizes)) for name, *sizes in lines if name != "prelude"}, done.stderr)


def waits(count: int) -> str:
    """Kernel whose values all live across barriers, each of which uses one of them."""
    loads = "\n".join(f"float x{i} = in[t + {i * 64}];" for i in range(count))
    steps = "\n".join(f"out[t] += x{i}; __syncthreads();" for i in range(count))
    return f'extern "C" __global__ void k(float *out, const float *in) {{ int t = threadIdx.x;\n{loads}\n{steps}\n}}'


def skipped_loops(count: int) -> str:
    """Kernel with loops that threads may skip, and code behind each."""
    body = "\n".join(
        f"if (in[t + {i}] > 0) for (int n = 0; n < in[t + {i + 99}]; n++) sum += in[n]; out[t + {i}] = sum * {i};"
        for i in range(count)
    )
    return f'extern "C" __global__ void k(int *out, const int *in) {{ int t = threadIdx.x, sum = 0;\n{body}\n}}'


def unrolled(rounds: int) -> str:
    """Kernel with a loop that asks to be unrolled as often as it runs."""
    step = "float t = r * r - i * i + x; i = 2 * r * i + y; r = t; if (r * r + i * i < 4) n++;"
    return (
        'extern "C" __global__ void k(int *out) { float x = threadIdx.x * 0.01f, y = blockIdx.x * 0.01f, r = 0, i = 0;'
        f"int n = 0;\n#pragma unroll\nfor (int j = 0; j < {rounds}; j++) {{ {step} }}\nout[threadIdx.x] = n; }}"
    )


def calls(depth: int) -> str:
    """Kernel whose function calls another twice, and so on: 2 to the power of `depth` calls of the last."""
    functions = ["__device__ float f0(float x, float *p) { if (x > 3) p[(int) x & 7] = x; return x * 1.5f + sinf(x); }"]
    functions += [
        f"__device__ float f{n}(float x, float *p) {{ return f{n - 1}(x, p) + f{n - 1}(x * {n}, p + 1); }}"
        for n in range(1, depth + 1)
    ]
    kernel = f'extern "C" __global__ void k(float *out) {{ out[threadIdx.x] = f{depth}(out[threadIdx.x], out + 64); }}'
    return "\n".join([*functions, kernel])


def exchanges(count: int) -> str:
    """Kernel whose threads exchange eight values in turn: the code between two exchanges is always the same."""
    return f"""extern "C" __global__ void k(int *data) {{
    int x[8];
    for (int i = 0; i < 8; i++) x[i] = data[threadIdx.x * 8 + i];
    #pragma unroll
    for (int i = 0; i < {count}; i++) x[i % 8] = x[i % 8] * 3 + __shfl_xor_sync(~0u, x[(i + 3) % 8], 1 << i % 5);
    for (int i = 0; i < 8; i++) data[threadIdx.x * 8 + i] = x[i];
}}"""


def reductions(count: int) -> str:
    """Instances of a kernel template, of which only the first code differs."""
    kernel = """template <int N> __global__ void k(int *out, const int *in) {
    __shared__ int part[64];
    int t = threadIdx.x;
    part[t] = in[t] * N;
    __syncthreads();
    for (int d = 32; d > 0; d /= 2) { if (t < d) part[t] += part[t + d]; __syncthreads(); }
    if (t == 0) out[blockIdx.x] = part[0];
}"""
    return "\n".join([kernel, *(f"template __global__ void k<{i + 1}>(int *, const int *);" for i in range(count))])


@pytest.mark.parametrize("source", [exchanges, reductions])
def test_equal_code_between_waits_is_compiled_once(source: Callable[[int], str], tmp_path: Path) -> None:
    before = compiled(source(40), tmp_path).steps["regions"]
    after = compiled(source(80), tmp_path).steps["regions"]
    more = after.functions - before.functions
    assert more >= 40
    assert after.instructions - before.instructions < (20 if source is exchanges else 50) * more


def test_equal_code_between_waits_computes() -> None:
    values = np.random.default_rng(5).integers(0, 1 << 32, (64, 8), dtype=np.uint32)
    with rig() as cpu:
        cpu.load(exchanges(60))
        data = cpu.array((64, 8), np.uint32, values)
        cpu.launch("k", 1, 64, data)
        lanes = np.arange(64)
        for i in range(60):
            values[:, i % 8] = values[:, i % 8] * np.uint32(3) + values[lanes ^ (1 << i % 5), (i + 3) % 8]
        assert np.array_equal(data, values)


def test_instances_of_one_kernel_compute() -> None:
    values = np.arange(64, dtype=np.int32)
    with rig() as cpu:
        cpu.load(reductions(5))
        for instance in range(1, 6):
            out, data = cpu.array(1, np.int32), cpu.array(64, np.int32, values)
            cpu.launch(f"_Z1kILi{instance}EEvPiPKi", 1, 64, out, data)
            assert out[0] == instance * values.sum()


@pytest.mark.parametrize(
    ("source", "step", "small", "large"),
    [(waits, "regions", 25, 100), (skipped_loops, "regions", 8, 32)],
    ids=["values across barriers", "loops that threads may skip"],
)
def test_code_grows_with_its_source(
    source: Callable[[int], str], step: str, small: int, large: int, tmp_path: Path
) -> None:
    before = compiled(source(small), tmp_path).steps[step].instructions
    after = compiled(source(large), tmp_path).steps[step].instructions
    assert after < 1.5 * large / small * before


def test_unrolling_that_a_source_asks_for_is_bounded(tmp_path: Path) -> None:
    assert compiled(unrolled(40), tmp_path).steps["simplified"].instructions > 400
    assert compiled(unrolled(4000), tmp_path).steps["simplified"].instructions < 400


def test_inlining_is_bounded(tmp_path: Path) -> None:
    steps = compiled(calls(14), tmp_path).steps
    assert steps["simplified"].functions > 1
    assert steps["simplified"].instructions < 30_000


def test_calls_that_stay_compute_what_inlined_ones_do() -> None:
    with rig() as cpu:
        cpu.load(calls(12))
        out = cpu.array(64 + 64, np.float32)
        out[:64] = np.linspace(0, 1, 64, dtype=np.float32)

        def f(depth: int, x: Values) -> Values:
            if depth == 0:
                return x * np.float32(1.5) + np.sin(x)
            return f(depth - 1, x) + f(depth - 1, x * np.float32(depth))

        expected = f(12, out[:64].copy())
        cpu.launch("k", 1, 64, out)
        np.testing.assert_allclose(out[:64], expected, rtol=1e-3)


def test_skipped_loops_compute() -> None:
    count = 32
    with rig() as cpu:
        cpu.load(skipped_loops(count))
        values = cpu.array(300, np.int32, np.random.default_rng(1).integers(-3, 7, 300))
        out = cpu.array(300, np.int32)
        cpu.launch("k", 1, 1, out, values)
        total, expected = 0, []
        for i in range(count):
            if values[i] > 0:
                total += int(values[: max(values[i + 99], 0)].sum())
            expected.append(total * i)
        assert out[:count].tolist() == expected


def test_enormous_kernel_is_remarked(tmp_path: Path) -> None:
    stores = "\n".join(f"out[t + {7 * i}] = x * {i}.5f + in[t + {3 * i}];" for i in range(2500))
    source = f"__global__ void k(float *out, const float *in) {{ int t = threadIdx.x; float x = in[t];\n{stores}\n}}"
    assert "neither unrolled nor vectorised" in compiled(source, tmp_path).log
