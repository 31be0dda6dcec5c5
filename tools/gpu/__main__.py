"""``make gpu``: all checks that need an NVIDIA GPU, in one command and in bounded time, on any machine with a GPU.

Needs no network, no root rights and no ``.venv``, but a Python of 3.11 or newer that finds the project's
packages (in an environment, on ``PYTHONPATH``, or in the kit of ``make gpu-kit``), gcc with Python's headers, and
NVIDIA's driver. It lists missing things, builds the C parts, reads the GPU's clock, runs ``tests/gpu`` and the CUDA
rows of the benchmarks, keeps their figures, and ends with a summary. The other stages run even if one fails, unless
there is no GPU. Stages share the time; a run that is stopped leaves its summary.

    python3 -m tools.gpu                     on a machine with a GPU
    python3 -m tools.gpu --first             the first time on a machine: basic tests first; ends with ten lines
    python3 -m tools.gpu --out DIR           logs and results go there too (default: build/gpu)
    python3 -m tools.gpu --driver PATH       with this libcuda; the tests' fake one shows that the tool itself works
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tools.common import BUILD, say
from tools.gpu import assumptions, devices, evidence
from tools.gpu.job import CUDA_ROWS, Job, StoppedError, stopped_by_signals
from tools.gpu.look import has_no_gpu, keep_kernel_log
from tools.gpu.stages import FIRST, STAGES, Plan, Stage
from tools.gpu.verdict import ten_lines

ALL_S: Final = 560
"""Time for all stages: fits a command that may take ten minutes, with spare time to end children that hang."""


def run_stage(name: str, plan: Plan, job: Job) -> Stage:
    """Runs a stage; an exception becomes its result."""
    say(f"{name} ({job.stage_left():.0f} s) ...")
    start = time.monotonic()
    try:
        good, facts = plan.run(job)
    except StoppedError as signalled:
        job.stopped = str(signalled)
        good, facts = False, [f"was stopped by {signalled}"]
    except Exception as error:  # noqa: BLE001  the next stages may still be informative
        good, facts = False, [f"{type(error).__name__}: {error}"]
    return Stage(name, good, time.monotonic() - start, facts)


class Run:
    """Runs stages one after the other and keeps ``summary.txt`` up to date."""

    def __init__(self, job: Job, plans: Mapping[str, Plan], *, first: bool) -> None:
        self._job = job
        self._plans = plans
        self._first = first
        self.done: list[Stage] = []

    def all(self) -> bool:
        """Runs all stages; True if every stage succeeded."""
        try:
            return self._stages(list(self._plans))
        except StoppedError as signalled:  # between two stages
            self._job.stopped = str(signalled)
            return False

    def _stages(self, names: Sequence[str]) -> bool:
        for index, name in enumerate(names):
            if self._job.stopped or self._job.left() == 0:
                break
            ahead = sum(self._plans[later].weight for later in names[index:])
            self._job.begin(name, self._plans[name].weight / ahead)
            self.write(running=name)
            self.done.append(run_stage(name, self._plans[name], self._job))
            self.write()
            if name == "look" and has_no_gpu(self.done[-1].facts):
                break  # the other stages would skip everything
        return len(self.done) == len(names) and all(stage.good for stage in self.done)

    def write(self, running: str | None = None) -> str:
        """Writes the current summary; returns it."""
        text = "\n".join([*map(str, self.done), *self._ending(running)])
        (self._job.out / "summary.txt").write_text(text + "\n")
        return text

    def _ending(self, running: str | None) -> list[str]:
        if running:
            return [f"running: {running}", *(self._verdict(running) if self._first else [])]
        begun = {stage.name for stage in self.done}
        missing = [name for name in self._plans if name not in begun]
        lines = [f"stopped by {self._job.stopped}"] if self._job.stopped else []
        lines += [f"not begun: {' '.join(missing)}"] if missing else []
        return [*lines, *self._verdict()] if self._first else lines

    def _verdict(self, running: str | None = None) -> list[str]:
        out = self._job.out
        ended = tuple(stage.name for stage in self.done)
        found = evidence.read(out, tuple(sorted(self._job.overran)), ended)
        (out / "assumptions.txt").write_text("\n".join(assumptions.lines(found)) + "\n")
        xids = keep_kernel_log(out / "facts" / "dmesg-end")
        return ten_lines(found, self.done, list(self._plans), xids, running)


def _plans(parser: argparse.ArgumentParser, names: Sequence[str], *, first: bool) -> dict[str, Plan]:
    known = FIRST if first else STAGES
    if unknown := set(names) - set(known):
        parser.error(f"{', '.join(sorted(unknown))} is no stage; there are: {', '.join(known)}")
    return {name: known[name] for name in names or known}


def _seconds(text: str) -> float:
    """Parses a time in seconds.

    :raise ArgumentTypeError: the text is no time.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; allowed: seconds, 0 or more")
    return seconds


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; returns 0 if every stage succeeded."""
    parser = argparse.ArgumentParser(
        prog="python3 -m tools.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"stages among {', '.join(STAGES)} (default: all)")
    parser.add_argument("--first", action="store_true", help=f"the first time on a machine: {', '.join(FIRST)}")
    parser.add_argument("--out", type=Path, default=BUILD / "gpu", help="folder of logs and results")
    parser.add_argument("--driver", type=Path, default=None, help="libcuda.so.1 (default: the system's)")
    parser.add_argument("--quick", action="store_true", help="fewer samples of each row; implied by --first")
    parser.add_argument("--more", action="store_true", help="also compute-sanitizer and a guest in QEMU")
    parser.add_argument("--rows", action="append", metavar="GLOB", help="only these rows (may be given more than once)")
    parser.add_argument("--seconds", type=_seconds, default=ALL_S, help=f"time for all stages (default: {ALL_S})")
    args = parser.parse_args(argv)
    plans = _plans(parser, args.stages, first=args.first)
    driver = args.driver.resolve() if args.driver else None
    until = time.monotonic() + args.seconds
    quick = args.quick or args.first
    job = Job(args.out.resolve(), driver, quick=quick, more_tests=args.more, until=until, rows=args.rows or CUDA_ROWS)
    try:
        job.out.mkdir(parents=True, exist_ok=True)
        (job.out / "summary.txt").write_text("")
    except OSError as error:
        parser.error(f"--out {args.out}: {error.strerror}; allowed: a folder that can be written to")
    if not args.stages:
        evidence.clear(job.out)
    with stopped_by_signals(), ExitStack() as stack:
        job.held = [] if driver else stack.enter_context(devices.held_open())
        run = Run(job, plans, first=args.first)
        good = run.all()
        summary = run.write()
    print(f"\n{summary}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
