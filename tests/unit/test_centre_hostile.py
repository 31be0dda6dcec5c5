"""Attacks on the control centre: by clients, by daemons that lie, by guests whose texts are shown."""

from __future__ import annotations

import asyncio
import copy
import gzip
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
from aiohttp import ClientPayloadError, WSCloseCode

from control_center import websocket
from control_center.answers import checked
from control_center.errors import UnreachableError
from control_center.exposition import Page
from control_center.recorder import Settings, StoreRecorder
from control_center.recording_port import EventRow, ExportFormat, Query, RecordRow, Row
from control_center.rest.route import Route
from tests.unit.centre_rig import API, Rig, access_of, rig_of, run, token_file

JSON = {"Content-Type": "application/json"}


async def sent(rig: Rig, method: str, path: str, data: bytes, **headers: str) -> tuple[int, str]:
    """A request whose body need not be JSON: status, text."""
    given = JSON | {name.replace("_", "-"): value for name, value in headers.items()}
    async with rig.client.request(method, API + path, data=io.BytesIO(data), headers=given) as response:
        return response.status, await response.text()


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


# ---- clients -------------------------------------------------------------------------------------


HALF = rb'"\ud800"'
BODIES = [
    ("POST", "/thresholds", b'{"name": %s, "low": 1}' % HALF, "allowed: text without halves"),
    ("POST", "/thresholds", b'{"name": "x", "low": NaN}', "NaN is no number"),
    ("POST", "/thresholds", b'{"name": "x", "low": 1e999}', "allowed: a finite number"),
    ("POST", "/thresholds", b'{"name": "x", "low": 1%s}' % (b"0" * 40), "allowed: a number of 64 bits"),
    ("POST", "/channels", b'{"selector": "fn=log", "ttl_s": -Infinity}', "-Infinity is no number"),
    ("POST", "/channels", b'{"selector": "fn=log", "level": -1%s}' % (b"0" * 30), "allowed: a number of 64 bits"),
    ("POST", "/channels", b'{"selector": "fn=log", %s: 1}' % HALF, r"body.\\ud800 is no field"),
    ("POST", "/channels", b'{"selector": %s}' % (b"[" * 900 + b"]" * 900), "body.selector is [[["),
    ("POST", "/channels", b"[" * 100_000, "the body is not JSON"),
    ("POST", "/channels", b'{"selector": %s}' % (b"9" * 5000), "the body is not JSON"),
    ("POST", "/channels", b"\xff\xfe{}", "the body is not JSON"),
    ("POST", "/migrations", b'{"host": %s, "vm": "x"}' % HALF, "allowed: text without halves"),
    ("POST", "/firmware/activate", b'{"version": %s}' % HALF, "allowed: text without halves"),
    ("PUT", "/policies/h1", b'{"policies": [{"name": %s}]}' % HALF, "allowed: text without halves"),
]


def test_bodies_that_json_allows_and_nothing_behind_it_does_are_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            for method, path, body, text in BODIES:
                status, answer = await sent(rig, method, path, body)
                assert (status, text in answer) == (400, True), f"{body!r:.80}: {status} {answer}"
            assert rig.host().state == "up"

    run(test())


