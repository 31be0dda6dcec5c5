"""The driver behind all walls, the system call filter among them: whatever it opens and calls while it works."""

from __future__ import annotations

import numpy as np
import pytest

from bench.cuda.gpu import Gpu
from tests.gpu.gpu_host import gpu_host, vm
from vhost_backend.sandbox import launch

MIB = 1 << 20
SOURCE = """
extern "C" __global__ void add_one(int *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i]++;
}
"""


def test_everything_works_behind_strict_walls(any_gpu: Gpu) -> None:
    missing = launch.missing_feature(proc=True)
    if missing is not None:
        pytest.skip(f"this host has not all walls: {missing}")
    with gpu_host(vm(any_gpu, sandbox="strict")) as host:
        dev = host.open()
        count = 1000
        x = dev.to_device(np.arange(count, dtype=np.int32))
        dev.compile(SOURCE)["add_one"].launch(4, 256, x, count)
        assert np.array_equal(x.get(), np.arange(1, count + 1))
        for _ in range(3):
            dev.alloc(64 * MIB).free()
