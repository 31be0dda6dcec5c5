"""Multiplies matrices on the host's GPU with numba, unchanged from PyPI (numba-cuda[cu13]):

vgc exec python examples/frameworks/matmul_numba.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, float32

TILE = 16


@cuda.jit
def multiply(a: Any, b: Any, product: Any) -> None:
    """Kernel: computes a tile of the product in each block, by tiles of a and b in shared memory."""
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    row, column = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], TILE):
        tile_a[x, y] = a[row, start + y]
        tile_b[x, y] = b[start + x, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += tile_a[x, k] * tile_b[k, y]
        cuda.syncthreads()
    product[row, column] = total


@cuda.reduce
def largest(x: float, y: float) -> float:
    """Function of a reduction, which is a kernel then."""
    return max(x, y)


random = np.random.default_rng(0)
a, b = random.random((96, 64), np.float32), random.random((64, 48), np.float32)
product = cuda.device_array((96, 48), np.float32)
multiply[(96 // TILE, 48 // TILE), (TILE, TILE)](cuda.to_device(a), cuda.to_device(b), product)
result = product.copy_to_host()
assert np.allclose(result, a @ b, rtol=1e-5)
assert largest(result.ravel()) == result.max()
print(f"{cuda.get_current_device().name}: {result.size} elements of the product are right")
