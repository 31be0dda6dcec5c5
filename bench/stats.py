"""Comparison of subjects by measuring them alternately, in one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bench.results import Samples, SkipRow

T = TypeVar("T")


Subject = Callable[[], float]
"""Function that performs a measured action once and returns the figure."""


def attempt(make: Callable[[], T]) -> T | SkipRow:
    """Calls `make`; returns its result, or the reason why it cannot run on this machine."""
    try:
        return make()
    except SkipRow as reason:
        return reason


def alternate(rounds: int, *subjects: Subject | SkipRow) -> tuple[Samples | SkipRow, ...]:
    """Calls every subject once per round, in turn (A B A B ...), after one unmeasured call of each.

    A subject that is a :class:`SkipRow`, or raises one, yields it; the others are measured nevertheless.
    """
    outcome: list[SkipRow | list[float]] = [s if isinstance(s, SkipRow) else [] for s in subjects]
    for round_number in range(rounds + 1):
        for index, subject in enumerate(subjects):
            values = outcome[index]
            if isinstance(values, SkipRow) or isinstance(subject, SkipRow):
                continue
            figure = attempt(subject)
            if isinstance(figure, SkipRow):
                outcome[index] = figure
            elif round_number > 0:
                values.append(figure)
    return tuple(o if isinstance(o, SkipRow) else Samples(tuple(o)) for o in outcome)
