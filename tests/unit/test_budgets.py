"""Budgets of a worker's links: time comes back at its share, and readers pause until some is left again."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable

import pytest

from tests.descriptors import open_fds
from tests.limits import ANSWERS_WITHIN_S
from vhost_backend.worker_protocol import budgets
from vhost_backend.worker_protocol.budgets import TURN_S, PacedReader, TimeBudget
from vhost_backend.worker_protocol.link import Outbox


class Clock:
    """Clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with asyncio.timeout(ANSWERS_WITHIN_S):
            await test()

    asyncio.run(inside())


def test_burst_may_be_taken_at_once_and_debt_is_waited_for() -> None:
    clock = Clock()
    budget = TimeBudget(0.25, 0.02, clock)
    assert budget.wait_s() == 0
    budget.spend(0.019)
    assert budget.wait_s() == 0
    budget.spend(0.003)
    assert budget.wait_s() == pytest.approx((0.002 + TURN_S) / 0.25)


def test_spent_time_comes_back_at_the_share_up_to_the_burst() -> None:
    clock = Clock()
    budget = TimeBudget(0.25, 0.02, clock)
    budget.spend(0.02)
    clock.now += budget.wait_s()
    assert budget.wait_s() == 0
    clock.now += 1000
    budget.spend(0.021)
    assert budget.wait_s() == pytest.approx((0.001 + TURN_S) / 0.25)


def test_over_any_time_a_vm_takes_no_more_than_its_share_and_one_burst() -> None:
    clock = Clock()
    budget = TimeBudget(0.25, 0.02, clock)
    began, spent = clock.now, 0.0
    while clock.now < began + 10:
        wait_s = budget.wait_s()
        clock.now += wait_s
        if not wait_s:
            budget.spend(0.003)  # a packet that takes longer than a turn
            spent += 0.003
            clock.now += 0.003
    assert spent <= 0.25 * (clock.now - began) + 0.02 + 0.003


def test_reader_gives_way_after_a_turn_and_pauses_when_its_budget_is_spent() -> None:
    async def test() -> None:
        time_of_day, cost = Clock(), Clock()
        ours, theirs = socket.socketpair()
        reads: list[bytes] = []
        went_on = asyncio.Event()

        def read_one() -> bool:
            cost.now += TURN_S / 2
            reads.append(ours.recv(1))
            if len(reads) == 8:
                went_on.set()
            return True

        budget = TimeBudget(0.5, 2 * TURN_S, time_of_day)
        reader = PacedReader(ours, read_one, budget, cost)
        seen: list[int] = []
        with ours, theirs:
            theirs.send(b"x" * 100)
            reader.start()
            while budget.wait_s() == 0:
                await asyncio.sleep(0)  # noqa: TID251  a turn of the loop, no nap
                seen.append(len(reads))
            assert {b - a for a, b in zip([0, *seen], seen, strict=False)} <= {0, 2}  # at most a turn's worth each time
            assert len(reads) == 4  # and no more than the burst
            assert (budget.pauses, budget.paused_ns > 0) == (1, True)
            for _ in range(50):
                await asyncio.sleep(0)  # noqa: TID251  turns of the loop, no nap
            assert len(reads) == 4
            time_of_day.now += 10
            await went_on.wait()
            reader.stop()
            reader.stop()

    run(test)


def test_stopped_reader_does_not_come_back_from_its_pause() -> None:
    async def test() -> None:
        clock = Clock()
        ours, theirs = socket.socketpair()
        budget = TimeBudget(0.5, TURN_S, clock)
        reader = PacedReader(ours, lambda: pytest.fail("it read"), budget)
        with ours, theirs:
            budget.spend(1)
            theirs.send(b"x")
            reader.start()
            reader.stop()
            clock.now += 100
            for _ in range(20):
                await asyncio.sleep(0)  # noqa: TID251  turns of the loop, no nap
            assert asyncio.get_running_loop().remove_reader(ours) is False

    run(test)


@pytest.mark.parametrize(
    ("name", "packet", "num_fds", "fits"),
    [
        ("QUEUE_MESSAGES", b"x", 0, 1024),
        ("QUEUE_BYTES", b"x" * 65536, 0, 64),
        ("QUEUE_FDS", b"x", 8, 64),
    ],
)
def test_outbox_is_bounded_in_messages_bytes_and_descriptors(name: str, packet: bytes, num_fds: int, fits: int) -> None:
    outbox = Outbox()
    fd = os.open("/dev/null", os.O_RDONLY)
    try:
        fds = (fd,) * num_fds
        before = open_fds()
        assert [outbox.add(packet, fds) for _ in range(fits)] == [""] * fits
        assert outbox.add(packet, fds).startswith(str(getattr(budgets, name)))
        assert open_fds() == before + fits * num_fds
        outbox.clear()
        assert (len(outbox), outbox.num_bytes, outbox.num_fds) == (0, 0, 0)
        assert open_fds() == before
    finally:
        os.close(fd)
