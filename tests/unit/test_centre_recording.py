"""Recording, queries, exports and replays, each limited to the VMs that the caller may see."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from control_center.config import RecorderConfig
from control_center.errors import ConfigError
from control_center.recorder import Settings, StoreRecorder
from control_center.recording_port import Query, RecordRow, TimelineBin
from control_center.service import _recorder
from tests.unit.centre_rig import START_NS, Clock, Rig, access_of, rig_of, run, token_file
from virtio_proto.control.shapes import checked


@asynccontextmanager
async def recording(folder: Path, hosts: int = 1) -> AsyncIterator[tuple[Rig, StoreRecorder, dict[str, str]]]:
    """A centre that records, with a token for all VMs and one for h1-vm0."""
    secrets = token_file(folder / "tokens", ("admin", None, None, "root"), ("view", ["h1-vm0"], None, "owner"))
    clock = Clock()
    recorder = StoreRecorder(Settings(f"sqlite:///{folder}/recording.db", now_ns=clock.real_ns))
    await recorder.start()
    try:
        access = access_of(folder / "tokens", clock.real_ns)
        async with rig_of(folder, hosts, access=access, recorder=recorder, clock=clock) as rig:
            rig.secret = secrets["root"]
            yield rig, recorder, secrets
    finally:
        await recorder.close()


async def _something_happens(rig: Rig, recorder: StoreRecorder) -> None:
    """Two seconds of work: records of both VMs' first elements, and a fault of each."""
    await rig.post("/channels", {"selector": "fn=log,pe=0"})
    await rig.until(lambda: ("subscribe", {"records": [1]}) in rig.daemon.asked)
    for vm in ("h1-vm0", "h1-vm1"):
        rig.clock.seconds += 1
        rig.daemon.tick()
        rig.daemon.fault(vm)
    await rig.settle()
    rig.centre.tick()
    await recorder.flush()


def test_everything_is_recorded_without_anybody_listening(tmp_path: Path) -> None:
    async def test() -> None:
        async with recording(tmp_path) as (rig, recorder, _):
            await _something_happens(rig, recorder)
            records = await rig.get("/records")
            checked(records, list[RecordRow], "records")
            assert {(one["vm"], one["time_ns"] - START_NS) for one in records} == {
                (vm, second * 10**9) for vm in ("h1-vm0", "h1-vm1") for second in (1, 2)
            }
            assert [one["pe"] for one in await rig.get("/records", selector="vm=h1-vm1", limit=1)] == [0]
            later = await rig.get("/records", from_ns=START_NS + 2 * 10**9)
            assert len(later) == 2
            commands = await recorder.commands(Query())
            assert [(one["user"], one["verb"], one["error"]) for one in commands] == [("root", "open", None)]
            assert (await rig.get("/self"))["recorder"]["records"] == 4

    run(test())


def test_the_time_line_counts_records_and_exports_have_all(tmp_path: Path) -> None:
    async def test() -> None:
        async with recording(tmp_path) as (rig, recorder, _):
            await _something_happens(rig, recorder)
            bins = await rig.get("/timeline", from_ns=START_NS, to_ns=START_NS + 4 * 10**9, bins=4)
            checked(bins, list[TimelineBin], "timeline")
            assert [one["records"].get("log", 0) for one in bins] == [0, 2, 2, 0]
            perfetto = await rig.ask("GET", "/export", format="perfetto")
            trace = perfetto.body if isinstance(perfetto.body, dict) else json.loads(perfetto.body)
            assert trace["traceEvents"]
            csv = await rig.ask("GET", "/export", format="csv")
            assert csv.body.splitlines()[0].startswith("time_ns")
            wrong = await rig.ask("GET", "/export", format="xls")
            assert (wrong.status, wrong.text) == (400, "format is 'xls'; allowed: perfetto, csv")
            ends_first = await rig.ask("GET", "/records", from_ns=5, to_ns=3)
            assert "before from_ns" in ends_first.text

    run(test())


def test_a_replay_sends_the_same_records_in_order_and_then_end(tmp_path: Path) -> None:
    async def test() -> None:
        async with recording(tmp_path) as (rig, recorder, _):
            await _something_happens(rig, recorder)
            query = {"replay_from_ns": START_NS, "speed": 0, "events": 1}
            async with rig.stream(**query) as stream:
                played: list[dict[str, Any]] = []
                while (message := await stream.next())["type"] != "end":
                    played.append(message)
                records = [one for one in played if one["type"] == "record"]
                fields = get_type_hints(RecordRow).keys() - {"taken"}  # of live records only
                assert [{key: one[key] for key in fields} for one in records] == await rig.get("/records")
                assert [one["vm"] for one in played if one.get("event") == "fault"] == ["h1-vm0", "h1-vm1"]
                times = [one["time_ns"] for one in played]
                assert times == sorted(times)
                assert (await stream.socket.receive()).data == 1000

    run(test())


