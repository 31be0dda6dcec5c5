"""Functions of single complex elements among the built-in functions, compared with numpy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from tests.unit import builtins_rig as rig
from tests.unit.builtins_rig import Array
from tests.unit.test_builtins_math import LARGE, Shape, dense, extent, layout, view

COMPLEX: Final[dict[str, Any]] = {"c64": np.complex64, "c128": np.complex128}
EDGES: Final = (0.0, -0.0, 1.0, -2.5, 1e-3, math.inf, -math.inf, math.nan)


def real_type(dtype: str) -> Any:
    return np.dtype(COMPLEX[dtype]).type(0).real.dtype


def joined(real: Any, imag: Any, dtype: str) -> Array:
    """Complex numbers, without arithmetic that would change a part of them."""
    out = np.empty(np.shape(real), COMPLEX[dtype])
    out.real, out.imag = real, imag
    return out


def edges(dtype: str) -> Array:
    parts = np.array(list(itertools.product(EDGES, EDGES)))
    return joined(parts[:, 0], parts[:, 1], dtype)


def numbers(count: int, dtype: str, seed: int = 0) -> Array:
    random = np.random.default_rng(seed)
    return joined(random.standard_normal(count) * 4, random.standard_normal(count) * 4, dtype)


def pairs(name: str, dtype: str, a: Array, b: Array) -> Array:
    """Calls a function on each element of one array with each of another."""
    where = layout((1, 1, a.size, b.size), a=(0, 0, 1, 0), b=(0, 0, 0, 1))
    out = np.zeros((a.size, b.size), np.uint8 if name in ("equal", "not_equal") else COMPLEX[dtype])
    return rig.call(f"math.{name}_{dtype}", a=a, b=b, out=out, **where)["out"]


def unary(name: str, dtype: str, a: Array) -> Array:
    shape = (1, 1, 1, a.size)
    out = np.zeros(a.size, real_type(dtype) if name in ("absolute", "angle") else COMPLEX[dtype])
    return rig.call(f"math.{name}_{dtype}", a=a, out=out, **layout(shape, a=dense(shape)))["out"]


def by_numpy(name: str, *arrays: Array) -> Array:
    function: Callable[..., Array] = getattr(np, name)
    with np.errstate(all="ignore"):
        return function(*arrays)


def assert_same(found: Array, wanted: Array) -> None:
    """Equal in both parts, with the signs of zeros."""
    assert found.dtype == wanted.dtype
    for ours, theirs in ((found.real, wanted.real), (found.imag, wanted.imag)):
        assert np.array_equal(ours, theirs, equal_nan=True)
        known = ~np.isnan(theirs)
        assert np.array_equal(np.signbit(ours[known]), np.signbit(theirs[known]))


def assert_near(found: Array, wanted: Array, roundings: float, sizes: Array) -> None:
    unit = np.finfo(found.dtype).eps
    with np.errstate(invalid="ignore"):
        is_near = np.abs(found - wanted) <= roundings * unit * sizes
    assert np.all(is_near | (found == wanted))


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("name", ["add", "subtract"])
def test_sums_of_edges_are_those_of_numpy(name: str, dtype: str) -> None:
    a = edges(dtype)
    assert_same(pairs(name, dtype, a, a), by_numpy(name, a[:, None], a[None, :]))


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("name", ["equal", "not_equal"])
def test_edges_are_equal_as_in_numpy(name: str, dtype: str) -> None:
    a = edges(dtype)
    assert np.array_equal(pairs(name, dtype, a, a), by_numpy(name, a[:, None], a[None, :]).view(np.uint8))


@pytest.mark.parametrize("dtype", COMPLEX)
def test_products_of_edges_are_those_of_their_parts(dtype: str) -> None:
    """Fused operations of numpy's own round less often."""
    a, b = edges(dtype)[:, None], edges(dtype)[None, :]
    with np.errstate(invalid="ignore"):
        wanted = joined(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real, dtype)
    assert_same(pairs("multiply", dtype, a.ravel(), b.ravel()), wanted)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_quotients_of_edges_are_those_of_numpy(dtype: str) -> None:
    a = edges(dtype)
    found, wanted = pairs("divide", dtype, a, a), by_numpy("divide", a[:, None], a[None, :])
    unit = 8 * np.finfo(COMPLEX[dtype]).eps
    for ours, theirs in ((found.real, wanted.real), (found.imag, wanted.imag)):
        assert np.array_equal(np.isnan(ours), np.isnan(theirs))
        np.testing.assert_allclose(ours, theirs, rtol=unit, atol=unit)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_products_have_few_roundings(dtype: str) -> None:
    a, b = numbers(300, dtype, 1), numbers(300, dtype, 2)
    wide, other = a[:, None].astype(np.clongdouble), b[None, :].astype(np.clongdouble)
    assert_near(pairs("multiply", dtype, a, b), wide * other, 3, np.abs(wide * other))
    assert_near(pairs("divide", dtype, a, b), wide / other, 8, np.abs(wide / other))


@pytest.mark.parametrize("dtype", COMPLEX)
def test_number_times_its_conjugate_is_real(dtype: str) -> None:
    a = numbers(5000, dtype)
    shape = (1, 1, 1, a.size)
    values = layout(shape, a=dense(shape), b=dense(shape))
    found = rig.call(f"math.multiply_{dtype}", a=a, b=a.conj(), out=np.zeros_like(a), **values)["out"]
    assert np.all(found.imag == 0)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_quotients_of_extreme_numbers_do_not_overflow_on_the_way(dtype: str) -> None:
    large = np.finfo(COMPLEX[dtype]).max / 4
    a = joined([large, large / 8], [large, -large], dtype)
    np.testing.assert_allclose(pairs("divide", dtype, a, a).diagonal(), [1, 1], rtol=1e-6)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("name", ["negative", "conjugate"])
