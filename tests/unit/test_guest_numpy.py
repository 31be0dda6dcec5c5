"""numpy's functions and operators on device arrays, on the CPU engine's library, compared with numpy itself."""

from __future__ import annotations

import operator
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np
import pytest

import guest_driver as vgc
from tests.unit.builtins_device import dev, fake, link

__all__ = ["dev", "fake", "link"]

A: Final = np.array([[3, 1, 2], [1, 5, 1]], "float32")
B: Final = np.array([[2, 2, 4], [1, -1, 0.5]], "float32")
WHOLE: Final = np.array([3, 1, 0, 1, 7], "int32")


def taken(result: Any) -> Any:
    """Result in the guest; tuples item by item."""
    if isinstance(result, tuple):
        return tuple(map(taken, result))
    return result.get() if isinstance(result, vgc.DeviceArray) else result


def assert_like_numpy(function: Callable[..., Any], dev: vgc.Device, *arrays: Any) -> None:
    """The function gives on device arrays what it gives on numpy arrays, on the device."""
    found = function(*(dev.to_device(one) if isinstance(one, np.ndarray) else one for one in arrays))
    wanted = function(*arrays)
    for ours, theirs in zip(*(one if isinstance(one, tuple) else (one,) for one in (found, wanted)), strict=True):
        assert isinstance(ours, vgc.DeviceArray) or isinstance(found, tuple)
        result, expected = taken(ours), np.asarray(theirs)
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(result, expected, rtol=2e-6, atol=2e-6)


# ---- functions -----------------------------------------------------------------------------------

FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "sum": lambda a: np.sum(a, axis=1),
    "sum keepdims": lambda a: np.sum(a, axis=0, keepdims=True),
    "sum of all": np.sum,
    "mean": np.mean,
    "mean of rows": lambda a: np.mean(a, axis=1, keepdims=True),
    "prod": lambda a: np.prod(a, 0),
    "min": lambda a: np.min(a, axis=-1),
    "amax": lambda a: np.amax(a, axis=-1),
    "argmin": lambda a: np.argmin(a, axis=1),
    "argmax": np.argmax,
    "cumsum": np.cumsum,
    "cumsum of rows": lambda a: np.cumsum(a, axis=1),
    "cumsum of columns": lambda a: np.cumsum(a, axis=0),
    "cumprod": lambda a: np.cumprod(a, axis=-1),
    "sort": np.sort,
    "sort of columns": lambda a: np.sort(a, axis=0),
    "argsort of columns": lambda a: np.argsort(a, axis=0, kind="stable"),
    "sort of all": lambda a: np.sort(a, axis=None, kind="stable"),
    "argsort": lambda a: np.argsort(a, kind="stable"),
    "unique": np.unique,
    "histogram": lambda a: tuple(one.astype("float64") for one in np.histogram(a, bins=3, range=(0.0, 6.0))),
    "norm": np.linalg.norm,
    "var": lambda a: np.var(a, axis=0, ddof=1),
    "std": np.std,
    "std of integers": lambda a: np.std(a.astype("int32"), axis=1, keepdims=True),
    "outer": lambda a: np.outer(a, [1, 2]),
    "square": lambda a: a**2.0,
    "square of integers": lambda a: a.astype("int32") ** 2,
    "plus": operator.pos,
    "lists": lambda a: [1, 2, 3] + a * (1, 2, 3),
    "dot": lambda a: np.dot(a, np.ones((3, 4), "float32")),
    "matmul": lambda a: np.matmul(a, np.ones(3, "float32")),
    "copy": np.copy,
    "concatenate": lambda a: np.concatenate([a, np.ones((1, 3)), a]),
    "concatenate rows": lambda a: np.concatenate((a, a), axis=-2),
    "concatenate all": lambda a: np.concatenate((a, [1, 2]), axis=None),
    "stack": lambda a: np.stack([a, B]),
    "stack of parts": lambda a: np.stack([a[1], a[0]]),
    "rfft": np.fft.rfft,
    "rfft2": lambda a: np.fft.rfft2(a, norm="ortho"),
    "reshape": lambda a: np.reshape(a, (3, -1)),
    "ravel": np.ravel,
    "zeros_like": np.zeros_like,
    "ones_like": lambda a: np.ones_like(a, dtype="int32"),
    "full_like": lambda a: np.full_like(a, 2.5, shape=(4,)),
    "add.reduce": np.add.reduce,
    "add.reduce along an axis": lambda a: np.add.reduce(a, axis=1, keepdims=True),
    "multiply.reduce": lambda a: np.multiply.reduce(a, axis=None),
    "maximum.reduce": lambda a: np.maximum.reduce(a, axis=-1),
    "minimum.accumulate": lambda a: np.minimum.accumulate(a, axis=1),
    "add.accumulate of columns": np.add.accumulate,
    "add.accumulate": lambda a: np.add.accumulate(a, axis=-1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(dev: vgc.Device, name: str) -> None:
    assert_like_numpy(FUNCTIONS[name], dev, A)


METHODS: Final = ("sum", "prod", "min", "max", "argmin", "argmax", "mean", "var", "std")


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("options", [{}, {"axis": 0}, {"axis": 1, "keepdims": True}], ids=str)
def test_reductions_are_methods(dev: vgc.Device, name: str, options: dict[str, Any]) -> None:
    assert_like_numpy(lambda a: getattr(a, name)(**options), dev, A)


def test_elements_become_lists(dev: vgc.Device) -> None:
    assert dev.to_device(A).tolist() == A.tolist()
    assert dev.to_device(A).sum().tolist() == 13.0


def test_bincount(dev: vgc.Device) -> None:
    assert_like_numpy(lambda a: np.bincount(a, minlength=9), dev, WHOLE)


def test_fourier_transform_and_its_inverse(dev: vgc.Device) -> None:
    assert_like_numpy(lambda a: np.fft.ifft(np.fft.fft(a)), dev, A.astype("complex64"))


def test_facts_about_arrays(dev: vgc.Device) -> None:
    array = dev.to_device(A)
    assert (np.shape(array), np.ndim(array), np.size(array), array.ndim) == ((2, 3), 2, 6, 2)
    empty: Any = np.empty_like(array)
    assert isinstance(empty, vgc.DeviceArray)
    assert (empty.shape, empty.dtype) == (A.shape, A.dtype)


# ---- operators -----------------------------------------------------------------------------------

COMPARISONS: Final = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
OPERATORS: Final = (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, *COMPARISONS)


@pytest.mark.parametrize("function", OPERATORS)
@pytest.mark.parametrize("other", [B, B[0], B[:, :1].copy(), 2, 0.5, np.float32(3)], ids=str)
def test_binary_operators(dev: vgc.Device, function: Callable[..., Any], other: Any) -> None:
    assert_like_numpy(function, dev, A, other)
    assert_like_numpy(lambda a: function(other, a), dev, A)


@pytest.mark.parametrize("function", [operator.neg, operator.abs, np.sqrt, np.exp, np.log, np.sin, np.floor, np.sign])
def test_unary_functions(dev: vgc.Device, function: Callable[..., Any]) -> None:
    assert_like_numpy(function, dev, A)


@pytest.mark.parametrize("function", [operator.add, operator.sub, operator.floordiv, operator.mod, operator.truediv])
@pytest.mark.parametrize("other", [np.array([2, 3, 1, 4, 2], "int64"), np.array([2, 3, 1, 4, 2], "uint32"), 3], ids=str)
def test_integers_are_promoted_as_in_numpy(dev: vgc.Device, function: Callable[..., Any], other: Any) -> None:
    assert_like_numpy(function, dev, WHOLE, other)


def test_integers_and_floats_are_promoted_as_in_numpy(dev: vgc.Device) -> None:
    assert_like_numpy(operator.add, dev, WHOLE, np.ones(5, "float32"))
    assert_like_numpy(operator.mul, dev, WHOLE, 1.5)
    assert_like_numpy(operator.lt, dev, WHOLE, np.full(5, 2, "float16"))
    assert_like_numpy(np.sqrt, dev, WHOLE)


def test_matrix_product(dev: vgc.Device) -> None:
    assert_like_numpy(operator.matmul, dev, A, B.T.copy())
    assert_like_numpy(operator.matmul, dev, A, np.ones((3, 2)))
    assert_like_numpy(lambda b: A.T @ b, dev, B)


def test_broadcasting_along_many_axes(dev: vgc.Device) -> None:
    x, y = np.random.default_rng(0).random((2, 3, 1, 2, 4, 2)), np.random.default_rng(1).random((1, 5, 1, 4, 2))
    assert_like_numpy(operator.add, dev, x, y)
    assert_like_numpy(operator.add, dev, x, x)
    with pytest.raises(vgc.InvalidArgument, match=r"broadcasting along 5 axes of shape .*; allowed: 4"):
        dev.zeros((2, 1, 2, 1, 2)) + np.zeros((1, 2, 1, 2, 1))


def test_empty_arrays(dev: vgc.Device) -> None:
    assert_like_numpy(operator.add, dev, np.zeros((0, 3)), np.ones(3))


def test_operators_in_place(dev: vgc.Device) -> None:
    array = dev.to_device(A)
    before, address = array, array.address
    array += B
    array *= 2
    array -= np.ones(3)  # float64 is cast back
    assert array is before
    assert array.address == address
    np.testing.assert_allclose(array.get(), (A + B) * 2 - 1)
    whole = dev.to_device(WHOLE)
    with pytest.raises(TypeError, match="out has elements of int32; allowed: types that float64 can be cast to"):
        whole /= 2
    with pytest.raises(vgc.InvalidArgument, match=r"out has shape \(5,\); allowed: \(2, 5\)"):
        whole += np.ones((2, 5), "int32")


def test_types_are_converted(dev: vgc.Device) -> None:
    array = dev.to_device(np.array([1.75, -2.5, 300], "float32"))
    assert array.astype("int64").get().tolist() == [1, -2, 300]
    assert array.astype(np.float16).dtype == np.float16
    with pytest.raises(TypeError, match="elements of int8 in a conversion; allowed: float16, float32"):
        array.astype("int8")


def test_only_element_is_a_number(dev: vgc.Device) -> None:
    total: Any = np.sum(dev.to_device(A))
    assert isinstance(total, vgc.DeviceArray)
    assert (float(total), int(total), bool(total), total.item()) == (13.0, 13, True, 13.0)
    assert (f"{total:.2f}", f"{total}") == ("13.00", "13.0")
    assert list(range(20))[dev.to_device(WHOLE).max()] == 7
    with pytest.raises(ValueError, match="allowed: one element"):
        bool(dev.to_device(A))


def test_arrays_are_compared_with_other_things_by_identity(dev: vgc.Device) -> None:
    array = dev.to_device(A)
    assert array != "text"
    assert (array == None) is False  # noqa: E711
    assert {array: 1}[array] == 1


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (
            np.arctan,
            r"^numpy.arctan is not available for device arrays.*; docs/guest.md lists .* and .get\(\) gives a numpy",
        ),
        (np.median, r"numpy.median is not available for device arrays \(close: numpy.mean\); docs"),
        (np.linalg.inv, "numpy.linalg.inv is not available"),
        (np.isnan, "numpy.isnan is not available for device arrays; docs"),
        (lambda a: a.reshape("a"), "'a'; allowed: a whole number, or several"),
        (lambda a: a.reshape(3, 2.0), r"\(3, 2.0\); allowed: a whole number, or several"),
        (lambda a: np.add.outer(a, a), "numpy.add.outer is not available"),
        (np.subtract.reduce, r"numpy.subtract.reduce is not available"),
        (lambda a: np.add(a, a, where=A > 1), r"numpy.add\(where\) is not available"),
        (lambda a: np.add(a, a, out=np.empty_like(A)), r"numpy.add\(out\) is not available"),
        (lambda a: np.matmul(a, a, out=a), r"numpy.matmul\(out\) is not available"),
        (
            lambda a: np.sum(a, dtype="float64"),
            "numpy.sum of device arrays: got an unexpected keyword argument 'dtype'",
        ),
        (lambda a: np.add.reduce(a, initial=3), "numpy.add.reduce of device arrays: .* 'initial'; see DeviceArray.get"),
        (lambda a: np.concatenate([a, a], out=a), "numpy.concatenate of device arrays: got an unexpected keyword"),
        (np.fft.fft, "a has elements of float32; allowed on the device: complex64"),
        (lambda a: np.dot(a.reshape((1, 2, 3)), a.reshape((1, 3, 2))), r"numpy.dot: shapes \(1, 2, 3\) and"),
        (np.asarray, r"a device array where a numpy array is needed: use .get\(\)"),
        (
            lambda a: a.astype("int32") ** 3,
            "power of int32 and int; allowed: float16, float32, float64, see DeviceArray",
        ),
        (lambda a: a.astype("int32") @ a.T.astype("int32"), "not transposed"),
        (
            lambda a: np.matmul(a.astype("int32"), WHOLE[:3]),
            "numpy.matmul of int32; allowed: float16, float32, float64",
        ),
        (
            lambda a: np.dot(a.astype("int64"), 1 << WHOLE[:3]),
            "numpy.dot: products of int64; allowed: float16, .* see DeviceArray",
        ),
        (lambda a: np.sum(a, axis=cast(Any, "a")), "numpy.sum: axis is 'a'; allowed: whole numbers"),
        (lambda a: np.sort(a, axis=cast(Any, "a")), "numpy.sort: axis is 'a'; allowed: whole numbers"),
        (lambda a: np.fft.rfft(a, axis=cast(Any, 1.5)), r"numpy.fft.rfft: axis is \(1.5,\); allowed: whole numbers"),
        (
            lambda a: np.histogram(a, range=cast(Any, 5)),
            r"numpy.histogram: range is 5; allowed: two numbers, such as \(0, 1\)",
        ),
        (lambda a: f"{a:.3f}", r"format '.3f' of an array of shape \(2, 3\); allowed: arrays without dimensions"),
        (lambda a: [1, 2][a.sum()], r"float32 of shape \(\) as a whole number; allowed: integers without dimensions"),
        (lambda a: a % 2, "remainder of float32 and int; allowed: int32, int64, uint32, uint64"),
        (lambda a: (a + 1j) < a, "less of complex64 and float32; allowed: float16"),
        (lambda a: np.sort(a + 1j), "numpy.sort: a has elements of complex64; allowed: float32"),
        (lambda a: np.exp(a * 1j), "exp of complex64; allowed: float16"),
        (np.angle, "numpy.angle: angle of float32; allowed: complex64, complex128"),
        (lambda a: (a > 1) - (a > 2), "subtract of bool and bool; allowed: float16"),
        (lambda a: -(a > 1), "negative of bool; allowed: float16"),
        (lambda a: a & 1, "bitwise_and of float32 and int; allowed: bool"),
        (operator.invert, "invert of float32; allowed: bool"),
        (lambda a: np.take(a, A), "numpy.take: indices of float32 for float32; allowed: integers"),
        (lambda a: a[np.array([1.5])], "indices of float64 for float32; allowed: integers"),
        (lambda a: operator.setitem(a, np.array([1]), 5), r"an index of int64 with shape \(1,\); allowed: bool"),
        (lambda a: operator.setitem(a, A > 1, [1, 2]), r"values of shape \(2,\) where a mask is true; allowed: one"),
        (lambda a: a.astype("int64") < A.astype("uint64"), "less of int64 and uint64; allowed"),
        (lambda a: a + "text", "unsupported operand type"),
    ],
)
def test_refusals(dev: vgc.Device, function: Callable[..., Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        function(dev.to_device(A))


def test_axes_are_refused_in_the_name_of_numpys_function(dev: vgc.Device) -> None:
    with pytest.raises(
        vgc.InvalidArgument, match=r"^numpy.sort: axis 2 of an array of shape \(2, 3\); allowed: -2 to 1"
    ):
        np.sort(dev.to_device(A), axis=2)


def test_shapes_that_cannot_be_broadcast(dev: vgc.Device) -> None:
    with pytest.raises(vgc.InvalidArgument, match=r"arrays of shapes \(2, 3\) and \(2,\); allowed: lengths that are"):
        dev.to_device(A) + np.ones(2, "float32")


@pytest.mark.parametrize(
    ("join", "text"),
    [
        (lambda a: np.concatenate([a, a], axis=1), r"axis 1 of shape \(2, 3\); allowed: the first axis, or None"),
        (
            lambda a: np.concatenate([a, B[:, :2]]),
            r"arrays of shapes \(2, 3\) and \(2, 2\); allowed: equal lengths but",
        ),
        (lambda a: np.concatenate([a, 5]), "axis 0 of an array without dimensions"),
        (lambda a: np.stack([a, a], axis=1), "axis 1; allowed: 0, the first axis of the result"),
        (lambda a: np.stack([a, a[0]]), r"arrays of shapes \(2, 3\) and \(3,\); allowed: one shape for all"),
    ],
)
def test_arrays_that_cannot_be_joined(dev: vgc.Device, join: Callable[..., Any], text: str) -> None:
    with pytest.raises(vgc.InvalidArgument, match=text):
        join(dev.to_device(A))


def test_parts_are_changed_in_place(dev: vgc.Device) -> None:
    array, numbers = dev.to_device(A), A.copy()
    for one in (array, numbers):
        one[0] *= 2
        one[1, 1:] += one[0, 1:]
    assert np.array_equal(array.get(), numbers)


def test_operands_may_overlap_what_is_written(dev: vgc.Device) -> None:
    array, numbers = dev.to_device(A), A.copy()
    for one in (array, numbers):
        one[:] += one[0]
        one[1] -= one[1, 2:]
        row: Any = one.reshape(6)
        row[1:] *= row[:-1]
        np.negative(row[:-2], out=row[2:])
    assert np.array_equal(array.get(), numbers)


# ---- truth values --------------------------------------------------------------------------------

MASK: Final = A > 1
EDGES: Final = np.array([0.0, -0.0, np.nan, np.inf, 1e-45, -3], "float32")


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "int64", "uint32"])
def test_logical_functions(dev: vgc.Device, name: str, dtype: str) -> None:
    a, b = np.array([[0], [3]]).astype(dtype), np.array([0, 1, 2], "int32")
    assert_like_numpy(getattr(np, name), dev, a, b)
    assert_like_numpy(lambda x: getattr(np, name)(x, True), dev, a)
    assert_like_numpy(getattr(np, name), dev, EDGES, EDGES[::-1].copy())


