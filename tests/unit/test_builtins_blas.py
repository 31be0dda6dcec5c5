"""Dense linear algebra among the built-in functions, compared with numpy in doubles."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np
import pytest

from tests.unit import builtins_rig as rig
from tests.unit.builtins_rig import DTYPES, Array

TYPES: Final = ("f16", "f32", "f64")
TOLERANCE: Final = {"f16": 1e-3, "f32": 2e-6, "f64": 1e-14}
"""Largest difference, in units of the sum of absolute values."""

SIZES: Final = (0, 1, 7, 1000, 300_000)


def numbers(shape: Any, dtype: str, seed: int = 0) -> Array:
    x: Array = np.random.default_rng(seed).standard_normal(shape).astype(DTYPES[dtype])
    return x


def assert_close(found: Array, wanted: Array, scale: Any, dtype: str) -> None:
    assert np.all(np.abs(found.astype(float) - wanted) <= TOLERANCE[dtype] * (scale + 1e-30))


def doubles(a: Array) -> Array:
    return a.astype(np.float64)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("incx", "incy"), [(1, 1), (3, 2)])
def test_axpy_adds_a_multiple(dtype: str, n: int, incx: int, incy: int) -> None:
    x, y = numbers(n * incx, dtype), numbers(n * incy, dtype, 1)
    found = rig.call("blas.axpy_" + dtype, n=n, alpha=1.5, x=x, incx=incx, y=y, incy=incy)["y"]
    wanted = doubles(y)
    wanted[::incy] += 1.5 * doubles(x)[::incx]
    assert_close(found, wanted, 5, dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("incx", "incy"), [(1, 1), (3, 2)])
def test_dot_is_the_inner_product(dtype: str, n: int, incx: int, incy: int) -> None:
    x, y = numbers(n * incx, dtype) / 16, numbers(n * incy, dtype, 1)
    result = np.zeros(1, DTYPES[dtype])
    found = rig.call("blas.dot_" + dtype, n=n, x=x, incx=incx, y=y, incy=incy, result=result)["result"]
    products = doubles(x)[::incx] * doubles(y)[::incy]
    assert_close(found, products.sum(), np.abs(products).sum(), dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", SIZES)
def test_nrm2_is_the_norm(dtype: str, n: int) -> None:
    x = numbers(n * 2, dtype)
    found = rig.call("blas.nrm2_" + dtype, n=n, x=x, incx=2, result=np.zeros(1, DTYPES[dtype]))["result"]
    wanted = np.linalg.norm(doubles(x)[::2])
    assert_close(found, np.array([wanted]), 3 * wanted, dtype)


@pytest.mark.parametrize(("dtype", "large"), [("f32", 1e30), ("f64", 1e300)])
def test_nrm2_of_large_numbers_is_finite(dtype: str, large: float) -> None:
    x = np.full(300_000, large / 1e5, DTYPES[dtype])
    found = rig.call("blas.nrm2_" + dtype, n=len(x), x=x, incx=1, result=np.zeros(1, DTYPES[dtype]))["result"]
    assert np.isclose(found[0], large / 1e5 * np.sqrt(len(x)), rtol=1e-4)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_nrm2_of_special_values_is_special(dtype: str, special: float) -> None:
    for n in (5, 300_000):
        x = numbers(n, dtype)
        x[n // 2] = special
        found = rig.call("blas.nrm2_" + dtype, n=n, x=x, incx=1, result=np.zeros(1, DTYPES[dtype]))["result"]
        assert np.array_equal(found, np.array([special], DTYPES[dtype]), equal_nan=True)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (300, 200), (3, 200_000), (100_000, 3), (0, 4), (4, 0), (1500, 900)])
@pytest.mark.parametrize("transpose", [0, 1])
@pytest.mark.parametrize("pes", rig.PES)
def test_gemv_is_the_product(dtype: str, shape: tuple[int, int], transpose: int, pes: int) -> None:
    m, n = shape
    lda, incx, incy = n + 3, 2, 3
    a = numbers((m, lda), dtype)
    inner, outer = (m, n) if transpose else (n, m)
    x, y = numbers(inner * incx, dtype, 1), numbers(outer * incy, dtype, 2)
    sizes = {"m": m, "n": n, "lda": lda, "incx": incx, "incy": incy, "transpose": transpose}
    found = rig.call("blas.gemv_" + dtype, pes, alpha=1.5, beta=0.5, a=a, x=x, y=y, **sizes)["y"]
    matrix = doubles(a)[:, :n].T if transpose else doubles(a)[:, :n]
    wanted, scale = doubles(y), np.abs(doubles(y))
    wanted[::incy] = 1.5 * matrix @ doubles(x)[::incx] + 0.5 * wanted[::incy]
    scale[::incy] += 2 * np.abs(matrix) @ np.abs(doubles(x)[::incx])
    assert_close(found, wanted, scale, dtype)
    untouched = np.arange(len(y)) % incy != 0
    assert np.array_equal(found[untouched], y[untouched])


def gemm(dtype: str, pes: int, a: Array, b: Array, c: Array, /, **values: Any) -> Array:
    return rig.call("blas.gemm_" + dtype, pes, a=a, b=b, c=c, **values)["c"]


SHAPES: Final = (
    (1, 1, 1, 1),
    (3, 5, 7, 2),
    (300, 200, 1000, 1),
    (64, 60, 50_000, 1),
    (33, 1, 9000, 2),
    (1, 40, 9000, 2),
    (600, 700, 800, 1),
    (0, 3, 3, 1),
    (3, 0, 3, 1),
    (3, 3, 0, 1),
    (10, 11, 12, 300),
    (3, 3, 3, 0),
)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("pes", rig.PES)
def test_gemm_is_the_product(dtype: str, shape: tuple[int, int, int, int], pes: int) -> None:
    m, n, k, batch = shape
    for ta, tb in itertools.product((0, 1), (0, 1)):
        a = numbers((batch, k, m + 1) if ta else (batch, m, k + 1), dtype)
        b = numbers((batch, n, k + 2) if tb else (batch, k, n + 2), dtype, 1)
        c = numbers((batch, m, n + 3), dtype, 2)
        found = gemm(
            dtype,
            pes,
            a,
            b,
            c,
            transpose_a=ta,
            transpose_b=tb,
            m=m,
            n=n,
            k=k,
            alpha=1.5,
            beta=0.5,
            lda=a.shape[2],
            ldb=b.shape[2],
            ldc=c.shape[2],
            batch=batch,
            stride_a=a[0].size if batch else 0,
            stride_b=b[0].size if batch else 0,
            stride_c=c[0].size if batch else 0,
        )
        left = doubles(a)[:, :, :m].swapaxes(1, 2) if ta else doubles(a)[:, :, :k]
        right = doubles(b)[:, :, :k].swapaxes(1, 2) if tb else doubles(b)[:, :, :n]
        old = doubles(c)[:, :, :n]
        scale = 2 * np.abs(left) @ np.abs(right) + np.abs(old)
        assert_close(found[:, :, :n], 1.5 * left @ right + 0.5 * old, scale, dtype)
        assert np.array_equal(found[:, :, n:], c[:, :, n:])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("pes", rig.PES)
@pytest.mark.parametrize("k", [0, 40, 50_000])
def test_gemm_without_beta_does_not_read_the_result(dtype: str, pes: int, k: int) -> None:
    a, b = numbers((20, k), dtype), numbers((k, 30), dtype)
    c = np.full((20, 30), np.nan, DTYPES[dtype])
    sizes = {"m": 20, "n": 30, "k": k, "lda": max(k, 1), "ldb": 30, "ldc": 30, "batch": 1, "stride_c": 600}
    found = gemm(dtype, pes, a, b, c, alpha=1, beta=0, **sizes)
    assert_close(found, doubles(a) @ doubles(b), np.abs(doubles(a)) @ np.abs(doubles(b)), dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_gemm_without_alpha_only_scales(dtype: str) -> None:
    a, b, c = np.full((4, 4), np.nan, DTYPES[dtype]), numbers((4, 4), dtype), numbers((4, 4), dtype, 1)
    sizes = {"m": 4, "n": 4, "k": 4, "lda": 4, "ldb": 4, "ldc": 4, "batch": 1, "stride_c": 16}
    assert np.array_equal(gemm(dtype, 1, a, b, c, alpha=0, beta=0.5, **sizes), c * DTYPES[dtype](0.5))


@pytest.mark.parametrize("dtype", TYPES)
def test_gemm_takes_one_matrix_for_a_whole_batch(dtype: str) -> None:
    a, b, c = numbers((5, 6), dtype), numbers((3, 6, 7), dtype, 1), np.zeros((3, 5, 7), DTYPES[dtype])
    sizes = {"m": 5, "n": 7, "k": 6, "lda": 6, "ldb": 7, "ldc": 7, "batch": 3, "stride_b": 42, "stride_c": 35}
    found = gemm(dtype, 3, a, b, c, alpha=1, beta=0, **sizes)
    assert_close(found, doubles(a) @ doubles(b), np.abs(doubles(a)) @ np.abs(doubles(b)), dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_gemm_carries_nan_and_infinity(dtype: str) -> None:
    a, b = numbers((4, 4), dtype), numbers((4, 4), dtype, 1)
    a[1, 2], a[3, 0] = np.nan, np.inf
    sizes = {"m": 4, "n": 4, "k": 4, "lda": 4, "ldb": 4, "ldc": 4, "batch": 1, "stride_c": 16}
    found = gemm(dtype, 1, a, b, np.zeros((4, 4), DTYPES[dtype]), alpha=1, beta=0, **sizes)
    assert np.isnan(found[1]).all()
    assert np.isinf(found[3]).all()
    assert np.isfinite(found[[0, 2]]).all()
