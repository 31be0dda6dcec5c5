"""The shipped units under systemd itself: sockets that start the daemon, the control API's port, a daemon of one VM, the control centre."""

from __future__ import annotations

import contextlib
import json
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.fakes.attached import AttachedLink
from tests.protocol.systemd_machine import CONFIG, SHIPPED, UNIT, SystemdMachine, missing
from tests.protocol.worker_rig import needs_walls
from tests.unit.test_centre_tls import certified
from tests.waiting import until
from tools import installation

VM: Final = "engine: cpu, num_queues: 4, quota: {pes: 1, memory: 64M}"
BASE: Final = f"vms: {{a: {{socket: /run/vgcd/a.sock, {VM}}}}}\nlog: {{format: json}}\novercommit: true\n"
LOCAL: Final = "control:\n  socket: /run/vgcd/control.sock\n"
REMOTE: Final = LOCAL + (
    "  listen: '[::]:7071'\n  tls: {certificate: /etc/vgcd/tls/daemon.crt, key: /etc/vgcd/tls/daemon.key}\n"
    "  tokens: /etc/vgcd/tokens\n"
)
EXPOSURES: Final = {
    "vgcd.service": 20,
    "vgcd@.service": 20,
    "vgcd-vms.service": 5,
    "vgc-control-center.service": 15,
    "vgc-grant.service": 20,
}
"""Exposure of services by systemd's measure, in tenths. What is left to daemons are rights that sandboxes are built with."""
EXPOSURE_WITH_GPU: Final = 25
CENTRE: Final = "listen: 127.0.0.1:7070\nhosts: [{name: here, url: 'unix:/run/vgcd/control.sock'}]\n"
needs_systemd = pytest.mark.skipif(bool(missing()), reason=f"systemd cannot run here: {missing()}")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[SystemdMachine]:
    with SystemdMachine(tmp_path, BASE + LOCAL) as machine:
        yield machine


def _vms(machine: SystemdMachine, *options: str) -> list[dict[str, Any]]:
    lines = machine.run("vgcctl", "--json", *options, "vm", "ls").splitlines()
    rows = [json.loads(line) for line in lines]
    return rows[0] if isinstance(rows[0], list) else rows


@needs_walls
@needs_systemd
def test_daemon_starts_when_a_vm_connects(machine: SystemdMachine) -> None:
    machine.path(CONFIG).write_text((BASE + LOCAL).replace("/run/vgcd/a.sock", "/run/vgcd-vm/a.sock"))
    machine.run("systemd-tmpfiles", "--create", "/usr/lib/tmpfiles.d/vgcd.conf")
    machine.systemctl("start", unit="vgcd-vm@a.socket")
    assert machine.show("ActiveState") == {"ActiveState": "inactive"}
    at = machine.path("/run/vgcd-vm/a.sock")
    kvm = int(machine.run("getent", "group", "kvm").split(":")[2])
    for path, mode in ((at.parent, 0o750), (at, 0o660)):
        status = path.stat()  # root's: systemd follows links there
        assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (0, kvm, mode)
    with AttachedLink(at, num_queues=4) as link:
        link.wait_ready()
        assert machine.show("ActiveState") == {"ActiveState": "active"}
        machine.systemctl("restart")
        link.refresh()
        assert link._space.generation == 1
    machine.systemctl("stop", "vgcd-vm@a.socket")
    assert machine.processes() == {}


@needs_walls
@needs_systemd
def test_daemon_makes_the_sockets_of_pods_in_folders_that_it_is_given(machine: SystemdMachine) -> None:
    machine.run("systemd-tmpfiles", "--create", "/usr/lib/tmpfiles.d/vgcd.conf")
    machine.systemctl("start")
    folder = "/run/vgcd-kubelet/pod"
    machine.run("install", "-d", "-o", "vgcd", "-g", "kvm", "-m", "2750", folder)
    machine.run("vgcctl", "vm", "add", "pod", "--socket", f"{folder}/vgc.sock", "--engine", "cpu")
    with AttachedLink(machine.path(f"{folder}/vgc.sock"), num_queues=16) as link:
        link.wait_ready()
    made = machine.path("/run/vgcd-kubelet").stat()
    assert (made.st_uid, stat.S_IMODE(made.st_mode)) == (0, 0o755)


