"""The shipped unit under systemd itself: VMs compute while it is restarted, reloaded, killed and upgraded."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import guest_driver as vgc
from tests.fakes.attached import AttachedLink
from tests.fakes.frontend import FakeFrontend
from tests.fakes.guest import open_device
from tests.protocol.systemd_machine import (
    CONFIG,
    PROGRAM,
    SHIPPED,
    UNIT,
    UNITS,
    SystemdMachine,
    has_controllers,
    missing,
)
from tests.protocol.worker_rig import needs_walls
from tests.repeating import repeating
from tests.waiting import until
from vhost_backend.keeper.client import RECORD_VERSION
from vhost_backend.keeper.service import REFUSED
from virtio_proto.schema import Health

VMS: Final = ("a", "b")
ROUNDS: Final = 2
EXPOSED_AT_MOST: Final = {"vgc-control-center.service": 12, "vgcd-vms.service": 4, "nvidia.conf": 25}
"""Exposure of services by systemd's measure, in tenths. What is left to the daemon are rights that sandboxes are built with."""
USUALLY_EXPOSED_AT_MOST: Final = 20
SOURCE: Final = """
extern "C" __global__ void add(int *to, int what) { atomicAdd(to, what); }
"""

pytestmark = needs_walls


def _config(vms: tuple[str, ...] = VMS) -> str:
    settings = "engine: cpu, num_queues: 4, quota: {pes: 1, memory: 64M}, deadline: 500s"
    lines = "".join(f"  {name}: {{socket: /run/vgcd/{name}, {settings}}}\n" for name in vms)
    return f"vms:\n{lines}log: {{format: json}}\novercommit: true\n"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[SystemdMachine]:
    if why := missing():
        pytest.skip(f"systemd cannot run here: {why}")
    with SystemdMachine(tmp_path, _config()) as machine:
        yield machine


class Guest:
    """A VM whose guest computes, and whose frontend reads its configuration, until the stack ends."""

    def __init__(self, name: str, machine: SystemdMachine, folder: Path, stack: contextlib.ExitStack) -> None:
        self.link = stack.enter_context(AttachedLink(machine.path(f"/run/vgcd/{name}"), num_queues=4))
        self.link.wait_ready()
        self.device: vgc.Device = stack.enter_context(open_device(self.link, folder / f"guest-{name}"))
        self._add, self._total = self.device.compile(SOURCE)["add"], self.device.zeros(1, "int32")
        self.done = 0

    def compute(self) -> None:
        self._add[1, 1](self._total, 1)
        self.done += 1

    def check(self) -> None:
        """Nothing was lost, and nothing done twice, by the worker of the beginning."""
        assert list(self._total.get()) == [self.done]
        assert self.link._space.generation == 1


def _served_by(machine: SystemdMachine) -> int:
    return int(machine.events("serving")[-1]["pid"])


def _check_main(machine: SystemdMachine) -> None:
    """Waits until systemd shows the daemon that serves as the main process; the service is active."""
    until(lambda: int(machine.show("MainPID")["MainPID"]) == _served_by(machine))
    about = machine.show("ActiveState", "SubState", "Result", "NRestarts")
    assert about == {"ActiveState": "active", "SubState": "running", "Result": "success", "NRestarts": "0"}
    assert f"Main PID: {_served_by(machine)} " in machine.run("systemctl", "status", "--no-pager", UNIT)


def _await_spare(machine: SystemdMachine) -> None:
    """Waits until the next daemon could take over."""
    serves = machine.events("serving")[-1]["timestamp"]
    machine.wait_until(lambda: any(one["timestamp"] > serves for one in machine.events("spare_ready")))


def _restart(machine: SystemdMachine) -> None:
    """Restarts the service; at the end the program on disk serves."""
    _await_spare(machine)
    times = len(machine.events("serving"))
    machine.systemctl("restart")
    machine.wait_for("serving", times + 2)  # the spare, and the program on disk
    _check_main(machine)


def _reload(machine: SystemdMachine, vms: tuple[str, ...]) -> None:
    times = len(machine.events("reloaded"))
    machine.path(CONFIG).write_text(_config(vms))
    machine.systemctl("reload")
    machine.wait_for("reloaded", times + 1)
    assert [name for name in "abc" if machine.path(f"/run/vgcd/{name}").exists()] == list(vms)
    _check_main(machine)


def _kill(machine: SystemdMachine) -> None:
    _await_spare(machine)
    times = len(machine.events("serving"))
    machine.systemctl("kill", "--signal=KILL", "--kill-whom=main")
    machine.wait_for("serving", times + 1)
    _check_main(machine)


def _upgrade(machine: SystemdMachine, version: str) -> None:
    machine.path(f"{PROGRAM}/virtio_proto/version.py").write_text(f"VERSION = {version!r}\n")
    _restart(machine)
    assert machine.show("StatusText") == {"StatusText": f"vgcd {version} serves"}


