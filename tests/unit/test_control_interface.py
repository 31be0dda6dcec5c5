"""The control interface over fake VMs, through its API: instances, channels, records, refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.api_client import Client
from tests.fakes.control_vm import FakeControlledVm, text
from tests.unit.registry_rig import Rig, rig
from tests.waiting import turns_until
from vhost_backend.control.links.channel_port import Batch, DeviceClock
from virtio_proto.control import records
from virtio_proto.control.records import Function, Level

Story = Callable[[Rig, Client], Awaitable[None]]


def tell(folder: Path, story: Story, *vms: FakeControlledVm, **config: Any) -> None:
    """Runs a test's story with a rig and a client of the daemon's own user."""

    async def told() -> None:
        async with rig(folder, *vms, **config) as made:
            await story(made, await made.client())

    asyncio.run(told())


def texts(push: dict[str, Any]) -> list[str]:
    return [records.describe(record, {}) for record in records.unpack(push["data"])]


# ---- opening and closing -------------------------------------------------------------------------


def test_open_binds_a_channel_on_every_chosen_element(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        opened = await client.ask("open", selector="vm=web1,pe=1-2,fn=stdio")
        assert [(c["vm"], c["pe"]) for c in opened["channels"]] == [("web1", 1), ("web1", 2)]
        assert sorted(b.binding.pe for b in rig.vms["web1"].channels.bound.values()) == [1, 2]
        assert not rig.vms["web2"].channels.bound

    tell(tmp_path, story)


def test_closed_instance_leaves_nothing(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        opened = await client.ask("open", selector="fn=perf")
        last = await client.ask("close", instance=opened["instance"])
        assert len(last["channels"]) == 6
        assert not any(vm.channels.bound for vm in rig.vms.values())
        assert (await client.ask("ls"))["instances"] == []

    tell(tmp_path, story)


def test_selector_of_a_close_may_name_functions_and_vms_only(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        await client.ask("open", selector="vm=web1,fn=log")
        await client.ask("open", selector="vm=web2,fn=log")
        for part in ("pe=0,fn=log", "gpu=0,fn=log"):
            error = await client.refusal("close", selector=part)
            assert (error.kind, "vm and fn: an instance is closed whole" in str(error)) == ("malformed", True)
        assert len((await client.ask("close", selector="vm=web1,fn=log"))["closed"]) == 1
        assert len((await client.ask("ls"))["instances"]) == 1
        assert rig.vms["web2"].channels.bound

    tell(tmp_path, story)


def test_records_left_in_a_channel_reach_the_closed_instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(rig: Rig, client: Client) -> None:
        channels = rig.vms["web1"].channels
        opened = await client.ask("open", selector="vm=web1,pe=0,fn=stdio")
        await client.ask("subscribe", records=[opened["instance"]])
        release = channels.close

        async def drained(numbers: Sequence[int]) -> None:
            channels.emit(0, text(0, "last words"))
            await release(numbers)

        monkeypatch.setattr(channels, "close", drained)
        await client.ask("close", instance=opened["instance"])
        assert texts(await client.push("records")) == ["last words"]
        assert not rig.system.hub._kept  # no records are kept for a closed instance

    tell(tmp_path, story)


def test_instances_share_a_channel_at_the_highest_level(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        channels = rig.vms["web1"].channels
        first = await client.ask("open", selector="vm=web1,pe=0,fn=log", level=Level.ERROR)
        second = await client.ask("open", selector="vm=web1,pe=0,fn=log", level=Level.DEBUG)
        assert first["channels"][0]["channel"] == second["channels"][0]["channel"]
        assert channels.on(0, Function.LOG).terms.level == Level.DEBUG
        await client.ask("close", instance=second["instance"])
        assert channels.on(0, Function.LOG).terms.level == Level.ERROR

    tell(tmp_path, story)


def test_each_instance_gets_records_up_to_its_level(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        few = (await client.ask("open", selector="vm=web1,pe=0,fn=log", level=Level.ERROR))["instance"]
        all_of_them = (await client.ask("open", selector="vm=web1,pe=0,fn=log", level=Level.DEBUG))["instance"]
        await client.ask("subscribe", records=[few, all_of_them])
        said = [text(0, word, level, Function.LOG, 9) for word, level in (("aaaaaaaa", 5), ("bbbbbbbb", 2))]
        rig.vms["web1"].channels.emit(0, *said)
        got = {push["instance"]: push for push in (await client.push("records"), await client.push("records"))}
        assert [record.level for record in records.unpack(got[few]["data"])] == [2]
        assert [record.level for record in records.unpack(got[all_of_them]["data"])] == [5, 2]
        assert (got[few]["records"], got[all_of_them]["records"]) == (1, 2), "records that each was to get"

    tell(tmp_path, story)


def test_pushes_number_the_records_of_a_channel_over_all_its_workers(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        instance = (await client.ask("open", selector="vm=web1,pe=0,fn=perf"))["instance"]
        await client.ask("subscribe", records=[instance])
        channels = rig.vms["web1"].channels
        channels.emit(0, text(0, "12345678", 4, Function.PERF, 3), text(0, "12345678", 4, Function.PERF, 3))
        first = await client.push("records")
        assert (first["fn"], first["records"], first["opened_ns"] > 0) == ("perf", 2, True)
        torn = channels.on(0, Function.PERF).binding
        channels.listener.on_batch(Batch(torn.channel, torn.generation, 7, 0, 0, 0, 0, 0, b"\xff" * 24))
        channels.listener.on_batch(Batch(torn.channel, torn.generation, 8, 0, 0, 0, 0, 0, first["data"][:32]))
        assert (await client.push("records"))["records"] == 8, "five of a malformed batch never come"
        channels.lose()
        channels.come()
        await turns_until(
            lambda: (0, Function.PERF) in {(one.binding.pe, one.function) for one in channels.bound.values()}
        )
        channels.emit(0, text(0, "12345678", 4, Function.PERF, 3))
        again = await client.push("records")
        assert (again["records"], again["opened_ns"]) == (9, first["opened_ns"])

    tell(tmp_path, story)


def test_records_before_the_first_subscription_are_kept(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        instance = (await client.ask("open", selector="vm=web1,pe=0,fn=stdio"))["instance"]
        rig.vms["web1"].channels.emit(0, text(0, "early"), texts={0x40: "%d"})
        await client.ask("subscribe", records=[instance])
        push = await client.push("records")
        assert texts(push) == ["early"]
        assert push["dictionary"] == {"40": "%d"}

    tell(tmp_path, story)


def test_refused_channel_undoes_the_whole_command(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        rig.vms["web2"].channels.refuse["open"] = "no room in the area"
        error = await client.refusal("open", selector="fn=stdio")
        assert error.kind == "failed"
        assert "no room in the area" in str(error)
        assert (await client.ask("ls"))["instances"] == []
        del rig.vms["web2"].channels.refuse["open"]
        await client.ask("open", selector="vm=web1,fn=stdio")
        assert len(rig.vms["web1"].channels.bound) == 4

    tell(tmp_path, story)


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({"selector": "vm=web9,fn=stdio"}, "unknown", "no VM web9; there is: web1, web2"),
        ({"selector": "gpu=7,fn=stdio"}, "unknown", "no GPU 7 with VM *; there is: cpu"),
        ({"selector": "vm=web2,pe=2-9,fn=stdio"}, "unknown", "there is: web2: 0-1"),
        ({"selector": "pe=0"}, "malformed", "fn must name one function"),
        ({"selector": "fn=telepathy"}, "malformed", "fn='telepathy'; allowed: stdio, perf"),
        ({"selector": "fn=stdio", "level": 9}, "malformed", "open: level is 9; allowed: an integer of 1 to 5"),
        ({"selector": "fn=stdio", "policy": "pray"}, "malformed", "open: policy is 'pray'; allowed: drop-new or"),
        ({"selector": "fn=stdio", "period_ms": 5}, "malformed", "stdio has no period"),
        ({"selector": "fn=perf", "period_ms": 5}, "malformed", "open: period_ms is 5; allowed: 0 for once, or 10"),
        ({"selector": "fn=stdio", "keep": True}, "malformed", "keep without ttl_s"),
        (
            {"selector": "fn=stdio", "colour": 1},
            "malformed",
            "open: colour is no field; allowed: selector, level, policy",
        ),
        ({"selector": 7}, "malformed", "open: selector is 7"),
    ],
)
def test_wrong_open_is_refused(tmp_path: Path, fields: dict[str, Any], kind: str, words: str) -> None:
    async def story(rig: Rig, client: Client) -> None:
        error = await client.refusal("open", **fields)
        assert error.kind == kind
        assert words in str(error)
        assert not any(vm.channels.bound for vm in rig.vms.values())

    tell(tmp_path, story)


def test_channels_beyond_the_quota_are_refused_and_nothing_else_is_disturbed(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        await client.ask("open", selector="vm=web1,fn=stdio")
        error = await client.refusal("open", selector="vm=web1,pe=0-1,fn=log")
        assert error.kind == "quota"
        assert "2 more channels, where 4 are open, and 1 are left; allowed: 5 for each VM" in str(error)
        assert "the host's operator may raise: control.channels" in str(error)
        await client.ask("open", selector="vm=web1,pe=0,fn=log")
        assert len(rig.vms["web1"].channels.bound) == 5

    tell(tmp_path, story, channels=5)


# ---- workers come and go -------------------------------------------------------------------------


def test_instances_survive_their_worker(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        channels = rig.vms["web1"].channels
        instance = (await client.ask("open", selector="vm=web1,pe=0,fn=stdio"))["instance"]
        await client.ask("subscribe", records=[instance], events=True)
        channels.emit(0, text(0, "before"))
        generation = channels.on(0, Function.STDIO).binding.generation
        channels.lose()
        channels.come()
        await client.event("worker_ready")
        (info,) = (await client.ask("ls"))["instances"]
        assert info["channels"][0]["records"] == 1
        assert channels.on(0, Function.STDIO).binding.generation > generation
        channels.emit(0, text(0, "after"))
        assert texts(await client.push("records")) == ["after"]

    tell(tmp_path, story)


def test_vm_without_a_worker_gets_its_channels_when_one_is_ready(tmp_path: Path) -> None:
    vm = FakeControlledVm("late", 3, ready=False, gpu="")

    async def story(_rig: Rig, client: Client) -> None:
        opened = await client.ask("open", selector="vm=late,gpu=cpu,pe=1-9,fn=stdio")
        assert opened["channels"] == []
        await client.ask("subscribe", events=True)
        vm.gpu = "cpu"
        vm.channels.come()
        await client.event("worker_ready")
        assert [b.binding.pe for b in vm.channels.bound.values()] == [1, 2]

    tell(tmp_path, story, vm)


def test_elements_that_a_device_reports_later_get_their_channels(tmp_path: Path) -> None:
    """A device's element numbers may have gaps, and so go beyond the number of its elements."""

    async def story(rig: Rig, client: Client) -> None:
        channels = rig.vms["web1"].channels
        opened = await client.ask("open", selector="vm=web1,pe=2-9,fn=stdio")
        assert [channel["pe"] for channel in opened["channels"]] == [2, 3]
        channels.number(6, DeviceClock(error_ns=2000, read_ns=0))
        await turns_until(lambda: len(channels.bound) == 4)
        assert sorted(bound.binding.pe for bound in channels.bound.values()) == [2, 3, 4, 5]
        (shown, *_) = (await client.ask("topology"))["vms"]
        assert (shown["vm"], shown["pes"], shown["clock_error_ns"]) == ("web1", 6, 2000)

    tell(tmp_path, story)


