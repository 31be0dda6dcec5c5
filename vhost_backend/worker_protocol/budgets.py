"""Budgets of a VM's workers in the daemon: the most that one VM may cost the process that serves all of them.

A worker's process belongs to guest code, so the daemon keeps its limits. They belong to the VM and outlast workers: one
that ended itself would otherwise leave a fresh budget to the next. Only the budget of CPU time is a worker's own: what is
left of it when it is used up would not do for the next worker's start.

| budget | limit | when it is used up |
|---|---|---|
| time on the worker's link | `LINK_SHARE` | the link is read later; messages wait in the worker's socket |
| time on the record socket | `RECORD_SHARE` | likewise; rings fill up and count their losses |
| time on the bell of a GPU worker's gate | `BELL_SHARE` | it is heard later; turns go on by the clock |
| time in one turn of the loop | `TURN_S` | others are served first |
| programs that compile at a time | `NUM_SOURCES` (`program_terms`), and so 64 MiB of sources | the worker is replaced |
| images that the worker has not taken | `IMAGE_BYTES` | further programs are refused |
| messages that the worker has not read | `QUEUE_MESSAGES`, `QUEUE_BYTES`, `QUEUE_FDS` | the worker is replaced |
| CPU time that no request explains | `STRAY_SHARE`, of one worker | the worker is replaced |
| records that a worker leaves behind | `BACKLOG_S` to read them | the rest is dropped, which is logged |

No honest worker meets a limit that refuses or replaces: it has `NUM_SOURCES` files for sources, and reads its messages. A
worker that is replaced counts as a fault of the kind ``worker`` (`WorkerLink.fault`), with the reason.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

LINK_SHARE: Final = 0.25
"""Share of the loop's time that messages of one VM's workers may take: far more than a busy guest's programs cause."""
RECORD_SHARE: Final = 0.5
"""Likewise for records, of which watched kernels make as many as are read."""
BELL_SHARE: Final = 0.05
"""Likewise for the bell of a worker's gate, which an honest worker rings a few times in a turn."""
BURST_S: Final = 0.02
"""Time that a VM which was quiet may take at once, in turns of `TURN_S`."""
TURN_S: Final = 0.001
"""Longest time that one socket is read before others are served, but for the last packet."""
COMPILE_COST_S: Final = 0.0002
"""Time of the loop that a request to compile takes after it was read, from the look into the cache to the answer."""
LOOK_COST_S: Final = 25e-9
"""Time of the loop for each byte of a source that an engine looks at (`vhost_backend.compiler.job.LOOKED_AT`)."""

STRAY_SHARE: Final = 0.1
"""Share of one processor that a worker may use while no request is in flight: far more than records and timers cost."""
STRAY_BURST_S: Final = 2.0
"""Time that such a worker may use at once."""

IMAGE_BYTES: Final = 512 << 20
"""Eight images of the largest size."""

QUEUE_MESSAGES: Final = 1024
QUEUE_BYTES: Final = 4 << 20
QUEUE_FDS: Final = 512
"""Twice the descriptors of a guest with all rings and memory regions."""

BACKLOG_S: Final = 0.1
"""Time to read what a worker had sent to the record socket; a full socket of honest records takes a fifth of it."""


class TimeBudget:
    """Share of the loop's time for one VM: time that is spent comes back at the rate of the share, up to a burst.

    `burst_s` is at least `TURN_S`; `clock` tells the time at which it comes back.
    """

    def __init__(self, share: float, burst_s: float = BURST_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._burst_s = burst_s
        self._clock = clock
        self._left_s = burst_s
        self._at = clock()
        self.pauses = 0
        """Times at which it was used up, so that a socket was left unread for a while."""
        self.paused_ns = 0
        """Last of these times, CLOCK_REALTIME; 0: there was none."""

    def note_pause(self) -> None:
        """Counts that a socket is left unread, as the budget is used up."""
        self.pauses += 1
        self.paused_ns = time.time_ns()

    def spend(self, seconds: float) -> None:
        """Counts time that was spent on the VM; more than was left is a debt, which is waited for."""
        self._refill()
        self._left_s -= seconds

    def wait_s(self) -> float:
        """Seconds until the VM may take a turn; 0: now."""
        self._refill()
        return 0.0 if self._left_s > 0 else (TURN_S - self._left_s) / self._share

    def _refill(self) -> None:
        now = self._clock()
        self._left_s = min(self._burst_s, self._left_s + (now - self._at) * self._share)
        self._at = now


class HasFileno(Protocol):
    """Socket, or anything else that a loop can wait for."""

    def fileno(self) -> int: ...


class PacedReader:
    """Reads a worker's socket, or hears its bell, on the loop, within a time budget. While that is used up, they wait."""

    def __init__(
        self,
        sock: HasFileno,
        read_one: Callable[[], object],
        budget: TimeBudget,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """`read_one` handles one packet; false: no packet is waiting. `clock` measures what that costs."""
        self._sock = sock
        self._read_one = read_one
        self._budget = budget
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._reading = False

    def start(self) -> None:
        """Begins to read; must be stopped before the socket is closed."""
        self._reading = True
        self._resume()

    def stop(self) -> None:
        """Reads no more; a second call does nothing."""
        if self._pause is not None:
            self._pause.cancel()
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._sock)

    def _resume(self) -> None:
        wait_s = self._budget.wait_s()
        if wait_s:
            self._budget.note_pause()
            self._pause = self._loop.call_later(wait_s, self._resume)
        else:
            self._pause = None
            self._loop.add_reader(self._sock, self._turn)

    def _turn(self) -> None:
        began = self._clock()
        spent = 0.0
        while spent < TURN_S and self._reading and self._read_one():
            spent = self._clock() - began
        self._budget.spend(self._clock() - began)
        if self._reading and self._budget.wait_s():
            self._loop.remove_reader(self._sock)
            self._resume()
