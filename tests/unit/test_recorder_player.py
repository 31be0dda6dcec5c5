"""Playing a recording on a time line, with a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from control_center.recorder.player import FASTEST, LoopClock, Player
from control_center.recording_port import Query, Row
from tests.limits import ANSWERS_WITHIN_S
from tests.unit.recorder_rig import SECOND, START_NS


class TestClock:
    """A clock that moves only by `wait`: it notes the requested time and lets it pass at once."""

    __test__ = False

    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float | None] = []
        self.asleep = asyncio.Event()
        """Set while a wait without a timeout is in progress."""

    def now_s(self) -> float:
        return self.now

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        self.waits.append(seconds)
        if seconds is None:
            self.asleep.set()
            await event.wait()
            return
        self.now += seconds
        await asyncio.sleep(0)  # noqa: TID251  a turn of the loop: time is this clock's


async def recorded(query: Query) -> AsyncIterator[Row]:
    """Rows of a recording: one each second, for ten seconds."""
    for second in range(10):
        time_ns = START_NS + second * SECOND
        if query.from_ns is None or time_ns >= query.from_ns:
            yield cast(
                "Row", ("event", {"time_ns": time_ns, "event": str(second), "vm": None, "host": "a", "detail": {}})
            )


def names(rows: list[Row]) -> str:
    return "".join(cast("Any", row[1])["event"] for row in rows)


def test_rows_come_at_the_requested_speed() -> None:
    async def run() -> None:
        for speed, total_s in ((1.0, 9.0), (10.0, 0.9), (0.1, 90.0), (1000.0, 0.009)):
            clock = TestClock()
            rows = [row async for row in Player(recorded, Query(), speed=speed, clock=clock).rows()]
            assert names(rows) == "0123456789"
            assert clock.now - 100 == pytest.approx(total_s)

    asyncio.run(run())


def test_as_fast_as_possible_waits_for_nothing() -> None:
    async def run() -> None:
        clock = TestClock()
        assert len([row async for row in Player(recorded, Query(), speed=FASTEST, clock=clock).rows()]) == 10
        assert clock.waits == []

    asyncio.run(run())


def test_time_counts_from_where_it_begins() -> None:
    async def run() -> None:
        clock = TestClock()
        player = Player(recorded, Query(from_ns=START_NS + SECOND // 2), clock=clock)
        async for _ in player.rows():
            break
        assert clock.waits == [pytest.approx(0.5)]
        assert player.position_ns == START_NS + SECOND

    asyncio.run(run())


def test_pause_holds_and_resume_goes_on_without_a_jump() -> None:
    async def run() -> None:
        clock = TestClock()
        player = Player(recorded, Query(), clock=clock)
        rows = player.rows()
        assert names([await anext(rows) for _ in range(3)]) == "012"
        player.pause()
        waiting = asyncio.ensure_future(anext(rows))
        await clock.asleep.wait()
        assert not waiting.done()
        clock.now += 500
        player.resume()
        assert names([await waiting]) == "3"
        assert clock.waits[-1] == pytest.approx(1.0)
        await cast("Any", rows).aclose()

    asyncio.run(run())


def test_seek_goes_back_and_forth() -> None:
    async def run() -> None:
        player = Player(recorded, Query(), clock=TestClock())
        seen = ""
        async for row in player.rows():
            seen += names([row])
            if seen == "012":
                player.seek(START_NS + 7 * SECOND)
            elif seen == "0127":
                player.seek(START_NS)
            elif len(seen) == 6:
                break
        assert seen == "012701"

    asyncio.run(run())


def test_another_speed_takes_effect_at_once() -> None:
    async def run() -> None:
        clock = TestClock()
        player = Player(recorded, Query(), clock=clock)
        async for row in player.rows():
            if names([row]) == "4":
                before = clock.now
                player.set_speed(100)
        assert clock.now - before == pytest.approx(0.05)

    asyncio.run(run())


@pytest.mark.parametrize("speed", [0.05, 1001, -1])
def test_a_speed_beyond_the_bounds_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match=r"allowed: 0\.1 to 1000, or 0"):
        Player(recorded, Query(), speed=speed)


def test_the_loops_clock_waits_for_the_event_or_the_timeout() -> None:
    async def run() -> None:
        clock, event = LoopClock(), asyncio.Event()
        before = clock.now_s()
        await clock.wait(event, 0.001)
        assert clock.now_s() > before
        assert not event.is_set()
        waiting = asyncio.create_task(clock.wait(event, None))
        event.set()
        async with asyncio.timeout(ANSWERS_WITHIN_S):
            await waiting

    asyncio.run(run())
