"""Linux as the frontend: what it does unlike QEMU is served, and nothing else is let through with it."""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.daemon import SANDBOX, DaemonThread
from tests.fakes.frontend import FakeFrontend, RingSetup, SharedFile
from tests.fakes.kernel_frontend import ENTRY_BYTES, WANTED, KernelFrontend, KernelVm
from tests.fakes.vm import REGION_BYTES
from tests.protocol.conftest import Stage
from vhost_backend.config.daemon import DaemonConfig, EngineConfig, VmConfig, vm_uuid
from vhost_backend.daemon.compile_setup import compile_service
from vhost_backend.daemon.process import sandboxed_worker
from vhost_backend.vhost_user import messages
from vhost_backend.vhost_user.messages import FLAG_NEED_REPLY, ProtocolFeature, Request
from vhost_backend.worker_protocol import protocol
from virtio_proto import schema
from virtio_proto.schema import Health, Opcode, Status

REFUSED = 1


@pytest.fixture
def frontend(stage: Stage) -> KernelFrontend:
    """A frontend that has negotiated as the kernel does."""
    frontend = KernelFrontend.connect(stage.folder / "a")
    stage.opened.append(frontend)
    frontend.negotiate()
    return frontend


@pytest.fixture
def vm(tmp_path: Path) -> Iterator[KernelVm]:
    """A driver under such a frontend, before the real daemon and a real worker with the null engine."""
    vm = VmConfig(
        "a", vm_uuid("a"), tmp_path / "a", REGION_BYTES, engine=EngineConfig("null"), num_queues=4, sandbox=SANDBOX
    )
    config = DaemonConfig((vm,), cache=tmp_path / "cache")
    daemon = DaemonThread(config, sandboxed_worker, compiler=compile_service(config))
    with daemon, KernelVm(tmp_path / "a") as vm_under_kernel:
        yield vm_under_kernel


# ---- negotiation ---------------------------------------------------------------------------------


def test_reply_is_sent_to_the_message_that_negotiates_replies(frontend: KernelFrontend) -> None:
    assert frontend.protocol_features == WANTED
    frontend.must(Request.SET_OWNER)


@pytest.mark.parametrize("features", [0, int(ProtocolFeature.CONFIG)])
def test_reply_that_is_not_negotiated_drops_the_connection(stage: Stage, features: int) -> None:
    frontend = stage.connect()
    frontend.send(Request.SET_PROTOCOL_FEATURES, messages.u64(features), flags=FLAG_NEED_REPLY)
    assert frontend.is_dropped()


def test_refused_protocol_features_negotiate_nothing(stage: Stage) -> None:
    frontend = stage.connect()
    refused = messages.u64(WANTED | 1 << 63)
    assert frontend.acked(Request.SET_PROTOCOL_FEATURES, refused) == REFUSED
    frontend.send(Request.SET_OWNER, flags=FLAG_NEED_REPLY)
    assert frontend.is_dropped()


# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("unused", range(8))
def test_unused_entries_of_the_table_are_ignored(frontend: FakeFrontend, memory: SharedFile, unused: int) -> None:
    table = messages.mem_table((memory.as_region(),)) + b"\xff" * ENTRY_BYTES * unused
    frontend.must(Request.SET_MEM_TABLE, table, [memory.fd])


def test_empty_table_may_have_unused_entries(frontend: FakeFrontend) -> None:
    frontend.must(Request.SET_MEM_TABLE, messages.mem_table(()) + bytes(2 * ENTRY_BYTES))


@pytest.mark.parametrize("padding", [1, 31, 33, 8 * ENTRY_BYTES])
def test_table_of_any_other_size_drops_the_connection(frontend: FakeFrontend, memory: SharedFile, padding: int) -> None:
    table = messages.mem_table((memory.as_region(),)) + bytes(padding)
    frontend.send(Request.SET_MEM_TABLE, table, [memory.fd])
    assert frontend.is_dropped()


def test_descriptor_for_an_unused_entry_drops_the_connection(frontend: FakeFrontend, memory: SharedFile) -> None:
    table = messages.mem_table((memory.as_region(),)) + bytes(ENTRY_BYTES)
    frontend.send(Request.SET_MEM_TABLE, table, [memory.fd, memory.fd])
    assert frontend.is_dropped()


# ---- calls ---------------------------------------------------------------------------------------


def _unconnected() -> int:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).detach()


def _packets() -> int:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        return theirs.detach()


