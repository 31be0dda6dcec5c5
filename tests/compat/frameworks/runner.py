"""Processes of tests: each file in one of its own, so that a crash loses one test, and each test within its time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.compat.effort import Effort
from tests.compat.frameworks.outcomes import CaseResult, Outcome, Record, read_record
from tests.compat.guest import Guest
from tests.compat.process import CLOCK

INSIDE: Final = Path(__file__).with_name("inside")
"""Folder of the modules that run in a framework's Python."""
_LOOKS_EVERY_S: Final = 0.5
_MOST_CRASHES: Final = 20
"""Crashes of one file, after which its other tests count as failed."""
_MOST_ALONE: Final = 60
"""Failed tests of one file that are run again, each alone."""
_CRASH: Final = "crash: "
_NO_TIME: Final = "no time left"
_AT_END: Final = "::(end)"
"""Name, behind its file's, of what crashes when all tests have ended."""
_SINCE: Final = time.monotonic  # noqa: TID251  a test that waits for ever is stopped by the clock


@dataclass(frozen=True, slots=True)
class Setting:
    """All that processes of tests need, but for what they run."""

    command: tuple[str, ...]
    """Words before `-m pytest`: `vgc exec` and a framework's Python."""
    folder: Path
    """Folder in which they run, and below which the tests are."""
    work: Path
    options: tuple[str, ...]
    """Options of pytest."""
    variables: Mapping[str, str]
    test_seconds: float
    """Processor time of one test, its device's included; by the clock it may last CLOCK times as long."""


@dataclass(frozen=True, slots=True)
class _End:
    """How a process of tests ended."""

    code: int
    stopped: bool
    """Its running test had no time left."""
    log: str


class Runner:
    """Runs files of tests with a guest's view."""

    def __init__(self, setting: Setting, guest: Guest) -> None:
        self._setting = setting
        self._guest = guest
        self._record = setting.work / "record.jsonl"
        self._done = setting.work / "done"

    def run(self, file: str) -> list[CaseResult]:
        """Results of all tests of a file. Those that fail are run again alone: one that lost the device loses it for the others."""
        found = self._whole(file)
        failed = [test for test in found.values() if test.outcome is Outcome.FAILED and "::" in test.name]
        if len(found) > 1:
            for test in failed[:_MOST_ALONE]:
                alone = self._tests(test.name, {})
                if test.name in alone:
                    found[test.name] = replace(alone[test.name], is_alone=True)
        return list(found.values())

    def _whole(self, file: str) -> dict[str, CaseResult]:
        """Results of a file, gone through again behind each test that crashes."""
        found: dict[str, CaseResult] = {}
        for _ in range(_MOST_CRASHES):
            more = self._tests(file, found)
            found |= more
            if not any(_goes_on_behind(test) for test in more.values()):
                break
        return found

    def _tests(self, what: str, done: Mapping[str, CaseResult]) -> dict[str, CaseResult]:
        """Results of one process, which leaves out the tests that are done."""
        self._record.unlink(missing_ok=True)
        self._done.write_text("\n".join(done))
        end = self._process(what)
        record = read_record(self._record)
        tests = {test.name: test for test in record.tests}
        if lost := _lost(what, record, end):
            tests[lost.name] = lost
        return tests

    def _process(self, what: str) -> _End:
        """Runs one process of pytest to its end, or until a test has used up its time."""
        setting = self._setting
        log = setting.work / "log"
        words = [
            *setting.command,
            "-m",
            "pytest",
            "-p",
            "vgc_recorder",
            f"--rootdir={setting.folder}",
            "-p",
            "no:cacheprovider",
            *setting.options,
            what,
        ]
        environment = dict(self._guest.environment) | dict(setting.variables)
        environment |= {"VGC_RECORD": str(self._record), "VGC_DONE": str(self._done)}
        with log.open("wb") as into:
            process = subprocess.Popen(
                words,
                cwd=setting.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=into,
                stderr=subprocess.STDOUT,
                pass_fds=self._guest.fds,
                start_new_session=True,
            )
            try:
                code = self._wait(process)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return _End(-signal.SIGKILL if code is None else code, code is None, log.read_text(errors="replace"))

    def _wait(self, process: subprocess.Popen[bytes]) -> int | None:
        """Exit status; None if a test has had no time left. What is read of the record says when the next one began."""
        limit = self._setting.test_seconds
        lines, effort, until = -1, Effort(process.pid, self._guest.device_seconds), 0.0
        while True:
            now = self._record.read_bytes().count(b"\n") if self._record.exists() else 0
            if now != lines:
                lines, effort = now, Effort(process.pid, self._guest.device_seconds)
                spent = effort.seconds()
                until = _SINCE() + CLOCK * limit
            elif effort.seconds() - spent > limit or _SINCE() > until:
                return None
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(_LOOKS_EVERY_S)


def _goes_on_behind(test: CaseResult) -> bool:
    """Did the process end with this test, so that others may be left?"""
    return test.why.startswith((_CRASH, _NO_TIME)) and "::" in test.name and not test.name.endswith(_AT_END)


def _lost(what: str, record: Record, end: _End) -> CaseResult | None:
    """Result that a process could not write itself: that of the test which ended it, or of a file that pytest does not take."""
    if end.stopped:
        return CaseResult(record.running or what, Outcome.FAILED, _NO_TIME)
    if record.is_whole and end.code in range(6):
        return None
    name = record.running or (what + _AT_END if record.is_whole else what)
    signalled = -end.code if end.code < 0 else end.code - 128 if end.code > 128 else 0
    how = signal.Signals(signalled).name if signalled in set(signal.Signals) else f"exit status {end.code}"
    return CaseResult(name, Outcome.FAILED, f"{_CRASH}{how}: {_last_words(end.log.splitlines())}")


def _last_words(lines: Sequence[str]) -> str:
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")
