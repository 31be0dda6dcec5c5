"""Verbs: one that is new is a class and what it does, and is there on every path; those that there are keep their rules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from aiohttp.test_utils import TestClient, TestServer
from msgspec import Meta

from control_center.access import Access
from control_center.address import UnixAddress
from control_center.app import make_app
from control_center.centre import Centre
from control_center.cli.connect import connected
from control_center.cli.link import Link, Target
from control_center.cli.problems import NobodyThereError, RefusalError
from control_center.cluster import Cluster
from control_center.host import HostConfig
from tests.unit.registry_rig import Rig, rig
from tests.waiting import turns_until
from vhost_backend.control.api.commands import Caller, Handler
from vhost_backend.control.instances.registry import InstanceRegistry
from virtio_proto.control.shapes import schema
from virtio_proto.control.verbs import VERBS
from virtio_proto.control.verbs.base import HOST, Reach, Rest, Verb, VmRequest, one
from virtio_proto.control.verbs.session import Hello

# ---- a verb, whole -------------------------------------------------------------------------------


class Poked(TypedDict):
    vm: str
    times: int


class HostedPoke(Poked):
    host: str


class Poke(Verb):
    """Pokes a VM a few times."""

    name = "poke"
    role = "operate"
    reach = Reach.VM
    rest = Rest("POST", "/pokes", "hosts")
    Answer = Poked
    merged = one(HostedPoke)

    class Request(VmRequest, kw_only=True, frozen=True):
        times: Annotated[int, Meta(ge=1, le=9)] = 1


class PokeCommands:
    """Handler of the verb that the test adds."""

    def __init__(self, registry: InstanceRegistry) -> None:
        self._registry = registry

    def handlers(self) -> Mapping[type[Verb], Handler]:
        return {Poke: self._poke}

    async def _poke(self, caller: Caller, asked: Poke.Request) -> dict[str, Any]:
        side = self._registry.side(caller.peer, asked.vm)
        return {"vm": side.name, "times": "nine" if asked.times == 9 else asked.times}


# ---- and where it is then ------------------------------------------------------------------------


class Paths:
    """A daemon with the verb, a control centre over it, and a link of vgcctl to either."""

    def __init__(self, daemon: Rig, centre: TestClient[Any, Any], links: dict[str, Link]) -> None:
        self.daemon = daemon
        self.centre = centre
        self.links = links

    async def rest(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        async with self.centre.request(method, f"/api/v1{path}", json=body) as response:
            return response.status, await response.json()


@asynccontextmanager
async def paths_of(folder: Path) -> AsyncIterator[Paths]:
    async with AsyncExitStack() as stack:
        daemon = await stack.enter_async_context(rig(folder))
        daemon.system.commands.add(PokeCommands(daemon.system.registry))
        cluster = Cluster([HostConfig("h1", UnixAddress(daemon.path))], poll_s=3600)
        client = TestClient[Any, Any](TestServer(make_app(Centre(cluster, Access()))))
        await stack.enter_async_context(client)
        await stack.enter_async_context(cluster)
        host = cluster.hosts["h1"]
        await turns_until(lambda: host.daemon and not host.reason)
        await host.poll()
        targets = {"centre": Target(centre=str(client.make_url(""))), "daemon": Target(daemon=f"unix:{daemon.path}")}
        links = {name: await stack.enter_async_context(connected(target)) for name, target in targets.items()}
        yield Paths(daemon, client, links)


def test_a_new_verb_is_on_all_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VERBS, "poke", Poke)

    async def told() -> None:
        async with paths_of(tmp_path) as paths:
            caller = await paths.daemon.client()
            assert await caller.ask("poke", vm="web1", times=3) == {"vm": "web1", "times": 3}
            poked = {"host": "h1", "vm": "web1", "times": 3}
            assert await paths.rest("POST", "/pokes", poked) == (200, poked)
            for link in paths.links.values():
                assert await link.ask(Poke.Request(vm="web1", times=3), "h1") == poked

    asyncio.run(told())


def test_what_a_new_verb_is_refused_with_says_what_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VERBS, "poke", Poke)

    async def told() -> None:
        async with paths_of(tmp_path) as paths:
            caller = await paths.daemon.client()
            assert "poke: times is 99; allowed: an integer of 1 to 9" in str(
                await caller.refusal("poke", vm="web1", times=99)
            )
            assert "poke: hard is no field; allowed: vm, times" in str(
                await caller.refusal("poke", vm="web1", hard=True)
            )
            for body, status, text in (
                ({"host": "h1", "vm": "web1", "times": 99}, 400, "body.times is 99; allowed: an integer of 1 to 9"),
                ({"vm": "web1"}, 400, "body.host is missing; allowed: text"),
                ({"host": "h1", "vm": "web1", "hard": True}, 400, "body.hard is no field; allowed: host, vm, times"),
                ({"host": "h1", "vm": "web9"}, 404, "h1 has no VM web9; there is: web1, web2"),
            ):
                found, answer = await paths.rest("POST", "/pokes", body)
                assert (found, answer["error"]["text"]) == (status, text)
            for link in paths.links.values():
                with pytest.raises(RefusalError, match="web9"):
                    await link.ask(Poke.Request(vm="web9"), "h1")

    asyncio.run(told())


def test_a_daemon_that_answers_a_new_verb_wrongly_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VERBS, "poke", Poke)
    wrong = "poke.times is 'nine'; allowed: an integer"

    async def told() -> None:
        async with paths_of(tmp_path) as paths:
            status, answer = await paths.rest("POST", "/pokes", {"host": "h1", "vm": "web1", "times": 9})
            assert (status, wrong in answer["error"]["text"]) == (502, True)
            with pytest.raises(RefusalError, match=wrong):
                await paths.links["centre"].ask(Poke.Request(vm="web1", times=9), "h1")
            with pytest.raises(NobodyThereError, match=wrong):
                await paths.links["daemon"].ask(Poke.Request(vm="web1", times=9), "h1")

    asyncio.run(told())


def test_a_new_verb_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VERBS, "poke", Poke)

    async def told() -> None:
        async with paths_of(tmp_path) as paths:
            _, document = await paths.rest("GET", "/openapi.json")
            operation = document["paths"]["/pokes"]["post"]
            assert (operation["summary"], operation["x-role"]) == ("Pokes a VM a few times", "operate")
            body = document["components"]["schemas"]["PokeRequest"]
            assert (list(body["properties"]), body["required"]) == (["host", "vm", "times"], ["host", "vm"])
            assert body["properties"]["times"] == {"type": "integer", "minimum": 1, "maximum": 9, "default": 1}
            assert set(document["components"]["schemas"]["HostedPoke"]["properties"]) == {"host", "vm", "times"}

    asyncio.run(told())


# ---- all verbs -----------------------------------------------------------------------------------


def test_the_daemon_serves_every_verb(tmp_path: Path) -> None:
    async def told() -> None:
        async with rig(tmp_path) as made:
            assert set(made.system.commands.verbs) == set(VERBS.values()) - {Hello}  # which the gate answers

    asyncio.run(told())


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_verbs_parts_fit_together(verb: type[Verb]) -> None:
    assert verb.summary()
    assert verb.Request.verb is verb
    schema(verb.Request, {})
    if verb.rest is None:
        assert verb.reach == Reach.CONNECTION
        return
    schema(verb.merged.shape, {})
    assert set(verb.rest.in_path) <= {HOST, *verb.Request.__struct_fields__}
    assert verb.reach.takes_host or HOST not in verb.rest.in_path
