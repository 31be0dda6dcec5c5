"""Attacks on the control centre: by clients, by lying daemons, by texts of guests."""

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
from control_center.answers import decoded
from control_center.errors import UnreachableError
from control_center.exposition import Page
from control_center.recorder import Settings, StoreRecorder
from control_center.recording_port import EventRow, ExportFormat, Query, RecordRow, Row
from control_center.rest.route import Route
from tests.limits import ANSWERS_WITHIN_S
from tests.unit.centre_rig import API, Rig, access_of, rig_of, run, token_file
from virtio_proto.control.verbs.hosts import Load, Topology

JSON = {"Content-Type": "application/json"}


async def sent(rig: Rig, method: str, path: str, data: bytes, **headers: str) -> tuple[int, str]:
    """Sends a request with any bytes as its body; returns status and text."""
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
    ("POST", "/thresholds", b'{"name": "x", "low": NaN}', "NaN is not a number"),
    ("POST", "/thresholds", b'{"name": "x", "low": 1e999}', "allowed: a finite number"),
    ("POST", "/thresholds", b'{"name": "x", "low": 1%s}' % (b"0" * 40), "allowed: a number of 64 bits"),
    ("POST", "/channels", b'{"selector": "fn=log", "ttl_s": -Infinity}', "-Infinity is not a number"),
    ("POST", "/channels", b'{"selector": "fn=log", "level": -1%s}' % (b"0" * 30), "allowed: a number of 64 bits"),
    ("POST", "/channels", b'{"selector": "fn=log", %s: 1}' % HALF, r"body.\\ud800 is no field"),
    ("POST", "/channels", b'{"selector": %s}' % (b"[" * 900 + b"]" * 900), "is nested deeper than 32"),
    ("POST", "/channels", b"[" * 100_000, "the body is not JSON"),
    ("POST", "/channels", b'{"selector": %s}' % (b"9" * 5000), "the body is not JSON"),
    ("POST", "/channels", b"\xff\xfe{}", "the body is not JSON"),
    ("POST", "/migrations", b'{"host": %s, "vm": "x"}' % HALF, "allowed: text without halves"),
    ("POST", "/firmware/activate", b'{"version": %s}' % HALF, "allowed: text without halves"),
    ("PUT", "/policies/h1", b'{"policies": [{"name": %s}]}' % HALF, "allowed: text without halves"),
]


def test_valid_json_with_impossible_values_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            for method, path, body, text in BODIES:
                status, answer = await sent(rig, method, path, body)
                assert (status, text in answer) == (400, True), f"{body!r:.80}: {status} {answer}"
            assert rig.host().state == "up"

    run(test())


def test_a_malformed_origin_counts_as_foreign(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            for origin in ("http://[", "null", "http://evil.example", "http://127.0.0.1.evil.example"):
                status, text = await sent(rig, "POST", "/snapshots", b"{}", Origin=origin)
                assert (status, "a page of" in text) == (403, True)

    run(test())


@pytest.mark.parametrize("secret", ["\udcff\udcfe", "vgc_" + "x" * 4000, "\u0660"])
def test_a_token_of_arbitrary_bytes_is_refused(tmp_path: Path, secret: str) -> None:
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


def test_errors_in_the_token_file_are_not_shown_to_clients(tmp_path: Path) -> None:
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


def test_a_daemon_may_answer_numbers_when_an_instance_is_closed(tmp_path: Path) -> None:
    """The verb's answer allows both forms, so a daemon can send either."""

    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            rig.daemon.misbehave.answers["close"] = {"closed": [1, 2]}
            answer = await rig.ask("DELETE", "/channels/h1/1")
            assert (answer.status, answer.body) == (200, {"closed": ["h1/1", "h1/2"]})

    run(test())


def test_a_forged_snapshot_shows_an_owner_no_other_vms(tmp_path: Path) -> None:
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


def test_a_daemons_refusal_names_no_vms_outside_of_the_scope(tmp_path: Path) -> None:
    async def test() -> None:
        secrets = token_file(tmp_path / "tokens", ("operate", ["h1-vm0"], None, "owner"))
        async with rig_of(tmp_path, access=access_of(tmp_path / "tokens", lambda: 0)) as rig:
            rig.secret = secrets["owner"]
            for path, body in (("/channels", {"selector": "fn=log,gpu=1"}), ("/snapshots", {"selector": "gpu=1"})):
                answer = await rig.ask("POST", path, body)
                assert (answer.status, answer.text.startswith("h1 refuses this, or none of your VMs")) == (404, True)

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


def test_length_of_a_body_is_limited_by_route_even_when_compressed(tmp_path: Path) -> None:
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
    """A store that fails at once, or in the middle of an export; its replay lies in the far future."""

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


def test_a_failing_store_is_reported_and_a_truncated_export_is_detected(tmp_path: Path) -> None:
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
                async with asyncio.timeout(ANSWERS_WITHIN_S):
                    assert (await stream.socket.receive()).data == WSCloseCode.POLICY_VIOLATION

    run(test())


# ---- daemons -------------------------------------------------------------------------------------


UNPLAIN = [msgpack.ExtType(5, b"x"), nested(900), {b"bytes": 1}]


@pytest.mark.parametrize("value", UNPLAIN, ids=["extension", "deep", "bytes as a key"])
def test_values_without_a_json_form_are_an_error_of_their_host(tmp_path: Path, value: Any) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, 2) as rig:
            topology = copy.deepcopy(await rig.host().ask(Topology.Request()))
            topology["vms"][0]["state"] = value
            rig.daemon.misbehave.answers = {"topology": topology, "firmware": {"images": [{"x": value}], "pes": []}}
            rig.daemon.push({"push": "event", "time_ns": 1, "event": "worker_ready", "vm": None, "detail": {}})
            await rig.settle()
            await rig.poll()
            assert "the daemon's answer is wrong" in rig.host().reason
            assert [host["host"] for host in await rig.get("/hosts")] == ["h1", "h2"]
            assert list((await rig.get("/firmware"))["hosts"]) == ["h2"]

    run(test())


