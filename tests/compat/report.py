"""Reports of a compatibility run: a table for the terminal, JSON, and the page docs/compatibility.md."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.compat.frameworks import page as frameworks
from tests.compat.trial import Result
from tests.compat.verdict import Cause, Status

REMARKS: Final = Path(__file__).with_name("remarks.toml")
_ENDS_WELL: Final = frozenset({Status.PASSED, Status.RAN, Status.WAIVED})
_OTHER_PARTS: Final = frozenset({Cause.LIBRARY, Cause.DRIVER_API})
"""Causes that are parts of CUDA beside its runtime."""
_LEAST: Final = 60
"""Characters that are left of a text that is cut between words."""
_ORDER: Final = tuple(status for status in Status if status is not Status.BUILDS)
"""Columns of the page, which is about programs that were run."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Results of one folder of programs."""

    name: str
    results: tuple[Result, ...]
    untried: int = 0
    """Programs of the folder, or of the sample of it, that the run left out."""
    sample: str = ""
    """How the programs were drawn, if they are not all of the folder's."""
    day: str = ""
    """Day on which the last of them was tried."""

    @property
    def title(self) -> str:
        return f"{self.name} ({self.sample})" if self.sample else self.name


def read(path: Path) -> list[Result]:
    """Results of a file with one record a line; a last line that was cut off is left out."""
    results = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            results.append(Result.parse(json.loads(line)))
        except ValueError:
            continue
    return results


def counts(results: Iterable[Result]) -> str:
    """Such as "12 passed, 3 ran, 5 failed"."""
    found = Counter(result.status for result in results)
    return ", ".join(f"{found[status]} {status}" for status in Status if found[status]) or "no programs"


def causes(results: Iterable[Result]) -> list[tuple[Cause, int]]:
    """Causes by how many programs each keeps from passing, the most frequent first."""
    found = Counter(result.cause for result in results if result.cause)
    return sorted(found.items(), key=lambda row: (-row[1], row[0]))


def details(results: Iterable[Result], cause: Cause, most: int = 12) -> list[tuple[str, int]]:
    """Names that programs of one cause give for it, the most frequent first."""
    found = Counter(result.detail for result in results if result.cause is cause)
    return sorted(found.items(), key=lambda row: (-row[1], row[0]))[:most]


def table(results: Sequence[Result]) -> str:
    """One line for each program, then the sums."""
    width = max((len(result.name) for result in results), default=0)
    rows = [
        f"{result.name:{width}}  {result.status:6}  {result.build_seconds:6.1f} s  {result.run_seconds:6.1f} s  "
        f"{': '.join(filter(None, (result.cause, result.detail)))}".rstrip()
        for result in results
    ]
    sums = [f"{number:5}  {cause}" for cause, number in causes(results)]
    return "\n".join([*rows, "", counts(results), *sums])


def as_json(corpora: Sequence[Corpus]) -> str:
    data = {corpus.name: [result.record() for result in corpus.results] for corpus in corpora}
    return json.dumps(data, indent=1) + "\n"


def remarks(path: Path = REMARKS) -> dict[str, dict[str, str]]:
    """Faults of programs themselves, by corpus and program."""
    return tomllib.loads(path.read_text())


def summary(corpus: Corpus, own_faults: Collection[str]) -> str:
    """How many programs of those that can run at all end well, and what keeps the others from it."""
    counted = [result for result in corpus.results if result.status is not Status.EXCLUDED]
    well = sum(result.status in _ENDS_WELL for result in counted)
    left = [result for result in counted if result.status not in _ENDS_WELL]
    parts = sum(result.cause in _OTHER_PARTS for result in left)
    own = sum(result.name in own_faults for result in left)
    sound = len(counted) - own
    share = f" ({100 * well / len(counted):.0f} %; {100 * well / sound:.0f} % of those without faults)" if sound else ""
    return (
        f"{corpus.title}: {well} of {len(counted)} programs that are not excluded end well{share}. Of the others, {parts} need "
        f"parts of CUDA beside its runtime, {own} have faults of their own, {len(left) - parts - own} fail by us or by time."
    )


_ROW: Final = re.compile(rf"^\| (\S+) \| ({'|'.join(Status)}) \| (.*) \|$")
_SUM: Final = re.compile(r"^\| ([^|]+?)(?: \(([^|]+)\))? \| (?:(\d{4}-\d\d-\d\d)? \| )?\d+ \| (\d*) \| \d")


