"""Workers, and guest code in them, that send impossible values: the daemon still answers all clients, and correctly."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.fakes.api_client import Client
from tests.fakes.control_vm import FakeControlledVm, text
from tests.unit.registry_rig import Rig, rig
from tests.unit.test_control_reader import CHANNEL, GENERATION, PE, Heard, section
from tests.unit.test_control_reader import tell as tell_reader
from tests.waiting import turns_until
from vhost_backend.channels import packets
from vhost_backend.control.api import push_hub
from vhost_backend.control.api.push_hub import Lexicon
from vhost_backend.control.functions.base import MAX_DIGESTED
from vhost_backend.control.instances.instance import Instance
from vhost_backend.control.links.channel_port import Batch, ChannelError, DeviceClock
from vhost_backend.control.links.record_reader import MAX_NAMES, RecordReader
from vhost_backend.log import get_logger
from virtio_proto.control import records
from virtio_proto.control.records import Function, Record

MOST = (1 << 64) - 1


def tell(folder: Path, story: Callable[[Rig, Client], Awaitable[None]], *vms: FakeControlledVm, **config: Any) -> None:
    async def told() -> None:
        async with rig(folder, *vms, **config) as made:
            await story(made, await made.client())

    asyncio.run(told())


def boast(vm: FakeControlledVm) -> None:
    """Has every channel of the VM report the largest record counts that a number can hold."""
    for bound in vm.channels.bound.values():
        binding = bound.binding
        vm.channels.listener.on_batch(
            Batch(binding.channel, binding.generation, MOST, MOST, MOST, MOST, MOST, clock_ns=0, data=b"")
        )


def test_forged_counts_do_not_affect_other_vms(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        await client.ask("open", selector="fn=log")
        for _ in range(2):
            boast(rig.vms["web1"])
            rig.vms["web1"].channels.lose()
            rig.vms["web1"].channels.come()
            await client.ask("snapshot")
        rig.vms["web2"].channels.emit(0, text(0, "said", function=Function.LOG))
        for totals in (False, True):
            (instance,) = (await client.ask("ls", totals=totals))["instances"]
        assert instance["totals"]["records"] < 1 << 63
        (instance,) = (await client.ask("ls"))["instances"]
        assert [item["records"] for item in instance["channels"] if item["vm"] == "web2"] == [1, 0]
        assert (await client.ask("self"))["lost"] < 1 << 63

    tell(tmp_path, story)


def test_forged_clock_error_does_not_affect_other_vms(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        listener = rig.vms["web1"].channels.listener
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reader = RecordReader(ours, get_logger(vm="web1"))
        reader.begin(listener, 4)
        with theirs:
            theirs.send(packets.device_state(packets.DEVICE.pack(MOST - 1, 1, 4, 0)))
            reader.drain()
            reader.close()
        shown = {vm["vm"]: vm["clock_error_ns"] for vm in (await client.ask("topology"))["vms"]}
        assert 1 << 62 <= shown["web1"] < 1 << 63
        assert shown["web2"] is None

    tell(tmp_path, story)


def test_worker_that_reports_ever_more_elements_costs_few_passes_over_instances(tmp_path: Path) -> None:
    """Each report that the daemon handles costs a pass over all instances, so it handles them now and then only."""

    async def story(rig: Rig, client: Client) -> None:
        await client.ask("open", selector="vm=web1,fn=log")
        channels, side = rig.vms["web1"].channels, rig.system.registry.sides["web1"]
        looks: list[int] = []
        attach = side.table.attach_what_fits

        def counted(instance: Instance, pes: Sequence[int]) -> None:
            looks.append(len(pes))
            attach(instance, pes)

        side.table.attach_what_fits = counted  # type: ignore[method-assign]
        for pes in range(5, 1000):
            channels.number(pes, DeviceClock(1000, 1))
        assert looks == []
        await turns_until(lambda: len(channels.bound) == 999)
        channels.number(1000, DeviceClock(1000, 1))
        await client.ask("topology")
        assert looks == [999]

    tell(tmp_path, story)


def test_device_state_from_a_lost_worker_causes_no_warning(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        channels = rig.vms["web1"].channels
        with structlog.testing.capture_logs() as logged:
            channels.lose()
            channels.listener.on_device(DeviceClock(1000, 1), 4)
            (shown, *_) = (await client.ask("topology"))["vms"]
        assert shown["clock_error_ns"] is None
        assert not [event for event in logged if event["event"] == "elements_unseen"]

    tell(tmp_path, story)


def test_worker_that_never_answers_does_not_delay_the_expiry_of_others(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        await client.ask("subscribe", events=True)
        for vm, ttl_s in (("web1", 10), ("web2", 20)):
            await client.ask("open", selector=f"vm={vm},fn=log", ttl_s=ttl_s)
        channels = rig.vms["web1"].channels
        channels.hold = asyncio.Event()
        rig.clock.pass_s(10)
        stuck = asyncio.ensure_future(rig.system.registry.expire())
        await client.ask("topology")
        rig.clock.pass_s(10)
        await rig.system.registry.expire()
        assert (await client.event("expired"))["vm"] == "web2"
        assert not stuck.done()
        channels.hold.set()
        assert (await client.event("expired"))["vm"] == "web1"
        await stuck

    tell(tmp_path, story)


@pytest.mark.parametrize("answer", [None, ChannelError("it did not want to")])
def test_answer_of_a_dying_worker_does_not_keep_channels_from_the_next_one(
    tmp_path: Path, answer: Exception | None
) -> None:
    """The answer counts for that worker only: the next one gets every channel."""

    async def story(rig: Rig, client: Client) -> None:
        channels = rig.vms["web1"].channels
        asked, answered = asyncio.Event(), asyncio.Event()
        by_the_next = channels.open

        async def by_the_first(*_what: Any) -> None:
            channels.open = by_the_next  # type: ignore[method-assign]
            asked.set()
            await answered.wait()
            if answer is not None:
                raise answer

        channels.open = by_the_first  # type: ignore[method-assign,assignment]
        opening = asyncio.ensure_future(client.ask("open", selector="vm=web1,fn=log"))
        await asked.wait()
        answered.set()
        channels.lose()
        channels.come()
        assert len((await opening)["channels"]) == 4
        assert [bound.binding.pe for bound in channels.bound.values()] == [0, 1, 2, 3]
        channels.emit(2, text(2, "said", function=Function.LOG))
        (instance,) = (await client.ask("ls"))["instances"]
        assert [channel["records"] for channel in instance["channels"]] == [0, 0, 1, 0]

    tell(tmp_path, story)


@pytest.mark.parametrize("verb", ["close", "open"])
def test_commands_during_a_slow_answer_reach_the_worker_afterwards(tmp_path: Path, verb: str) -> None:
    async def story(rig: Rig, client: Client) -> None:
        channels, other = rig.vms["web1"].channels, await rig.client()
        first = (await client.ask("open", selector="vm=web1,pe=0,fn=log", slots=64))["instance"]
        second = (await client.ask("open", selector="vm=web1,pe=1,fn=log", slots=64))["instance"]
        channels.hold = asyncio.Event()
        closing = asyncio.ensure_future(client.ask("close", instance=first))
        while len((await other.ask("ls"))["instances"]) != 1:
            pass
        fields = {"instance": second} if verb == "close" else {"selector": "vm=web1,pe=1,fn=log", "slots": 256}
        meanwhile = asyncio.ensure_future(other.ask(verb, **fields))
        third = await rig.client()
        while len((await third.ask("ls"))["instances"]) != {"close": 0, "open": 2}[verb]:
            pass
        channels.hold.set()
        await closing
        await meanwhile
        slots = [bound.terms.slots for bound in channels.bound.values()]
        assert slots == {"close": [], "open": [256]}[verb]

    tell(tmp_path, story)


@pytest.mark.parametrize(
    ("fn", "event", "told", "record"),
    [
        ("perf", "threshold", MAX_DIGESTED, (4, struct.pack("<Qdd", 64, float("nan"), 1.0))),
        ("stdio", "wants_input", 1, (3, struct.pack("<Q", 8))),
        ("fault", "fault", MAX_DIGESTED, (1, struct.pack("<Q", 300) + b"text")),
    ],
)
def test_flood_of_records_makes_few_events(
    tmp_path: Path, fn: str, event: str, told: int, record: tuple[int, bytes]
) -> None:
    async def story(rig: Rig, client: Client) -> None:
        instance = (await client.ask("open", selector=f"vm=web1,pe=0,fn={fn}", level=5))["instance"]
        await client.ask("subscribe", records=[instance], events=True)
        kind, payload = record
        function = Function[fn.upper()]
        flood = [Record(MOST, function, 1, kind, 0, 0, 0, at, payload + b"%d" % at) for at in range(1000)]
        rig.vms["web1"].channels.emit(0, *flood)
        events = 0
        while (push := await client.read())["push"] != "records":
            events += push["event"] == event
        assert len(list(records.unpack(push["data"]))) == 1000
        assert events == told

    tell(tmp_path, story)


def test_forged_times_in_a_snapshot_are_bounded_by_it() -> None:
    async def story(reader: RecordReader, worker: socket.socket, _heard: Heard) -> None:
        states = b"".join(
            packets.STATE.pack(pe, 1, 0, 8, 0x50, 2, 3, time_ns, time_ns, time_ns)
            for pe, time_ns in ((0, MOST), (0, 5), (1, 0), (1, MOST), (2, MOST >> 1))
        )
        with reader.snapshot(5) as seen:
            for packet in packets.snapshot(5, 1, 2, states):
                worker.send(packet)
            reader.drain()
        assert [state.pe for state in seen] == [0, 1, 2], "each element once"
        times = [state.at_ns for state in seen]
        assert max(times) - min(times) < 10**9
        assert all(state.since_ns <= state.at_ns and state.last_record_ns <= state.at_ns for state in seen)

    tell_reader(story)


def test_one_drain_reads_no_more_than_had_arrived() -> None:
    async def story(reader: RecordReader, worker: socket.socket, heard: Heard) -> None:
        def more(batch: Batch) -> None:
            heard.batches.append(batch)
            worker.send(b"R" + section(CHANNEL, GENERATION))

        heard.on_batch = more  # type: ignore[method-assign]  # each batch that is read causes a further batch
        for _ in range(3):
            worker.send(b"R" + section(CHANNEL, GENERATION))
        reader.drain()
        assert len(heard.batches) == 3

    tell_reader(story)


def test_figures_have_no_future_time() -> None:
    async def story(reader: RecordReader, worker: socket.socket, heard: Heard) -> None:
        worker.send(packets.figures_head(MOST) + packets.FIGURES.pack(PE, 0, 0, 0, *[MOST] * 6))
        reader.drain()
        assert heard.figures_ns <= time.time_ns() + 10**9

    tell_reader(story)


def test_more_figures_than_the_limits_are_refused() -> None:
    most = packets.FIGURES.pack(PE, packets.MAX_COUNTERS, packets.MAX_GAUGES, 0, *[MOST] * 6)
    body = struct.pack("<QQ", 64, 1) * (packets.MAX_COUNTERS + packets.MAX_GAUGES)
    assert isinstance(packets.parse(packets.figures_head(1) + most + body), packets.Figures)
    for counters, gauges in ((packets.MAX_COUNTERS + 1, 0), (0, packets.MAX_GAUGES + 1)):
        one = packets.FIGURES.pack(PE, counters, gauges, 0, *[0] * 6) + struct.pack("<QQ", 64, 1) * (counters + gauges)
        with pytest.raises(packets.PacketError, match="allowed: 24 and 8"):
            packets.parse(packets.figures_head(1) + one)


def test_only_the_last_names_of_counters_are_kept() -> None:
    async def story(reader: RecordReader, worker: socket.socket, heard: Heard) -> None:
        for start in range(0, MAX_NAMES + 256, 256):
            (packet,) = packets.texts({start + at + 1: f"n{start + at + 1}" for at in range(256)})
            worker.send(packet)
            reader.drain()
        named = struct.pack("<QqQq", 1, 0, MAX_NAMES + 256, 0)
        worker.send(packets.figures_head(1) + packets.FIGURES.pack(PE, 2, 0, 0, *[0] * 6) + named)
        reader.drain()
        assert set(heard.figures[-1].counters) == {"<0x1>", f"n{MAX_NAMES + 256}"}

    tell_reader(story)


def test_lexicon_is_bounded_and_keeps_the_latest_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_hub, "MAX_TEXTS", 4)
    monkeypatch.setattr(push_hub, "MAX_TEXTS_CHARS", 10)
    lexicon = Lexicon()
    for address in range(1, 10):
        lexicon.add({address: f"t{address}"})
    assert len(lexicon) == 9
    assert lexicon.names == {6: "t6", 7: "t7", 8: "t8", 9: "t9"}
    assert lexicon.since(8) == {"9": "t9"}
    assert set(lexicon.since(0)) == {"6", "7", "8", "9"}
    lexicon.add({6: "other"})
    assert lexicon.since(9) == {"6": "other"}
    assert lexicon.names == {8: "t8", 9: "t9", 6: "other"}, "at most ten characters"
    lexicon.add({6: "other"})
    assert len(lexicon) == 10, "it is known"
    lexicon.add({11: "x" * 5000})
    assert lexicon.names == {}, "longer than all may be"
