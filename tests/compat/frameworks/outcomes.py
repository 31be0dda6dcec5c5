"""Outcomes of a suite's tests, and the file of one record a line in which they are kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final


class Outcome(StrEnum):
    """Kind of end that a test came to."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    EXPECTED = "expected"
    """It failed, as its authors expect."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One test's end."""

    name: str
    """Its path and name, as pytest writes them."""
    outcome: Outcome
    why: str = ""
    """Last words of a failure, or the reason of a skip."""
    seconds: float = 0.0
    is_alone: bool = False
    """Run again in a process of its own, since it failed beside the others of its file."""

    @property
    def file(self) -> str:
        return self.name.partition("::")[0]


@dataclass(slots=True)
class Record:
    """Contents of the file that vgc_recorder.py writes in a process of tests."""

    tests: list[CaseResult]
    running: str = ""
    """Test that has begun and not ended."""
    is_whole: bool = False
    """pytest came to its end."""


def read_record(path: Path) -> Record:
    """Reads a process's record, whose last line may be cut off."""
    record = Record([])
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            fields = json.loads(line)
        except ValueError:
            continue
        if "begins" in fields:
            record.running = fields["begins"]
        elif "ends" in fields:
            record.is_whole = True
        else:
            record.running = ""
            test = CaseResult(fields["test"], Outcome(fields["outcome"]), fields["why"], fields["seconds"])
            record.tests.append(test)
    return record


WHOLE_FILE: Final = "file"
"""Key of a line that says that a file's tests have all been run."""


class Results:
    """A suite's results on disk: a run that was interrupted goes on with the next file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> tuple[dict[str, CaseResult], set[str]]:
        """Results of the tests, and the files that have been run to their end. Of each file, the last run counts."""
        files: dict[str, list[CaseResult]] = {}
        latest: list[CaseResult] = []
        for line in self._path.read_text().splitlines() if self._path.exists() else ():
            try:
                fields = json.loads(line)
            except ValueError:
                continue
            if WHOLE_FILE in fields:
                files[fields[WHOLE_FILE]], latest = latest, []
            else:
                latest.append(CaseResult(**fields | {"outcome": Outcome(fields["outcome"])}))
        return {test.name: test for tests in files.values() for test in tests}, set(files)

    def add(self, tests: Iterable[CaseResult], file: str) -> None:
        """Adds the results of a whole file, in place of those that it has."""
        lines = [json.dumps(asdict(test)) for test in tests] + [json.dumps({WHOLE_FILE: file})]
        with self._path.open("a") as out:
            out.write("".join(f"{line}\n" for line in lines))


def counts(tests: Iterable[CaseResult]) -> str:
    """Such as "12 passed, 3 failed"."""
    found = Counter(test.outcome for test in tests)
    return ", ".join(f"{found[outcome]} {outcome}" for outcome in Outcome if found[outcome]) or "no tests"


def percent(tests: Iterable[CaseResult]) -> float:
    """Share of the tests that pass, of those that pass or fail."""
    found = Counter(test.outcome for test in tests)
    run = found[Outcome.PASSED] + found[Outcome.FAILED]
    return 100 * found[Outcome.PASSED] / run if run else 0.0
