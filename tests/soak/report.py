"""Report of a soak: a line for each series' trend, in each half of the run, and what grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.soak.samples import Sample
from tests.soak.trend import CERTAIN, Trend, trend

WARM_UP: Final = 0.4
"""Part of each half of a run whose samples are left out: caches fill up, and allocators settle."""
ALLOWANCES: Final = {"MiB": 1.0, "descriptors": 2.0, "threads": 1.0, "processes": 1.0}
"""Growth within a half that counts as noise, by unit. Latencies have none: other load on the machine changes them."""
ALLOWED_PART: Final = 0.02
"""Growth within a half that counts as noise, as a part of the mean, if that is more."""
MIN_SPAN_H: Final = 120 / 3600
"""Shortest span, after the warm-up, that is judged: in less, a host's caches are still filling."""
RULE: Final = (
    f"a series grows if its slope exceeds {CERTAIN:g} standard errors, and adds more than "
    + ", ".join(f"{value:g} {unit}" for unit, value in ALLOWANCES.items())
    + f" or {ALLOWED_PART:.0%} of the mean within the half of the run, after its first {WARM_UP:.0%}; "
    f"less than {MIN_SPAN_H * 60:.0f} minutes of a half are not judged"
)
HALVES: Final = {True: "replaced", False: "staying"}
"""Names of a run's halves: with daemons that are replaced, and with one that stays."""


def halves(samples: Sequence[Sample]) -> dict[str, list[Sample]]:
    """Samples of each half of the run, by its name, without those of its warm-up."""
    found = {}
    for replaces, name in HALVES.items():
        of_half = [sample for sample in samples if sample.replaces == replaces]
        if of_half:
            begin = of_half[0].at_s + WARM_UP * (of_half[-1].at_s - of_half[0].at_s)
            found[name] = [sample for sample in of_half if sample.at_s >= begin]
    return found


def trends(samples: Sequence[Sample]) -> dict[tuple[str, str], Trend]:
    """Trend of each series, by half and name. Series with too few samples are left out."""
    found = {}
    for half, of_half in halves(samples).items():
        for series in sorted({name for sample in of_half for name in sample.values}):
            there = [sample for sample in of_half if series in sample.values]
            line = trend([sample.at_s for sample in there], [sample.values[series] for sample in there])
            if line is not None:
                found[half, series] = line
    return found


def allowance(series: str, line: Trend) -> float | None:
    """Growth of a series that counts as noise, in its unit; None: it may grow."""
    least = ALLOWANCES.get(series.rpartition(" ")[2])
    return None if least is None else max(least, ALLOWED_PART * line.mean)


def growing(found: dict[tuple[str, str], Trend]) -> list[str]:
    """Findings about series that grow."""
    return [
        f"{series} grows ({half} daemons): {line.slope:+.1f} an hour, standard error {line.error:.1f}, "
        f"from {line.first:.1f} to {line.last:.1f}"
        for (half, series), line in found.items()
        if line.span_h >= MIN_SPAN_H and (allowed := allowance(series, line)) is not None and line.grows(allowed)
    ]


def lines(found: dict[tuple[str, str], Trend]) -> list[str]:
    """Table of all trends."""
    head = f"{'daemons':<9} {'series':<24} {'first':>9} {'last':>9} {'mean':>9} {'per hour':>10} {'error':>8}"
    rows = [
        f"{half:<9} {series:<24} {line.first:9.1f} {line.last:9.1f} {line.mean:9.1f} {line.slope:+10.1f} {line.error:8.1f}"
        for (half, series), line in found.items()
    ]
    return [head, *rows]
