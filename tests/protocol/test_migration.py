"""A VM's work is migrated between real workers while a fake guest has requests in flight, and notices nothing."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.control_caller import ControlCaller
from tests.fakes.daemon import SANDBOX, DaemonThread
from tests.fakes.driver import Pending, Reply
from tests.fakes.vm import FakeVm
from tests.limits import ANSWERS_WITHIN_S, NO_DEADLINE_NS
from tests.unit.plane_rig import function_ids
from vhost_backend.config.control import ControlConfig
from vhost_backend.config.daemon import MIB, DaemonConfig, EngineConfig, QuotaConfig, VmConfig, vm_uuid
from vhost_backend.daemon.compile_setup import compile_service
from vhost_backend.daemon.migration import MigrationError, MigrationReport
from vhost_backend.daemon.process import sandboxed_worker
from vhost_backend.daemon.server import Daemon
from virtio_proto import schema
from virtio_proto.control import records
from virtio_proto.schema import Health, Opcode, ProgramKind, QueryKind, Status

TIMEOUT_S = ANSWERS_WITHIN_S
REGION_BYTES = 16 << 20
SOURCE = rb"""
struct node { node *next; int value; };
__device__ int counter = 5;
__device__ int zeroed = 7;
__device__ int *where = &counter;
__constant__ float scale = 0.5f;
__device__ node first;
__device__ float (*chosen)(float);
__device__ float half_of(float x) { return x * scale; }
__device__ float sine_of(float x) { return sinf(x); }
extern "C" __global__ void bump(int *out) { *out = atomicAdd(where, 1) + 1; }
extern "C" __global__ void prepare(node *second) {
    zeroed = 0;
    second->next = &first;
    second->value = 41;
    first.next = second;
    chosen = half_of;
}
extern "C" __global__ void check(float *out) {
    out[0] = first.next->next->next->value + zeroed;
    out[1] = chosen(3.0f);
    out[2] = sine_of(0.0f);
}
extern "C" __global__ void append(int *log, int number) { int at = log[0]++; log[1 + at] = number; }
extern "C" __global__ void spin(volatile int *flag) { while (*flag == 0) {} }
extern "C" __global__ void say(int number) { printf("said %d\n", number); }
"""

HEAP = rb"""
struct Box { int value; __device__ Box(int v) : value(v) {} __device__ virtual int opened() { return 2 * value; } };
__device__ Box *box;
extern "C" __global__ void take(Box **out) { *out = box = new Box(21); }
extern "C" __global__ void open(int *out) { *out = box->opened(); delete box; box = new Box(*out); }
"""


@dataclass
class Scene:
    """A daemon with a VM on the CPU engine and a program, and common actions of the tests."""

    daemon: DaemonThread
    vm: FakeVm
    socket_path: Path
    context: int = 0
    functions: dict[str, int] | None = None

    def begin(self) -> None:
        self.context = self.vm.driver.request(Opcode.CONTEXT_CREATE).value
        self.functions = self.load(SOURCE)

    def load(self, source: bytes) -> dict[str, int]:
        body: dict[str, object] = {"kind": ProgramKind.CUDA_SOURCE, "options_len": 0, "source_len": len(source)}
        reply = self.vm.driver.request(Opcode.PROGRAM_LOAD, body, source, b"", 8192, context=self.context)
        assert reply.status == Status.OK, reply.text
        return function_ids(reply.payload)

    def ok(self, opcode: Opcode, body: Any = b"", trailing: bytes = b"", **options: Any) -> Reply:
        reply = self.vm.driver.request(opcode, body, trailing, context=self.context, **options)
        assert reply.status == Status.OK, reply.text
        return reply

    def alloc(self, size: int) -> int:
        return self.ok(Opcode.ALLOC, {"size": size}).value

    def write(self, address: int, data: bytes) -> None:
        self.ok(Opcode.COPY_IN, {"dst": address, "size": len(data)}, payload_in=data)

    def read(self, address: int, size: int) -> bytes:
        return self.ok(Opcode.COPY_OUT, {"src": address, "size": size}, writable_len=size).payload

    def submit(self, name: str, params: bytes, stream: int = 0, queue: int = 0) -> Pending:
        assert self.functions is not None
        body = {"function": self.functions[name], "grid": [1, 1, 1], "block": [1, 1, 1], "param_len": len(params)}
        options: dict[str, Any] = {"context": self.context, "stream": stream, "queue": queue, "writable_len": 500}
        return self.vm.driver.submit(Opcode.LAUNCH, body, params, **options)

    def launch(self, name: str, params: bytes) -> Reply:
        reply = self.vm.driver.wait(self.submit(name, params))
        assert reply.status == Status.OK, reply.text
        return reply

    def migrate(self, pes: int, hold_s: float = ANSWERS_WITHIN_S) -> MigrationReport:
        return self.begin_migration(pes, hold_s).result(TIMEOUT_S)

    def begin_migration(self, pes: int, hold_s: float = ANSWERS_WITHIN_S) -> Future[MigrationReport]:
        async def move(daemon: Daemon) -> MigrationReport:
            vm = daemon.vms["a"]
            assert vm.choice is not None
            return await vm.migrate(replace(vm.choice, pes=pes), hold_s)

        return self.daemon.begin(move)

    def space(self) -> Any:
        return schema.CONFIG.construct.parse(self.vm.frontend.config_read())

    def in_region(self, offset: int) -> int:
        """Device address of a byte of the region."""
        return int(self.space().region_device_address) + offset


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    vm = VmConfig(
        "a",
        vm_uuid("a"),
        tmp_path / "a",
        REGION_BYTES,
        engine=EngineConfig("cpu"),
        quota=QuotaConfig(pes=2, memory_bytes=64 * MIB),
        deadline_ns=NO_DEADLINE_NS,
        num_queues=2,
        sandbox=SANDBOX,
    )
    control = ControlConfig(socket=tmp_path / "control.sock")
    config = DaemonConfig((vm,), cache=tmp_path / "cache", control=control)
    with (
        DaemonThread(config, sandboxed_worker, compiler=compile_service(config)) as daemon,
        FakeVm(tmp_path / "a", num_queues=2, region_bytes=REGION_BYTES) as fake,
    ):
        scene = Scene(daemon, fake, tmp_path / "a")
        scene.begin()
        while fake.frontend.config_change_is_pending():
            fake.frontend.wait_config_change()
        yield scene


def test_memory_programs_ids_and_variables_are_migrated(scene: Scene) -> None:
    small, large, out = scene.alloc(100), scene.alloc(3 << 20), scene.alloc(64)
    pattern = bytes(range(256)) * 16
    scene.write(small, b"x" * 100)
    scene.write(large + (2 << 20), pattern)
    event = scene.ok(Opcode.EVENT_CREATE).value
    recorded = scene.ok(Opcode.EVENT_RECORD, {"event": event}).value
    scene.launch("bump", struct.pack("<Q", out))
    scene.launch("prepare", struct.pack("<Q", small))
    before = scene.space()
    for pes in (1, 2):
        report = scene.migrate(pes)
        assert report.ok, report.text
        assert report.paused_ns > 0
        assert report.bytes >= len(pattern)
    after = scene.space()
    assert (after.generation, after.region_device_address) == (before.generation, before.region_device_address)
    assert not scene.vm.frontend.config_change_is_pending()
    assert scene.read(small + 16, 84) == b"x" * 84
    assert scene.read(large + (2 << 20) - 1, 4098) == b"\0" + pattern + b"\0"
    scene.launch("bump", struct.pack("<Q", out))
    assert struct.unpack("<i", scene.read(out, 4)) == (7,)
    scene.launch("check", struct.pack("<Q", out))
    assert struct.unpack("<3f", scene.read(out, 12)) == (41.0, 1.5, 0.0)
    assert scene.ok(Opcode.EVENT_WAIT, {"event": event}).status == Status.OK
    assert scene.ok(Opcode.EVENT_RECORD, {"event": event}).value > recorded
    assert scene.ok(Opcode.FUNCTION_LOOKUP, {"program": 0, "name_len": 4}, b"bump", writable_len=500).value
    scene.ok(Opcode.FREE, {"address": large})
    assert scene.alloc(3 << 20) not in {small, out}


def test_contexts_share_the_same_memory_and_events_afterwards(scene: Scene) -> None:
    """Keys, and who has what open, are migrated: also what its owner has given up."""
    owner, request = scene.context, scene.vm.driver.request
    kept, freed = scene.alloc(100), scene.alloc(100)
    scene.write(freed, b"x" * 100)
    event = {"event": scene.ok(Opcode.EVENT_CREATE).value}
    answers = [scene.ok(Opcode.MEMORY_EXPORT, {"address": address}) for address in (kept, freed)]
    answers.append(scene.ok(Opcode.EVENT_EXPORT, event))
    of_kept, of_freed, of_event = ({"key": [answer.value, answer.aux]} for answer in answers)
    scene.context = request(Opcode.CONTEXT_CREATE).value
    assert scene.ok(Opcode.MEMORY_OPEN, of_freed).value == freed
    assert request(Opcode.FREE, {"address": freed}, context=owner).status == Status.OK
    report = scene.migrate(1)
    assert report.ok, report.text
    assert scene.read(freed, 100) == b"x" * 100
    assert scene.ok(Opcode.MEMORY_OPEN, of_kept).value == kept
    opened = {"event": scene.ok(Opcode.EVENT_OPEN, of_event).value}
    scene.ok(Opcode.EVENT_RECORD, opened)
    assert request(Opcode.EVENT_SYNC, event, context=owner).status == Status.OK
    scene.ok(Opcode.MEMORY_CLOSE, {"address": freed})
    assert request(Opcode.MEMORY_OPEN, of_freed, context=scene.context).status == Status.NOT_FOUND


def test_the_heap_of_a_program_is_migrated_and_closed_to_copies(scene: Scene) -> None:
    scene.functions = scene.load(HEAP)
    out = scene.alloc(8)
    scene.launch("take", struct.pack("<Q", out))
    (block,) = struct.unpack("<Q", scene.read(out, 8))
    body = {"src": block, "size": 4}
    refused = scene.vm.driver.request(Opcode.COPY_OUT, body, context=scene.context, writable_len=500)
    assert refused.status is Status.INVALID_ADDRESS
    for value in (42, 84):
        report = scene.migrate(1)
        assert report.ok, report.text
        scene.launch("open", struct.pack("<Q", out))
        assert struct.unpack("<i", scene.read(out, 4)) == (value,)


def test_ids_that_are_free_again_do_not_come_back_sooner(scene: Scene) -> None:
    event = scene.ok(Opcode.EVENT_CREATE).value
    scene.ok(Opcode.EVENT_DESTROY, {"event": event})
    assert scene.migrate(1).ok
    assert scene.ok(Opcode.EVENT_CREATE).value != event
    reply = scene.vm.driver.request(Opcode.EVENT_RECORD, {"event": event}, context=scene.context, writable_len=200)
    assert reply.status == Status.NOT_FOUND


def test_output_that_was_not_queried_is_migrated(scene: Scene) -> None:
    scene.launch("say", struct.pack("<i", 1))
    assert scene.migrate(1).ok
    scene.launch("say", struct.pack("<i", 2))
    reply = scene.ok(Opcode.QUERY, {"what": QueryKind.OUTPUT}, writable_len=100)
    assert reply.payload == b"said 1\nsaid 2\n"
    assert reply.value == 0


def test_the_figures_of_a_vm_continue(scene: Scene) -> None:
    def usage() -> Any:
        return schema.USAGE.construct.parse(scene.ok(Opcode.QUERY, {"what": QueryKind.USAGE}, writable_len=200).payload)

    scene.alloc(1 << 20)
    before = usage()
    assert scene.migrate(1).ok
    after = usage()
    assert after.requests_done == before.requests_done + 1
    assert after.memory_used_bytes == before.memory_used_bytes
    assert (after.num_contexts, after.num_programs, after.num_allocations) == (1, 1, before.num_allocations)
    assert (after.num_pes, before.num_pes) == (1, 2)


def test_a_stream_of_ordered_launches_runs_through_a_migration(scene: Scene) -> None:
    """A running launch, launches behind it, and requests that arrive during the pause all succeed, in order."""
    log = scene.alloc(4 * 1001)
    flag = scene.vm.region.allocate(64)
    scene.vm.region.write(flag, bytes(4))
    running = scene.submit("spin", struct.pack("<Q", scene.in_region(flag.offset)))
    behind = [scene.submit("append", struct.pack("<Qi", log, number)) for number in range(40)]
    migration = scene.begin_migration(1)
    wait_until_held(scene)
    late = [scene.submit("append", struct.pack("<Qi", log, number)) for number in range(40, 60)]
    scene.vm.region.write(flag, struct.pack("<i", 1))
    assert migration.result(TIMEOUT_S).ok
    replies = [scene.vm.driver.wait(pending) for pending in (running, *behind, *late)]
    assert {reply.status for reply in replies} == {Status.OK}
    assert struct.unpack("<61i", scene.read(log, 4 * 61)) == (60, *range(60))


def test_migrations_again_and_again_while_requests_flow(scene: Scene) -> None:
    log = scene.alloc(4 * 100_001)
    rounds, stop, failures = [0], threading.Event(), list[str]()

    def guest() -> None:
        while not stop.is_set():
            window = [scene.submit("append", struct.pack("<Qi", log, rounds[0] + i)) for i in range(8)]
            rounds[0] += len(window)
            for pending in window:
                reply = scene.vm.driver.wait(pending)
                if reply.status != Status.OK:
                    failures.append(reply.text)
                    return

    thread = threading.Thread(target=guest)
    thread.start()
    reports = [scene.migrate(1 + turn % 2) for turn in range(6)]
    stop.set()
    thread.join()
    assert failures == []
    assert [report.text for report in reports if not report.ok] == []
    count = rounds[0]
    data = struct.unpack(f"<{count + 1}i", scene.read(log, 4 * (count + 1)))
    assert data == (count, *range(count))


def test_launches_that_do_not_end_in_time_stop_a_migration_and_nothing_else(scene: Scene) -> None:
    flag = scene.vm.region.allocate(64)
    scene.vm.region.write(flag, bytes(4))
    running = scene.submit("spin", struct.pack("<Q", scene.in_region(flag.offset)))
    pid = scene.daemon.ask(lambda daemon: daemon.vms["a"].worker_pid)
    report = scene.migrate(1, hold_s=0.2)
    assert not report.ok
    assert "1 requests are in flight" in report.text
    assert scene.daemon.ask(lambda daemon: daemon.vms["a"].worker_pid) == pid
    scene.ok(Opcode.NOP, stream=1)
    scene.vm.region.write(flag, struct.pack("<i", 1))
    assert scene.vm.driver.wait(running).status == Status.OK
    assert scene.migrate(1).ok


def test_a_frontend_that_stops_the_rings_has_the_first_worker_go_on(scene: Scene) -> None:
    flag = scene.vm.region.allocate(64)
    scene.vm.region.write(flag, bytes(4))
    running = scene.submit("spin", struct.pack("<Q", scene.in_region(flag.offset)))
    migration = scene.begin_migration(1)
    wait_until_held(scene)
    rings = scene.vm.rings()
    bases = scene.vm.frontend.stop(rings)
    report = migration.result(TIMEOUT_S)
    assert "frontend changed vring" in report.text
    scene.vm.region.write(flag, struct.pack("<i", 1))
    scene.vm.frontend.start(scene.vm.rings(bases))
    assert scene.vm.driver.wait(running).status == Status.OK
    scene.ok(Opcode.NOP)


def test_a_guest_that_resets_the_device_meanwhile_has_a_fresh_one(scene: Scene) -> None:
    flag = scene.vm.region.allocate(64)
    scene.vm.region.write(flag, bytes(4))
    scene.submit("spin", struct.pack("<Q", scene.in_region(flag.offset)))
    migration = scene.begin_migration(1)
    wait_until_held(scene)
    scene.vm.frontend.reset()
    assert not migration.result(TIMEOUT_S).ok
    scene.vm.frontend.wait_for_config(lambda space: space.health == Health.READY and space.generation >= 2)
    assert scene.daemon.ask(lambda daemon: daemon.vms["a"].migration) is None


def test_a_frontend_that_goes_meanwhile_leaves_no_worker(scene: Scene) -> None:
    flag = scene.vm.region.allocate(64)
    scene.vm.region.write(flag, bytes(4))
    scene.submit("spin", struct.pack("<Q", scene.in_region(flag.offset)))
    migration = scene.begin_migration(1)
    wait_until_held(scene)
    scene.vm.frontend.close()
    assert not migration.result(TIMEOUT_S).ok

    with FakeVm(scene.socket_path, region_bytes=REGION_BYTES) as fresh:
        fresh.frontend.wait_for_config(lambda space: space.health == Health.READY and space.generation == 2)
        assert fresh.driver.request(Opcode.NOP).status == Status.OK
    assert scene.daemon.ask(lambda daemon: daemon.vms["a"].migration) is None


def test_channels_of_the_control_system_miss_nothing(scene: Scene) -> None:
    """Channels are open in the second worker before it serves, and records left in the first one are delivered."""
    with ControlCaller(scene.socket_path.with_name("control.sock")) as control:
        instance = control.ask("open", selector="vm=a,fn=stdio")["instance"]
        control.ask("subscribe", records=[instance])
        said: list[str] = []
        for turn in range(4):
            scene.launch("say", struct.pack("<i", 2 * turn))
            assert control.migrate("a", 1 + turn % 2)["state"] == "done"
            scene.launch("say", struct.pack("<i", 2 * turn + 1))
        while len(said) < 8:
            push = control.push(lambda frame: frame.get("push") == "records")
            said += [records.describe(record, {}) for record in records.unpack(push["data"])]
        assert sorted(said) == [f"said {number}\n" for number in range(8)]  # each element has a channel of its own
        channels = control.ask("ls")["instances"][0]["channels"]
        assert sum(channel["lost"] for channel in channels) == 0


def test_only_one_migration_at_a_time_and_within_the_quota(scene: Scene) -> None:
    for pes in (0, 3):
        with pytest.raises(MigrationError, match=r"allowed: 1\.\.2"):
            scene.migrate(pes)
    first = scene.begin_migration(1)
    with pytest.raises(MigrationError, match="being migrated already"):
        scene.migrate(2)
    assert first.result(TIMEOUT_S).ok


def wait_until_held(scene: Scene) -> None:
    """Returns when the first worker has been told to hold the guest's requests."""

    async def held(daemon: Daemon) -> None:
        migration = daemon.vms["a"].migration
        assert migration is not None
        await migration.paused.wait()

    scene.daemon.begin(held).result(TIMEOUT_S)
