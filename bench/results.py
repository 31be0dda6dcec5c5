"""What a row measures, and how it is shown: the table on the terminal and the lists in ``bench/out``."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Better = Literal["lower", "higher"]


class SkipRow(Exception):  # noqa: N818  the reason why a row cannot run, not a fault
    """Raised by what cannot run on this machine; its text says why and, if possible, what to install."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Figures of the same thing, one per round."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def noise(self) -> float:
        """Half the distance between the quartiles, as a share of the median; 0 for a single sample."""
        if len(self.values) < 2 or self.median == 0:
            return 0.0
        first, _, third = statistics.quantiles(self.values, n=4, method="inclusive")
        return (third - first) / 2 / self.median


Figure = Samples | float | SkipRow
"""What was found out about something: samples, one figure, or why there is none."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on the value or on its ratio to the baseline, e.g. ``Goal("ratio", "<", 2.0)``."""

    of: Literal["value", "ratio"]
    relation: Literal["<", ">="]
    bound: float

    def __str__(self) -> str:
        name = "" if self.of == "value" else "ratio "
        return f"{name}{self.relation} {self.bound:g}"

    def is_met(self, figure: float) -> bool:
        return figure < self.bound if self.relation == "<" else figure >= self.bound


@dataclass(frozen=True, slots=True)
class Skipped:
    """A figure that there is none of here, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table."""

    name: str
    value: float
    unit: str
    better: Better
    baseline: float | None = None
    against: str = ""  # what the baseline is
    goal: Goal | None = None
    noise: float | None = None  # see Samples.noise

    @property
    def ratio(self) -> float | None:
        """The value over the baseline, whichever direction is better."""
        return self.value / self.baseline if self.baseline else None

    @property
    def verdict(self) -> str:
        """``met``, ``MISSED``, or nothing where there is no goal (or no baseline to hold it against)."""
        figure = None if self.goal is None else self.value if self.goal.of == "value" else self.ratio
        if self.goal is None or figure is None:
            return ""
        return "met" if self.goal.is_met(figure) else "MISSED"


def outcome(
    name: str,
    figure: Figure,
    unit: str,
    better: Better,
    baseline: Figure | None = None,
    *,
    against: str = "",
    goal: Goal | None = None,
) -> Result | Skipped:
    """The line for `figure`: a result, or the reason why there is none.

    A baseline that could not be measured leaves a result without one.
    """
    if isinstance(figure, SkipRow):
        return Skipped(name, str(figure))
    if isinstance(baseline, SkipRow):
        against = f"no {against}: {baseline}"
    noise = figure.noise if isinstance(figure, Samples) else None
    return Result(name, _value(figure), unit, better, _base(baseline), against, goal, noise)


def _value(figure: Samples | float) -> float:
    return figure.median if isinstance(figure, Samples) else figure


def _base(figure: Figure | None) -> float | None:
    return None if figure is None or isinstance(figure, SkipRow) else _value(figure)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


_COLUMNS = ("row", "value", "unit", "baseline", "ratio", "noise", "goal", "", "against")


def _cells(result: Result) -> tuple[str, ...]:
    noise = "-" if result.noise is None else f"{result.noise:.0%}"
    goal = "" if result.goal is None else str(result.goal)
    figures = (_number(result.value), result.unit, _number(result.baseline), _number(result.ratio))
    return (result.name, *figures, noise, goal, result.verdict, result.against)


def table(results: Sequence[Result], skipped: Sequence[Skipped] = ()) -> str:
    """The results as text, a line each, numbers to the right; then the rows that did not run."""
    rows = [_COLUMNS, *map(_cells, results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    right = {1, 3, 4, 5}
    lines = [
        "  ".join(
            cell.rjust(w) if i in right else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    lines += [f"skipped ({reason}): {names}" for reason, names in _by_reason(skipped).items()]
    return "\n".join(line.rstrip() for line in lines)


def _by_reason(skipped: Sequence[Skipped]) -> dict[str, str]:
    """The names of the rows that each reason has kept from running."""
    names: dict[str, list[str]] = {}
    for row in skipped:
        names.setdefault(row.reason, []).append(row.name)
    return {reason: ", ".join(those) for reason, those in names.items()}


def markdown(results: Sequence[Result]) -> str:
    """The results as a Markdown table, as in docs/benchmarks.md."""
    rows = [_COLUMNS, ("---",) * len(_COLUMNS), *map(_cells, results)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def rows_of(results: Sequence[Result]) -> list[dict[str, Any]]:
    """The results as ``results.json`` has them."""
    keys = ("name", "value", "unit", "baseline", "ratio", "better")
    return [{key: getattr(result, key) for key in keys} for result in results]


def write_json(folder: Path, results: Sequence[Result], skipped: Sequence[Skipped]) -> Path:
    """Writes ``results.json`` and, beside it, ``skipped.json`` (a list, empty if every row ran)."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.json"
    path.write_text(json.dumps(rows_of(results), indent=2) + "\n")
    reasons = [{"name": row.name, "reason": row.reason} for row in skipped]
    (folder / "skipped.json").write_text(json.dumps(reasons, indent=2) + "\n")
    return path
