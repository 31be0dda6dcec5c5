"""Event pushes of the control API: every field of every event, in order."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.fakes.api_client import Client
from tests.fakes.control_vm import CLOCK_NS, FakeControlledVm
from tests.unit.registry_rig import Rig, rig
from vhost_backend.config.control import PolicyConfig
from vhost_backend.control.events import VmAdded, VmConnected, VmDisconnected, VmLeft
from virtio_proto.control.records import Function, Level, Record

Story = Callable[[Rig, Client], Awaitable[None]]
NOW_NS = 1_800_000_000_000_000_000


def tell(folder: Path, story: Story, **config: Any) -> None:
    """Runs a test's story with a client that is subscribed to events."""

    async def told() -> None:
        async with rig(folder, FakeControlledVm("web1", 2), **config) as made:
            client = await made.client()
            await client.ask("subscribe", events=True)
            await story(made, client)

    asyncio.run(told())


async def pushed(client: Client, count: int, *, commands: bool = False) -> list[tuple[str, str | None, list[Any]]]:
    """The next events except those of commands: name, VM, and the fields in order."""
    found: list[tuple[str, str | None, list[Any]]] = []
    while len(found) < count:
        frame = await client.push("event", lambda frame: commands or frame["event"] != "command")
        assert list(frame) == ["push", "time_ns", "event", "vm", "detail"]
        assert frame["time_ns"] == NOW_NS
        found.append((frame["event"], frame["vm"], list(frame["detail"].items())))
    return found


def test_pushes_of_an_instance(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        opened = await client.ask("open", selector="vm=web1,pe=0,fn=stdio")
        owner, number = opened["owner"], opened["channels"][0]["channel"]
        about = [("instance", 1), ("selector", "vm=web1,pe=0,fn=stdio"), ("owner", owner)]
        await client.ask("send", instance=opened["instance"], data=b"hi")
        channels = rig.vms["web1"].channels
        channels.emit(0, Record(5, Function.STDIO, Level.INFO, 3, 0, 0, 0, 0, b""))
        channels.listener.on_samples({number: 3})
        await client.ask("close", instance=opened["instance"])
        assert await pushed(client, 5) == [
            ("opened", "web1", about),
            ("input", "web1", [("instance", 1), ("pe", 0), ("data", b"hi"), ("eof", False)]),
            ("wants_input", "web1", [("pe", 0), ("at_ns", 5 + CLOCK_NS)]),
            ("governor", "web1", [("channel", number), ("pe", 0), ("fn", "stdio"), ("sample", 3)]),
            ("closed", "web1", about),
        ]
        await client.ask("open", selector="fn=log", ttl_s=5)
        rig.clock.now_ns += 6_000_000_000
        await rig.system.registry.expire()
        rig.clock.now_ns = NOW_NS
        late = (await client.event("expired"))["detail"]
        assert list(late.items()) == [("instance", 2), ("selector", "fn=log"), ("owner", owner)]

    tell(tmp_path, story)


def test_pushes_of_a_worker_and_of_its_death(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        channels = rig.vms["web1"].channels
        channels.lose("kernel spin ran for too long", "deadline")
        channels.come(4)
        found = await pushed(client, 4)
        (listed,) = (await client.ask("faults"))["faults"]
        assert found == [
            ("worker_lost", "web1", [("generation", 1), ("reason", "kernel spin ran for too long")]),
            ("fault", "web1", list(listed.items())),
            ("policy_acted", "web1", [("policy", "p"), ("action", "alert"), ("fault", 1), ("result", "told")]),
            ("worker_ready", "web1", [("generation", 1), ("pes", 4)]),
        ]
        assert list(listed) == [
            *("fault", "time_ns", "last_ns", "count", "gpu", "vm", "pe", "kind", "xid", "text", "advice", "cleared")
        ]

    tell(tmp_path, story, policies=(PolicyConfig("p"),))


def test_pushes_of_what_kernels_report(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        channels = rig.vms["web1"].channels
        await client.ask("open", selector="vm=web1,fn=perf")
        await client.ask("open", selector="vm=web1,fn=fault")
        gauge = struct.pack("<Qdd", 0x80, 0.95, 0.9)
        channels.emit(1, Record(5, Function.PERF, Level.WARNING, 4, 1, 0, 0, 0, gauge), texts={0x80: "heat"})
        fault = Record(5, Function.FAULT, Level.ERROR, 1, 1, 0, 0, 0, struct.pack("<Q", 300) + b"mine")
        channels.emit(1, fault)
        await client.ask("clear_faults", faults=[1])
        (*_, threshold, told, cleared) = await pushed(client, 5)
        values = [("pe", 1), ("name", "heat"), ("value", 0.95), ("threshold", 0.9), ("at_ns", 5 + CLOCK_NS)]
        assert threshold == ("threshold", "web1", values)
        assert (told[:2], dict(told[2])["text"], dict(told[2])["count"]) == (("fault", "web1"), "mine", 1)
        assert cleared == ("fault_cleared", "web1", [("fault", 1), ("by", cleared[2][1][1])])

    tell(tmp_path, story)


def test_pushes_of_a_migration(tmp_path: Path) -> None:
    async def story(_rig: Rig, client: Client) -> None:
        await client.ask("migrate", vm="web1", gpu="1")
        copying, done = await pushed(client, 2)
        names = [
            *("migration", "vm", "source", "target", "state", "started_ns", "ended_ns", "bytes", "paused_ns", "text")
        ]
        for (event, vm, detail), state in ((copying, "copying"), (done, "done")):
            assert (event, vm, [name for name, _ in detail]) == ("migration", "web1", names)
            assert dict(detail)["state"] == state

    tell(tmp_path, story)


def test_push_of_a_command(tmp_path: Path) -> None:
    async def story(_rig: Rig, client: Client) -> None:
        await client.ask("quiesce", vm="web1")
        ((event, vm, detail),) = await pushed(client, 1, commands=True)
        assert (event, vm, [name for name, _ in detail]) == (
            "command",
            "web1",
            ["verb", "by", "role", "with", "result"],
        )
        assert dict(detail)["with"] == {"vm": "web1"}

    tell(tmp_path, story)


def test_push_of_a_guest_that_comes_and_goes(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        for event in (VmAdded, VmConnected, VmDisconnected, VmLeft):
            rig.bus.publish(event("web1"))
        names = ["vm_added", "vm_connected", "vm_disconnected", "vm_left"]
        assert await pushed(client, 4) == [(name, "web1", []) for name in names]

    tell(tmp_path, story)
