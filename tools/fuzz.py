"""Fuzzing campaign: runs all fuzzers, each for its part of the time, and prints a table of what they did.

``python -m tools.fuzz [--hours H] [--jobs N] [TARGET ...]``. Each processor has a fuzzer of its own, one after another. Targets of tests/fuzz/Makefile run without sanitizers, which is fast, and
then with them, from the committed corpus and what earlier campaigns have found; those in Python run by
``python -m tests.fuzz.mutation``. Inputs that end a target stay in ``build/fuzz``, as do the targets' outputs
(``log-...``). The exit status is 1 if a target failed or cannot be built.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.common import BUILD, REPOSITORY, die, say

FOLDER: Final = BUILD / "fuzz"
SOURCES: Final = REPOSITORY / "tests" / "fuzz"
FAST, SANITIZED, PYTHON = "fast", "sanitized", "python"
PROGRAMS: Final = {FAST: "fast", SANITIZED: "fuzz"}
FAST_PART: Final = 0.7
SECONDS_PER_HOUR: Final = 3600
MAX_JOBS: Final = 1024
SEEDED: Final = ("image", "lowering")
"""Targets that also start from inputs which are made for them."""

GRACE_S: Final = 300
"""After its time, a target finishes its input, and before it, it runs the corpus: more than this counts as a hang."""


@dataclass(frozen=True, slots=True)
class Target:
    """Code under test, and its part of a campaign."""

    name: str
    weight: int
    builds: tuple[str, ...] = (FAST, SANITIZED)


TARGETS: Final = (
    Target("vring", 4),
    Target("dataplane", 7),
    Target("image", 4),
    Target("ptx", 1),
    Target("lowering", 2, (SANITIZED,)),
    Target("pci", 1),
    Target("driver", 3),
    Target("worker_link", 1, (PYTHON,)),
    Target("control_frames", 1, (PYTHON,)),
    Target("configuration", 1, (PYTHON,)),
    Target("disk_cache", 1, (PYTHON,)),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One build of a target, and for how long it runs."""

    target: str
    build: str
    seconds: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """Figures of a run: inputs tried, wall-clock time, and size of the corpus at the end."""

    run: Run
    runs: int
    elapsed_s: float
    corpus: int
    failed: bool


def all_carried_out(runs: Sequence[Run], jobs: int) -> list[Outcome]:
    """Carries out all runs, `jobs` at a time, long ones first, so that all end at about the same time."""
    with ThreadPoolExecutor(jobs) as pool:
        begun = {run: pool.submit(carry_out, run) for run in sorted(runs, key=lambda run: -run.seconds)}
        return [begun[run].result() for run in runs]


def planned(targets: Iterable[Target], seconds: float) -> list[Run]:
    """Divides the time among the targets by their weights, and among their builds; each gets a second at least."""
    chosen = list(targets)
    unit = seconds / sum(target.weight for target in chosen)
    return [
        Run(target.name, build, max(1, round(target.weight * unit * part)))
        for target in chosen
        for build, part in zip(target.builds, parts_of(target), strict=True)
    ]


def parts_of(target: Target) -> tuple[float, ...]:
    return (FAST_PART, 1 - FAST_PART) if len(target.builds) > 1 else (1.0,)


def built_by_make(runs: Collection[Run]) -> list[Path]:
    """Paths of the programs that `runs` need, and of inputs that are made for them."""
    programs = [program_of(run) for run in runs if run.build != PYTHON]
    seeds = [FOLDER / f"seeds-{name}" for name in SEEDED if any(run.target == name for run in runs)]
    return [*programs, *seeds]


def program_of(run: Run) -> Path:
    return FOLDER / f"{PROGRAMS[run.build]}_{run.target}"


def build(runs: Collection[Run]) -> None:
    paths = [os.path.relpath(path, SOURCES) for path in built_by_make(runs)]
    if paths and subprocess.run(["make", "-s", "-C", SOURCES, *paths], check=False).returncode != 0:
        die("the fuzzers cannot be built", hint="clang-19 needs libclang-rt-19-dev; `make setup` installs it")


