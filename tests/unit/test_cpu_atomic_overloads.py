"""Atomic functions of integers that CUDA lacks: they are there, and give way to a program's own."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.cpu_rig import rig

USES = r"""
extern "C" __global__ void k(long long *x, long *y) {
    atomicAdd(x, 5);
    atomicMax(x + 1, 7LL);
    atomicAdd_block(y, 3L);
    atomicCAS(y + 1, 0L, 9L);
}
"""
OWN = r"""
__device__ long long atomicAdd(long long *address, long long value) {
    return atomicAdd(reinterpret_cast<unsigned long long *>(address), static_cast<unsigned long long>(value) + 100);
}
"""


@pytest.mark.parametrize(("own", "sum_"), [("", 5), (OWN, 105)], ids=["ours", "the program's"])
def test_overloads_that_cuda_lacks_give_way(own: str, sum_: int) -> None:
    """CuPy's headers define one."""
    with rig(pes=1) as cpu:
        cpu.load(own + USES)
        x, y = cpu.array(2, np.int64), cpu.array(2, np.int64)
        cpu.launch("k", 1, 1, x, y)
        assert (*x, *y) == (sum_, 7, 3, 9)
