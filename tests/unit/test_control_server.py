"""The control API's server: malformed frames, slow readers, connections that end."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.api_client import Client
from tests.fakes.control_vm import FakeControlledVm, text
from tests.unit.registry_rig import Rig, rig
from vhost_backend.control.api import connection, push_hub, server
from virtio_proto.control import frames, records
from virtio_proto.control.api import API_VERSION, ERROR_KINDS
from virtio_proto.control.records import Function
from virtio_proto.control.verbs import VERBS

Story = Callable[[Rig, Client], Awaitable[None]]


def tell(folder: Path, story: Story, *vms: FakeControlledVm, **config: Any) -> None:
    async def told() -> None:
        async with rig(folder, *vms, **config) as made:
            await story(made, await made.client())

    asyncio.run(told())


async def is_dropped(client: Client) -> bool:
    """Waits for the daemon's next action; True if it hangs up."""
    try:
        await client.read()
    except (EOFError, ConnectionError, frames.FrameError):
        return True
    return False


# ---- hostile peers -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\0",
        b"\xff\xff\xff\xff",
        struct.pack("<I", 1) + b"\xc1",
        struct.pack("<I", 1) + b"\x01",
        frames.encode({"id": -1, "do": "ls"}),
        frames.encode({"id": "x", "do": "ls"}),
        frames.encode({"do": "ls"}),
    ],
)
def test_malformed_request_ends_that_connection_only(tmp_path: Path, data: bytes) -> None:
    async def story(rig: Rig, client: Client) -> None:
        other = await rig.client()
        client.writer.write(data)
        assert await is_dropped(client)
        assert (await other.ask("topology"))["host"] == "h1"

    tell(tmp_path, story)


@pytest.mark.parametrize(
    "frame",
    [
        {"id": 1, "do": "ls"},
        {"id": 1},
        {"id": 1, "do": "hello", "with": {"version": API_VERSION, "token": 7}},
        {"id": 1, "do": 5},
    ],
)
def test_connection_without_hello_is_answered_once_and_dropped(tmp_path: Path, frame: dict[str, Any]) -> None:
    async def story(rig: Rig, _client: Client) -> None:
        stranger = await rig.raw()
        stranger.send(frame)
        assert (await stranger.read())["error"]["kind"] in ("malformed", "denied")
        assert await is_dropped(stranger)

    tell(tmp_path, story)


def test_requests_before_hello_are_short(tmp_path: Path) -> None:
    async def story(rig: Rig, _client: Client) -> None:
        stranger = await rig.raw()
        stranger.writer.write(struct.pack("<I", connection.HELLO_BYTES + 1))
        assert await is_dropped(stranger)

    tell(tmp_path, story)


def test_silent_connection_without_hello_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HELLO_S", 0.01)

    async def told() -> None:
        async with rig(tmp_path) as made:
            assert await is_dropped(await made.raw())

    asyncio.run(told())


def test_connections_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 2)

    async def story(rig: Rig, client: Client) -> None:
        await rig.client()
        assert await is_dropped(await rig.raw())
        assert (await client.ask("topology"))["host"] == "h1"

    tell(tmp_path, story)


Json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=8,
)
NAMES = ("selector", "instance", "level", "sample", "slots", "period_ms", "ttl_s", "owner", "keep", "data", "pe", "vm")
FIELDS = st.dictionaries(
    st.sampled_from((*NAMES, "name", "low", "policies", "records", "faults", "image", "pes")), Json
)
SELECTORS = st.sampled_from(["", "fn=stdio", "vm=web1,fn=perf", "pe=0,fn=log", "vm=*,fn=fault", "gpu=cpu,fn=load"])


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(sorted(VERBS)), FIELDS, SELECTORS), min_size=1, max_size=12))
def test_any_request_is_answered(tmp_path: Path, requests: list[tuple[str, dict[str, Any], str]]) -> None:
    """Whatever the fields hold, each request gets one answer of a known kind, and never an error of the daemon's own."""

    async def story(_rig: Rig, client: Client) -> None:
        for number, (verb, fields, selector) in enumerate(requests, 1000):
            values = {"selector": selector} | fields if number % 2 else fields
            client.send({"id": number, "do": verb, "with": values})
        waiting = set(range(1000, 1000 + len(requests)))
        while waiting:
            frame = await client.read()
            if "id" in frame:
                waiting.remove(frame["id"])
                if "error" in frame:
                    assert frame["error"]["kind"] in ERROR_KINDS
                    assert "an error in the daemon" not in frame["error"]["text"]

    tell(tmp_path, story)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=64) | Json.map(lambda value: msgpack.packb(value, default=str)), max_size=5))
