"""Choosing elements: `Device.select`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from guest_driver.arguments import In, Out
from guest_driver.errors import InvalidArgument
from guest_driver.functions.call import BOOL, Array, Call, Group, check_arrays
from guest_driver.functions.elementwise import check_mask, converted
from guest_driver.memory import DeviceArray

if TYPE_CHECKING:
    from guest_driver.stream import Stream


class Selection(Group):
    """Positions of elements that are true, and elements of any type by their positions."""

    def nonzero(self, a: Array) -> Any:
        """Positions in C order of elements that are true, or not 0, as ``numpy.flatnonzero``: int64.

        Waits for their number. A result on the device shares memory that has room for all elements of `a`.

        :raise TypeError: `a` is no array, or cannot be converted to bool.
        """
        check_arrays(a=a)
        truths = converted(self._host, a, BOOL)
        call = Call(self._host, (a,))
        out, count = call.empty((a.size,), np.int64), call.empty((1,), np.int64)
        call.run("select.nonzero_b8", In(truths), a.size, Out(out), Out(count))
        if isinstance(out, DeviceArray) and isinstance(count, DeviceArray):
            return out.first(int(count.get()[0]))
        return out[: int(count[0])].copy()

    def take(self, a: Array, indices: Array, *, stream: Stream | None = None) -> Any:
        """Parts of `a` by their indices along its first axis, as ``numpy.take(a, indices, axis=0)``.

        :param a: array of any type. :param indices: integers of any shape; negative ones count from the end.
        :raise TypeError: one is no array, or indices are no integers. :raise errors.InvalidArgument: `a` has no dimensions.
        :raise errors.LaunchFailed: there is no part of an index.
        """
        check_arrays(a=a, indices=indices)
        if indices.dtype.kind not in "iu" or a.dtype.hasobject:
            raise TypeError(f"indices of {indices.dtype} for {a.dtype}; allowed: integers, for types without objects")
        if not a.shape:
            raise InvalidArgument("a has no dimensions; allowed: arrays of 1 or more")
        call = Call(self._host, (a, indices), stream)
        out = call.empty((*indices.shape, *a.shape[1:]), a.dtype)
        item_bytes = math.prod(a.shape[1:]) * a.dtype.itemsize
        if out.size > 0:
            places = converted(self._host, indices, np.dtype(np.int64), stream)
            call.run("select.take_i64", In(a), a.shape[0], item_bytes, In(places), indices.size, Out(out))
        return out

    def masked(self, a: Array, mask: Array) -> Any:
        """Parts of `a` where a mask of bool is true, as ``a[mask]``. Waits for their number.

        :param mask: array of the shape of `a`, or of its first axes.
        :raise TypeError: it is no array of bool. :raise errors.InvalidArgument: it has a different shape.
        """
        check_arrays(a=a, mask=mask)
        check_mask(a, mask)
        return self.take(a.reshape((mask.size, *a.shape[len(mask.shape) :])), self.nonzero(mask))
