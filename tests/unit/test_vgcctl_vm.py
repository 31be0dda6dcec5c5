"""``vgcctl vm``: list, show, reload, add, remove, limits."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from tests.fakes.control_daemon import FakeDaemon
from tests.fakes.control_world import NS_PER_S
from tests.unit.vgcctl_rig import vgcctl, with_daemon


def test_vms_are_listed_and_shown(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        listed = await vgcctl("vm", "list", "--daemon", daemon.url)
        assert listed.code == 0
        assert all(name in listed.out for name in daemon.world.vms)
        assert {vm["vm"] for vm in (await vgcctl("vm", "list", "--json", "--daemon", daemon.url)).json} == set(
            daemon.world.vms
        )
        daemon.world.vms["h1-vm0"].more = {"usable_pes": 1, "problem": "no user is free", "ring_problem": "no region"}
        (line,) = [
            line for line in (await vgcctl("vm", "list", "--daemon", daemon.url)).out.splitlines() if "h1-vm0" in line
        ]
        assert "1 of 4" in line
        assert "no user is free; no region" in line
        daemon.world.vms["h1-vm0"].more = {}
        assert "memory_quota_bytes" in (await vgcctl("vm", "show", "h1/h1-vm0", "--daemon", daemon.url)).out
        assert (await vgcctl("vm", "show", "h1-vm0", "--json", "--daemon", daemon.url)).json["vm"] == "h1-vm0"
        lines = [
            line.split() for line in (await vgcctl("vm", "show", "h1-vm0", "--daemon", daemon.url)).out.splitlines()
        ]
        assert ["gpu_held_ns", "3", "s"] in lines
        assert ["memory_quota_bytes", "16", "GiB"] in lines
        (latency,) = (words[1:] for words in lines if words[0] == "latency")
        assert (latency[0], latency[3]) == ("p50", "p99")
        assert ["gpu_share", "25.0", "%", "beside", "others"] in lines
        missing = await vgcctl("vm", "show", "vm9", "--daemon", daemon.url)
        assert missing.code == 3
        assert "vm9" in missing.err

    with_daemon(tmp_path, test, clock_ns=count(0, NS_PER_S).__next__)


def test_configuration_is_read_again(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        done = await vgcctl("vm", "reload", "--daemon", daemon.url)
        assert (done.code, "h1: added new" in done.err) == (0, True)
        answer = (await vgcctl("vm", "reload", "h1", "--now", "--json", "--daemon", daemon.url)).json
        assert answer["hosts"]["h1"]["added"] == ["new"]
        assert [fields.get("now", False) for fields in daemon.host.reloads] == [False, True]
        daemon.host.reload_problem = "f.yaml:3: vms.a.num_queues is 0; allowed: an integer of 1 to 64"
        refused = await vgcctl("vm", "reload", "--daemon", daemon.url)
        assert refused.code != 0
        assert daemon.host.reload_problem in refused.err

    with_daemon(tmp_path, test)


def test_vm_is_added(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        options = ("--socket", "/run/web9", "--region", "256M", "--pes", "2", "--queue-depth", "64", "--persist")
        done = await vgcctl("vm", "add", "web9", *options, "--daemon", daemon.url)
        assert (done.code, "h1: added web9" in done.err) == (0, True)
        answer = await vgcctl("vm", "add", "h1/web8", "--socket", "/run/web8", "--json", "--daemon", daemon.url)
        assert answer.json["added"] == ["web8"]
        assert daemon.host.added == [
            {"vm": "web9", "socket": "/run/web9", "region": "256M", "pes": 2, "queue_depth": 64, "persist": True},
            {"vm": "web8", "socket": "/run/web8"},
        ]
        daemon.host.reload_problem = "added VMs: vms.web9.region is '3M'; allowed: a power of two"
        refused = await vgcctl("vm", "add", "web9", "--socket", "/s", "--region", "3M", "--daemon", daemon.url)
        assert (refused.code != 0, daemon.host.reload_problem in refused.err) == (True, True)
        assert (await vgcctl("vm", "add", "web9", "--daemon", daemon.url)).code == 2  # without a socket

    with_daemon(tmp_path, test)


def test_other_hosts_than_the_daemons_are_unknown(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        for words in (("reload", "h2"), ("add", "h2/web9", "--socket", "/run/web9")):
            refused = await vgcctl("vm", *words, "--daemon", daemon.url)
            assert (refused.code, refused.err) == (3, "vgcctl: no host h2; there is: h1\n")
        assert daemon.host.reloads == []
        assert daemon.host.added == []

    with_daemon(tmp_path, test)


def test_vm_is_removed(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        later = await vgcctl("vm", "remove", "h1-vm0", "--daemon", daemon.url)
        assert (later.code, "removed h1-vm0 (h1-vm0 when QEMU ends)" in later.err) == (0, True)
        assert "h1-vm0" in daemon.world.vms
        assert (await vgcctl("vm", "remove", "h1/h1-vm0", "--now", "--daemon", daemon.url)).code == 0
        assert "h1-vm0" not in daemon.world.vms

    with_daemon(tmp_path, test)


def test_vm_that_cannot_be_served_is_forgotten(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        daemon.world.left_out = {"web8": "no room", "web9": "no room"}
        for name in ("web8", "h1/web9"):
            done = await vgcctl("vm", "remove", name, "--daemon", daemon.url)
            assert (done.code, f"h1: removed {name.removeprefix('h1/')}" in done.err) == (0, True)
        for name in ("web9", "h2/web8"):
            refused = await vgcctl("vm", "remove", name, "--daemon", daemon.url)
            assert (refused.code, f"no VM is called '{name}'" in refused.err) == (3, True)

    with_daemon(tmp_path, test)


def test_limits_are_shown_with_what_is_used(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        shown = await vgcctl("vm", "limits", "h1-vm0", "--daemon", daemon.url)
        rows = {line.split()[0]: line.split()[1:] for line in shown.out.splitlines()[1:]}
        assert rows["memory"] == ["256", "MiB", "256", "MiB", "64", "MiB", "-"]
        assert rows["pes"] == ["all", "all", "-", "-"]
        assert "allotment 1: taken" in shown.err
        assert daemon.host.limits == {}
        answer = (await vgcctl("vm", "limits", "h1/h1-vm0", "--json", "--daemon", daemon.url)).json
        assert (answer["vm"], answer["used"]["contexts"]) == ("h1-vm0", 1)

    with_daemon(tmp_path, test)


def test_limits_are_changed_till_the_next_reload(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        options = ("--memory", "32M", "--pes", "8", "--queue-depth", "9", "--deadline", "2m", "--daemon", daemon.url)
        done = await vgcctl("vm", "limits", "h1-vm0", *options)
        assert done.code == 0
        assert daemon.host.limits == {
            "pes": 8,
            "memory_bytes": 32 << 20,
            "queue_depth": 9,
            "deadline_ns": 120 * 10**9,
        }
        assert "from the next QEMU on" in done.out
        assert "exceeded: gets no more" in done.out
        assert "allotment 2: pending" in done.err
        assert "until the daemon's configuration is read again" in done.err
        daemon.world.vms["h1-vm0"].more = {"origin": "persisted"}
        await vgcctl("vm", "limits", "h1-vm0", "--pes", "all", "--daemon", daemon.url)
        assert daemon.host.limits["pes"] == 0
        done = await vgcctl("vm", "limits", "h1-vm0", "--weight", "7", "--daemon", daemon.url)
        assert "this counts until the VM is removed, over restarts of the daemon, too" in done.err

    with_daemon(tmp_path, test)


def test_wrong_limits_are_refused_by_name(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        for option, value, allowed in (
            ("--memory", "much", "a size such as 512M or 2G"),
            ("--deadline", "10 years", "a time such as 500ms, 10s or 2m"),
            ("--memory", "64", "'64'; allowed: a size such as 512M or 2G, from 1M to 64T"),
            ("--deadline", "25h", "up to 24h"),
            ("--contexts", "0", "--contexts: '0'; allowed: a whole number of 1 to 256"),
            ("--weight", "10001", "--weight: '10001'; allowed: a whole number of 1 to 10000"),
            ("--pes", "two", "--pes: 'two'; allowed: a whole number of 1 to 4096, or all"),
            ("--pes", "0", "--pes: '0'; allowed: a whole number of 1 to 4096, or all"),
            ("--cores", "own", "usage: vgcctl vm limits"),
        ):
            refused = await vgcctl("vm", "limits", "h1-vm0", option, value, "--daemon", daemon.url)
            assert refused.code == 2
            assert allowed in refused.err
        daemon.host.reload_problem = "the VMs together may use 9 GiB of memory, and this host has 8 GiB"
        refused = await vgcctl("vm", "limits", "h1-vm0", "--memory", "9G", "--daemon", daemon.url)
        assert refused.code != 0
        assert daemon.host.reload_problem in refused.err
        assert daemon.host.limits == {}

    with_daemon(tmp_path, test)