def _check_nothing_is_left(machine: SystemdMachine) -> None:
    assert machine.show("ActiveState", "MainPID") == {"ActiveState": "inactive", "MainPID": "0"}
    assert machine.processes() == {}
    assert list(machine.path("/run/vgcd").iterdir()) == []
    assert machine.groups() == []


def test_vms_compute_while_the_service_is_restarted_reloaded_killed_and_upgraded(
    machine: SystemdMachine, tmp_path: Path
) -> None:
    machine.systemctl("start")
    with contextlib.ExitStack() as stack:
        guests = [Guest(name, machine, tmp_path, stack) for name in VMS]
        with contextlib.ExitStack() as load:
            acts = [act for guest in guests for act in (guest.compute, guest.link.refresh)]
            failures = [load.enter_context(repeating(act)) for act in acts]
            _restart(machine)
            for number in range(ROUNDS):
                _reload(machine, (*VMS, "c") if number % 2 == 0 else VMS)
                _kill(machine)
                _upgrade(machine, f"0.1.{number + 1}")
        assert failures == [[]] * len(acts)
        for guest in guests:
            guest.check()
        assert len(machine.events("worker_started")) == len(VMS)
        _await_spare(machine)
        groups = [Path(group).name for group in machine.groups()]
        housed = VMS if has_controllers() else ()
        assert sorted(name for name in groups if name.startswith("vm-")) == [f"vm-{name}" for name in housed]
        assert sum(name.startswith("worker-") for name in groups) == len(housed)
    with contextlib.ExitStack() as stack:
        for name in VMS:
            frontend = stack.enter_context(FakeFrontend.connect(machine.path(f"/run/vgcd/{name}")))
            frontend.negotiate()
            frontend.wait_health(Health.READY)
        machine.systemctl("stop")
        _check_nothing_is_left(machine)


def test_program_that_cannot_take_over_leaves_the_service_as_it_was(machine: SystemdMachine) -> None:
    machine.systemctl("start")
    _await_spare(machine)
    faulty = machine.path(f"{PROGRAM}/vhost_backend/keeper/client.py")
    text = faulty.read_text()
    faulty.write_text(text.replace(f"RECORD_VERSION: Final = {RECORD_VERSION}\n", "RECORD_VERSION: Final = 9999\n"))
    assert faulty.read_text() != text
    machine.systemctl("restart")
    assert f"knows records of version 9999, and those have version {RECORD_VERSION}" in machine.log()
    _check_main(machine)
    assert machine.show("StatusText") == {"StatusText": REFUSED}
    faulty.write_text(text)
    machine.systemctl("stop")
    _check_nothing_is_left(machine)


def test_service_whose_keeper_is_killed_starts_anew(machine: SystemdMachine) -> None:
    machine.systemctl("start")
    before = _served_by(machine)
    _await_spare(machine)  # until then the keeper has a child of its own name, which becomes the spare
    (keeper,) = (pid for pid, name in machine.processes().items() if name == "vgc-keeper")
    os.kill(keeper, signal.SIGKILL)
    machine.wait_for("keeper_lost")
    machine.wait_for("serving", count=2)
    until(lambda: machine.show("ActiveState") == {"ActiveState": "active"})
    assert machine.show("NRestarts") == {"NRestarts": "1"}
    assert _served_by(machine) != before
    machine.systemctl("kill", "--signal=KILL")  # all of it
    machine.wait_for("serving", count=3)
    until(lambda: machine.show("ActiveState", "NRestarts") == {"ActiveState": "active", "NRestarts": "2"})
    machine.systemctl("stop")
    _check_nothing_is_left(machine)


def test_mistake_in_the_configuration_is_not_tried_again(machine: SystemdMachine) -> None:
    machine.path(CONFIG).write_text("vms: 3\n")
    machine.run("systemctl", "start", UNIT, check=False)
    about = machine.show("ActiveState", "Result", "ExecMainStatus", "NRestarts")
    assert about == {"ActiveState": "failed", "Result": "exit-code", "ExecMainStatus": "2", "NRestarts": "0"}
    assert machine.processes() == {}


def test_nothing_of_the_machine_can_be_reached(machine: SystemdMachine, tmp_path: Path) -> None:
    """Files that systemd and its services write are seen by them alone."""
    for name in ("tmp", "var/tmp", "run", "dev/shm", "etc"):
        file = f"/{name}/vgc-{tmp_path.name}-{os.getpid()}"
        machine.run("touch", file)
        assert machine.path(file).exists()
        assert not Path(file).exists()
    assert not machine.path(tmp_path).exists()


def test_systemd_understands_the_units(machine: SystemdMachine) -> None:
    files = [f"{UNITS}/{unit.name}" for unit in sorted(SHIPPED.glob("*.service")) + sorted(SHIPPED.glob("*.socket"))]
    said = machine.run("sh", "-c", f"SYSTEMD_UNIT_PATH={UNITS} systemd-analyze verify {' '.join(files)} 2>&1")
    assert said == ""