def read_page(text: str) -> list[Corpus]:
    """Corpora of a page, for a new page without another run of them. What the page shortens stays short; it tells no times."""
    text = text.partition(f"\n{frameworks.OPENING}\n")[0]
    sums = [found for line in text.splitlines() if (found := _SUM.match(line))]
    rows: dict[str, list[Result]] = {}
    title = ""
    for line in text.splitlines():
        if line.startswith("## "):
            title = line[3:]
        elif title and (found := _ROW.match(line)):
            rows.setdefault(title, []).append(_of_row(found[1], Status(found[2]), found[3]))
    return [
        replace(corpus, results=tuple(rows.get(corpus.title, ())))
        for corpus in (Corpus(found[1], (), int(found[4] or 0), found[2] or "", found[3] or "") for found in sums)
    ]


def _of_row(name: str, status: Status, cell: str) -> Result:
    """Result of a row of a page."""
    quoted = cell.split("`")[1] if cell.startswith("`") else ""
    words = max(
        (cause for cause in Cause if cause and f"{quoted}:".startswith(f"{cause}:")), key=len, default=Cause.NONE
    )
    detail = quoted[len(words) :].removeprefix(": ") if words else quoted
    return Result(name, "", status, words, detail, 0.0, 0.0)


def composed(corpora: Sequence[Corpus], kept: Iterable[Corpus]) -> list[Corpus]:
    """Corpora of a new page: those of an earlier page in its order, each replaced if it was tried anew, then the others."""
    fresh = {corpus.name: corpus for corpus in corpora}
    return [fresh.pop(corpus.name, corpus) for corpus in kept] + [*fresh.values()]


def amended(corpus: Corpus, earlier: Corpus) -> Corpus:
    """The earlier corpus, with results of what was tried anew in place of its own."""
    results = {result.name: result for result in (*earlier.results, *corpus.results)}
    untried = max(0, earlier.untried + len(earlier.results) - len(results))
    ordered = tuple(results[name] for name in sorted(results))
    return replace(earlier, results=ordered, untried=untried, day=max(earlier.day, corpus.day))


def page(corpora: Sequence[Corpus], engine: str) -> str:
    """Text of docs/compatibility.md."""
    lines = [
        "# Public programs",
        "",
        "Generated by `python -m tests.compat`; do not edit. Public CUDA programs, built unmodified by `mynvcc` and run",
        f"in the guest's view on {engine}: none of these ran on a GPU. *passed*: the program says that its result is right. *ran*: it ended well and says nothing.",
        "*waived*: it says that it cannot run on this device. *excluded*: it needs graphics, MPI, another system, or a file that",
        "is not there, or is an exercise that its reader completes. Time-outs are those of a small software GPU: programs are sized",
        "for a large one. *run with*: with these arguments, smaller than the authors'; *with lanes in step*: its warps rely on that.",
        "",
        "| programs | last run | tried | not tried | " + " | ".join(_ORDER) + " |",
        "|---|---|---:|---:|" + "---:|" * len(_ORDER),
    ]
    for corpus in corpora:
        found = Counter(result.status for result in corpus.results)
        cells = " | ".join(str(found[status]) for status in _ORDER)
        lines.append(f"| {corpus.title} | {corpus.day} | {len(corpus.results)} | {corpus.untried or ''} | {cells} |")
    own_faults = remarks()
    for corpus in corpora:
        lines += ["", summary(corpus, own_faults.get(corpus.name, {}))]
    everything = [result for corpus in corpora for result in corpus.results]
    lines += ["", "## Why programs do not pass", "", "| cause | programs | the most frequent |", "|---|---:|---|"]
    for cause, number in causes(everything):
        named = "; ".join(f"{_cell(text)} ({times})" for text, times in details(everything, cause, 4) if times > 1)
        lines.append(f"| {cause} | {number} | {named} |")
    for corpus in corpora:
        lines += ["", f"## {corpus.title}", "", "| program | | |", "|---|---|---|"]
        lines += [
            f"| {result.name} | {result.status} | {_why(result, own_faults.get(corpus.name, {}))} |"
            for result in corpus.results
        ]
    return "\n".join(lines) + "\n"


def _why(result: Result, own_faults: Mapping[str, str]) -> str:
    """Cause and words of a result, and the remark on its program if it failed."""
    cell = _cell(": ".join(filter(None, (result.cause, result.detail))))
    remark = own_faults.get(result.name, "") if result.status is Status.FAILED else ""
    return f"{cell} its own: {remark}" if remark else cell


def _cell(text: str) -> str:
    """Text within a table of Markdown, short, of whole words unless they are long, and without what Markdown would read."""
    words = text[:98].rpartition(" ")[0]
    short = text if len(text) <= 100 else (words if len(words) > _LEAST else text[:97]) + "..."
    return f"`{short.replace('|', '/').replace('`', chr(39))}`" if short else ""
