"""Threads that a kernel leaves behind and that compute on the host's processors while no request is in flight."""

from __future__ import annotations

import ctypes
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.daemon import DaemonThread
from tests.limits import HANGS_AFTER_S
from tests.protocol.hostile_guest import Guest, both_guests, vgcd
from tests.protocol.worker_rig import needs_walls
from tests.waiting import until
from vhost_backend.daemon.heartbeat import Pace
from vhost_backend.daemon.server import Daemon
from vhost_backend.daemon.worker_slot import WorkerSlot
from vhost_backend.sandbox.syscalls import X86_64
from virtio_proto import schema
from virtio_proto.schema import Health

pytestmark = needs_walls

PACE: Final = Pace(patience_s=0.5, shortest_s=HANGS_AFTER_S)
"""A worker that cannot answer beside spinning threads, on a busy machine, is not replaced for that."""
DEADLINE_NS: Final = 500_000_000
STRAY_NS: Final = 1_500_000_000
"""Part of the CPU time of a worker before it is replaced: what comes back to its budget is far less."""
_FUTEX_WAKE: Final = 1

SOURCE: Final = r"""
/* Starts a thread that calls body(argument) and never returns from it, on a stack in the buffer. */
static __device__ long leave(long *out, void (*body)(long), long argument) {
    long *top = out + 480, result;
    top[-1] = argument;
    top[-2] = (long)body;
    asm volatile("syscall; test %%rax, %%rax; jnz 1f; pop %%rax; pop %%rdi; andq $-16, %%rsp; call *%%rax; 1:"
                 : "=a"(result)
                 : "a"(56L), "D"(0x10f00L), "S"(top - 2), "d"(0L)
                 : "rcx", "r11", "memory");
    return result;
}
static __device__ void spin(long) { for (;;) asm volatile("pause"); }
static __device__ void wait_and_spin(long word) {
    while (*(volatile int *)word == 0) call(202, word, 0, 0, 0, 0, 0);
    spin(0);
}

extern "C" __global__ void leave_a_spinner(long *out) { *out = leave(out, spin, 0) > 0; }
extern "C" __global__ void leave_a_sleeper(long *out, long word) { *out = leave(out, wait_and_spin, word) > 0; }

/* Notes requests of a ring that nobody uses as in flight, wherever the in-flight memory is open. */
static __device__ long claim() {
    long count = 0;
    for (long fd = 0; fd < 64; fd++) {
        if (call(8, fd, 0, 2, 0, 0, 0) < 5000) continue; /* its size */
        long at = call(9, 0, 8192, 3, 1, fd, 0);
        if (at < 0 && at > -4096) continue;
        if (*(unsigned *)at == 0x46504756) {
            *(volatile long *)(at + 64 + 63 * 64 + 32) = -1;
            count++;
        }
    }
    return count;
}
extern "C" __global__ void claim_and_leave_a_spinner(long *out) { *out = claim() * leave(out, spin, 0) > 0; }
"""


@dataclass(frozen=True, slots=True)
class Scene:
    """Daemon and attacker, with the log of the daemon."""

    daemon: DaemonThread
    attacker: Guest
    logs: io.StringIO

    def is_replaced(self, before: int) -> bool:
        space = schema.CONFIG.construct.parse(self.attacker.vm.frontend.config_read())
        return bool(space.generation > before and space.health == Health.READY)

    def rests(self) -> bool:
        """True if the daemon leaves the attacker's worker alone."""
        return self.daemon.ask(lambda daemon: _slot(daemon)._watch._heartbeat.rests)  # type: ignore[union-attr]

    def stray_ns(self) -> int:
        return self.daemon.ask(lambda daemon: daemon.vms["attacker"].cpu_time.stray_ns)


def _slot(daemon: Daemon) -> WorkerSlot:
    frontend = daemon.vms["attacker"]._frontend
    assert frontend is not None
    return frontend.slot


@pytest.fixture
def scene(tmp_path: Path, logs: io.StringIO) -> Iterator[Scene]:
    sockets = (tmp_path / "attacker", tmp_path / "neighbour")
    with vgcd(tmp_path, PACE, DEADLINE_NS) as daemon, both_guests(sockets, SOURCE) as guests:
        yield Scene(daemon, guests.attacker, logs)


def assert_is_found_out(scene: Scene, before: int) -> None:
    """Waits until the worker has been replaced for its CPU time; the VM then computes as before."""
    until(lambda: scene.is_replaced(before))
    assert re.search(r"worker_faulty .*used \d\.\d s of CPU time that no request .* vm=attacker", scene.logs.getvalue())
    assert scene.stray_ns() > STRAY_NS
    scene.attacker.start()
    assert scene.attacker.computes()


def test_a_thread_that_outlives_its_launch(scene: Scene) -> None:
    before = scene.attacker.generation()
    assert scene.attacker.result(scene.attacker.launch("leave_a_spinner")) == 1
    assert_is_found_out(scene, before)


def test_a_thread_that_sleeps_until_the_daemon_leaves_its_worker_alone(scene: Scene) -> None:
    region = scene.attacker.vm.region
    word = region.allocate(4)
    region.write(word, bytes(4))
    before = scene.attacker.generation()
    seen_at = schema.CONFIG.construct.parse(scene.attacker.vm.frontend.config_read()).region_device_address
    assert scene.attacker.result(scene.attacker.launch("leave_a_sleeper", seen_at + word.offset)) == 1
    until(scene.rests)
    region.write(word, b"\1\0\0\0")
    libc = ctypes.CDLL(None)
    assert libc.syscall(X86_64["futex"], ctypes.c_void_p(region.address + word.offset), _FUTEX_WAKE, 1) == 1
    assert_is_found_out(scene, before)


def test_a_thread_under_cover_of_requests_that_never_end(scene: Scene) -> None:
    before = scene.attacker.generation()
    assert scene.attacker.result(scene.attacker.launch("claim_and_leave_a_spinner")) == 1
    assert_is_found_out(scene, before)
