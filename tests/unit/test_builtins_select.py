"""Choosing elements among the built-in functions, compared with numpy."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from tests.unit import builtins_rig as rig
from tests.unit.builtins_rig import Array

SIZES: Final = (0, 1, 2, 255, 256, 257, 5000, 700_000)
ITEMS: Final = (1, 2, 3, 4, 8, 12, 16, 40)


def flags(count: int, part: float) -> Array:
    """Bytes, of which all but 0 are true, as is a part of these."""
    random = np.random.default_rng(count)
    return np.where(random.random(count) < part, random.integers(1, 256, count), 0).astype(np.uint8)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("part", [0, 0.01, 0.5, 1])
@pytest.mark.parametrize("pes", rig.PES)
def test_positions_of_what_is_true(n: int, part: float, pes: int) -> None:
    a, wanted = flags(n, part), np.flatnonzero(flags(n, part))
    out = np.full(n, -7, np.int64)
    found = rig.call("select.nonzero_b8", pes, **{"in": a, "n": n, "out": out, "count": np.zeros(1, np.int64)})
    assert found["count"][0] == len(wanted)
    assert np.array_equal(found["out"][: len(wanted)], wanted)
    assert np.all(found["out"][len(wanted) :] == -7)


def take(items: Array, indices: Array, pes: int = 3) -> Array:
    """Calls the function on rows of bytes."""
    n, size = items.shape
    out = np.zeros((len(indices), size), np.uint8)
    values = {"in": items, "n": n, "item_bytes": size, "indices": indices, "num_indices": len(indices), "out": out}
    return rig.call("select.take_i64", pes, **values)["out"]


def rows(n: int, size: int) -> Array:
    return np.random.default_rng(n).integers(0, 256, (n, size)).astype(np.uint8)


@pytest.mark.parametrize("size", ITEMS)
@pytest.mark.parametrize("count", [0, 1, 300, 100_000])
@pytest.mark.parametrize("pes", rig.PES)
def test_items_by_index(size: int, count: int, pes: int) -> None:
    items, indices = rows(1000, size), np.random.default_rng(count).integers(-1000, 1000, count)
    assert np.array_equal(take(items, indices, pes), np.take(items, indices, axis=0))


@pytest.mark.parametrize("size", [65_536, 65_537, 150_000])
@pytest.mark.parametrize("pes", rig.PES)
def test_long_items_by_index(size: int, pes: int) -> None:
    items, indices = rows(5, size), np.array([3, -1, 3, 0])
    assert np.array_equal(take(items, indices, pes), np.take(items, indices, axis=0))
    with pytest.raises(rig.FailedError, match="an index"):
        take(items, np.array([3, -6]), pes)


def test_one_item_is_taken_by_many_blocks() -> None:
    """Otherwise one block would copy all memory of a VM, and nothing else could have its turn."""
    addresses = {"in": 1 << 40, "indices": 1 << 41, "out": 1 << 42}
    builtin = rig.named("select.take_i64")
    block = rig.pack(builtin, {"n": 1, "item_bytes": 1 << 30, "num_indices": 1} | addresses)
    rig.check(builtin, block)
    steps = rig.ffi.new("struct vgc_cpu_step[]", 64)
    workspace = rig.Buffer(bytes(rig.lib().vgc_cpu_builtin_workspace(builtin, block, 3)))
    pointer = rig.ffi.cast("void *", workspace.address)
    assert rig.lib().vgc_cpu_builtin_plan(builtin, block, pointer, 3, steps) == 1
    assert steps[0].blocks > 100


@pytest.mark.parametrize("index", [5, -6, 2**62, -(2**63)])
def test_index_of_no_item_fails_the_call(index: int) -> None:
    with pytest.raises(rig.FailedError, match="an index is less than -n, or n or more"):
        take(rows(5, 8), np.array([1, index, 2]))


def test_no_items_have_no_index() -> None:
    assert take(rows(0, 8), np.zeros(0, np.int64)).size == 0
    with pytest.raises(rig.FailedError, match="an index"):
        take(rows(0, 8), np.zeros(1, np.int64))


def checked(name: str, **values: Any) -> list[tuple[int, int, int]]:
    builtin = rig.named(name)
    return rig.check(builtin, rig.pack(builtin, values))


def test_ranges_are_those_of_the_items() -> None:
    apart = {"in": 0x1000, "indices": 0x2000, "out": 0x3000}
    assert checked("select.take_i64", n=3, item_bytes=12, num_indices=2, **apart) == [
        (0x1000, 36, 0),
        (0x2000, 16, 3),
        (0x3000, 24, 5),
    ]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"item_bytes": 0}, "item_bytes is 0; allowed: 1 to"),
        ({"item_bytes": 2**40, "n": 2**40}, "the number of items * item_bytes is more than any memory"),
        ({"in": 0x1001}, "in is 0x1001; allowed: multiples of 4"),
        ({"in": 0x1001, "item_bytes": 3}, None),
        ({"indices": 0x2004}, "indices is 0x2004; allowed: multiples of 8"),
        ({"n": -1}, "n is -1; allowed: 0 to"),
        ({"num_indices": 2**41}, "num_indices is 2199023255552; allowed: 0 to"),
        ({"out": 0x1000}, "in and out overlap; allowed: memory apart"),
        ({"out": 0x2000}, "indices and out overlap; allowed: memory apart"),
    ],
)
def test_wrong_calls_are_refused(changes: dict[str, int], why: str | None) -> None:
    values = {"in": 0x1000, "n": 3, "item_bytes": 12, "indices": 0x2000, "num_indices": 2, "out": 0x3000} | changes
    if why is None:
        assert checked("select.take_i64", **values)
        return
    with pytest.raises(rig.RefusedError) as refused:
        checked("select.take_i64", **values)
    assert str(refused.value).startswith(why)
