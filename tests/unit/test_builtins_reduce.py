"""Reductions and running reductions among the built-in functions, compared with numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from tests.unit import builtins_rig as rig
from tests.unit.builtins_rig import DTYPES, Array

TYPES: Final = ("i32", "i64", "u32", "u64", "f32", "f64")
FLOATS: Final = ("f32", "f64")
SHAPES: Final = (
    (1, 1, 1),
    (3, 70_000, 1),
    (2, 400_001, 1),
    (5, 7, 9),
    (1, 5000, 700),
    (300, 100, 1),
    (0, 5, 3),
    (3, 5, 0),
)
ROWS: Final = ((1, 1), (3, 7), (2, 400_001), (200, 300), (1, 30_000), (0, 4), (4, 0))
SCANS: Final[dict[str, Any]] = {
    "sum": np.cumsum,
    "prod": np.cumprod,
    "min": np.minimum.accumulate,
    "max": np.maximum.accumulate,
}


def numbers(shape: tuple[int, ...], dtype: str) -> Array:
    random = np.random.default_rng(math.prod(shape))
    if dtype in FLOATS:
        return random.standard_normal(shape).astype(DTYPES[dtype])
    limits = np.iinfo(DTYPES[dtype])
    return random.integers(limits.min, limits.max, shape, DTYPES[dtype], endpoint=True)


def result_type(function: str, dtype: str) -> Any:
    if function.startswith("arg"):
        return np.int64
    if function in ("sum", "prod") and dtype not in FLOATS:
        return np.int64 if dtype[0] == "i" else np.uint64
    return DTYPES[dtype]


def reduce(function: str, dtype: str, x: Array, pes: int = 3) -> Array:
    outer, n, inner = x.shape
    out = np.zeros((outer, inner), result_type(function, dtype))
    values = {"in": x, "out": out, "outer": outer, "n": n, "inner": inner}
    return rig.call(f"reduce.{function}_{dtype}", pes, **values)["out"]


def scan(function: str, dtype: str, x: Array, *, exclusive: bool = False, pes: int = 3) -> Array:
    out = np.zeros(x.shape, result_type(function, dtype))
    values = {"in": x, "out": out, "outer": x.shape[0], "n": x.shape[1], "exclusive": int(exclusive)}
    return rig.call(f"scan.{function}_{dtype}", pes, **values)["out"]


def roundings(dtype: str, count: int) -> float:
    return count * float(np.finfo(DTYPES[dtype]).eps) if dtype in FLOATS else 0.0


@pytest.mark.parametrize(("function", "wanted"), [("sum", np.sum), ("min", np.all), ("max", np.any)])
@pytest.mark.parametrize("shape", [*SHAPES, (2, 0, 3)])
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("pes", rig.PES)
def test_all_bytes_but_0_are_true(
    function: str, wanted: Callable[..., Any], shape: tuple[int, int, int], part: float, pes: int
) -> None:
    random = np.random.default_rng(math.prod(shape))
    x = np.where(random.random(shape) < part, random.integers(1, 256, shape), 0).astype(np.uint8)
    out = np.zeros((shape[0], shape[2]), np.int64 if function == "sum" else np.uint8)
    values = {"in": x, "out": out, "outer": shape[0], "n": shape[1], "inner": shape[2]}
    found = rig.call(f"reduce.{function}_b8", pes, **values)["out"]
    assert np.array_equal(found, wanted(x != 0, axis=1).astype(out.dtype))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("pes", rig.PES)
def test_sum_has_few_roundings(dtype: str, shape: tuple[int, int, int], pes: int) -> None:
    x = numbers(shape, dtype)
    found = reduce("sum", dtype, x, pes)
    if dtype in FLOATS:
        sums = [math.fsum(x[i, :, j]) for i in range(shape[0]) for j in range(shape[2])]
        wanted = np.array(sums).reshape(found.shape)
        assert np.all(np.abs(found - wanted) <= roundings(dtype, 4) * np.abs(x).sum(axis=1, dtype=float) + 1e-300)
    else:
        assert np.array_equal(found, x.sum(axis=1))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_prod_is_that_of_numpy(dtype: str, shape: tuple[int, int, int]) -> None:
    x = numbers(shape, dtype)
    if dtype in FLOATS:
        x = (1 + x / 1000).astype(x.dtype)
        assert np.allclose(
            reduce("prod", dtype, x), x.prod(axis=1, dtype=float), rtol=roundings(dtype, 5 + shape[1] // 100)
        )
    else:
        assert np.array_equal(reduce("prod", dtype, x | 1), (x | 1).prod(axis=1))


@pytest.mark.parametrize("function", ["min", "max", "argmin", "argmax"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_extremes_are_those_of_numpy(function: str, dtype: str, shape: tuple[int, int, int]) -> None:
    x = numbers(shape, dtype)
    for few in (x, (x * 2).astype(np.int8).astype(x.dtype)):
        assert np.array_equal(reduce(function, dtype, few), getattr(few, function)(axis=1))


@pytest.mark.parametrize("function", ["sum", "prod"])
@pytest.mark.parametrize("dtype", TYPES)
def test_reduction_of_nothing_is_neutral(function: str, dtype: str) -> None:
    x = np.zeros((3, 0, 5), DTYPES[dtype])
    assert np.array_equal(reduce(function, dtype, x), getattr(x, function)(axis=1))


@pytest.mark.parametrize("function", ["min", "max", "argmin", "argmax"])
def test_extreme_of_nothing_is_refused(function: str) -> None:
    with pytest.raises(rig.RefusedError, match="n is 0; allowed: 1 or more"):
        reduce(function, "f32", np.zeros((3, 0, 5), np.float32))


@pytest.mark.parametrize("function", ["sum", "prod", "min", "max", "argmin", "argmax"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(4, 70_000, 1), (4, 300, 5), (4, 5, 1)])
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_reductions_follow_special_values(
    function: str, dtype: str, shape: tuple[int, int, int], special: float
) -> None:
    x = 1 + numbers(shape, dtype) / 1000
    x[1, shape[1] - 1], x[2, shape[1] // 2], x[2, shape[1] // 3] = special, special, special
    with np.errstate(invalid="ignore"):
        wanted = getattr(x, function)(axis=1)
        found = reduce(function, dtype, x)
    assert np.allclose(found, wanted, equal_nan=True, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("function", SCANS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", ROWS)
@pytest.mark.parametrize("pes", rig.PES)
def test_scan_is_that_of_numpy(function: str, dtype: str, shape: tuple[int, int], pes: int) -> None:
    x = numbers(shape, dtype)
    if function == "prod":
        x = (1 + x / 1000).astype(x.dtype) if dtype in FLOATS else x | 1
    found = scan(function, dtype, x, pes=pes)
    if dtype in FLOATS and function in ("sum", "prod"):
        wanted = SCANS[function](x.astype(float), axis=1)
        scale = np.cumsum(np.abs(x.astype(float)), axis=1) if function == "sum" else np.abs(wanted)
        assert np.all(np.abs(found - wanted) <= roundings(dtype, 50 + shape[1] // 100) * scale)
    else:
        assert np.array_equal(found, SCANS[function](x, axis=1))


@pytest.mark.parametrize("function", SCANS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", ROWS)
def test_exclusive_scan_lags_behind(function: str, dtype: str, shape: tuple[int, int]) -> None:
    x = numbers(shape, dtype)
    found, inclusive = scan(function, dtype, x, exclusive=True), scan(function, dtype, x)
    if dtype in FLOATS and function == "sum":
        scale = np.cumsum(np.abs(x.astype(float)), axis=1)[:, :-1]
        assert np.all(np.abs(found[:, 1:] - inclusive[:, :-1]) <= roundings(dtype, 50) * scale)
    elif function != "prod":
        assert np.array_equal(found[:, 1:], inclusive[:, :-1])
    neutral = {
        "sum": 0,
        "prod": 1,
        "min": np.inf if dtype in FLOATS else np.iinfo(x.dtype).max,
        "max": -np.inf if dtype in FLOATS else np.iinfo(x.dtype).min,
    }
    assert np.all(found[:, :1] == np.array(neutral[function]).astype(found.dtype))


@pytest.mark.parametrize("function", ["min", "max"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [10, 100_000])
def test_running_extremes_keep_nan(function: str, dtype: str, n: int) -> None:
    x = numbers((1, n), dtype)
    x[0, n // 2] = np.nan
    assert np.array_equal(scan(function, dtype, x), SCANS[function](x, axis=1), equal_nan=True)


@pytest.mark.parametrize("n", [10, 100_000])
@pytest.mark.parametrize("exclusive", [False, True])
def test_scan_in_place_is_that_of_a_copy(n: int, *, exclusive: bool) -> None:
    x = numbers((1, n), "f64")
    buffer = rig.Buffer(x.tobytes())
    builtin = rig.named("scan.sum_f64")
    values = {"in": buffer.address, "out": buffer.address, "outer": 1, "n": n, "exclusive": int(exclusive)}
    block = rig.pack(builtin, values)
    rig.check(builtin, block)
    rig.run(builtin, block)
    assert np.array_equal(np.frombuffer(buffer.content()), scan("sum", "f64", x, exclusive=exclusive)[0])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("exclusive", [False, True])
def test_scan_of_more_than_caches_hold_is_that_of_numpy(dtype: str, *, exclusive: bool) -> None:
    x = numbers((1, 4_300_001), dtype)
    found, wanted = scan("max", dtype, x, exclusive=exclusive), np.maximum.accumulate(x, axis=1)
    assert np.array_equal(found[:, 1:], wanted[:, :-1]) if exclusive else np.array_equal(found, wanted)
