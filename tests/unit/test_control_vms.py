"""The verbs about VMs, and VMs that come to the control system and leave it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.fakes.api_client import Client
from tests.fakes.control_vm import FakeControlledVm
from tests.unit.registry_rig import Rig, rig
from tests.unit.test_control_access import token_file
from virtio_proto.control import tokens as token_lines

Story = Callable[[Rig, Client], Awaitable[None]]


def tell(folder: Path, story: Story, **config: object) -> None:
    async def told() -> None:
        async with rig(folder, **config) as made:
            await story(made, await made.client())

    asyncio.run(told())


def test_configuration_is_read_again(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        assert await client.ask("reload_vms") == {"added": ["new"], "removed": [], "changed": [], "waiting": []}
        await client.ask("reload_vms", now=True)
        assert rig.host.asked == [("", False), ("", True)]

    tell(tmp_path, story)


def test_vm_is_added(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        done = await client.ask(
            "add_vm", vm="web3", socket="/run/3", pes=2, weight=50, memory="1G", engine="cpu", persist=True
        )
        assert done["added"] == ["web3"]
        await client.ask("add_vm", vm="web4", socket="/run/4")
        assert rig.host.added == {
            "web3": ({"socket": "/run/3", "engine": "cpu", "quota": {"pes": 2, "memory": "1G", "weight": 50}}, True),
            "web4": ({"socket": "/run/4"}, False),
        }
        for fields in ({"vm": "web5"}, {"vm": "web5", "socket": "/run/5", "colour": "red"}, {"vm": "", "socket": "/s"}):
            assert (await client.refusal("add_vm", **fields)).kind == "malformed"

    tell(tmp_path, story)


def test_vm_is_removed(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        assert (await client.ask("remove_vm", vm="web1"))["waiting"] == ["web1"]
        assert (await client.ask("remove_vm", vm="web2", now=True))["waiting"] == []
        assert rig.host.asked == [("web1", False), ("web2", True)]
        refused = await client.refusal("remove_vm", vm="web3")
        assert (refused.kind, str(refused)) == ("unknown", "unknown: no VM web3; there is: web1, web2")
        rig.host.left_out["web3"] = "no room"
        assert (await client.ask("remove_vm", vm="web3"))["removed"] == ["web3"]
        rig.host.problem = "the state file cannot be written"
        refused = await client.refusal("remove_vm", vm="web3")
        assert (refused.kind, str(refused)) == ("failed", f"failed: {rig.host.problem}")

    tell(tmp_path, story)


def test_refusal_of_the_host_reaches_the_caller(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        rig.host.problem = "f.yaml:3: vms.a.num_queues is 0"
        new = {"vm": "web3", "socket": "/run/3"}
        for verb, fields in (("reload_vms", {}), ("add_vm", new), ("remove_vm", {"vm": "web1"})):
            refused = await client.refusal(verb, **fields)
            assert (refused.kind, str(refused)) == ("failed", f"failed: {rig.host.problem}")

    tell(tmp_path, story)


def test_limits_are_set_and_shown(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        before = await client.ask("show_limits", vm="web1")
        assert (before["enforced"]["contexts"], before["allotment_state"]) == (256, "taken")
        after = await client.ask("set_limits", vm="web1", contexts=3, memory_bytes=1 << 30)
        assert rig.host.given == {"contexts": 3, "memory_bytes": 1 << 30}
        assert after["enforced"]["contexts"] == 3
        refused = await client.refusal("set_limits", vm="web1")
        assert "allowed: at least one of pes, memory_bytes" in str(refused)
        assert (await client.refusal("set_limits", vm="web1", streams=0)).kind == "malformed"
        rig.host.problem = "more than there is"
        assert str(await client.refusal("set_limits", vm="web1", pes=9)) == "failed: more than there is"

    tell(tmp_path, story)


def test_only_administrators_may(tmp_path: Path) -> None:
    secret, token = token_lines.new("operate", None, None, "ann")
    file = token_file(tmp_path, token)

    async def story(rig: Rig, _client: Client) -> None:
        client = await rig.client(secret)
        assert (await client.refusal("reload_vms")).kind == "denied"
        assert (await client.refusal("add_vm", vm="web3", socket="/run/3")).kind == "denied"
        assert (await client.refusal("remove_vm", vm="web1")).kind == "denied"
        assert (await client.refusal("set_limits", vm="web1", pes=1)).kind == "denied"
        assert (await client.ask("show_limits", vm="web1"))["vm"] == "web1"
        assert (rig.host.asked, rig.host.given) == ([], {})

    tell(tmp_path, story, tokens=file)


def test_vm_that_comes_is_seen_and_can_be_watched(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        await client.ask("self")
        rig.system.admit(FakeControlledVm("web3", 2))
        assert [vm["vm"] for vm in (await client.ask("topology"))["vms"]] == ["web1", "web2", "web3"]
        opened = await client.ask("open", selector="vm=web3,fn=log")
        assert len(opened["channels"]) == 2
        assert "web3" in (await client.ask("self"))["cost_percent"]

    tell(tmp_path, story)


def test_instances_lose_a_vm_that_leaves_and_end_with_their_last(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        on_both = (await client.ask("open", selector="fn=log"))["instance"]
        on_one = (await client.ask("open", selector="vm=web2,fn=log"))["instance"]
        rig.system.dismiss("web2")
        left = {item["instance"]: item for item in (await client.ask("ls"))["instances"]}
        assert on_one not in left
        assert {channel["vm"] for channel in left[on_both]["channels"]} == {"web1"}
        await client.ask("set", instance=on_both, level=2)
        await client.ask("close", instance=on_both)
        await client.ask("self")
        assert [vm["vm"] for vm in (await client.ask("topology"))["vms"]] == ["web1"]

    tell(tmp_path, story)


def test_instance_stays_its_openers_when_a_vm_leaves(tmp_path: Path) -> None:
    secret, token = token_lines.new("operate", frozenset({"web1"}), None, "owner")

    async def story(rig: Rig, client: Client) -> None:
        number = (await client.ask("open", selector="fn=log"))["instance"]
        rig.system.dismiss("web2")
        owner = await rig.client(secret)
        assert (await owner.ask("ls"))["instances"] == []
        assert (await owner.refusal("close", instance=number)).kind == "unknown"

    tell(tmp_path, story, tokens=token_file(tmp_path, token))


def test_vm_may_come_back_under_its_name(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        await client.ask("self")
        rig.system.dismiss("web2")
        rig.system.admit(FakeControlledVm("web2", 3))
        vms = {vm["vm"]: vm["pes"] for vm in (await client.ask("topology"))["vms"]}
        assert vms == {"web1": 4, "web2": 3}
        assert (await client.ask("self"))["cost_percent"].keys() == {"web1", "web2"}

    tell(tmp_path, story)
