"""Kernels of the kinds that Triton's tutorials have, launched by Triton itself, and compared with numpy."""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

import numpy as np
import triton
import triton.language as tl

from tests.ptx.triton import kernels

Array = np.ndarray[Any, Any]

driver = ctypes.CDLL("libcuda.so.1")


class DeviceArray:
    """An array in the device's memory, as far as Triton asks."""

    NAMES: ClassVar = {"float32": "fp32", "float16": "fp16", "int32": "i32"}

    def __init__(self, values: Array) -> None:
        """Copies `values` to the device."""
        self.values, self.dtype = np.ascontiguousarray(values), self.NAMES[values.dtype.name]
        self.address, self.size = ctypes.c_uint64(), ctypes.c_size_t(values.nbytes)
        assert driver.cuMemAlloc_v2(ctypes.byref(self.address), self.size) == 0
        assert driver.cuMemcpyHtoD_v2(self.address, self.values.ctypes.data_as(ctypes.c_void_p), self.size) == 0

    def data_ptr(self) -> int:
        """Address in the device's memory."""
        return self.address.value

    def host(self) -> Array:
        """Returns a copy of what the device has."""
        found = np.empty_like(self.values)
        assert driver.cuMemcpyDtoH_v2(found.ctypes.data_as(ctypes.c_void_p), self.address, self.size) == 0
        return found


@triton.jit
def layer_norm(
    x: tl.tensor,
    y: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    mean: tl.tensor,
    rstd: tl.tensor,
    width: tl.tensor,
    block: tl.constexpr,
) -> None:
    """Kernel: normalises a row, in pieces, and keeps its mean and the reciprocal of its deviation."""
    row, at = tl.program_id(0), tl.arange(0, block)
    total = tl.zeros((block,), tl.float32)
    for start in range(0, width, block):
        total += tl.load(x + row * width + start + at, start + at < width, 0.0)
    average = tl.sum(total, 0) / width
    squares = tl.zeros((block,), tl.float32)
    for start in range(0, width, block):
        inside = start + at < width
        away = tl.where(inside, tl.load(x + row * width + start + at, inside, 0.0) - average, 0.0)
        squares += away * away
    scale = 1 / tl.sqrt(tl.sum(squares, 0) / width + 1e-5)
    tl.store(mean + row, average)
    tl.store(rstd + row, scale)
    for start in range(0, width, block):
        inside = start + at < width
        value = (tl.load(x + row * width + start + at, inside, 0.0) - average) * scale
        value = value * tl.load(weight + start + at, inside) + tl.load(bias + start + at, inside)
        tl.store(y + row * width + start + at, value, inside)


@triton.jit
def layer_norm_backward(
    x: tl.tensor,
    dy: tl.tensor,
    weight: tl.tensor,
    mean: tl.tensor,
    rstd: tl.tensor,
    dx: tl.tensor,
    dweight: tl.tensor,
    lock: tl.tensor,
    width: tl.tensor,
    block: tl.constexpr,
) -> None:
    """Kernel: gradients of a row; those of the weights are summed up behind a lock."""
    row, at = tl.program_id(0), tl.arange(0, block)
    inside = at < width
    gradient = tl.load(dy + row * width + at, inside, 0.0)
    scale = tl.load(rstd + row)
    normal = tl.where(inside, (tl.load(x + row * width + at, inside, 0.0) - tl.load(mean + row)) * scale, 0.0)
    weighted = tl.where(inside, gradient * tl.load(weight + at, inside, 0.0), 0.0)
    first, second = tl.sum(normal * weighted, 0) / width, tl.sum(weighted, 0) / width
    tl.store(dx + row * width + at, (weighted - (normal * first + second)) * scale, inside)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(dweight + at, tl.load(dweight + at, inside) + gradient * normal, inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def check_layer_norm() -> None:
    rows, width = 20, 781
    x, dy, weight, bias = normal(0, rows, width), normal(1, rows, width), normal(2, width), normal(3, width)
    on = {name: DeviceArray(values) for name, values in {"x": x, "dy": dy, "weight": weight, "bias": bias}.items()}
    y, dx, dweight = DeviceArray(np.zeros_like(x)), DeviceArray(np.zeros_like(x)), DeviceArray(np.zeros_like(weight))
    mean, rstd = DeviceArray(np.zeros(rows, np.float32)), DeviceArray(np.zeros(rows, np.float32))
    lock = DeviceArray(np.zeros(1, np.int32))
    layer_norm[(rows,)](on["x"], y, on["weight"], on["bias"], mean, rstd, width, block=256)
    layer_norm_backward[(rows,)](on["x"], on["dy"], on["weight"], mean, rstd, dx, dweight, lock, width, block=1024)
    scale = 1 / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    hat = (x - x.mean(axis=1, keepdims=True)) * scale
    assert np.allclose(y.host(), hat * weight + bias, atol=1e-4)
    weighted = dy * weight
    first, second = (hat * weighted).mean(axis=1, keepdims=True), weighted.mean(axis=1, keepdims=True)
    assert np.allclose(dx.host(), (weighted - (hat * first + second)) * scale, atol=1e-4)
    assert np.allclose(dweight.host(), (dy * hat).sum(axis=0), atol=1e-3)


def check_vectors() -> None:
    x, y, out = normal(0, 2500), normal(1, 2500), DeviceArray(np.zeros(2500, np.float32))
    triton.jit(kernels.add)[(3,)](DeviceArray(x), DeviceArray(y), out, 2500, block=1024)
    assert np.array_equal(out.host(), x + y)
    wide = normal(2, 33, 781)
    out = DeviceArray(np.zeros_like(wide))
    triton.jit(kernels.softmax)[(33,)](DeviceArray(wide), out, 781, block=1024)
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    assert np.allclose(out.host(), powers / powers.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-8)


def check_matmul() -> None:
    a, b = normal(0, 128, 160).astype(np.float16), normal(1, 160, 192).astype(np.float16)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    for stages, warps in ((1, 4), (3, 4), (4, 8)):
        c = DeviceArray(np.zeros((128, 192), np.float32))
        triton.jit(kernels.matmul)[(2, 3)](
            DeviceArray(a), DeviceArray(b), c, 192, 160, tile=64, depth=32, num_stages=stages, num_warps=warps
        )
        assert np.allclose(c.host(), expected, rtol=1e-3, atol=1e-3)


def check_attention() -> None:
    n, head = 96, kernels.HEAD
    q, k, v = (normal(seed, n, head).astype(np.float16) for seed in range(3))
    out = DeviceArray(np.zeros((n, head), np.float32))
    triton.jit(kernels.attention)[(n // 32,)](DeviceArray(q), DeviceArray(k), DeviceArray(v), out, n, head=head)
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    assert np.allclose(out.host(), powers / powers.sum(axis=1, keepdims=True) @ v.astype(np.float64), atol=4e-3)


def main() -> None:
    context = ctypes.c_void_p()
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    for check in (check_vectors, check_matmul, check_layer_norm, check_attention):
        check()
        print(f"{check.__name__}: right", flush=True)


if __name__ == "__main__":
    main()
