"""The daemon between a frontend and a worker: the messages that each gets, and their order."""

from __future__ import annotations

import fcntl
import itertools
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.api_caller import ApiCaller
from tests.fakes.daemon import DaemonThread
from tests.fakes.frontend import FakeFrontend, RingSetup, SharedFile
from tests.fakes.worker import WorkerDouble
from tests.protocol.conftest import GPA, REGION_BYTES, UVA, Stage
from tests.waiting import until
from vhost_backend.config.daemon import ControlConfig, DaemonConfig, VmConfig, vm_uuid
from vhost_backend.daemon.inflight import InflightMemory
from vhost_backend.daemon.supervisor import RestartPolicy
from vhost_backend.vhost_user import messages
from vhost_backend.vhost_user.messages import Request
from vhost_backend.worker_protocol import codec, protocol
from virtio_proto import schema
from virtio_proto.schema import LIMITS, Health


def space_of(frontend: FakeFrontend) -> Any:
    return schema.CONFIG.construct.parse(frontend.config_read())


def wait_for_generation(frontend: FakeFrontend, generation: int) -> Any:
    return frontend.wait_for_config(lambda space: space.generation == generation)


def running(stage: Stage, memory: SharedFile, ring: RingSetup) -> tuple[FakeFrontend, WorkerDouble]:
    """A frontend with one running ring, and its worker, which has started it."""
    frontend, worker = stage.attach()
    frontend.start([ring], [memory])
    told(worker)
    frontend.wait_config_change()  # the worker's readiness, which was not announced before DRIVER_OK
    return frontend, worker


def told(worker: WorkerDouble, recover: bool = False) -> protocol.VringStart:
    """Takes the messages that start one ring; returns the `VringStart`."""
    worker.expect(protocol.MemTable)
    start = worker.expect(protocol.VringStart)
    assert start.recover == recover
    if not recover:
        worker.expect(protocol.VringCall)
        worker.expect(protocol.VringEnable)
        worker.expect(protocol.VringCall)
    return start


def write_inflight(worker: WorkerDouble, index: int, last_avail: int) -> None:
    """Writes in-flight memory, the worker's first descriptor, as of a worker that has popped `last_avail` chains."""
    queue = (1).to_bytes(4, "little") + last_avail.to_bytes(2, "little") * 2
    os.pwrite(worker.fds[0], queue, 64 + 64 * index)


# ---- messages to the worker ----------------------------------------------------------------------


def test_worker_is_set_up_as_configured(stage: Stage) -> None:
    stage.connect()
    worker = stage.workers.next()
    setup = worker.expect(protocol.Setup)
    assert (setup.vm, setup.engine.kind, setup.num_queues, setup.generation) == ("a", "cpu", 4, 1)
    assert (setup.sandbox, setup.deadline_ns) == ("strict", 10 * 10**9)
    seals = fcntl.fcntl(worker.fds[0], fcntl.F_GET_SEALS)
    assert seals & (fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW) == fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


