"""Delay of the daemon's loop: the longest of the last minute."""

from __future__ import annotations

import asyncio

from tests.waiting import turns_until
from vhost_backend.control.host.loop_delay import WINDOW_S, LoopDelay


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_longest_delay_is_told_for_a_minute() -> None:
    async def run() -> None:
        clock = Clock()
        delay = LoopDelay(clock, period_s=0)
        assert delay.longest_ns() == 0
        watching = asyncio.create_task(delay.watch())

        async def hold(seconds: float) -> None:
            """Lets the clock go on while the loop is held: the watch's timer is due, and is called late."""
            clock.now += seconds
            await turns_until(lambda: delay._longest and delay._longest[-1][0] == clock.now)

        await turns_until(lambda: delay._longest)
        await hold(3.0)
        assert delay.longest_ns() == 3_000_000_000
        await hold(1.0)
        assert delay.longest_ns() == 3_000_000_000, "the longest one"
        clock.now += WINDOW_S - 1.5
        await turns_until(lambda: delay._longest[-1][0] == clock.now)
        assert delay.longest_ns() == int((WINDOW_S - 1.5) * 1e9)
        clock.now += WINDOW_S + 1
        assert delay.longest_ns() == 0, "all of them are longer ago"
        watching.cancel()

    asyncio.run(run())