@pytest.mark.parametrize("function", [np.logical_not, lambda a: a.astype(bool), np.any, np.all, np.count_nonzero])
@pytest.mark.parametrize("a", [MASK, EDGES, WHOLE, np.zeros((2, 0, 3)), np.zeros(0, bool)], ids=str)
def test_truth_of_elements(dev: vgc.Device, function: Callable[..., Any], a: Any) -> None:
    assert_like_numpy(function, dev, a)


@pytest.mark.parametrize("function", [operator.and_, operator.or_, operator.xor, operator.add, operator.mul])
def test_operators_of_truth_values(dev: vgc.Device, function: Callable[..., Any]) -> None:
    assert_like_numpy(function, dev, MASK, B > 1)
    assert_like_numpy(function, dev, MASK, True)
    assert_like_numpy(lambda a: function(False, a), dev, MASK)
    assert_like_numpy(operator.invert, dev, MASK)


@pytest.mark.parametrize("function", [*COMPARISONS, np.maximum, np.minimum])
def test_truth_values_are_compared(dev: vgc.Device, function: Callable[..., Any]) -> None:
    for other in (B > 1, True, 2, 0.5, B):
        assert_like_numpy(function, dev, MASK, other)


def test_truth_values_are_numbers_beside_numbers(dev: vgc.Device) -> None:
    for other in (1, 2.5, WHOLE[:3], B[0], np.float16(2)):
        assert_like_numpy(operator.add, dev, MASK, other)
        assert_like_numpy(operator.mul, dev, MASK, other)
    assert_like_numpy(operator.truediv, dev, MASK, np.ones(3, bool))
    assert_like_numpy(np.sqrt, dev, MASK)


