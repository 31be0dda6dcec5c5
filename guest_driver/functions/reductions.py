"""Reductions and running reductions: `Device.reduce` and `Device.scan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from guest_driver.arguments import In, Out
from guest_driver.errors import InvalidArgument
from guest_driver.functions.call import (
    BOOL,
    NUMBERS_AND_BOOL,
    PARTS,
    Array,
    Axis,
    Call,
    Group,
    axes_of,
    axis_of,
    check_arrays,
    result_of,
    suffix_of,
)
from guest_driver.functions.elementwise import converted, parts_of
from guest_driver.functions.rows import Rows
from guest_driver.memory import DeviceArray

if TYPE_CHECKING:
    from guest_driver.stream import Stream

HAVE_NO_EMPTY: frozenset[str] = frozenset(["min", "max", "argmin", "argmax"])
"""Reductions that have no result for no elements."""

OF_BOOL: frozenset[str] = frozenset(["sum", "min", "max"])
"""Reductions that the host has for bool."""


class Reductions(Group):
    """Reductions of float32, float64, integers of 32 and 64 bits, and bool.

    `axis` is one axis, several neighbours, or None for all; `keepdims` leaves them in the result with length 1. Sums and
    products of integers and bool have 64 bits. Methods raise `errors.InvalidArgument` for other axes, and where no
    elements have no result.
    """

    def sum(self, a: Array, axis: Axis = None, *, keepdims: bool = False, stream: Stream | None = None) -> Any:
        """Sums, as ``numpy.sum``; of complex numbers, too."""
        if isinstance(a, DeviceArray | np.ndarray) and a.dtype in PARTS:
            axes = range(len(a.shape)) if axis is None else [axis_of(a, one) for one in axes_of(axis)]
            parts = self._sum_of_parts(parts_of(a), list(axes), keepdims, stream)
            return result_of(parts.view(a.dtype).reshape(parts.shape[:-1]))
        return self._reduce("sum", a, axis, keepdims, stream)

    def prod(self, a: Array, axis: Axis = None, *, keepdims: bool = False, stream: Stream | None = None) -> Any:
        """Products, as ``numpy.prod``."""
        return self._reduce("prod", a, axis, keepdims, stream)

    def min(self, a: Array, axis: Axis = None, *, keepdims: bool = False, stream: Stream | None = None) -> Any:
        """Least elements, as ``numpy.min``: NaN where there is one."""
        return self._reduce("min", a, axis, keepdims, stream)

    def max(self, a: Array, axis: Axis = None, *, keepdims: bool = False, stream: Stream | None = None) -> Any:
        """Largest elements, as ``numpy.max``: NaN where there is one."""
        return self._reduce("max", a, axis, keepdims, stream)

    def argmin(self, a: Array, axis: int | None = None, *, keepdims: bool = False, stream: Stream | None = None) -> Any:
        """Positions of the least elements, as ``numpy.argmin``: int64."""
        return self._reduce("argmin", a, axis, keepdims, stream)

    def argmax(self, a: Array, axis: int | None = None, *, keepdims: bool = False, stream: Stream | None = None) -> Any:
        """Positions of the largest elements, as ``numpy.argmax``: int64."""
        return self._reduce("argmax", a, axis, keepdims, stream)

    def _sum_of_parts(self, parts: Array, axes: list[int], keepdims: bool, stream: Stream | None) -> Any:
        """Sums of arrays whose last axis has real and imaginary parts."""
        return self._reduce("sum", parts, axes, keepdims, stream) if axes else parts.copy()

    def any(self, a: Array, axis: Axis = None, *, keepdims: bool = False, stream: Stream | None = None) -> Any:
        """Whether elements are true, or not 0, as ``numpy.any``: bool."""
        return self._reduce("max", self._truths(a, stream), axis, keepdims, stream, has_empty=True)

    def all(self, a: Array, axis: Axis = None, *, keepdims: bool = False, stream: Stream | None = None) -> Any:
        """Whether all elements are true, or not 0, as ``numpy.all``: bool."""
        return self._reduce("min", self._truths(a, stream), axis, keepdims, stream, has_empty=True)

    def count_nonzero(
        self, a: Array, axis: Axis = None, *, keepdims: bool = False, stream: Stream | None = None
    ) -> Any:
        """Numbers of elements that are true, or not 0, as ``numpy.count_nonzero``: int64."""
        return self._reduce("sum", self._truths(a, stream), axis, keepdims, stream)

    def _truths(self, a: Array, stream: Stream | None) -> Array:
        check_arrays(a=a)
        return converted(self._host, a, BOOL, stream)

    def _reduce(
        self,
        function: str,
        a: Array,
        axis: Axis,
        keepdims: bool,
        stream: Stream | None,
        *,
        has_empty: bool = False,
    ) -> Any:
        suffix = suffix_of(NUMBERS_AND_BOOL, a=a)
        result_type = _result_type(function, a.dtype)
        if a.dtype == BOOL and function not in OF_BOOL:
            a, suffix = converted(self._host, a, np.dtype(np.int32), stream), "i32"
        first, last = _neighbours(a, axis)
        before, n, behind = a.shape[:first], _product(a.shape[first:last]), a.shape[last:]
        outer, inner = _product(before), _product(behind)
        if n == 0 and outer * inner > 0 and function in HAVE_NO_EMPTY and not has_empty:
            raise InvalidArgument(f"{function} of no elements: a has shape {a.shape}; allowed: one element or more")
        kept = (1,) * (last - first) if keepdims else ()
        call = Call(self._host, (a,), stream)
        out = call.empty((*before, *kept, *behind), result_type)
        call.run(f"reduce.{function}_{suffix}", In(a), Out(out), outer, n, inner)
        return result_of(out)


class Scans(Group):
    """Running reductions of float32, float64, integers of 32 and 64 bits, and bool.

    `axis` is the one along which they run, or None: all elements as one row. `exclusive` leaves the element itself out:
    the first one is 0 (sums), 1 (products), or the most extreme number of the type. Sums and products of integers and
    bool have 64 bits. Methods raise `errors.InvalidArgument` for axes that an array does not have.
    """

    def sum(self, a: Array, axis: int | None = -1, *, exclusive: bool = False, stream: Stream | None = None) -> Any:
        """Running sums, as ``numpy.cumsum``."""
        return self._scan("sum", a, axis, exclusive, stream)

    def prod(self, a: Array, axis: int | None = -1, *, exclusive: bool = False, stream: Stream | None = None) -> Any:
        """Running products, as ``numpy.cumprod``."""
        return self._scan("prod", a, axis, exclusive, stream)

    def min(self, a: Array, axis: int | None = -1, *, exclusive: bool = False, stream: Stream | None = None) -> Any:
        """Running minima, as ``numpy.minimum.accumulate``."""
        return self._scan("min", a, axis, exclusive, stream)

    def max(self, a: Array, axis: int | None = -1, *, exclusive: bool = False, stream: Stream | None = None) -> Any:
        """Running maxima, as ``numpy.maximum.accumulate``."""
        return self._scan("max", a, axis, exclusive, stream)

    def _scan(self, function: str, a: Array, axis: int | None, exclusive: bool, stream: Stream | None) -> Any:
        suffix = suffix_of(NUMBERS_AND_BOOL, a=a)
        if suffix == "b8":
            return self._scan_of_bool(function, a, axis, exclusive, stream)
        rows = Rows(a, axis)
        call = Call(self._host, (a,), stream)
        out = call.empty(rows.shape, _result_type(function, a.dtype))
        call.run(
            f"scan.{function}_{suffix}", In(rows.packed(call, a)), Out(out), rows.count, rows.length, int(exclusive)
        )
        return rows.unpacked(call, out)

    def _scan_of_bool(self, function: str, a: Array, axis: int | None, exclusive: bool, stream: Stream | None) -> Any:
        is_bool = _result_type(function, BOOL) == BOOL
        numbers = converted(self._host, a, np.dtype(np.uint32 if is_bool else np.int32), stream)
        result = self._scan(function, numbers, axis, exclusive, stream)
        return converted(self._host, result, BOOL, stream) if is_bool else result


def _product(lengths: tuple[int, ...]) -> int:
    return int(np.prod(lengths, dtype=np.int64))


def _neighbours(a: Array, axis: Axis) -> tuple[int, int]:
    """First axis to reduce, and the one behind the last."""
    if axis is None:
        return 0, len(a.shape)
    axes = sorted(axis_of(a, one) for one in axes_of(axis))
    if not axes or axes != list(range(axes[0], axes[0] + len(axes))):
        raise InvalidArgument(
            f"axes {axis} of shape {a.shape}; allowed: one axis, several that are neighbours, or None"
        )
    return axes[0], axes[-1] + 1


def _result_type(function: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    if function.startswith("arg"):
        return np.dtype(np.int64)
    if function not in ("sum", "prod") or dtype.kind == "f":
        return dtype
    return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
