"""Table of rows. A row is a function in ``bench/rows``, decorated with the names of the figures that it measures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from bench.results import Result, Skipped

if TYPE_CHECKING:
    from bench.lab import Lab

Outcome = Result | Skipped
Measure = Callable[["Lab"], Iterable[Outcome]]


@dataclass(frozen=True, slots=True)
class Row:
    """Measurement, with the names of the results that it yields."""

    names: tuple[str, ...]
    measure: Measure


ROWS: list[Row] = []


def row(*names: str) -> Callable[[Measure], Measure]:
    """Registers a function as the row that yields results of these `names`.

    :raise ValueError: a name is taken.
    """

    def register(measure: Measure) -> Measure:
        taken = set(names) & {name for known in ROWS for name in known.names}
        if taken:
            raise ValueError(f"benchmark names registered twice: {', '.join(sorted(taken))}")
        ROWS.append(Row(names, measure))
        return measure

    return register


def wants(patterns: Sequence[str], name: str) -> bool:
    """True if `name` is selected. An empty list of patterns selects everything."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def select(rows: Sequence[Row], patterns: Sequence[str]) -> list[Row]:
    """Selects the rows that yield a figure which matches a glob of `patterns`.

    :raise ValueError: a pattern matches no figure; the text lists all figures.
    """
    names = [name for known in rows for name in known.names]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"no benchmark is called {pattern!r}; there are: {', '.join(names)}")
    return [known for known in rows if any(wants(patterns, name) for name in known.names)]