def test_a_replay_is_paused_sought_and_sped_up_while_it_plays(tmp_path: Path) -> None:
    async def test() -> None:
        async with recording(tmp_path) as (rig, recorder, _):
            await _something_happens(rig, recorder)
            async with rig.stream(replay_from_ns=START_NS, speed=1) as stream:
                await stream.socket.send_json({"replay": {"pause": True, "seek_ns": START_NS + 2 * 10**9, "speed": 0}})
                await stream.socket.send_json({"replay": {"speed": 5000}})
                refused = await stream.next()
                assert (refused["type"], refused["text"]) == (
                    "error",
                    "speed 5000; allowed: 0.1 to 1000, or 0 for as fast as possible",
                )
                await stream.socket.send_json({"replay": {"rewind": True}})
                assert "rewind is no field" in (await stream.next())["text"]
                await stream.socket.send_json({"replay": {"pause": False}})
                times = []
                while (message := await stream.next())["type"] != "end":
                    times.append(message["time_ns"])
                assert len(times) == 2
                assert min(times) >= START_NS + 2 * 10**9

    run(test())


def test_a_replay_has_the_load_on_request(tmp_path: Path) -> None:
    async def test() -> None:
        async with recording(tmp_path) as (rig, recorder, secrets):
            load = {"time_ns": START_NS + 5, "host": 0.5, "gpus": {"0": 0.5}, "vms": {"h1-vm0": 1.0}}
            load |= {"gpu_pes_used": {"0": 2.0}, "vm_pes_used": {"h1-vm0": 2.0}}
            recorder.record_load({**load, "pes": {"h1-vm0": b"\xff"}}, "h1")  # type: ignore[typeddict-item]  # a map of its keys
            await recorder.flush()
            span = {"replay_from_ns": START_NS, "replay_to_ns": START_NS + 10, "speed": 0}
            async with rig.stream(**span, load=1) as stream:
                shown = await stream.next()
                assert shown == {
                    "type": "load",
                    "time_ns": START_NS + 5,
                    "hosts": {"h1": {**load, "pes": {"h1-vm0": "/w=="}}},
                }
            async with rig.stream(**span) as stream:
                assert (await stream.next())["type"] == "end"
            rig.secret = secrets["owner"]
            async with rig.stream(**span, load=1) as stream:
                assert (await stream.next())["type"] == "end", "it is of others' VMs, too"

    run(test())


def test_a_replay_ends_with_its_token(tmp_path: Path) -> None:
    async def test() -> None:
        async with recording(tmp_path) as (rig, recorder, secrets):
            await _something_happens(rig, recorder)
            rig.secret = secrets["owner"]
            async with rig.stream(replay_from_ns=START_NS, speed=1) as stream:
                await stream.socket.send_json({"replay": {"pause": True}})
                (tmp_path / "tokens").write_text("")
                rig.centre.tick()
                closed = await stream.socket.receive()
                assert (closed.data, closed.extra) == (1008, "the token is not valid any more")

    run(test())


def test_an_owner_finds_records_of_their_vm_only(tmp_path: Path) -> None:
    async def test() -> None:
        async with recording(tmp_path) as (rig, recorder, secrets):
            await _something_happens(rig, recorder)
            rig.secret = secrets["owner"]
            assert {one["vm"] for one in await rig.get("/records")} == {"h1-vm0"}
            assert (await rig.get("/self"))["recorder"] is None
            for form in ("csv", "perfetto"):
                answer = await rig.ask("GET", "/export", format=form)
                assert "h1-vm1" not in str(answer.body)
            async with rig.stream(replay_from_ns=START_NS, speed=0, events=1) as stream:
                message = await stream.next()
                while message["type"] != "end":
                    assert message["vm"] == "h1-vm0"
                    message = await stream.next()

    run(test())


def test_a_snapshot_is_recorded(tmp_path: Path) -> None:
    async def test() -> None:
        async with recording(tmp_path) as (rig, recorder, _):
            taken = await rig.post("/snapshots", {"selector": "pe=0"})
            await recorder.flush()
            (kept,) = await recorder.snapshots(Query())
            assert kept["info"] == taken["hosts"]["h1"]

    run(test())


def test_a_malformed_url_of_a_store_is_refused() -> None:
    import contextlib

    async def test() -> None:
        async with contextlib.AsyncExitStack() as stack:
            with pytest.raises(ConfigError, match=r"recorder\.url"):
                await _recorder(RecorderConfig("sqlite"), stack)

    run(test())