def command_of(run: Run) -> list[str]:
    """Command that fuzzes for the run's time."""
    if run.build == PYTHON:
        return [*python_command(run.target), f"--seconds={run.seconds}", f"--folder={FOLDER}"]
    found = FOLDER / f"found-{run.target}"
    found.mkdir(parents=True, exist_ok=True)
    corpora = [found, SOURCES / "corpus" / run.target, FOLDER / f"seeds-{run.target}"]
    limits = [f"-max_total_time={run.seconds}", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"]
    kept = f"-artifact_prefix={FOLDER}/{run.target}-"
    return [str(program_of(run)), *limits, kept, *(str(path) for path in corpora if path.is_dir())]


def python_command(target: str) -> list[str]:
    return [sys.executable, "-m", "tests.fuzz.mutation", target]


def repeating(run: Run, output: str) -> str | None:
    """Command that runs the input again that ended the run; None if the output names no file with it."""
    written = re.findall(r"Test unit written to (\S+)", output)
    if not written:
        return None
    command = python_command(run.target) if run.build == PYTHON else [str(program_of(run))]
    return shlex.join([*command, written[-1]])


def carry_out(run: Run) -> Outcome:
    """Runs one target; what it writes is in its log, and what is wrong is also said."""
    say(f"{run.target}, {run.build}, for {run.seconds} s")
    log = FOLDER / f"log-{run.target}-{run.build}"
    begun = time.monotonic()
    with log.open("wb") as file:
        try:
            status = subprocess.run(
                command_of(run),
                cwd=REPOSITORY,
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=run.seconds + GRACE_S,
            ).returncode
        except subprocess.TimeoutExpired:
            file.write(f"ERROR: hangs: still at work {GRACE_S} s after its time\n".encode())
            status = -1
    elapsed_s = time.monotonic() - begun
    output = log.read_text(errors="replace")
    if status != 0:
        complain(run, output, log)
    return Outcome(run, runs_in(output), elapsed_s, corpus_in(output), status != 0)


def complain(run: Run, output: str, log: Path) -> None:
    errors = re.findall(r"(?m)^.*(?:ERROR: |runtime error: |broken promise: ).*$", output)
    reason = errors[0] if errors else "it ended without a word"
    sys.stdout.write(f"{run.target}, {run.build}: {reason}; output: {log}\n")
    command = repeating(run, output)
    if command is not None:
        sys.stdout.write(f"repeat with: {command}\n")


def runs_in(output: str) -> int:
    """Number of inputs that a run has tried, by its statistics, or by its last line of progress."""
    counted = re.findall(r"stat::number_of_executed_units:\s*(\d+)", output) or re.findall(r"(?m)^#(\d+)\s", output)
    return int(counted[-1]) if counted else 0


def corpus_in(output: str) -> int:
    sizes = re.findall(r"\bcorp: (\d+)", output)
    return int(sizes[-1]) if sizes else 0


def table_of(outcomes: Sequence[Outcome]) -> str:
    """Table with a row per run, and their sums."""
    rows = [("target", "build", "seconds", "runs", "runs/s", "corpus", "crashes")]
    rows += [
        (
            each.run.target,
            each.run.build,
            *figures(each.runs, each.elapsed_s),
            f"{each.corpus:,}",
            str(int(each.failed)),
        )
        for each in outcomes
    ]
    runs, elapsed_s = sum(each.runs for each in outcomes), sum(each.elapsed_s for each in outcomes)
    rows.append(("all", "", *figures(runs, elapsed_s), "", str(sum(each.failed for each in outcomes))))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(line_of(row, widths) for row in rows)


def figures(runs: int, elapsed_s: float) -> tuple[str, str, str]:
    """Seconds, runs, and runs per second."""
    return f"{elapsed_s:,.0f}", f"{runs:,}", f"{runs / elapsed_s:,.0f}" if elapsed_s > 0 else "0"


def line_of(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        cell.ljust(width) if at < 2 else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def hours(text: str) -> float:
    value = float(text)
    if not 0 < value <= 24 * 365:
        raise argparse.ArgumentTypeError(f"{text} is no time to fuzz for; allowed: more than 0 hours, at most a year")
    return value


def jobs(text: str) -> int:
    value = int(text)
    if not 0 < value <= MAX_JOBS:
        raise argparse.ArgumentTypeError(f"{text} fuzzers at a time; allowed: 1 to {MAX_JOBS}")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    names = [target.name for target in TARGETS]
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(names)} (default: all)")
    parser.add_argument("--hours", type=hours, default=0.1, help="for all in all, fractions included (default: 0.1)")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--jobs", type=jobs, default=cores, help=f"fuzzers that run at a time (default: {cores})")
    options = parser.parse_args(arguments)
    for name in options.targets:
        if name not in names:
            parser.error(f"no target is called {name}; allowed: {', '.join(names)}")
    chosen = [target for target in TARGETS if not options.targets or target.name in options.targets]
    runs = planned(chosen, options.hours * SECONDS_PER_HOUR * options.jobs)
    FOLDER.mkdir(parents=True, exist_ok=True)
    build(runs)
    outcomes = all_carried_out(runs, options.jobs)
    sys.stdout.write(f"{table_of(outcomes)}\n")
    return int(any(each.failed for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
