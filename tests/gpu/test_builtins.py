"""Built-in functions through the whole stack on a GPU, compared with numpy: each group, small and large calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import guest_driver as vgc
from bench.cuda.gpu import Gpu
from tests.gpu.gpu_host import gpu_host, vm

pytestmark = pytest.mark.gpu

Array = np.ndarray[Any, Any]
SIZES = (1000, 1 << 20)


@pytest.fixture(scope="module")
def dev(real_gpu: Gpu) -> Iterator[vgc.Device]:
    with gpu_host(vm(real_gpu, memory="1G", deadline="60s")) as host:
        yield host.open()


def floats(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(7, 5, 3), (513, 700, 1000), (64, 64, 100_000)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_products(dev: vgc.Device, shape: tuple[int, int, int], dtype: str) -> None:
    m, n, k = shape
    a, b = floats(m, k).astype(dtype), floats(k, n, seed=2).astype(dtype)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    limit = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-14}[dtype] * np.sqrt(k) * 8
    found = np.asarray(dev.blas.gemm(a, b), np.float64)
    assert np.abs(found - exact).max() <= limit + np.abs(exact).max() * (1e-3 if dtype == "float16" else 0)


@pytest.mark.parametrize("size", SIZES)
def test_sums_scans_and_sorts(dev: vgc.Device, size: int) -> None:
    x = floats(size)
    assert float(dev.reduce.sum(x)) == pytest.approx(float(x.astype(np.float64).sum()), rel=1e-5, abs=0.05)
    assert np.array_equal(dev.reduce.max(x), x.max())
    assert np.array_equal(dev.scan.max(x), np.maximum.accumulate(x))
    assert np.array_equal(dev.sort.sort(x), np.sort(x))
    assert np.array_equal(dev.sort.argsort(x), np.argsort(x, kind="stable"))


@pytest.mark.parametrize("size", SIZES)
def test_counts_and_unique_elements(dev: vgc.Device, size: int) -> None:
    values = np.random.default_rng(3).integers(0, 100, size, np.int32)
    assert np.array_equal(dev.count.bincount(values, 100), np.bincount(values, minlength=100))
    assert np.array_equal(dev.sort.unique(values), np.unique(values))
    counts = np.zeros(50, np.uint64)
    with pytest.raises(vgc.InvalidArgument, match="an element of in is negative, or bins or more"):
        dev.call("count.bincount_i32", grid=1, block=1, args=[vgc.In(values), size, vgc.Out(counts), 50])


@pytest.mark.parametrize("shape", [(1024,), (3, 1009), (64, 60, 62), (1 << 20,)])
def test_fourier_transforms(dev: vgc.Device, shape: tuple[int, ...]) -> None:
    x = floats(*shape) + 1j * floats(*shape, seed=2)
    there: Any = dev.to_device(x.astype(np.complex64))
    found: Any = np.fft.fftn(there)
    exact = np.fft.fftn(x)
    np.testing.assert_allclose(found.get(), exact, atol=1e-6 * float(np.abs(exact).max()) * 8)
    back: Any = np.fft.ifftn(found)
    np.testing.assert_allclose(back.get(), x, atol=1e-4)


OPERATIONS: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x + y,
    lambda x, y: x * y - 2 * x,
    lambda x, y: np.exp(-x * x) / (1 + np.abs(y)),
    lambda x, y: np.maximum(x, y) ** 2,
]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("size", SIZES)
def test_operators_of_numpy(dev: vgc.Device, operation: Callable[[Any, Any], Any], size: int) -> None:
    x, y = floats(size), floats(size, seed=2)
    found = operation(dev.to_device(x), dev.to_device(y)).get()
    np.testing.assert_allclose(found, operation(x, y), rtol=1e-5, atol=1e-6)


def test_random_numbers_are_those_of_every_host(dev: vgc.Device) -> None:
    """The first words of Philox 4x32-10 with key 0 and counter 0 [Random123: kat_vectors]."""
    bits = dev.random.bits(4, seed=0).get()
    assert bits.tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
