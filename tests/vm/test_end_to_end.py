"""A guest computes through the device: QEMU, daemon, sandboxed worker, compiler, CPU engine, driver, all of them real."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.vm.agent import Answer
from tests.vm.harness import CommandError, Guest
from tests.vm.vgcd import Vgcd, VmSettings

pytestmark = pytest.mark.vm

PROGRAMS = Path(__file__).with_name("guest_programs")
SPIN = "python3 spin.py /tmp/started /tmp/stop"
LONG_DEADLINE = {"deadline": "10m"}
"""Deadline of launches, long enough that only the test ends a kernel that spins."""


@contextmanager
def one_guest(settings: VmSettings | None = None) -> Iterator[tuple[Vgcd, Guest]]:
    """A guest with a device and with the programs of this test."""
    settings = settings or VmSettings("one", extra=LONG_DEADLINE)
    with Vgcd(settings) as vgcd, Guest(vgcd.device(settings.name)) as guest:
        put_programs(guest)
        yield vgcd, guest


def put_programs(guest: Guest) -> None:
    for program in PROGRAMS.iterdir():
        if program.suffix == ".py":
            guest.put(program, f"/root/{program.name}")


@pytest.fixture(scope="module")
def computer() -> Iterator[tuple[Vgcd, Guest]]:
    """A guest shared by the tests that leave the device as they found it."""
    with one_guest() as pair:
        yield pair


def python(guest: Guest, code: str) -> str:
    """Runs a Python program in the guest; returns its output."""
    program = f"import numpy as np, guest_driver as vgc\n{code}"
    return guest.run(f"python3 -c {shlex.quote(program)}").stdout


def start_spinning(guest: Guest) -> Future[Answer]:
    """Start a kernel in the guest; returns when it runs. `stop_spinning` ends it."""
    guest.run("rm -f /tmp/started /tmp/stop; mkfifo /tmp/started /tmp/stop")
    spinning = guest.start(SPIN)
    guest.run("cat /tmp/started")
    return spinning


def stop_spinning(guest: Guest, spinning: Future[Answer], word: str = "stop") -> str:
    """End the kernel of `start_spinning`; return its program's output."""
    guest.run(f"echo {word} > /tmp/stop")
    return guest.result(spinning, SPIN).stdout


def test_device_reports_the_name_of_its_vm(computer: tuple[Vgcd, Guest]) -> None:
    _, guest = computer
    shown = python(guest, "with vgc.Device() as d: i = d.info(); print(i.vm_name, i.engine, i.health, i.num_queues)")
    assert shown == "one cpu ready 4\n"


def test_guest_computes(computer: tuple[Vgcd, Guest]) -> None:
    _, guest = computer
    assert guest.run("python3 scale.py 2.5 3").stdout == "2.5 one\n"


def test_compiler_error_reaches_the_guest(computer: tuple[Vgcd, Guest]) -> None:
    _, guest = computer
    with pytest.raises(CommandError, match="undeclared identifier 'nonsense'"):
        python(guest, "with vgc.Device() as d: d.compile('__global__ void k(int *p) { *p = nonsense; }')")


def test_kernel_fault_names_kernel_and_spares_the_guest(computer: tuple[Vgcd, Guest]) -> None:
    _, guest = computer
    code = """
with vgc.Device() as d:
    p = d.compile('extern "C" __global__ void wild(int *p) { p[threadIdx.x] = 1; }')
    try:
        p["wild"][1, 1](16)
    except vgc.KernelFault as error:
        print(error)
"""
    assert "wild" in python(guest, code)
    assert guest.run("python3 scale.py 3 1").stdout == "3 one\n"


def test_prints_of_kernels_come_out_in_the_guest(computer: tuple[Vgcd, Guest]) -> None:
    _, guest = computer
    code = """
with vgc.Device() as d:
    d.compile('__global__ void hello() { printf("hello from %d; ", threadIdx.x); }')["hello"][1, 1]()
"""
    assert python(guest, code) == "hello from 0; "


def test_processes_compute_side_by_side(computer: tuple[Vgcd, Guest]) -> None:
    _, guest = computer
    commands = [f"python3 scale.py {factor} 20" for factor in (2, 3, 4)]
    started = [guest.start(command) for command in commands]
    shown = [guest.result(one, command).stdout for one, command in zip(started, commands, strict=True)]
    assert shown == ["2 one\n", "3 one\n", "4 one\n"]


def test_killed_process_frees_what_it_held(computer: tuple[Vgcd, Guest]) -> None:
    _, guest = computer
    held = "import guest_driver as vgc, os; d = vgc.Device(); m = d.alloc(200 << 20); os.kill(os.getpid(), 9)"
    for _ in range(3):  # 200 of 256 MiB: the second would find no room if the first still held its memory
        assert guest.run(f"python3 -c {shlex.quote(held)}", check=False).exit != 0
    assert python(guest, "with vgc.Device() as d: m = d.alloc(200 << 20); print('fits')") == "fits\n"


def test_work_in_flight_survives_pause_and_resume(computer: tuple[Vgcd, Guest]) -> None:
    _, guest = computer
    spinning = start_spinning(guest)
    guest.pause()
    guest.resume()
    assert stop_spinning(guest, spinning) == "finished 2\n"


def test_reset_guest_computes_again(computer: tuple[Vgcd, Guest]) -> None:
    _, guest = computer
    start_spinning(guest)
    guest.reset()
    put_programs(guest)
    assert guest.run("python3 scale.py 5 2").stdout == "5 one\n"
    used = python(guest, "with vgc.Device() as d: print(d.usage().num_contexts, d.usage().memory_used_bytes)")
    assert used == "1 0\n"


def test_killed_worker_is_lost_once_and_replaced() -> None:
    with one_guest() as (vgcd, guest):
        spinning = start_spinning(guest)
        (worker,) = vgcd.worker_pids()
        os.kill(worker, signal.SIGKILL)
        shown = stop_spinning(guest, spinning, "wait").splitlines()
        assert shown[0].startswith("lost: ")
        assert shown[1] == "again True generation 2"
        assert guest.run("python3 scale.py 7 2").stdout == "7 one\n"


def test_three_machines_share_a_daemon_and_nothing_else() -> None:
    names = ("left", "right", "third")
    settings = [VmSettings(name, extra=LONG_DEADLINE) for name in names]
    with Vgcd(*settings) as vgcd, ExitStack() as running:
        guests = {name: running.enter_context(Guest(vgcd.device(name))) for name in names}
        for guest in guests.values():
            put_programs(guest)
        factors = dict(zip(names, (2, 5, 7), strict=True))
        commands = {name: f"python3 scale.py {factor} 500" for name, factor in factors.items()}
        started = {name: guest.start(commands[name]) for name, guest in guests.items()}
        for name, guest in guests.items():
            assert guest.result(started[name], commands[name]).stdout == f"{factors[name]} {name}\n"
        left, right = guests["left"], guests["right"]
        spinning = start_spinning(left)
        assert right.run("python3 scale.py 2 5").stdout == "2 right\n"
        left.process.kill()
        assert right.run("python3 scale.py 3 5").stdout == "3 right\n"
        with pytest.raises(Exception, match="QEMU has ended"):
            spinning.result()
