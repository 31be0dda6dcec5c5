"""Options for the arithmetic of floats mean on the CPU engine what they mean for nvcc."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.cpu_rig import CompileError, compile_image, rig

TINY = np.float32(1e-40)
SOURCE = r"""
extern "C" __global__ void fused(const float *x, float *o) { o[0] = x[0] * x[1] + x[2]; o[1] = __fadd_rn(__fmul_rn(x[0], x[1]), x[2]); }
extern "C" __global__ void fused_double(const double *x, double *o) { o[0] = x[0] * x[1] + x[2]; }
extern "C" __global__ void tiny(const float *x, float *o) {
    const float t = x[0], small = x[1], one = x[2], huge = x[3];
    o[0] = t + 0.0f; o[1] = small * small; o[2] = t * huge; o[3] = small / huge; o[4] = -t * one; o[5] = t == 0.0f; o[6] = fminf(t, one);
    o[7] = (float)((double)small * (double)small); o[8] = (double)t > 0; o[9] = t; o[10] = fabsf(t); o[11] = t > 0.0f ? 1.0f : 2.0f;
    o[12] = fmaf(small, small, 0.0f); o[13] = sqrtf(t); o[14] = logf(t); o[15] = small * small + one; o[16] = ceilf(t);
    o[17] = (small * small) * huge; o[18] = __fmaf_rn(small, small, t);
}
extern "C" __global__ void tiny_double(const double *x, double *o) { o[0] = x[0] * x[0]; o[1] = x[1] * 0.5; }
extern "C" __global__ void divide(const float *x, float *o, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) { o[2 * i] = x[i] / x[n - 1 - i]; o[2 * i + 1] = sqrtf(x[i]); }
}
extern "C" __global__ void vector(const float *a, const float *b, float *o) { int i = blockIdx.x * blockDim.x + threadIdx.x; o[i] = a[i] * b[i] + o[i]; }
"""


def run(options: tuple[str, ...], name: str, dtype: Any, count: int, *values: Any) -> Any:
    with rig(pes=1) as gpu:
        gpu.load(SOURCE, options)
        x, out = gpu.array(len(values), dtype, values), gpu.array(count, dtype)
        gpu.launch(name, 1, 1, x, out)
        return out.copy()


@pytest.mark.parametrize("spelling", ["-fmad={}", "--fmad={}", "-fmad {}", "--fmad {}"])
def test_contraction(spelling: str) -> None:
    x = np.float32(1 + 2.0**-12)
    values = (x, x, np.float32(-1 - 2.0**-11))
    for value, wanted in (("true", 2.0**-24), ("false", 0.0)):
        options = tuple(spelling.format(value).split())
        assert list(run(options, "fused", np.float32, 2, *values)) == [wanted, 0]
        d = 1 + 2.0**-27
        assert run(options, "fused_double", np.float64, 1, d, d, -1 - 2.0**-26)[0] == (
            2.0**-54 if value == "true" else 0
        )
    assert run((), "fused", np.float32, 2, *values)[0] == 2.0**-24, "contracted by default"


VALUES = (TINY, np.float32(1e-20), np.float32(1), np.float32(2.0**100))


@pytest.mark.parametrize("options", [(), ("-ftz=false",), ("--ftz=false",), ("--use_fast_math", "-ftz=false")])
def test_denormals_are_kept(options: tuple[str, ...]) -> None:
    out = run(options, "tiny", np.float32, 19, *VALUES)
    square = np.float32(1e-20) * np.float32(1e-20)
    assert list(out[:6]) == [
        TINY,
        square,
        TINY * np.float32(2.0**100),
        np.float32(1e-20) / np.float32(2.0**100),
        -TINY,
        0,
    ]
    assert list(out[6:13]) == [TINY, square, 1, TINY, TINY, 1, square]
    assert out[13] > 0
    assert np.isfinite(out[14])
    assert list(out[15:18]) == [1, 1, square * np.float32(2.0**100)]


@pytest.mark.parametrize("options", [("-ftz=true",), ("--ftz", "true"), ("--use_fast_math",), ("-use_fast_math",)])
def test_denormals_become_zero(options: tuple[str, ...]) -> None:
    """Operands and results of operations on floats are flushed, with their sign. Moved values are kept."""
    out = run(options, "tiny", np.float32, 19, *VALUES)
    assert list(out[:9]) == [0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert np.signbit(out[4])
    assert out[9] == TINY
    assert list(out[11:14]) == [2, 0, 0]
    assert out[14] == -np.inf
    assert list(out[15:19]) == [1, 0, 0, 0]
    doubles = run(options, "tiny_double", np.float64, 2, 1e-160, 2.0**-1060)
    assert list(doubles) == [1e-160 * 1e-160, 2.0**-1061]


def test_fused_operations_stay_fused_when_denormals_become_zero() -> None:
    x = np.float32(1 + 2.0**-12)
    assert run(("-ftz=true",), "fused", np.float32, 2, x, x, np.float32(-1 - 2.0**-11))[0] == 2.0**-24
    assert run(("-ftz=true", "-fmad=false"), "fused", np.float32, 2, x, x, np.float32(-1 - 2.0**-11))[0] == 0


@pytest.mark.parametrize(
    "options", [(), ("-prec-div=false", "-prec-sqrt=false"), ("--prec-div", "false"), ("--use_fast_math",)]
)
def test_division_and_root_are_exact_where_errors_are_allowed(options: tuple[str, ...]) -> None:
    values = np.random.default_rng(4).uniform(0.1, 1e6, 200).astype(np.float32)
    with rig(pes=1) as gpu:
        gpu.load(SOURCE, options)
        x, out = gpu.array(200, np.float32, values), gpu.array((200, 2), np.float32)
        gpu.launch("divide", 1, 32, x, out, np.int32(200))
        assert np.array_equal(out[:, 0], values / values[::-1])
        assert np.array_equal(out[:, 1], np.sqrt(values))


def test_loops_with_flushes() -> None:
    rng = np.random.default_rng(6)
    a, b, c = (rng.choice([1e-40, 1e-30, -1e-20, 3.0, -1e-39, 0.0, 1e-8], 1024).astype(np.float32) for _ in range(3))

    def flushed(x: Any) -> Any:
        return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(0, x), x)

    exact = flushed(a).astype(np.float64) * flushed(b).astype(np.float64) + flushed(c).astype(np.float64)
    with rig(pes=1) as gpu:
        gpu.load(SOURCE, ("-ftz=true",))
        out = gpu.array(1024, np.float32, c)
        gpu.launch("vector", 4, 256, gpu.array(1024, np.float32, a), gpu.array(1024, np.float32, b), out)
        assert np.array_equal(out, flushed(exact.astype(np.float32)))


@pytest.mark.parametrize("option", ["-ftz=1", "--fmad=maybe", "-prec-div=", "-prec-sqrt"])
def test_other_values_are_refused(option: str) -> None:
    with pytest.raises(CompileError, match=r"allowed: true, false|needs a value"):
        compile_image(SOURCE, (option,))