def test_signs_are_those_of_numpy(name: str, dtype: str) -> None:
    a = np.concatenate([edges(dtype), numbers(1000, dtype)])
    assert_same(unary(name, dtype, a), by_numpy(name, a))


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize(("name", "units"), [("absolute", 2), ("angle", 4)])
def test_lengths_and_angles_are_those_of_numpy(name: str, units: int, dtype: str) -> None:
    large = joined([np.finfo(COMPLEX[dtype]).max / 2], [np.finfo(COMPLEX[dtype]).max / 3], dtype)
    a = np.concatenate([edges(dtype), numbers(5000, dtype), large])
    found, wanted = unary(name, dtype, a), by_numpy(name, a.astype(np.clongdouble)).astype(real_type(dtype))
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_allclose(found, wanted, rtol=units * np.finfo(found.dtype).eps)
    assert np.array_equal(np.signbit(found[wanted == 0]), np.signbit(wanted[wanted == 0]))


@pytest.mark.parametrize("dtype", COMPLEX)
def test_parts_are_joined(dtype: str) -> None:
    a = np.array(EDGES, real_type(dtype))
    where = layout((1, 1, a.size, a.size), a=(0, 0, 1, 0), b=(0, 0, 0, 1))
    out = np.zeros((a.size, a.size), COMPLEX[dtype])
    found = rig.call(f"math.join_{dtype}", a=a, b=a, out=out, **where)["out"]
    assert_same(found, edges(dtype).reshape(found.shape))


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("b_stride", [(0, 0, LARGE, 1), (0, 0, 0, 0), (0, 0, 1, 0), (0, 0, 1, 3)])
@pytest.mark.parametrize("pes", rig.PES)
def test_large_arrays_are_cut_into_blocks(dtype: str, b_stride: Shape, pes: int) -> None:
    shape = (1, 1, 3, LARGE)
    a, b = numbers(3 * LARGE, dtype), numbers(extent(shape, b_stride), dtype, 1)
    values = layout(shape, a=dense(shape), b=b_stride)
    found = rig.call(f"math.subtract_{dtype}", pes, a=a, b=b, out=np.zeros(shape, COMPLEX[dtype]), **values)["out"]
    assert_same(found, a.reshape(shape) - view(b, shape, b_stride))


@pytest.mark.parametrize("name", ["multiply", "conjugate"])
def test_result_may_be_an_input(name: str) -> None:
    a = numbers(700, "c64")
    shape, buffer = (1, 1, 1, 700), rig.Buffer(a.tobytes())
    builtin = rig.named(f"math.{name}_c64")
    values = {"a": buffer.address, "b": buffer.address, "out": buffer.address}
    values |= layout(shape, a=dense(shape), b=dense(shape))
    known = {param.name for param in rig.params_of(builtin)}
    block = rig.pack(builtin, {key: value for key, value in values.items() if key in known})
    rig.check(builtin, block)
    rig.run(builtin, block)
    wanted = by_numpy(name, *((a, a) if name == "multiply" else (a,)))
    np.testing.assert_allclose(np.frombuffer(buffer.content(), a.dtype), wanted, rtol=1e-5, atol=1e-5)


def checked(name: str, **changes: int) -> list[tuple[int, int, int]]:
    builtin, shape = rig.named(f"math.{name}"), (1, 1, 1, 7)
    values = {"a": 0x10000, "b": 0x20000, "out": 0x30000} | layout(shape, a=dense(shape), b=dense(shape)) | changes
    known = {param.name for param in rig.params_of(builtin)}
    return rig.check(builtin, rig.pack(builtin, {key: value for key, value in values.items() if key in known}))


def test_ranges_have_both_parts() -> None:
    assert checked("add_c64") == [(0x10000, 56, 4), (0x20000, 56, 9), (0x30000, 56, 14)]
    assert checked("equal_c128", a=0x10008) == [(0x10008, 112, 4), (0x20000, 112, 9), (0x30000, 7, 14)]
    assert checked("absolute_c64") == [(0x10000, 56, 4), (0x30000, 28, 9)]
    assert checked("join_c64") == [(0x10000, 28, 4), (0x20000, 28, 9), (0x30000, 56, 14)]


@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [
        ("add_c64", {"a": 0x10004}, "a is 0x10004; allowed: multiples of 8"),
        ("add_c128", {"a": 0x10004}, "a is 0x10004; allowed: multiples of 8"),
        ("join_c64", {"out": 0x30004}, "out is 0x30004; allowed: multiples of 8"),
        ("absolute_c64", {"out": 0x10000}, "a and out overlap; allowed: memory apart"),
        ("join_c64", {"out": 0x20000}, "b and out overlap; allowed: memory apart"),
        ("equal_c64", {"out": 0x20000}, "b and out overlap; allowed: memory apart"),
        ("conjugate_c64", {"out": 0x10008}, "a and out overlap; allowed: the same address, or memory apart"),
    ],
)
def test_wrong_calls_are_refused(name: str, changes: dict[str, int], why: str) -> None:
    with pytest.raises(rig.RefusedError) as refused:
        checked(name, **changes)
    assert str(refused.value).startswith(why)
