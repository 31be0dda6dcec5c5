"""Limits that change while a guest computes: what guest and worker are told, and when they are enforced."""

from __future__ import annotations

import io
import resource
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import guest_driver as vgc
from tests.fakes.daemon import SANDBOX, DaemonThread
from tests.fakes.driver import Reply
from tests.fakes.frontend import FakeFrontend, RingSetup, SharedFile
from tests.fakes.guest import open_device
from tests.fakes.vm import REGION_BYTES, FakeVm
from tests.limits import NO_DEADLINE_NS
from tests.protocol.conftest import Stage
from tests.protocol.guest_host import guest_host
from tests.protocol.test_cpu_requests import TEXT_BYTES, Program
from tests.protocol.test_daemon import running, space_of
from tests.protocol.worker_rig import needs_walls
from tests.unit.test_dataplane_limits import may_raise
from tests.waiting import until
from vhost_backend.config.daemon import MIB, DaemonConfig, EngineConfig, QuotaConfig, VmConfig, vm_uuid
from vhost_backend.daemon import allotment
from vhost_backend.daemon.compile_setup import compile_service
from vhost_backend.daemon.limit_keeper import LimitKeeper
from vhost_backend.daemon.process import sandboxed_worker, worker_of
from vhost_backend.worker_protocol import protocol
from virtio_proto import schema
from virtio_proto.schema import Health, Opcode, Status

ACK_AT = next(field for field in schema.fields(schema.CONFIG) if field.name == "driver_ack").offset_bytes
FOREVER_S = 3600.0


def acknowledge(frontend: FakeFrontend, number: int) -> None:
    frontend.config_write(number.to_bytes(4, "little"), ACK_AT)


def state_of(daemon: DaemonThread, vm: str = "a") -> str:
    return daemon.ask(lambda served: served.vms[vm].allotment_state)


def is_pending(daemon: DaemonThread) -> bool:
    return daemon.ask(lambda served: served.vms["a"].allotment.is_pending)


def change(daemon: DaemonThread, **limits: Any) -> bool:
    """Changes limits of VM "a"; `deadline_ns` stands beside its quota."""

    def act(served: Any) -> bool:
        vm = served.vms["a"]
        deadline_ns = limits.pop("deadline_ns", vm.config.deadline_ns)
        quota = replace(vm.config.quota, **limits)
        return bool(vm.change_limits(replace(vm.config, quota=quota, deadline_ns=deadline_ns)))

    return daemon.ask(act)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that waits for the guest's acknowledgement as long as it takes."""
    monkeypatch.setattr(allotment, "ACKNOWLEDGE_WITHIN_S", FOREVER_S)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allotment, "ACKNOWLEDGE_WITHIN_S", 0.01)


# ---- what the guest acknowledges ------------------------------------------------------------------


def test_guest_that_takes_its_allotment_is_shown_and_logged(
    stage: Stage, memory: SharedFile, ring: RingSetup, logs: io.StringIO
) -> None:
    assert state_of(stage.daemon) == "unused"
    frontend, _ = running(stage, memory, ring)
    assert state_of(stage.daemon) == "never acknowledged"
    assert space_of(frontend).allotment == 1
    acknowledge(frontend, 1)
    acknowledge(frontend, 1)
    assert state_of(stage.daemon) == "taken"
    assert logs.getvalue().count("allotment_taken") == 1
    frontend.close()
    until(lambda: state_of(stage.daemon) == "unused")


def test_nonsense_is_shown_logged_once_and_harmless(
    stage: Stage, memory: SharedFile, ring: RingSetup, logs: io.StringIO
) -> None:
    frontend, worker = running(stage, memory, ring)
    for nonsense in (2, 7, 0xFFFFFFFF):
        acknowledge(frontend, nonsense)
        assert state_of(stage.daemon) == "wrong"
        assert space_of(frontend).driver_ack == nonsense
    assert logs.getvalue().count("allotment_unknown") == 1
    assert change(stage.daemon, contexts=7)
    assert worker.expect(protocol.Limits).max_contexts == 256
    acknowledge(frontend, 2)
    assert worker.expect(protocol.Limits).max_contexts == 7
    assert state_of(stage.daemon) == "taken"


