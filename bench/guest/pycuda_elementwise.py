"""Measures PyCUDA's ElementwiseKernel on a million floats, until it has ended.

    python pycuda_elementwise.py ROUNDS

Prints lines "elementwise COUNT BEGAN ENDED", one per round: how many were done between two moments of CLOCK_MONOTONIC. The first
round compiles.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from pycuda import autoinit, gpuarray
from pycuda.elementwise import ElementwiseKernel

COUNT = 1_000_000
REPEATED = 50


def main() -> None:
    x, y = (gpuarray.to_gpu(np.random.default_rng(seed).random(COUNT, np.float32)) for seed in (0, 1))
    z = gpuarray.empty_like(x)
    combine = ElementwiseKernel(
        "float a, float *x, float b, float *y, float *z", "z[i] = a * x[i] + b * y[i]", "combine"
    )
    for _ in range(int(sys.argv[1]) + 1):
        began = time.monotonic_ns()
        for _ in range(REPEATED):
            combine(5, x, 6, y, z)
            autoinit.context.synchronize()
        print("elementwise", REPEATED, began, time.monotonic_ns())
    if not np.allclose(z.get(), 5 * x.get() + 6 * y.get()):
        raise ArithmeticError("the result is wrong")


if __name__ == "__main__":
    main()
