"""Sorting and counting among the built-in functions, compared with numpy."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from tests.unit import builtins_rig as rig
from tests.unit.builtins_rig import DTYPES, Array

TYPES: Final = ("i32", "i64", "u32", "u64", "f32", "f64")
FLOATS: Final = ("f32", "f64")
SHAPES: Final = ((1, 0), (0, 5), (1, 1), (1, 2), (3, 17), (300, 100), (1, 100_000), (3, 300_001), (1, 1_500_000))
FEW: Final = 1000


def numbers(shape: tuple[int, ...], dtype: str, *, few: bool = False) -> Array:
    random = np.random.default_rng(len(shape))
    if dtype in FLOATS:
        x = random.standard_normal(shape).astype(DTYPES[dtype])
        x = np.round(x, 2) if few else x
        x.ravel()[::7] = -0.0
        x.ravel()[5::11] = 0.0
        x.ravel()[3::13] = np.inf
        x.ravel()[4::17] = -np.inf
        x.ravel()[6::19] = np.nan
        x.ravel()[8::23] = -np.nan
        return x
    limits = np.iinfo(DTYPES[dtype])
    low, high = (max(limits.min, -FEW), FEW) if few else (limits.min, limits.max)
    return random.integers(low, high, shape, DTYPES[dtype], endpoint=True)


def ascending(x: Array, *, descending: bool) -> Array:
    """Numbers whose ascending order is the wanted one."""
    if not descending:
        return x
    return -x if x.dtype.kind == "f" else ~x


def sort(function: str, x: Array, out: Array, *, descending: bool, pes: int = 3) -> Array:
    dtype = next(name for name in TYPES if DTYPES[name] == x.dtype)
    values = {"in": x, "out": out, "outer": x.shape[0], "n": x.shape[1], "descending": int(descending)}
    return rig.call(f"sort.{function}_{dtype}", pes, **values)["out"]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("pes", rig.PES)
def test_keys_are_sorted(dtype: str, shape: tuple[int, int], pes: int) -> None:
    for descending in (False, True):
        x = numbers(shape, dtype)
        found = sort("keys", x, np.zeros_like(x), descending=descending, pes=pes)
        wanted = ascending(np.sort(ascending(x, descending=descending), axis=1), descending=descending)
        assert np.array_equal(found, wanted, equal_nan=dtype in FLOATS)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("order", ["sorted", "reversed", "equal", "sawtooth"])
def test_keys_of_patterns_are_sorted(dtype: str, order: str) -> None:
    n = 400_000
    rows = {
        "sorted": np.arange(n),
        "reversed": np.arange(n)[::-1],
        "equal": np.full(n, 7),
        "sawtooth": np.arange(n) % 1013,
    }
    x = rows[order].astype(DTYPES[dtype])[None]
    assert np.array_equal(sort("keys", x, np.zeros_like(x), descending=False), np.sort(x))


@pytest.mark.parametrize("n", [100, 600_000, 1_500_000, 9_000_000])
def test_keys_are_sorted_in_place(n: int) -> None:
    x = numbers((1, n), "f32")
    buffer = rig.Buffer(x.tobytes())
    builtin = rig.named("sort.keys_f32")
    block = rig.pack(builtin, {"in": buffer.address, "out": buffer.address, "outer": 1, "n": n})
    rig.check(builtin, block)
    rig.run(builtin, block)
    assert np.array_equal(np.frombuffer(buffer.content(), np.float32), np.sort(x[0]), equal_nan=True)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("pes", rig.PES)
def test_argsort_is_stable(dtype: str, shape: tuple[int, int], pes: int) -> None:
    for descending in (False, True):
        x = numbers(shape, dtype, few=True)
        found = sort("argsort", x, np.zeros(shape, np.int64), descending=descending, pes=pes)
        wanted = np.argsort(ascending(x, descending=descending), axis=1, kind="stable")
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("value", [np.uint8, np.int16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 0), (3, 17), (2, 200_001)])
def test_values_move_with_their_keys(dtype: str, value: type, shape: tuple[int, int]) -> None:
    keys = numbers(shape, dtype, few=True)
    values: Array = np.random.default_rng(3).integers(0, 100, shape).astype(value)
    found = rig.call(
        f"sort.pairs_{dtype}",
        keys=keys,
        values=values,
        keys_out=np.zeros_like(keys),
        values_out=np.zeros_like(values),
        outer=shape[0],
        n=shape[1],
        value_bytes=values.itemsize,
    )
    order = np.argsort(keys, axis=1, kind="stable")
    assert np.array_equal(found["keys_out"], np.take_along_axis(keys, order, 1), equal_nan=dtype in FLOATS)
    assert np.array_equal(found["values_out"], np.take_along_axis(values, order, 1))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [0, 1, 2, 1000, 300_001, 1_200_000])
@pytest.mark.parametrize("few", [False, True])
def test_unique_elements_come_in_order(dtype: str, n: int, *, few: bool) -> None:
    x = numbers((n,), dtype, few=few)
    found = rig.call(f"sort.unique_{dtype}", n=n, out=np.zeros_like(x), count=np.zeros(1, np.int64), **{"in": x})
    wanted = np.unique(x)
    assert found["count"][0] == len(wanted)
    assert np.array_equal(found["out"][: len(wanted)], wanted, equal_nan=dtype in FLOATS)


def histogram(x: Array, bins: int, low: float, high: float, pes: int) -> Array:
    dtype = next(name for name in TYPES if DTYPES[name] == x.dtype)
    values = {"in": x, "n": len(x), "counts": np.full(bins, 99, np.int64), "bins": bins, "low": low, "high": high}
    return rig.call(f"count.histogram_{dtype}", pes, **values)["counts"]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [0, 1, 1000, 200_000])
@pytest.mark.parametrize("bins", [1, 7, 100, 100_000])
@pytest.mark.parametrize("pes", rig.PES)
def test_histogram_is_that_of_numpy(dtype: str, n: int, bins: int, pes: int) -> None:
    x = numbers((n,), dtype, few=True)
    low, high = (-1.3, 2.7) if dtype in FLOATS else (3.0, 401.0)
    wanted = np.histogram(x.astype(np.float64), bins, (low, high))[0]
    assert np.array_equal(histogram(x, bins, low, high, pes), wanted)


def test_elements_on_edges_are_in_the_bins_of_numpy() -> None:
    for bins, low, high in ((10, 0.0, 1.0), (7, -0.1, 0.3), (1000, 1.1, 1.7), (3, 0.0, 1e-300)):
        edges = np.linspace(low, high, bins + 1)
        x = np.concatenate([edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)])
        assert np.array_equal(histogram(x, bins, low, high, 1), np.histogram(x, bins, (low, high))[0])


@pytest.mark.parametrize("dtype", ["i32", "i64", "u32", "u64"])
@pytest.mark.parametrize("n", [0, 1, 1000, 200_000])
@pytest.mark.parametrize("bins", [1, 300, 100_000])
@pytest.mark.parametrize("pes", rig.PES)
def test_bincount_is_that_of_numpy(dtype: str, n: int, bins: int, pes: int) -> None:
    x = np.random.default_rng(1).integers(0, bins, n).astype(DTYPES[dtype])
    values = {"in": x, "n": n, "counts": np.full(bins, 99, np.int64), "bins": bins}
    wanted = np.bincount(x.astype(np.int64), minlength=bins)
    assert np.array_equal(rig.call(f"count.bincount_{dtype}", pes, **values)["counts"], wanted)


@pytest.mark.parametrize("wrong", [-1, 10, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("n", [3, 200_000])
def test_bincount_of_a_wrong_number_fails(wrong: int, n: int) -> None:
    x = np.zeros(n, np.int32)
    x[n // 2] = wrong
    with pytest.raises(rig.FailedError, match="an element of in is negative, or bins or more"):
        rig.call("count.bincount_i32", n=n, counts=np.zeros(10, np.int64), bins=10, **{"in": x})