def test_number_of_an_earlier_guest_is_wrong_for_this_one(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = running(stage, memory, ring)
    change(stage.daemon, queue_depth=300)
    worker.expect(protocol.Limits)
    frontend.wait_for_config(lambda space: space.allotment == 2)
    frontend.close()
    again, _ = stage.attach()
    again.start([ring], [memory])
    acknowledge(again, 1)
    assert state_of(stage.daemon) == "wrong"
    acknowledge(again, 2)
    assert state_of(stage.daemon) == "taken"


# ---- when limits are enforced ---------------------------------------------------------------------


def limits_of(message: protocol.Limits) -> tuple[int, int, int, int, int]:
    quota = message.quota
    return quota.memory_bytes // MIB, quota.queue_depth, message.max_contexts, message.max_streams, message.allotment


@pytest.mark.usefixtures("patient")
def test_raises_are_enforced_at_once_and_the_rest_once_acknowledged(
    stage: Stage, memory: SharedFile, ring: RingSetup
) -> None:
    frontend, worker = running(stage, memory, ring)
    assert change(stage.daemon, memory_bytes=200 * MIB, queue_depth=300, contexts=8, streams=64)
    message = worker.receive()
    assert isinstance(message, protocol.Limits)
    assert limits_of(message) == (256, 300, 256, 64, 1)
    assert space_of(frontend).allotment == 1  # the guest is told once it can have what was raised
    worker.ack(message)
    frontend.wait_config_change()
    assert limits_of(worker.expect(protocol.Limits)) == (256, 300, 256, 64, 2)
    space = space_of(frontend)
    assert (space.allotment, space.quota_memory_bytes, space.queue_depth) == (2, 200 * MIB, 300)
    for nonsense in (1, 0, 3):
        acknowledge(frontend, nonsense)
    assert is_pending(stage.daemon)
    acknowledge(frontend, 2)
    assert limits_of(worker.expect(protocol.Limits)) == (200, 300, 8, 64, 2)
    until(lambda: not is_pending(stage.daemon))


@pytest.mark.usefixtures("impatient")
def test_guest_that_never_acknowledges_gets_the_lower_limits_all_the_same(
    stage: Stage, memory: SharedFile, ring: RingSetup, logs: io.StringIO
) -> None:
    _, worker = running(stage, memory, ring)
    change(stage.daemon, deadline_ns=10**9)
    assert worker.expect(protocol.Limits).deadline_ns == 10 * 10**9
    assert worker.expect(protocol.Limits).deadline_ns == 10**9
    until(lambda: "allotment_enforced" in logs.getvalue())
    assert state_of(stage.daemon) == "never acknowledged"


@pytest.mark.usefixtures("patient")
def test_next_worker_has_all_limits_from_its_start(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = running(stage, memory, ring)
    change(stage.daemon, contexts=3)
    worker.expect(protocol.Limits)
    worker.die()
    successor = stage.workers.next()
    setup = successor.setup()
    assert (setup.max_contexts, setup.allotment) == (3, 2)
    frontend.wait_for_config(lambda space: space.generation == 2)
    assert not is_pending(stage.daemon)


@pytest.mark.usefixtures("patient")
def test_worker_that_was_being_set_up_gets_them_when_it_is_ready(stage: Stage) -> None:
    frontend = stage.connect()
    frontend.negotiate()
    worker = stage.workers.next()
    assert worker.expect(protocol.Setup).max_contexts == 256
    change(stage.daemon, contexts=3)
    worker.send(protocol.Ready("fake engine", 3, 0, "none: a test double"))
    assert worker.expect(protocol.Limits).max_contexts == 256
    acknowledge(frontend, 2)
    assert worker.expect(protocol.Limits).max_contexts == 3


def test_worker_that_refuses_is_reported_and_the_change_stays_pending(
    stage: Stage, memory: SharedFile, ring: RingSetup, logs: io.StringIO
) -> None:
    _, worker = running(stage, memory, ring)
    change(stage.daemon, queue_depth=10_000)
    for number in (1, 2):
        message = worker.receive()
        assert isinstance(message, protocol.Limits)
        assert message.allotment == number
        worker.ack(message, "no memory for 10000 requests in flight")
    until(lambda: logs.getvalue().count("allotment_refused") == 2)
    assert is_pending(stage.daemon)


def test_changes_in_a_row_leave_the_last(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, worker = running(stage, memory, ring)
    for depth in (300, 301, 302):
        change(stage.daemon, queue_depth=depth)
    for depth in (300, 301, 302, 302):
        assert worker.expect(protocol.Limits).quota.queue_depth == depth
    frontend.wait_for_config(lambda space: space.queue_depth == 302)
    until(lambda: not is_pending(stage.daemon))


def test_same_limits_are_no_change(stage: Stage, memory: SharedFile, ring: RingSetup) -> None:
    frontend, _ = running(stage, memory, ring)
    assert not change(stage.daemon, contexts=256)
    assert space_of(frontend).allotment == 1


# ---- real workers ---------------------------------------------------------------------------------

WHERE = b"""
extern "C" __global__ void where(int *count) {
    unsigned pe;
    asm("mov.u32 %0, %%smid;" : "=r"(pe));
    atomicAdd(&count[pe & 3], 1);
}
extern "C" __global__ void meet(volatile int *count) {
    atomicAdd((int *)&count[3], 1);
    while (count[3] < 2) {}
}
"""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonThread]:
    """A daemon with the VM "a" on the software GPU, with 2 processing elements and 16 MiB."""
    vm = VmConfig(
        "a",
        vm_uuid("a"),
        tmp_path / "a",
        REGION_BYTES,
        engine=EngineConfig("cpu"),
        quota=QuotaConfig(pes=2, memory_bytes=16 * MIB),
        deadline_ns=NO_DEADLINE_NS,
        num_queues=1,
        sandbox=SANDBOX,
    )
    config = DaemonConfig((vm,), cache=tmp_path / "cache")
    with DaemonThread(config, sandboxed_worker, compiler=compile_service(config)) as daemon:
        yield daemon


@pytest.fixture
def vm(daemon: DaemonThread, tmp_path: Path) -> Iterator[FakeVm]:
    with FakeVm(tmp_path / "a") as vm:
        vm.frontend.wait_health(Health.READY)
        acknowledge(vm.frontend, 1)
        assert state_of(daemon) == "taken"
        yield vm


def enforced(daemon: DaemonThread, vm: FakeVm, **limits: Any) -> None:
    """Changes limits, as a guest that takes them; returns when they are enforced."""
    assert change(daemon, **limits)
    until(lambda: daemon.ask(lambda served: served.vms["a"].allotment.told == served.vms["a"].config))
    acknowledge(vm.frontend, space_of(vm.frontend).allotment)
    until(lambda: not is_pending(daemon))


def alloc(vm: FakeVm, context: int, size: int) -> Reply:
    return vm.driver.request(Opcode.ALLOC, {"size": size}, writable_len=TEXT_BYTES, context=context)


@needs_walls
def test_memory_that_is_raised_while_a_worker_starts_is_in_its_bounds(daemon: DaemonThread, tmp_path: Path) -> None:
    with FakeVm(tmp_path / "a") as vm:
        assert change(daemon, memory_bytes=400 * MIB)
        vm.frontend.wait_health(Health.READY)
        assert vm.driver.request(Opcode.NOP).status == Status.OK
        acknowledge(vm.frontend, space_of(vm.frontend).allotment)
        until(lambda: not is_pending(daemon))
        context = vm.driver.request(Opcode.CONTEXT_CREATE).value
        assert alloc(vm, context, 300 * MIB).status == Status.OK
        pid = daemon.ask(lambda served: served.vms["a"].worker_pid)
        assert pid is not None
        bound, _ = resource.prlimit(worker_of(pid), resource.RLIMIT_AS)
        mapped = int(Path(f"/proc/{worker_of(pid)}/statm").read_text().split()[0]) * resource.getpagesize()
        assert bound - mapped > 400 * MIB


@needs_walls
@pytest.mark.usefixtures("patient")
def test_memory_is_raised_used_and_lowered_without_a_loss(daemon: DaemonThread, vm: FakeVm) -> None:
    context = vm.driver.request(Opcode.CONTEXT_CREATE).value
    assert alloc(vm, context, 64 * MIB).status == Status.OUT_OF_MEMORY
    pid = daemon.ask(lambda served: served.vms["a"].worker_pid)
    enforced(daemon, vm, memory_bytes=400 * MIB)
    big = alloc(vm, context, 300 * MIB)
    assert big.status == Status.OK
    fill = {"dst": big.value, "size": 300 * MIB, "value": 7, "unit": 1}
    assert vm.driver.request(Opcode.FILL, fill, context=context).status == Status.OK
    enforced(daemon, vm, memory_bytes=32 * MIB)
    refused = alloc(vm, context, MIB)
    assert (refused.status, refused.text) == (
        Status.OUT_OF_MEMORY,
        f"asked {MIB} bytes, 0 of {32 * MIB} bytes free" + may_raise("memory"),
    )
    copy = {"src": big.value + 299 * MIB, "size": 16}
    assert vm.driver.request(Opcode.COPY_OUT, copy, writable_len=16, context=context).payload == b"\7" * 16
    assert vm.driver.request(Opcode.FREE, {"address": big.value}, context=context).status == Status.OK
    assert alloc(vm, context, MIB).status == Status.OK
    assert daemon.ask(lambda served: served.vms["a"].worker_pid) == pid


@needs_walls
def test_elements_are_taken_away_and_given_back(daemon: DaemonThread, vm: FakeVm) -> None:
    program = Program(vm)
    assert program.load(WHERE).status == Status.OK
    enforced(daemon, vm, pes=1)
    assert space_of(vm.frontend).quota_pes == 1
    for _ in range(20):
        launch(program, "where", blocks=64)
    assert counts(program) == (20 * 64, 0, 0, 0)
    enforced(daemon, vm, pes=2)
    launch(program, "meet", blocks=2)  # each of the two blocks waits for the other
    assert counts(program) == (20 * 64, 0, 0, 2)


def launch(program: Program, name: str, blocks: int) -> None:
    found = program.request(Opcode.FUNCTION_LOOKUP, {"program": 0, "name_len": len(name)}, name.encode())
    params = struct.pack("<Q", program.buffer)
    geometry = {"grid": [blocks, 1, 1], "block": [1, 1, 1], "shared_bytes": 0, "param_len": len(params)}
    reply = program.request(Opcode.LAUNCH, {"function": found.value, **geometry}, params)
    assert reply.status == Status.OK, reply.text


def counts(program: Program) -> tuple[int, ...]:
    reply = program.vm.driver.request(
        Opcode.COPY_OUT, {"src": program.buffer, "size": 16}, writable_len=16, context=program.context
    )
    return struct.unpack("<4i", reply.payload)


@needs_walls
def test_bounds_that_were_moved_halfway_are_moved_again(
    daemon: DaemonThread, vm: FakeVm, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[int | None] = []

    def move(_keeper: LimitKeeper, config: VmConfig) -> None:
        moved.append(config.quota.pes)
        if config.quota.pes == 1:
            raise OSError("halfway")

    monkeypatch.setattr(LimitKeeper, "_bound_groups", move)
    enforced(daemon, vm, pes=1)
    assert set(moved) == {1}
    enforced(daemon, vm, pes=2)
    assert moved[-1] == 2


@needs_walls
def test_more_elements_than_the_worker_has_are_for_the_next(daemon: DaemonThread, vm: FakeVm) -> None:
    assert not change(daemon, pes=3)
    assert change(daemon, pes=3, contexts=9)
    space = space_of(vm.frontend)
    assert (space.quota_pes, space.max_contexts) == (2, 9)


@needs_walls
def test_limits_survive_the_worker(daemon: DaemonThread, vm: FakeVm) -> None:
    enforced(daemon, vm, contexts=1, pes=1)
    before = daemon.ask(lambda served: served.vms["a"].generation)
    daemon.begin(lambda served: served.vms["a"].replace_worker("the test wants it")).result()
    vm.frontend.wait_for_config(lambda space: space.generation > before and space.health == Health.READY)
    space = space_of(vm.frontend)
    assert (space.max_contexts, space.quota_pes) == (1, 1)
    assert vm.driver.request(Opcode.CONTEXT_CREATE).status == Status.OK
    assert vm.driver.request(Opcode.CONTEXT_CREATE).status == Status.RESOURCES_EXHAUSTED


@needs_walls
@pytest.mark.usefixtures("patient")
def test_guest_driver_takes_what_a_running_daemon_changes(tmp_path: Path) -> None:
    with guest_host(tmp_path) as host, open_device(host.link, host.state_dir) as device:

        def takes(number: int) -> bool:
            """The device answers the guest, which says then that it has taken its allotment."""
            device.nop()
            return host.link.acknowledged == number

        host.link.pass_on_acknowledgement()
        assert state_of(host.daemon) == "taken"
        with pytest.raises(vgc.OutOfMemory, match="asked 83886080"):
            device.alloc(80 * MIB)
        assert change(host.daemon, memory_bytes=100 * MIB, streams=2)
        until(lambda: takes(2))
        memory = device.alloc(80 * MIB)
        memory.write(b"kept")
        host.link.pass_on_acknowledgement()
        until(lambda: not is_pending(host.daemon))
        assert state_of(host.daemon) == "taken"
        assert change(host.daemon, memory_bytes=50 * MIB)
        until(lambda: takes(3))
        with pytest.raises(vgc.OutOfMemory, match="asked 4096, 0 of 52428800 bytes free"):
            device.alloc(4096)
        assert memory.read(4) == b"kept"
