"""Attacks on the recorder: by lying daemons, by guests, by damage to a store."""

from __future__ import annotations

import asyncio
import csv
import io
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from control_center.recorder import StoreRecorder, entry, rows
from control_center.recorder.dialect import without_password
from control_center.recorder.texts import MAX_CHARS, MAX_TOTAL_CHARS, MAX_VM_CHARS, KnownTexts
from control_center.recording_port import Query
from tests.unit.recorder_rig import (
    SECOND,
    START_NS,
    Clock,
    command,
    event,
    events,
    formatted,
    push,
    recorder,
    sqlite_url,
    text,
)

DAY = 24 * 3600 * SECOND
LAST = 2**63 - 1


async def texts(made: StoreRecorder) -> list[str]:
    await made.flush()
    return [row["text"] for row in await made.query(Query(), 1000)]


def test_numbers_that_no_store_takes_affect_no_other_entries(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            for number in (2**64 - 1, -(2**63), 2**63):
                lie: Any = {**push(text(1, "lie")), "lost": number, "clock_ns": number, "pe": number, "channel": number}
                made.record_batch(lie, "a")
            made.record_batch(push(text(2, "truth")), "a")
            assert (await texts(made)).count("truth") == 1
            assert sum(piece["lost"] for piece in await made.timeline(Query(), 10)) <= 3 * entry.MAX_LOST

    asyncio.run(run())


def test_entries_that_cannot_be_written_become_a_gap(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            bad: Any = {**push(text(1, "bad")), "vm": "\ud800"}
            made.record_batch(bad, "a")
            assert await texts(made) == []
            made.record_batch(push(text(2, "good")), "a")
            assert await texts(made) == ["good"]
            (gap,) = [row["detail"] for row in await events(made)]
            assert (gap["reason"], gap["entries"]) == ("unwritable", 1)

    asyncio.run(run())


def test_events_with_forged_times_are_pruned_by_their_time_of_arrival(tmp_path: Path) -> None:
    async def run() -> None:
        clock = Clock()
        async with recorder(sqlite_url(tmp_path), clock, retention_s=86400.0, prune_s=0.001) as made:
            for time_ns in (0, LAST, -5, 2**64 - 1):
                made.record_event({**event(0, "worker_ready", "web1"), "time_ns": time_ns}, "a")
            await made.flush()
            assert (made.status()["first_ns"], made.status()["last_ns"]) == (START_NS, START_NS)
            clock.now += 2 * DAY
            made.record_event({**event(0, "later"), "time_ns": clock.now}, "a")
            await made.flush()
            clock.now += SECOND
            made.record_event({**event(0, "last"), "time_ns": clock.now}, "a")
            await made.flush()
            assert [row["event"] for row in await events(made)] == ["later", "last"]

    asyncio.run(run())


def test_overlong_events_and_commands_are_cut_and_counted(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            made.record_event(event(1, "fault", "web1", text="x" * 5_000_000), "a")
            made.record_command(command(2, "stage_firmware", image=b"\0" * 5_000_000, selector="vm=web1"))
            await made.flush()
            (found,) = await events(made)
            assert found["detail"]["left_out_bytes"] > 5_000_000
            (done,) = await made.commands(Query())
            assert (done["arguments"]["image"]["bytes"], done["arguments"]["selector"]) == (5_000_000, "vm=web1")
            assert sum([len(piece) async for piece in made.export(Query(), "csv")]) < 5000

    asyncio.run(run())


def test_ever_new_texts_count_against_the_size_limit(tmp_path: Path) -> None:
    async def run() -> None:
        bound = 200_000
        async with recorder(sqlite_url(tmp_path), size_bytes=bound, prune_s=0.001) as made:
            for step in range(40):
                made.record_batch(push(formatted(step, 0x10), dictionary={"0x10": f"{step} " + "y" * 20_000}), "a")
                await made.flush()
            assert 0 < made.status()["bytes"] <= bound
            with sqlite3.connect(tmp_path / "recording.db") as store:
                kept = store.execute("SELECT SUM(LENGTH(text)) FROM texts").fetchone()[0]
            assert kept <= bound
            assert (await made.query(Query(), 1))[0]["text"].startswith("39 y")

    asyncio.run(run())


def test_a_guest_that_floods_texts_takes_no_room_of_others() -> None:
    known = KnownTexts()
    many = {hex(number): "z" * MAX_CHARS for number in range(MAX_VM_CHARS // MAX_CHARS + 100)}
    assert len(list(known.learn(("a", "hostile"), many))) == MAX_VM_CHARS // MAX_CHARS
    assert known.left_out == 100
    assert list(known.learn(("a", "web1"), {"0x1": "fine"})) == [(1, "fine")]


def test_texts_of_ever_new_vms_take_the_room_of_those_that_have_left() -> None:
    known = KnownTexts()
    texts = {hex(number): "z" * MAX_CHARS for number in range(MAX_VM_CHARS // MAX_CHARS)}
    vms = MAX_TOTAL_CHARS // MAX_VM_CHARS
    for number in range(2 * vms):
        assert len(list(known.learn(("a", f"vm{number}"), texts))) == len(texts)
        assert not list(known.learn(("a", "vm0"), {hex(1): "z" * MAX_CHARS})), "it speaks all the time"
    assert known.left_out == 0
    assert not list(known.learn(("a", f"vm{2 * vms - 1}"), texts))
    assert len(list(known.learn(("a", "vm1"), texts))) == len(texts), "it was forgotten, and is stored again"


@pytest.mark.parametrize("bounds", [(LAST, None), (LAST, LAST), (0, LAST), (0, 0), (None, 0), (LAST, 0)])
def test_any_time_range_can_be_queried(tmp_path: Path, bounds: tuple[int | None, int | None]) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            made.record_batch(push(text(1, "x")), "a")
            await made.flush()
            query = Query(from_ns=bounds[0], to_ns=bounds[1])
            assert len(await made.timeline(query, 7)) == 7
            await made.query(query, 10)
            assert [piece async for piece in made.export(query, "csv")]

    asyncio.run(run())


def test_a_damaged_entry_affects_no_other_entry(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            for number in range(3):
                made.record_batch(push(text(number, f"{number}")), "a")
            made.record_event(event(5, "fault", "web1", x="y" * 1000), "a")
            made.record_command(command(6, "open", selector="fn=log"))
            made.record_load(
                {
                    "time_ns": START_NS,
                    "host": 0.5,
                    "gpus": {},
                    "vms": {"web1": 0.5},
                    "gpu_pes_used": {},
                    "vm_pes_used": {"web1": 1.0},
                    "pes": {"web1": bytes(99)},
                },
                "a",
            )
            await made.flush()
        with sqlite3.connect(tmp_path / "recording.db") as store:
            store.execute("UPDATE entries SET body = x'0142' WHERE id = 2 OR kind > 1")
        async with recorder(sqlite_url(tmp_path)) as made:
            assert await texts(made) == ["0", "2"]
            assert {"damaged": "this entry of the recording is damaged"} in [
                row["detail"] for row in await events(made)
            ]
            for form in ("csv", "perfetto"):
                assert b"".join([piece async for piece in made.export(Query(), form)])

    asyncio.run(run())


HOSTILE = ["a\r=cmd|x", "=1+1", "a\n=1", "\0=1", "\u202e=1", "  +1", "\t-1", "\uff1d1", "@x", 'a"\n"=1', "\r=1"]


def test_no_text_in_csv_is_a_spreadsheet_formula(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            for number, words in enumerate(HOSTILE):
                made.record_batch(push(text(number, words)), "a")
            await made.flush()
            whole = b"".join([piece async for piece in made.export(Query(), "csv")]).decode()
            lines = list(csv.reader(io.StringIO(whole, newline="")))
            assert {len(line) for line in lines} == {len(lines[0])}
            cells = [line[-1] for line in lines[1:]]
            assert len(cells) == len(HOSTILE)
            assert [cell.lstrip("'") for cell in cells] == HOSTILE
            assert not [cell for cell in cells if cell.lstrip("\0\t\r\n \u202e")[:1] in tuple("=+-@\uff1d")]

    asyncio.run(run())


def test_sorting_records_by_time_holds_a_bounded_amount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_HELD_BYTES", 20_000)
    held: list[int] = []
    advance = rows._advance

    def watched(open_: Any) -> Any:
        held.append(sum(one[2].entry.size for one in open_))
        return advance(open_)

    monkeypatch.setattr(rows, "_advance", watched)

    async def run() -> None:
        async with recorder(sqlite_url(tmp_path), Clock(START_NS + 1800 * SECOND)) as made:
            for number in range(100):
                late = text(1_700_000, "late" * 200)
                made.record_batch(push(text(number, "early"), late), "a")
            await made.flush()
            count = sum([1 async for _ in made.replay(Query())])
        assert count == 200
        assert max(held) < 25_000

    asyncio.run(run())


def test_a_clock_that_is_set_back_does_not_stop_pruning(tmp_path: Path) -> None:
    async def run() -> None:
        clock = Clock(START_NS + 100 * DAY)
        async with recorder(sqlite_url(tmp_path), clock, retention_s=60.0, prune_s=30.0) as made:
            await made.flush()
            clock.now = START_NS
            made.record_batch(push(text(0, "old")), "a")
            await made.flush()
            clock.now = START_NS + 200 * SECOND
            made.record_batch(push(text(200_000, "new")), "a")
            await made.flush()
            made.record_batch(push(text(200_001, "newer")), "a")
            assert await texts(made) == ["new", "newer"]

    asyncio.run(run())


def test_a_password_anywhere_in_a_url_is_not_shown() -> None:
    for url in (
        "postgresql://u:secret@h/d",
        "postgresql://h/d?user=u&password=secret",
        "postgresql://h/d?sslpassword=secret",
    ):
        assert "secret" not in without_password(url)
