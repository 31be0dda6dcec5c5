"""The recorder's store: entries are found again, limits are kept, and nothing is missing silently."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from control_center.recorder import StoreRecorder, open_recorder
from control_center.recorder.dialect import StoreError
from control_center.recording_port import Query, Recorder
from tests.unit.recorder_rig import (
    MS,
    SECOND,
    START_NS,
    Clock,
    block,
    chosen,
    command,
    event,
    events,
    formatted,
    push,
    recorder,
    sqlite_url,
    text,
)

LIMIT = 1000


async def texts(made: StoreRecorder, query: Query | None = None, limit: int = LIMIT) -> list[str]:
    return [row["text"] for row in await made.query(query or Query(), limit)]


async def gaps(made: StoreRecorder) -> list[dict[str, object]]:
    return [row["detail"] for row in await events(made) if row["event"] == "recording_gap"]


def test_an_opened_recorder_has_left_nothing_out(tmp_path: Path) -> None:
    made: Recorder = open_recorder(sqlite_url(tmp_path))
    assert made.status()["left_out"] == 0


def test_records_come_back_as_clients_see_them(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            made.record_batch(push(text(5, "hello\n", sequence=7), lost=3), "a")
            await made.flush()
            (row,) = await made.query(Query(), LIMIT)
        assert row == {
            "time_ns": START_NS + 5 * MS,
            "host": "a",
            "gpu": "cpu",
            "vm": "web1",
            "pe": 0,
            "fn": "stdio",
            "level": 4,
            "kind": "text",
            "text": "hello\n",
            "block": 0,
            "warp": 0,
            "sequence": 7,
            "lost": 3,
        }

    asyncio.run(run())


def test_batches_of_many_channels_are_put_in_the_order_of_time(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            made.record_batch(push(text(1, "1"), text(4, "4"), text(6, "6")), "a")
            made.record_batch(push(text(2, "2"), text(5, "5"), vm="web2"), "a")
            made.record_batch(push(text(3, "3"), vm="web3"), "b")
            await made.flush()
            assert await texts(made) == list("123456")
            replayed = [row[1]["text"] async for row in made.replay(Query()) if row[0] == "record"]
            assert replayed == list("123456")
            assert await texts(made, limit=2) == ["5", "6"]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", "abcd"),
        ("vm=web1", "a"),
        ("vm=web*", "abc"),
        ("vm=web?|db_1", "abcd"),
        ("vm=d?_1", "d"),
        ("vm=dbx1", ""),
        ("host=h2", "cd"),
        ("pe=1-2", "bc"),
        ("fn=log", ""),
        ("fn=stdio|log,host=h*,pe=3", "d"),
    ],
)
def test_a_query_can_select_by_selector(tmp_path: Path, selector: str, expected: str) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            made.record_batch(push(text(1, "a"), vm="web1", pe=0), "h1")
            made.record_batch(push(text(2, "b", pe=1), vm="web2", pe=1), "h1")
            made.record_batch(push(text(3, "c", pe=2), vm="web3", pe=2), "h2")
            made.record_batch(push(text(4, "d", pe=3), vm="db_1", pe=3), "h2")
            await made.flush()
            assert "".join(await texts(made, chosen(selector))) == expected

    asyncio.run(run())


def test_a_time_range_includes_parts_of_batches(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            made.record_batch(push(*(text(ms, str(ms)) for ms in range(10))), "a")
            await made.flush()
            assert await texts(made, chosen(from_ms=3, to_ms=6)) == ["3", "4", "5"]

    asyncio.run(run())


def test_a_query_limited_to_vms_finds_those_vms_only(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            for host, vm in (("a", "web1"), ("b", "web1"), ("a", "db")):
                made.record_batch(push(text(1, f"{host}/{vm}"), vm=vm), host)
            made.record_event(event(2, "worker_ready", "db"), "a")
            made.record_event(event(3, "started"), "a")
            await made.flush()
            assert await texts(made, Query(vms=frozenset({"web1"}))) == ["a/web1", "b/web1"]
            assert await texts(made, Query(vms=frozenset({"a/web1"}))) == ["a/web1"]
            assert await texts(made, Query(vms=frozenset())) == []
            kinds = [kind async for kind, _ in made.replay(Query(vms=frozenset({"web1"})))]
            assert kinds == ["record", "record"]

    asyncio.run(run())


def test_a_record_is_formatted_with_the_text_of_its_time(tmp_path: Path) -> None:
    async def run() -> None:
        url = sqlite_url(tmp_path)
        async with recorder(url) as made:
            made.record_batch(
                push(formatted(1, 0xFFFF_8000_0000_1000, 42), dictionary={"ffff800000001000": "old %d"}), "a"
            )
            made.record_batch(push(formatted(2, 0xFFFF_8000_0000_1000, 43)), "a")
            made.record_batch(
                push(formatted(3, 0xFFFF_8000_0000_1000, 44), dictionary={"0xffff800000001000": "new %d"}), "a"
            )
            made.record_batch(push(formatted(4, 0x2000, 1), vm="web2"), "a")
        async with recorder(url) as made:
            assert await texts(made) == ["old 42", "old 43", "new 44", "<0x2000>"]

    asyncio.run(run())


def test_an_impossible_time_becomes_the_time_of_arrival(tmp_path: Path) -> None:
    async def run() -> None:
        clock = Clock(START_NS + SECOND)
        async with recorder(sqlite_url(tmp_path), clock) as made:
            made.record_batch(push(text(1e12, "forged"), text(0, "honest")), "a")
            await made.flush()
            rows = await made.query(Query(), LIMIT)
        assert {row["text"]: row["time_ns"] for row in rows} == {"honest": START_NS, "forged": START_NS + SECOND}

    asyncio.run(run())


def test_long_batches_are_kept_in_pieces(tmp_path: Path) -> None:
    async def run() -> None:
        records = [text(n / 1000, "x" * (n % 900), sequence=n) for n in range(2000)]
        async with recorder(sqlite_url(tmp_path)) as made:
            made.record_batch(push(*records), "a")
            await made.flush()
            rows = await made.query(Query(), 5000)
            assert [row["sequence"] for row in rows] == list(range(2000))
            assert made.status()["records"] == 2000

    asyncio.run(run())


def test_a_torn_batch_becomes_a_gap(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            made.record_batch(push(data=b"\xff" * 30), "a")
            made.record_batch(push(text(1, "fine")), "a")
            await made.flush()
            assert await texts(made) == ["fine"]
            (gap,) = await gaps(made)
        assert str(gap["reason"]).startswith("malformed batch")

    asyncio.run(run())


def test_entries_beyond_the_queue_are_counted_and_recorded_as_a_gap(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path), queue_bytes=2000, flush_s=60) as made:
            for n in range(10):
                made.record_batch(push(text(n, "x" * 400)), "a")
            made.record_event(event(11, "too much", blob="y" * 3000), "a")
            await made.flush()
            stored, (gap,) = len(await texts(made)), await gaps(made)
            assert 0 < stored < 10
            assert gap["batches"] == 10 - stored
            assert gap["events"] == 1
            assert made.status()["left_out"] == 11 - stored

    asyncio.run(run())


def test_commands_and_snapshots_are_found_by_vm(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            made.record_command(command(1, "open", selector="vm=web1,fn=log"))
            made.record_command(command(2, "send", vm="web1", pe=3, instance=1, data=b"\x00\xff"))
            made.record_command(command(3, "send", vm="web2", error="unknown"))
            shot = {"time_ns": START_NS, "skew_ns": 1, "coverage": 1.0, "silent": [], "pes": []}
            made.record_snapshot(shot, "a", "7")  # type: ignore[arg-type]
            await made.flush()
            found = await made.commands(chosen("vm=web1"))
            assert [row["verb"] for row in found] == ["open", "send"]
            assert found[1]["arguments"]["data"] == b"\x00\xff"
            assert [row["error"] for row in await made.commands(Query(), "send")] == [None, "unknown"]
            (snapshot,) = await made.snapshots(Query())
            assert (snapshot["name"], snapshot["info"]) == ("7", shot)

    asyncio.run(run())


def test_losses_are_those_of_each_vms_channel(tmp_path: Path) -> None:
    """VMs number their channels alike; a channel that is opened again counts from 0."""

    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            for vm, lost in (("a", 100), ("b", 7), ("a", 100), ("b", 9), ("a", 103)):
                made.record_batch(push(text(50, "c"), vm=vm, lost=lost), "host")
            again = START_NS + 7200 * SECOND
            made.record_batch(push(text(50, "c"), vm="a", lost=2, opened_ns=again), "host")
            made.record_batch(push(vm="a", lost=4, opened_ns=again), "host")  # no records, but losses
            await made.flush()
            (piece,) = await made.timeline(chosen(from_ms=0, to_ms=100_000), 1)
        assert piece["lost"] == 107 + 9

    asyncio.run(run())


def test_a_timeline_counts_by_interval(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            made.record_batch(push(text(0, "a"), text(1, "b")), "a")
            made.record_batch(push(text(50, "c"), lost=2), "a")
            made.record_batch(push(text(51, "c"), lost=5), "a")
            made.record_batch(push(block(99, 1, 0, begin=True)), "a")
            made.record_event(event(50, "fault"), "a")
            made.record_command(command(99, "open"))
            await made.flush()
            pieces = await made.timeline(chosen(from_ms=0, to_ms=100), 10)
        assert [sum(piece["records"].values()) for piece in pieces] == [2, 0, 0, 0, 0, 2, 0, 0, 0, 1]
        assert pieces[5]["lost"] == 5
        assert pieces[5]["events"] == {"fault": 1}
        assert (pieces[9]["records"], pieces[9]["commands"]) == ({"perf": 1}, 1)
        assert pieces[0]["start_ns"] == START_NS

    asyncio.run(run())


def test_entries_older_than_the_retention_are_pruned(tmp_path: Path) -> None:
    async def run() -> None:
        clock = Clock(START_NS + SECOND)
        async with recorder(sqlite_url(tmp_path), clock, retention_s=100, prune_s=0) as made:
            made.record_batch(push(formatted(0, 0x10, 1), dictionary={"10": "kept %d"}), "a")
            made.record_batch(push(text(0, "old"), vm="web2"), "a")
            await made.flush()
            clock.now = START_NS + 90 * SECOND
            made.record_batch(push(formatted(90_000, 0x10, 2)), "a")
            await made.flush()
            assert len(await texts(made)) == 3
            clock.now = START_NS + 110 * SECOND
            await made.flush()
            assert await texts(made) == ["kept 2"]
            status = made.status()
            assert (status["records"], status["first_ns"]) == (1, START_NS + 90 * SECOND)

    asyncio.run(run())


def test_texts_of_a_pruned_vm_are_stored_again(tmp_path: Path) -> None:
    async def run() -> None:
        clock = Clock(START_NS + SECOND)
        async with recorder(sqlite_url(tmp_path), clock, retention_s=100, prune_s=0) as made:
            made.record_batch(push(formatted(0, 0x10, 1), dictionary={"10": "again %d"}), "a")
            await made.flush()
            clock.now = START_NS + 1000 * SECOND
            await made.flush()
            assert await texts(made) == []
            made.record_batch(push(formatted(1e6, 0x10, 2)), "a")
            await made.flush()
            assert await texts(made) == ["again 2"]

    asyncio.run(run())


def test_size_stays_bounded_and_the_newest_are_kept(tmp_path: Path) -> None:
    async def run() -> None:
        size = 1 << 20
        async with recorder(sqlite_url(tmp_path), size_bytes=size) as made:
            for round_ in range(8):
                for n in range(40):
                    number = round_ * 40 + n
                    made.record_batch(push(*(text(number, "x" * 1000, sequence=number) for _ in range(16))), "a")
                await made.flush()
            rows = await made.query(Query(), 1)
            assert rows[0]["sequence"] == 319
            assert made.status()["bytes"] <= size
        assert (tmp_path / "recording.db").stat().st_size < 2 * size  # with what one flush adds before it is pruned

    asyncio.run(run())


_KILLED = """
import asyncio, sys, time
from tests.unit.recorder_rig import push, text, recorder, START_NS
async def run():
    async with recorder(sys.argv[1]) as made:
        made.record_batch(push(text(1, "first")), "a")
        await made.flush()
        print("flushed", flush=True)
        await asyncio.sleep(600)
