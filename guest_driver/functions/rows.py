"""Elements along one axis of an array as rows: functions of the host sort and add up along the last axis alone."""

from __future__ import annotations

import math

import numpy as np

from guest_driver.arguments import In, Out
from guest_driver.functions.call import TYPES, Array, Call, axis_of
from guest_driver.functions.elementwise import CONVERSIONS
from guest_driver.memory import DeviceArray


class Rows:
    """Rows of `array` along `axis`; None: all elements are one row.

    Along an axis that has other elements behind it, `packed` and `unpacked` copy the array with its axes permuted.

    :raise TypeError: the axis is no whole number. :raise errors.InvalidArgument: the array has no such axis.
    """

    def __init__(self, array: Array, axis: int | None) -> None:
        self.shape: tuple[int, ...] = (array.size,) if axis is None else tuple(array.shape)
        """Shape of a result with one element for each of the array's."""
        self._axis = 0 if axis is None else axis_of(array, axis)
        self.length = self.shape[self._axis]
        self._outer = math.prod(self.shape[: self._axis])
        self._inner = math.prod(self.shape[self._axis + 1 :])
        self.count = self._outer * self._inner

    def packed(self, call: Call, array: Array) -> Array:
        """Array whose elements in C order are the rows, one behind the other: the given one, or a copy."""
        if self._inner == 1:
            return array
        if not isinstance(array, DeviceArray):
            return np.moveaxis(array, self._axis, -1)
        return _swapped(call, array, (self._outer, self.length, self._inner))

    def unpacked(self, call: Call, rows: Array) -> Array:
        """Array of `shape` from a result that has rows one behind the other."""
        if self._inner == 1:
            return rows.reshape(self.shape)
        lengths = (self._outer, self._inner, self.length)
        if isinstance(rows, DeviceArray):
            return _swapped(call, rows, lengths).reshape(self.shape)
        return np.ascontiguousarray(rows.reshape(lengths).swapaxes(1, 2)).reshape(self.shape)


def _swapped(call: Call, array: DeviceArray, lengths: tuple[int, int, int]) -> Array:
    """Vector of the elements of an array of three axes in C order after its last two have changed places."""
    outer, rows, columns = lengths
    swapped = call.empty((array.size,), array.dtype)
    places = (1, outer, columns, rows, In(array), 0, rows * columns, 1, columns)
    call.run(f"math.convert_{TYPES[array.dtype]}", *places, Out(swapped), CONVERSIONS[array.dtype])
    return swapped
