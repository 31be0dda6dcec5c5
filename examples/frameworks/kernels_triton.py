"""Runs kernels of Triton on the host's GPU, unchanged from PyPI. Triton compiles its launcher with the guest's C compiler:

vgc exec python examples/frameworks/kernels_triton.py
"""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

import numpy as np
import triton
import triton.language as tl

cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
for result in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)):
    assert result == 0


class DeviceArray:
    """An array in the device's memory, for programs without PyTorch."""

    NAMES: ClassVar = {"float32": "fp32", "float16": "fp16", "int32": "i32"}

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        """Copies `values` to the device."""
        self.values, self.dtype = values, self.NAMES[values.dtype.name]
        self.address, self.size = ctypes.c_uint64(), ctypes.c_size_t(values.nbytes)
        assert cuda.cuMemAlloc_v2(ctypes.byref(self.address), self.size) == 0
        assert cuda.cuMemcpyHtoD_v2(self.address, values.ctypes.data_as(ctypes.c_void_p), self.size) == 0

    def data_ptr(self) -> int:
        """Address, for which Triton asks."""
        return self.address.value

    def numpy(self) -> np.ndarray[Any, Any]:
        """Returns a copy of what the device has."""
        values = np.empty_like(self.values)
        assert cuda.cuMemcpyDtoH_v2(values.ctypes.data_as(ctypes.c_void_p), self.address, self.size) == 0
        return values


@triton.jit
def softmax(x: tl.tensor, y: tl.tensor, width: tl.tensor, block: tl.constexpr) -> None:
    """Kernel: a row in each program."""
    row, columns = tl.program_id(0), tl.arange(0, block)
    inside = columns < width
    values = tl.load(x + row * width + columns, mask=inside, other=-float("inf"))
    exponentials = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * width + columns, exponentials / tl.sum(exponentials, axis=0), mask=inside)


@triton.jit
def multiply(a: tl.tensor, b: tl.tensor, c: tl.tensor, width: tl.tensor, depth: tl.tensor, tile: tl.constexpr) -> None:
    """Kernel: a tile of c = a b in each program, of matrices by rows whose sizes are multiples of the tile's."""
    rows = tl.program_id(0) * tile + tl.arange(0, tile)
    columns = tl.program_id(1) * tile + tl.arange(0, tile)
    total = tl.zeros((tile, tile), dtype=tl.float32)
    for start in range(0, depth, tile):
        k = start + tl.arange(0, tile)
        left = tl.load(a + rows[:, None] * depth + k[None, :])
        right = tl.load(b + k[:, None] * width + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * width + columns[None, :], total)


random = np.random.default_rng(0)
x = random.random((50, 300), np.float32)
y = DeviceArray(np.zeros_like(x))
softmax[(50,)](DeviceArray(x), y, 300, block=512)
assert np.allclose(y.numpy(), np.exp(x) / np.exp(x).sum(axis=1, keepdims=True), rtol=1e-5)
print("softmax is right")

a, b = random.random((64, 96)).astype(np.float16), random.random((96, 128)).astype(np.float16)
c = DeviceArray(np.zeros((64, 128), np.float32))
multiply[(2, 4)](DeviceArray(a), DeviceArray(b), c, 128, 96, tile=32)
assert np.allclose(c.numpy(), a.astype(np.float32) @ b.astype(np.float32), rtol=1e-3)
print("the product of matrices is right")
