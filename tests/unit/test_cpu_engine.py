"""The CPU engine computes what CUDA promises: one test per language feature."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.cpu_rig import Rig, rig

SOURCE = r"""
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig() as made:
        made.load(SOURCE)
        yield made


def test_saxpy(gpu: Rig) -> None:
    n = 1000
    x = gpu.array(n, np.float32, np.arange(n))
    y = gpu.array(n, np.float32, 1)
    gpu.launch("saxpy", 4, 256, np.int32(n), np.float32(2), x, y)
    assert np.array_equal(y, 2 * np.arange(n, dtype=np.float32) + 1)
