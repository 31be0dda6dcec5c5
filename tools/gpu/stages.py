"""Stages after the look: build, clock, tests, contract, rows. Each returns whether it succeeded, and facts about it."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.common import BUILD, REPOSITORY
from tools.gpu import devices, evidence, outcomes
from tools.gpu.job import Job
from tools.gpu.look import look

RESULTS: Final = REPOSITORY / "bench" / "results"
TESTS: Final = REPOSITORY / "tests" / "gpu"
CONTRACT: Final = "tests/gpu/test_contract.py"
TEST_TIMEOUT_S: Final = 60
FACTS_SHOWN: Final = 40

SPARE_S: Final = 70
"""Time reserved for the row that runs when time is up: the longest wait for a device that does not answer."""

STANDS: Final = ("computing", "walls", "zero_copy", "shares", "faults")
"""Basic tests, which show whether the engine works at all; the simplest first."""

THEN: Final = ("features", "textures", "native", "binaries", "control", "others")
"""Order of the other tests; files in neither list come last."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Result of one stage; `facts` are lines for the summary."""

    name: str
    good: bool
    seconds: float
    facts: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        head = f"{'ok    ' if self.good else 'FAILED'} {self.name} ({self.seconds:.0f} s)"
        return "\n".join([head, *(f"         {fact}" for fact in self.facts)])


Verdict = tuple[bool, list[str]]


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of a stage; its share of the remaining time is its weight among the remaining stages."""

    run: Callable[[Job], Verdict]
    weight: int


def build(job: Job) -> Verdict:
    """Builds the C parts, and the benchmark's loops and baselines."""
    code, text = job.run("build.log", [sys.executable, "-m", "tools.gpu.parts"])
    facts = [line for line in text.splitlines() if line.startswith("did not build: ")]
    return code == 0, facts or ([] if code == 0 else [_ending(job, code)])


def clock(job: Job) -> Verdict:
    """Reads the GPU's clock, and finds out whether programs get the control system's hooks."""
    file = job.out / evidence.CLOCK
    file.unlink(missing_ok=True)
    driver = ["--driver", str(job.driver)] if job.driver else []
    code, text = job.run("clock.log", [sys.executable, "-m", "tools.gpu.clock", str(file), *driver])
    if not file.exists():
        lines = text.strip().splitlines()
        return False, [f"{_ending(job, code)}; its last line: {lines[-1] if lines else ''}"[:300]]
    no_code_ran = code == evidence.NO_CODE_RAN and job.driver is not None
    return code == 0 or no_code_ran, evidence.clock_facts(evidence.read(job.out).clock)


def tests(job: Job) -> Verdict:
    """Runs ``tests/gpu``: on the GPU, or with --driver those that a fake driver can run."""
    return _pytest(job, "tests", [*stand_files(), *other_files()])


def stand(job: Job) -> Verdict:
    """Runs the basic tests: computing, walls, zero copy, shares, faults."""
    return _pytest(job, "stand", stand_files())


def rest(job: Job) -> Verdict:
    """Runs the other tests except the contract."""
    return _pytest(job, "rest", other_files())


def stand_files() -> list[str]:
    return [f"tests/gpu/test_{name}.py" for name in STANDS]


def other_files() -> list[str]:
    """Lists the other files of tests; searched for, so that a new file is not forgotten."""
    first = [f"tests/gpu/test_{name}.py" for name in THEN]
    there = [f"tests/gpu/{path.name}" for path in sorted(TESTS.glob("test_*.py"))]
    return first + [name for name in there if name not in {*stand_files(), *first, CONTRACT}]


def contract(job: Job) -> Verdict:
    """Runs the engines' contract in a separate process, since the engine runs inside it and could crash it."""
    if job.driver:
        return True, ["on the fake driver it is a test of tests/unit"]
    return _pytest(job, "contract", [CONTRACT])


