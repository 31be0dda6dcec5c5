"""Results of rows, and their presentation: the table on the terminal and the lists in ``bench/out``."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from vhost_backend.engines.cuda.nvml import GpuClocks

CLOCK_TOLERANCE: Final = 0.1
"""Relative difference of clocks between a row's begin and end above which it is reported."""

QUOTED: Final = "size to quote"

Better = Literal["lower", "higher"]


class SkipRow(Exception):  # noqa: N818  the reason why a row cannot run, not a fault
    """A measurement cannot run on this machine; the text says why and, if possible, what to install."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of one figure, one per round."""

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
"""Result of a measurement: samples, one number, or the reason why there is no figure."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Bound on the value or on its ratio to the baseline, e.g. ``Goal("ratio", "<", 2.0)``."""

    of: Literal["value", "ratio"]
    relation: Literal["<", ">="]
    bound: float

    def __str__(self) -> str:
        name = "" if self.of == "value" else "ratio "
        return f"{name}{self.relation} {self.bound:g}"

    def is_met(self, figure: float) -> bool:
        return figure < self.bound if self.relation == "<" else figure >= self.bound


@dataclass(frozen=True, slots=True)
class ClockRecord:
    """Clocks of the GPU while a row was measured."""

    before: GpuClocks | None = None
    after: GpuClocks | None = None
    unknown: str = ""  # why they could not be read
    not_raised: str = ""  # why the GPU could not be kept busy before the row

    @property
    def doubt(self) -> str:
        """Reason to doubt figures of this row; "" if clocks were high and stable."""
        if self.before is None or self.after is None:
            return f"clocks unknown: {self.unknown}"
        if self.not_raised:
            return f"clocks not brought up: {self.not_raised}"
        pairs = ((self.before.sm_mhz, self.after.sm_mhz), (self.before.mem_mhz, self.after.mem_mhz))
        if all(abs(last - first) <= CLOCK_TOLERANCE * max(first, last) for first, last in pairs):
            return ""
        return f"clocks moved from {self.before} to {self.after}"

    def entry(self) -> dict[str, Any]:
        """Entry in ``results.json``: the known fields."""
        return {key: value for key, value in asdict(self).items() if value}


@dataclass(frozen=True, slots=True)
class Skipped:
    """Figure that was not measured, with the reason."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Result:
    """Result, one line of the table."""

    name: str
    value: float
    unit: str
    better: Better
    baseline: float | None = None
    against: str = ""  # description of the baseline
    goal: Goal | None = None
    noise: float | None = None  # see Samples.noise
    quoted: bool = False  # the size whose figure is quoted for the row
    clocks: ClockRecord | None = None  # clocks during a row on a GPU

    @property
    def ratio(self) -> float | None:
        """Value divided by the baseline, whichever direction is better."""
        return self.value / self.baseline if self.baseline else None

    @property
    def verdict(self) -> str:
        """Whether the goal is ``met`` or ``MISSED``; empty without a goal, or without the baseline that it needs."""
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
    quoted: bool = False,
) -> Result | Skipped:
    """Makes the line for `figure`: a result, or the reason why there is no result.

    If the baseline could not be measured, the result has none.

    :param quoted: this is the size whose figure is quoted for the row.
    """
    if isinstance(figure, SkipRow):
        return Skipped(name, str(figure))
    if isinstance(baseline, SkipRow):
        against = f"no {against}: {baseline}"
    noise = figure.noise if isinstance(figure, Samples) else None
    return Result(name, _value(figure), unit, better, _base(baseline), against, goal, noise, quoted)


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
    against = "; ".join(filter(None, (result.against, QUOTED if result.quoted else "")))
    return (result.name, *figures, noise, goal, result.verdict, against)


def table(results: Sequence[Result], skipped: Sequence[Skipped] = ()) -> str:
    """Formats results as text: a line each, numbers to the right; then doubts because of clocks, and skipped rows."""
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
    lines += _doubts(results)
    reasons = _by_reason((row.reason, row.name) for row in skipped)
    lines += [f"skipped ({reason}): {names}" for reason, names in reasons.items()]
    return "\n".join(line.rstrip() for line in lines)


def _doubts(results: Sequence[Result]) -> list[str]:
    """Lines of doubts because of a GPU's clocks, each with the names of the figures concerned."""
    found = ((result.clocks.doubt, result.name) for result in results if result.clocks)
    return [f"{doubt}: {names}" for doubt, names in _by_reason(pair for pair in found if pair[0]).items()]


def _by_reason(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Groups names by reason."""
    names: dict[str, list[str]] = {}
    for reason, name in pairs:
        names.setdefault(reason, []).append(name)
    return {reason: ", ".join(those) for reason, those in names.items()}


def markdown(results: Sequence[Result]) -> str:
    """Formats results as a Markdown table, as in docs/benchmarks.md."""
    rows = [_COLUMNS, ("---",) * len(_COLUMNS), *map(_cells, results)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def rows_of(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Entries of ``results.json``; those of a GPU with its clocks."""
    return [_entry(result) for result in results]


def _entry(result: Result) -> dict[str, Any]:
    keys = ("name", "value", "unit", "baseline", "ratio", "better")
    entry = {key: getattr(result, key) for key in keys}
    quoted = {"quoted": True} if result.quoted else {}
    clocks = {"clocks": result.clocks.entry()} if result.clocks else {}
    return entry | quoted | clocks


def write_json(folder: Path, results: Sequence[Result], skipped: Sequence[Skipped]) -> Path:
    """Writes ``results.json`` and, beside it, ``skipped.json`` (a list, empty if every row ran)."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.json"
    path.write_text(json.dumps(rows_of(results), indent=2) + "\n")
    reasons = [{"name": row.name, "reason": row.reason} for row in skipped]
    (folder / "skipped.json").write_text(json.dumps(reasons, indent=2) + "\n")
    return path
