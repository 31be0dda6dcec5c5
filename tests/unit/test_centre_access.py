"""Access to the control centre: tokens, roles, and a VM's owner, who sees that VM only in every answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from control_center.access import Access
from control_center.errors import RefusedError
from control_center.scope import Scope
from tests.unit.centre_rig import START_NS, Clock, Rig, access_of, rig_of, run, token_file
from virtio_proto.control.selector import parse


@asynccontextmanager
async def guarded(folder: Path, hosts: int = 1) -> AsyncIterator[tuple[Rig, dict[str, str]]]:
    """A centre with tokens: of an admin, a viewer, an owner of h1-vm0, and one that expires after an hour."""
    path = folder / "tokens"
    secrets = token_file(
        path,
        ("admin", None, None, "root"),
        ("view", None, None, "viewer"),
        ("operate", ["h1-vm0"], None, "owner"),
        ("view", None, START_NS + 3600 * 10**9, "guest"),
    )
    clock = Clock()
    async with rig_of(folder, hosts, access=access_of(path, clock.real_ns), clock=clock) as rig:
        rig.secret = secrets["root"]
        yield rig, secrets


def test_request_without_a_token_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with guarded(tmp_path) as (rig, _):
            for secret, text in ((None, "a token is needed"), ("vgc_wrong", "the token is unknown")):
                rig.secret = secret
                for path in ("/hosts", "/load", "/self", "/stream"):
                    answer = await rig.ask("GET", path)
                    assert (answer.status, text in answer.text) == (401, True)
            async with rig.client.get("/metrics") as response:
                assert (response.status, response.headers["WWW-Authenticate"]) == (401, "Bearer")

    run(test())


def test_an_expired_token_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with guarded(tmp_path) as (rig, secrets):
            rig.secret = secrets["guest"]
            assert (await rig.ask("GET", "/hosts")).status == 200
            rig.clock.seconds = 3601
            answer = await rig.ask("GET", "/hosts")
            assert (answer.status, answer.text) == (401, "the token guest has expired; allowed: a new one")

    run(test())


def test_a_token_that_is_removed_from_the_file_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with guarded(tmp_path) as (rig, _):
            (tmp_path / "tokens").write_text("# nobody\n")
            assert (await rig.ask("GET", "/hosts")).status == 401
            (tmp_path / "tokens").write_text("nonsense\n")
            assert "cannot be read" in (await rig.ask("GET", "/hosts")).text

    run(test())


@pytest.mark.parametrize(
    ("method", "path", "body", "role"),
    [
        ("POST", "/channels", {"selector": "fn=log"}, "operate"),
        ("POST", "/migrations", {"host": "h1", "vm": "h1-vm0"}, "operate"),
        ("PUT", "/policies/h1", {"policies": []}, "admin"),
        ("POST", "/firmware/stage", {"image": ""}, "admin"),
    ],
)
def test_each_role_allows_its_requests_only(tmp_path: Path, method: str, path: str, body: Any, role: str) -> None:
    async def test() -> None:
        async with guarded(tmp_path) as (rig, secrets):
            rig.secret = secrets["viewer"]
            answer = await rig.ask(method, path, body)
            assert (answer.status, answer.text) == (403, f"this takes the role {role}; viewer has view")
            assert rig.daemon.host.instances == {}

    run(test())


# ---- a VM's owner --------------------------------------------------------------------------------


async def _busy(rig: Rig) -> None:
    """Opens all channels and takes a snapshot, as the admin; both VMs report faults."""
    await rig.post("/channels", {"selector": "fn=log,vm=h1-vm0|h1-vm1"})
    await rig.post("/channels", {"selector": "fn=perf,vm=h1-vm1"})
    rig.daemon.fault("h1-vm0", 0)
    rig.daemon.fault("h1-vm1", 1)
    await rig.post("/snapshots", {})
    await rig.post("/migrations", {"host": "h1", "vm": "h1-vm1", "gpu": "0"})
    await rig.poll()


LOOKS = [
    "/hosts",
    "/load",
    "/channels",
    "/channels?totals=1",
    "/stats",
    "/faults?cleared=1",
    "/migrations",
    "/firmware",
]
LOOKS += ["/snapshots", "/snapshots/1", "/snapshots/1/diff/1", "/self"]


def test_an_owner_sees_nothing_of_other_vms_anywhere(tmp_path: Path) -> None:
    async def test() -> None:
        async with guarded(tmp_path, 2) as (rig, secrets):
            await _busy(rig)
            rig.secret = secrets["owner"]
            for path in LOOKS:
                answer = await rig.ask("GET", path)
                assert answer.status == 200, answer.body
                shown = str(answer.body)
                assert "h1-vm1" not in shown, path
                assert "h2" not in shown.replace("sha256", ""), path
            assert [vm["vm"] for host in await rig.get("/hosts") for vm in host["vms"]] == ["h1-vm0"]
            (log,) = await rig.get("/channels")
            assert (log["selector"], log["owner"]) == ("vm=h1-vm0", "")
            assert {channel["vm"] for channel in log["channels"]} == {"h1-vm0"}
            async with rig.client.get("/metrics", headers={"Authorization": f"Bearer {rig.secret}"}) as response:
                text = await response.text()
            assert 'vm="h1-vm0"' in text
            assert "h1-vm1" not in text
            assert "h2" not in text

    run(test())


def test_other_vms_and_hosts_are_unknown_to_an_owner_not_denied(tmp_path: Path) -> None:
    async def test() -> None:
        async with guarded(tmp_path, 2) as (rig, secrets):
            await _busy(rig)
            rig.secret = secrets["owner"]
            for method, path, body in [
                ("POST", "/channels", {"selector": "fn=log,vm=h1-vm1"}),
                ("POST", "/snapshots", {"selector": "vm=h1-vm1"}),
                ("POST", "/thresholds", {"selector": "vm=h1-vm1", "name": "x"}),
                ("POST", "/faults/clear", {"ids": ["h1/2"]}),
                ("POST", "/faults/clear", {"selector": "vm=h1-vm1"}),
                ("POST", "/migrations", {"host": "h1", "vm": "h1-vm1"}),
                ("POST", "/confine", {"host": "h1", "vm": "h1-vm1", "pes": "0"}),
                ("POST", "/workers/h1/h1-vm1/reset", None),
                ("DELETE", "/channels/h1/2", None),
                ("POST", "/workers/h2/h2-vm0/reset", None),
                ("GET", "/hosts?selector=host%3Dh2", None),
            ]:
                answer = await rig.ask(method, path, body)
                assert answer.status == 404, f"{method} {path}: {answer.body}"
                assert "h1-vm1" not in answer.text.partition("there is")[2], answer.text
            assert all(not fault["cleared"] for fault in rig.daemon.world.faults)

    run(test())


def test_an_owner_can_steer_their_own_vm(tmp_path: Path) -> None:
    async def test() -> None:
        async with guarded(tmp_path, 2) as (rig, secrets):
            rig.secret = secrets["owner"]
            opened = await rig.post("/channels", {"selector": "fn=stdio"})
            assert {channel["vm"] for channel in opened["instances"][0]["channels"]} == {"h1-vm0"}
            assert opened["instances"][0]["owner"] == "owner"
            await rig.post("/channels/h1/1/input", {"text": "x"})
            assert (await rig.ask("DELETE", "/channels/h1/1")).status == 200

    run(test())


def test_an_owner_cannot_close_instances_with_other_vms(tmp_path: Path) -> None:
    async def test() -> None:
        async with guarded(tmp_path) as (rig, secrets):
            await rig.post("/channels", {"selector": "fn=log"})
            rig.secret = secrets["owner"]
            answer = await rig.ask("DELETE", "/channels/h1/1")
            assert (answer.status, "covers other VMs, too" in answer.text) == (403, True)
            for path in ("/policies/h1",):
                assert (await rig.ask("GET", path)).status == 403
            assert (await rig.ask("POST", "/balance", {})).status == 403

    run(test())


def test_an_owners_stream_shows_their_vm_only(tmp_path: Path) -> None:
    async def test() -> None:
        async with guarded(tmp_path, 2) as (rig, secrets):
            await rig.post("/channels", {"selector": "fn=log,pe=0"})
            rig.secret = secrets["owner"]
            async with rig.stream(events=1) as stream:
                await stream.subscribe(instances=["h1/1"], load=True)
                load = await stream.next("load")
                assert {host: list(part["pes"]) for host, part in load["hosts"].items()} == {"h1": ["h1-vm0"]}
                assert load["hosts"]["h1"]["gpus"] == {}
                await stream.listens(1)
                rig.daemon.fault("h1-vm1")
                rig.daemon.tick()
                rig.daemon.fault("h1-vm0")
                seen = [await stream.next(), await stream.next()]
                assert [(one["type"], one["vm"]) for one in seen] == [("record", "h1-vm0"), ("event", "h1-vm0")]

    run(test())


def test_a_stream_ends_with_its_token(tmp_path: Path) -> None:
    async def test() -> None:
        async with guarded(tmp_path) as (rig, secrets):
            rig.secret = secrets["guest"]
            async with rig.stream(load=1) as stream:
                rig.centre.tick()
                assert (await stream.next())["type"] == "load"
                rig.clock.seconds = 3601
                rig.centre.tick()
                assert (await stream.socket.receive()).data == 1008
            await rig.until(lambda: len(rig.centre.hub) == 0)

    run(test())


def test_a_selector_that_would_name_too_many_vms_is_refused() -> None:
    many = [f"a-rather-long-name-of-a-vm-{number}" for number in range(20)]
    scope = Scope(frozenset(many))
    with pytest.raises(RefusedError, match="20 VMs of h match; allowed: fewer"):
        scope.narrow(parse(""), "h", many)
    assert scope.narrow(parse("vm=other"), "h", many) is None
    narrow = scope.narrow(parse(f"vm={many[3]}"), "h", many)
    assert narrow is not None
    assert narrow.vm == many[3]


def test_a_scope_with_a_host_does_not_cover_other_hosts() -> None:
    scope = Scope(frozenset({"h1/web"}))
    assert [scope.sees(host, "web") for host in ("h1", "h2")] == [True, False]


# ---- browsers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 200),
    ],
)
def test_requests_from_pages_of_other_origins_change_nothing(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            body = {"selector": "fn=log"}
            async with rig.client.post("/api/v1/channels", json=body, headers=headers) as response:
                assert response.status == status, await response.text()
            assert len(rig.daemon.host.instances) == (1 if status == 200 else 0)

    run(test())


def test_certificates_give_their_names_roles() -> None:
    class Transport:
        def __init__(self, name: str) -> None:
            self.name = name

        def get_extra_info(self, _what: str) -> Any:
            return {"subject": ((("organizationName", "x"),), (("commonName", self.name),))}

    class Request:
        method, headers, host = "GET", dict[str, str](), "centre.example"

        def __init__(self, name: str) -> None:
            self.transport = Transport(name)

    access = Access(clients={"grafana": "view"})
    caller = access.caller(Request("grafana"))  # type: ignore[arg-type]
    assert (caller.name, caller.role) == ("grafana", "view")
    with pytest.raises(RefusedError, match="certificate of 'mallory' has no role here"):
        access.caller(Request("mallory"))  # type: ignore[arg-type]