asyncio.run(run())
"""


def test_a_killed_recorder_leaves_a_store_that_opens_and_a_gap_that_shows(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    process = subprocess.Popen([sys.executable, "-c", _KILLED, url], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"flushed\n"
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()

    async def run() -> None:
        async with recorder(url, Clock(START_NS + 100 * SECOND)) as made:
            assert await texts(made) == ["first"]
            (gap,) = await gaps(made)
        assert gap == {"reason": "crashed", "to_ns": START_NS + 100 * SECOND}

    asyncio.run(run())


def test_the_time_while_a_recorder_was_closed_is_a_gap(tmp_path: Path) -> None:
    async def run() -> None:
        url = sqlite_url(tmp_path)
        async with recorder(url):
            pass
        async with recorder(url) as made:
            assert [gap["reason"] for gap in await gaps(made)] == ["closed"]

    asyncio.run(run())


def test_two_recorders_cannot_share_a_store(tmp_path: Path) -> None:
    async def run() -> None:
        url = sqlite_url(tmp_path)
        async with recorder(url):
            with pytest.raises(StoreError, match="in use by another recorder"):
                async with recorder(url):
                    pass

    asyncio.run(run())


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        url = sqlite_url(tmp_path)
        async with recorder(url):
            pass
        with sqlite3.connect(tmp_path / "recording.db") as connection:
            connection.execute("UPDATE facts SET value = 99 WHERE name = 'version'")
        connection.close()
        with pytest.raises(StoreError, match="version 99"):
            async with recorder(url):
                pass

    asyncio.run(run())


def test_a_store_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "recording.db").write_bytes(b"no database" * 1000)

    async def run() -> None:
        with pytest.raises(StoreError, match="not a database"):
            async with recorder(sqlite_url(tmp_path)):
                pass

    asyncio.run(run())


@pytest.mark.parametrize("url", ["mysql://x/y", "recording.db", "sqlite://", ""])
def test_a_url_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="allowed: sqlite:///absolute/path"):
        open_recorder(url)
