"""Accounts of VMs' records: made = kept + lost + left out, wherever records are dropped on the way to the store."""

from __future__ import annotations

import asyncio
import tracemalloc
from pathlib import Path
from typing import Any

from control_center.recorder import StoreRecorder
from control_center.recorder.account import MAX_LEFT, Accounts
from control_center.recorder.texts import KnownTexts
from control_center.recording_port import Query
from tests.unit import centre_rig
from tests.unit.recorder_rig import MS, SECOND, START_NS, event, push, recorder, sqlite_url, text
from tests.unit.test_centre_recording import recording
from tests.unit.test_recorder_store import gaps

LINE = text(1, "x" * 400)


def ends(made: StoreRecorder, vm: str = "web1") -> tuple[int, int, int, int]:
    """Made, kept, lost and left out."""
    (row,) = (row for row in made.accounts() if row["vm"] == vm)
    return row["made"], row["kept"], row["lost"], row["left_out"]


def test_records_between_two_pushes_that_never_came_are_left_out(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            made.record_batch(push(LINE, LINE, made=2), "a")
            made.record_batch(push(LINE, made=8, lost=4), "a")
            made.record_batch(push(LINE, made=1, vm="web2"), "a")
            await made.flush()
            assert ends(made) == (12, 3, 4, 5)
            assert ends(made, "web2") == (1, 1, 0, 0)
            (gap,) = await gaps(made)
            assert (gap["reason"], gap["records"]) == ("missed", 5)

    asyncio.run(run())


def test_records_that_found_no_room_in_the_queue_are_left_out_though_no_push_follows(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path), queue_bytes=2000, flush_s=60) as made:
            for number in range(1, 11):
                made.record_batch(push(LINE, made=number, lost=10 * number), "a")
            await made.flush()
            made_in_all, kept, lost, left_out = ends(made)
            assert (made_in_all, lost) == (110, 100)
            assert 0 < kept < 10
            assert left_out == 10 - kept
            (gap,) = await gaps(made)
            assert (gap["batches"], gap["records"]) == (left_out, left_out)
            (piece,) = await made.timeline(Query(), 1)
            assert (piece["records"], piece["lost"]) == ({"stdio": kept}, 100)

    asyncio.run(run())


def test_of_a_channel_that_was_opened_before_the_recorder_only_later_records_count(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            made.record_batch(push(LINE, made=1000, lost=50, opened_ns=START_NS), "a")
            made.record_batch(push(LINE, made=1003, lost=51, opened_ns=START_NS), "a")
            await made.flush()
            assert ends(made) == (5, 2, 1, 2)

    asyncio.run(run())


def test_channel_that_is_opened_again_counts_anew(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            made.record_batch(push(LINE, made=1, lost=3), "a")
            made.record_batch(push(LINE, made=2, lost=4, opened_ns=START_NS + 7200 * SECOND), "a")
            await made.flush()
            assert ends(made) == (10, 2, 7, 1)

    asyncio.run(run())


def test_records_that_cannot_be_kept_are_left_out(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            made.record_batch(push(data=b"\xff" * 30, made=3), "a")
            made.record_batch(push(LINE, made=4), "a")
            await made.flush()
            assert ends(made) == (4, 1, 0, 3)
            bad: Any = push(LINE, made=1, vm="\ud800")
            made.record_batch(bad, "a")
            await made.flush()
            assert ends(made, "\ud800") == (1, 0, 0, 1)

    asyncio.run(run())


def test_lies_of_a_daemon_are_bounded() -> None:
    accounts = Accounts(START_NS)
    for number in (2**200, -(2**200), 5):
        accounts.take("a", push(LINE, made=number, lost=number), 1)
    accounts.commit()
    (row,) = accounts.rows()
    assert row["made"] == row["kept"] + row["lost"] + row["left_out"]
    assert 0 <= row["lost"] <= 1 << 42


def test_channels_of_a_vm_that_left_are_forgotten_and_its_account_stays_for_a_while() -> None:
    accounts = Accounts(START_NS)
    later_ns = START_NS + 7200 * SECOND
    for number in range(MAX_LEFT + 2):
        accounts.take("a", push(LINE, made=3, lost=1, vm=f"job{number}"), 1)
        accounts.left("a", f"job{number}", later_ns)
    accounts.take("a", push(LINE, made=4, lost=1, vm="job7"), 1)  # came on the way when the VM left
    accounts.take("a", push(LINE, made=1, vm="job1", opened_ns=later_ns), 1)  # another VM of the name
    accounts.commit()
    rows = {row["vm"]: row for row in accounts.rows()}
    assert len(rows) == MAX_LEFT + 2
    assert rows[""] == {"host": "a", "vm": "", "made": 4, "kept": 1, "lost": 1, "left_out": 2}
    assert rows["job7"] == {"host": "a", "vm": "job7", "made": 5, "kept": 2, "lost": 1, "left_out": 2}
    assert rows["job1"] == {"host": "a", "vm": "job1", "made": 5, "kept": 2, "lost": 1, "left_out": 2}


def test_event_of_a_vm_that_left_is_followed(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            made.record_batch(push(LINE, made=1, opened_ns=START_NS + MS), "a")
            made.record_event(event(500, "vm_left", "web1"), "a")
            made.record_batch(
                push(LINE, made=9, opened_ns=START_NS + MS), "a"
            )  # of the channel that was forgotten: only what came counts
            await made.flush()
            assert ends(made) == (2, 2, 0, 0)

    asyncio.run(run())


def test_memory_does_not_grow_with_vms_that_have_left() -> None:
    accounts, known = Accounts(START_NS), KnownTexts()

    def visit(first: int) -> int:
        for number in range(first, first + MAX_LEFT):
            texts = {f"{address:x}": f"kernel {address} of {number}" for address in range(1, 20)}
            assert len(list(known.learn(("a", f"job{number}"), texts))) == len(texts)
            for pe in range(4):
                accounts.take("a", push(LINE, made=1, vm=f"job{number}", pe=pe), 1)
            known.left(("a", f"job{number}"))
            accounts.left("a", f"job{number}", START_NS)
        accounts.commit()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        sizes = [visit(turn * MAX_LEFT) for turn in range(6)]
    finally:
        tracemalloc.stop()
    assert sizes[5] < 1.2 * sizes[2]
    assert sum(row["kept"] for row in accounts.rows()) == 6 * 4 * MAX_LEFT


def test_accounts_are_shown_to_those_who_may_see_the_vm(tmp_path: Path) -> None:
    async def test() -> None:
        async with recording(tmp_path) as (rig, made, secrets):
            for vm in ("h1-vm0", "h1-vm1"):
                made.record_batch(push(LINE, made=3, lost=1, vm=vm, opened_ns=centre_rig.START_NS), "h1")
            await made.flush()
            account = {"host": "h1", "made": 4, "kept": 1, "lost": 1, "left_out": 2}
            assert await rig.get("/accounts") == [{**account, "vm": vm} for vm in ("h1-vm0", "h1-vm1")]
            rig.secret = secrets["owner"]
            assert await rig.get("/accounts") == [{**account, "vm": "h1-vm0"}]

    centre_rig.run(test())
