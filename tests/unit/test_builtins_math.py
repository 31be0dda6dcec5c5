"""Functions of single elements among the built-in functions, compared with numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit import builtins_rig as rig
from tests.unit.builtins_rig import DTYPES, Array

FLOATS: Final = ("f16", "f32", "f64")
INTEGERS: Final = ("i32", "i64", "u32", "u64")
TYPES: Final = FLOATS + INTEGERS
TYPES_AND_BOOL: Final = (*TYPES, "b8")
NUMBERS: Final = {name: number for number, name in enumerate(DTYPES)}
"""Numbers of types, for the parameter `to`."""

COMPARISONS: Final = ("equal", "not_equal", "less", "less_equal")
BINARY: Final = {
    **dict.fromkeys(("add", "subtract", "multiply"), TYPES),
    **dict.fromkeys(("maximum", "minimum", *COMPARISONS), TYPES_AND_BOOL),
    "divide": FLOATS,
    **dict.fromkeys(("floor_divide", "remainder"), INTEGERS),
}
UNARY: Final = {
    **dict.fromkeys(("negative", "absolute", "square", "sign"), TYPES),
    **dict.fromkeys(("sqrt", "reciprocal", "floor", "ceil", "rint", "trunc"), FLOATS),
}
INEXACT: Final = ("exp", "log", "sin", "cos", "tanh")
EITHER_ZERO: Final = ("maximum", "minimum")
WIDER: Final[dict[str, Any]] = {"f16": np.float64, "f32": np.float64, "f64": np.longdouble}
LINES: Final = (1, 2, 3, 5, 63, 64, 65, 511, 512, 513, 700)
LARGE: Final = 300_000
Shape: TypeAlias = tuple[int, int, int, int]


def rows(functions: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(name, dtype) for name, types in functions.items() for dtype in types]


def edges(dtype: str) -> Array:
    """Numbers at which functions change their ways."""
    if dtype == "b8":
        return np.array([False, True])
    if dtype in INTEGERS:
        limits = np.iinfo(DTYPES[dtype])
        near = [limits.min, limits.min + 1, limits.max, limits.max - 1, limits.max // 2, *range(8)]
        return np.array(near + [-i for i in range(1, 8) if limits.min < 0], DTYPES[dtype])
    info = np.finfo(DTYPES[dtype])
    sizes = [0, 1, 0.5, 1.5, 2.5, 0.49, 2, 3, 10, 89, 300, 707, 710, 1e3, 39001, 65504, 1e10, math.pi, math.pi / 2]
    sizes += [info.tiny, info.smallest_subnormal, 7 * info.smallest_subnormal, info.max, info.eps, 1 + info.eps]
    sizes += [math.inf, math.nan]
    with np.errstate(over="ignore"):
        return np.array([*sizes, *(-np.array(sizes))]).astype(DTYPES[dtype])


def numbers(count: int, dtype: str, seed: int = 0) -> Array:
    random = np.random.default_rng(seed)
    if dtype == "b8":
        return random.random(count) < 0.5
    if dtype in FLOATS:
        return (random.standard_normal(count) * 4).astype(DTYPES[dtype])
    limits = np.iinfo(DTYPES[dtype])
    few = random.integers(max(limits.min, -9), 9, count, DTYPES[dtype])
    return np.where(random.random(count) < 0.5, few, random.integers(limits.min, limits.max, count, DTYPES[dtype]))


def result_type(name: str, dtype: str) -> Any:
    return np.uint8 if name in COMPARISONS else DTYPES[dtype]


def dense(shape: Shape) -> Shape:
    return (shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1)


def view(data: Array, shape: Shape, strides: Shape) -> Array:
    return np.lib.stride_tricks.as_strided(data, shape, [stride * data.itemsize for stride in strides])


def layout(shape: Shape, **strides: Shape) -> dict[str, int]:
    values = {f"shape{axis}": length for axis, length in enumerate(shape)}
    for name, each in strides.items():
        values |= {f"{name}_stride{axis}": stride for axis, stride in enumerate(each)}
    return values


def unary(name: str, dtype: str, a: Array, pes: int = 3) -> Array:
    """Calls a function on an array of one axis."""
    shape = (1, 1, 1, a.size)
    out = np.zeros(a.size, result_type(name, dtype))
    return rig.call(f"math.{name}_{dtype}", pes, a=a, out=out, **layout(shape, a=dense(shape)))["out"]


def pairs(name: str, dtype: str, a: Array, b: Array) -> Array:
    """Calls a function on each element of one array with each of another."""
    shape = (1, 1, a.size, b.size)
    out = np.zeros((a.size, b.size), result_type(name, dtype))
    where = layout(shape, a=(0, 0, 1, 0), b=(0, 0, 0, 1))
    return rig.call(f"math.{name}_{dtype}", a=a, b=b, out=out, **where)["out"]


def by_numpy(name: str, *arrays: Array) -> Array:
    function: Callable[..., Array] = getattr(np, name)
    with np.errstate(all="ignore"):
        return function(*arrays)


def assert_same(name: str, found: Array, wanted: Array) -> None:
    """Equal, with the signs of zeros where the function promises them."""
    wanted = wanted.view(np.uint8) if name in COMPARISONS else wanted
    assert found.dtype == wanted.dtype
    assert np.array_equal(found, wanted, equal_nan=True)
    if found.dtype.kind == "f" and name not in EITHER_ZERO:
        known = ~np.isnan(wanted)  # signs of NaN say nothing
        assert np.array_equal(np.signbit(found[known]), np.signbit(wanted[known]))


def assert_near(found: Array, exact: Array, units: float) -> None:
    """At most that many units in the last place off; infinities, NaN and zeros are right."""
    with np.errstate(over="ignore"):
        rounded = exact.astype(found.dtype)
    plain = np.isfinite(rounded) & (exact != 0)
    assert_same("", found[~plain], rounded[~plain])
    sizes = np.abs(rounded[plain])
    unit = np.maximum(sizes - np.nextafter(sizes, sizes * 0), np.finfo(found.dtype).smallest_subnormal)
    assert np.all(np.abs(found[plain].astype(exact.dtype) - exact[plain]) <= units * unit.astype(exact.dtype))


@pytest.mark.parametrize(("name", "dtype"), rows(BINARY))
def test_pairs_of_edges_are_those_of_numpy(name: str, dtype: str) -> None:
    a = edges(dtype)
    assert_same(name, pairs(name, dtype, a, a), by_numpy(name, a[:, None], a[None, :]))


@pytest.mark.parametrize(("name", "dtype"), rows(UNARY))
def test_edges_are_those_of_numpy(name: str, dtype: str) -> None:
    assert_same(name, unary(name, dtype, edges(dtype)), by_numpy(name, edges(dtype)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", INEXACT)
def test_functions_are_near_the_exact_value(name: str, dtype: str) -> None:
    spread, info = np.linspace(-1, 1, 50_000), np.finfo(DTYPES[dtype])
    wide = spread * min(70_000, float(info.max))
    many = [edges(dtype), numbers(50_000, dtype), wide, np.round(wide / 2) * (math.pi / 2), spread * 750]
    a = np.concatenate([*many, 2.0 ** (spread * (info.maxexp - 1))]).astype(DTYPES[dtype])
    assert_near(unary(name, dtype, a), by_numpy(name, a.astype(WIDER[dtype])), 1 if dtype == "f16" else 4)


@pytest.mark.parametrize("dtype", FLOATS)
def test_power_is_near_the_exact_value(dtype: str) -> None:
    a = np.concatenate([edges(dtype), numbers(300, dtype)])
    exact = by_numpy("power", a[:, None].astype(WIDER[dtype]), a[None, :].astype(WIDER[dtype]))
    assert_near(pairs("power", dtype, a, a), exact, 1)


@pytest.mark.parametrize("to", TYPES_AND_BOOL)
@pytest.mark.parametrize("dtype", TYPES_AND_BOOL)
def test_conversion_is_that_of_numpy(dtype: str, to: str) -> None:
    a = np.concatenate([edges(dtype), numbers(3000, dtype)])
    if dtype == "f64":  # halves between two, a little more, a little less
        a = np.concatenate([a, *((1 + (2 * np.arange(50) + 1) / 2**11 + tiny) for tiny in (0, 2.0**-40, -(2.0**-40)))])
    if dtype in FLOATS and to in INTEGERS:
        limits = np.iinfo(DTYPES[to])
        exact = [0 if math.isnan(x) else x if math.isinf(x) else int(x) for x in a.tolist()]
        wanted = np.array([int(max(limits.min, min(limits.max, x))) for x in exact], DTYPES[to])
    else:
        wanted = by_numpy("astype", a, DTYPES[to])
    shape = (1, 1, 1, a.size)
    values = layout(shape, a=dense(shape)) | {"to": NUMBERS[to]}
    found = rig.call(f"math.convert_{dtype}", a=a, out=np.zeros(a.size, DTYPES[to]), **values)["out"]
    assert_same("convert", found, wanted)


def flags(count: int, seed: int = 0) -> Array:
    """Truth values as bytes, of which all but 0 are true."""
    random = np.random.default_rng(seed)
    return np.where(random.random(count) < 0.5, 0, random.integers(1, 256, count)).astype(np.uint8)


@pytest.mark.parametrize("name", ["maximum", "minimum", *COMPARISONS])
def test_all_bytes_but_0_are_true(name: str) -> None:
    a, b = flags(2000, 1), flags(3, 2) | np.array([0, 1, 6], np.uint8)
    found = pairs(name, "b8", a, b).view(np.uint8)
    assert np.array_equal(found, by_numpy(name, a[:, None] != 0, b[None, :] != 0).view(np.uint8))


@pytest.mark.parametrize("to", ["b8", "f16", "i64"])
def test_bytes_are_converted_to_0_and_1(to: str) -> None:
    a = flags(2000)
    shape = (1, 1, 1, a.size)
    values = layout(shape, a=dense(shape)) | {"to": NUMBERS[to]}
    found = rig.call("math.convert_b8", a=a, out=np.zeros(a.size, DTYPES[to]), **values)["out"]
    assert found.tobytes() == (a != 0).astype(DTYPES[to]).tobytes()


@pytest.mark.parametrize("dtype", TYPES_AND_BOOL)
@pytest.mark.parametrize("pes", rig.PES)
@pytest.mark.parametrize(
    ("condition", "a", "b"),
    [
        ((0, 0, LARGE, 1), (0, 0, LARGE, 1), (0, 0, LARGE, 1)),
        ((0, 0, 1, 0), (0, 0, 0, 1), (0, 0, 0, 0)),
        ((0, 0, 0, 1), (0, 0, 0, 0), (0, 0, 1, 3)),
        ((0, 0, 0, 0), (0, 0, LARGE, 1), (0, 0, 1, 0)),
    ],
)
def test_where_copies_elements_as_they_are(dtype: str, pes: int, condition: Shape, a: Shape, b: Shape) -> None:
    shape = (1, 1, 3, LARGE)
    bits = np.dtype(f"u{np.dtype(DTYPES[dtype]).itemsize}")
    random = np.random.default_rng(0)
    left, right = (np.frombuffer(random.bytes(extent(shape, each) * bits.itemsize), bits) for each in (a, b))
    flag = flags(extent(shape, condition))
    where = layout(shape, condition=condition, a=a, b=b)
    found = rig.call(f"math.where_{dtype}", pes, condition=flag, a=left, b=right, out=np.zeros(shape, bits), **where)
    wanted = np.where(view(flag, shape, condition) != 0, view(left, shape, a), view(right, shape, b))
    assert np.array_equal(found["out"], wanted)


@pytest.mark.parametrize("name", ["a", "b"])
def test_where_may_write_to_an_input(name: str) -> None:
    a, b, condition = numbers(700, "f32", 1), numbers(700, "f32", 2), flags(700)
    buffers = {"a": rig.Buffer(a.tobytes()), "b": rig.Buffer(b.tobytes()), "condition": rig.Buffer(condition.tobytes())}
    shape = (1, 1, 1, 700)
    builtin = rig.named("math.where_f32")
    addresses = {key: buffer.address for key, buffer in buffers.items()} | {"out": buffers[name].address}
    block = rig.pack(builtin, layout(shape, condition=dense(shape), a=dense(shape), b=dense(shape)) | addresses)
    rig.check(builtin, block)
    rig.run(builtin, block)
    assert np.array_equal(np.frombuffer(buffers[name].content(), np.float32), np.where(condition != 0, a, b))


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Shape, Shape, Shape]:
    """A shape, and strides of two inputs: without gaps, with gaps, or broadcast."""
    lengths = st.one_of(st.integers(0, 5), st.integers(1, 3))
    shape = draw(st.permutations([draw(lengths) for _ in range(3)] + [draw(st.sampled_from(LINES))]))

    def strides() -> Shape:
        gaps = [draw(st.integers(1, 3)) if draw(st.booleans()) else 1 for _ in shape]
        order = draw(st.permutations(range(4))) if draw(st.booleans()) else range(4)
        found, stride = [0] * 4, 1
        for axis in reversed(order):
            stride *= gaps[axis]
            found[axis] = stride
            stride *= max(shape[axis], 1)
        a, b, c, d = (0 if draw(st.integers(0, 3)) == 0 else each for each in found)
        return a, b, c, d

    a, b, c, d = shape
    return (a, b, c, d), strides(), strides()


def extent(shape: Shape, strides: Shape) -> int:
    if 0 in shape:
        return 0
    return 1 + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))


@settings(max_examples=1000, deadline=None)
@given(row=st.sampled_from(rows(BINARY)), where=layouts(), pes=st.sampled_from(rig.PES))
def test_two_inputs_are_read_along_their_strides(
    row: tuple[str, str], where: tuple[Shape, Shape, Shape], pes: int
) -> None:
    name, dtype = row
    shape, a_stride, b_stride = where
    a, b = numbers(extent(shape, a_stride), dtype, 1), numbers(extent(shape, b_stride), dtype, 2)
    out = np.zeros(shape, result_type(name, dtype))
    found = rig.call(f"math.{name}_{dtype}", pes, a=a, b=b, out=out, **layout(shape, a=a_stride, b=b_stride))["out"]
    if out.size > 0:
        assert_same(name, found, by_numpy(name, view(a, shape, a_stride), view(b, shape, b_stride)))


@settings(max_examples=500, deadline=None)
@given(row=st.sampled_from(rows(UNARY)), where=layouts(), pes=st.sampled_from(rig.PES))
def test_one_input_is_read_along_its_strides(row: tuple[str, str], where: tuple[Shape, Shape, Shape], pes: int) -> None:
    name, dtype = row
    shape, strides, _ = where
    a = numbers(extent(shape, strides), dtype)
    out = np.zeros(shape, DTYPES[dtype])
    found = rig.call(f"math.{name}_{dtype}", pes, a=a, out=out, **layout(shape, a=strides))["out"]
    if out.size > 0:
        assert_same(name, found, by_numpy(name, view(a, shape, strides)))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("b_stride", [(0, 0, LARGE, 1), (0, 0, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (0, 0, 1, 3)])
@pytest.mark.parametrize("pes", rig.PES)
def test_large_arrays_are_cut_into_blocks(dtype: str, b_stride: Shape, pes: int) -> None:
    shape = (1, 1, 3, LARGE)
    a, b = numbers(3 * LARGE, dtype), numbers(extent(shape, b_stride), dtype, 1)
    values = layout(shape, a=dense(shape), b=b_stride)
    found = rig.call(f"math.multiply_{dtype}", pes, a=a, b=b, out=np.zeros(shape, DTYPES[dtype]), **values)["out"]
    assert_same("multiply", found, by_numpy("multiply", a.reshape(shape), view(b, shape, b_stride)))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (1, 7, 1, 3), (2, 3, 10, 700), (1, 1, 1, LARGE)])
@pytest.mark.parametrize("inputs", ["a", "b", "ab"])
def test_result_may_be_an_input(dtype: str, shape: Shape, inputs: str) -> None:
    count = math.prod(shape)
    a, b = numbers(count, dtype, 1), numbers(count, dtype, 2)
    apart = {"a": rig.Buffer(a.tobytes()), "b": rig.Buffer(b.tobytes())}
    shared = apart[inputs[0]]
    addresses = {name: (shared if name in inputs else buffer).address for name, buffer in apart.items()}
    builtin = rig.named(f"math.subtract_{dtype}")
    values = layout(shape, a=dense(shape), b=dense(shape)) | addresses | {"out": shared.address}
    block = rig.pack(builtin, values)
    rig.check(builtin, block)
    rig.run(builtin, block)
    operands = (a, b) if len(inputs) == 1 else (a, a)
    assert_same("subtract", np.frombuffer(shared.content(), DTYPES[dtype]), by_numpy("subtract", *operands))


@pytest.mark.parametrize("name", ["exp_f32", "tanh_f16", "negative_i64", "sqrt_f64"])
def test_function_in_place_is_that_of_a_copy(name: str) -> None:
    function, dtype = name.split("_")
    a = np.abs(numbers(LARGE + 3, dtype))
    buffer = rig.Buffer(a.tobytes())
    shape = (1, 1, 1, a.size)
    builtin = rig.named(f"math.{name}")
    block = rig.pack(builtin, layout(shape, a=dense(shape)) | {"a": buffer.address, "out": buffer.address})
    rig.check(builtin, block)
    rig.run(builtin, block)
    assert np.array_equal(np.frombuffer(buffer.content(), a.dtype), unary(function, dtype, a))


@pytest.mark.parametrize(("dtype", "to"), [("f32", "i32"), ("u32", "f32"), ("i64", "f64"), ("f64", "u64")])
def test_conversion_in_place_is_that_of_a_copy(dtype: str, to: str) -> None:
    a = np.concatenate([edges(dtype), numbers(LARGE, dtype)])
    shape = (1, 1, 1, a.size)
    values = layout(shape, a=dense(shape)) | {"to": NUMBERS[to]}
    copy = rig.call(f"math.convert_{dtype}", a=a, out=np.zeros(a.size, DTYPES[to]), **values)["out"]
    buffer = rig.Buffer(a.tobytes())
    builtin = rig.named(f"math.convert_{dtype}")
    block = rig.pack(builtin, values | {"a": buffer.address, "out": buffer.address})
    rig.check(builtin, block)
    rig.run(builtin, block)
    assert np.array_equal(np.frombuffer(buffer.content(), copy.dtype), copy)


def checked(name: str, shape: Shape, **values: int) -> list[tuple[int, int, int]]:
    """Checks a call whose inputs have no gaps unless their strides are given."""
    builtin = rig.named(f"math.{name}")
    strides = layout(shape, a=dense(shape), b=dense(shape), condition=dense(shape))
    known = {param.name for param in rig.params_of(builtin)}
    all_values = {"a": 0x10000, "b": 0x20000, "out": 0x30000, "condition": 0x40001} | strides | values
    return rig.check(builtin, rig.pack(builtin, {key: value for key, value in all_values.items() if key in known}))


def test_ranges_end_with_the_last_element() -> None:
    assert checked("add_f32", (2, 3, 4, 5), a_stride0=100, b_stride0=0, b_stride1=0, b_stride3=0) == [
        (0x10000, 4 * (100 + 40 + 15 + 4 + 1), 4),
        (0x20000, 4 * (3 * 5 + 1), 9),
        (0x30000, 4 * 120, 14),
    ]
    assert checked("less_f64", (1, 1, 1, 7)) == [(0x10000, 56, 4), (0x20000, 56, 9), (0x30000, 7, 14)]
    assert checked("where_f64", (1, 1, 1, 7), condition_stride3=2) == [
        (0x40001, 13, 4),
        (0x10000, 56, 9),
        (0x20000, 56, 14),
        (0x30000, 56, 19),
    ]
    assert checked("convert_i32", (1, 1, 1, 7), to=NUMBERS["f64"]) == [(0x10000, 28, 4), (0x30000, 56, 9)]


def test_array_without_elements_is_no_memory() -> None:
    assert checked("add_f32", (3, 0, 4, 5), a=0, b=1, out=0) == []


HUGE: Final = 2**40
FLAT: Final = {f"{name}_stride{axis}": 0 for name in "ab" for axis in range(4)}


@pytest.mark.parametrize(
    ("name", "shape", "values", "why"),
    [
        ("add_f32", (1, -1, 1, 1), {}, "shape1 is -1; allowed: 0 to 1099511627776"),
        ("sqrt_f64", (1, 1, 1, HUGE + 1), {}, "shape3 is 1099511627777; allowed: 0 to 1099511627776"),
        ("add_f32", (HUGE, HUGE, 1, 1), {"a_stride0": 1}, "shape0 * shape1 * shape2 * shape3 is more than any memory"),
        ("add_f32", (1, 1, 1, 8), {"b_stride3": -1}, "b_stride3 is -1; allowed: 0 to 1099511627776"),
        ("add_f32", (1, 1, 1, 8), {"a_stride0": HUGE + 1}, "a_stride0 is 1099511627777; allowed: 0 to"),
        ("add_f32", (2, 1, 1, HUGE), {"b_stride3": HUGE}, "b takes more bytes than there are addresses"),
        ("square_u64", (1, 1, HUGE, 2), FLAT | {"a_stride2": HUGE}, "a takes more bytes than there"),
        ("add_f64", (1, 1, 2**31, 2**31), FLAT, "out takes more bytes than there"),
        ("add_f32", (1, 1, 1, 8), {"a": 0x10002}, "a is 0x10002; allowed: multiples of 4, the size of an element"),
        ("add_f32", (1, 1, 1, 8), {"b": 0}, "b is null; allowed: an address of device memory"),
        ("add_f16", (1, 1, 1, 8), {"out": 2**64 - 8}, "out takes more bytes than there are addresses"),
        ("add_f32", (1, 1, 1, 8), {"out": 0x10004}, "a and out overlap; allowed: the same address, or memory apart"),
        ("add_f32", (1, 1, 1, 8), {"out": 0x20004}, "b and out overlap; allowed: the same address, or memory apart"),
        ("add_f32", (1, 1, 4, 8), {"out": 0x10000, "a_stride2": 0}, "a and out overlap; allowed: memory apart"),
        ("add_f32", (1, 1, 4, 8), {"out": 0x10000, "a_stride2": 9}, "a and out overlap; allowed: memory apart"),
        ("add_f32", (1, 1, 1, 8), {"out": 0x20000, "b_stride3": 0}, "b and out overlap; allowed: memory apart"),
        ("less_f32", (1, 1, 1, 8), {"out": 0x10000}, "a and out overlap; allowed: memory apart"),
        ("exp_f32", (1, 1, 8, 8), {"out": 0x10000, "a_stride2": 1, "a_stride3": 8}, "a and out overlap; allowed: mem"),
        ("convert_f32", (1, 1, 1, 8), {"out": 0x10000, "to": NUMBERS["f64"]}, "a and out overlap; allowed: memory"),
        ("convert_f32", (1, 1, 1, 8), {"to": 8}, "to is 8; allowed: 0 to 7, a type of elements"),
        ("convert_f32", (1, 1, 1, 8), {"to": -1}, "to is -1; allowed: 0 to 7, a type of elements"),
        ("where_f32", (1, 1, 1, 8), {"condition": 0x30000}, "condition and out overlap; allowed: memory apart"),
        ("where_f32", (1, 1, 1, 8), {"a": 0x30004}, "a and out overlap; allowed: the same address, or memory apart"),
        ("where_f32", (1, 1, 1, 8), {"condition_stride1": -1}, "condition_stride1 is -1; allowed: 0 to"),
    ],
)
def test_wrong_call_is_refused_with_what_is_allowed(name: str, shape: Shape, values: dict[str, int], why: str) -> None:
    with pytest.raises(rig.RefusedError) as refused:
        checked(name, shape, **values)
    assert str(refused.value).startswith(why)


def test_result_of_the_same_size_may_be_what_is_converted() -> None:
    assert checked("convert_f32", (1, 1, 1, 8), out=0x10000, to=NUMBERS["i32"])
