"""Replay of a recording: its rows at the speed they were recorded at, or 0.1 to 1000 times that.

Rows and their order are those of the live stream. Pausing, seeking and a new speed take effect at once, also during a
wait. The clock is a parameter, so that tests need not wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, Final, Protocol

from control_center.recording_port import Query, Row

MIN_SPEED: Final = 0.1
MAX_SPEED: Final = 1000.0
FASTEST: Final = 0.0
"""Speed at which rows come without any wait."""
_SLACK_S: Final = 1e-6
"""Tolerance within which a row's time counts as reached: rounding must not cause another wait."""


class Clock(Protocol):
    """Source of time for a `Player`."""

    def now_s(self) -> float: ...

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        """Waits until `event` is set, for at most `seconds`; None: without limit."""


class LoopClock:
    """Clock of the running event loop."""

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            pass


class Player:
    """Replays what a query chooses: iterate over `rows`, and call the other methods meanwhile."""

    def __init__(
        self,
        replay: Callable[[Query], AsyncIterator[Row]],
        query: Query,
        *,
        speed: float = 1.0,
        clock: Clock | None = None,
    ) -> None:
        """`replay` is a recorder's `replay` method.

        :raise ValueError: the speed is not from 0.1 to 1000, or `FASTEST`.
        """
        self._replay = replay
        self._query = query
        self._speed = _checked(speed)
        self._clock = clock or LoopClock()
        self._steered = asyncio.Event()
        self._paused = False
        self._seek_ns: int | None = None
        self._base: tuple[float, int] | None = None
        """Time of the clock, and the time of the recording that is due then."""
        self.position_ns: int | None = query.from_ns
        """Recorded time of the last row given out, or the target of the last `seek`."""

    def pause(self) -> None:
        self._paused = True
        self._steer()

    def resume(self) -> None:
        self._paused = False
        self._steer()

    def set_speed(self, speed: float) -> None:
        """:raise ValueError: the speed is not from 0.1 to 1000, or `FASTEST`."""
        self._speed = _checked(speed)
        self._steer()

    def seek(self, time_ns: int) -> None:
        """Continues at `time_ns`, forwards or backwards."""
        self._seek_ns = self.position_ns = time_ns
        self._steer()

    def _steer(self) -> None:
        self._base = None
        self._steered.set()

    async def rows(self) -> AsyncIterator[Row]:
        """Yields each row when its time has come; ends after the last one."""
        query: Query | None = self._query
        while query is not None:
            rows = self._replay(query)
            query = None
            async for row in rows:
                if not await self._due(row[1]["time_ns"]):
                    query = replace(self._query, from_ns=self._seek_ns)
                    self._seek_ns = None
                    break
                self.position_ns = max(row[1]["time_ns"], self.position_ns or 0)
                yield row
            close: Any = getattr(rows, "aclose", None)
            if close is not None:
                await close()

    async def _due(self, time_ns: int) -> bool:
        """Waits until a row's time has come; False if `seek` was called meanwhile."""
        while self._seek_ns is None:
            self._steered.clear()
            if self._paused:
                await self._clock.wait(self._steered, None)
                continue
            if self._speed == FASTEST:
                return True
            now_s = self._clock.now_s()
            if self._base is None:
                self._base = (now_s, time_ns if self.position_ns is None else self.position_ns)
            rest_s = (time_ns - self._base[1]) / 1e9 / self._speed - (now_s - self._base[0])
            if rest_s <= _SLACK_S:
                return True
            await self._clock.wait(self._steered, rest_s)
        return False


def _checked(speed: float) -> float:
    if speed != FASTEST and not MIN_SPEED <= speed <= MAX_SPEED:
        raise ValueError(f"speed {speed:g}; allowed: {MIN_SPEED:g} to {MAX_SPEED:g}, or 0 for as fast as possible")
    return speed
