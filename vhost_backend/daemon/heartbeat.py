"""Heartbeat of a worker: finds out, by the daemon's clock, that a worker no longer does what the daemon says.

Guest code runs inside of the worker. It can stop the whole process, or capture the threads that serve the daemon and the
rings, and those that check deadlines; so the daemon asks for an answer that takes both threads, and at each look counts
the worker's CPU time. A worker in which nothing has run since its last answer rests: it is neither asked nor looked at
until the guest kicks it, a signal stops it, or it has used `REST_NS` of CPU time. An idle VM costs nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from vhost_backend.daemon.cpu_account import CpuAccount
from vhost_backend.daemon.worker_clock import CpuAlarm, WorkerClock
from vhost_backend.worker_protocol import protocol
from vhost_backend.worker_protocol.link import Answer, WorkerLink

_ANSWER_NS: Final = 1_000_000
"""Most CPU time of a worker that did nothing but answer."""
REST_NS: Final = 100_000_000
"""CPU time after which a worker that rests is looked at again, though the guest has not kicked it."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Times of a heartbeat."""

    period_s: float = 0.25
    """Time between two looks at a worker."""
    late_s: float = 0.5
    """Time after which a worker that has not answered is shown as unresponsive."""
    shortest_s: float = 5.0
    """Shortest time after which such a worker is replaced, for VMs whose kernels have shorter deadlines."""
    margin_s: float = 0.4
    """Time beyond the deadline of kernels until then."""
    patience_s: float = 10.0
    """Time beyond the deadline for which requests explain CPU time though none of them begins or ends."""

    def lost_s(self, deadline_ns: int, shortest_s: float = 0.0) -> float:
        """Time after which a silent worker of a VM is replaced."""
        return max(deadline_ns / 1e9 + self.margin_s, self.shortest_s, shortest_s)

    def unfinished_s(self, deadline_ns: int) -> float:
        """Time after which a request that has not ended explains no CPU time any more."""
        return deadline_ns / 1e9 + self.patience_s


DEFAULT_PACE: Final = Pace()


class KickBell:
    """Calls `on_kick` once, when the guest writes to one of `fds`, which another process reads or leaves unread.

    :raise OSError: the host lacks descriptors.
    """

    def __init__(self, fds: Iterable[int], on_kick: Callable[[], None]) -> None:
        self._on_kick = on_kick
        self._loop = asyncio.get_running_loop()
        self._epoll = select.epoll()
        for fd in fds:
            self._epoll.register(fd, select.EPOLLIN | select.EPOLLET)
        self._epoll.poll(0)  # forgets earlier kicks
        self._loop.add_reader(self._epoll, self._ring)

    def close(self) -> None:
        """Calls nothing any more; a second call does nothing."""
        if not self._epoll.closed:
            self._loop.remove_reader(self._epoll)
            self._epoll.close()

    def _ring(self) -> None:
        self.close()
        self._on_kick()


