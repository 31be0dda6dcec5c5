"""Trends of measured series: slope by least squares, its standard error, and the rule for what counts as growth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

CERTAIN: Final = 3.0
"""Number of standard errors by which a slope must exceed zero to count."""
MAX_CORRELATION: Final = 0.95
"""Highest correlation of neighbouring residuals that is assumed."""
MIN_SAMPLES: Final = 8
"""Fewer samples have no trend."""


@dataclass(frozen=True, slots=True)
class Trend:
    """Line through a series. Values have the series' unit; `slope` and `error` are per hour."""

    slope: float
    error: float
    """Standard error of `slope`, widened by the correlation of neighbouring residuals."""
    first: float
    last: float
    mean: float
    span_h: float

    def grows(self, allowance: float) -> bool:
        """True if the slope is certain and adds more than `allowance`, in the series' unit, over the series' span."""
        return self.slope > CERTAIN * self.error and self.slope * self.span_h > allowance


def trend(times_s: Sequence[float], values: Sequence[float]) -> Trend | None:
    """Fits a line by least squares; None: fewer than `MIN_SAMPLES`, or all at one time.

    Neighbouring samples of a process's memory are alike, so that they tell less than independent ones would: with a
    correlation r of neighbouring residuals, the standard error is that of ``n (1 - r) / (1 + r)`` samples.
    """
    count = len(values)
    if count != len(times_s):
        raise ValueError(f"{len(times_s)} times and {count} values; allowed: as many of each")
    if count < MIN_SAMPLES:
        return None
    hours = [(time - times_s[0]) / 3600 for time in times_s]
    mean_x, mean_y = sum(hours) / count, sum(values) / count
    spread = sum((x - mean_x) ** 2 for x in hours)
    if not spread:
        return None
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(hours, values, strict=True)) / spread
    rest = [y - mean_y - slope * (x - mean_x) for x, y in zip(hours, values, strict=True)]
    squares = sum(r * r for r in rest)
    r = correlation(rest)
    error = math.sqrt(squares / (count - 2) / spread * (1 + r) / (1 - r))
    return Trend(slope, error, values[0], values[-1], mean_y, hours[-1] - hours[0])


def correlation(residuals: Sequence[float]) -> float:
    """Correlation of neighbouring residuals, from 0 to `MAX_CORRELATION`."""
    squares = sum(r * r for r in residuals)
    if not squares:
        return 0.0
    together = sum(a * b for a, b in pairwise(residuals))
    return min(max(together / squares, 0.0), MAX_CORRELATION)
