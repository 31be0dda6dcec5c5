"""Rows of calls by name: what choosing between the CPU and the host costs, and the time that is lost by learning."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.lab import Lab
from bench.native.build import HERE as NATIVE
from bench.registry import Outcome, row
from bench.results import Goal, Samples, SkipRow, outcome
from bench.rows.cudart import device
from tests.fakes.attached import AttachedLink
from tools.common import REPOSITORY

PROGRAM: Final = Path(__file__).resolve().parents[1] / "guest" / "choice.c"
LIBVGC: Final = REPOSITORY / "guest_driver" / "libvgc"
SECONDS: Final = 600


@dataclass(frozen=True, slots=True)
class Tally:
    """Nanoseconds of all calls of a function with one size: on the chosen sides, and on either side alone."""

    function: str
    size: int
    calls: int
    took: int
    host: int
    cpu: int

    @property
    def best(self) -> int:
        """Time on the side that is better for this size."""
        return min(self.host, self.cpu)


def build(folder: Path) -> Path:
    """Builds the program. :raise SkipRow: there is no C compiler, or the program does not compile."""
    program = folder / "choice"
    flags = ["-O3", "-march=native", "-std=gnu11", f"-I{LIBVGC}", f"-I{NATIVE}"]
    command = ["cc", *flags, str(PROGRAM), "-o", str(program), str(LIBVGC / "build" / "libvgc.a"), "-pthread", "-lm"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SkipRow(f"{PROGRAM.name} cannot be built: {getattr(error, 'stderr', error)}") from error
    return program


def run(link: AttachedLink, folder: Path, program: Path, *words: str) -> list[list[str]]:
    """Words of each line that the program prints. :raise SkipRow: it fails."""
    settings = {"VGC_CHOICE_FILE": str(folder / "times"), "VGC_SIDE": ""}
    place = {"VGC_MEMFD": link.description, "VGC_STATE_DIR": str(folder / "state")}
    done = subprocess.run(
        [str(program), *words],
        check=False,
        env=os.environ | settings | place,
        pass_fds=link.fds,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    if done.returncode != 0:
        raise SkipRow(f"{PROGRAM.name} failed: {done.stderr.strip()}")
    return [line.split() for line in done.stdout.splitlines()]


def regret(tallies: Sequence[Tally]) -> float:
    """Percent of time that is lost against always knowing the better side."""
    return 100 * (sum(tally.took for tally in tallies) / sum(tally.best for tally in tallies) - 1)


def _tallies(lines: Sequence[Sequence[str]]) -> list[Tally]:
    return [Tally(words[0], *map(int, words[1:])) for words in lines]


@row("choose_regret_percent", "choose_regret_next_run_percent")
def choose_regret(lab: Lab) -> Iterator[Outcome]:
    """Three functions in 20 sizes, called in random order from knowing nothing, and once more by a later process."""
    folder = lab.own_folder("choice")
    program = build(folder)
    first, later = [], []
    calls = 0
    budget_ns = str(lab.samples(40_000_000, 10_000_000))
    with device(folder, lab.threads, "cpu") as link:
        for seed in range(lab.samples(5, 2)):
            (folder / "times").unlink(missing_ok=True)
            tallies = _tallies(run(link, folder, program, "regret", budget_ns, str(seed)))
            calls = sum(tally.calls for tally in tallies)
            first.append(regret(tallies))
            later.append(regret(_tallies(run(link, folder, program, "regret", budget_ns, str(seed + 100)))))
    against = f"({calls} calls; 0: the better side of each size, known from the start)"
    goal = Goal("value", "<", 5)
    yield outcome("choose_regret_percent", Samples(tuple(first)), "%", "lower", against=against, goal=goal)
    against = "(with the times that the first run has kept)"
    yield outcome("choose_regret_next_run_percent", Samples(tuple(later)), "%", "lower", against=against, goal=goal)


@row("choose_decision_us")
def choose_decision(lab: Lab) -> Iterator[Outcome]:
    """One decision in C, by measured times, among 10,000 functions that are asked for in turn."""
    folder = lab.own_folder("choice-decision")
    program = build(folder)
    with device(folder, lab.threads, "cpu") as link:
        lines = run(link, folder, program, "decision", str(lab.samples(2_000, 500)))
    times = Samples(tuple(float(words[0]) / 1e3 for words in lines))
    yield outcome("choose_decision_us", times, "us", "lower", goal=Goal("value", "<", 1.0))