class Heartbeat:
    """Asks one worker for answers while it does something, until `stop` or until the link is closed.

    `on_look` is called at each look, `on_late` when an answer is late, `on_answer` when it has come after all. A worker
    that does not answer for `lost_s` is lost to its link; one that `account` finds faulty is condemned.
    """

    def __init__(
        self,
        link: WorkerLink,
        clock: WorkerClock,
        account: CpuAccount,
        pace: Pace,
        lost_s: float,
        *,
        may_ask: Callable[[], bool],
        kicks: Callable[[], Iterable[int]],
        on_look: Callable[[], None],
        on_late: Callable[[], None],
        on_answer: Callable[[], None],
    ) -> None:
        """`may_ask`: False while the worker may be busy for long with something that the daemon has asked for.
        `kicks`: descriptors by which the guest wakes the worker; `wake` must be called when they change.
        """
        self._link = link
        self._clock = clock
        self._account = account
        self._pace = pace
        self._lost_s = lost_s
        self._may_ask = may_ask
        self._kicks = kicks
        self._on_look = on_look
        self._on_late = on_late
        self._on_answer = on_answer
        self._loop = asyncio.get_running_loop()
        self._asked_s = 0.0
        self._answer: Answer | None = None
        """Answer that is awaited."""
        self._is_late = False
        self._asked_ns = 0
        """CPU time of the worker when it was asked last."""
        self._quiet_ns: int | None = None
        """CPU time of the worker when it had answered and done nothing else; None: it did something."""
        self._bell: KickBell | None = None
        """Rings at the guest's first kick since the worker was asked."""
        self._was_woken = False
        """True if the worker has been given something to do since it was asked."""
        self._alarm: CpuAlarm | None = None
        """Not None while the worker rests; rings if it uses CPU time nevertheless."""
        self._timer = self._loop.call_later(pace.period_s, self._look)

    def stop(self) -> None:
        """Looks no more; no callback comes any more."""
        self.count_cpu_time()
        self._timer.cancel()
        self._silence()
        self._end_rest()
        self._answer = None

    def have_patience(self, lost_s: float, unfinished_s: float) -> None:
        """Waits longer for answers, and for the ends of requests, than before. Kernels under way keep what they have."""
        self._lost_s = max(self._lost_s, lost_s)
        self._account.have_patience(unfinished_s)

    def wake(self) -> None:
        """Has the worker asked again, even if nothing runs in it: it has been given something to do."""
        self._was_woken = True
        if self._end_rest():
            self.count_cpu_time()
            self._timer = self._loop.call_later(self._pace.period_s, self._look)

    def count_cpu_time(self) -> None:
        """Counts the worker's CPU time up to now."""
        self._account.count(is_busy=not self._may_ask())

    @property
    def rests(self) -> bool:
        """True while nothing is looked at before the next kick or alarm."""
        return self._alarm is not None

    def _look(self) -> None:
        goes_on = True  # whatever is raised: what a guest does must not end the watch
        try:
            goes_on = self._look_once()
        finally:
            if goes_on:
                self._timer = self._loop.call_later(self._pace.period_s, self._look)

    def _look_once(self) -> bool:
        """Looks at the worker; False: there is nothing to look at for now."""
        if self._link.closed:
            return False
        self.count_cpu_time()
        if fault := self._account.fault():
            self._link.condemn(fault)
            return False
        self._on_look()
        if self._answer is not None:
            self._check_late()
        elif self._may_ask() and (self._was_woken or self._has_run()):
            self._ask()
        elif self._quiet_ns is not None and self._bell is not None and self._rest(self._quiet_ns):
            return False
        return True

    def _rest(self, cpu_ns: int) -> bool:
        """Begins to rest; False: the host lacks what that takes."""
        try:
            self._alarm = self._clock.alarm(cpu_ns + REST_NS, self.wake)
        except (OSError, RuntimeError):
            return False
        return True

    def _end_rest(self) -> bool:
        """Ends the rest; False: the worker did not rest."""
        alarm, self._alarm = self._alarm, None
        if alarm is not None:
            alarm.cancel()
        return alarm is not None

    def _silence(self) -> None:
        bell, self._bell = self._bell, None
        if bell is not None:
            bell.close()

    def _check_late(self) -> None:
        if not self._is_late and self._loop.time() - self._asked_s >= self._pace.late_s:
            self._is_late = True
            self._on_late()

    def _has_run(self) -> bool:
        """True if the worker has done more than answer since it was asked last, or cannot do anything."""
        now_ns = self._clock.cpu_ns()
        if now_ns is None:
            return False
        if self._quiet_ns is None and self._asked_ns and now_ns - self._asked_ns <= _ANSWER_NS:
            self._quiet_ns = now_ns
        return now_ns != self._quiet_ns or self._clock.is_stopped()

    def _ask(self) -> None:
        self._silence()
        with contextlib.suppress(OSError):  # the host lacks descriptors: goes on looking without a bell
            self._bell = KickBell(self._kicks(), self.wake)
        self._was_woken = False
        self._asked_ns = self._clock.cpu_ns() or 0
        self._quiet_ns = None
        self._asked_s = self._loop.time()
        answer = self._answer = self._link.post(protocol.Ping, timeout_s=self._lost_s)
        answer.add_done_callback(self._answered)

    def _answered(self, answer: Answer) -> None:
        if answer is not self._answer:
            return
        self._answer = None
        was_late, self._is_late = self._is_late, False
        if was_late and answer.result() is not None:
            self._on_answer()
