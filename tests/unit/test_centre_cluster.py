"""Hosts that come, go, stall and lie: the control centre shows their state and goes on."""

from __future__ import annotations

import asyncio
import errno
import struct
from pathlib import Path
from typing import Any, NoReturn

import pytest
import structlog.testing

from control_center import daemon_link
from control_center.address import Credentials, TlsAddress, UnixAddress, parse
from control_center.cluster import Cluster, Gathered
from control_center.daemon_link import Connection, DaemonLink, connect
from control_center.errors import RefusedError, UnreachableError
from control_center.host import Host, HostConfig
from tests.fakes.control_daemon import FakeDaemon, torn_frame
from tests.limits import ANSWERS_WITHIN_S
from tests.unit.centre_rig import SHAPE, rig_of, run
from virtio_proto.control import frames
from virtio_proto.control.api import API_VERSION
from virtio_proto.control.shapes import checked
from virtio_proto.control.verbs import VERBS
from virtio_proto.control.verbs.hosts import Self


def test_an_internal_error_about_a_host_is_logged_and_the_host_is_polled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = iter(range(2))
    again = asyncio.Event()

    async def broken(_self: Host, _poll_s: float, _offset_s: float = 0.0) -> None:
        if next(runs, None) is None:
            again.set()
            await asyncio.Event().wait()
        raise ZeroDivisionError

    async def test() -> None:
        config = HostConfig("h1", parse("unix:/nowhere"))
        with structlog.testing.capture_logs() as lines:
            async with Cluster([config], poll_s=0), asyncio.timeout(ANSWERS_WITHIN_S):
                await again.wait()
        assert [(line["event"], line["host"]) for line in lines] == [("host_failed", "h1")] * 2

    monkeypatch.setattr(Host, "run", broken)
    run(test())


def test_a_silent_host_is_stale_then_down_and_up_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, 2) as rig:
            host = rig.host()
            host.ask = _unreachable  # type: ignore[method-assign,assignment]  # no answer within the time
            states = []
            for seconds in (2.0, 4.0, 31.0):
                rig.clock.seconds = seconds
                await rig.poll()
                states.append((host.state, host.since_ns == rig.clock.real_ns()))
            assert states == [("up", False), ("stale", True), ("down", True)]
            shown = (await rig.get("/hosts"))[0]
            assert (shown["state"], shown["reason"]) == ("down", "h1: no answer")
            assert len(shown["vms"]) == 2, "what was last known is shown"
            assert shown["told_ns"] < shown["since_ns"], "with the time at which it was told"
            assert list((await rig.get("/load"))["hosts"]) == ["h2"]
            del host.ask
            await rig.poll()
            assert host.state == "up"

    run(test())


async def _unreachable(*_args: Any) -> Any:
    raise UnreachableError("h1: no answer")


def test_a_daemon_that_comes_back_is_shown_with_its_open_channels(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            await rig.post("/channels", {"selector": "fn=log", "keep": True, "ttl_s": 60})
            await rig.daemon.stop()
            await rig.until(lambda: rig.host().reason != "")
            assert (await rig.ask("GET", "/policies/h1")).status == 502
            await rig.daemon.start()
            await rig.until(lambda: rig.host().reason == "")
            assert list(rig.host().instances) == [1]
            assert await rig.get("/policies/h1") == []

    run(test())


LOAD: dict[str, Any] = {
    "time_ns": 1,
    "host": 0.5,
    "gpus": {},
    "vms": {},
    "gpu_pes_used": {},
    "vm_pes_used": {},
    "pes": {},
}
LIES: list[tuple[str, Any, str]] = [
    ("topology", {"host": "h1", "gpus": "many", "vms": []}, "topology.gpus is 'many'; allowed: a list"),
    ("topology", None, "topology is None; allowed: a map"),
    ("load", {"time_ns": 1}, "load.host is missing"),
    ("load", {**LOAD, "pes": {"v": bytes(5000)}}, "more than 4096 elements"),
    ("load", {**LOAD, "host": True}, "load.host is True; allowed: a number"),
]


@pytest.mark.parametrize(("verb", "lie", "text"), LIES)
def test_a_daemon_that_sends_nonsense_is_stale_with_its_last_good_data(
    tmp_path: Path, verb: str, lie: Any, text: str
) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, 2) as rig:
            rig.daemon.misbehave.answers[verb] = lie
            for _ in range(5):  # the topology is asked for at every fifth poll
                await rig.poll()
            rig.clock.seconds = 10
            await rig.poll()
            host = rig.host()
            assert (host.state, text in host.reason) == ("stale", True), host.reason
            assert rig.host("h2").state == "up"
            assert len((await rig.get("/hosts"))[0]["vms"]) == 2

    run(test())


FRAMES = [
    torn_frame(),
    struct.pack("<I", 3) + b"\xc1\xc1\xc1",
    frames.encode({"id": 999, "ok": {}}),
    frames.encode({"push": "records", "instance": "one"}),
    frames.encode({"neither": 1}),
]


@pytest.mark.parametrize("raw", FRAMES)
def test_malformed_frame_ends_only_its_connection(tmp_path: Path, raw: bytes) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, 2) as rig:
            rig.daemon.misbehave.raw = raw
            with pytest.raises(UnreachableError):
                await rig.host().ask(Self.Request())
            rig.daemon.misbehave.raw = None
            await rig.until(lambda: rig.host().reason == "")
            await rig.poll()
            assert [rig.host(name).state for name in ("h1", "h2")] == ["up", "up"]

    run(test())