FOLDS_OF_BOOL: Final = ("sum", "prod", "min", "max", "argmin", "argmax", "mean", "var", "any", "all")


@pytest.mark.parametrize("name", FOLDS_OF_BOOL)
@pytest.mark.parametrize("options", [{}, {"axis": 0}, {"axis": 1, "keepdims": True}], ids=str)
def test_reductions_of_truth_values(dev: vgc.Device, name: str, options: dict[str, Any]) -> None:
    assert_like_numpy(lambda a: getattr(a, name)(**options), dev, MASK)


@pytest.mark.parametrize("name", ["any", "all", "count_nonzero"])
@pytest.mark.parametrize("options", [{}, {"axis": 0}, {"axis": 1, "keepdims": True}, {"axis": (0, 1)}], ids=str)
def test_any_all_and_count(dev: vgc.Device, name: str, options: dict[str, Any]) -> None:
    for a in (A * MASK, MASK, WHOLE.reshape(5, 1), np.zeros((0, 3), "float32"), np.zeros((3, 0), bool)):
        assert_like_numpy(lambda x: getattr(np, name)(x, **options), dev, a)


@pytest.mark.parametrize(
    "function",
    [
        *(np.cumsum, np.cumprod, np.sort, np.unique, np.logical_and.reduce, np.logical_or.reduce, np.add.reduce),
        lambda a: np.argsort(a, axis=0, kind="stable"),
        lambda a: np.minimum.accumulate(a, axis=1),
        lambda a: np.maximum.accumulate(a, axis=0),
        lambda a: np.concatenate([a, a]),
        lambda a: np.stack([a, A]),
    ],
)
def test_other_functions_of_truth_values(dev: vgc.Device, function: Callable[..., Any]) -> None:
    assert_like_numpy(function, dev, MASK)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64", "uint32", "uint64", "bool"])
