"""The verbs ``load`` and ``balance`` over fake VMs."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.fakes.api_client import ApiRefusedError, Client
from tests.fakes.control_vm import FakeControlledVm
from tests.limits import ANSWERS_WITHIN_S
from tests.unit.registry_rig import Rig, rig
from tests.waiting import turns_until
from vhost_backend.control.links.channel_port import ElementFigures
from vhost_backend.control.load.watch import PERIOD_S
from virtio_proto.control.records import Function

Story = Callable[[Rig, Client], Awaitable[None]]


def tell(folder: Path, story: Story, *vms: FakeControlledVm) -> None:
    async def told() -> None:
        async with rig(folder, *vms) as made:
            await story(made, await made.client())

    asyncio.run(told())


def run_for(rig: Rig, seconds: int, busy: dict[str, list[float]], began: int = 0) -> None:
    """Lets seconds pass in which each element is busy for the given part of every second."""
    for second in range(began, began + seconds + 1):
        for name, parts in busy.items():
            figures = [ElementFigures(pe, busy_ns=int(part * second * 1e9)) for pe, part in enumerate(parts)]
            rig.vms[name].channels.figure(rig.clock.now_ns, *figures)
            rig.system.load.look(rig.system.registry.sides[name])
        rig.clock.pass_s(1)
    rig.clock.pass_s(-1)


BUSY = {"web1": [1.0, 1.0, 1.0, 0.9], "web2": [0.1, 0.1]}


def test_load_covers_elements_vms_gpus_and_host(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        assert (await client.ask("load"))["vms"] == {"web1": 0.0, "web2": 0.0}
        await client.ask("open", selector="fn=load")
        run_for(rig, 2, {"web1": [1.0, 0.0, 0.0, 0.0], "web2": [0.5, 0.5]})
        load = await client.ask("load")
        assert load["vms"] == {"web1": 0.25, "web2": 0.5}
        assert load["gpus"] == {"cpu": 0.5}
        assert load["vm_pes_used"] == {"web1": 1.0, "web2": 1.0}
        assert load["gpu_pes_used"] == {"cpu": 2.0}, "those of its VMs add up to it"
        assert load["host"] == 0.5
        assert load["pes"] == {"web1": b"\xff\0\0\0", "web2": b"\x80\x80"}
        only = await client.ask("load", selector="vm=web2")
        assert set(only["vms"]) == set(only["pes"]) == {"web2"}

    tell(tmp_path, story)


def test_channels_of_a_vm_are_those_that_are_listed(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        async def counts() -> tuple[list[int], int, int]:
            vms = [vm["channels"] for vm in (await client.ask("topology"))["vms"]]
            listed = (await client.ask("ls"))["instances"]
            return vms, sum(len(one["channels"]) for one in listed), (await client.ask("self"))["channels"]

        assert await counts() == ([0, 0], 0, 0)
        await client.ask("load")
        await turns_until(lambda: len(rig.vms["web1"].channels.bound) == 4 and len(rig.vms["web2"].channels.bound) == 2)
        assert await counts() == ([0, 0], 0, 6), "the load watch has channels of its own"
        instance = (await client.ask("open", selector="vm=web1,fn=load"))["instance"]
        assert await counts() == ([4, 0], 4, 6), "it shares them with clients"
        await client.ask("close", instance=instance)
        assert await counts() == ([0, 0], 0, 6)

    tell(tmp_path, story)


def test_a_vm_that_has_left_is_forgotten_while_loads_are_asked_for(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        await client.ask("load")
        await turns_until(lambda: len(rig.vms["web1"].channels.bound) == 4)
        left = weakref.ref(rig.system.registry.sides["web1"])
        rig.system.dismiss("web1")
        del rig.vms["web1"]

        async with asyncio.timeout(ANSWERS_WITHIN_S):
            while left() is not None:
                await asyncio.sleep(PERIOD_S)  # noqa: TID251  the watch looks once a period
                gc.collect()
        assert (await client.ask("load"))["vms"] == {"web2": 0.0}

    tell(tmp_path, story)


def test_a_load_request_opens_the_systems_own_channels(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        assert not rig.vms["web1"].channels.bound
        await client.ask("load")
        while len(rig.vms["web1"].channels.bound) < 4:
            await client.ask("ls")
        assert {bound.function for bound in rig.vms["web1"].channels.bound.values()} == {Function.LOAD}
        assert (await client.ask("ls"))["instances"] == []

    tell(tmp_path, story)


def test_worker_that_refuses_does_not_hide_other_vms_load(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        rig.vms["web1"].channels.refuse["open"] = "it does not want to"
        await client.ask("load")
        while len(rig.vms["web2"].channels.bound) < 2:
            await client.ask("ls")
        assert not rig.vms["web1"].channels.bound

    tell(tmp_path, story)


def test_a_vm_without_a_worker_has_no_load(tmp_path: Path) -> None:
    async def story(_rig: Rig, client: Client) -> None:
        load = await client.ask("load")
        assert (load["vms"], load["pes"]) == ({"web1": 0.0}, {"web1": b""})
        assert (await client.ask("balance"))["moves"] == []

    tell(tmp_path, story, FakeControlledVm("web1", 4, ready=False))


def test_balance_proposes_and_does_nothing(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        await client.ask("open", selector="fn=load")
        run_for(rig, 10, BUSY)
        (move,) = (await client.ask("balance"))["moves"]
        assert (move["vm"], move["source"], move["target"]) == ("web2", "cpu, 2 PEs", "cpu, 1 PEs")
        assert "the VMs have 6 PEs together where the host has 4" in move["reason"]
        assert move["migration"] is None
        assert (await client.ask("migrations"))["migrations"] == []

    tell(tmp_path, story)


def test_applied_balance_starts_migrations_and_then_lets_vms_rest(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        await client.ask("subscribe", events=True)
        await client.ask("open", selector="fn=load")
        run_for(rig, 10, BUSY)
        (move,) = (await client.ask("balance", apply=True))["moves"]
        await client.push("event", lambda frame: frame["event"] == "migration" and frame["detail"]["state"] == "done")
        (moved,) = (await client.ask("migrations"))["migrations"]
        assert moved["migration"] == move["migration"]
        assert (moved["vm"], moved["target"]) == ("web2", "1 elements")

    tell(tmp_path, story)


def test_without_enough_samples_nothing_is_proposed(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        await client.ask("open", selector="fn=load")
        run_for(rig, 3, BUSY)
        assert (await client.ask("balance"))["moves"] == []

    tell(tmp_path, story)


def test_a_confined_vm_is_not_migrated(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        await client.ask("open", selector="fn=load")
        run_for(rig, 10, BUSY)
        await client.ask("confine", vm="web2", pes="0")
        assert (await client.ask("balance"))["moves"] == []

    tell(tmp_path, story)


def test_a_vm_that_can_never_be_migrated_is_not_proposed(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        await client.ask("open", selector="fn=load")
        run_for(rig, 10, BUSY)
        assert (await client.ask("balance"))["moves"] != []
        for vm in rig.vms.values():
            vm.stays = "its engine cannot"
        assert (await client.ask("balance", apply=True))["moves"] == []
        assert (await client.ask("migrations"))["migrations"] == []

    tell(tmp_path, story)


def test_unknown_fields_are_refused(tmp_path: Path) -> None:
    async def story(_rig: Rig, client: Client) -> None:
        for verb, fields in (("load", {"vm": "web1"}), ("balance", {"apply": 1}), ("balance", {"all": True})):
            with pytest.raises(ApiRefusedError, match="malformed"):
                await client.ask(verb, **fields)

    tell(tmp_path, story)
