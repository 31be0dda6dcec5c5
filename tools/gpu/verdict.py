"""Ten lines at the end of ``--first``: tests that passed, tests that did not, and assumptions that fell."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, Final

from tools.gpu import assumptions, evidence
from tools.gpu.assumptions import State
from tools.gpu.evidence import Evidence
from tools.gpu.outcomes import Outcome
from tools.gpu.stages import Stage

LINE_CHARACTERS: Final = 400
PROBLEM_CHARACTERS: Final = 200
_FILE: Final = re.compile(r"test_(\w+)\.py")


def ten_lines(
    found: Evidence, done: Sequence[Stage], planned: Sequence[str], xids: Sequence[str], running: str | None = None
) -> list[str]:
    """Formats ten lines; the number is fixed so that ``tail`` can show them.

    :param running: the stage that has begun and not ended.
    """
    files = _by_file(found.tests)
    stood = {name: tests for name, tests in files.items() if all(test.outcome == "passed" for test in tests)}
    fallen = {name: tests for name, tests in files.items() if name not in stood}
    contract = files.get("contract", [])
    lines = [
        f"machine: {_machine(found)}",
        f"stages: {_stages(done, planned, running)}; kernel log: {len(xids)} lines of GPU errors (Xid)",
        f"stood up: {_counted(stood)}",
        f"did not: {_counted(fallen, names=True)}",
        f"contract: {_count(contract) if contract else 'did not run'}",
        _rows(found),
        "; ".join(evidence.clock_facts(found.clock)),
        *_assumptions(found),
    ]
    return [line[:LINE_CHARACTERS] for line in lines]


def _machine(found: Evidence) -> str:
    commit = f"commit {os.environ.get('VGC_COMMIT', 'as git says')}"
    probe = found.look.get("probe")
    if probe is None:
        return f"not looked at, {commit}"
    first: dict[str, Any] = next(iter(probe.get("devices", ())), {})
    name = f"{first['name']}, {first['num_pes']} SMs" if first else f"no GPU found ({_problem(probe)})"
    kind = "" if found.on_hardware else " (no hardware: figures and times mean nothing)"
    return f"{name}{kind}, CUDA {probe.get('driver_version')}, {commit}"


def _problem(probe: dict[str, Any]) -> str:
    """Reason why the probe has found no GPU; of a crashed probe's output the last line is the most informative."""
    lines = (probe.get("problem") or probe.get("line") or "reason unknown").strip().splitlines()
    return str(lines[-1])[:PROBLEM_CHARACTERS]


def _rows(found: Evidence) -> str:
    missed = ", ".join(found.rows.missed()) or "none" if found.on_hardware else "goals are for hardware"
    return f"rows: {len(found.rows.verdicts)} measured, {len(found.rows.skipped)} skipped; missed: {missed}"


def _stages(done: Sequence[Stage], planned: Sequence[str], running: str | None) -> str:
    begun = {*(stage.name for stage in done), running}
    groups = {
        "ok": [stage.name for stage in done if stage.good],
        "FAILED": [stage.name for stage in done if not stage.good],
        "running": [running] if running else [],
        "not begun": [name for name in planned if name not in begun],
    }
    return "; ".join(f"{word} {' '.join(names)}" for word, names in groups.items() if names) or "none"


def _by_file(tests: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    files: dict[str, list[Outcome]] = {}
    for test in tests:
        path = test.test.partition("::")[0]
        match = _FILE.search(path)
        files.setdefault(match[1] if match else PurePath(path).name, []).append(test)
    return files


def _count(tests: Sequence[Outcome]) -> str:
    return f"{sum(test.outcome == 'passed' for test in tests)}/{len(tests)}"


def _counted(files: dict[str, list[Outcome]], *, names: bool = False) -> str:
    counts = []
    for name, tests in files.items():
        which = ", ".join(_named(test) for test in tests if test.outcome != "passed")
        counts.append(f"{name} {_count(tests)}{f' ({which})' if names else ''}")
    return ", ".join(counts) or "nothing"


def _named(test: Outcome) -> str:
    """Name of a test that did not pass, with its outcome unless it failed."""
    name = test.test.rpartition("::")[2]
    return name if test.went_wrong else f"{name} {test.outcome}"


def _assumptions(found: Evidence) -> list[str]:
    judged = assumptions.judged(found)
    fell = [f"{one.number} {one.text} ({judgement.why})" for one, judgement in judged if judgement.state is State.FELL]
    numbers = {
        state: " ".join(str(one.number) for one, judgement in judged if judgement.state is state) or "none"
        for state in State
    }
    return [
        f"assumptions that held: {numbers[State.HELD]}",
        f"fell: {'; '.join(fell) or 'none'}",
        f"not decided: {numbers[State.OPEN]} (each with its reason in assumptions.txt)",
    ]