def test_random_bytes_do_not_disturb_other_connections(tmp_path: Path, bodies: list[bytes]) -> None:
    async def story(rig: Rig, client: Client) -> None:
        hostile = await rig.client()
        for body in bodies:
            hostile.writer.write(struct.pack("<I", len(body)) + body)
        hostile.writer.write_eof()
        while not await is_dropped(hostile):
            pass
        assert (await client.ask("topology"))["host"] == "h1"

    tell(tmp_path, story)


# ---- slow peers ----------------------------------------------------------------------------------


def test_slow_reader_loses_pushes_and_is_told_how_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_UNREAD_PUSHES_BYTES", 1 << 16)

    async def story(rig: Rig, client: Client) -> None:
        instance = (await client.ask("open", selector="vm=web1,pe=0,fn=stdio"))["instance"]
        await client.ask("subscribe", records=[instance])
        channels = rig.vms["web1"].channels
        sent = 0
        while not rig.system.hub.dropped:
            channels.emit(0, *[text(0, "x" * 1000)] * 50)
            sent += 1
        dropped = rig.system.hub.dropped
        got = 0
        while got < sent - dropped:
            assert (await client.push("records"))["dropped"] == 0
            got += 1
        channels.emit(0, text(0, "and then"))
        last = await client.push("records")
        assert last["dropped"] == dropped
        assert [record.payload for record in records.unpack(last["data"])] == [b"and then"]

    tell(tmp_path, story)


def test_records_without_a_subscriber_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_hub, "MAX_KEPT_OF_ONE_BYTES", 4000)

    async def story(rig: Rig, client: Client) -> None:
        instance = (await client.ask("open", selector="vm=web1,pe=0,fn=stdio"))["instance"]
        for number in range(10):
            rig.vms["web1"].channels.emit(0, text(0, f"{number}" * 1000))
        await client.ask("subscribe", records=[instance])
        assert rig.system.hub.dropped == 7
        first = await client.push("records")
        assert (records_of(first), first["dropped"]) == ([b"0" * 1000], 7)

    tell(tmp_path, story)


def records_of(push: dict[str, Any]) -> list[bytes]:
    return [record.payload for record in records.unpack(push["data"])]


# ---- connections end -----------------------------------------------------------------------------


def test_end_of_a_connection_closes_what_it_opened(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        await client.ask("subscribe", events=True)
        other = await rig.client()
        await other.ask("open", selector="vm=web1,fn=stdio")
        kept = (await other.ask("open", selector="vm=web1,pe=0,fn=log", keep=True, ttl_s=60))["instance"]
        other.writer.close()
        await client.event("closed")
        assert [item["instance"] for item in (await client.ask("ls"))["instances"]] == [kept]
        assert [bound.function for bound in rig.vms["web1"].channels.bound.values()] == [Function.LOG]

    tell(tmp_path, story)


def test_connection_that_ends_during_its_command_leaves_nothing(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        await client.ask("subscribe", events=True)
        channels = rig.vms["web1"].channels
        channels.hold = asyncio.Event()
        other = await rig.client()
        other.send({"id": 99, "do": "open", "with": {"selector": "vm=web1,fn=stdio"}})
        while not rig.system.registry.sides["web1"].instances:
            await client.ask("ls")
        other.writer.close()
        channels.hold.set()
        channels.hold = None
        await client.event("closed")
        assert not channels.bound

    tell(tmp_path, story)


# ---- time to live --------------------------------------------------------------------------------


def test_instance_expires_unless_it_is_renewed(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        await client.ask("subscribe", events=True)
        opened = await client.ask("open", selector="vm=web1,fn=stdio", ttl_s=100)
        assert opened["expires_ns"] == rig.clock.now_ns + 100 * 10**9
        rig.clock.pass_s(60)
        await client.ask("set", instance=opened["instance"], ttl_s=100)
        rig.clock.pass_s(60)
        await rig.system.registry.expire()
        assert len((await client.ask("ls"))["instances"]) == 1
        rig.clock.pass_s(41)
        await rig.system.registry.expire()
        assert (await client.event("expired"))["detail"]["instance"] == opened["instance"]
        assert not rig.vms["web1"].channels.bound

    tell(tmp_path, story)


def test_instances_expire_without_a_request(tmp_path: Path) -> None:
    async def story(rig: Rig, client: Client) -> None:
        await client.ask("subscribe", events=True)
        rig.clock.pass_s(-3600)
        await client.ask("open", selector="vm=web1,fn=stdio", ttl_s=0.1)
        rig.clock.pass_s(3600)
        await client.event("expired")

    tell(tmp_path, story)
