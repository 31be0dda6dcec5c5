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
    shares: int = 1
    """Number of processes that the program's functions are divided among."""

    def with_share(self, other: Work) -> Work:
        return Work(
            self.functions + other.functions,
            self.blocks + other.blocks,
            self.instructions + other.instructions,
            max(self.largest, other.largest),
            self.shares + other.shares,
        )


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
    steps: dict[str, Work] = {}
    for name, *words in (line.split() for line in report.read_text().splitlines()):
        if name != "prelude":
            sizes = Work(*map(int, words))
            steps[name] = steps[name].with_share(sizes) if name in steps else sizes
    return Compiled(steps, done.stderr)


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


def left_early(ways: int) -> str:
    """Kernel with a loop that threads leave in many ways, before code that no processor has for vectors."""
    step = "t = r * r - i * i + x; i = 2 * r * i + y; r = t; if (r * r + i * i > 4) { n += %d; break; }"
    body = "\n".join(step % way for way in range(ways))
    return f"""extern "C" __global__ void k(uchar4 *out, int rounds) {{
    int at = threadIdx.x, n = 0;
    float x = at * 0.01f, y = at * 0.02f, r = 0, i = 0, t;
    while (n < rounds) {{ {body} n += {ways}; }}
    uchar4 color = {{n * 3 / (at + 1), n * 5 / (at + 1), n * 7 / (at + 1), n}};
    if (at % 3) out[at] = color;
}}"""


def test_code_behind_many_ways_is_not_copied_for_each(tmp_path: Path) -> None:
    few, many = (compiled(left_early(ways), tmp_path).steps["optimised"].instructions for ways in (10, 40))
    assert many < few + 30 * 200


def test_code_behind_many_ways_computes() -> None:
    expected = np.zeros((64, 4), np.uint8)
    for at in (at for at in range(64) if at % 3):
        x, y = np.float32(at * np.float32(0.01)), np.float32(at * np.float32(0.02))
        r = i = np.float32(0)
        n = 0
        while n < 80 and r * r + i * i <= 4:
            for way in range(40):
                r, i = r * r - i * i + x, 2 * r * i + y
                if r * r + i * i > 4:
                    n += way
                    break
            else:
                n += 40
        expected[at] = [n * 3 // (at + 1) & 255, n * 5 // (at + 1) & 255, n * 7 // (at + 1) & 255, n & 255]
    with rig() as cpu:
        cpu.load(left_early(40), ("-fmad=false",))
        out = cpu.array((64, 4), np.uint8)
        cpu.launch("k", 1, 64, out, np.int32(80))
        assert np.array_equal(out, expected)


@pytest.mark.parametrize("source", [exchanges, reductions])
def test_equal_code_between_waits_is_compiled_once(source: Callable[[int], str], tmp_path: Path) -> None:
    before = compiled(source(40), tmp_path).steps["regions"]
    after = compiled(source(80), tmp_path).steps["regions"]
    own = 0 if source is exchanges else 40  # the first code of each instance
    assert after.functions - before.functions == own
    assert after.instructions - before.instructions <= 100 * own


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


def many_kernels(count: int) -> str:
    """Kernels with a loop each, that add, multiply and shift by numbers of their own."""
    return "".join(
        f"""extern "C" __global__ void k{i}(unsigned *out, const unsigned *in, int n) {{
    unsigned sum = {i};
    for (int at = threadIdx.x; at < n; at += blockDim.x)
        sum = (sum ^ in[at] + {i * 7 + 1}) * {2 * i + 3} >> {i % 5} | in[at ^ {i % 8}] << {i % 7};
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}}
"""
        for i in range(count)
    )


def effort(source: str, folder: Path) -> tuple[int, set[str]]:
    """Instructions of the program in regions, and which of the passes that long programs may do without have run behind them."""
    job = compile_job((), source.encode())
    (folder / job.input_name).write_text(source)
    argv = [job.argv[0], "--work", folder / "work", "--time-passes", *job.argv[1:]]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=HANGS_AFTER_S)
    assert done.returncode == 0, done.stderr
    steps = dict(line.split(maxsplit=1) for line in (folder / "work").read_text().splitlines())
    passes = {"Loop Strength Reduction", "LoopLoadEliminationPass"}
    return int(steps["regions"].split()[2]), {name for name in passes if name in done.stderr}


def test_long_programs_are_optimised_in_less_time(tmp_path: Path) -> None:
    size, passes = effort(many_kernels(4), tmp_path)
    assert (size < 3000, len(passes)) == (True, 2)
    size, passes = effort(many_kernels(4 * 31000 // size + 1), tmp_path)
    assert (size > 30000, len(passes)) == (True, 0)
