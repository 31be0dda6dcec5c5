"""``vgcctl top``: what VMs use."""

from __future__ import annotations

from pathlib import Path

import pytest

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
        assert "kernels" not in ran.json

    with_daemon(tmp_path, test, clock_ns=Clock())


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
