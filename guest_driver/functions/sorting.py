"""Sorting: `Device.sort`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from guest_driver.arguments import In, Out
from guest_driver.functions.call import (
    NUMBERS,
    NUMBERS_AND_BOOL,
    TYPES,
    Array,
    Call,
    Group,
    check_arrays,
    check_shape,
    suffix_of,
)
from guest_driver.functions.elementwise import converted
from guest_driver.functions.rows import Rows
from guest_driver.memory import DeviceArray

if TYPE_CHECKING:
    from guest_driver.stream import Stream

VALUE_BYTES = (1, 2, 4, 8)
"""Sizes of elements that are sorted along with keys."""


class Sorting(Group):
    """Sorts keys of float32, float64, integers of 32 and 64 bits, and bool; NaN comes last, in both orders.

    `axis` is the one along which rows are sorted, or None: all elements as one row. Methods raise
    `errors.InvalidArgument` for axes that an array does not have.
    """

    def sort(self, a: Array, axis: int | None = -1, *, descending: bool = False, stream: Stream | None = None) -> Any:
        """Sorts each row, as ``numpy.sort``; returns a new array."""
        keys = self._numbers(a, stream)
        result = self._rows("sort.keys", keys, keys.dtype, axis, descending=descending, stream=stream)
        return converted(self._host, result, a.dtype, stream)

    def argsort(
        self, a: Array, axis: int | None = -1, *, descending: bool = False, stream: Stream | None = None
    ) -> Any:
        """Positions that would sort each row, as ``numpy.argsort(kind="stable")``: int64."""
        keys = self._numbers(a, stream)
        return self._rows("sort.argsort", keys, np.dtype(np.int64), axis, descending=descending, stream=stream)

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
        keys = self._numbers(a)
        call = Call(self._host, (keys,))
        found, count = call.empty((a.size,), keys.dtype), call.empty((1,), np.int64)
        call.run(f"sort.unique_{TYPES[keys.dtype]}", In(keys), a.size, Out(found), Out(count))
        out = converted(self._host, found, a.dtype)
        if isinstance(out, DeviceArray) and isinstance(count, DeviceArray):
            return out.first(int(count.get()[0]))
        return out[: int(count[0])].copy()

    def _numbers(self, a: Array, stream: Stream | None = None) -> Array:
        """Keys that the host sorts: the array, or numbers for its truth values."""
        suffix = suffix_of(NUMBERS_AND_BOOL, a=a)
        return converted(self._host, a, np.dtype(np.uint32), stream) if suffix == "b8" else a

    def _rows(
        self, name: str, a: Array, dtype: np.dtype[Any], axis: int | None, *, descending: bool, stream: Stream | None
    ) -> Any:
        rows = Rows(a, axis)
        call = Call(self._host, (a,), stream)
        out = call.empty(rows.shape, dtype)
        call.run(
            f"{name}_{TYPES[a.dtype]}", In(rows.packed(call, a)), Out(out), rows.count, rows.length, int(descending)
        )
        return rows.unpacked(call, out)
