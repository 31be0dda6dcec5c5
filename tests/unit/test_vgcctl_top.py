"""``vgcctl top``: what VMs use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from control_center.cli.verbs.top import FunctionCourse, Rates
from tests.fakes.control_daemon import FakeDaemon
from tests.unit.vgcctl_rig import vgcctl, with_daemon
from virtio_proto.control import latency


class Clock:
    """A clock that goes a second on with each look at it."""

    def __init__(self) -> None:
        self.now_ns = 1_800_000_000_000_000_000

    def __call__(self) -> int:
        self.now_ns += 1_000_000_000
        return self.now_ns


def test_picture_for_a_program_has_figures_of_each_vm(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        daemon.world.vms["h1-vm0"].compiling = 3
        daemon.world.vms["h1-vm1"].confined_to = [0, 2]
        ran = await vgcctl("top", "--once", "--every", "10ms", "--json", "--daemon", daemon.url)
        vms = {vm["vm"]: vm for vm in ran.json["vms"]}
        assert (ran.code, sorted(vms)) == (0, ["h1-vm0", "h1-vm1"])
        one = vms["h1-vm0"]
        assert (one["pes"], one["compiling"], one["memory_quota_bytes"]) == (4, 3, 16 << 30)
        assert (one["p50_ns"], one["p99_ns"]) == (latency.upper_ns(20), latency.upper_ns(21))
        assert one["requests_per_s"] > 0
        assert 0 < one["pes_used"] <= 4
        assert vms["h1-vm1"]["pes"] == 2
        daemon.world.vms["h1-vm0"].more = {"usable_pes": 1}
        fewer = await vgcctl("top", "--once", "--every", "10ms", "--json", "--daemon", daemon.url)
        assert {vm["vm"]: vm["pes"] for vm in fewer.json["vms"]}["h1-vm0"] == 1
        assert "kernels" not in ran.json

    with_daemon(tmp_path, test, clock_ns=Clock())


def told(at_s: int, requests: int, **more: Any) -> list[dict[str, Any]]:
    vm = {"vm": "a", "requests_done": requests, "latency": [requests]}
    return [{"host": "h", "state": "up", "told_ns": at_s * 10**9, "vms": [vm], **more}]


def test_rates_are_those_between_two_tellings_however_often_one_looks() -> None:
    """A control centre asks its hosts every 5 s, and answers at once."""
    rates = Rates()
    assert (rates.step(told(100, 1000), 0.0), rates.of) == (True, {})
    assert (rates.step(told(100, 1000), 1.0), rates.of) == (False, {})
    assert rates.step(told(105, 1500), 2.0)
    shown = {"requests_per_s": 100.0, "p50_ns": latency.upper_ns(0), "p99_ns": latency.upper_ns(0)}
    assert rates.of == {("h", "a"): shown}
    assert (rates.step(told(105, 1500), 3.0), rates.of) == (False, {("h", "a"): shown})
    rates.step(told(110, 40), 4.0)
    assert rates.of["h", "a"]["requests_per_s"] == 8.0, "a new worker counts anew"
    rates.step(told(110, 40, state="down"), 5.0)
    assert rates.of == {}


def test_picture_for_people_is_a_table_with_the_busiest_first(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        daemon.world.vms["h1-vm0"].frozen = True
        ran = await vgcctl("top", "--count", "2", "--every", "10ms", "--daemon", daemon.url)
        head, *lines = ran.lines[1:4]
        assert head.split()[:6] == ["host", "vm", "state", "pes", "used", "memory"]
        assert [line.split()[1] for line in lines] == ["h1-vm1", "h1-vm0"]
        assert sum(line.startswith("host") for line in ran.lines) == 2
        assert "\x1b" not in ran.out  # it is no terminal

    with_daemon(tmp_path, test, clock_ns=Clock())


def test_kernels_are_counted_by_their_elements(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        ran = await vgcctl(
            "top", "vm=h1-vm0", "--once", "--every", "10ms", "--kernels", "--json", "--daemon", daemon.url
        )
        kernel = daemon.world.kernel(daemon.world.vms["h1-vm0"])
        assert ran.json["kernels"] == [{"host": "h1", "vm": "h1-vm0", "kernel": kernel, "pes": 4}]
        assert [vm["vm"] for vm in ran.json["vms"]] == ["h1-vm0"]
        shown = await vgcctl("top", "--once", "--every", "10ms", "--kernels", "--daemon", daemon.url)
        assert kernel is not None
        assert kernel in shown.out

    with_daemon(tmp_path, test, clock_ns=Clock())


@pytest.mark.parametrize("missing", ["latency", "compiling"])
def test_daemon_that_does_not_say_is_shown_as_unknown(tmp_path: Path, missing: str) -> None:
    async def test(daemon: FakeDaemon) -> None:
        told = daemon.host.answer("topology", {}, None)
        for vm in told["vms"]:
            del vm[missing]
        daemon.misbehave.answers["topology"] = told
        ran = await vgcctl("top", "--once", "--every", "10ms", "--json", "--daemon", daemon.url)
        key = {"latency": "p99_ns", "compiling": "compiling"}[missing]
        assert [vm[key] for vm in ran.json["vms"]] == [None, None]

    with_daemon(tmp_path, test)


def test_functions_are_shown_with_what_they_did_since_the_picture_before(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        vm = daemon.world.vms["h1-vm0"]
        vm.extra = [f"f{number}" for number in range(12)]
        argv = ("top", "vm=h1-vm0", "--once", "--every", "10ms", "--daemon", daemon.url)
        ran = await vgcctl(*argv, "--functions", "--json")
        rows = ran.json["functions"]
        assert [row["function"] for row in rows[:2]] == [daemon.world.kernel(vm), "f0"]
        assert len(rows) == 10
        assert rows[0]["launches"] == 90 * rows[1]["launches"] > 0
        assert rows[0]["mean_ns"] == 2_000_000
        assert rows[0]["p99_ns"] == latency.upper_ns(52)
        assert rows[0]["launches_per_s"] > rows[1]["launches_per_s"] > 0
        shown = await vgcctl(*argv, "--functions", "1")
        head, line = shown.lines[shown.lines.index("functions") + 1 :]
        assert head.split() == ["host", "vm", "function", "launches", "per", "s", "busy", "mean", "p99"]
        assert line.split()[2] == daemon.world.kernel(vm)
        assert "2 ms" in line

    with_daemon(tmp_path, test, clock_ns=Clock())


def work(function: str, launches: int, busy_ns: int, times: list[int]) -> dict[str, object]:
    return {"host": "h", "vm": "v", "function": function, "launches": launches, "busy_ns": busy_ns, "times": times}


def test_function_that_is_new_or_counts_anew_has_done_all_of_it_since() -> None:
    course = FunctionCourse(8)
    assert course.step([work("a", 10, 1000, [10]), work("b", 7, 7, [7])], 1.0) == []
    rows = course.step([work("a", 4, 400, [4]), work("b", 7, 7, [7]), work("c", 2, 900, [2])], 3.0)
    assert [(row["function"], row["launches"], row["launches_per_s"]) for row in rows] == [("c", 2, 1.0), ("a", 4, 2.0)]
    assert rows[0]["mean_ns"] == 450


def test_functions_of_a_vm_that_has_just_come_are_not_shown_yet() -> None:
    course = FunctionCourse(8)
    course.step([], 1.0)
    assert course.step([work("a", 10, 1000, [])], 2.0) == []
    (row,) = course.step([work("a", 12, 1000, [])], 3.0)
    assert (row["launches"], row["mean_ns"], row["p99_ns"]) == (2, None, None)


def test_name_of_a_function_cannot_move_the_cursor(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        daemon.world.vms["h1-vm0"].extra = ["\x1b[2Jnew\nline"]
        ran = await vgcctl("top", "--once", "--every", "10ms", "--functions", "--daemon", daemon.url)
        assert "\x1b" not in ran.out
        assert "\\x1b[2Jnew\\nline" in ran.out

    with_daemon(tmp_path, test, clock_ns=Clock())
