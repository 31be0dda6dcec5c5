"""Table of domains beside VMs of `vgcd`, and the files for security modules that are shipped."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.libvirt_rig import devices, domain, plain
from tools import libvirt
from vgc_libvirt import status
from vgc_libvirt.status import DomainState

SHIPPED = Path(__file__).resolve().parents[2] / "libvirt_xml"


def served(name: str, **more: Any) -> dict[str, dict[str, Any]]:
    return {name: {"vm": name, "state": "ready", "generation": 3, **more}}


def test_domains_stand_beside_vms() -> None:
    web1, web2 = devices({"web1": {}, "web2": {"region_file": "/dev/shm/web2", "region": "128M"}})
    one = domain(plain())
    one.attach(web1)
    rows = status.rows([DomainState(one, is_running=True)], [web1, web2], served("web1", ring_problem="no region"))
    assert rows == [
        ("web1", "running", "web1", "/run/vgcd/web1.sock", "64 MiB, memfd", "ready, generation 3", "no region"),
        (
            "-",
            "-",
            "web2",
            "/run/vgcd/web2.sock",
            "128 MiB, shmem",
            "-",
            "vgcd does not serve the VM: vgcctl vm reload",
        ),
    ]


def test_devices_of_no_vm_are_shown() -> None:
    (web1,) = devices({"web1": {}})
    one = domain(plain())
    one.attach(web1)
    ((name, state, vm, path, *_, problem),) = status.rows([DomainState(one, is_running=False)], [], {})
    assert (name, state, vm, path, problem) == (
        "web1",
        "off",
        "-",
        "/run/vgcd/web1.sock",
        "no VM of vgcd has this socket",
    )


def test_a_daemon_that_does_not_answer_is_a_reason(tmp_path: Path) -> None:
    assert status.vms_of_daemon(None) == ({}, "vgcd's configuration has no control.socket")
    vms, reason = status.vms_of_daemon(tmp_path / "none.sock")
    assert vms == {}
    assert "none.sock" in reason


def test_columns_are_aligned() -> None:
    lines = status.table([("a", "off", "b", "/s", "64 MiB, memfd", "-", "-")]).splitlines()
    assert [line.index(word) for line, word in zip(lines, ("socket", "/s"), strict=True)] == [
        lines[0].index("socket")
    ] * 2


@pytest.mark.skipif(
    shutil.which("apparmor_parser") is None, reason="apparmor_parser is not installed (package apparmor)"
)
@pytest.mark.parametrize(("addition", "is_right"), [("", True), ("/run/x rzw,\n", False)])
def test_apparmor_takes_the_shipped_rules_into_libvirts_profile(addition: str, is_right: bool, tmp_path: Path) -> None:
    rules = tmp_path / "apparmor.d"
    shutil.copytree(libvirt.root() / "etc/apparmor.d", rules)
    place = rules / "abstractions/libvirt-qemu.d/vgcd"
    place.parent.mkdir()
    place.write_text((SHIPPED / "apparmor/vgcd").read_text() + addition)
    profile = tmp_path / "profile"
    profile.write_text((rules / "libvirt/TEMPLATE.qemu").read_text().replace("LIBVIRT_TEMPLATE", "libvirt-test"))
    words: list[str | Path] = ["apparmor_parser", "-Q", "-K", "-I", "/etc/apparmor.d", "--base", rules]
    done = subprocess.run([*words, profile], check=False, capture_output=True, text=True)
    assert (done.returncode == 0) is is_right, done.stderr
    shown = subprocess.run([*words, "-p", profile], check=False, capture_output=True, text=True)
    assert "/run/vgcd/*.sock rw," in shown.stdout


@pytest.mark.skipif(shutil.which("checkmodule") is None, reason="checkmodule is not installed (package checkpolicy)")
@pytest.mark.parametrize(("addition", "is_right"), [("", True), ("allow svirt_t no_such_t:dir search;\n", False)])
def test_selinux_takes_the_shipped_module(addition: str, is_right: bool, tmp_path: Path) -> None:
    source, made = tmp_path / "vgcd.te", tmp_path / "vgcd.mod"
    source.write_text((SHIPPED / "selinux/vgcd.te").read_text() + addition)
    done = subprocess.run(["checkmodule", "-M", "-m", "-o", made, source], check=False, capture_output=True, text=True)
    assert (done.returncode == 0) is is_right, done.stderr
    assert made.exists() is is_right