def test_truth_values_are_converted(dev: vgc.Device, dtype: str) -> None:
    assert_like_numpy(lambda a: a.astype(dtype), dev, MASK)
    assert_like_numpy(lambda a: a.astype(bool), dev, WHOLE.astype(dtype))


def test_masks_change_in_place(dev: vgc.Device) -> None:
    mask, numbers = dev.to_device(MASK), MASK.copy()
    operators: tuple[Callable[..., Any], ...] = (operator.iand, operator.ior, operator.ixor)
    for change, other in zip(operators, (B > 1, A == 1, True), strict=True):
        assert change(mask, other) is mask
        change(numbers, other)
        assert np.array_equal(mask.get(), numbers)


# ---- complex numbers -----------------------------------------------------------------------------

Z: Final = np.array([[3 - 1j, 1j, -2], [0.5 + 2j, -1 - 1j, 4]], "complex64")
SPECIAL: Final = np.array([complex(re, im) for re in (0.0, -0.0, np.inf, np.nan, -1) for im in (-0.0, 2, -np.inf)])


@pytest.mark.parametrize(
    "function", [operator.add, operator.sub, operator.mul, operator.truediv, operator.eq, operator.ne]
)
@pytest.mark.parametrize(
    "other", [Z[::-1].copy(), Z[0], B, Z.astype("complex128"), WHOLE[:3], 2, 0.5, 1j, np.complex64(3), MASK], ids=str
)
def test_operators_of_complex_numbers(dev: vgc.Device, function: Callable[..., Any], other: Any) -> None:
    with np.errstate(all="ignore"):
        assert_like_numpy(function, dev, Z, other)
        assert_like_numpy(lambda z: function(other, z), dev, Z)


