"""Exports of a recording: Perfetto's trace and CSV, parsed as their readers do."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from pathlib import Path
from typing import Any

from control_center.recorder import StoreRecorder
from control_center.recording_port import ExportFormat, Query
from tests.unit.recorder_rig import (
    START_NS,
    block,
    command,
    event,
    formatted,
    push,
    recorder,
    sqlite_url,
    text,
)


async def exported(made: StoreRecorder, form: ExportFormat) -> str:
    return b"".join([piece async for piece in made.export(Query(), form)]).decode()


def trace_of(tmp_path: Path, *pushes: Any) -> list[dict[str, Any]]:
    """Records batches, exports a trace and returns its events."""

    async def run() -> list[dict[str, Any]]:
        async with recorder(sqlite_url(tmp_path)) as made:
            for one in pushes:
                made.record_batch(one, "a")
            await made.flush()
            trace = json.loads(await exported(made, "perfetto"))
        assert set(trace) == {"displayTimeUnit", "traceEvents"}
        found: list[dict[str, Any]] = trace["traceEvents"]
        return found

    return asyncio.run(run())


def slices(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in events if one["ph"] == "X"]


def test_blocks_are_slices_of_their_elements_thread(tmp_path: Path) -> None:
    events = trace_of(
        tmp_path,
        push(block(1, 7, 0, begin=True), block(3, 7, 0, begin=False, last=2_000_000), dictionary={"1000": "saxpy"}),
        push(block(2, 7, 1, begin=True, pe=1), block(4, 7, 1, begin=False, pe=1, last=2_000_000), pe=1),
    )
    first, second = slices(events)
    assert (first["name"], first["ts"], first["dur"]) == ("saxpy", (START_NS + 1_000_000) / 1e3, 2000.0)
    assert first["args"] == {"block": 0, "launch": 7, "duration_ns": 2_000_000}
    assert first["pid"] == second["pid"]
    assert first["tid"] != second["tid"]
    names = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == "thread_name"}
    assert names[first["pid"], first["tid"]] == "PE 0"
    assert names[second["pid"], second["tid"]] == "PE 1"
    assert [one["args"]["name"] for one in events if one["name"] == "process_name"] == ["a/cpu/web1"]


def test_blocks_that_run_at_once_on_one_element_have_tracks_of_their_own(tmp_path: Path) -> None:
    begins = [block(1 + n / 10, 1, n, begin=True) for n in range(3)]
    ends = [block(5 + n / 10, 1, n, begin=False, last=4_000_000) for n in range(3)]
    found = slices(trace_of(tmp_path, push(*begins, *ends)))
    assert len({one["tid"] for one in found}) == 3
    again = slices(
        trace_of(tmp_path / "again", push(begins[0], ends[0], block(6, 1, 1, begin=True), block(7, 1, 1, begin=False)))
    )
    assert len({one["tid"] for one in again}) == 1


def test_a_block_without_its_begin_or_end_is_still_exported(tmp_path: Path) -> None:
    events = trace_of(tmp_path, push(block(5, 1, 0, begin=False, last=3_000_000), block(6, 1, 1, begin=True)))
    (whole,) = slices(events)
    assert whole["dur"] == 3000.0
    (open_,) = [one for one in events if one["ph"] == "i"]
    assert open_["args"] == {"launch": 1, "block": 1, "end": "not recorded"}


def test_begins_without_ends_do_not_fill_memory(tmp_path: Path) -> None:
    events = trace_of(tmp_path, push(*(block(n / 100, n, 0, begin=True) for n in range(500))))
    assert sum(one["ph"] == "i" for one in events) == 500


def test_prints_logs_events_and_commands_are_instants(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            made.record_batch(push(text(1, "hello"), formatted(2, 0x10, 5), dictionary={"10": "n=%d"}), "a")
            made.record_event(event(3, "fault", "web1", pe=0), "a")
            made.record_command(command(4, "send", vm="web1", data=b"\xff", odd={7: float("nan")}))
            made.record_load(
                {
                    "time_ns": START_NS,
                    "host": 0.5,
                    "gpus": {},
                    "vms": {"web1": 0.25},
                    "gpu_pes_used": {},
                    "vm_pes_used": {"web1": 1.0},
                    "pes": {"web1": b"\x40"},
                },
                "a",
            )
            await made.flush()
            events = json.loads(await exported(made, "perfetto"))["traceEvents"]
        instants = [one["name"] for one in events if one["ph"] == "i"]
        assert instants == ["stdio: hello", "log: n=5", "fault", "command send"]
        fault, sent = (one["args"] for one in events if one["ph"] == "i" and one["cat"] in ("event", "command"))
        assert fault == {"pe": 0}
        assert sent["arguments"] == {"vm": "web1", "data": "/w==", "odd": {"7": None}}
        counters = {one["name"]: one["args"] for one in events if one["ph"] == "C"}
        assert counters == {"load": {"host": 0.5}, "load of VMs": {"web1": 0.25}}

    asyncio.run(run())


def test_csv_has_a_line_for_every_entry(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            made.record_batch(push(text(1, 'a "quoted",\nline', sequence=9), text(2, "=HYPERLINK(1)")), "a")
            made.record_event(event(3, "fault", "web1", pe=0), "a")
            made.record_command(command(4, "send", vm="web1", data=b"\xff"))
            await made.flush()
            rows = list(csv.DictReader(io.StringIO(await exported(made, "csv"))))
        assert [row["type"] for row in rows] == ["record", "record", "event", "command"]
        assert (rows[0]["text"], rows[0]["sequence"], rows[0]["time"]) == (
            'a "quoted",\nline',
            "9",
            "2023-11-14T22:13:20.001000000Z",
        )
        assert rows[1]["text"] == "'=HYPERLINK(1)"
        assert json.loads(rows[2]["text"]) == {"pe": 0}
        assert json.loads(rows[3]["text"])["with"] == {"vm": "web1", "data": "/w=="}

    asyncio.run(run())


def test_a_large_export_comes_in_pieces(tmp_path: Path) -> None:
    async def run() -> None:
        async with recorder(sqlite_url(tmp_path)) as made:
            made.record_batch(push(*(text(n / 1000, f"line {n}") for n in range(3000))), "a")
            await made.flush()
            pieces = [piece async for piece in made.export(Query(), "perfetto")]
            assert len(pieces) > 5
            assert len(json.loads(b"".join(pieces))["traceEvents"]) > 3000

    asyncio.run(run())
