"""One call of a built-in function: checks of its arrays, and where it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from guest_driver.arguments import In, InOut, Out
from guest_driver.errors import InvalidArgument
from guest_driver.functions import names
from guest_driver.functions.host import Host
from guest_driver.memory import DeviceArray, numbers_of

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from guest_driver.stream import Stream

Array: TypeAlias = "DeviceArray | np.ndarray[Any, Any]"
Changed: TypeAlias = Array
"""Array that a method changes in place."""
Axis: TypeAlias = "int | Sequence[int] | None"

TYPES: Final = {np.dtype(name): suffix for suffix, name in names.TYPES.items()}
"""Element types of arrays, and their suffixes in the names of functions."""

REALS: Final = ("f32", "f64")
FLOATS: Final = ("f16", "f32", "f64")
INTEGERS: Final = ("i32", "i64", "u32", "u64")
NUMBERS: Final = (*REALS, *INTEGERS)
NUMBERS_AND_BOOL: Final = (*NUMBERS, "b8")
COMPLEX: Final = ("c64", "c128")
BOOL: Final = np.dtype(bool)
PARTS: Final[dict[np.dtype[Any], np.dtype[Any]]] = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}
"""Types of the parts of complex numbers."""

MOST_SENT: Final = 1 << 16
"""Bytes of numpy arrays that one request takes along to arrays on the device; more are copied there before."""


# ---- checks --------------------------------------------------------------------------------------


def check_arrays(**arrays: Any) -> None:
    """Checks the types of arguments; None is one that was not given.

    :raise TypeError: one is no array.
    """
    for name, array in arrays.items():
        if array is not None and not isinstance(array, DeviceArray | np.ndarray):
            raise TypeError(f"{name} is a {type(array).__name__}; allowed: device arrays and numpy arrays")


def dtypes_of(suffixes: Sequence[str]) -> str:
    """Element types by their suffixes, for error messages."""
    return ", ".join(str(dtype) for dtype, suffix in TYPES.items() if suffix in suffixes)


def suffix_of(allowed: Sequence[str], **arrays: Array | None) -> str:
    """Suffix of the element type that all arrays share; None is an array that was not given.

    :raise TypeError: one is no array, or a type is not allowed, or there are several.
    """
    check_arrays(**arrays)
    given = {name: array.dtype for name, array in arrays.items() if array is not None}
    for name, dtype in given.items():
        if TYPES.get(dtype) not in allowed:
            raise TypeError(f"{name} has elements of {dtype}; allowed: {dtypes_of(allowed)}")
    if len(set(given.values())) > 1:
        found = ", ".join(f"{name} of {dtype}" for name, dtype in given.items())
        raise TypeError(f"arrays of different types: {found}; allowed: one type for all of them")
    return TYPES[next(iter(given.values()))]


def check_dimensions(name: str, array: Array, *allowed: int) -> None:
    """Checks the number of an array's dimensions.

    :raise errors.InvalidArgument: it is not among `allowed`.
    """
    if len(array.shape) not in allowed:
        words = " or ".join(map(str, allowed))
        raise InvalidArgument(f"{name} has shape {array.shape}; allowed: arrays of {words} dimensions")


def check_shape(name: str, array: Array, shape: Sequence[int]) -> None:
    """Checks an array's shape.

    :raise errors.InvalidArgument: it is a different one.
    """
    if array.shape != tuple(shape):
        raise InvalidArgument(f"{name} has shape {array.shape}; allowed: {tuple(shape)}")


def axes_of(axis: Axis) -> tuple[int, ...]:
    """Numbers of axes: one, or a sequence.

    :raise TypeError: one is no whole number.
    """
    try:
        return numbers_of(axis)
    except TypeError:
        raise TypeError(f"axis is {axis!r}; allowed: whole numbers") from None


def axis_of(array: Array, axis: int) -> int:
    """Number of an axis from 0 on; a negative one counts from the last.

    :raise TypeError: it is no whole number. :raise errors.InvalidArgument: the array has no such axis.
    """
    (axis,) = axes_of(axis)
    dimensions = len(array.shape)
    if dimensions == 0:
        raise InvalidArgument(f"axis {axis} of an array without dimensions; allowed: arrays of 1 or more")
    if not -dimensions <= axis < dimensions:
        raise InvalidArgument(
            f"axis {axis} of an array of shape {array.shape}; allowed: {-dimensions} to {dimensions - 1}"
        )
    return axis % dimensions


# ---- calls ---------------------------------------------------------------------------------------


class Call:
    """Place of one call: the device if an array lies there, otherwise a request with the numpy arrays.

    :raise TypeError: there is a stream, and no array lies on the device.
    """

    def __init__(self, host: Host, arrays: Sequence[Array | None], stream: Stream | None = None) -> None:
        self._host = host
        self._stream = stream
        self.is_on_device = any(isinstance(array, DeviceArray) for array in arrays)
        if stream is not None and not self.is_on_device:
            raise TypeError("a stream, but all arrays are numpy's; allowed: at least one device array")

    def empty(self, shape: Sequence[int], dtype: DTypeLike) -> Array:
        """Allocates an array for a result."""
        return self._host.empty(shape, dtype) if self.is_on_device else np.empty(tuple(shape), dtype)

    def run(self, name: str, *values: Any) -> None:
        """Runs the function on numbers, and on `In`, `Out` and `InOut` of arrays.

        :raise TypeError: an array that is written is numpy's although others lie on the device, or is not C-contiguous.
        """
        inputs = [value.data for value in values if isinstance(value, In) and not isinstance(value.data, DeviceArray)]
        if self.is_on_device and inputs and self._stream is None and sum(a.nbytes for a in inputs) <= MOST_SENT:
            self._host.call(name, [_sent(name, value) for value in values])
        elif self.is_on_device:
            self._host.launch(name, [self._on_device(name, value) for value in values], self._stream)
        else:
            self._host.call(name, [_contiguous(value) for value in values])

    def _on_device(self, name: str, value: Any) -> Any:
        if not isinstance(value, In | Out | InOut):
            return value
        if isinstance(value.data, DeviceArray):
            return value.data
        if not isinstance(value, In):
            raise _changes_numpy(name)
        copy = self._host.empty(value.data.shape, value.data.dtype)
        copy.set(value.data)
        return copy


def _sent(name: str, value: Any) -> Any:
    """Value for a request with arrays on the device, and numpy arrays that it takes there."""
    if not isinstance(value, In | Out | InOut):
        return value
    if isinstance(value.data, DeviceArray):
        return value.data
    if not isinstance(value, In):
        raise _changes_numpy(name)
    return _contiguous(value)


def _changes_numpy(name: str) -> TypeError:
    return TypeError(
        f"{name} would change a numpy array, but others lie on the device; allowed: a device array, "
        "see Device.to_device"
    )


def _contiguous(value: Any) -> Any:
    return In(np.ascontiguousarray(value.data)) if isinstance(value, In) else value


def target(
    call: Call, name: str, given: Array | None, shape: Sequence[int], dtype: np.dtype[Any], *, beta: float
) -> Out | InOut:
    """Array for a result that `beta` times the old contents are added to: the given one, or a new one.

    :raise errors.InvalidArgument: it has a different shape, or is not given although beta is not 0.
    """
    if given is not None:
        check_shape(name, given, shape)
        return InOut(given) if beta else Out(given)
    if beta:
        raise InvalidArgument(f"beta is {beta:g}, but there is no {name}; allowed: 0")
    return Out(call.empty(shape, dtype))


def result_of(array: Array) -> Any:
    """Result for the caller: a numpy array without dimensions becomes a scalar, as numpy's functions return it."""
    return array if isinstance(array, DeviceArray) else array[()]


class Group:
    """Functions that belong together.

    :param host: place where they run.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
