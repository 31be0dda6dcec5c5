"""CPU clocks of real processes, and alarms on them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final, cast

import pytest

from tests.waiting import turns_until, until
from vhost_backend.cores import threads
from vhost_backend.daemon.worker_clock import CpuAlarms, WorkerClock

MS: Final = 1_000_000


class Spinner:
    """Process that computes from `go` on."""

    def __init__(self, process: subprocess.Popen[bytes], alarms: CpuAlarms) -> None:
        self.process = process
        self.clock = WorkerClock(process.pid, alarms)

    def used_ns(self) -> int:
        used_ns = self.clock.cpu_ns()
        assert used_ns is not None
        return used_ns

    def go(self) -> None:
        pipe = cast("Any", self.process.stdin)
        pipe.write(b"go\n")
        pipe.flush()


@pytest.fixture
def alarms() -> Iterator[CpuAlarms]:
    made = CpuAlarms()
    yield made
    made.close()


@pytest.fixture
def spinner(alarms: CpuAlarms) -> Iterator[Spinner]:
    script = "read line; while :; do :; done"
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE) as process, contextlib.ExitStack() as stack:
        stack.callback(process.kill)
        yield Spinner(process, alarms)


def test_process_may_have_any_name(alarms: CpuAlarms) -> None:
    """Guest code names the worker's threads as it likes."""
    script = "import ctypes, sys; ctypes.CDLL(None).prctl(15, b'\\xff) T\\xfe'); print(flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", script]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert threads.named(process.pid, "vgc-pe") == frozenset()
        assert not WorkerClock(process.pid, alarms).is_stopped()


def test_the_clock_of_a_process_runs_while_it_works_and_shows_when_it_is_stopped(spinner: Spinner) -> None:
    before = spinner.used_ns()
    assert not spinner.clock.is_stopped()
    spinner.go()
    until(lambda: spinner.used_ns() > before + 20 * MS)
    os.kill(spinner.process.pid, signal.SIGSTOP)
    until(spinner.clock.is_stopped)
    spinner.process.kill()
    spinner.process.wait()
    assert spinner.clock.cpu_ns() is None
    assert not spinner.clock.is_stopped()


def test_an_alarm_rings_once_when_the_process_has_used_the_time(spinner: Spinner) -> None:
    rung: list[int] = []

    async def test() -> None:
        at_ns = spinner.used_ns() + 50 * MS
        alarm = spinner.clock.alarm(at_ns, lambda: rung.append(spinner.used_ns()))
        spinner.go()
        await turns_until(lambda: rung)
        assert rung[0] > at_ns - 2 * MS
        assert not alarm.is_set
        spinner.clock.alarm(rung[0] + 50 * MS, lambda: rung.append(0))
        await turns_until(lambda: len(rung) == 2)

    asyncio.run(test())


def test_a_cancelled_alarm_does_not_ring(spinner: Spinner) -> None:
    rung: list[str] = []

    async def test() -> None:
        at_ns = spinner.used_ns() + 20 * MS
        cancelled = spinner.clock.alarm(at_ns, lambda: rung.append("cancelled"))
        spinner.clock.alarm(at_ns + 20 * MS, lambda: rung.append("set"))
        cancelled.cancel()
        cancelled.cancel()
        spinner.go()
        await turns_until(lambda: rung)

    asyncio.run(test())
    assert rung == ["set"]


def test_a_process_that_is_gone_has_no_alarms(spinner: Spinner) -> None:
    async def test() -> None:
        spinner.process.kill()
        spinner.process.wait()
        with pytest.raises(OSError, match="Invalid argument"):
            spinner.clock.alarm(1, lambda: None)

    asyncio.run(test())


def test_alarms_that_are_set_when_the_loop_has_ended_do_no_harm(spinner: Spinner, alarms: CpuAlarms) -> None:
    async def test() -> None:
        spinner.clock.alarm(spinner.used_ns() + 20 * MS, lambda: None)

    asyncio.run(test())
    before = spinner.used_ns()
    spinner.go()
    until(lambda: spinner.used_ns() > before + 50 * MS)
    alarms.close()
    alarms.close()
