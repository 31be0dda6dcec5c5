"""Device functions from CUDA C and from PTX, each of which needs the next, linked with a kernel of numba's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

SOURCE = """
extern "C" __device__ int successor(int);
extern "C" __device__ int twice_successor(int *result, int x)
{
    *result = 2 * successor(x);
    return 0;
}
"""
PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .func (.param .b32 result) successor(.param .b32 x)
{
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [x];
    add.s32 %r2, %r1, 1;
    st.param.b32 [result], %r2;
    ret;
}
"""
twice_successor = cuda.declare_device(
    "twice_successor", "int32(int32)", link=[cuda.CUSource(SOURCE), cuda.PTXSource(PTX.encode())]
)


@cuda.jit
def fill(numbers: Any) -> None:
    """Element i becomes 2 (i + 1)."""
    index = cuda.grid(1)
    if index < numbers.size:
        numbers[index] = twice_successor(index)


if __name__ == "__main__":
    filled = cuda.to_device(np.zeros(1000, np.int32))
    fill[4, 256](filled)
    assert np.array_equal(filled.copy_to_host(), 2 * np.arange(1, 1001))
    print("functions of CUDA C and PTX are right")
