"""Threads of the CUDA engine's built-in functions wait for each other: the software GPU reports those that do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest

from tests.unit import builtins_rig as rig
from tests.unit import cpu_rig
from tests.unit import cuda_builtins_rig as cuda
from vhost_backend.engines.cuda.builtins import sources

MODULES: Final = [module for module in sources.MODULES if "__shared__" in sources.source(module)]
N: Final = 9000
"""More than a tile of any module has."""


def numbers(*shape: int) -> Any:
    return np.random.default_rng(1).integers(0, 100, shape).astype(np.int32)


def reduce_calls() -> None:
    for outer, n, inner in ((2, N, 1), (3, 50, 40)):
        for function, dtype in (("sum", np.int64), ("max", np.int32), ("argmin", np.int64)):
            out = np.zeros((outer, inner), dtype)
            values = {"in": numbers(outer, n, inner), "out": out, "outer": outer, "n": n, "inner": inner}
            rig.call(f"reduce.{function}_i32", **values)


def scan_calls() -> None:
    for shape in ((2, N), (20, 30)):
        x = numbers(*shape)
        rig.call("scan.max_i32", **{"in": x, "out": np.zeros_like(x), "outer": shape[0], "n": shape[1]})


def count_calls() -> None:
    for bins in (100, 10_000):
        rig.call("count.bincount_i32", n=N, counts=np.zeros(bins, np.int64), bins=bins, **{"in": numbers(N)})


def sort_calls() -> None:
    for n in (500, N):
        x = numbers(2, n)
        values = {"in": x, "outer": 2, "n": n}
        rig.call("sort.keys_i32", out=np.zeros_like(x), **values)
        rig.call("sort.argsort_i32", out=np.zeros(x.shape, np.int64), **values)
        rig.call("sort.unique_i32", n=n, out=np.zeros(n, np.int32), count=np.zeros(1, np.int64), **{"in": x[0]})


def select_calls() -> None:
    for n in (100, N):
        flags, values = (numbers(n) > 2).astype(np.uint8), {"n": n, "out": np.zeros(n, np.int64)}
        rig.call("select.nonzero_b8", count=np.zeros(1, np.int64), **values, **{"in": flags})


def blas_calls() -> None:
    x, result = np.ones(N), np.zeros(1)
    rig.call("blas.dot_f64", n=N, x=x, incx=1, y=x, incy=1, result=result)
    rig.call("blas.nrm2_f64", n=N, x=x, incx=1, result=result)
    for side, k in ((70, 100), (70, 3000), (200, 40)):
        sizes = {"m": side, "n": side, "k": k, "lda": k, "ldb": side, "ldc": side, "batch": 1, "alpha": 1}
        a, b, c = (np.ones(shape, np.float32) for shape in ((side, k), (k, side), (side, side)))
        rig.call("blas.gemm_f32", a=a, b=b, c=c, **sizes)


def conv_calls() -> None:
    sizes = dict.fromkeys(("batch", "stride_h", "stride_w", "dilation_h", "dilation_w", "groups"), 1)
    sizes |= {"channels": 8, "height": 20, "width": 20, "filters": 70, "kernel_h": 3, "kernel_w": 3}
    x, weights, y = (np.ones(shape, np.float32) for shape in ((8, 20, 20), (70, 8, 3, 3), (70, 18, 18)))
    rig.call("conv.conv2d_f32", x=x, weights=weights, y=y, **sizes)


def fft_calls() -> None:
    for n0, n1 in ((60, 1), (60, 7), (17, 1), (2100, 1)):
        x = np.ones((2, n0, n1), np.complex64)
        rig.call("fft.c2c_f32", batch=2, n0=n0, n1=n1, n2=1, rank=2, out=np.zeros_like(x), **{"in": x})


CALLS: Final = {
    "blas": blas_calls,
    "conv": conv_calls,
    "count": count_calls,
    "fft": fft_calls,
    "reduce": reduce_calls,
    "scan": scan_calls,
    "select": select_calls,
    "sort": sort_calls,
}


@pytest.fixture(scope="module")
def engine() -> Iterator[cpu_rig.Rig]:
    with cpu_rig.rig(2) as engine:
        yield engine


@pytest.mark.parametrize("module", MODULES)
def test_threads_wait_for_each_other(module: str, engine: cpu_rig.Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    side = cuda.Side(engine, lambda module: cuda.image(module, "--racecheck"))
    monkeypatch.setattr(rig, "run", side.run)
    CALLS[module]()
    assert engine.take_output() == ("", 0, 0)


@pytest.mark.parametrize("barrier", [0, 1])
def test_missing_barrier_is_reported(barrier: int, engine: cpu_rig.Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_barrier(module: str) -> bytes:
        parts = sources.source(module).split("__syncthreads();")
        assert len(parts) > barrier + 1
        parts[barrier : barrier + 2] = [parts[barrier] + parts[barrier + 1]]
        return cpu_rig.compile_image("__syncthreads();".join(parts), ("--racecheck",))[0]

    monkeypatch.setattr(rig, "run", cuda.Side(engine, without_barrier).run)
    with pytest.raises(AssertionError, match="reduce_sum_i32"):
        reduce_calls()
    assert "racecheck: " in engine.take_output()[0]
