"""Heartbeat of a worker: finds out, by the daemon's clock, that a worker no longer does what the daemon says.

Guest code runs inside of the worker. It can stop the whole process, or capture the threads that serve the daemon and the
rings, and those that check deadlines; so the daemon asks for an answer that takes both threads. A worker in which
nothing has run since its last answer is not asked: an idle VM costs nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vhost_backend.worker_protocol import protocol
from vhost_backend.worker_protocol.link import Answer, WorkerLink

_CPUCLOCK_SCHED: Final = 2  # of include/linux/posix-timers.h: a process's CPU clock is ~pid << 3 | 2
_ANSWER_NS: Final = 1_000_000
"""Most CPU time of a worker that did nothing but answer."""
_INIT: Final = "vgc-init"


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

    def lost_s(self, deadline_ns: int, shortest_s: float = 0.0) -> float:
        """Time after which a silent worker of a VM is replaced."""
        return max(deadline_ns / 1e9 + self.margin_s, self.shortest_s, shortest_s)


DEFAULT_PACE: Final = Pace()


class WorkerClock:
    """CPU time of a worker, which the daemon started as `pid`: a launcher with the worker as its child, or the worker."""

    def __init__(self, pid: int) -> None:
        self._pid = _worker_of(pid)
        self._stat = Path(f"/proc/{self._pid}/stat")

    def cpu_ns(self) -> int | None:
        """CPU time of all threads, also of those that have ended; None: the worker is gone."""
        try:
            return time.clock_gettime_ns(~self._pid << 3 | _CPUCLOCK_SCHED)
        except OSError:
            return None

    def is_stopped(self) -> bool:
        """True if a signal has stopped the worker."""
        try:
            return self._stat.read_text().rpartition(")")[2].split()[0] == "T"
        except (OSError, IndexError):
            return False


def _worker_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if Path(f"/proc/{child}/comm").read_text().strip() != _INIT:
                return int(child)
    return pid


class Heartbeat:
    """Asks one worker for answers while it does something, until `stop` or until the link is closed.

    `on_late` is called when an answer is late, `on_answer` when it has come after all. A worker that does not answer for
    `lost_s` is lost to its link.
    """

    def __init__(
        self,
        link: WorkerLink,
        clock: WorkerClock,
        pace: Pace,
        lost_s: float,
        *,
        may_ask: Callable[[], bool],
        on_late: Callable[[], None],
        on_answer: Callable[[], None],
    ) -> None:
        """`may_ask`: False while the worker may be busy for long with something that the daemon has asked for."""
        self._link = link
        self._clock = clock
        self._pace = pace
        self._lost_s = lost_s
        self._may_ask = may_ask
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
        self._timer = self._loop.call_later(pace.period_s, self._look)

    def stop(self) -> None:
        """Looks no more; no callback comes any more."""
        self._timer.cancel()
        self._answer = None

    def _look(self) -> None:
        if self._link.closed:
            return
        if self._answer is not None:
            self._check_late()
        elif self._may_ask() and self._has_run():
            self._ask()
        self._timer = self._loop.call_later(self._pace.period_s, self._look)

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