def test_an_origin_that_is_no_url_is_somebody_elses(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            for origin in ("http://[", "null", "http://evil.example", "http://127.0.0.1.evil.example"):
                status, text = await sent(rig, "POST", "/snapshots", b"{}", Origin=origin)
                assert (status, "a page of" in text) == (403, True)

    run(test())


@pytest.mark.parametrize("secret", ["\udcff\udcfe", "vgc_" + "x" * 4000, "\u0660"])
def test_a_token_of_any_bytes_is_unknown(tmp_path: Path, secret: str) -> None:
    async def test() -> None:
        token_file(tmp_path / "tokens", ("admin", None, None, "root"))
        async with rig_of(tmp_path, access=access_of(tmp_path / "tokens", lambda: 0)) as rig:
            raw = secret.encode(errors="surrogateescape")
            server = rig.client.server
            reader, writer = await asyncio.open_connection(server.host, server.port)
            writer.write(b"GET /api/v1/hosts HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + raw + b"\r\n\r\n")
            line = await reader.readline()
            writer.close()
            assert line.split()[1] in (b"401", b"400")  # the HTTP parser refuses some bytes itself

    run(test())


def test_who_has_no_token_is_not_told_what_is_in_the_file_of_tokens(tmp_path: Path) -> None:
    async def test() -> None:
        token_file(tmp_path / "tokens", ("admin", None, None, "root"))
        async with rig_of(tmp_path, access=access_of(tmp_path / "tokens", lambda: 0)) as rig:
            (tmp_path / "tokens").write_text("vgc_a-secret-by-mistake role=admin\n")
            rig.secret = "vgc_guess"
            answer = await rig.ask("GET", "/hosts")
            assert answer.status == 401
            assert "mistake" not in answer.text
            assert str(tmp_path) not in answer.text

    run(test())


def test_an_owner_gets_nothing_of_others_from_a_snapshot_that_lies(tmp_path: Path) -> None:
    async def test() -> None:
        secrets = token_file(tmp_path / "tokens", ("admin", None, None, "root"), ("view", ["h1-vm0"], None, "owner"))
        async with rig_of(tmp_path, access=access_of(tmp_path / "tokens", lambda: 0)) as rig:
            rig.secret = secrets["root"]
            other = (await rig.post("/snapshots", {"selector": "vm=h1-vm1"}))["hosts"]["h1"]
            rig.daemon.misbehave.answers["snapshot"] = other
            rig.secret = secrets["owner"]
            taken = await rig.post("/snapshots", {"selector": "vm=h1-vm0"})
            assert "h1-vm1" not in str(taken)

    run(test())


def test_a_daemons_refusal_names_no_vms_of_others(tmp_path: Path) -> None:
    async def test() -> None:
        secrets = token_file(tmp_path / "tokens", ("operate", ["h1-vm0"], None, "owner"))
        async with rig_of(tmp_path, access=access_of(tmp_path / "tokens", lambda: 0)) as rig:
            rig.secret = secrets["owner"]
            for path, body in (("/channels", {"selector": "fn=log,gpu=1"}), ("/snapshots", {"selector": "gpu=1"})):
                answer = await rig.ask("POST", path, body)
                assert (answer.status, answer.text.startswith("h1 has nothing of yours")) == (404, True)

    run(test())


def test_files_outside_of_the_page_are_not_served(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            server = rig.client.server
            for path in (
                "/../app.py",
                "/%2e%2e/app.py",
                "/js/..%2f..%2fapp.py",
                "//etc/passwd",
                "/css",
                "/\\..\\app.py",
            ):
                reader, writer = await asyncio.open_connection(server.host, server.port)
                writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                line = await reader.readline()
                writer.close()
                assert line.split()[1] in (b"400", b"403", b"404"), path

    run(test())


def test_a_body_is_as_long_as_its_route_allows_packed_or_not(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            for data, headers in (
                (b'{"selector": "' + b" " * (2 << 20) + b'"}', {}),
                (gzip.compress(b" " * (64 << 20)), {"Content_Encoding": "gzip"}),
            ):
                status, text = await sent(rig, "POST", "/channels", data, **headers)
                assert (status, "too long; allowed: 1048576 bytes" in text) == (400, True)
            image = b'{"image": "' + b"A" * (2 << 20) + b'"}'
            assert "too long" not in (await sent(rig, "POST", "/firmware/stage", image))[1]
            status, text = await sent(rig, "POST", "/channels", b"garbage", Content_Encoding="gzip")
            assert status == 400

    run(test())


class Broken(StoreRecorder):
    """A store that fails at once, or in the middle of an export; what it replays lies in the far future."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Settings(f"sqlite:///{folder}/recording.db"))
        self.pieces = 0
        self.query = self._query
        self.export = self._export
        self.replay = self._replay

    async def _query(self, query: Query, limit: int) -> list[RecordRow]:  # noqa: ARG002
        raise OSError("the disk is gone")

    async def _export(self, query: Query, form: ExportFormat) -> AsyncIterator[bytes]:  # noqa: ARG002
        for _ in range(self.pieces):
            yield b"x" * 1000
        raise OSError("the disk is gone")

    async def _replay(self, query: Query) -> AsyncIterator[Row]:  # noqa: ARG002
        yield "event", EventRow(time_ns=2**62, host="h1", event="x", vm="h1-vm0", detail={})


def test_a_store_that_fails_is_told_and_an_export_that_ends_early_is_seen(tmp_path: Path) -> None:
    async def test() -> None:
        broken = Broken(tmp_path)
        async with rig_of(tmp_path, recorder=broken) as rig:
            for path in ("/records", "/export"):
                answer = await rig.ask("GET", path)
                assert (answer.status, answer.text) == (502, "the disk is gone")
            broken.pieces = 3
            with pytest.raises(ClientPayloadError):
                await rig.ask("GET", "/export", format="csv")

    run(test())


def test_a_replay_ends_with_its_token_and_counts_as_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "MAX_CLIENTS", 1)

    async def test() -> None:
        secrets = token_file(tmp_path / "tokens", ("view", None, None, "viewer"))
        access = access_of(tmp_path / "tokens", lambda: 0)
        async with rig_of(tmp_path, access=access, recorder=Broken(tmp_path)) as rig:
            rig.secret = secrets["viewer"]
            async with rig.stream(replay_from_ns="1", events="1", speed="0.1") as stream:
                answer = await rig.ask("GET", "/stream")
                assert (answer.status, "1 streams are open" in answer.text) == (429, True)
                (tmp_path / "tokens").write_text("")
                rig.centre.tick()
                async with asyncio.timeout(20):
                    assert (await stream.socket.receive()).data == WSCloseCode.POLICY_VIOLATION

    run(test())


# ---- daemons -------------------------------------------------------------------------------------


UNPLAIN = [msgpack.ExtType(5, b"x"), nested(900), {b"bytes": 1}]


@pytest.mark.parametrize("value", UNPLAIN, ids=["extension", "deep", "bytes as a key"])
def test_what_has_no_json_is_an_error_of_the_host_that_sent_it(tmp_path: Path, value: Any) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, 2) as rig:
            topology = copy.deepcopy(await rig.host().ask("topology"))
            topology["vms"][0]["more"] = value
            rig.daemon.misbehave.answers = {"topology": topology, "firmware": {"images": [{"x": value}], "pes": []}}
            rig.daemon.push({"push": "event", "time_ns": 1, "event": "worker_ready", "vm": None, "detail": {}})
            await rig.settle()
            await rig.poll()
            assert "the daemon's answer is wrong" in rig.host().reason
            assert [host["host"] for host in await rig.get("/hosts")] == ["h1", "h2"]
            assert list((await rig.get("/firmware"))["hosts"]) == ["h2"]

    run(test())


def test_a_push_that_nothing_was_prepared_for_ends_its_connection_only(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            host = rig.host()
            rig.daemon.push({"push": "records", "instance": nested(1000)})
            await rig.until(lambda: "push records" in host.reason)
            await rig.until(lambda: not host.reason)  # it is connected again
            await rig.poll()
            assert host.state == "up"

    run(test())


def test_an_answer_that_is_wrong_in_a_huge_way_is_told_in_short() -> None:
    for value in (nested(5000), list(range(100_000)), "x" * 1_000_000, {"x" * 100_000: nested(50)}):
        with pytest.raises(UnreachableError) as caught:
            checked("load", {"time_ns": value})
        assert len(caught.value.text) < 300


def test_a_page_of_metrics_has_each_series_once_and_each_sample_in_a_line() -> None:
    page = Page()
    labels = {"vm": 'a"} 1\nvgc_host_up{vm="\\', "counter": "\u2028\x00\r"}
    page.add("vgc_pe_counter_total", 1, labels)
    page.add("vgc_pe_counter_total", 2, labels)
    lines = [line for line in page.text().split("\n") if line and not line.startswith("#")]
    assert lines == ['vgc_pe_counter_total{vm="a\\"} 1\\nvgc_host_up{vm=\\"\\\\",counter="\u2028\x00\r"} 2']


def test_the_routes_that_change_something_all_take_a_role() -> None:
    from control_center.rest import ROUTES

    changing: list[Route] = [route for route in ROUTES if route.method != "GET" and route.path != "/snapshots"]
    assert changing
    assert all(route.role in ("operate", "admin") for route in changing)