@pytest.mark.parametrize("value", UNPLAIN, ids=["extension", "deep", "bytes as a key"])
def test_fields_that_no_shape_knows_reach_nobody(tmp_path: Path, value: Any) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            topology = copy.deepcopy(await rig.host().ask(Topology.Request()))
            rig.daemon.misbehave.answers = {"topology": {**topology, "more": value}}
            topology["vms"][0]["more"] = value
            assert "more" not in str(await rig.host().ask(Topology.Request()))

    run(test())


@pytest.mark.parametrize("value", UNPLAIN, ids=["extension", "deep", "bytes as a key"])
def test_an_events_detail_that_has_no_json_ends_its_connection(tmp_path: Path, value: Any) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            host = rig.host()
            rig.daemon.push({"push": "event", "time_ns": 1, "event": "x", "vm": None, "detail": {"y": value}})
            await rig.until(lambda: "push event.detail" in host.reason)
            await rig.until(lambda: not host.reason)  # it is connected again

    run(test())


def test_a_push_that_nothing_was_prepared_for_ends_its_connection_only(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            host = rig.host()
            rig.daemon.push({"push": "records", "instance": nested(1000)})
            await rig.until(lambda: "nested too deeply" in host.reason)
            await rig.until(lambda: not host.reason)  # it is connected again
            await rig.poll()
            assert host.state == "up"

    run(test())


def test_the_error_about_a_huge_wrong_answer_is_short() -> None:
    values = (nested(500), list(range(100_000)), "x" * 1_000_000, {"x" * 100_000: nested(50)})
    bodies = [msgpack.packb({"time_ns": value}) for value in values]
    for body in (*bodies, b"\x91" * 5000 + b"\x90"):
        with pytest.raises(UnreachableError) as caught:
            decoded(Load, body)
        assert len(caught.value.text) < 300


def test_metrics_have_each_series_once_and_one_sample_per_line() -> None:
    page = Page()
    labels = {"vm": 'a"} 1\nvgc_host_up{vm="\\', "counter": "\u2028\x00\r"}
    page.add("vgc_pe_counter_total", 1, labels)
    page.add("vgc_pe_counter_total", 2, labels)
    lines = [line for line in page.text().split("\n") if line and not line.startswith("#")]
    assert lines == ['vgc_pe_counter_total{vm="a\\"} 1\\nvgc_host_up{vm=\\"\\\\",counter="\u2028\x00\r"} 2']


def test_the_routes_that_change_something_all_take_a_role() -> None:
    from control_center.rest import routes

    changing: list[Route] = [route for route in routes() if route.method != "GET" and route.path != "/snapshots"]
    assert changing
    assert all(route.role in ("operate", "admin") for route in changing)
