"""Run of ``make gpu``: its settings, its time, and the child processes of its stages."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from tools.common import REPOSITORY

INTERRUPT_S: Final = 10
"""Time that a child gets after SIGINT to stop its own processes, daemons with contexts on the GPU."""

STOPPED_INTERRUPT_S: Final = 2
"""Time that a child gets after SIGINT if this run itself was told to stop, since its caller may not wait."""

TERMINATE_S: Final = 2
CUDA_ROWS: Final = ("nap_*", "cuda_*", "quota_*")
LEAST_S: Final = 1.0
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_PR_SET_PDEATHSIG: Final = 1
_libc: Final = ctypes.CDLL(None)


class StoppedError(BaseException):
    """SIGTERM or SIGINT came. Not an `Exception`, so that handlers of a stage's failure do not catch it."""


@dataclass(slots=True)
class Job:
    """Settings of a run, and its clock."""

    out: Path
    driver: Path | None
    quick: bool
    more_tests: bool
    until: float
    """End of the run, in the clock of ``time.monotonic``."""

    rows: Sequence[str] = CUDA_ROWS
    """Globs of the benchmark's rows."""

    stage_until: float = float("inf")
    """End of the running stage's share of the time, in that clock."""

    stopped: str | None = None
    """Signal that ended the run early."""

    overran: set[str] = field(default_factory=set)
    """Stages whose child was ended because the stage's time was up."""

    stage: str = ""
    held: list[str] = field(default_factory=list)
    """Lines of `devices.held_open`."""

    def left(self) -> float:
        """Returns the seconds that all remaining stages have together."""
        return max(0.0, self.until - time.monotonic())

    def begin(self, stage: str, share: float) -> None:
        """Gives a stage its `share` (0 to 1) of the remaining time; time that it leaves goes to the next stages."""
        self.stage = stage
        self.stage_until = min(self.until, time.monotonic() + share * self.left())

    def stage_left(self) -> float:
        """Returns the seconds that the running stage has; at least a few, so that a child can report an error."""
        return max(LEAST_S, min(self.stage_until, self.until) - time.monotonic())

    def run(
        self,
        log_name: str,
        argv: Sequence[str | Path],
        limit_s: float | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> tuple[int | None, str]:
        """Runs a program with its output in a log file, then prints that.

        :param limit_s: maximum time (default: the rest of the stage's time).
        :param environment: variables in addition to those of `child_environment`.
        :return: the exit code, None if the program was ended; and its output.
        """
        log = self.out / log_name
        with log.open("wb") as file:
            process = subprocess.Popen(
                argv,
                cwd=REPOSITORY,
                env=child_environment() | dict(environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  no other thread runs here
            )
            code = self._wait(process, self.stage_left() if limit_s is None else limit_s)
        text = log.read_text(errors="replace")
        print(text, flush=True)
        return code, text

    def _wait(self, process: subprocess.Popen[bytes], limit_s: float) -> int | None:
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.overran.add(self.stage)
            _end(process, INTERRUPT_S)
        except StoppedError as signalled:
            self.stopped = str(signalled)
            _end(process, STOPPED_INTERRUPT_S)
        return None


def child_environment() -> dict[str, str]:
    """Environment of every child: our packages before those that this process finds; unbuffered output."""
    folders = [str(REPOSITORY), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return os.environ | {"PYTHONPATH": os.pathsep.join(folders), "PYTHONUNBUFFERED": "1"}


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Makes SIGTERM and SIGINT raise `StoppedError`, once, so that the summary is still written."""
    before = {number: signal.signal(number, _stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    for again in SIGNALS:
        signal.signal(again, signal.SIG_IGN)
    raise StoppedError(signal.Signals(number).name)


def _die_with_parent() -> None:
    """Runs in the child: has it killed with this run, so that no test keeps the GPU."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes], interrupt_s: float) -> None:
    """Ends a child and its process group: first by SIGINT, so that pytest stops its daemons."""
    process.send_signal(signal.SIGINT)
    for wait_s, harder in ((interrupt_s, signal.SIGTERM), (TERMINATE_S, signal.SIGKILL)):
        try:
            process.wait(wait_s)
            break
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, harder)
    process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # processes that the child left behind
