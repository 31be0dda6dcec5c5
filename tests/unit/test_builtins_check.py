"""Checks of calls of built-in functions: hostile values are refused, with a text; what is allowed stays in its memory."""

from __future__ import annotations

import contextlib
import math
import re
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.unit import builtins_rig as rig

HOSTILE: Final = (
    *(-1, -(2**31), -(2**63), 2**31 - 1, 2**31, 2**32, 2**40, 2**40 + 1, 2**62, 2**63 - 1),
    *(0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 1000),
)
FACTORS: Final = (0.0, 1.0, -1.5, 0.5, math.inf, -math.inf, math.nan, 1e300, -0.0)
ADDRESSES: Final = (0, 1, 2, 3, 4096, 4097, 2**63, 2**64 - 8, 2**64 - 1, 2**47)
ARENA: Final = 1 << 14
"""Bytes of memory in which random calls may do what they like."""


def values_of(
    data: st.DataObject, builtin: Any, addresses: st.SearchStrategy[int], sizes: st.SearchStrategy[int]
) -> Any:
    values: dict[str, int | float] = {}
    for param in rig.params_of(builtin):
        if param.kind == rig.KIND_FLOAT:
            values[param.name] = data.draw(st.sampled_from(FACTORS))
        else:
            values[param.name] = data.draw(sizes if param.use == rig.USE_VALUE else addresses)
    return values


def all_names() -> list[str]:
    return [rig.text(builtin.name) for builtin in rig.builtins()]


@pytest.fixture(scope="module")
def names() -> list[str]:
    return all_names()


def test_names_are_different_and_no_names_of_c(names: list[str]) -> None:
    assert len(set(names)) == len(names) > 100
    assert all(name.count(".") == 1 for name in names)


def test_requests_tell_functions_apart(names: list[str]) -> None:
    """A request has `function << 3 | type`."""
    builtins = [rig.named(name) for name in names]
    assert all(builtin.type < rig.lib().VGC_NUM_TYPES <= 8 for builtin in builtins)
    assert len({builtin.function << 3 | builtin.type for builtin in builtins}) == len(names)


def test_functions_are_found_by_name_alone(names: list[str]) -> None:
    for name in names:
        assert rig.text(rig.named(name).name) == name
        assert rig.lib().vgc_builtin_named(name.encode(), len(name) - 1) == rig.ffi.NULL
    assert rig.lib().vgc_builtin_named(b"", 0) == rig.ffi.NULL


def test_every_function_can_be_called(names: list[str]) -> None:
    for name in names:
        assert rig.lib().vgc_cpu_builtin_usable(rig.named(name)), name


def test_parameters_are_laid_out_like_those_of_kernels(names: list[str]) -> None:
    for name in names:
        builtin, end = rig.named(name), 0
        assert builtin.num_params <= rig.lib().VGC_BUILTIN_PARAMS
        assert builtin.param_bytes <= rig.lib().VGC_BUILTIN_BLOCK
        for param in rig.params_of(builtin):
            end = (end + param.size - 1) // param.size * param.size
            assert param.offset == end, f"{name}: {param.name}"
            end += param.size
        assert builtin.param_bytes == (end + 7) // 8 * 8


@settings(max_examples=3000, deadline=None)
@given(data=st.data())
def test_hostile_values_are_refused_or_bounded(data: st.DataObject) -> None:
    builtin = rig.named(data.draw(st.sampled_from(all_names())))
    values = values_of(data, builtin, st.sampled_from(ADDRESSES), st.sampled_from(HOSTILE))
    try:
        ranges = rig.check(builtin, rig.pack(builtin, values))
    except rig.RefusedError as refused:
        event(re.sub(r"-?\d+|0x\w+", "N", str(refused)))
        return
    for address, size, param in ranges:
        assert 0 < size < 2**63
        assert address + size <= 2**64
        assert builtin.params[param].use != rig.USE_VALUE


@settings(max_examples=2000, deadline=None)
@given(data=st.data(), pes=st.sampled_from(rig.PES))
def test_allowed_calls_touch_only_what_the_check_says(data: st.DataObject, pes: int) -> None:
    builtin = rig.named(data.draw(st.sampled_from(all_names())))
    content = data.draw(st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).bytes(ARENA)))
    arena = rig.Buffer(content)
    addresses = st.integers(0, ARENA // 8 - 1).map(lambda word: arena.address + 8 * word)
    sizes = st.one_of(st.integers(0, 9), st.integers(0, 40), st.sampled_from((1, 2, 8)))
    block = rig.pack(builtin, values_of(data, builtin, addresses, sizes))
    try:
        ranges = rig.check(builtin, block)
    except rig.RefusedError:
        return
    if any(address + size > arena.address + ARENA for address, size, _ in ranges):
        return
    may_change = np.zeros(len(arena.memory), bool)
    for address, size, param in ranges:
        if builtin.params[param].use != rig.USE_IN:
            begin = address - arena.memory.ctypes.data
            may_change[begin : begin + size] = True
    with contextlib.suppress(rig.FailedError):
        rig.run(builtin, block, pes)
    assert not np.any((arena.memory != arena.before) & ~may_change)


def gemm(**changes: int) -> list[tuple[int, int, int]]:
    """Checks a product of (4, 8) and (8, 6) with some values changed."""
    values = {"m": 4, "n": 6, "k": 8, "a": 0x1000, "lda": 8, "b": 0x2000, "ldb": 6, "c": 0x3000, "ldc": 6, "batch": 1}
    builtin = rig.named("blas.gemm_f32")
    return rig.check(builtin, rig.pack(builtin, values | changes))


def test_ranges_reach_from_the_first_to_the_last_element() -> None:
    assert gemm() == [(0x1000, 128, 6), (0x2000, 192, 8), (0x3000, 96, 11)]
    assert gemm(lda=10, batch=3, stride_a=100, stride_c=24) == [
        (0x1000, 4 * (200 + 38), 6),
        (0x2000, 192, 8),
        (0x3000, 3 * 96, 11),
    ]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"lda": 7}, "lda is 7; allowed: 8 to 1099511627776, from the columns of the matrix on"),
        ({"lda": 3, "transpose_a": 1}, "lda is 3; allowed: 4 to"),
        ({"m": -1}, "m is -1; allowed: 0 to 1099511627776"),
        ({"transpose_b": 2}, "transpose_b is 2; allowed: 0 or 1"),
        ({"b": 0x2002}, "b is 0x2002; allowed: multiples of 4, the size of an element"),
        ({"a": 0}, "a is null; allowed: an address of device memory"),
        ({"c": 2**64 - 4}, "c takes more bytes than there are addresses"),
        ({"batch": 2, "stride_c": 23}, "stride_c is 23; allowed: 24 to 1099511627776, the elements of a matrix"),
        ({"batch": 2, "stride_c": 24, "stride_a": -1}, "stride_a is -1; allowed: 0 to"),
        ({"m": 2**40, "lda": 2**40}, "a takes more bytes than there are addresses"),
        ({"c": 0x1004}, "a and c overlap; allowed: memory apart"),
        ({"c": 0x2000 + 4 * 41}, "b and c overlap; allowed: memory apart"),
    ],
)
def test_wrong_product_is_refused_with_what_is_allowed(changes: dict[str, int], why: str) -> None:
    with pytest.raises(rig.RefusedError) as refused:
        gemm(**changes)
    assert str(refused.value).startswith(why)


