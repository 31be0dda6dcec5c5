"""Sorting: `Device.sort`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from guest_driver.arguments import In, Out
from guest_driver.functions.call import (
    NUMBERS,
    Array,
    Call,
    Group,
    check_arrays,
    check_shape,
    suffix_of,
)
from guest_driver.functions.rows import Rows
from guest_driver.memory import DeviceArray

if TYPE_CHECKING:
    from guest_driver.stream import Stream

VALUE_BYTES = (1, 2, 4, 8)
"""Sizes of elements that are sorted along with keys."""


class Sorting(Group):
    """Sorts keys of float32, float64, and integers of 32 and 64 bits; NaN comes last, in both orders.

    `axis` is the one along which rows are sorted, or None: all elements as one row. Methods raise
    `errors.InvalidArgument` for axes that an array does not have.
    """

    def sort(self, a: Array, axis: int | None = -1, *, descending: bool = False, stream: Stream | None = None) -> Any:
        """Sorts each row, as ``numpy.sort``; returns a new array."""
        suffix = suffix_of(NUMBERS, a=a)
        return self._rows(f"sort.keys_{suffix}", a, a.dtype, axis, descending=descending, stream=stream)

    def argsort(
        self, a: Array, axis: int | None = -1, *, descending: bool = False, stream: Stream | None = None
    ) -> Any:
        """Positions that would sort each row, as ``numpy.argsort(kind="stable")``: int64."""
        suffix = suffix_of(NUMBERS, a=a)
        return self._rows(f"sort.argsort_{suffix}", a, np.dtype(np.int64), axis, descending=descending, stream=stream)

    def pairs(
        self, keys: Array, values: Array, *, descending: bool = False, stream: Stream | None = None
    ) -> tuple[Any, Any]:
        """Sorts keys along the last axis, and values along with them; equal keys stay in order. Returns new arrays.

        :param values: array of the keys' shape, of any type with elements of 1, 2, 4 or 8 bytes.
        :raise errors.InvalidArgument: the shapes differ.
        """
        check_arrays(values=values)
        suffix = suffix_of(NUMBERS, keys=keys)
        check_shape("values", values, keys.shape)
        size = values.dtype.itemsize
        if size not in VALUE_BYTES or values.dtype.hasobject:
            raise TypeError(f"values has elements of {values.dtype}; allowed: types of 1, 2, 4 or 8 bytes")
        rows = Rows(keys, -1)
        call = Call(self._host, (keys, values), stream)
        sorted_keys, sorted_values = call.empty(keys.shape, keys.dtype), call.empty(values.shape, values.dtype)
        arrays = (In(keys), In(values), Out(sorted_keys), Out(sorted_values))
        call.run(f"sort.pairs_{suffix}", *arrays, rows.count, rows.length, size, int(descending))
        return sorted_keys, sorted_values

    def unique(self, a: Array) -> Any:
        """Different elements in order, as ``numpy.unique``; all NaN are one. Waits for their number.

        A result on the device shares memory that has room for all elements of `a`.
        """
        suffix = suffix_of(NUMBERS, a=a)
        call = Call(self._host, (a,))
        out, count = call.empty((a.size,), a.dtype), call.empty((1,), np.int64)
        call.run(f"sort.unique_{suffix}", In(a), a.size, Out(out), Out(count))
        if isinstance(out, DeviceArray) and isinstance(count, DeviceArray):
            return out.first(int(count.get()[0]))
        return out[: int(count[0])].copy()

    def _rows(
        self, name: str, a: Array, dtype: np.dtype[Any], axis: int | None, *, descending: bool, stream: Stream | None
    ) -> Any:
        rows = Rows(a, axis)
        call = Call(self._host, (a,), stream)
        out = call.empty(rows.shape, dtype)
        call.run(name, In(rows.packed(call, a)), Out(out), rows.count, rows.length, int(descending))
        return rows.unpacked(call, out)
