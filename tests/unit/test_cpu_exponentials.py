"""Exponential functions of floats are computed as vectors, nearly exactly."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.cpu_code import llvm_code
from tests.unit.cpu_rig import rig

SOURCE = r"""
extern "C" __global__ void natural(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = expf(x[i]);
}
extern "C" __global__ void binary(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = exp2f(x[i]);
}
"""
COUNT = 1 << 18
SPECIAL = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e38, -1e38, 1e-45, -1e-45, 88.72284, -103.97208], np.float32)


@pytest.mark.parametrize(("name", "reference"), [("natural", np.exp), ("binary", np.exp2)])
def test_error_is_less_than_0_6_units_in_the_last_place(name: str, reference: np.ufunc) -> None:
    x = np.random.default_rng(1).uniform(-160, 140, COUNT).astype(np.float32)
    x[: len(SPECIAL)] = SPECIAL
    with rig(pes=1) as gpu:
        gpu.load(SOURCE)
        y = gpu.array(COUNT, np.float32)
        gpu.launch(name, COUNT // 256, 256, gpu.array(COUNT, np.float32, x), y)
        with np.errstate(over="ignore", under="ignore"):
            wanted = reference(x.astype(np.longdouble))
            nearest = wanted.astype(np.float32)
        assert np.isnan(y[4])
        assert np.array_equal(np.isfinite(y), np.isfinite(nearest))
        finite = np.isfinite(nearest)
        unit = np.spacing(np.maximum(nearest[finite], np.float32(2**-126))).astype(np.longdouble)
        assert np.max(np.abs(y[finite].astype(np.longdouble) - wanted[finite]) / unit) < 0.6


def test_no_function_is_called() -> None:
    assert "exp" not in llvm_code(SOURCE).replace("expect", "")
