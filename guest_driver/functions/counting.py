"""Histograms: `Device.count`."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from guest_driver.arguments import In, Out
from guest_driver.errors import InvalidArgument
from guest_driver.functions.call import INTEGERS, NUMBERS, Array, Call, Group, check_dimensions, suffix_of
from guest_driver.functions.reductions import Reductions
from guest_driver.memory import DeviceArray

MOST_BINS: Final = 1 << 24


class Counting(Group):
    """Counts the elements of arrays; counts are int64."""

    def histogram(
        self,
        a: Array,
        bins: int = 10,
        range: tuple[float, float] | None = None,  # noqa: A002  numpy's name
    ) -> tuple[Any, np.ndarray[Any, Any]]:
        """Counts elements in bins of equal width, as ``numpy.histogram``.

        :param a: float32, float64, or integers of 32 or 64 bits. NaN, and elements outside of the range, do not count.
        :param range: begin of the first bin and end of the last; by default the least and the largest element.
        :return: counts, and the ``bins + 1`` edges in a numpy array of float64.
        :raise errors.InvalidArgument: there are no bins or more than 2**24, or the range is not finite, or falls.
        """
        suffix = suffix_of(NUMBERS, a=a)
        _check_bins("bins", bins, least=1)
        low, high = self._range(a, range)
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise InvalidArgument(f"range ({low:g}, {high:g}); allowed: finite numbers that do not fall")
        if low == high:
            low, high = low - 0.5, high + 0.5
        call = Call(self._host, (a,))
        counts = call.empty((bins,), np.int64)
        call.run(f"count.histogram_{suffix}", In(a), a.size, Out(counts), bins, low, high)
        return counts, np.linspace(low, high, bins + 1)

    def bincount(self, a: Array, minlength: int = 0) -> Any:
        """Counts how often each number from 0 on occurs, as ``numpy.bincount``. Looks for the largest one first.

        :param a: vector of integers of 32 or 64 bits.
        :raise errors.InvalidArgument: a number is negative, or 2**24 or more.
        """
        suffix = suffix_of(INTEGERS, a=a)
        check_dimensions("a", a, 1)
        _check_bins("minlength", minlength, least=0)
        least, largest = self._extremes(a) if a.size else (0, -1)
        if least < 0:
            raise InvalidArgument(f"a has the element {least}; allowed: 0 to {MOST_BINS - 1}")
        if largest >= MOST_BINS:
            raise InvalidArgument(f"a has the element {largest}; allowed: 0 to {MOST_BINS - 1}")
        bins = max(int(largest) + 1, minlength)
        call = Call(self._host, (a,))
        counts = call.empty((bins,), np.int64)
        call.run(f"count.bincount_{suffix}", In(a), a.size, Out(counts), bins)
        return counts

    def _range(self, a: Array, given: Any) -> tuple[float, float]:
        """Begin of the first bin and end of the last."""
        if given is None:
            given = self._extremes(a) if a.size else (0, 1)
        try:
            low, high = given
            return float(low), float(high)
        except (TypeError, ValueError):
            raise TypeError(f"range is {given!r}; allowed: two numbers, such as (0, 1)") from None

    def _extremes(self, a: Array) -> tuple[Any, Any]:
        """Least and largest element: found where the array lies, as a request would take longer."""
        if not isinstance(a, DeviceArray):
            return a.min(), a.max()
        reduce = Reductions(self._host)
        return reduce.min(a).get()[()], reduce.max(a).get()[()]


def _check_bins(name: str, number: int, least: int) -> None:
    if not isinstance(number, int | np.integer):
        raise TypeError(f"{name} is a {type(number).__name__}; allowed: a number of bins of equal width")
    if not least <= number <= MOST_BINS:
        raise InvalidArgument(f"{name} is {number}; allowed: {least} to {MOST_BINS}")
