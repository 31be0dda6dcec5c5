"""Delay of the daemon's event loop: how much later than it should a timer was called, because something held the loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

PERIOD_S: Final = 0.5
"""Time between two looks."""
WINDOW_S: Final = 60.0
"""Time for which a delay is told."""


class LoopDelay:
    """Measures while `watch` runs. All VMs of the daemon wait while its loop is held."""

    def __init__(self, clock: Callable[[], float] | None = None, period_s: float = PERIOD_S) -> None:
        """`clock` tells seconds, by default those of the running loop."""
        self._clock = clock
        self._period_s = period_s
        self._longest: deque[tuple[float, float]] = deque()
        """Times and delays, oldest first: each delay is shorter than the one before."""

    def _now(self) -> float:
        return asyncio.get_running_loop().time() if self._clock is None else self._clock()

    async def watch(self) -> None:
        """Measures until cancelled."""
        while True:
            due = self._now() + self._period_s
            await asyncio.sleep(self._period_s)
            self._note(self._now(), max(0.0, self._now() - due))

    def _note(self, now: float, delay_s: float) -> None:
        while self._longest and self._longest[-1][1] <= delay_s:
            self._longest.pop()
        self._longest.append((now, delay_s))

    def longest_ns(self) -> int:
        """Longest delay within the last `WINDOW_S`, in nanoseconds."""
        oldest = self._now() - WINDOW_S
        while self._longest and self._longest[0][0] < oldest:
            self._longest.popleft()
        return int(self._longest[0][1] * 1e9) if self._longest else 0
