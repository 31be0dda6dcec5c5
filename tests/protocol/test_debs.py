"""Debian packages of hosts: without errors by lintian, and installed in a bare root, where the unit starts by systemd."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.attached import AttachedLink
from tests.protocol.systemd_machine import CONFIG, UNIT, SystemdMachine, missing
from tests.protocol.worker_rig import needs_walls
from tools import bare_root
from tools.debs import guest, host, package

VM: Final = "{socket: /run/vgcd/a.sock, engine: cpu, num_queues: 4, quota: {pes: 1, memory: 64M}}"
DPKG: Final = ("dpkg", "--install")


@pytest.fixture(scope="module")
def debs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Packages of a host, as the parts were built for this machine alone."""
    folder = tmp_path_factory.mktemp("debs")
    return [package.build(one, folder, compress=False) for one in host.packages()]


@pytest.fixture
def machine(debs: list[Path], tmp_path: Path) -> Iterator[SystemdMachine]:
    """A bare host with the packages."""
    if why := missing():
        pytest.skip(f"systemd cannot run here: {why}")
    own = {one.name for one in (*host.packages(), *guest.packages())}
    needed = dict.fromkeys(re.split(r"[ |(]", name)[0] for one in host.packages() for name in one.depends)
    bare = bare_root.folder([name for name in needed if name not in own])
    with SystemdMachine(tmp_path, bare=bare, shown=[debs[0].parent]) as machine:
        machine.run(*DPKG, *map(str, debs))
        yield machine


@needs_walls
@pytest.mark.slow
def test_installed_daemon_serves_and_its_doctor_names_packages(machine: SystemdMachine) -> None:
    assert machine.run("dpkg", "--verify", "vgcd", "vgc-control-center") == ""
    assert machine.run("vgcd", "--version") == machine.run("/usr/bin/vgcd", "--version")
    with machine.path(CONFIG).open("a") as config:
        config.write("overcommit: true\n")
    text = machine.path(CONFIG).read_text()
    machine.path(CONFIG).write_text(re.sub(r"(?m)^vms: .*$", f"vms: {{a: {VM}}}", text))
    assert "no mistakes" in machine.run("vgcd", "check-config", CONFIG)
    machine.systemctl("start")
    folder = machine.path("/run/vgcd").stat()
    kvm = int(machine.run("getent", "group", "kvm").split(":")[2])
    assert (folder.st_gid, stat.S_IMODE(folder.st_mode)) == (kvm, 0o750)
    with AttachedLink(machine.path("/run/vgcd/a.sock"), num_queues=4) as link:
        link.wait_ready()
        assert "a" in machine.run("vgcctl", "vm", "ls").split()
        machine.systemctl("restart")
        link.refresh()
        assert link._space.generation == 1
    assert "apt-get install python3-libvirt python3-lxml" in machine.run(
        "sh", "-c", "vgc-libvirt xml a 2>&1", check=False
    )
    said = machine.run("vgcd", "doctor", check=False)
    assert "nothing is missing that vgcd needs" in said
    assert "pip" not in said.split()
    assert "see /usr/share/doc/vgcd/README.Debian" in said
    assert "ok       precompiled headers: whole" in said
    machine.systemctl("stop")
    assert machine.processes(UNIT) == {}
    machine.run("dpkg", "--purge", "vgc-control-center", "vgcd")
    left = [name for name in ("/usr/lib/vgcd", "/etc/vgcd", "/var/lib/vgcd") if machine.path(name).exists()]
    assert left == []


@pytest.mark.skipif(shutil.which("lintian") is None, reason="lintian is not installed")
def test_packages_have_no_errors(debs: list[Path], tmp_path: Path) -> None:
    built = [*debs, *(package.build(one, tmp_path, compress=False) for one in guest.packages())]
    argv: list[str | Path] = ["lintian", "--allow-root", "--fail-on=error", "--tag-display-limit=0", *built]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    errors = [line for line in done.stdout.splitlines() if line.startswith("E: ")]
    assert (errors, done.returncode) == ([], 0), done.stderr