UNARY: Final[dict[str, Callable[..., Any]]] = {
    "negative": np.negative,
    "conjugate": np.conjugate,
    "conj": lambda z: z.conj(),
    "absolute": np.abs,
    "angle": np.angle,
    "degrees": lambda z: np.angle(z, deg=True),
    "real": lambda z: z.real,
    "imag": np.imag,
    "square": lambda z: z**2,
    "positive": operator.pos,
    "not": np.logical_not,
    "bool": lambda z: z.astype(bool),
    "any": lambda z: np.any(z, axis=0),
    "count": np.count_nonzero,
    "sum": np.sum,
    "sum along an axis": lambda z: np.sum(z, axis=-1, keepdims=True),
    "mean": lambda z: np.mean(z, axis=0),
    "wider": lambda z: z.astype("complex128"),
    "narrower": lambda z: z.astype("complex64"),
    "concatenate": lambda z: np.concatenate([z, z]),
    "mask": lambda z: z[np.ones(z.shape, bool)],
    "where": lambda z: np.where(np.eye(*z.shape[-2:]) > 0, z, 1.5),
}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_functions_of_complex_numbers(dev: vgc.Device, name: str, dtype: str) -> None:
    assert_like_numpy(UNARY[name], dev, Z.astype(dtype))
    if name not in ("where", "mean"):
        assert_like_numpy(UNARY[name], dev, np.zeros((0, 3), dtype))


