"""The stream: each client gets what it subscribed to, once, and a count of what it missed."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

from control_center.stream import Outbox
from tests.unit.centre_rig import rig_of, run


def test_records_of_a_named_instance_arrive_with_their_text(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            await rig.post("/channels", {"selector": "fn=log,vm=h1-vm0,pe=2"})
            async with rig.stream() as stream:
                await stream.subscribe(instances=["h1/1"])
                await stream.listens(1)
                rig.daemon.tick()
                record = await stream.next()
                assert (record["type"], record["instance"]) == ("record", "h1/1")
                assert (record["vm"], record["pe"], record["fn"], record["level"]) == ("h1-vm0", 2, "log", 4)
                assert record["text"] == f"{rig.daemon.world.kernel(rig.daemon.world.vms['h1-vm0'])}: block 0 done"

    run(test())


def test_a_selector_without_instances_also_matches_later_instances(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig, rig.stream(selector="fn=log,pe=1") as stream:
            await rig.post("/channels", {"selector": "fn=log"})
            await rig.post("/channels", {"selector": "fn=stdio"})
            await stream.listens(1)
            rig.daemon.tick()
            found = {(record["vm"], record["pe"]) for record in [await stream.next(), await stream.next()]}
            assert found == {("h1-vm0", 1), ("h1-vm1", 1)}
            assert ("subscribe", {"records": [2]}) not in rig.daemon.asked

    run(test())


def test_a_daemon_sends_only_records_with_a_subscriber(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            await rig.post("/channels", {"selector": "fn=log"})
            async with rig.stream() as stream:
                await stream.subscribe(instances=["h1/1"])
                await stream.listens(1)
                await stream.subscribe(instances=[])
                await rig.until(lambda: ("unsubscribe", {"records": [1]}) in rig.daemon.asked)
                assert rig.daemon.tick() == 0

    run(test())


def test_events_and_host_changes_arrive(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig, rig.stream(events=1) as stream:
            rig.daemon.fault("h1-vm1", 3)
            event = await stream.next("event")
            assert (event["event"], event["vm"], event["host"]) == ("fault", "h1-vm1", "h1")
            await rig.post("/confine", {"host": "h1", "vm": "h1-vm1", "pes": "0"})
            assert (await stream.next("event"))["event"] == "migration"
            await rig.poll()
            changed = await stream.next("host")
            assert {vm["vm"]: vm["confined_to"] for vm in changed["vms"]} == {"h1-vm0": None, "h1-vm1": [0]}

    run(test())


def test_load_arrives_at_once_and_then_each_tick(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, 2) as rig, rig.stream() as stream:
            await stream.subscribe(load=True)
            first = await stream.next("load")
            assert sorted(first["hosts"]) == ["h1", "h2"]
            rig.clock.seconds += 5
            await rig.poll()
            rig.centre.tick()
            second = await stream.next("load")
            vm = rig.daemon.world.vms["h1-vm0"]
            assert base64.b64decode(second["hosts"]["h1"]["pes"]["h1-vm0"]) == rig.daemon.world.busy(vm).tobytes()
            assert first["hosts"] != second["hosts"]

    run(test())


def test_a_wrong_message_is_answered_with_an_error_and_the_stream_goes_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig, rig.stream() as stream:
            for message, text in (
                ("{", "not JSON"),
                ('{"subscribe": {"colour": 1}}', "message.subscribe.colour is no field"),
                ('{"subscribe": {"instances": ["1"]}}', "allowed: host/number"),
                ('{"subscribe": {"instances": ["h9/1"]}}', "no host h9"),
            ):
                await stream.socket.send_str(message)
                told = await stream.next("error")
                assert text in told["text"]
            await stream.subscribe(load=True)
            assert (await stream.next())["type"] == "load"

    run(test())


def test_a_torn_batch_is_shown_as_torn(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            await rig.post("/channels", {"selector": "fn=log,pe=0,vm=h1-vm0"})
            async with rig.stream() as stream:
                await stream.subscribe(instances=["h1/1"])
                await stream.listens(1)
                (push,) = rig.daemon.host.tick({1})
                rig.daemon.push({**push, "data": push["data"][:-9]})
                record = await stream.next()
                assert record["kind"] == "torn"
                assert "left" in record["text"] or "at the end" in record["text"]

    run(test())


def test_a_slow_reader_is_told_how_many_messages_it_missed() -> None:
    async def test() -> None:
        outbox = Outbox(limit_bytes=10)
        for text in ("aaaaa", "bbbbb", "ccccc", "ddddd"):
            outbox.put(text)
        assert [await outbox.get() for _ in range(3)] == ['{"type": "dropped", "count": 2}', "aaaaa", "bbbbb"]
        outbox.put("eeeee")
        assert await outbox.get() == "eeeee"
        assert outbox.dropped_in_all == 2

    asyncio.run(test())


def test_a_stream_that_ends_leaves_nothing_behind(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            async with rig.stream() as stream:
                await stream.subscribe(load=True)
                await stream.next("load")
            await rig.until(lambda: len(rig.centre.hub) == 0)

    run(test())
