"""Guest code that stops its worker, or captures the threads that police it: the daemon notices and replaces the worker."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.vm import FakeVm
from tests.limits import HANGS_AFTER_S
from tests.protocol.hostile_guest import Guest, Guests, both_guests, vgcd, vgcd_sockets
from tests.protocol.worker_rig import needs_walls
from tests.waiting import until
from vhost_backend.daemon.heartbeat import Pace
from vhost_backend.daemon.process import worker_of
from vhost_backend.daemon.server import Daemon
from virtio_proto import schema
from virtio_proto.schema import Health

pytestmark = needs_walls

DEADLINE_NS: Final = 500_000_000
PACE: Final = Pace(period_s=0.1, late_s=0.3, shortest_s=6.0)
"""Quick to notice; as slow to replace a worker as a busy machine, on which the neighbour answers late, needs."""
WORKER: Final = 2
"""Number of the worker in its pid namespace."""

SOURCE: Final = r"""
/* A handler that never returns, as struct sigaction of the kernel: flags are SA_RESTORER and SA_NODEFER. */
static __device__ void keep(int) { for (;;) asm volatile("pause"); }
static __device__ void sleep_for_ever(int) { for (;;) call(34, 0, 0, 0, 0, 0, 0); }
struct action { void (*handler)(int); unsigned long flags; void (*restorer)(int); unsigned long mask; };

/* Has every other thread of the process run `handler`. */
static __device__ void capture(void (*handler)(int), long pid) {
    action made = {handler, 0x44000000, handler, 0};
    long self = call(186, 0, 0, 0, 0, 0, 0);
    call(13, 10, (long)&made, 0, 8, 0, 0);
    for (long thread = 1; thread < 64; thread++)
        if (thread != self) call(234, pid, thread, 10, 0, 0, 0);
}

extern "C" __global__ void capture_and_spin(long *out, long pid) { capture(keep, pid); for (;;) asm volatile("pause"); }
extern "C" __global__ void capture_and_sleep(long *out, long pid) { capture(sleep_for_ever, pid); sleep_for_ever(0); }
extern "C" __global__ void stop(long *out, long pid) { call(234, pid, pid, 19, 0, 0, 0); for (;;) asm volatile("pause"); }
"""


@pytest.fixture
def guests(tmp_path: Path) -> Iterator[Guests]:
    with vgcd_sockets(tmp_path, PACE, DEADLINE_NS) as sockets, both_guests(sockets, SOURCE) as made:
        yield made


def pid(daemon: Daemon) -> int:
    """Process that the daemon started as the attacker's worker."""
    found = daemon.vms["attacker"].worker_pid
    assert found is not None
    return found


def rests(daemon: Daemon) -> bool:
    """True if the daemon leaves the attacker's worker alone."""
    frontend = daemon.vms["attacker"]._frontend
    heartbeat = None if frontend is None else frontend.slot._watch._heartbeat
    return heartbeat is not None and heartbeat.rests


def replaced(attacker: Guest, before: int) -> bool:
    space = schema.CONFIG.construct.parse(attacker.vm.frontend.config_read())
    return bool(space.generation > before and space.health == Health.READY)


@pytest.mark.parametrize("attack", ["capture_and_spin", "capture_and_sleep", "stop"])
def test_a_captured_worker_is_shown_as_such_and_replaced(logs: io.StringIO, guests: Guests, attack: str) -> None:
    attacker = guests.attacker
    before = attacker.generation()
    attacker.start_launch(attack, WORKER)
    until(lambda: replaced(attacker, before))
    assert "new=UNRESPONSIVE old=READY vm=attacker" in logs.getvalue()
    assert "did not answer within 6 s" in logs.getvalue()
    attacker.start()
    assert attacker.computes()


def test_a_worker_that_is_stopped_while_it_rests_is_shown_as_such_and_replaced(
    logs: io.StringIO, tmp_path: Path
) -> None:
    with vgcd(tmp_path, PACE, DEADLINE_NS) as daemon, FakeVm(tmp_path / "attacker") as vm:
        vm.frontend.wait_health(Health.READY)
        worker = worker_of(daemon.ask(pid))
        until(lambda: daemon.ask(rests))
        os.kill(worker, signal.SIGSTOP)
        vm.frontend.wait_health(Health.RECOVERING)
        assert "new=UNRESPONSIVE old=READY vm=attacker" in logs.getvalue()
        vm.frontend.wait_for_config(lambda space: space.generation >= 2 and space.health == Health.READY)
        assert "vgc-launch: stopped by signal 19" in logs.getvalue()


def test_a_worker_that_goes_on_in_time_is_kept(logs: io.StringIO, tmp_path: Path) -> None:
    pace = replace(PACE, shortest_s=HANGS_AFTER_S)
    with vgcd(tmp_path, pace, DEADLINE_NS) as daemon, FakeVm(tmp_path / "attacker") as vm:
        vm.frontend.wait_health(Health.READY)
        worker = worker_of(daemon.ask(pid))
        until(lambda: daemon.ask(rests))
        os.kill(worker, signal.SIGSTOP)
        vm.frontend.wait_health(Health.RECOVERING)
        os.kill(worker, signal.SIGCONT)
        vm.frontend.wait_health(Health.READY)
        assert "new=READY old=UNRESPONSIVE" in logs.getvalue()
