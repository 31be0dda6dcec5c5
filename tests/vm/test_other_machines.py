"""The driver in guests of other machines than the host's, all emulated: the same sources, Python, C and shell.

``make test-guests`` runs the driver's other tests in such guests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.litmus.test_programs import COUNTS
from tests.ports.machines import MACHINES, WIRE
from tests.vm.c_programs import put_program
from tests.vm.harness import Guest
from tests.vm.test_guest_driver import KILLED_HOLDER, SLEEPERS, python
from tests.vm.vgcd import Vgcd, VmSettings
from tools.architecture import AARCH64, RISCV64, Architecture
from tools.common import REPOSITORY

pytestmark = pytest.mark.vm

NIGHTLY: Final = pytest.mark.skipif(
    "VGC_RISCV64" not in os.environ, reason="takes minutes and an image of its own: VGC_RISCV64=1, as in `make nightly`"
)
CPUS: Final = 4
LITMUS: Final = REPOSITORY / "tests" / "litmus"


@pytest.fixture(
    scope="module", params=[AARCH64, pytest.param(RISCV64, marks=NIGHTLY)], ids=lambda machine: machine.name
)
def other(request: pytest.FixtureRequest) -> Iterator[Guest]:
    machine: Architecture = request.param
    with Vgcd(VmSettings("other")) as vgcd, Guest(vgcd.device("other"), architecture=machine, cpus=CPUS) as guest:
        assert guest.run("uname -m").stdout.strip() == machine.name
        yield guest


def test_device_is_found_comes_up_and_computes(other: Guest) -> None:
    info = other.run("vgc info").stdout
    assert "(cpu), ready, generation 1" in info
    assert "no interrupts" not in info
    assert "[ !! ]" not in other.run("vgc doctor").stdout
    assert "right" in other.run("python3 examples/matmul.py --size 64").stdout


def test_c_program_calls_by_name_on_both_sides(other: Guest, tmp_path: Path) -> None:
    put_program(other, REPOSITORY / "examples" / "call_by_name.c", tmp_path / "call_by_name", "/root/call_by_name")
    output = other.run("/root/call_by_name").stdout
    assert output.count(": right\n") == len(output.splitlines()) >= 5


def test_processes_share_the_device_and_survive_one_anothers_death(other: Guest) -> None:
    assert python(other, SLEEPERS, opens=False) == "[0, 0, 0]"
    assert python(other, f"ready_in, ready_out = os.pipe()\n{KILLED_HOLDER}", opens=False) == "2 0"


@pytest.mark.parametrize("name", COUNTS)
def test_rings_hold_between_processors(other: Guest, name: str, tmp_path: Path) -> None:
    """Emulation orders memory as the host does: a weakly ordered host shows more (docs/guest-machines.md)."""
    machine = MACHINES[other.machine.architecture.name]
    machine.require()
    other.put(machine.compile(tmp_path / name, LITMUS / f"{name}.c", WIRE / "src" / "vring.c"), f"/root/{name}")
    for event_idx in (0, 1):
        assert other.run(f"/root/{name} {COUNTS[name]} {event_idx}").exit == 0