@needs_walls
@needs_systemd
def test_port_of_the_control_api_is_passed_by_its_socket(machine: SystemdMachine, tmp_path: Path) -> None:
    certificate, key = certified(tmp_path, "daemon")
    machine.path(CONFIG).write_text(BASE + REMOTE)
    machine.path("/etc/vgcd/tls").mkdir()
    for file, mode in ((certificate, 0o644), (key, 0o640)):
        copy = machine.path(f"/etc/vgcd/tls/{file.name}")
        copy.write_bytes(file.read_bytes())
        copy.chmod(mode)
    machine.run("chgrp", "kvm", "/etc/vgcd/tls/daemon.key")
    secret, line = _token(machine)
    machine.path("/etc/vgcd/tokens").write_text(f"{line}\n")
    machine.run("chown", "vgcd", "/etc/vgcd/tokens")
    machine.run("chmod", "600", "/etc/vgcd/tokens")
    machine.run("systemctl", "start", UNIT, check=False)
    assert "this process may use no network" in machine.log()
    machine.systemctl("stop")
    machine.systemctl("start", unit="vgcd-control.socket")
    machine.systemctl("start")
    remote = ("--daemon", "tls://localhost:7071", "--token", secret, "--ca", "/etc/vgcd/tls/daemon.crt")
    assert [vm["vm"] for vm in _vms(machine, *remote)] == ["a"]
    machine.systemctl("restart")
    assert [vm["vm"] for vm in _vms(machine, *remote)] == ["a"]
    machine.systemctl("stop", "vgcd-control.socket")


def _token(machine: SystemdMachine) -> tuple[str, str]:
    """Token for the control API, and the line of the file of tokens that admits it."""
    lines = [line.strip() for line in machine.run("vgcd", "token", "new", "--role", "view").splitlines()]
    return next(line for line in lines if line.startswith("vgc_")), next(
        line for line in lines if line.startswith("sha256:")
    )


@needs_walls
@needs_systemd
def test_daemon_of_one_vm_goes_beside_that_of_all(machine: SystemdMachine) -> None:
    text = f"vms: {{a: {{socket: /run/vgcd@own/a.sock, {VM}}}}}\nlog: {{format: json}}\novercommit: true\n"
    machine.path("/etc/vgcd/own.yaml").write_text(text)
    own = "vgcd@own.service"
    machine.systemctl("start", own)
    with contextlib.ExitStack() as stack:
        links = [
            stack.enter_context(AttachedLink(machine.path(f"/run/{folder}/a.sock"), num_queues=4))
            for folder in ("vgcd", "vgcd@own")
        ]
        for link in links:
            link.wait_ready()
        users = {event["user"] for event in machine.events("housed")}
        assert len(users) == len(links), "VMs of one name have users of their own all the same"
        machine.systemctl("restart", own)
        for link in links:
            link.refresh()
            assert link._space.generation == 1
    machine.systemctl("stop", own)
    assert (machine.processes(), machine.processes(own)) == ({}, {})


@needs_walls
@needs_systemd
def test_control_centre_shows_the_daemon_of_its_host(machine: SystemdMachine) -> None:
    machine.path("/etc/vgc").mkdir()
    machine.path("/etc/vgc/centre.yaml").write_text(CENTRE)
    machine.systemctl("start")
    machine.systemctl("start", unit="vgc-control-center.service")
    until(lambda: "a" in machine.run("vgcctl", "--centre", "http://127.0.0.1:7070", "vm", "ls", check=False).split())
    assert machine.show("ActiveState", unit="vgc-control-center.service") == {"ActiveState": "active"}
    machine.systemctl("stop", "vgc-control-center.service")


def _exposure(unit: Path) -> float:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", unit],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.rpartition("Overall exposure level for ")[2].partition(": ")[2].split()[0])


@needs_systemd
def test_units_are_hardened(tmp_path: Path) -> None:
    of_guests = tmp_path / "vgc-grant.service"
    of_guests.write_text(installation.UNIT.format(prefix="/usr", group=installation.GROUP))
    services = [*sorted(SHIPPED.glob("*.service")), of_guests]
    assert {unit.name for unit in services} == set(EXPOSURES)
    for unit in services:
        assert round(10 * _exposure(unit)) <= EXPOSURES[unit.name], unit.name
    with_gpu = tmp_path / "vgcd.service"
    with_gpu.write_text((SHIPPED / "vgcd.service").read_text() + (SHIPPED / "nvidia.conf").read_text())
    assert round(10 * _exposure(with_gpu)) <= EXPOSURE_WITH_GPU
