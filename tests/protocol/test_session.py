"""The vhost-user session: messages that a frontend may send, and the answers to wrong ones."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.descriptors import open_fds
from tests.fakes.frontend import FakeFrontend, RingSetup, SharedFile
from tests.protocol.conftest import GPA, REGION_BYTES, UVA, Stage
from vhost_backend.vhost_user import messages
from vhost_backend.vhost_user.messages import OFFERED_FEATURES, ProtocolFeature, Request
from virtio_proto import schema

REFUSED = 1


@pytest.fixture
def frontend(stage: Stage) -> FakeFrontend:
    """A frontend that has negotiated."""
    frontend = stage.connect()
    frontend.negotiate()
    return frontend


# ---- negotiation ---------------------------------------------------------------------------------


def test_exactly_these_features_are_offered(stage: Stage) -> None:
    frontend = stage.connect()
    bits = int.from_bytes(frontend.call(Request.GET_FEATURES), "little")
    assert bits == 1 << 32 | 1 << 30 | 1 << 29 | 1 << 28
    bits = int.from_bytes(frontend.call(Request.GET_PROTOCOL_FEATURES), "little")
    assert bits == 1 << 0 | 1 << 3 | 1 << 5 | 1 << 9 | 1 << 13 | 1 << 15


def test_negotiation_announces_queues_and_memory_slots(frontend: FakeFrontend) -> None:
    assert int.from_bytes(frontend.call(Request.GET_QUEUE_NUM), "little") == 4
    assert frontend.max_mem_slots == 32


@pytest.mark.parametrize("bit", [0, 26, 34, 40, 63])
def test_feature_that_was_not_offered_drops_the_connection(frontend: FakeFrontend, bit: int) -> None:
    frontend.send(Request.SET_FEATURES, messages.u64(OFFERED_FEATURES | 1 << bit))
    assert frontend.is_dropped()


@pytest.mark.parametrize("bit", [1, 4, 12, 19, 63])
def test_protocol_feature_that_was_not_offered_drops_the_connection(stage: Stage, bit: int) -> None:
    frontend = stage.connect()
    frontend.send(Request.SET_PROTOCOL_FEATURES, messages.u64(1 << bit))
    assert frontend.is_dropped()


@pytest.mark.parametrize(
    ("request_", "payload"),
    [
        (Request.GET_QUEUE_NUM, b""),
        (Request.GET_MAX_MEM_SLOTS, b""),
        (Request.GET_CONFIG, messages.config(0, bytes(4))),
        (Request.SET_CONFIG, messages.config(0, bytes(4))),
        (Request.RESET_DEVICE, b""),
        (Request.SET_VRING_ENABLE, messages.vring_state(0, 1)),
    ],
    ids=lambda value: value.name if isinstance(value, Request) else "",
)
def test_message_of_a_feature_that_was_not_negotiated_drops_the_connection(
    stage: Stage, request_: Request, payload: bytes
) -> None:
    frontend = stage.connect()
    frontend.send(request_, payload)
    assert frontend.is_dropped()


def test_need_reply_without_reply_ack_drops_the_connection(stage: Stage) -> None:
    frontend = stage.connect()
    frontend.send(Request.SET_OWNER, flags=messages.FLAG_NEED_REPLY)
    assert frontend.is_dropped()


def test_message_with_a_reply_of_its_own_gets_no_ack(frontend: FakeFrontend) -> None:
    frontend.send(Request.GET_QUEUE_NUM, flags=messages.FLAG_NEED_REPLY)
    assert frontend.receive().u64 == 4
    assert len(frontend.call(Request.GET_FEATURES)) == 8


def test_frontend_without_protocol_features_finds_its_rings_enabled(
    stage: Stage, memory: SharedFile, ring: RingSetup
) -> None:
    from vhost_backend.worker_protocol import protocol

    frontend = stage.connect()
    worker = stage.workers.next()
    worker.setup()
    frontend.send(Request.SET_FEATURES, messages.u64(1 << 32))
    table = messages.mem_table((memory.as_region(),))
    frontend.send(Request.SET_MEM_TABLE, table, [memory.fd])
    frontend.send(Request.SET_VRING_NUM, messages.vring_state(0, 64))
    frontend.send(Request.SET_VRING_ADDR, messages.vring_addr(0, ring.desc, ring.used, ring.avail))
    frontend.send(Request.SET_VRING_KICK, messages.u64(messages.VRING_NO_FD))
    frontend.synchronise()
    seen = worker.receive()
    while not isinstance(seen, protocol.VringStart):
        seen = worker.receive()
    assert (seen.enabled, seen.event_idx, seen.indirect, seen.has_kick) == (True, False, False, False)


# ---- a broken stream -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        messages.build(99),
        messages.build(0),
        messages.build(Request.GET_FEATURES, flags=messages.FLAG_REPLY),
        messages.build(Request.GET_FEATURES, flags=1 << 7),
        b"\1\0\0\0" + b"\2\0\0\0" + bytes(4),
        messages.build(Request.GET_FEATURES, b"x"),
        messages.build(Request.SET_FEATURES, b"1234567"),
        messages.build(Request.SET_VRING_NUM, b"1234567"),
        messages.build(Request.GET_CONFIG, messages.config(200, bytes(100))),
        b"\2\0\0\0\1\0\0\0\xff\xff\xff\xff",
    ],
    ids=[
        "unknown request",
        "request 0",
        "reply flag",
        "reserved flag",
        "version 2",
        "payload where none is",
        "short u64",
        "short state",
        "config beyond the space",
        "4 GiB payload",
    ],
)
def test_malformed_message_drops_the_connection_and_nothing_else(stage: Stage, raw: bytes) -> None:
    other, _ = stage.attach("b")
    frontend = stage.connect("a")
    frontend.send_raw(raw)
    assert frontend.is_dropped()
    other.synchronise()
    stage.connect("a").negotiate()


@pytest.mark.parametrize("cut", [1, 11, 12, 15])
def test_disconnect_in_the_middle_of_a_message_is_survived(stage: Stage, cut: int) -> None:
    frontend = stage.connect()
    frontend.send_raw(messages.build(Request.SET_FEATURES, messages.u64(0))[:cut])
    frontend.close()
    stage.connect("b").negotiate()


def test_message_that_arrives_byte_by_byte_is_understood(stage: Stage) -> None:
    frontend = stage.connect()
    for byte in messages.build(Request.SET_FEATURES, messages.u64(1 << 32)):
        frontend.send_raw(bytes([byte]))
    frontend.synchronise()


def test_messages_that_arrive_at_once_are_told_apart(stage: Stage) -> None:
    frontend = stage.connect()
    frontend.send_raw(messages.build(Request.GET_FEATURES) * 50)
    assert [frontend.receive().u64 for _ in range(50)] == [OFFERED_FEATURES] * 50


def test_frontend_that_does_not_read_delays_nobody(stage: Stage) -> None:
    flood = stage.connect("a")
    flood.sock.setblocking(False)
    sent = 0
    while True:
        try:
            sent += flood.sock.send(messages.build(Request.GET_FEATURES) * 64)
        except BlockingIOError:
            break
    assert sent > 0
    stage.connect("b").negotiate()


def test_unwanted_descriptors_are_refused_and_closed(stage: Stage) -> None:
    frontend = stage.connect()
    reading, writing = os.pipe()
    frontend.send(Request.SET_OWNER, fds=[writing])
    os.close(writing)
    assert frontend.is_dropped()
    assert os.read(reading, 1) == b""  # end of file: the daemon has closed its copy
    os.close(reading)


def test_too_many_descriptors_drop_the_connection_and_are_closed(stage: Stage) -> None:
    frontend = stage.connect()
    reading, writing = os.pipe()
    frontend.send(Request.SET_MEM_TABLE, messages.mem_table(()), [writing] * 20)
    os.close(writing)
    assert frontend.is_dropped()
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_descriptors_of_a_session_are_closed_with_it(stage: Stage) -> None:
    def open_files_of_a_session() -> int:
        frontend, worker = stage.attach()
        open_files = open_fds()  # includes the daemon's: it is a thread of this process
        frontend.close()
        with pytest.raises(EOFError):
            worker.receive()
        worker.close()
        return open_files

    counts = [open_files_of_a_session() for _ in range(4)]
    assert counts == counts[:1] * 4


def test_second_frontend_is_turned_away(stage: Stage) -> None:
    first = stage.connect()
    first.negotiate()
    assert stage.connect().is_dropped()
    first.synchronise()


# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda m: replace(m, size=0),
        lambda m: replace(m, gpa=2**64 - 1),
        lambda m: replace(m, uva=2**64 - 1),
        lambda m: replace(m, offset=2**64 - 1),
        lambda m: replace(m, size=m.size + 1),
        lambda m: replace(m, size=2**63),
    ],
    ids=["empty", "gpa wraps", "uva wraps", "offset wraps", "beyond the file", "huge"],
)
def test_impossible_region_is_refused(
    frontend: FakeFrontend, memory: SharedFile, change: Callable[[SharedFile], SharedFile]
) -> None:
    bad = change(memory)
    region = messages.mem_reg(bad.as_region())
    assert frontend.acked(Request.ADD_MEM_REG, region, [bad.fd]) == REFUSED
    table = messages.mem_table((bad.as_region(),))
    assert frontend.acked(Request.SET_MEM_TABLE, table, [bad.fd]) == REFUSED
    frontend.add_memory(memory)


def test_overlapping_regions_are_refused(frontend: FakeFrontend, memory: SharedFile) -> None:
    frontend.add_memory(memory)
    for shift in (-1, 0, 1):
        for gpa, uva in ((GPA + shift, 0), (0, UVA + shift)):
            region = messages.mem_reg(replace(memory, gpa=gpa, uva=uva).as_region())
            assert frontend.acked(Request.ADD_MEM_REG, region, [memory.fd]) == REFUSED


def test_memory_slots_cannot_be_exceeded(frontend: FakeFrontend, memory: SharedFile) -> None:
    parts = [replace(memory, size=4096, gpa=GPA + i * 4096, uva=UVA + i * 4096) for i in range(33)]
    for part in parts[: frontend.max_mem_slots]:
        frontend.add_memory(part)
    region = messages.mem_reg(parts[-1].as_region())
    assert frontend.acked(Request.ADD_MEM_REG, region, [memory.fd]) == REFUSED


def test_removing_an_unknown_region_is_refused(frontend: FakeFrontend, memory: SharedFile) -> None:
    assert frontend.acked(Request.REM_MEM_REG, messages.mem_reg(memory.as_region())) == REFUSED


def test_region_without_a_file_is_refused(frontend: FakeFrontend, memory: SharedFile) -> None:
    fd = os.eventfd(0)
    assert frontend.acked(Request.ADD_MEM_REG, messages.mem_reg(memory.as_region()), [fd]) == REFUSED
    os.close(fd)


def test_refused_message_without_need_reply_drops_the_connection(frontend: FakeFrontend, memory: SharedFile) -> None:
    frontend.send(Request.REM_MEM_REG, messages.mem_reg(memory.as_region()))
    assert frontend.is_dropped()


# ---- vrings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "payload"),
    [
        (Request.SET_VRING_NUM, messages.vring_state(4, 64)),
        (Request.SET_VRING_BASE, messages.vring_state(4, 0)),
        (Request.SET_VRING_ADDR, messages.vring_addr(0xFFFF_FFFF, 0, 0, 0)),
        (Request.GET_VRING_BASE, messages.vring_state(255, 0)),
        (Request.SET_VRING_ENABLE, messages.vring_state(4, 1)),
        (Request.SET_VRING_KICK, messages.u64(4 | messages.VRING_NO_FD)),
        (Request.SET_VRING_CALL, messages.u64(255 | messages.VRING_NO_FD)),
        (Request.SET_VRING_ERR, messages.u64(4 | messages.VRING_NO_FD)),
    ],
    ids=lambda value: value.name if isinstance(value, Request) else "",
)
def test_vring_index_out_of_range_is_refused(frontend: FakeFrontend, request_: Request, payload: bytes) -> None:
    frontend.send(Request.SET_FEATURES, messages.u64(OFFERED_FEATURES))
    assert frontend.acked(request_, payload) == REFUSED


@pytest.mark.parametrize("size", [0, 32769, 0xFFFF_FFFF])
def test_impossible_vring_size_is_refused(frontend: FakeFrontend, size: int) -> None:
    assert frontend.acked(Request.SET_VRING_NUM, messages.vring_state(0, size)) == REFUSED


def test_vring_base_beyond_sixteen_bits_is_refused(frontend: FakeFrontend) -> None:
    assert frontend.acked(Request.SET_VRING_BASE, messages.vring_state(0, 65536)) == REFUSED


def test_kick_before_the_ring_is_set_up_is_refused(frontend: FakeFrontend, ring: RingSetup) -> None:
    assert ring.kick_fd is not None
    assert frontend.acked(Request.SET_VRING_KICK, messages.u64(0), [ring.kick_fd]) == REFUSED


def test_enable_with_another_value_than_0_or_1_is_refused(frontend: FakeFrontend) -> None:
    frontend.send(Request.SET_FEATURES, messages.u64(OFFERED_FEATURES))
    assert frontend.acked(Request.SET_VRING_ENABLE, messages.vring_state(0, 2)) == REFUSED


@pytest.mark.parametrize("request_", [Request.SET_VRING_KICK, Request.SET_VRING_CALL, Request.SET_VRING_ERR])
def test_event_that_wakes_nobody_is_refused(frontend: FakeFrontend, memory: SharedFile, request_: Request) -> None:
    assert frontend.acked(request_, messages.u64(0), [memory.fd]) == REFUSED


def test_backend_channel_that_is_no_socket_is_refused(frontend: FakeFrontend) -> None:
    fd = os.eventfd(0)
    assert frontend.acked(Request.SET_BACKEND_REQ_FD, fds=[fd]) == REFUSED
    os.close(fd)


def test_backend_channel_that_may_take_long_to_close_is_refused(frontend: FakeFrontend) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as lingers:
        assert frontend.acked(Request.SET_BACKEND_REQ_FD, fds=[lingers.fileno()]) == REFUSED


def test_running_ring_cannot_be_changed(frontend: FakeFrontend, memory: SharedFile, ring: RingSetup) -> None:
    frontend.start([ring], [memory])
    assert frontend.acked(Request.SET_VRING_NUM, messages.vring_state(0, 32)) == REFUSED
    assert frontend.acked(Request.SET_VRING_BASE, messages.vring_state(0, 1)) == REFUSED
    moved = messages.vring_addr(0, ring.desc + 16, ring.used, ring.avail)
    assert frontend.acked(Request.SET_VRING_ADDR, moved) == REFUSED
    assert frontend.acked(Request.SET_FEATURES, messages.u64(1 << 32)) == REFUSED
    same = messages.vring_addr(0, ring.desc, ring.used, ring.avail)
    assert frontend.acked(Request.SET_VRING_ADDR, same) == 0
    assert frontend.acked(Request.SET_FEATURES, messages.u64(OFFERED_FEATURES)) == 0


def test_base_of_a_ring_that_never_ran_is_the_one_set(frontend: FakeFrontend) -> None:
    frontend.send(Request.SET_VRING_BASE, messages.vring_state(2, 77))
    assert frontend.get_base(2) == 77


# ---- configuration space -------------------------------------------------------------------------


def test_configuration_space_describes_the_device(frontend: FakeFrontend) -> None:
    space = schema.CONFIG.construct.parse(frontend.config_read())
    assert (space.magic, space.version) == (schema.CONFIG_MAGIC, schema.WIRE_VERSION)
    assert space.fingerprint == schema.FINGERPRINT
    assert (space.num_queues, space.region_size) == (4, REGION_BYTES)
    assert space.vm_name.rstrip(b"\0") == b"a"


def test_configuration_space_can_be_read_in_parts(frontend: FakeFrontend) -> None:
    whole = frontend.config_read()
    assert len(whole) == 256
    assert b"".join(frontend.config_read(at, 8) for at in range(0, 256, 8)) == whole
    assert frontend.config_read(255, 1) == whole[255:]
    assert frontend.config_read(7, 0) == b""


def test_only_driver_ack_can_be_written(frontend: FakeFrontend) -> None:
    whole = frontend.config_read()
    at = next(f for f in schema.fields(schema.CONFIG) if f.name == "driver_ack").offset_bytes
    frontend.config_write(b"\x5a" * 256)
    assert frontend.config_read() == whole[:at] + b"\x5a" * 4 + whole[at + 4 :]
    frontend.config_write(b"\1", at + 1)
    assert frontend.config_read(at, 4) == b"\x5a\1\x5a\x5a"


def test_configuration_of_a_live_migration_is_refused(frontend: FakeFrontend) -> None:
    assert frontend.acked(Request.SET_CONFIG, messages.config(0, bytes(256), flags=1)) == REFUSED


def test_every_protocol_feature_is_implemented() -> None:
    """QEMU acknowledges all offered bits, so each must be one that a test above uses."""
    assert {feature.name for feature in ProtocolFeature} == {
        "MQ",
        "REPLY_ACK",
        "BACKEND_REQ",
        "CONFIG",
        "RESET_DEVICE",
        "CONFIGURE_MEM_SLOTS",
    }


def test_closed_backend_channel_is_forgotten(stage: Stage) -> None:
    frontend, worker = stage.attach()
    assert isinstance(frontend.backend_channel, socket.socket)
    frontend.backend_channel.close()
    worker.die("3")
    stage.workers.next().setup()
    frontend.synchronise()
