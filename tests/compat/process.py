"""Commands of a compatibility run: stopped with all their children when their time is up, within limits of memory."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.compat.effort import Effort
from tests.compat.guest import Guest
from tests.compat.verdict import Finished

KEPT_BYTES: Final = 200_000
"""Length of the output that is kept: half from its beginning, half from its end."""
CLOCK: Final = 6
_LOOKS_EVERY_S: Final = 0.5
_SINCE: Final = time.monotonic  # noqa: TID251  it is reported how long programs take


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one command."""

    seconds: float
    """Processor time, its device's included; by the clock it may last CLOCK times as long."""
    memory_bytes: int


def _confine(memory_bytes: int) -> None:
    """Runs in the child. Reserved addresses are no data: a runtime reserves those of the device's whole memory."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (memory_bytes, memory_bytes))  # holds for shared memory, too
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def text_of(output: Path) -> str:
    """The output's beginning and end."""
    data = output.read_bytes()
    if len(data) > KEPT_BYTES:
        data = data[: KEPT_BYTES // 2] + b"\n...\n" + data[-KEPT_BYTES // 2 :]
    return data.decode(errors="replace")


def run(
    command: Sequence[str | Path],
    cwd: Path,
    output: Path,
    confines: tuple[Limits, Guest],
) -> Finished:
    """Runs a command to its end, or to the end of its time, its output in the file `output`, within limits and with a guest's view."""
    limits, guest = confines
    start = _SINCE()
    with output.open("wb") as into:
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=cwd,
            env=guest.environment,
            stdin=subprocess.DEVNULL,
            stdout=into,
            stderr=subprocess.STDOUT,
            pass_fds=guest.fds,
            start_new_session=True,
            preexec_fn=lambda: _confine(limits.memory_bytes),  # noqa: PLW1509  setrlimit only
        )
        try:
            code = _wait(process, limits, guest)
        finally:
            _end(process)
    return Finished(-signal.SIGKILL if code is None else code, text_of(output), _SINCE() - start, code is None)


def _wait(process: subprocess.Popen[bytes], limits: Limits, guest: Guest) -> int | None:
    """Exit status; None if the time is up before the process has ended."""
    effort = Effort(process.pid, guest.device_seconds)
    until = _SINCE() + CLOCK * limits.seconds
    while effort.seconds() < limits.seconds and _SINCE() < until:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(min(_LOOKS_EVERY_S, limits.seconds))
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills what is left of the command's session, its own children too."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
