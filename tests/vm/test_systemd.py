"""Shipped units under systemd 252 in a guest, whose kernel has all controllers in control groups of version 2."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.vm import systemd_disk
from tests.vm.harness import Guest
from tests.vm.vgcd import Vgcd, VmSettings
from tests.waiting import until
from tools.debs import guest as guest_packages
from tools.debs import host

PROGRAMS: Final = Path(__file__).parent / "guest_programs"
MEMORY_MIB: Final = 2048
MEMORY_OF_VM: Final = 64 << 20
PROCESSES: Final = 1000
FIRST_OWN_USER: Final = 1 << 16
"""Users of the machine itself have lower numbers."""
INSTALLED: Final = ("vgcd", "libvgc1", "python3-vgc", "vgc-guest")

pytestmark = [
    pytest.mark.vm,
    pytest.mark.slow,
    pytest.mark.skipif("VGC_SYSTEMD" not in os.environ, reason="takes minutes: VGC_SYSTEMD=1, as in `make nightly`"),
    pytest.mark.skipif(os.geteuid() != 0, reason="packages are installed on a disk by root"),
]


class Machine:
    """A booted machine within a guest."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        guest.put(PROGRAMS / "boot_systemd.py", "/tmp/boot_systemd.py")
        self._pid = int(guest.run("python3 /tmp/boot_systemd.py /dev/vdb || { cat /tmp/systemd.log; exit 1; }").stdout)

    def run(self, command: str) -> str:
        """Runs a shell command there; returns what it prints."""
        self._guest.put_bytes(command.encode(), "/systemd/root/root/command")
        # By its path: what busybox has as well it runs itself.
        clean = "env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin /bin/bash /root/command"
        return self._guest.run(f"nsenter -t {self._pid} -m -p -u -i {clean}").stdout.strip()

    def put(self, file: Path, path: str) -> None:
        """Copies a file to a folder of its disk."""
        self._guest.put(file, f"/systemd/root{path}")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    described = [one for one in (*host.packages(), *guest_packages.packages()) if one.name in INSTALLED]
    disk = systemd_disk.make(described, tmp_path_factory.mktemp("disk"))
    vm = VmSettings("one")
    with Vgcd(vm) as vgcd, Guest(vgcd.device("one"), memory_mib=MEMORY_MIB, disks=[disk]) as guest:
        yield Machine(guest)
    disk.unlink()  # pytest keeps folders of some runs


def test_arriving_device_is_given_to_its_group(machine: Machine) -> None:
    """By udev's rule, which starts the unit at boot."""
    until(lambda: "the group vgc may use" in machine.run("journalctl --unit=vgc-grant.service --output=cat"))
    assert machine.run("stat -c '%G %a' /dev/uio0") == "vgc 660"
    (function,) = machine.run("cd /run/vgc && ls -d *.grant").split()
    assert machine.run(f"stat -c %G /sys/bus/pci/devices/{function.removesuffix('.grant')}/config") == "vgc"
    member = "setpriv --reuid nobody --regid nogroup --groups $(getent group vgc | cut -d: -f3)"
    assert "VM one" in machine.run(f"{member} vgc info")


def test_worker_of_a_vm_is_in_a_limited_group_also_after_a_restart(machine: Machine) -> None:
    machine.put(PROGRAMS / "vm_under_systemd.py", "/opt/tests/vm_under_systemd.py")
    seen: dict[str, Any] = json.loads(
        machine.run("PYTHONPATH=/opt/tests:/usr/lib/vgcd python3 /opt/tests/vm_under_systemd.py")
    )
    assert {name: seen[name] for name in ("start", "state", "restart", "stop", "state at the end")} == {
        "start": "",
        "state": "active",
        "restart": "",
        "stop": "",
        "state at the end": "inactive",
    }
    ((name, worker),) = seen["groups"].items()
    assert re.fullmatch(r"vgcd-[0-9.]+/vm-a/worker-[0-9.]+", name)
    assert MEMORY_OF_VM < int(worker["limits"]["memory.max"]) < MEMORY_MIB << 20
    assert worker["limits"]["memory.swap.max"] == "0"
    assert int(worker["limits"]["pids.max"]) < PROCESSES
    (user,) = worker["users"]
    assert user >= FIRST_OWN_USER
    assert (seen["generation"], seen["groups after the restart"]) == (1, seen["groups"])
    assert seen["left"] == []
