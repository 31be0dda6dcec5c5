"""Hostile peers of the control API: they ask without reading answers, stay too long, or never authenticate."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.api_client import Client
from tests.fakes.control_vm import FakeControlledVm
from tests.limits import ANSWERS_WITHIN_S
from tests.unit.registry_rig import Rig, rig
from tests.unit.test_centre_tls import certified
from tests.unit.test_control_server import is_dropped
from vhost_backend.control.api import connection, server
from vhost_backend.control.api.commands import Caller, Commands
from virtio_proto.control import frames, tokens
from virtio_proto.control.api import API_VERSION
from virtio_proto.control.server_settings import TlsConfig

Story = Callable[[Rig, Client], Awaitable[None]]
TURNS = 50


def tell(folder: Path, story: Story, *vms: FakeControlledVm, **config: Any) -> None:
    async def told() -> None:
        async with rig(folder, *vms, **config) as made:
            await story(made, await made.client())

    asyncio.run(told())


def token(folder: Path, role: Any = "view", expires_ns: int | None = None) -> tuple[str, Path]:
    secret, made = tokens.new(role, None, expires_ns, "ann")
    path = folder / "tokens"
    path.write_text(made.line() + "\n")
    return secret, path


# ---- much asked, little read ---------------------------------------------------------------------


def test_requests_of_a_peer_that_reads_no_answers_are_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_UNREAD_BYTES", 1 << 16)
    done: list[str] = []
    do = Commands.do

    async def counted(self: Commands, caller: Caller, verb: object, values: Mapping[str, Any]) -> Any:
        done.append(str(verb))
        return await do(self, caller, verb, values)

    monkeypatch.setattr(Commands, "do", counted)

    async def story(rig: Rig, client: Client) -> None:
        await client.ask("open", selector="fn=log")
        greedy = await rig.raw()
        sock = greedy.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
        greedy.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport of a stream socket
        asked = 200
        greedy.send({"id": 0, "do": "hello", "with": {"version": API_VERSION}})
        for number in range(1, asked + 1):
            greedy.send({"id": number, "do": "ls", "with": {}})
        for _ in range(TURNS):
            await client.ask("topology")
        answer_bytes = len(frames.encode({"id": 1, "ok": await client.ask("ls")}))
        held = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) + (1 << 16)
        assert done.count("ls") <= 2 + held // answer_bytes
        greedy.writer.transport.resume_reading()  # type: ignore[attr-defined]
        answered = {(await greedy.read())["id"] for _ in range(asked + 1)}
        assert answered == set(range(asked + 1)), "each was answered when it was read"

    tell(tmp_path, story, FakeControlledVm("web1", 2000), FakeControlledVm("web2", 2), channels=4096)


@pytest.mark.parametrize(("role", "most"), [("view", connection.MAX_REQUEST_BYTES), ("admin", 9 << 20)])
def test_length_of_a_request_is_limited_by_role(tmp_path: Path, role: str, most: int) -> None:
    secret, path = token(tmp_path, role)

    async def story(rig: Rig, client: Client) -> None:
        peer = await rig.client(secret)
        assert "junk is no field" in str(await peer.refusal("ls", junk=b"x" * (most - 100)))
        peer.send({"id": 77, "do": "ls", "with": {"junk": b"x" * most}})
        assert await is_dropped(peer)
        assert (await client.ask("topology"))["host"] == "h1"

    tell(tmp_path, story, tokens=path)


# ---- who may stay --------------------------------------------------------------------------------


def test_expired_token_is_refused_from_then_on(tmp_path: Path) -> None:
    secret, path = token(tmp_path, expires_ns=1_800_000_010_000_000_000)

    async def story(rig: Rig, client: Client) -> None:
        peer = await rig.client(secret)
        await peer.ask("topology")
        rig.clock.pass_s(10)
        assert "token ann has expired" in str(await peer.refusal("topology"))
        await client.ask("topology")

    tell(tmp_path, story, tokens=path)


@pytest.mark.parametrize("change", ["", "other", "expired"])
def test_listener_whose_token_is_gone_is_dropped(tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CHECK_S", 0.01)
    secret, path = token(tmp_path, expires_ns=1_800_000_010_000_000_000)

    async def story(rig: Rig, client: Client) -> None:
        peer = await rig.client(secret)
        await peer.ask("subscribe", events=True)
        if change == "expired":
            rig.clock.pass_s(10)
        elif change == "other":
            path.write_text(path.read_text().replace("role=view", "role=view vms=web1"))
        else:
            path.write_text("# nobody\n")
        assert await is_dropped(peer)
        await client.ask("topology")

    tell(tmp_path, story, tokens=path)


# ---- strangers over TLS --------------------------------------------------------------------------


def over_tls(folder: Path, story: Callable[[Rig, ssl.SSLContext, str], Awaitable[None]]) -> None:
    certificate, key = certified(folder, "daemon")
    secret, path = token(folder)
    context = ssl.create_default_context(cafile=str(certificate))

    async def told() -> None:
        config = {"listen": ("127.0.0.1", 0), "tls": TlsConfig(certificate, key), "tokens": path}
        async with rig(folder, **config) as made:
            await story(made, context, secret)

    asyncio.run(told())


async def greeted(port: int, context: ssl.SSLContext, secret: str) -> Client:
    client = Client(*await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost"))
    await client.ask("hello", version=API_VERSION, token=secret)
    return client


async def is_cut(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(ANSWERS_WITHIN_S):
            return not await reader.read(1)
    except ConnectionError:
        return True


def test_unauthenticated_connections_make_room_for_authenticated_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_STRANGERS", 3)

    async def story(rig: Rig, context: ssl.SSLContext, secret: str) -> None:
        port = rig.system.server.port
        before = await greeted(port, context, secret)
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]  # not even a handshake
        half = [
            await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost") for _ in range(3)
        ]
        assert all([await is_cut(reader) for reader, _ in silent])
        client = await greeted(port, context, secret)
        assert await is_cut(half[0][0])
        for known in (before, client, await rig.client()):
            assert (await known.ask("topology"))["host"] == "h1"
        for _, writer in (*silent, *half):
            writer.close()
        for known in (before, client):
            known.writer.close()

    over_tls(tmp_path, story)


def test_peers_over_tls_take_no_places_of_local_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 2)

    async def story(rig: Rig, context: ssl.SSLContext, secret: str) -> None:
        port = rig.system.server.port
        known = [await greeted(port, context, secret) for _ in range(2)]
        assert str(await refused(port, context, secret)).startswith("quota: 2 are connected")
        assert (await (await rig.client()).ask("topology"))["host"] == "h1"
        for client in known:
            client.writer.close()

    over_tls(tmp_path, story)


async def refused(port: int, context: ssl.SSLContext, secret: str) -> Exception:
    client = Client(*await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost"))
    error = await client.refusal("hello", version=API_VERSION, token=secret)
    client.writer.close()
    return error


def test_plain_text_at_the_tls_port_is_dropped(tmp_path: Path) -> None:
    async def story(rig: Rig, context: ssl.SSLContext, secret: str) -> None:
        port = rig.system.server.port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(frames.encode({"id": 1, "do": "hello", "with": {"version": API_VERSION, "token": secret}}))
        assert await is_cut(reader)
        writer.close()
        client = await greeted(port, context, secret)
        client.writer.close()

    over_tls(tmp_path, story)
