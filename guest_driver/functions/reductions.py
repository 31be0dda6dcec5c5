"""Reductions and running reductions: `Device.reduce` and `Device.scan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from guest_driver.arguments import In, Out
from guest_driver.errors import InvalidArgument
from guest_driver.functions.call import (
    NUMBERS,
    REALS,
    Array,
    Axis,
    Call,
    Group,
    axes_of,
    axis_of,
    result_of,
    suffix_of,
)
from guest_driver.functions.rows import Rows

if TYPE_CHECKING:
    from guest_driver.stream import Stream

HAVE_NO_EMPTY: frozenset[str] = frozenset(["min", "max", "argmin", "argmax"])
"""Reductions that have no result for no elements."""


class Reductions(Group):
    """Reductions of float32, float64, and integers of 32 and 64 bits.

    `axis` is one axis, several neighbours, or None for all; `keepdims` leaves them in the result with length 1. Sums and
    products of integers have 64 bits. Methods raise `errors.InvalidArgument` for other axes, and where no elements have
    no result.
    """

    def sum(self, a: Array, axis: Axis = None, *, keepdims: bool = False, stream: Stream | None = None) -> Any:
        """Sums, as ``numpy.sum``."""
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

    def _reduce(self, function: str, a: Array, axis: Axis, keepdims: bool, stream: Stream | None) -> Any:
        suffix = suffix_of(NUMBERS, a=a)
        first, last = _neighbours(a, axis)
        before, n, behind = a.shape[:first], _product(a.shape[first:last]), a.shape[last:]
        outer, inner = _product(before), _product(behind)
        if n == 0 and outer * inner > 0 and function in HAVE_NO_EMPTY:
            raise InvalidArgument(f"{function} of no elements: a has shape {a.shape}; allowed: one element or more")
        kept = (1,) * (last - first) if keepdims else ()
        call = Call(self._host, (a,), stream)
        out = call.empty((*before, *kept, *behind), _result_type(function, suffix, a.dtype))
        call.run(f"reduce.{function}_{suffix}", In(a), Out(out), outer, n, inner)
        return result_of(out)


class Scans(Group):
    """Running reductions of float32, float64, and integers of 32 and 64 bits.

    `axis` is the one along which they run, or None: all elements as one row. `exclusive` leaves the element itself out:
    the first one is 0 (sums), 1 (products), or the most extreme number of the type. Sums and products of integers have
    64 bits. Methods raise `errors.InvalidArgument` for axes that an array does not have.
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
        suffix = suffix_of(NUMBERS, a=a)
        rows = Rows(a, axis)
        call = Call(self._host, (a,), stream)
        out = call.empty(rows.shape, _result_type(function, suffix, a.dtype))
        call.run(
            f"scan.{function}_{suffix}", In(rows.packed(call, a)), Out(out), rows.count, rows.length, int(exclusive)
        )
        return rows.unpacked(call, out)


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


def _result_type(function: str, suffix: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    if function.startswith("arg"):
        return np.dtype(np.int64)
    if function not in ("sum", "prod") or suffix in REALS:
        return dtype
    return np.dtype(np.int64 if suffix.startswith("i") else np.uint64)
