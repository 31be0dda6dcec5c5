"""The control centre's REST API over simulated daemons: every route, and the reason in every refusal."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from control_center.openapi import document
from control_center.rest import routes
from tests.unit.centre_rig import Rig, rig_of, run
from virtio_proto.control.shapes import checked


def test_hosts_are_listed_with_their_gpus_vms_and_labels(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, 2) as rig:
            first, second = await rig.get("/hosts")
            assert (first["host"], first["state"], first["labels"]) == ("h1", "up", {"rack": "0"})
            assert [vm["vm"] for vm in second["vms"]] == ["h2-vm0", "h2-vm1"]
            assert [gpu["gpu"] for gpu in first["gpus"]] == ["0", "1"]
            assert [host["host"] for host in await rig.get("/hosts", selector="host=h2")] == ["h2"]

    run(test())


def test_load_is_a_byte_per_element_in_base64(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, 2) as rig:
            load = await rig.get("/load")
            busy = base64.b64decode(load["hosts"]["h1"]["pes"]["h1-vm0"])
            assert busy == rig.daemon.world.busy(rig.daemon.world.vms["h1-vm0"]).tobytes()
            some = await rig.get("/load", selector="host=h2,vm=h2-vm1")
            assert {host: list(part["pes"]) for host, part in some["hosts"].items()} == {"h2": ["h2-vm1"]}

    run(test())


def test_channels_are_opened_on_every_host_changed_and_closed(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, 2) as rig:
            opened = await rig.post("/channels", {"selector": "fn=log,pe=0-1", "level": 3})
            assert [one["instance"] for one in opened["instances"]] == ["h1/1", "h2/1"]
            assert opened["instances"][0]["owner"] == "local"
            assert opened["instances"][0]["totals"]["channels"] == 4
            changed = await rig.ask("PATCH", "/channels/h1/1", {"level": 5, "sample": 2})
            assert (changed.body["level"], changed.body["channels"][0]["sample"]) == (5, 2)
            assert (await rig.ask("DELETE", "/channels/h2/1")).body == {"closed": ["h2/1"]}
            assert [one["instance"] for one in await rig.get("/channels")] == ["h1/1"]

    run(test())


def test_totals_can_be_listed_without_channels(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            await rig.post("/channels", {"selector": "fn=perf"})
            (whole,) = await rig.get("/channels", totals=1)
            assert (whole["channels"], whole["totals"]["channels"]) == ([], 8)
            (part,) = await rig.get("/channels", totals=1, selector="vm=h1-vm0,pe=0-1")
            assert part["totals"]["channels"] == 2

    run(test())


def test_a_refusal_of_one_host_is_listed_beside_the_others_instances(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, 2) as rig:
            rig.daemons[1].misbehave.answers["open"] = {"instance": "seven"}
            opened = await rig.post("/channels", {"selector": "fn=log"})
            assert [one["host"] for one in opened["instances"]] == ["h1"]
            assert opened["failed"][0]["host"] == "h2"
            assert (
                "open.selector is missing" in opened["failed"][0]["error"]
                or "open.instance" in opened["failed"][0]["error"]
            )

    run(test())


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        ({"text": "hallo\n", "pe": 1}, {"data": b"hallo\n", "pe": 1}),
        ({"base64": "AP8=", "vm": "h1-vm0"}, {"data": b"\x00\xff", "vm": "h1-vm0"}),
        ({"eof": True}, {"data": b"", "eof": True}),
    ],
)
def test_input_reaches_the_daemon(tmp_path: Path, body: dict[str, Any], sent: dict[str, Any]) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            await rig.post("/channels", {"selector": "fn=stdio"})
            answer = await rig.post("/channels/h1/1/input", body)
            assert answer["elements"] == (8 if set(body) == {"eof"} else 2 if "pe" in body else 4)
            assert rig.daemon.host.sent == [{"instance": 1, **sent}]

    run(test())


def test_stats_are_read_and_thresholds_set(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, 2) as rig:
            assert await rig.get("/stats") == []
            await rig.post("/channels", {"selector": "host=h1,fn=perf,pe=0"})
            stats = await rig.get("/stats")
            assert {(one["host"], one["pe"]) for one in stats} == {("h1", 0)}
            limits = {"selector": "vm=h2-vm0", "name": "residual", "low": 0.1, "high": None}
            assert (await rig.post("/thresholds", limits))["elements"] == 4
            assert rig.daemons[1].world.vms["h2-vm0"].thresholds["residual"] == (0.1, float("inf"))

    run(test())


def test_snapshots_are_kept_and_compared(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, 2) as rig:
            rig.daemon.world.vms["h1-vm0"].frozen = True
            first = await rig.post("/snapshots", {"selector": "pe=0", "deadline_ms": 50})
            assert sorted(first["hosts"]) == ["h1", "h2"]
            rig.clock.seconds += 10
            second = await rig.post("/snapshots", {"selector": "pe=0"})
            assert [one["id"] for one in await rig.get("/snapshots")] == [second["id"], first["id"]]
            assert (await rig.get(f"/snapshots/{first['id']}"))["owner"] == "local"
            found = await rig.get(f"/snapshots/{first['id']}/diff/{second['id']}")
            kinds = {one["vm"]: one["kind"] for one in found["changes"]}
            assert kinds.pop("h1-vm0") in ("stuck", "hung")
            assert set(kinds.values()) <= {"other kernel", "next launch", "further"}
            assert found["changed"] + found["stuck"] + found["same"] == 4

    run(test())


def test_faults_are_listed_newest_first_and_cleared(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, 2) as rig:
            rig.daemon.fault("h1-vm0", 1)
            rig.clock.seconds += 1
            rig.daemons[1].fault("h2-vm1", None, kind="device")
            assert [one["fault"] for one in await rig.get("/faults")] == ["h2/1", "h1/1"]
            assert (await rig.post("/faults/clear", {"ids": ["h1/1"]}))["cleared"] == 1
            assert (await rig.post("/faults/clear", {"selector": "host=h2"}))["cleared"] == 1
            assert await rig.get("/faults") == []
            assert len(await rig.get("/faults", cleared=1)) == 2

    run(test())


POLICY = {
    "name": "move away",
    "selector": "vm=h1-*",
    "kinds": ["hung"],
    "trigger": "sustained",
    "count": 3,
    "window_s": 60.0,
    "action": "migrate",
}


def test_policies_are_replaced(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            answer = await rig.ask("PUT", "/policies/h1", {"policies": [POLICY]})
            assert answer.body == [POLICY]
            assert await rig.get("/policies/h1") == [POLICY]

    run(test())


def test_vms_are_migrated_confined_and_balanced(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            moved = await rig.post("/migrations", {"host": "h1", "vm": "h1-vm0", "gpu": "1"})
            assert (moved["host"], moved["source"], moved["target"]) == ("h1", "gpu 0", "gpu 1")
            await rig.post("/confine", {"host": "h1", "vm": "h1-vm1", "pes": "0|2"})
            assert rig.daemon.world.vms["h1-vm1"].confined_to == [0, 2]
            proposed = await rig.post("/balance", {"apply": False})
            assert (proposed["moves"][0]["host"], proposed["moves"][0]["migration"]) == ("h1", None)
            assert [one["migration"] for one in await rig.get("/migrations")] == [1, 2]

    run(test())


def test_workers_are_quiesced_resumed_and_reset(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            vm = rig.daemon.world.vms["h1-vm0"]
            assert await rig.post("/workers/h1/h1-vm0/quiesce", None) == {}
            assert vm.frozen
            await rig.post("/workers/h1/h1-vm0/resume", None)
            await rig.post("/workers/h1/h1-vm0/reset", None)
            assert (vm.frozen, vm.generation) == (False, 2)

    run(test())


def test_firmware_is_staged_activated_and_rolled_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            image = base64.b64encode(b"VGCF new").decode()
            staged = await rig.post("/firmware/stage", {"selector": "vm=h1-vm0", "image": image})
            version = staged["hosts"]["h1"]["images"][0]["version"]
            assert {pe["state"] for pe in staged["hosts"]["h1"]["pes"] if pe["vm"] == "h1-vm0"} == {"staged"}
            await rig.post("/firmware/activate", {"selector": "vm=h1-vm0", "version": version})
            now = await rig.get("/firmware", selector="vm=h1-vm0")
            assert {pe["active"] for pe in now["hosts"]["h1"]["pes"]} == {version}
            back = await rig.post("/firmware/rollback", {"selector": ""})
            assert {pe["active"] for pe in back["hosts"]["h1"]["pes"]} == {"1.0.0"}

    run(test())


def test_self_reports_the_systems_cost_and_the_callers_role(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, 2) as rig:
            own = await rig.get("/self")
            assert (own["role"], own["vms"], own["recorder"]) == ("admin", None, None)
            assert own["centre"]["hosts_up"] == 2
            assert own["centre"]["memory_bytes"] > 1 << 20
            assert sorted(own["hosts"]) == ["h1", "h2"]

    run(test())


# ---- refusals ------------------------------------------------------------------------------------

_IMAGE = base64.b64encode(b"forged").decode()
REFUSALS: list[tuple[str, str, Any, int, str]] = [
    ("GET", "/hosts?selector=nonsense", None, 400, "allowed: key=value with host, gpu, vm, pe, fn"),
    ("GET", "/hosts?colour=red", None, 400, "parameter 'colour'; allowed: selector"),
    ("GET", "/hosts?selector=host%3Dh9", None, 404, "no host h9; there is: h1"),
    ("GET", "/nothing", None, 404, "no GET /api/v1/nothing"),
    ("DELETE", "/hosts", None, 404, "no DELETE /api/v1/hosts"),
    ("POST", "/channels", {}, 400, "body.selector is missing"),
    ("POST", "/channels", [], 400, "body is []; allowed: a map with selector"),
    ("POST", "/channels", {"selector": "fn=log", "level": "high"}, 400, "body.level is 'high'; allowed: an integer"),
    ("POST", "/channels", {"selector": "fn=log", "colour": 1}, 400, "body.colour is no field"),
    ("POST", "/channels", {"selector": "fn=log", "policy": "x"}, 400, "allowed: drop-new or overwrite-oldest or wait"),
    ("POST", "/channels", {"selector": "pe=0"}, 400, "fn must name one function"),
    ("POST", "/channels", {"selector": "fn=log,vm=nobody"}, 404, "there is: h1/h1-vm0, h1/h1-vm1"),
    ("POST", "/channels", {"selector": "fn=log,pe=99"}, 404, "nothing matches"),
    ("DELETE", "/channels/h1/77", None, 404, "h1: no instance 77"),
    ("DELETE", "/channels/h1/x", None, 400, "instance 'x'; allowed: a number"),
    ("DELETE", "/channels/h7/1", None, 404, "no host h7"),
    ("POST", "/channels/h1/1/input", {"text": "a", "base64": "YQ=="}, 400, "allowed: one of them, or eof alone"),
    ("POST", "/channels/h1/1/input", {}, 400, "allowed: one of them, or eof alone"),
    ("POST", "/channels/h1/x/input", {"text": "a"}, 400, "instance 'x'; allowed: a number"),
    ("POST", "/channels/h1/1/input", {"text": "a", "vm": "\0"}, 400, "allowed: printable text"),
    ("POST", "/channels/h1/1/input", {"base64": "?"}, 400, "allowed: base64"),
    ("POST", "/channels/h1/1/input", {"text": "x" * 20000}, 400, "input of 20000 bytes; allowed: 4096"),
    ("POST", "/snapshots", {"deadline_ms": 0}, 400, "deadline_ms is 0; allowed: an integer of 1 to 10000"),
    ("GET", "/snapshots/5", None, 404, "no snapshot 5; there is: none"),
    ("POST", "/faults/clear", {}, 400, "allowed: one of them"),
    ("POST", "/faults/clear", {"ids": ["1"]}, 400, "fault '1'; allowed: host/number"),
    ("PUT", "/policies/h1", {"policies": [{}]}, 400, "body.policies[].name is missing"),
    ("POST", "/migrations", {"host": "h1", "vm": "vm9"}, 404, "h1 has no VM vm9; there is: h1-vm0, h1-vm1"),
    ("POST", "/migrations", {"host": "h1", "vm": "h1-vm0", "gpu": "9"}, 404, "no GPU 9"),
    ("POST", "/workers/h1/vm9/reset", None, 404, "h1 has no VM vm9"),
    ("POST", "/firmware/stage", {"image": _IMAGE}, 403, "no signature of a known key"),
    ("POST", "/firmware/activate", {"version": "9"}, 404, "no image '9' is staged"),
    ("GET", "/records", None, 404, "nothing is recorded here"),
    ("GET", "/records?from_ns=5&to_ns=3", None, 404, "nothing is recorded here"),
    ("GET", "/records?limit=0", None, 400, "limit is '0'; allowed: an integer of 1 to 10000"),
    ("GET", "/stream", None, 400, "allowed: a WebSocket"),
]


def test_refusals_give_the_reason(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            for method, path, body, status, text in REFUSALS:
                answer = await rig.ask(method, path, body)
                assert (answer.status, text in answer.text) == (status, True), f"{method} {path}: {answer.body}"

    run(test())


def test_a_body_that_is_not_json_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            for data, kind, text in (
                (b"{", "application/json", "the body is not JSON"),
                (b"[" * 5000, "application/json", "the body is not JSON"),
                (b"selector=fn", "text/plain", "allowed: application/json"),
            ):
                headers = {"Content-Type": kind}
                async with rig.client.post("/api/v1/channels", data=data, headers=headers) as response:
                    assert response.status == 400
                    assert text in (await response.json())["error"]["text"]

    run(test())


# ---- the API's description of itself -------------------------------------------------------------


async def _answers(rig: Rig) -> dict[tuple[str, str], Any]:
    """Answers of every route that needs no recorder, in an order in which each has an effect."""
    image = base64.b64encode(b"VGCF").decode()
    rig.daemon.fault("h1-vm0")
    calls: list[tuple[str, str, str, Any]] = [
        ("GET", "/hosts", "/hosts", None),
        ("GET", "/load", "/load", None),
        ("POST", "/channels", "/channels", {"selector": "fn=stdio"}),
        ("POST", "/channels", "/channels", {"selector": "fn=perf"}),
        ("GET", "/channels", "/channels", None),
        ("PATCH", "/channels/{host}/{instance}", "/channels/h1/1", {"level": 3}),
        ("POST", "/channels/{host}/{instance}/input", "/channels/h1/1/input", {"text": "x"}),
        ("GET", "/stats", "/stats", None),
        ("POST", "/thresholds", "/thresholds", {"name": "residual", "low": 0}),
        ("DELETE", "/channels/{host}/{instance}", "/channels/h1/1", None),
        ("POST", "/snapshots", "/snapshots", {}),
        ("POST", "/snapshots", "/snapshots", {}),
        ("GET", "/snapshots", "/snapshots", None),
        ("GET", "/snapshots/{id}", "/snapshots/1", None),
        ("GET", "/snapshots/{a}/diff/{b}", "/snapshots/1/diff/2", None),
        ("GET", "/faults", "/faults", None),
        ("POST", "/faults/clear", "/faults/clear", {"selector": ""}),
        ("PUT", "/policies/{host}", "/policies/h1", {"policies": [POLICY]}),
        ("GET", "/policies/{host}", "/policies/h1", None),
        ("POST", "/migrations", "/migrations", {"host": "h1", "vm": "h1-vm0"}),
        ("POST", "/confine", "/confine", {"host": "h1", "vm": "h1-vm0", "pes": "0"}),
        ("POST", "/balance", "/balance", {"apply": True}),
        ("GET", "/migrations", "/migrations", None),
        ("POST", "/workers/{host}/{vm}/reset", "/workers/h1/h1-vm0/reset", None),
        ("POST", "/workers/{host}/{vm}/quiesce", "/workers/h1/h1-vm0/quiesce", None),
        ("POST", "/workers/{host}/{vm}/resume", "/workers/h1/h1-vm0/resume", None),
        ("POST", "/vms/reload", "/vms/reload", {}),
        ("POST", "/vms/{host}/add", "/vms/h1/add", {"vm": "web9", "socket": "/run/web9", "pes": 2}),
        ("GET", "/vms/{host}/{vm}/limits", "/vms/h1/h1-vm0/limits", None),
        ("POST", "/vms/{host}/{vm}/limits", "/vms/h1/h1-vm0/limits", {"contexts": 3}),
        ("POST", "/vms/{host}/{vm}/remove", "/vms/h1/h1-vm0/remove", {}),
        ("POST", "/firmware/stage", "/firmware/stage", {"image": image}),
        ("GET", "/firmware", "/firmware", None),
        ("POST", "/firmware/rollback", "/firmware/rollback", {}),
        ("GET", "/self", "/self", None),
        ("GET", "/status", "/status", None),
        ("GET", "/functions", "/functions", None),
        ("GET", "/programs", "/programs", None),
    ]
    found = {}
    for method, route, path, body in calls:
        answer = await rig.ask(method, path, body)
        assert answer.status == 200, f"{method} {path}: {answer.body}"
        found[method, route] = answer.body
    version = found["POST", "/firmware/stage"]["hosts"]["h1"]["images"][0]["version"]
    active = await rig.ask("POST", "/firmware/activate", {"version": version})
    assert active.status == 200, active.body
    return {**found, ("POST", "/firmware/activate"): active.body}


RECORDED = {("GET", "/records"), ("GET", "/accounts"), ("GET", "/timeline"), ("GET", "/export")}
"""Routes that ``test_centre_recording`` tests."""


def test_every_route_answers_in_its_documented_shape(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            found = await _answers(rig)
            there = {(str(route.method), route.path): route for route in routes()}
            assert set(there) == set(found) | RECORDED
            for key, answer in found.items():
                checked(answer, there[key].answer, " ".join(key), from_json=True)

    run(test())


def test_the_openapi_document_is_valid_and_served(tmp_path: Path) -> None:
    from openapi_spec_validator import validate

    validate(document(routes()))

    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            served = await rig.get("/openapi.json")
            assert served["paths"].keys() == {route.path for route in routes()}
            assert served == document(routes())

    run(test())


def test_unchanged_files_of_the_page_are_revalidated_and_not_sent_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            for name in ("", "js/main.js", "css/base.css"):
                async with rig.client.get(f"/{name}") as first:
                    assert (first.status, first.headers["Cache-Control"]) == (200, "no-cache")
                    headers = {"If-None-Match": first.headers["ETag"]}
                async with rig.client.get(f"/{name}", headers=headers) as again:
                    assert (again.status, await again.read()) == (304, b"")

    run(test())
