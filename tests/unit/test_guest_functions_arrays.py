"""Reductions, sorting and counting of devices, on the CPU engine's library, compared with numpy."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import guest_driver as vgc
from tests.unit.builtins_device import BuiltinsDevice, Place, dev, fake, link, place
from virtio_proto.schema import Opcode

__all__ = ["dev", "fake", "link", "place"]

TYPES: Final = ("int32", "int64", "uint32", "uint64", "float32", "float64")
SCANS: Final[dict[str, Any]] = {
    "sum": np.cumsum,
    "prod": np.cumprod,
    "min": np.minimum.accumulate,
    "max": np.maximum.accumulate,
}


def numbers(shape: tuple[int, ...], dtype: str) -> Any:
    """Small whole numbers: their sums and products are exact in every type."""
    return np.random.default_rng(len(shape)).integers(0, 4, shape).astype(dtype)


def assert_same(found: Any, wanted: Any) -> None:
    assert found.dtype == np.asarray(wanted).dtype
    assert found.shape == np.asarray(wanted).shape
    assert np.array_equal(found, wanted, equal_nan=found.dtype.kind == "f")


# ---- reductions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["sum", "prod", "min", "max", "argmin", "argmax"])
@pytest.mark.parametrize("dtype", TYPES)
def test_reductions(dev: vgc.Device, place: Place, function: str, dtype: str) -> None:
    a = numbers((3, 4, 5), dtype)
    reduce, wanted = getattr(dev.reduce, function), getattr(np, function)
    for axis in (None, 0, 1, 2, -1, -3):
        for keepdims in (False, True):
            assert_same(place.take(reduce(place.put(a), axis, keepdims=keepdims)), wanted(a, axis, keepdims=keepdims))
    assert_same(place.take(reduce(place.put(a[0, 0]))), wanted(a[0, 0]))


@pytest.mark.parametrize("axis", [(0, 1), (1, 2), (2, 1), (-1, -2), (0, 1, 2), (1,)])
def test_neighbouring_axes_are_reduced_together(dev: vgc.Device, place: Place, axis: tuple[int, ...]) -> None:
    a = numbers((3, 4, 5), "int32")
    assert_same(place.take(dev.reduce.sum(place.put(a), axis)), a.sum(axis))


@pytest.mark.parametrize(("shape", "axis"), [((0,), None), ((0, 3), 0), ((0, 3), 1), ((3, 0), 1), ((), None)])
def test_sums_of_few_elements(dev: vgc.Device, place: Place, shape: tuple[int, ...], axis: int | None) -> None:
    a = np.ones(shape, "float32")
    assert_same(place.take(dev.reduce.sum(place.put(a), axis)), a.sum(axis))


def test_nan_is_the_least_and_the_largest(dev: vgc.Device, place: Place) -> None:
    a = np.array([[1, np.nan, 0], [3, 2, 1]], "float32")
    assert_same(place.take(dev.reduce.min(place.put(a), 1)), a.min(1))
    assert_same(place.take(dev.reduce.argmax(place.put(a), 1)), a.argmax(1))


A = numbers((3, 4), "float32")


@pytest.mark.parametrize(
    ("group", "function", "arguments", "error", "text"),
    [
        ("reduce", "sum", (A, 2), ValueError, r"axis 2 of an array of shape \(3, 4\); allowed: -2 to 1"),
        ("reduce", "sum", (np.ones((2, 2, 2)), (0, 2)), ValueError, r"axes \(0, 2\) of .* several that are neighbours"),
        ("reduce", "sum", (A, (0, 0)), ValueError, r"axes \(0, 0\)"),
        ("reduce", "sum", (A, ()), ValueError, "allowed: one axis, several that are neighbours, or None"),
        ("reduce", "sum", ([1, 2],), TypeError, "a is a list"),
        (
            "reduce",
            "sum",
            (A.astype("i1"),),
            TypeError,
            "a has elements of int8; allowed: float32, float64, int32, int64",
        ),
        ("reduce", "max", (A[:0],), ValueError, r"max of no elements: a has shape \(0, 4\); allowed: one element"),
        ("reduce", "argmin", (A[:, :0], 1), ValueError, "argmin of no elements"),
        ("scan", "sum", (A, 2), ValueError, r"^axis 2 of an array of shape \(3, 4\); allowed: -2 to 1"),
        ("scan", "max", (A, -3), ValueError, "axis -3 of an array"),
        ("scan", "max", (A.astype("f2"),), TypeError, "a has elements of float16"),
        ("sort", "sort", (A, -3), ValueError, "^axis -3 of an array"),
        ("sort", "argsort", (A.astype(complex),), TypeError, "a has elements of complex128"),
        ("sort", "pairs", (A, A[0]), ValueError, r"values has shape \(4,\); allowed: \(3, 4\)"),
        ("sort", "pairs", (A, A.astype(complex)), TypeError, "complex128; allowed: types of 1, 2, 4 or 8 bytes"),
        ("sort", "pairs", (A, A.astype(object)), TypeError, "values has elements of object"),
        ("sort", "pairs", (A, 3), TypeError, "values is a int; allowed: device arrays and numpy arrays"),
        ("sort", "unique", ("text",), TypeError, "a is a str"),
        ("count", "histogram", (A, [0, 1]), TypeError, "bins is a list; allowed: a number of bins"),
        ("count", "histogram", (A, 0), ValueError, "bins is 0; allowed: 1 to 16777216"),
        ("count", "histogram", (A, 3, (2, 1)), ValueError, r"range \(2, 1\); allowed: finite numbers"),
        ("count", "histogram", (A * np.nan,), ValueError, r"range \(nan, nan\)"),
        ("count", "bincount", (A,), TypeError, "float32; allowed: int32, int64, uint32, uint64"),
        ("count", "bincount", (np.array([[1]]),), ValueError, "allowed: arrays of 1 dimensions"),
        ("count", "bincount", (np.array([-1]),), ValueError, "a has the element -1; allowed: 0 to 16777215"),
        ("count", "bincount", (np.array([1 << 24]),), ValueError, "a has the element 16777216"),
        ("count", "bincount", (np.array([1]), -1), ValueError, "minlength is -1; allowed: 0 to"),
    ],
)
def test_refusals(
    dev: vgc.Device,
    fake: BuiltinsDevice,
    *,
    group: str,
    function: str,
    arguments: tuple[Any, ...],
    error: type[Exception],
    text: str,
) -> None:
    with pytest.raises(error, match=text):
        getattr(getattr(dev, group), function)(*arguments)
    assert Opcode.CALL not in fake.opcodes()


# ---- running reductions --------------------------------------------------------------------------


@pytest.mark.parametrize("function", SCANS)
@pytest.mark.parametrize("dtype", TYPES)
def test_scans(dev: vgc.Device, place: Place, function: str, dtype: str) -> None:
    a = numbers((2, 3, 4), dtype)
    scan, accumulate = getattr(dev.scan, function), SCANS[function]
    assert_same(place.take(scan(place.put(a))), accumulate(a, -1))
    assert_same(place.take(scan(place.put(a), None)), accumulate(a.ravel(), 0))
    found = place.take(scan(place.put(a), 2, exclusive=True))
    assert_same(found[..., 1:], accumulate(a, -1)[..., :-1])


@pytest.mark.parametrize("function", SCANS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axis", [0, 1, -3])
def test_scans_run_along_any_axis(dev: vgc.Device, place: Place, function: str, dtype: str, axis: int) -> None:
    a = numbers((2, 3, 4), dtype)
    assert_same(place.take(getattr(dev.scan, function)(place.put(a), axis)), SCANS[function](a, axis))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 5), (5, 1), (2, 0, 3)])
def test_axes_of_few_elements(dev: vgc.Device, place: Place, shape: tuple[int, ...]) -> None:
    a = numbers(shape, "int32")
    for axis in range(len(shape)):
        assert_same(place.take(dev.scan.sum(place.put(a), axis)), np.cumsum(a, axis))
        assert_same(place.take(dev.sort.sort(place.put(a), axis)), np.sort(a, axis))


def test_results_along_other_axes_are_in_c_order(dev: vgc.Device) -> None:
    assert dev.sort.sort(numbers((3, 4), "int32"), 0).flags.c_contiguous
    assert dev.scan.sum(np.asfortranarray(numbers((3, 4), "int32")), 0).flags.c_contiguous


# ---- sorting -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
def test_sorting(dev: vgc.Device, place: Place, dtype: str) -> None:
    a = numbers((3, 20), dtype)
    assert_same(place.take(dev.sort.sort(place.put(a))), np.sort(a))
    assert_same(place.take(dev.sort.sort(place.put(a), descending=True)), np.sort(a)[:, ::-1])
    assert_same(place.take(dev.sort.sort(place.put(a), None)), np.sort(a, None))
    assert_same(place.take(dev.sort.argsort(place.put(a))), np.argsort(a, kind="stable"))
    assert_same(place.take(dev.sort.unique(place.put(a))), np.unique(a))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axis", [0, 1, 2, -2])
def test_sorting_along_any_axis(dev: vgc.Device, place: Place, dtype: str, axis: int) -> None:
    a = numbers((5, 7, 6), dtype)
    assert_same(place.take(dev.sort.sort(place.put(a), axis)), np.sort(a, axis))
    assert_same(place.take(dev.sort.argsort(place.put(a), axis)), np.argsort(a, axis, kind="stable"))
    assert_same(place.take(dev.sort.sort(place.put(a), axis, descending=True)), np.flip(np.sort(a, axis), axis))


def test_floats_keep_their_edges_along_any_axis(dev: vgc.Device, place: Place) -> None:
    a = np.array([[0.0, np.nan, 2], [-0.0, -np.inf, np.nan], [-1.0, 5, np.inf]], "float32")
    assert_same(place.take(dev.sort.sort(place.put(a), 0)), np.sort(a, 0))
    least = place.take(dev.scan.min(place.put(np.full((2, 2), -0.0)), 0))
    assert np.all(np.signbit(least))
    with np.errstate(invalid="ignore"):
        assert_same(place.take(dev.scan.sum(place.put(a), 0)), np.cumsum(a, 0))


def test_sorting_along_the_first_axis_in_a_stream(dev: vgc.Device) -> None:
    a = numbers((50, 7), "float32")
    with dev.stream() as stream:
        order = dev.sort.argsort(dev.to_device(a), 0, stream=stream)
        stream.synchronize()
    assert_same(order.get(), np.argsort(a, 0, kind="stable"))


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "complex64", "bool"])
def test_pairs(dev: vgc.Device, place: Place, dtype: str) -> None:
    keys = numbers((2, 30), "int32")
    values = np.arange(60).reshape(2, 30).astype(dtype)
    order = np.argsort(keys, kind="stable")
    found = [place.take(array) for array in dev.sort.pairs(place.put(keys), place.put(values))]
    assert_same(found[0], np.sort(keys))
    assert_same(found[1], np.take_along_axis(values, order, 1))


def test_unique_of_nothing(dev: vgc.Device, place: Place) -> None:
    assert_same(place.take(dev.sort.unique(place.put(np.zeros(0, "int32")))), np.zeros(0, "int32"))


def test_unique_keeps_the_memory_that_it_shares(dev: vgc.Device, fake: BuiltinsDevice) -> None:
    found = dev.sort.unique(dev.to_device(np.array([3, 1, 3, 1], "int32")))
    assert isinstance(found, vgc.DeviceArray)
    assert found.get().tolist() == [1, 3]
    assert len(fake.memory) == 1
    del found
    assert fake.memory == {}


# ---- counting ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("bins", "limits"), [(10, None), (7, (0.5, 2.5)), (1, (0, 4))])
def test_histogram(dev: vgc.Device, place: Place, dtype: str, bins: int, limits: tuple[float, float] | None) -> None:
    a = numbers((5, 20), dtype)
    counts, edges = dev.count.histogram(place.put(a), bins, limits)
    wanted, wanted_edges = np.histogram(a.astype(float), bins, limits)
    assert_same(place.take(counts), wanted)
    assert_same(edges, wanted_edges)


@pytest.mark.parametrize("a", [np.zeros(0), np.full(3, 7.0)])
def test_histogram_of_one_number_or_none(dev: vgc.Device, place: Place, a: Any) -> None:
    counts, edges = dev.count.histogram(place.put(a))
    wanted, wanted_edges = np.histogram(a)
    assert_same(place.take(counts), wanted)
    assert_same(edges, wanted_edges)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32"])
@pytest.mark.parametrize("minlength", [0, 2, 9])
@pytest.mark.parametrize("size", [0, 50])
def test_bincount(dev: vgc.Device, place: Place, dtype: str, minlength: int, size: int) -> None:
    a = numbers((size,), dtype)
    assert_same(place.take(dev.count.bincount(place.put(a), minlength)), np.bincount(a, minlength=minlength))


# ---- numbers of numpy ----------------------------------------------------------------------------


def test_axes_are_numbers_of_numpy_too(dev: vgc.Device, place: Place) -> None:
    a = numbers((3, 4), "int32")
    assert_same(place.take(dev.reduce.sum(place.put(a), np.int64(1))), a.sum(1))  # type: ignore[arg-type]
    assert dev.random.bits(np.int64(3), seed=np.uint8(1)).shape == (3,)  # type: ignore[arg-type]
    assert dev.empty(np.int64(3)).shape == (3,)  # type: ignore[arg-type]


def test_seeds_are_whole_numbers(dev: vgc.Device) -> None:
    for seed in (1.5, None, (1, 2)):
        with pytest.raises(TypeError, match=r"seed is a .*; allowed: whole numbers"):
            dev.random.bits(3, seed=seed)  # type: ignore[arg-type]


def test_arrays_without_dimensions_have_no_axes(dev: vgc.Device, place: Place) -> None:
    with pytest.raises(vgc.InvalidArgument, match="axis -1 of an array without dimensions"):
        dev.sort.sort(place.put(np.array(3.0)))


# ---- numpy arrays beside device arrays -----------------------------------------------------------


def test_small_numpy_arrays_travel_with_the_request(dev: vgc.Device, fake: BuiltinsDevice) -> None:
    x = dev.to_device(np.arange(3.0))
    before = len(fake.opcodes())
    found = dev.math.add(x, 1.5)
    assert Opcode.CALL in fake.opcodes()[before:]
    assert not {Opcode.LAUNCH, Opcode.COPY_IN} & set(fake.opcodes()[before:])
    assert found.get().tolist() == [1.5, 2.5, 3.5]


def test_large_numpy_arrays_are_copied_before(dev: vgc.Device, fake: BuiltinsDevice) -> None:
    a = np.arange(10_000.0)
    found = dev.math.add(dev.to_device(a), a)
    assert Opcode.CALL not in fake.opcodes()
    assert np.array_equal(found.get(), a + a)
