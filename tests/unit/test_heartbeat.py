"""Heartbeat of a worker, on the clock of the test's loop and with a worker that the test plays."""

from __future__ import annotations

import asyncio
import errno
import os
import select
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from tests.waiting import turns_until
from vhost_backend.daemon.cpu_account import CpuAccount, CpuTime
from vhost_backend.daemon.heartbeat import REST_NS, Heartbeat, Pace
from vhost_backend.daemon.inflight import InflightMemory
from vhost_backend.daemon.worker_clock import CpuAlarm, WorkerClock
from vhost_backend.worker_protocol.link import Answer, WorkerLink
from vhost_backend.worker_protocol.protocol import Ack, Ping

PACE = Pace(period_s=1.0, late_s=2.5, shortest_s=5.0, margin_s=0.4)
MS = 1_000_000
ANSWER = Ack(3, True, "", 0, 0)


class Stage:
    """A worker with a CPU clock, its link, and the loop's timers, which run when the test says so."""

    def __init__(self) -> None:
        self.closed = False
        self.said: list[str] = []
        self.cpu: int | None = 5 * MS
        self.stopped = False
        self.may = True
        self.kick = os.eventfd(0, os.EFD_NONBLOCK)
        self.asked: list[tuple[Answer, float]] = []
        self.alarm_at_ns = 0
        self.has_timers = True
        self.error: Exception | None = None
        """Error that a look raises."""
        clock = cast("WorkerClock", self)
        with InflightMemory() as memory:
            nothing = memory.requests()
        account = CpuAccount(
            clock, CpuTime(), lambda: nothing, num_pes=1, patience_s=1, now_s=asyncio.get_running_loop().time
        )
        self.heartbeat = Heartbeat(
            cast("WorkerLink", self),
            clock,
            account,
            PACE,
            7.0,
            may_ask=lambda: self.may,
            kicks=lambda: [self.kick],
            on_look=self._looked,
            on_late=lambda: self.said.append("late"),
            on_answer=lambda: self.said.append("answers"),
        )
        self.heartbeat._timer.cancel()

    def _looked(self) -> None:
        if self.error is not None:
            raise self.error

    # ---- the link and the clock ------------------------------------------------------------------

    def post(self, build: Callable[[int], Ping], _fds: tuple[int, ...] = (), timeout_s: float = 0) -> Answer:
        assert build(3) == Ping(3)
        answer: Answer = asyncio.get_running_loop().create_future()
        self.asked.append((answer, timeout_s))
        return answer

    def cpu_ns(self) -> int | None:
        return self.cpu

    def is_stopped(self) -> bool:
        return self.stopped

    def alarm(self, at_ns: int, _on_ring: Callable[[], None]) -> CpuAlarm:
        if not self.has_timers:
            raise OSError(errno.EAGAIN, "no timers")
        self.alarm_at_ns = at_ns
        return cast("CpuAlarm", self)

    def cancel(self) -> None:
        self.alarm_at_ns = 0

    def condemn(self, reason: str) -> None:
        self.said.append(reason)

    def rests(self) -> bool:
        return self.heartbeat.rests

    # ---- what happens ----------------------------------------------------------------------------

    def look(self, *, after_s: float = 1.0) -> int:
        """Lets time pass and the heartbeat look; returns the number of questions so far."""
        self.heartbeat._asked_s -= after_s
        self.heartbeat._look()
        self.heartbeat._timer.cancel()
        return len(self.asked)

    async def answer(self, *, using_ns: int = MS // 10, ack: Ack | None = ANSWER) -> None:
        assert self.cpu is not None
        self.cpu += using_ns
        self.asked[-1][0].set_result(ack)
        await asyncio.sleep(0)  # noqa: TID251  a turn of the loop, in which the callback runs


def run(test: Callable[[Stage], Awaitable[None]]) -> None:
    async def story() -> None:
        await test(Stage())

    asyncio.run(story())


def test_a_worker_that_does_nothing_is_asked_once() -> None:
    async def test(stage: Stage) -> None:
        assert stage.look() == 1
        assert stage.asked[0][1] == 7.0
        await stage.answer()
        assert [stage.look() for _ in range(5)] == [1] * 5
        assert stage.cpu is not None
        stage.cpu += 1
        assert stage.look() == 2
        await stage.answer()
        assert stage.look() == 2
        stage.stopped = True
        assert stage.look() == 3
        assert stage.said == []

    run(test)


def test_an_error_at_a_look_does_not_end_the_watch() -> None:
    async def test(stage: Stage) -> None:
        stage.error = UnicodeError("a name that no one thought of")
        with pytest.raises(UnicodeError):
            stage.heartbeat._look()
        assert not stage.heartbeat._timer.cancelled()
        stage.heartbeat._timer.cancel()
        stage.error = None
        assert stage.look() == 1

    run(test)


def test_a_quiet_worker_is_looked_at_again_when_the_guest_kicks_it() -> None:
    async def test(stage: Stage) -> None:
        os.eventfd_write(stage.kick, 1)  # an earlier kick, which was seen to be served
        stage.look()
        await stage.answer()
        assert stage.look() == 1
        for _ in range(3):
            await asyncio.sleep(0)  # noqa: TID251  turns of the loop, in which nothing rings
        assert stage.rests()
        os.eventfd_write(stage.kick, 1)
        await turns_until(lambda: not stage.rests())
        assert stage.look() == 2, "it is asked although it has not run: something may keep it from running"
        stage.heartbeat.stop()

    run(test)


def test_a_quiet_worker_is_looked_at_again_when_it_is_given_something_to_do() -> None:
    async def test(stage: Stage) -> None:
        stage.look()
        await stage.answer()
        stage.look()
        assert stage.rests()
        stage.heartbeat.wake()
        assert not stage.rests()
        assert stage.look() == 2

    run(test)


def test_a_worker_whose_kicks_cannot_be_heard_is_looked_at_on_and_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(stage: Stage) -> None:
        monkeypatch.setattr(select, "epoll", lambda: os.open("/nowhere", os.O_RDONLY))
        stage.look()
        await stage.answer()
        stage.look()
        assert not stage.rests()
        assert stage.cpu is not None
        stage.cpu += 1
        assert stage.look() == 2

    run(test)


def test_a_worker_that_rests_is_looked_at_again_when_it_has_used_cpu_time() -> None:
    async def test(stage: Stage) -> None:
        stage.look()
        await stage.answer()
        stage.look()
        assert stage.alarm_at_ns - REST_NS == stage.cpu
        stage.heartbeat.wake()
        assert stage.alarm_at_ns == 0

    run(test)


def test_a_worker_whose_cpu_time_cannot_be_watched_does_not_rest() -> None:
    async def test(stage: Stage) -> None:
        stage.has_timers = False
        stage.look()
        await stage.answer()
        stage.look()
        assert not stage.rests()

    run(test)


def test_a_worker_that_uses_cpu_time_without_requests_is_condemned() -> None:
    async def test(stage: Stage) -> None:
        stage.look()
        await stage.answer(using_ns=3000 * MS)
        stage.look()
        assert stage.said == ["used 3.0 s of CPU time that no request of its guest explains"]

    run(test)


def test_a_kick_between_question_and_rest_is_not_missed() -> None:
    async def test(stage: Stage) -> None:
        stage.look()
        await stage.answer()
        os.eventfd_write(stage.kick, 1)
        await turns_until(lambda: stage.heartbeat._was_woken)
        assert stage.look() == 2

    run(test)


def test_a_worker_that_works_is_asked_again_and_again() -> None:
    async def test(stage: Stage) -> None:
        for number in range(1, 6):
            assert stage.look() == number
            await stage.answer(using_ns=3 * MS)

    run(test)


def test_a_late_answer_is_told_once_and_so_is_the_answer() -> None:
    async def test(stage: Stage) -> None:
        assert [stage.look() for _ in range(5)] == [1] * 5
        assert stage.said == ["late"]
        await stage.answer()
        assert stage.said == ["late", "answers"]

    run(test)


def test_a_lost_worker_is_no_answer() -> None:
    async def test(stage: Stage) -> None:
        for _ in range(5):
            stage.look()
        await stage.answer(ack=None)
        assert stage.said == ["late"]
        stage.closed = True
        assert stage.look() == 1

    run(test)


def test_a_worker_that_is_busy_for_the_daemon_is_not_asked() -> None:
    async def test(stage: Stage) -> None:
        stage.may = False
        assert stage.look() == 0
        stage.may = True
        assert stage.look() == 1

    run(test)


def test_nothing_is_told_after_the_stop() -> None:
    async def test(stage: Stage) -> None:
        for _ in range(5):
            stage.look()
        stage.heartbeat.stop()
        await stage.answer()
        assert stage.said == ["late"]

    run(test)


def test_a_worker_that_is_gone_is_not_asked() -> None:
    async def test(stage: Stage) -> None:
        stage.cpu = None
        assert stage.look() == 0

    run(test)


def test_the_time_to_answer_follows_the_deadline() -> None:
    assert PACE.lost_s(10 * 10**9) == 10.4
    assert PACE.lost_s(10**6) == 5.0
    assert PACE.lost_s(10**6, 60.0) == 60.0