def test_blocks_of_one_matrix_may_pass_each_other_by() -> None:
    """Trailing updates of factorisations read and write the same rows, in different columns."""
    inside = {"lda": 100, "ldb": 100, "ldc": 100, "b": 0x1000 + 4 * 1000}
    assert gemm(c=0x1000 + 4 * 8, **inside)
    with pytest.raises(rig.RefusedError, match="a and c overlap"):
        gemm(c=0x1000 + 4 * 7, **inside)


def test_columns_of_one_matrix_may_be_added() -> None:
    builtin = rig.named("blas.axpy_f64")
    values = {"n": 10, "x": 0x1000, "incx": 3, "incy": 3}
    assert len(rig.check(builtin, rig.pack(builtin, values | {"y": 0x1008}))) == 2
    with pytest.raises(rig.RefusedError, match="x and y overlap"):
        rig.check(builtin, rig.pack(builtin, values | {"y": 0x1018}))


@pytest.mark.parametrize("name", ["sort.keys_f32", "scan.max_i64", "fft.c2c_f64"])
def test_some_functions_work_in_place_but_not_shifted(name: str) -> None:
    builtin = rig.named(name)
    lengths = {"batch": 1, "n0": 8, "n1": 1, "n2": 1, "rank": 1} if name.startswith("fft") else {"outer": 1, "n": 8}
    assert rig.check(builtin, rig.pack(builtin, {"in": 0x1000, "out": 0x1000} | lengths))
    with pytest.raises(rig.RefusedError, match="in and out overlap; allowed: the same address, or memory apart"):
        rig.check(builtin, rig.pack(builtin, {"in": 0x1000, "out": 0x1008} | lengths))


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("math.convert_b8", "a"),
        ("math.negative_f16", "a"),
        ("math.add_f32", "b"),
        ("math.multiply_c128", "a"),
        ("math.where_b8", "condition"),
        ("math.where_f64", "b"),
    ],
)
def test_places_of_an_array_are_no_more_than_there_are_addresses(name: str, array: str) -> None:
    """The number of places up to the last one would be 2^64, which is 0 again."""
    builtin = rig.named(name)
    shape = {"shape0": 1, "shape1": 1, "shape2": 2, "shape3": 1 << 24}
    addresses = {param.name: 1 << (40 + i) for i, param in enumerate(rig.params_of(builtin)) if param.use}
    strides = {f"{array}_stride2": (1 << 40) - 1, f"{array}_stride3": 1 << 40}
    assert (1 << 40) - 1 + ((1 << 24) - 1 << 40) == (1 << 64) - 1
    with pytest.raises(rig.RefusedError, match=f"^{array} takes more bytes than there are addresses"):
        rig.check(builtin, rig.pack(builtin, shape | addresses | strides))


def test_small_calls_are_one_block() -> None:
    builtin = rig.named("sort.unique_f32")
    x, out, count = (rig.Buffer(bytes(400)), rig.Buffer(bytes(400)), rig.Buffer(bytes(8)))
    block = rig.pack(builtin, {"in": x.address, "n": 100, "out": out.address, "count": count.address})
    assert rig.lib().vgc_cpu_builtin_workspace(builtin, block, 8) == 0
    workspace = rig.Buffer(bytes(rig.SMALL))
    steps = rig.ffi.new("struct vgc_cpu_step[]", 64)
    pointer = rig.ffi.cast("void *", workspace.address)
    assert rig.lib().vgc_cpu_builtin_plan(builtin, block, pointer, 8, steps) == 1
    assert steps[0].blocks == 1
    steps[0].run(steps, 0)
    workspace.check(written=True)
    assert int.from_bytes(count.content(), "little") == 1


def test_missing_openblas_leaves_the_other_functions() -> None:
    why = rig.ffi.new("char[256]")
    assert rig.lib().vgc_cpu_builtins_open(b"/nowhere/libopenblas.so", why) < 0
    assert rig.text(why).startswith("OpenBLAS cannot be loaded: /nowhere/libopenblas.so")