def test_batch_of_an_earlier_generation_is_dropped(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        channels = rig.vms["web1"].channels
        instance = (await client.ask("open", selector="vm=web1,pe=0,fn=stdio"))["instance"]
        await client.ask("subscribe", records=[instance])
        side = rig.system.registry.sides["web1"]
        stale = channels.on(0, Function.STDIO).binding
        channels.lose()
        channels.come()
        side.on_batch(Batch(stale.channel, stale.generation, 9, 9, 9, 9, 9, 0, records.pack(text(0, "stale"))))
        (info,) = (await client.ask("ls"))["instances"]
        assert info["channels"][0]["records"] == 0

    tell(tmp_path, story)


# ---- input ---------------------------------------------------------------------------------------


def test_input_goes_to_the_named_element(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        instance = (await client.ask("open", selector="vm=web1,fn=stdio"))["instance"]
        await client.ask("subscribe", events=True)
        assert await client.ask("send", instance=instance, data=b"hi\n", pe=2, eof=True) == {"elements": 1}
        channel = rig.vms["web1"].channels.on(2, Function.STDIO).binding.channel
        assert ("send", channel, b"hi\n", True) in rig.vms["web1"].channels.told
        assert (await client.event("input"))["detail"] == {"instance": instance, "pe": 2, "data": b"hi\n", "eof": True}

    tell(tmp_path, story)


def test_element_without_room_is_busy_and_the_others_have_their_input(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        channels = rig.vms["web1"].channels
        instance = (await client.ask("open", selector="vm=web1,pe=0-1,fn=stdio"))["instance"]
        full, free = (channels.on(pe, Function.STDIO).binding.channel for pe in (0, 1))
        channels.full.add(("send", full))
        refused = await client.refusal("send", instance=instance, data=b"x")
        assert (refused.kind, str(refused)) == ("busy", "busy: web1/0: no room")
        assert [told for told in channels.told if told[0] == "send"] == [("send", free, b"x", False)]
        channels.full.clear()
        assert await client.ask("send", instance=instance, data=b"x", pe=0) == {"elements": 1}

    tell(tmp_path, story)


def test_input_for_another_function_is_refused(tmp_path: Path) -> None:
    async def story(_rig: Rig, client: Client) -> None:
        instance = (await client.ask("open", selector="vm=web1,fn=log"))["instance"]
        assert "allowed: one of stdio" in str(await client.refusal("send", instance=instance, data=b"x"))

    tell(tmp_path, story)