def test_every_verb_of_the_fake_answers_in_the_contracts_shape(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            await rig.post("/channels", {"selector": "fn=perf"})
            rig.daemon.fault("h1-vm0")
            for verb in (
                "topology",
                "load",
                "stat",
                "snapshot",
                "faults",
                "ls",
                "policies",
                "migrations",
                "firmware",
                "self",
            ):
                checked(rig.daemon.host.answer(verb, {}, None), VERBS[verb].Answer, verb)

    run(test())


# ---- one link ------------------------------------------------------------------------------------


def test_answers_are_matched_whatever_their_order(tmp_path: Path) -> None:
    async def test() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            hello = await frames.read(reader)
            assert hello is not None
            greeting = {
                "version": API_VERSION,
                "host": "h",
                "uuid": "u",
                "daemon": "1",
                "role": "admin",
                "vms": None,
                "time_ns": 0,
            }
            writer.write(frames.encode({"id": hello["id"], "ok": greeting}))
            asked = [await frames.read(reader) for _ in range(3)]
            for frame in reversed(asked):
                assert frame is not None
                writer.write(frames.encode({"id": frame["id"], "ok": frame["do"]}))
            await reader.read()
            writer.close()

        async with await asyncio.start_unix_server(serve, tmp_path / "s"):
            connection = await connect(UnixAddress(tmp_path / "s"))
            answers = await asyncio.gather(*(connection.call(verb) for verb in "abc"))
            assert list(map(frames.unpack, answers)) == ["a", "b", "c"]
            await connection.close()
            with pytest.raises(UnreachableError, match="closed"):
                await connection.call("d")

    run(test())


def test_an_answer_that_comes_too_late_is_dropped(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeDaemon("h", tmp_path / "s", shape=SHAPE) as daemon:
            connection = await connect(UnixAddress(tmp_path / "s"))
            daemon.misbehave.silent = True
            with pytest.raises(UnreachableError, match=r"no answer to self within 0\.01 s"):
                await connection.call("self", timeout_s=0.01)
            daemon.misbehave.silent = False
            assert frames.unpack(await connection.call("topology"))["host"] == "h"
            await connection.close()

    run(test())


@pytest.mark.parametrize(
    ("answer", "text"),
    [({"version": 7}, "its hello is wrong"), (None, "its hello is wrong"), ({}, "its hello is wrong")],
)
def test_server_that_is_no_vgcd_is_refused(tmp_path: Path, answer: Any, text: str) -> None:
    async def test() -> None:
        async with FakeDaemon("h", tmp_path / "s", shape=SHAPE) as daemon:
            daemon.misbehave.answers["hello"] = answer
            with pytest.raises(UnreachableError, match=text):
                await connect(UnixAddress(tmp_path / "s"))

    run(test())


def test_refusal_is_raised_before_unreachable_hosts() -> None:
    refused = RefusedError("denied", "not for you")
    failed = {"a": UnreachableError("a is down"), "b": refused, "c": UnreachableError("c is down")}
    with pytest.raises(RefusedError) as raised:
        Gathered[int](failed=failed).or_raise()
    assert raised.value is refused
    assert Gathered({"d": 1}, failed).or_raise() == {"d": 1}


def test_unreachable_daemon_is_named_with_its_address(tmp_path: Path) -> None:
    async def test() -> None:
        with pytest.raises(UnreachableError, match=r"unix:.*/s cannot be reached: No such file"):
            await connect(UnixAddress(tmp_path / "s"))

    run(test())


def test_socket_of_another_user_says_who_may_use_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def closed(*_asked: object) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied")

    async def test() -> None:
        monkeypatch.setattr(daemon_link, "_streams", closed)
        with pytest.raises(UnreachableError, match="Permission denied; allowed: the daemon's user and root"):
            await connect(UnixAddress(tmp_path / "s"))

    run(test())


def test_pauses_between_attempts_double_up_to_a_bound(tmp_path: Path) -> None:
    pauses: list[float] = []

    class EnoughError(Exception):
        pass

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 8:
            raise EnoughError

    async def up(_connection: Connection) -> None:
        raise AssertionError

    async def test() -> None:
        reasons: list[str] = []
        link = DaemonLink(
            UnixAddress(tmp_path / "s"), on_push=lambda _push: None, on_up=up, on_down=reasons.append, pause=pause
        )
        with pytest.raises(EnoughError):
            await link.run()
        assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
        assert len(reasons) == 8
        with pytest.raises(UnreachableError, match="cannot be reached"):
            await link.ask(Self.Request())

    run(test())


def test_a_wrong_token_is_refused_as_denied(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeDaemon("h", tmp_path / "s", shape=SHAPE, token="right-one"):
            with pytest.raises(RefusedError, match="token is unknown") as refused:
                await connect(UnixAddress(tmp_path / "s"), Credentials(token="wrong-one"))
            assert refused.value.kind == "denied"
            connection = await connect(UnixAddress(tmp_path / "s"), Credentials(token="right-one"))
            await connection.close()

    run(test())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("unix:/run/vgc/control.sock", UnixAddress(Path("/run/vgc/control.sock"))),
        ("tls://gpu1.example:7071", TlsAddress("gpu1.example", 7071)),
        ("tls://[::1]:7071", TlsAddress("::1", 7071)),
    ],
)
def test_addresses_are_parsed(text: str, found: object) -> None:
    assert parse(text) == found
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "unix:relative", "http://x:1", "tls://x", "tls://x:0", "tls://x:99999", "unix:/" + "a" * 200]
)
def test_malformed_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="allowed: unix:/absolute/path or tls://host:port"):
        parse(text)
