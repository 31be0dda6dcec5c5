"""Requests from a fake guest through the real daemon and a real worker with the null engine."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.fakes.daemon import SANDBOX, DaemonThread
from tests.fakes.driver import FakeDriver, Pending, Reply
from tests.fakes.frontend import RingSetup
from tests.fakes.vm import REGION_BYTES, FakeVm
from tests.processes import children
from vhost_backend.config.daemon import DaemonConfig, EngineConfig, VmConfig, vm_uuid
from vhost_backend.daemon.compile_setup import compile_service
from vhost_backend.daemon.fork_server import ForkServer
from vhost_backend.daemon.process import sandboxed_worker
from virtio_proto import schema
from virtio_proto.schema import Health, Opcode, ProgramKind, Status


@dataclass
class Host:
    """A daemon with one VM."""

    daemon: DaemonThread
    socket: Path

    def worker_pid(self) -> int:
        pid = self.daemon.ask(lambda daemon: daemon.vms["a"].worker_pid)
        assert pid is not None
        return pid


@pytest.fixture(params=["program", "copy"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    """Its workers are programs of their own, or copies of the fork server."""
    forks = ForkServer(()) if request.param == "copy" else None
    vm = VmConfig(
        "a", vm_uuid("a"), tmp_path / "a", REGION_BYTES, engine=EngineConfig("null"), num_queues=4, sandbox=SANDBOX
    )
    config = DaemonConfig((vm,), cache=tmp_path / "cache")
    command = sandboxed_worker if forks is None else forks.worker
    with DaemonThread(config, command, compiler=compile_service(config), forks=forks) as daemon:
        yield Host(daemon, tmp_path / "a")


@pytest.fixture
def guest(host: Host) -> Iterator[FakeVm]:
    with FakeVm(host.socket, num_queues=2) as guest:
        yield guest


def test_request_is_answered(guest: FakeVm) -> None:
    assert guest.driver.request(Opcode.NOP).status == Status.OK
    assert guest.driver.request(Opcode.NOP, queue=1).status == Status.OK


def test_device_becomes_ready(guest: FakeVm) -> None:
    guest.driver.request(Opcode.NOP)
    space = schema.CONFIG.construct.parse(guest.frontend.config_read())
    assert (space.health, space.generation) == (Health.READY, 1)
    assert space.engine_name.rstrip(b"\0") == b"null"


# ---- programs ------------------------------------------------------------------------------------

SOURCE = b"kernel quick\nkernel held behaviour=hold\nkernel crash behaviour=fault\n"


def context_of(guest: FakeVm) -> int:
    reply = guest.driver.request(Opcode.CONTEXT_CREATE)
    assert reply.status == Status.OK, reply.text
    return reply.value


def load(guest: FakeVm, context: int, source: bytes = SOURCE) -> Reply:
    body = {"kind": ProgramKind.CUDA_SOURCE, "options_len": 0, "source_len": len(source)}
    return guest.driver.request(Opcode.PROGRAM_LOAD, body, source, writable_len=4096, context=context)


def function_of(guest: FakeVm, context: int, name: str) -> int:
    reply = guest.driver.request(
        Opcode.FUNCTION_LOOKUP,
        {"program": 0, "name_len": len(name)},
        name.encode(),
        writable_len=256,
        context=context,
    )
    assert reply.status == Status.OK, reply.text
    return reply.value


def launch(guest: FakeVm, context: int, function: int, queue: int = 0) -> Pending:
    body = {"function": function, "grid": [1, 1, 1], "block": [1, 1, 1]}
    return guest.driver.submit(Opcode.LAUNCH, body, context=context, queue=queue)


def test_program_is_compiled_and_launched(guest: FakeVm) -> None:
    context = context_of(guest)
    assert load(guest, context).status == Status.OK
    pending = launch(guest, context, function_of(guest, context, "quick"))
    assert guest.driver.wait(pending).status == Status.OK


def test_program_that_does_not_load_is_explained(guest: FakeVm) -> None:
    reply = load(guest, context_of(guest), b"nonsense")
    assert reply.status == Status.COMPILE_FAILED
    assert "nonsense" in reply.text


# ---- a worker's death ----------------------------------------------------------------------------


@dataclass
class Held:
    """Launches that never end, one on each queue."""

    context: int
    launches: list[Pending]


@pytest.fixture
def held(guest: FakeVm) -> Held:
    context = context_of(guest)
    load(guest, context)
    function = function_of(guest, context, "held")
    launches = [launch(guest, context, function, queue) for queue in (0, 1)]
    for queue in (0, 1):
        guest.driver.request(Opcode.NOP, queue=queue)  # a queue is served in order: the launch has been popped
    return Held(context, launches)


def assert_lost_and_recovered(guest: FakeVm, held: Held) -> None:
    for queue, pending in enumerate(held.launches):
        reply = guest.driver.wait(pending, queue=queue)
        assert reply.status == Status.DEVICE_LOST, reply
    assert guest.driver.request(Opcode.NOP).status == Status.OK
    assert guest.driver.request(Opcode.NOP, queue=1).status == Status.OK
    assert [queue.num_pending for queue in guest.driver.queues] == [0, 0]
    space = schema.CONFIG.construct.parse(guest.frontend.config_read())
    assert (space.health, space.generation) == (Health.READY, 2)
    assert guest.driver.request(Opcode.ALLOC, {"size": 64}, context=held.context).status == Status.NO_CONTEXT


def test_killed_worker_loses_its_requests_exactly_once(host: Host, guest: FakeVm, held: Held) -> None:
    for child in children(host.worker_pid()):
        with suppress(ProcessLookupError):  # one's death may have ended the next already
            os.kill(child, signal.SIGKILL)
    assert_lost_and_recovered(guest, held)


def test_killed_launcher_takes_its_worker_along(host: Host, guest: FakeVm, held: Held) -> None:
    os.kill(host.worker_pid(), signal.SIGKILL)
    assert_lost_and_recovered(guest, held)


def test_last_words_of_a_worker_reach_the_guest(guest: FakeVm, held: Held) -> None:
    """The request that killed the worker gets its status and text; the others are lost."""
    body = {"function": function_of(guest, held.context, "crash"), "grid": [1, 1, 1], "block": [1, 1, 1]}
    reply = guest.driver.request(Opcode.LAUNCH, body, writable_len=1024, context=held.context, stream=1)
    assert reply.status == Status.FAULT
    assert "faulted" in reply.text
    assert_lost_and_recovered(guest, held)


def test_scribbled_in_flight_memory_costs_one_worker(host: Host, guest: FakeVm) -> None:
    """Guest code can write into that memory; the next workers must not refuse it for ever."""
    guest.driver.request(Opcode.NOP)
    fds = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    memory = next(link for link in fds if "vgc-inflight" in link.readlink().name)
    os.pwrite(int(memory.name), b"\xff" * 64, 0)
    os.kill(host.worker_pid(), signal.SIGKILL)
    guest.frontend.wait_for_config(lambda space: (space.health, space.generation) == (Health.READY, 2))
    assert guest.driver.request(Opcode.NOP).status == Status.OK


def test_stopped_worker_does_not_hold_up_the_frontend(host: Host, guest: FakeVm) -> None:
    """SIGSTOP stands for the worst possible hang."""
    guest.driver.request(Opcode.NOP)
    for child in children(host.worker_pid()):
        os.kill(child, signal.SIGSTOP)
    assert len(guest.frontend.config_read()) == 256
    assert guest.frontend.stop(guest.rings()) == [1, 0]
    guest.frontend.start(guest.rings([1, 0]))
    assert guest.driver.request(Opcode.NOP).status == Status.OK


# ---- what QEMU does meanwhile --------------------------------------------------------------------


def test_pause_keeps_contexts_and_requests(guest: FakeVm, held: Held) -> None:
    bases = guest.frontend.stop(guest.rings())
    guest.frontend.start(guest.rings(bases))
    assert guest.driver.request(Opcode.NOP).status == Status.OK
    assert [pending.reply for pending in held.launches] == [None, None]
    reply = guest.driver.request(Opcode.CONTEXT_DESTROY, context=held.context)
    assert reply.status == Status.OK
    for queue, pending in enumerate(held.launches):
        assert guest.driver.wait(pending, queue=queue).status == Status.CANCELLED


def test_requests_sent_while_paused_are_served_afterwards(guest: FakeVm) -> None:
    guest.driver.request(Opcode.NOP)
    bases = guest.frontend.stop(guest.rings())
    pending = guest.driver.submit(Opcode.NOP)
    guest.frontend.start(guest.rings(bases))
    assert guest.driver.wait(pending).status == Status.OK


def test_region_at_a_new_guest_address_is_used(guest: FakeVm) -> None:
    guest.driver.request(Opcode.NOP)
    guest.frontend.remove_memory(guest.file)
    guest.region.gpa += 1 << 30
    guest.frontend.add_memory(replace(guest.file, gpa=guest.region.gpa))
    assert guest.driver.request(Opcode.NOP).status == Status.OK


def test_reset_drops_everything_of_the_guest(guest: FakeVm) -> None:
    context = context_of(guest)
    guest.frontend.stop(guest.rings())
    guest.frontend.reset()
    with FakeDriver(guest.region, num_queues=2) as driver:
        guest.driver, old = driver, guest.driver
        guest.frontend.start(guest.rings())
        assert driver.request(Opcode.ALLOC, {"size": 64}, context=context).status == Status.NO_CONTEXT
        guest.driver = old


def test_next_guest_can_connect(host: Host, guest: FakeVm) -> None:
    guest.driver.request(Opcode.NOP)
    guest.frontend.close()
    with FakeVm(host.socket) as another:
        assert another.driver.request(Opcode.NOP).status == Status.OK


@pytest.mark.parametrize(
    "wrong",
    [
        lambda ring: replace(ring, size=3),
        lambda ring: replace(ring, size=512),
        lambda ring: replace(ring, desc=ring.desc + 8),
        lambda ring: replace(ring, desc=0),
        lambda ring: replace(ring, used=2**64 - 4),
        lambda ring: replace(ring, avail=ring.desc),
    ],
    ids=["size 3", "size 512", "unaligned", "outside the region", "wrapping", "overlapping"],
)
def test_ring_that_cannot_be_served_is_reported_on_err(guest: FakeVm, wrong: Callable[[RingSetup], RingSetup]) -> None:
    guest.driver.request(Opcode.NOP)
    guest.frontend.stop(guest.rings())
    guest.frontend.reset()
    bad = wrong(guest.rings()[0])
    guest.frontend.start([bad])
    assert guest.frontend.err_signalled(0)
    assert guest.frontend.get_base(0) == 0