def test_worker_gets_everything_that_the_frontend_sets_up(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = stage.attach()
    frontend.start([ring], [memory])
    assert worker.expect(protocol.MemTable).regions == (protocol.MemRegion(GPA, UVA, REGION_BYTES, 0),)
    start = worker.expect(protocol.VringStart)
    assert (start.index, start.size, start.base) == (0, 64, 0)
    assert (start.desc_uva, start.avail_uva, start.used_uva) == (ring.desc, ring.avail, ring.used)
    assert (start.event_idx, start.indirect, start.enabled, start.recover) == (True, True, False, False)
    assert (start.has_kick, start.has_call, start.has_err) == (True, True, True)
    assert worker.expect(protocol.VringCall).has_fd
    assert worker.expect(protocol.VringEnable).enabled
    assert worker.expect(protocol.VringCall).has_fd


def test_worker_that_is_ready_late_gets_the_rings_then(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend = stage.connect()
    frontend.negotiate()
    frontend.start([ring], [memory])
    worker = stage.workers.next()
    worker.setup()
    worker.expect(protocol.MemTable)
    start = worker.expect(protocol.VringStart)
    assert (start.index, start.enabled, start.recover) == (0, True, False)


def test_descriptors_reach_the_worker_in_the_right_order(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = running(stage, memory, ring)
    _, _, kick, call, err = worker.fds[:5]  # in-flight memory, region, then the ring's descriptors
    assert ring.kick_fd is not None
    os.eventfd_write(ring.kick_fd, 3)
    assert os.eventfd_read(kick) == 3
    os.eventfd_write(err, 1)
    assert frontend.err_signalled(0)
    assert not frontend.err_signalled(1, timeout_s=0)
    assert os.fstat(worker.fds[1]).st_ino == os.fstat(memory.fd).st_ino
    assert call != kick


def test_call_is_swapped_while_running(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = running(stage, memory, ring)
    fresh = os.eventfd(0, os.EFD_NONBLOCK)
    frontend.set_event(Request.SET_VRING_CALL, 0, fresh)
    assert worker.expect(protocol.VringCall).has_fd
    os.eventfd_write(worker.fds[-1], 1)
    assert os.eventfd_read(fresh) == 1
    os.close(fresh)
    frontend.set_event(Request.SET_VRING_CALL, 0, None)
    assert not worker.expect(protocol.VringCall).has_fd


def test_kick_is_swapped_while_running(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = running(stage, memory, ring)
    frontend.set_event(Request.SET_VRING_KICK, 0, None)
    assert not worker.expect(protocol.VringKick).has_fd


def test_memory_moves_while_running(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = running(stage, memory, ring)
    frontend.remove_memory(memory)
    assert worker.expect(protocol.MemTable).regions == ()
    frontend.add_memory(replace(memory, gpa=GPA * 2))
    assert worker.expect(protocol.MemTable).regions == (protocol.MemRegion(GPA * 2, UVA, REGION_BYTES, 0),)


def test_whole_memory_table_is_replaced(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = running(stage, memory, ring)
    half = REGION_BYTES // 2
    parts = [
        replace(memory, size=half),
        replace(memory, size=half, offset=half, gpa=GPA + half, uva=UVA + half),
    ]
    frontend.set_memory(parts)
    assert worker.expect(protocol.MemTable).regions == ()
    frontend.set_memory([replace(memory, gpa=GPA * 2)])
    assert worker.expect(protocol.MemTable).regions == (protocol.MemRegion(GPA * 2, UVA, REGION_BYTES, 0),)


def test_only_rings_that_the_driver_set_up_are_enabled(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = running(stage, memory, ring)  # enables all four
    frontend.enable(0, enabled=False)
    message = worker.expect(protocol.VringEnable)
    assert (message.index, message.enabled) == (0, False)


# ---- stopping and starting again -----------------------------------------------------------------


def test_base_comes_from_the_worker(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = running(stage, memory, ring)
    frontend.send(Request.GET_VRING_BASE, messages.vring_state(0, 0))
    worker.stop_at(17)
    assert frontend.receive().payload == messages.vring_state(0, 17)


def test_base_is_answered_at_once_when_the_worker_hangs(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = running(stage, memory, ring)
    write_inflight(worker, 0, 23)
    assert frontend.get_base(0) == 23
    successor = stage.workers.next()
    assert successor.setup().generation == 2
    assert not Path(f"/proc/{worker.pid}").exists()


def test_base_is_answered_without_a_worker(
    make_stage: Callable[..., Stage], memory: SharedFile, ring: RingSetup
) -> None:
    stage = make_stage(RestartPolicy(first_delay_s=3600, longest_delay_s=3600))
    frontend, worker = running(stage, memory, ring)
    write_inflight(worker, 0, 5)
    worker.die()
    stage.workers.next().die()  # the second quick death: the next worker starts in an hour
    while stage.daemon.ask(lambda daemon: daemon.vms["a"].worker_pid) is not None:
        frontend.synchronise()
    assert frontend.get_base(0) == 5


def test_paused_ring_goes_on_in_the_same_worker(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = running(stage, memory, ring)
    pause(frontend, worker, ring, base=9)
    frontend.start([replace(ring, base=9)])
    start = worker.expect(protocol.VringStart)
    assert (start.base, start.recover) == (9, False)


def test_paused_ring_recovers_in_a_new_worker(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = running(stage, memory, ring)
    write_inflight(worker, 0, 9)
    pause(frontend, worker, ring, base=9)
    worker.die()
    successor = stage.workers.next()
    successor.setup()
    successor.expect(protocol.MemTable)
    frontend.start([replace(ring, base=9)])
    start = successor.expect(protocol.VringStart)
    assert (start.base, start.recover) == (9, True)


def pause(frontend: FakeFrontend, worker: WorkerDouble, ring: RingSetup, base: int) -> None:
    """Stops the rings as QEMU does when the VM is paused."""
    for index in range(frontend.num_queues):
        frontend.enable(index, enabled=False)
    assert not worker.expect(protocol.VringEnable).enabled
    frontend.send(Request.GET_VRING_BASE, messages.vring_state(ring.index, 0))
    worker.stop_at(base)
    assert frontend.receive().payload == messages.vring_state(ring.index, base)


def test_guest_that_starts_anew_gets_a_fresh_worker(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = running(stage, memory, ring)
    write_inflight(worker, 0, 9)
    pause(frontend, worker, ring, base=9)
    frontend.start([ring])  # base 0: a reboot
    successor = stage.workers.next()
    successor.setup()
    successor.expect(protocol.MemTable)
    start = successor.expect(protocol.VringStart)
    assert (start.base, start.recover) == (0, False)
    assert not has_inflight(successor)


def has_inflight(worker: WorkerDouble) -> bool:
    """True if the worker got in-flight memory that a worker has used before."""
    return os.pread(worker.fds[0], 4, 64) != bytes(4)


def test_reset_replaces_a_worker_that_ran_a_ring(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = running(stage, memory, ring)
    pause(frontend, worker, ring, base=9)
    frontend.reset()
    frontend.start([ring])
    successor = stage.workers.next()
    successor.setup()
    successor.expect(protocol.MemTable)
    assert not successor.expect(protocol.VringStart).recover


def test_reset_of_an_unused_device_keeps_its_worker(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = stage.attach()
    frontend.reset()
    frontend.start([ring], [memory])
    assert told(worker).base == 0


def test_reset_keeps_the_err_descriptor(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    """QEMU sets the err descriptor once, at the connection."""
    frontend, worker = stage.attach()
    frontend.reset()
    frontend.start([ring], [memory])
    assert told(worker).has_err


# ---- a worker's death ----------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["0", "1", "abort"])
def test_dead_worker_is_replaced_by_one_with_all_settings(
    stage: Stage, memory: SharedFile, ring: RingSetup, how: str
) -> None:
    frontend, worker = running(stage, memory, ring)
    write_inflight(worker, 0, 40)
    worker.die(how)
    successor = stage.workers.next()
    assert successor.setup().generation == 2
    start = told(successor, recover=True)
    assert (start.base, start.enabled) == (40, True)
    assert has_inflight(successor)
    frontend.synchronise()


def test_a_dead_worker_holds_nothing(stage: Stage) -> None:
    _, worker = stage.attach()
    worker.send(protocol.Stats(1, 2, 3, 4, 5, 6, 7, 8))
    until(lambda: stage.daemon.ask(lambda daemon: daemon.vms["a"].stats is not None))
    worker.die("abort")
    assert stage.workers.next().setup().generation == 2
    assert stage.daemon.ask(lambda daemon: daemon.vms["a"].stats) == protocol.Stats(0, 2, 3, 4, 0, 0, 0, 0)


def test_guest_sees_recovery_in_the_configuration_space(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = running(stage, memory, ring)
    assert (space_of(frontend).health, space_of(frontend).generation) == (Health.READY, 1)
    worker.die()
    frontend.wait_config_change()
    assert space_of(frontend).health == Health.RECOVERING
    stage.workers.next().setup()
    frontend.wait_config_change()
    assert (space_of(frontend).health, space_of(frontend).generation) == (Health.READY, 2)


def test_no_configuration_interrupt_while_the_device_is_stopped(
    stage: Stage, memory: SharedFile, ring: RingSetup
) -> None:
    """QEMU 11.1 crashes on such an interrupt."""
    frontend, worker = running(stage, memory, ring)
    pause(frontend, worker, ring, base=9)
    worker.die()
    stage.workers.next().setup()
    frontend.wait_for_config(lambda space: (space.health, space.generation) == (Health.READY, 2))
    assert not frontend.config_change_is_pending()
    frontend.start([replace(ring, base=9)])
    frontend.wait_config_change()


def test_ready_worker_describes_itself_in_the_configuration_space(
    stage: Stage, memory: SharedFile, ring: RingSetup
) -> None:
    frontend, worker = running(stage, memory, ring)
    frontend.set_memory([memory])
    message = worker.receive()
    worker.ack(message, address=0x1234_0000)
    space = frontend.wait_for_config(lambda space: space.region_device_address != 0)
    assert space.engine_name.rstrip(b"\0") == b"fake engine"
    assert (space.quota_pes, space.region_device_address) == (3, 0x1234_0000)


def test_crash_loop_is_slowed_down_and_shown(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(RestartPolicy(first_delay_s=0.001, longest_delay_s=0.002, failed_after=3))
    frontend = stage.connect()
    frontend.negotiate()
    for _ in range(3):
        stage.workers.next().die("1")
    frontend.wait_health(Health.FAILED)
    stage.workers.next().setup()
    frontend.wait_health(Health.READY)


def test_faulty_kernels_in_a_row_leave_the_device_usable_in_a_moment(
    make_stage: Callable[..., Stage], memory: SharedFile, ring: RingSetup
) -> None:
    """Death of a worker that was ready is the guest's doing: restarts are delayed up to a limit, and never FAILED."""
    stage = make_stage(RestartPolicy(first_delay_s=3600, longest_delay_s=3600, longest_served_delay_s=0.001))
    frontend, worker = running(stage, memory, ring)
    for generation in range(2, 52):
        worker.die()
        worker = stage.workers.next()
        worker.setup()
        space = wait_for_generation(frontend, generation)
        assert space.health != Health.FAILED


def test_frontend_that_connects_again_and_again_holds_two_connections(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One connection is served and one waits: further ones are closed at once, not after their time limit."""
    monkeypatch.setattr("vhost_backend.daemon.vm.HANDOVER_S", 3600)
    served = stage.connect()
    served.synchronise()
    waiting = stage.connect()
    for _ in range(20):
        assert stage.connect().sock.recv(1) == b""
    served.close()
    waiting.synchronise()


def test_no_configuration_interrupt_before_the_device_is_started(stage: Stage) -> None:
    """QEMU 11.1 would crash on such an interrupt."""
    frontend, _ = stage.attach()
    assert not frontend.config_change_is_pending()


def test_delay_doubles_up_to_a_limit() -> None:
    policy = RestartPolicy(first_delay_s=1, longest_delay_s=5)
    assert [policy.delay_s(n) for n in (0, 1, 2, 3, 4, 5, 1000)] == [0, 0, 1, 2, 4, 5, 5]
    assert [policy.delay_s(n, served=True) for n in (0, 1, 2, 3, 1000)] == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    "packet",
    [
        b"x",
        b"[]",
        b"ack\0\x80",
        codec.encode(protocol.Shutdown(1)),
        codec.encode(protocol.Ack(999, True, "", 0, 0)),
        b"vring_broken\0\x92\x40\xa0",
        codec.encode(protocol.Ready("x", 1, 0, "")),
        codec.encode(protocol.CallListener()),
        b"ack\0" + b"\x91" * 5000,
    ],
    ids=["no type", "no fields", "no seq", "daemon's", "unasked", "bad queue", "ready twice", "no fd", "deep"],
)
def test_worker_that_breaks_the_protocol_is_replaced(stage: Stage, packet: bytes) -> None:
    frontend, worker = stage.attach()
    worker.send_raw(packet)
    assert stage.workers.next().setup().generation == 2
    frontend.synchronise()


def test_worker_that_never_answers_is_replaced(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vhost_backend.daemon.worker_slot.SETUP_TIMEOUT_S", 0.2)
    frontend = stage.connect()
    frontend.synchronise()
    first = stage.workers.next().receive()  # and never Ready
    second = stage.workers.next().receive()
    assert isinstance(first, protocol.Setup)
    assert isinstance(second, protocol.Setup)
    assert second.generation > first.generation
    frontend.synchronise()


def test_host_that_cannot_start_workers_still_answers_the_frontend(tmp_path: Path) -> None:
    daemon = DaemonThread(mortal(tmp_path), lambda _config, _fd: ["/nowhere/worker"], MORTAL)
    with daemon, FakeFrontend.connect(tmp_path / "a") as frontend:
        frontend.negotiate()
        frontend.wait_health(Health.FAILED)
        (fault,) = faults(tmp_path)
        assert fault["text"] == ("the worker was not started: [Errno 2] No such file or directory: '/nowhere/worker'")


MORTAL = RestartPolicy(first_delay_s=0.001, longest_delay_s=0.001, failed_after=3)


def mortal(folder: Path) -> DaemonConfig:
    """A VM "a", and a control API."""
    return DaemonConfig((VmConfig("a", vm_uuid("a"), folder / "a"),), control=ControlConfig(socket=folder / "control"))


def faults(folder: Path) -> list[dict[str, Any]]:
    with ApiCaller(folder / "control") as caller:
        found: list[dict[str, Any]] = caller.ask("faults")["faults"]
        return found


def test_worker_that_dies_before_it_is_ready_is_a_fault(tmp_path: Path) -> None:
    daemon = DaemonThread(mortal(tmp_path), lambda _config, _fd: ["/bin/false"], MORTAL)
    with daemon, FakeFrontend.connect(tmp_path / "a") as frontend:
        frontend.negotiate()
        frontend.wait_health(Health.FAILED)
        (fault,) = faults(tmp_path)
        assert (fault["vm"], fault["kind"]) == ("a", "death")
        assert fault["text"] == "the worker exited with 1 before it was ready"
        assert fault["count"] >= 3


def test_worker_that_sends_without_end_delays_nobody(stage: Stage) -> None:
    """Its messages wait in its own socket until that is full."""
    _, worker = stage.attach()
    other, _ = stage.attach("b")
    worker.sock.setblocking(False)
    assert said_until_full(worker) < 100_000
    other.synchronise()


def said_until_full(worker: WorkerDouble) -> int:
    for said in itertools.count():
        try:
            worker.send(protocol.Log("info", "chatter", {}))
        except BlockingIOError:
            return said
    raise AssertionError("unreachable")


def test_worker_that_hangs_up_is_replaced(stage: Stage) -> None:
    _, worker = stage.attach()
    worker.hang_up()
    assert stage.workers.next().setup().generation == 2


def test_worker_that_reads_nothing_is_replaced(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = running(stage, memory, ring)
    for _ in range(3000):
        frontend.set_event(Request.SET_VRING_CALL, 0, ring.call_fd)
        if stage.daemon.ask(lambda daemon: daemon.vms["a"].worker_pid) != worker.pid:
            break
    assert stage.workers.next().setup().generation == 2


def test_refused_ring_is_no_reason_to_replace_the_worker(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = stage.attach()
    frontend.start([replace(ring, size=3)], [memory])
    worker.expect(protocol.MemTable)
    start = worker.receive()
    assert isinstance(start, protocol.VringStart)
    worker.ack(start, error="size is 3; allowed: a power of two")
    worker.send(protocol.VringBroken(0, "never started"))
    worker.expect(protocol.VringCall)
    frontend.synchronise()
    assert stage.daemon.ask(lambda daemon: daemon.vms["a"].worker_pid) == worker.pid


def test_other_vm_notices_nothing(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = running(stage, memory, ring)
    other, _ = stage.attach("b")
    other.send_raw(b"\xff" * 64)
    assert other.is_dropped()
    frontend.enable(0, enabled=False)
    assert not worker.expect(protocol.VringEnable).enabled


def test_disconnect_ends_the_worker(stage: Stage) -> None:
    frontend, worker = stage.attach()
    frontend.close()
    with pytest.raises(EOFError):
        worker.receive()


def test_next_session_inherits_nothing(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = running(stage, memory, ring)
    write_inflight(worker, 0, 40)
    frontend.config_write(b"\x01" * 256)
    frontend.close()
    again, successor = stage.attach()
    assert not has_inflight(successor)
    assert space_of(again).driver_ack == 0
    again.start([ring], [memory])
    assert told(successor).base == 0


# ---- compiling -----------------------------------------------------------------------------------


def compiled(worker: WorkerDouble, source: bytes, kind: int = 1) -> protocol.Program:
    program = worker.compile(source, protocol.Compile(7, 1, kind, ("-O3",), 0))
    assert program.request == 7
    return program


def test_program_comes_back_compiled(stage: Stage) -> None:
    _, worker = stage.attach()
    program = compiled(worker, b"kernel")
    assert (program.ok, program.log) == (True, "a CUDA_SOURCE -O3 cpu")
    assert os.pread(worker.fds[-1], 100, 0) == b"kernel"


def test_program_that_does_not_compile_comes_back_with_the_log(stage: Stage) -> None:
    _, worker = stage.attach()
    program = compiled(worker, b"error")
    assert (program.ok, program.log) == (False, "line 1: error")


def test_program_of_an_unknown_kind_is_refused(stage: Stage) -> None:
    _, worker = stage.attach()
    program = compiled(worker, b"kernel", kind=9)
    assert not program.ok
    assert "program kind 9 is unknown" in program.log


def test_source_that_is_too_long_is_refused(stage: Stage) -> None:
    _, worker = stage.attach()
    os.ftruncate(worker.sources[1], LIMITS["MAX_SOURCE_BYTES"] + 1)
    worker.send(protocol.Compile(7, 1, 1, (), 1))
    program = worker.expect(protocol.Program)
    assert not program.ok
    assert f"allowed: {LIMITS['MAX_SOURCE_BYTES']}" in program.log


def test_stuck_worker_does_not_delay_other_messages(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    """While a stuck worker does not stop one VM's ring, the other VM is served."""
    frontend, _ = running(stage, memory, ring)
    other, _ = stage.attach("b")
    frontend.send(Request.GET_VRING_BASE, messages.vring_state(0, 0))
    order = []
    other.synchronise()
    order.append("other")
    frontend.receive()
    order.append("stuck")
    assert order == ["other", "stuck"]


def test_offsets_of_these_tests_match_the_inflight_memory() -> None:
    with InflightMemory() as memory:
        os.pwrite(memory.fd, (1).to_bytes(4, "little") + (7).to_bytes(2, "little"), 64 + 64 * 3)
        assert (memory.queue(3).started, memory.queue(3).last_avail) == (True, 7)
