"""The table of rows. A row is one function in ``bench/rows``, decorated with the names of the figures it makes."""

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
    """A measurement and the names of the results it yields."""

    names: tuple[str, ...]
    measure: Measure


ROWS: list[Row] = []


def row(*names: str) -> Callable[[Measure], Measure]:
    """Registers a function as the row that yields results of these `names`.

    :raise ValueError: when a name is taken.
    """

    def register(measure: Measure) -> Measure:
        taken = set(names) & {name for known in ROWS for name in known.names}
        if taken:
            raise ValueError(f"benchmark names registered twice: {', '.join(sorted(taken))}")
        ROWS.append(Row(names, measure))
        return measure

    return register


def wants(patterns: Sequence[str], name: str) -> bool:
    """Is `name` selected? No patterns select everything."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def select(rows: Sequence[Row], patterns: Sequence[str]) -> list[Row]:
    """The rows that make at least one figure that a glob of `patterns` names.

    :raise ValueError: when a pattern names nothing; the text lists what there is.
    """
    names = [name for known in rows for name in known.names]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"no benchmark is called {pattern!r}; there are: {', '.join(names)}")
    return [known for known in rows if any(wants(patterns, name) for name in known.names)]
