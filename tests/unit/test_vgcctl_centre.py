"""vgcctl's verbs against a control centre with two hosts and a recorder."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from control_center import address
from control_center.centre import Centre
from control_center.config import CentreConfig, RecorderConfig
from control_center.host import HostConfig
from control_center.recorder import StoreRecorder
from control_center.service import running
from tests.fakes.control_daemon import FakeDaemon
from tests.fakes.control_verbs import Refusal
from tests.unit.vgcctl_rig import SHAPE, Ran, ticking, until, vgcctl
from virtio_proto.control import tokens


@dataclass
class Cluster:
    """A control centre over simulated hosts, which vgcctl is to ask with ``--centre``."""

    url: str
    centre: Centre
    daemons: list[FakeDaemon]

    async def run(self, *argv: str) -> Ran:
        return await ticking(vgcctl(*argv, "--centre", self.url), *self.daemons)

    async def recorded(self) -> None:
        """Returns when everything so far is in the recording."""
        assert isinstance(self.centre.recorder, StoreRecorder)
        await self.centre.recorder.flush()


def with_centre(
    tmp_path: Path,
    test: Callable[[Cluster], Coroutine[Any, Any, None]],
    token_lines: str | None = None,
    gone: tuple[str, ...] = (),
) -> None:
    """Runs `test` with a control centre over the hosts h1 and h2, and over unreachable ones."""
    token_file = None
    if token_lines is not None:
        token_file = tmp_path / "tokens"
        token_file.write_text(token_lines)

    async def run() -> None:
        paths = [tmp_path / "h1.sock", tmp_path / "h2.sock"]
        async with FakeDaemon("h1", paths[0], shape=SHAPE) as first, FakeDaemon("h2", paths[1], shape=SHAPE) as second:
            all_paths = [*paths, *(tmp_path / f"{name}.sock" for name in gone)]
            hosts = tuple(HostConfig(path.stem, address.parse(f"unix:{path}")) for path in all_paths)
            recording = RecorderConfig(f"sqlite://{tmp_path}/recording.db")
            config = CentreConfig(hosts, ("127.0.0.1", 0), tokens=token_file, recorder=recording)
            async with running(config) as (url, centre):
                daemons = [first, second]
                there = [host for name, host in centre.cluster.hosts.items() if name not in gone]
                await until(lambda: all(host.state == "up" for host in there), first)
                await test(Cluster(url, centre, daemons))

    asyncio.run(run())


def test_ls_shows_all_hosts(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        ran = await cluster.run("ls")
        assert ran.code == 0, ran.err
        assert all(name in ran.out for name in ("h1", "h2", "h1-vm0", "h2-vm1"))
        chosen = await cluster.run("ls", "vms", "host=h2", "--json")
        assert [vm["vm"] for vm in chosen.json] == ["h2-vm0", "h2-vm1"]

    with_centre(tmp_path, test)


def test_channels_of_several_hosts_are_opened_changed_and_closed(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        opened = await cluster.run("open", "pe=0,fn=log", "--ttl", "1m", "--json")
        names = [instance["instance"] for instance in opened.json]
        assert names == ["h1/1", "h2/1"]
        ambiguous = await cluster.run("level", "pe=0,fn=log", "debug", "--json")
        assert [item["level"] for item in ambiguous.json] == [5, 5]
        assert (await cluster.run("close", "h1/1")).code == 0
        left = await cluster.run("ls", "channels", "--json")
        assert [item["instance"] for item in left.json] == ["h2/1"]
        assert (await cluster.run("close", "--all")).code == 0
        assert not cluster.daemons[1].host.instances

    with_centre(tmp_path, test)


def test_tail_brings_records_of_all_hosts_and_closes_its_channels(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        ran = await cluster.run("tail", "fn=stdio,pe=0", "--count", "12", "--json")
        assert ran.code == 0, ran.err
        assert {json.loads(line)["host"] for line in ran.lines} == {"h1", "h2"}
        assert not any(daemon.host.instances for daemon in cluster.daemons)

    with_centre(tmp_path, test)


def test_send_reaches_one_element_through_the_centre(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        ran = await cluster.run("send", "vm=h2-vm0,pe=1", r"7\n", "--eof", "--for", "0.1")
        assert ran.code == 0, ran.err
        (sent,) = cluster.daemons[1].host.sent
        assert (sent["data"], sent["eof"]) == (b"7\n", True)
        assert not cluster.daemons[0].host.sent

    with_centre(tmp_path, test)


def test_stat_fault_and_snap_cover_all_hosts(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        ran = await cluster.run("stat", "vm=h1-vm0", "--for", "0.05s", "--json")
        assert [(stat["host"], stat["pe"]) for stat in ran.json] == [("h1", pe) for pe in range(4)]
        number = cluster.daemons[1].fault("h2-vm0", 1)
        assert f"h2/{number}" in (await cluster.run("fault")).out
        assert (await cluster.run("fault", "clear", f"h2/{number}")).out == "1 cleared\n"
        taken = await cluster.run("snap", "take", "pe=0", "--json")
        again = await cluster.run("snap", "take", "pe=0", "--json")
        listing = await cluster.run("snap", "list", "--json")
        assert {item["id"] for item in listing.json} == {taken.json["id"], again.json["id"]}
        shown = await cluster.run("snap", "show", str(taken.json["id"]))
        assert "100 % answered" in shown.out
        pair = (str(taken.json["id"]), str(again.json["id"]))
        compared = await cluster.run("snap", "diff", *pair, "--json")
        assert compared.code == 0, compared.err
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{cluster.url.rstrip(chr(47))}/api/v1/snapshots/{pair[0]}/diff/{pair[1]}") as of_the_page,
        ):
            assert compared.json == await of_the_page.json()
        assert (await cluster.run("snap", "show", "99")).code == 3

    with_centre(tmp_path, test)


def test_migrate_policy_and_flash_steer_through_the_centre(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        assert (await cluster.run("migrate", "h1-vm0", "--to", "1")).code == 0
        assert cluster.daemons[0].world.vms["h1-vm0"].gpu == 1
        assert (await cluster.run("migrate", "h2/h2-vm0", "--confine", "0-1")).code == 0
        assert [move["vm"] for move in (await cluster.run("migrate", "--json")).json] != []
        assert (await cluster.run("migrate", "--balance")).code == 0
        assert (await cluster.run("policy", "add", "hang", "--kinds", "hung", "--action", "reset")).code == 0
        policies = await cluster.run("policy", "ls", "--json")
        assert [(policy["host"], policy["name"]) for policy in policies.json] == [("h1", "hang"), ("h2", "hang")]
        assert (await cluster.run("worker", "quiesce", "h2/h2-vm0")).code == 0
        assert cluster.daemons[1].world.vms["h2-vm0"].frozen
        image = tmp_path / "image"
        image.write_bytes(b"VGCF 2")
        staged = await cluster.run("flash", "stage", str(image), "host=h1", "--json")
        (version,) = {pe["other"] for pe in staged.json["pes"]}
        assert (await cluster.run("flash", "activate", version, "host=h1")).code == 0

    with_centre(tmp_path, test)


def test_an_unreachable_host_does_not_affect_commands_for_other_hosts(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        image = tmp_path / "image"
        image.write_bytes(b"VGCF 2")
        staged = await cluster.run("flash", "stage", str(image), "vm=h1-vm0", "--json")
        assert (staged.code, staged.err) == (0, "")
        (version,) = {pe["other"] for pe in staged.json["pes"]}
        assert (await cluster.run("flash", "activate", version, "vm=h1-vm0")).code == 0
        sent = await cluster.run("send", "vm=h1-vm0,pe=0", "x", "--linger", "0s")
        assert (sent.code, "dead" in sent.err) == (0, False)
        added = await cluster.run("policy", "add", "hang", "vm=h1-*", "--kinds", "hung")
        assert (added.code, [policy["name"] for policy in added_to(cluster)]) == (1, ["hang", "hang"])
        assert "dead: nothing has changed: it is down" in added.err
        removed = await cluster.run("policy", "rm", "hang", "--host", "h2")
        assert (removed.code, removed.err) == (0, "")
        removed = await cluster.run("policy", "rm", "hang")
        assert (removed.code, added_to(cluster)) == (1, [])

    with_centre(tmp_path, test, gone=("dead",))


def added_to(cluster: Cluster) -> list[Any]:
    """Policies of all hosts."""
    return [policy for daemon in cluster.daemons for policy in daemon.host.policies]


def test_policy_that_one_host_refuses_is_said_to_be_on_the_others_only(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        def refuse(_fields: object) -> None:
            raise Refusal("malformed", "policy hang: its VMs cannot be migrated")

        cluster.daemons[1].host.do_set_policies = refuse  # type: ignore[method-assign,assignment]
        added = await cluster.run("policy", "add", "hang", "--action", "migrate", "--json")
        assert added.code == 1
        assert [(policy["host"], policy["name"]) for policy in added.json] == [("h1", "hang")]
        assert "h2: nothing has changed: " in added.err
        assert "its VMs cannot be migrated" in added.err
        refused = await cluster.run("policy", "add", "hang", "--action", "migrate", "--host", "h2")
        assert (refused.code, "its VMs cannot be migrated" in refused.err) == (3, True)

    with_centre(tmp_path, test)


def test_hosts_that_failed_are_named(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        image = tmp_path / "image"
        image.write_bytes(b"VGCF 2")
        staged = await cluster.run("flash", "stage", str(image), "--json")
        versions = {pe["other"] for pe in staged.json["pes"]}
        activated = await cluster.run("flash", "activate", *versions)
        for ran in (staged, activated):
            assert (ran.code, ran.err.count("vgcctl: dead: failed: ")) == (1, 1)
        cluster.daemons[0].fault("h1-vm0", 1)
        cleared = await cluster.run("fault", "clear", "pe=0-3")
        assert (cleared.code, cleared.out, cleared.err.count("vgcctl: dead: failed: ")) == (1, "1 cleared\n", 1)
        balanced = await cluster.run("migrate", "--balance")
        assert (balanced.code, balanced.err.count("vgcctl: dead: failed: ")) == (1, 1)
        taken = await cluster.run("snap", "take")
        assert (taken.code, "no snapshot of dead: failed: " in taken.err) == (0, True)

    with_centre(tmp_path, test, gone=("dead",))


def test_watch_shows_all_hosts_and_doctor_names_an_unreachable_one(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        ran = await cluster.run("watch", "--count", "1")
        assert ran.code == 0, ran.err
        assert "h2-vm1" in ran.out
        ran = await cluster.run("doctor")
        assert ran.code == 0, ran.out
        assert "recording at sqlite" in ran.out
        await cluster.daemons[1].stop()
        await until(lambda: cluster.centre.cluster.hosts["h2"].state != "up", cluster.daemons[0])
        ran = await cluster.run("doctor")
        assert "host h2" in ran.out
        assert "is vgcd running there" in ran.out
        await cluster.daemons[1].start()

    with_centre(tmp_path, test)


def test_a_recording_is_listed_played_and_exported(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.run("tail", "fn=perf,vm=h1-vm0", "--count", "5")
        await cluster.recorded()
        listing = await cluster.run("replay", "--list")
        assert listing.code == 0, listing.err
        assert "event opened" in listing.out
        played = await cluster.run("replay", "vm=h1-vm0", "--speed", "max", "--json")
        rows = [json.loads(line) for line in played.lines]
        assert sum(row["type"] == "record" for row in rows) >= 5
        assert {row["vm"] for row in rows} == {"h1-vm0"}
        times = [row["time_ns"] for row in rows]
        early = await cluster.run("replay", "--speed", "max", "--to", str(times[2]), "--json")
        assert all(json.loads(line)["time_ns"] < times[2] for line in early.lines)
        trace = tmp_path / "trace.json"
        assert (await cluster.run("replay", "--export", "perfetto", "-o", str(trace))).code == 0
        assert len(json.loads(trace.read_bytes())["traceEvents"]) > 5
        table = await cluster.run("replay", "vm=h1-vm0", "--export", "csv")
        assert table.lines[0].startswith("time_ns,time,type,host")

    with_centre(tmp_path, test)


def test_insufficient_roles_and_expired_tokens_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    viewer, view = tokens.new("view", frozenset({"h1-vm0"}), None, "ann")
    late, expired = tokens.new("admin", None, 1_000_000_000, "bob")
    monkeypatch.delenv("VGC_TOKEN", raising=False)

    async def test(cluster: Cluster) -> None:
        nobody = await cluster.run("ls")
        assert (nobody.code, nobody.out) == (3, "")
        old = await cluster.run("ls", "--token", late)
        assert (old.code, "expired" in old.err) == (3, True)
        monkeypatch.setitem(os.environ, "VGC_TOKEN", viewer)
        ran = await cluster.run("ls", "--json")
        assert [vm["vm"] for vm in ran.json["vms"]] == ["h1-vm0"]
        refused = await cluster.run("open", "vm=h1-vm0,fn=log")
        assert (refused.code, "operate" in refused.err) == (3, True)
        unknown = await cluster.run("snap", "take", "vm=h1-vm1")
        assert unknown.code == 3
        await cluster.recorded()
        listing = await cluster.run("replay", "--list")
        assert (listing.code, listing.err) == (0, "")
        assert listing.lines[0].startswith("you may see of the recording: h1-vm0, without events")
        status = await cluster.run("status")
        assert "recording: its extent is told to callers that see all VMs" in status.out
        assert "the recording that is of your VMs may be read" in (await cluster.run("doctor")).out

    with_centre(tmp_path, test, f"{view.line()}\n{expired.line()}\n")


@pytest.mark.parametrize(
    "body", [b"hi", b"{}", b"[]", b"[1]", b'[{"host": "h1"}]', b"null", b'{"hosts": {"h1": 1}}', b"[" * 9999]
)
def test_a_server_that_is_no_control_centre_is_reported(body: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            looks = {verb: await vgcctl(*verb.split(), "--centre", url) for verb in LOOKS}
        right = {verb for verb, ran in looks.items() if ran.code == 0}
        assert right <= (EMPTY if body == b"[]" else set()), looks
        assert all("is not a control centre" in ran.err for verb, ran in looks.items() if verb not in right), looks
        assert {ran.code for verb, ran in looks.items() if verb not in right} <= {4}

    asyncio.run(run())


LOOKS = ("ls", "watch --count 1", "snap take", "snap list", "fault", "migrate", "migrate --balance", "flash ls")
EMPTY = {"ls", "snap list", "fault", "migrate"}
"""Verbs that succeed where every list is empty."""


SAME = (
    *("ls", "ls vms", "ls channels", "stat vm=h1-vm0", "fault", "policy ls", "flash ls host=h1"),
    *("migrate", "migrate --balance --host h1", "watch host=h1 --count 1", "open vm=h1-vm0,fn=log --ttl 60s"),
)


def test_json_output_has_the_same_fields_over_rest_and_directly(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        daemon = cluster.daemons[0]
        daemon.fault("h1-vm0", 1)
        await cluster.run("open", "host=h1,vm=h1-vm0,fn=perf", "--ttl", "1m")
        await cluster.run("policy", "add", "hang", "--kinds", "hung", "--action", "reset")
        await cluster.run("migrate", "h1-vm1", "--to", "0")
        for verb in SAME:
            words = [*verb.split(), "--json"]
            over_rest = await cluster.run(*words)
            direct = await ticking(vgcctl(*words, "--daemon", f"unix:{tmp_path}/h1.sock"), daemon)
            assert (over_rest.code, direct.code) == (0, 0), (verb, over_rest.err, direct.err)
            assert set(_keys(over_rest.json)) <= set(_keys(direct.json)), verb

    with_centre(tmp_path, test)


def _keys(value: Any, where: str = "") -> Iterator[str]:
    """Paths of a value with the kinds of their values; names of hosts and VMs do not count as keys."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _keys(item, where if key[:1] == "h" and key[1:2].isdigit() else f"{where}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from _keys(item, f"{where}[]")
    else:
        yield where