def _network() -> int:
    """One end of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return socket.create_connection(server.getsockname()).detach()


def _read_end() -> int:
    reading, writing = os.pipe()
    os.close(writing)
    return reading


def _file() -> int:
    return os.memfd_create("file")


@pytest.mark.parametrize("make", [_unconnected, _packets, _network, _read_end, _file])
def test_call_through_anything_else_is_refused(frontend: FakeFrontend, make: Callable[[], int]) -> None:
    fd = make()
    assert frontend.acked(Request.SET_VRING_CALL, messages.u64(0), [fd]) == REFUSED
    os.close(fd)


@pytest.mark.parametrize("request_", [Request.SET_VRING_KICK, Request.SET_VRING_ERR])
def test_kick_and_err_through_a_pipe_or_a_socket_are_refused(frontend: FakeFrontend, request_: Request) -> None:
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe()
    for fd in (writing, theirs.fileno()):
        assert frontend.acked(request_, messages.u64(0), [fd]) == REFUSED
    ours.send(b"x")  # a socket that was refused is left as it was
    assert theirs.recv(1) == b"x"
    for end in (ours, theirs):
        end.close()
    os.close(reading)
    os.close(writing)


def test_nothing_can_be_sent_to_a_worker_through_its_call_socket(frontend: FakeFrontend, memory: SharedFile) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        frontend.set_event(Request.SET_VRING_CALL, 0, theirs.fileno())
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory.fd]))]
        with pytest.raises(BrokenPipeError):
            ours.sendmsg([b"x"], rights)


# ---- rings ---------------------------------------------------------------------------------------


def test_worker_is_told_of_every_step(
    stage: Stage, frontend: KernelFrontend, memory: SharedFile, ring: RingSetup
) -> None:
    worker = stage.workers.next()
    worker.setup()
    frontend.wait_health(Health.READY)
    frontend.start([ring], [memory])
    worker.expect(protocol.MemTable)
    start = worker.expect(protocol.VringStart)
    assert (start.has_kick, start.has_call, start.has_err, start.enabled) == (True, True, False, False)
    assert worker.expect(protocol.VringEnable).enabled
    frontend.stop([ring])
    assert not worker.expect(protocol.VringEnable).enabled


def test_ring_in_the_place_of_a_disabled_one_resets_the_device(
    stage: Stage, frontend: KernelFrontend, memory: SharedFile, ring: RingSetup
) -> None:
    worker = stage.workers.next()
    worker.setup()
    frontend.wait_health(Health.READY)
    frontend.start([ring], [memory])
    for kind in (protocol.MemTable, protocol.VringStart, protocol.VringEnable):
        worker.expect(kind)
    frontend.stop([ring])
    worker.expect(protocol.VringEnable)
    frontend.send(Request.SET_VRING_NUM, messages.vring_state(0, 32), flags=FLAG_NEED_REPLY)
    worker.stop_at(5)
    assert frontend.receive().u64 == 0
    assert frontend.get_base(0) == 5
    frontend.set_up(replace(ring, size=32))
    frontend.set_event(Request.SET_VRING_KICK, 0, ring.kick_fd)
    successor = stage.workers.next()
    assert successor.setup().generation == 2


def test_requests_are_answered(vm: KernelVm) -> None:
    for queue in (0, 1, 0):
        assert vm.driver.request(Opcode.NOP, queue=queue).status == Status.OK


def test_disabled_ring_goes_on_when_it_is_enabled(vm: KernelVm) -> None:
    """The kernel suspends its devices that way."""
    context = vm.driver.request(Opcode.CONTEXT_CREATE).value
    vm.frontend.stop(vm.rings())
    pending = vm.driver.submit(Opcode.ALLOC, {"size": 64}, context=context)
    for ring in vm.rings():
        vm.frontend.enable(ring.index)
    assert vm.driver.wait(pending).status == Status.OK


def test_next_driver_finds_a_fresh_device(vm: KernelVm) -> None:
    context = vm.driver.request(Opcode.CONTEXT_CREATE).value
    vm.unbind()
    vm.bind()
    assert vm.driver.request(Opcode.ALLOC, {"size": 64}, context=context).status == Status.NO_CONTEXT
    assert vm.driver.request(Opcode.NOP, queue=1).status == Status.OK


# ---- configuration space -------------------------------------------------------------------------


@pytest.mark.parametrize("size", [4, 8])
def test_configuration_is_read_and_written_in_words(frontend: FakeFrontend, size: int) -> None:
    whole = frontend.config_read()
    at = next(f for f in schema.fields(schema.CONFIG) if f.name == "driver_ack").offset_bytes
    assert frontend.config_read(0, at + size)[at:] == whole[at : at + size]  # the kernel reads from 0
    frontend.config_write(b"\7\0\0\0".ljust(size, b"\0"), at)
    assert schema.CONFIG.construct.parse(frontend.config_read()).driver_ack == 7