@pytest.mark.parametrize("name", ["negative", "conjugate", "absolute", "angle", "real", "imag", "not", "wider", "bool"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_special_complex_numbers(dev: vgc.Device, name: str, dtype: str) -> None:
    special = SPECIAL.astype(dtype)
    assert_like_numpy(UNARY[name], dev, special)
    found, wanted = taken(UNARY[name](dev.to_device(special))), UNARY[name](special)
    for ours, theirs in ((found.real, wanted.real), (found.imag, wanted.imag)):
        known = ~np.isnan(theirs)
        assert np.array_equal(np.signbit(ours[known]), np.signbit(theirs[known])) or ours.dtype == bool


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint64", "bool"])
def test_real_numbers_become_complex(dev: vgc.Device, dtype: str) -> None:
    for wanted in ("complex64", "complex128"):
        assert_like_numpy(lambda a, to=wanted: a.astype(to), dev, WHOLE.astype(dtype))
    with warnings.catch_warnings(action="ignore"):
        assert_like_numpy(lambda z: (z * z).astype(dtype), dev, WHOLE.astype("complex64"))


def test_complex_numbers_change_in_place(dev: vgc.Device) -> None:
    array, numbers = dev.to_device(Z), Z.copy()
    both: tuple[Any, Any] = (array, numbers)
    for one in both:
        np.multiply(one, 2, out=one)
        np.add(one, B, out=one)
        np.conjugate(one, out=one)
        one[A > 1] = 5j
        np.add(B, B, out=one[:])
        np.subtract(one, one[0], out=one)
    np.testing.assert_allclose(array.get(), numbers, rtol=1e-6)
    with pytest.raises(TypeError, match="out has elements of float32; allowed: types that complex64 can be cast to"):
        np.add(both[0], 1, out=dev.to_device(A))  # type: ignore[call-overload]


def test_conjugates_of_real_numbers_are_copies(dev: vgc.Device) -> None:
    assert_like_numpy(np.conjugate, dev, A)
    assert_like_numpy(np.real, dev, A)
    assert_like_numpy(np.imag, dev, WHOLE)
    array = dev.to_device(A)
    copy = np.conjugate(array)
    array.fill(0)
    assert np.array_equal(taken(copy), A)


def test_views_share_memory(dev: vgc.Device) -> None:
    array = dev.to_device(Z)
    parts = array.view("float32")
    assert parts.shape == (2, 6)
    parts[1, 1:3] = 0
    assert np.array_equal(array.get(), [[3 - 1j, 1j, -2], [0.5, -1j, 4]])
    assert array[1].view(np.int32).get().tolist() == array.get()[1].view(np.int32).tolist()
    for wrong in ("complex256", "V5"):
        with pytest.raises(
            ValueError, match=r"an array of complex64 with shape \(2, 3\) as .*; allowed: types that fit"
        ):
            array.view(wrong)


def test_spectra_are_filtered_on_the_device(dev: vgc.Device) -> None:
    def without_high_tones(a: Any) -> Any:
        spectrum = np.fft.rfft(a)
        return np.fft.irfft(np.where(np.arange(5) < 2, spectrum * np.conj(spectrum) / 8, 0))

    assert_like_numpy(without_high_tones, dev, np.arange(8, dtype="float32") ** 2)


def test_named_functions_of_complex_numpy_arrays(dev: vgc.Device) -> None:
    np.testing.assert_allclose(dev.math.multiply(Z, 1j), Z * np.complex64(1j))
    assert np.array_equal(dev.math.join(A, B), A + np.complex64(1j) * B)
    assert np.array_equal(dev.math.real(Z.T), Z.T.real)
    assert np.array_equal(dev.math.convert(Z.T, "complex128"), Z.T)
    assert dev.reduce.sum(Z) == Z.sum()


# ---- choosing elements ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "bool"])
def test_where(dev: vgc.Device, dtype: str) -> None:
    a = A.astype(dtype)
    assert_like_numpy(np.where, dev, MASK, a, B)
    assert_like_numpy(np.where, dev, MASK, a, 0)
    assert_like_numpy(np.where, dev, MASK[:, :1].copy(), 1, a[0])
    assert_like_numpy(np.where, dev, A, a, np.array([[1], [2]], "uint32"))
    assert_like_numpy(lambda x: np.where(MASK, x, 1.5), dev, a)
    assert_like_numpy(lambda x: np.where(x, True, False), dev, a)
    assert_like_numpy(np.where, dev, np.zeros((0, 3), bool), a[0], 2)
    assert taken(np.where(dev.to_device(True * np.ones((), bool)), EDGES, 0)).tobytes() == EDGES.tobytes()


@pytest.mark.parametrize("mask", [MASK, MASK[:, 0], MASK & False, MASK | True], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int16", "complex128", "S3"])
def test_masks_choose_elements(dev: vgc.Device, mask: Any, dtype: str) -> None:
    a = A.astype(dtype)
    for index in (mask, dev.to_device(mask)):
        found = dev.to_device(a)[index].get()
        assert found.dtype == a.dtype
        assert np.array_equal(found, a[mask])


@pytest.mark.parametrize("mask", [MASK, MASK[:, 0], MASK & False], ids=str)
@pytest.mark.parametrize("value", [7, 2.5, np.float64(-1)])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_masks_choose_elements_that_change(dev: vgc.Device, mask: Any, value: Any, dtype: str) -> None:
    array, numbers = dev.to_device(A.astype(dtype)), A.astype(dtype)
    array[dev.to_device(mask)] = value
    numbers[mask] = value
    assert np.array_equal(array.get(), numbers)
    array[mask] = dev.to_device(numbers)[1, 1]
    numbers[mask] = numbers[1, 1]
    assert np.array_equal(array.get(), numbers)


@pytest.mark.parametrize("indices", [[1, 0, -1], [[0, 1], [1, -2]], np.zeros(0, "int64"), np.array([1], "uint32")])
def test_indices_choose_parts(dev: vgc.Device, indices: Any) -> None:
    places = np.asarray(indices)
    assert_like_numpy(lambda a: a[places], dev, A)
    assert_like_numpy(operator.getitem, dev, A, places)
    assert_like_numpy(lambda a: np.take(a, indices, axis=0), dev, A)
    assert_like_numpy(np.take, dev, A, places)


@pytest.mark.parametrize("a", [MASK, WHOLE, EDGES, np.zeros((2, 0)), np.arange(24).reshape(2, 3, 4) % 5], ids=str)
def test_positions_of_what_is_not_0(dev: vgc.Device, a: Any) -> None:
    assert_like_numpy(np.nonzero, dev, a)
    assert_like_numpy(np.where, dev, a)
    assert_like_numpy(np.flatnonzero, dev, a)
    assert_like_numpy(lambda x: np.extract(a, x), dev, a)


def test_masks_have_the_arrays_shape(dev: vgc.Device) -> None:
    array = dev.to_device(A)
    for wrong in (MASK[:, :2], MASK[0]):
        with pytest.raises(
            vgc.InvalidArgument, match=r"a mask of shape .* for an array of shape \(2, 3\); allowed: that"
        ):
            array[wrong.copy()]
        with pytest.raises(vgc.InvalidArgument, match="a mask of shape"):
            array[wrong.copy()] = 1
    with pytest.raises(
        vgc.InvalidArgument, match=r"numpy.take: axis 1 of shape \(2, 3\); allowed: the first axis, or None"
    ):
        np.take(array, [0], axis=1)


def test_index_beyond_the_array_fails_the_call(dev: vgc.Device) -> None:
    with pytest.raises(vgc.LaunchFailed, match="an index is less than -n, or n or more"):
        dev.to_device(A)[np.array([2])]


def test_named_functions_of_numpy_arrays(dev: vgc.Device) -> None:
    np.testing.assert_allclose(dev.math.add(A, B), A + B)
    np.testing.assert_allclose(dev.math.add(A, [1, 2, 3]), A + np.array([1, 2, 3]))
    np.testing.assert_allclose(dev.math.divide(A, 2, out=np.empty_like(A)), A / 2)
    assert dev.math.less(A, B).dtype == bool
    assert dev.math.sqrt(4.0) == 2.0
    assert dev.math.convert(A, "int32").dtype == np.int32


def test_numpy_is_not_imported_before_it_is_needed() -> None:
    program = "import sys, guest_driver; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize("number", [-(2**70), -1, 2**31, 2**32 + 1, 2**63, 2**64])
def test_comparisons_with_numbers_beyond_the_type(dev: vgc.Device, dtype: str, number: int) -> None:
    limits = np.iinfo(dtype)
    a = np.array([limits.min, 0, limits.max], dtype)
    for compare in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
        assert taken(compare(dev.to_device(a), number)).tolist() == [compare(one, number) for one in a.tolist()]
        assert taken(compare(number, dev.to_device(a))).tolist() == [compare(number, one) for one in a.tolist()]


@pytest.mark.parametrize("shape", [(5,), (0, 3), (0,)])
@pytest.mark.parametrize("dtype", ["int32", "uint64", "float64"])
def test_means(dev: vgc.Device, shape: tuple[int, ...], dtype: str) -> None:
    a = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        assert_like_numpy(lambda x: np.mean(x, axis=0), dev, a)
