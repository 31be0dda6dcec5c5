"""Outcomes of tests: a pytest plugin that writes each one at once, so that those of a killed run are kept.

``pytest -p tools.gpu.outcomes`` with ``VGC_OUTCOMES`` naming the file: a line of JSON for each event.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # reading outcomes must work without pytest
    import pytest

FILE: Final = "VGC_OUTCOMES"
REASON_CHARACTERS: Final = 240
FAILED: Final = frozenset({"failed", "error"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one test: passed, failed, error (outside the test itself), skipped, or running when the run ended."""

    test: str
    outcome: str
    seconds: float
    reason: str = ""

    @property
    def went_wrong(self) -> bool:
        return self.outcome in FAILED

    def __str__(self) -> str:
        return f"{self.outcome.upper()} {self.test}{': ' + self.reason if self.reason else ''}"


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Outcomes of a run of pytest, complete or not."""

    selected: int
    tests: tuple[Outcome, ...]

    def __str__(self) -> str:
        counts = Counter(outcome.outcome for outcome in self.tests)
        text = ", ".join(f"{number} {outcome}" for outcome, number in counts.items()) or "none ran"
        seconds = sum(outcome.seconds for outcome in self.tests)
        return f"{text} (of {self.selected} tests, {seconds:.0f} s)"

    def running(self) -> str | None:
        """Returns the test during which the run ended, or None."""
        return next((outcome.test for outcome in self.tests if outcome.outcome == "running"), None)


def read(path: Path) -> Outcomes:
    """Reads the outcomes in a file, which may not exist. Its last line may be cut off."""
    selected = 0
    tests: dict[str, Outcome] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            break
        if "selected" in event:
            selected = event["selected"]
            continue
        known = tests.get(event["test"], Outcome(event["test"], "running", 0.0))
        tests[known.test] = _later(known, event)
    return Outcomes(selected, tuple(tests.values()))


def _later(known: Outcome, event: dict[str, Any]) -> Outcome:
    """Adds a phase of a test to its outcome: keeps the first failure, and sums up the times."""
    worse = known.went_wrong or known.outcome == "skipped"
    outcome, reason = (known.outcome, known.reason) if worse else (event["outcome"], event["reason"])
    return Outcome(known.test, outcome, known.seconds + event["seconds"], reason)


# ---- inside pytest -----------------------------------------------------------------------------


def _note(event: dict[str, Any]) -> None:
    if path := os.environ.get(FILE):
        with Path(path).open("a") as file:
            file.write(json.dumps(event) + "\n")


def _event(test: str, outcome: str, seconds: float = 0.0, reason: str = "") -> dict[str, Any]:
    return {"test": test, "outcome": outcome, "seconds": round(seconds, 3), "reason": reason[-REASON_CHARACTERS:]}


def pytest_collection_finish(session: pytest.Session) -> None:
    _note({"selected": len(session.items)})


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Records a file of tests that cannot be imported as an error."""
    if report.failed:
        _note(_event(report.nodeid, "error", reason=_last_line(report.longreprtext)))


def pytest_runtest_logstart(nodeid: str, location: Sequence[object]) -> None:  # noqa: ARG001  the hook's signature
    _note(_event(nodeid, "running"))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    outcome: str = "running" if report.passed and report.when == "setup" else report.outcome
    if report.failed and report.when != "call":
        outcome = "error"
    _note(_event(report.nodeid, outcome, report.duration, _reason(report)))


def _reason(report: pytest.TestReport) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    return "" if report.passed else str(crash.message).splitlines()[0] if crash else _last_line(report.longreprtext)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