def _pytest(job: Job, name: str, files: Sequence[str]) -> Verdict:
    """Runs pytest without the machine's plugins, which have other versions, or are for other projects."""
    noted = job.out / f"{name}.jsonl"
    noted.unlink(missing_ok=True)
    on_gpu = "gpu" if job.more_tests else "gpu and not slow and not vm"
    which = ["-k", "fake_gpu"] if job.driver else ["-m", on_gpu]
    plugins = ["-p", "pytest_timeout", "-p", "tools.gpu.outcomes", "-p", "no:cacheprovider"]
    options = ["-o", "filterwarnings=default", "--timeout", str(TEST_TIMEOUT_S), "-v", "--durations", "15"]
    argv = [sys.executable, "-m", "pytest", *files, *plugins, *options, *which]
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", outcomes.FILE: str(noted)}
    code, text = job.run(f"{name}.log", argv, environment=environment)
    found = outcomes.read(noted)
    facts = [str(found)]
    if code is None:
        facts.append(f"{_ending(job, code)}; it was in {found.running() or 'no test'}")
    elif not found.tests:
        facts.append(f"{_ending(job, code)}; its last line: {(text.strip().splitlines() or [''])[-1]}")
    facts += [str(test) for test in found.tests if test.went_wrong]
    facts += [str(test) for test in found.tests if test.outcome == "skipped"]
    return code == 0, [line[:300] for line in facts[:FACTS_SHOWN]]


def rows(job: Job) -> Verdict:
    """Runs the benchmark's CUDA rows; on a real GPU it keeps the figures."""
    kept = ["--smoke", "--driver", str(job.driver)] if job.driver else ["--save", str(job.out / "results.json")]
    quick = ["--quick"] if job.quick or job.driver else []
    begin_s = max(1.0, job.stage_left() - SPARE_S)
    limit = ["--limit", f"{begin_s:.0f}", "--out", str(BUILD / "gpu" / "rows")]
    argv = [sys.executable, "-m", "bench", *job.rows, *limit, *kept, *quick]
    with devices.clocks_logged(job.out / "clocks.csv"):
        code, text = job.run("rows.log", argv)
    shown = ("skipped",) if job.driver else ("skipped", "MISSED", "clocks ")  # small sizes reach no goal
    facts = [line for line in text.splitlines() if any(word in line for word in shown)]
    results = job.out / "results.json"
    if code != 0:
        begun = [line for line in text.splitlines() if line.startswith("... ")]
        lines = text.strip().splitlines()
        last = f"; its last line: {lines[-1]}" if lines else ""
        facts.append(f"{_ending(job, code)}{'; in row ' + begun[-1].removeprefix('... ') if begun else last}")
    elif results.exists():
        facts.append(f"kept: {_keep(results)}")
    return code == 0 and not any(line.startswith("skipped") for line in facts), [fact[:300] for fact in facts]


def _ending(job: Job, code: int | None) -> str:
    if code is not None:
        return f"ended with {code}"
    return f"was stopped by {job.stopped}" if job.stopped else "ran out of time"


def _keep(results: Path) -> Path:
    """Copies the figures to the folder where they are committed, under the GPU's name: ``bench/results/h200.json``."""
    name = re.search(r'"hardware": "([^",]+)', results.read_text())
    words = re.sub(r"[^a-z0-9]+", "-", (name[1] if name else "unknown").lower().replace("nvidia", "")).strip("-")
    RESULTS.mkdir(parents=True, exist_ok=True)
    kept = RESULTS / f"{words}.json"
    shutil.copy(results, kept)
    return kept.relative_to(REPOSITORY)


STAGES: Final[dict[str, Plan]] = {
    "look": Plan(look, 10),
    "build": Plan(build, 15),
    "clock": Plan(clock, 5),
    "tests": Plan(tests, 40),
    "contract": Plan(contract, 15),
    "rows": Plan(rows, 60),
}
"""All stages, in the order in which they run."""

FIRST: Final[dict[str, Plan]] = {
    "look": Plan(look, 10),
    "build": Plan(build, 15),
    "clock": Plan(clock, 5),
    "stand": Plan(stand, 40),
    "rest": Plan(rest, 35),
    "contract": Plan(contract, 15),
    "rows": Plan(rows, 35),
}
"""Stages of ``--first``: the most informative ones come first, because time may not suffice for all."""
