"""Reader of a run's folder: facts, clock, tests, rows. A run that was killed left only some of them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from tools.gpu import outcomes
from tools.gpu.outcomes import Outcome

LOOK: Final = "look.json"
CLOCK: Final = "clock.json"
ROWS: Final = "rows.log"
TEST_STAGES: Final = ("stand", "rest", "tests", "contract")
ROW: Final = re.compile(r"^([a-z]\w+)\s+-?[\d,.]+(?:e[+-]?\d+)?\s")
SKIPPED: Final = re.compile(r"^skipped \(.*\): (.*)$")

NO_CODE_RAN: Final = 3
"""Exit code of ``tools.gpu.clock`` if the driver accepts kernels and runs none."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of the benchmark: `verdicts` has "met", "MISSED" or "" by name."""

    verdicts: dict[str, str]
    skipped: tuple[str, ...]

    def missed(self) -> list[str]:
        return [name for name, verdict in self.verdicts.items() if verdict == "MISSED"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence from a run; parts that did not run are empty."""

    look: dict[str, Any]
    clock: dict[str, Any]
    tests: tuple[Outcome, ...]
    rows: Rows
    overran: tuple[str, ...] = ()
    """Stages that ran out of time."""

    stages: tuple[str, ...] = ()
    """Stages that came to their end."""

    @property
    def on_hardware(self) -> bool:
        return not self.look.get("fake", False)

    def matching(self, *patterns: str) -> list[Outcome]:
        """Tests whose names match one of these globs, for example ``*test_walls.py*``."""
        return [test for test in self.tests if any(fnmatchcase(test.test, pattern) for pattern in patterns)]


def read(out: Path, overran: tuple[str, ...] = (), stages: tuple[str, ...] = ()) -> Evidence:
    """Reads the folder `out`."""
    tests = [test for name in TEST_STAGES for test in outcomes.read(out / f"{name}.jsonl").tests]
    return Evidence(_json(out / LOOK), _json(out / CLOCK), tuple(tests), _rows(out / ROWS), overran, stages)


def clear(out: Path) -> None:
    """Removes the files of an earlier run, so that its results are not taken for this run's."""
    for name in (LOOK, CLOCK, ROWS, *(f"{stage}.jsonl" for stage in TEST_STAGES)):
        (out / name).unlink(missing_ok=True)


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _rows(log: Path) -> Rows:
    verdicts: dict[str, str] = {}
    skipped: list[str] = []
    for line in log.read_text(errors="replace").splitlines() if log.exists() else ():
        if (row := ROW.match(line)) is not None:
            words = line.split()
            verdicts[row[1]] = next((word for word in ("met", "MISSED") if word in words), "")
        elif (names := SKIPPED.match(line)) is not None:
            skipped += names[1].split(", ")
    return Rows(verdicts, tuple(skipped))


def clock_facts(clock: dict[str, Any]) -> list[str]:
    """Formats the reading of ``clock.py`` as lines for people."""
    hooks = "hooks not tried"
    if "hooks" in clock:
        hooks = "programs get the control system's hooks" if clock["hooks"] else "programs get no hooks"
    hooks += f": {clock['hooks_error']}" if "hooks_error" in clock else ""
    if "offset_us" not in clock:
        return [f"clock not read: {clock.get('skipped', 'no reading')}", hooks]
    offset = f"clock {clock['offset_us']:+.1f} us from the host's (+-{clock['error_us']:.1f})"
    return [
        f"{offset}, drift {clock['drift_us_per_s']:+.2f} us/s, steps of {clock['step_ns']} ns",
        f"largest %smid {clock['largest_sm']} of {clock['num_sms']} SMs",
        hooks,
    ]
