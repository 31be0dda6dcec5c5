"""Messages between daemon and worker: valid ones arrive whole, all others are refused."""

from __future__ import annotations

import array
import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from vhost_backend.worker_protocol import codec, protocol
from vhost_backend.worker_protocol.codec import ProtocolError
from vhost_backend.worker_protocol.control_messages import (
    ControlClose,
    ControlConfine,
    ControlFirmware,
    ControlOpen,
    ControlSend,
    ControlSet,
    ControlSetup,
    ControlSnapshot,
    ControlThreshold,
    Terms,
)
from vhost_backend.worker_protocol.marks import Mark, Marks
from vhost_backend.worker_protocol.migration_messages import (
    ArenaSetup,
    Measured,
    MigrationHold,
    MigrationLoad,
    MigrationMeasure,
    MigrationRelease,
    MigrationSave,
    Saved,
)
from vhost_backend.worker_protocol.program_terms import NUM_SOURCES
from vhost_backend.worker_protocol.protocol import (
    DAEMON_MESSAGES,
    MAX_FUNCTION_NAME,
    MAX_FUNCTIONS,
    NUM_STATUSES,
    WORKER_MESSAGES,
    Ack,
    AnyMessage,
    CallListener,
    CodeNames,
    CodeRange,
    Compile,
    EngineSetup,
    FunctionFigures,
    Functions,
    HostProgram,
    Limits,
    Log,
    LookAtFunctions,
    MemRegion,
    MemTable,
    Ping,
    Program,
    Quota,
    Ready,
    Resume,
    Resumed,
    Setup,
    Shutdown,
    Stats,
    VringBroken,
    VringCall,
    VringEnable,
    VringKick,
    VringStart,
    VringStop,
)
from vhost_backend.worker_protocol.registration_messages import Register, Registered, Restore, Unregister
from virtio_proto.control.latency import NUM_CLASSES

SETUP = Setup(
    1, "vm", EngineSetup("null", {"a": 1, "b": None}), 2, Quota(1, 1 << 20, 64), 10**9, 4, 4, 0, "best-effort"
)
EXAMPLES: tuple[AnyMessage, ...] = (
    SETUP,
    MemTable(2, (MemRegion(1, 2, 3, 4), MemRegion((1 << 64) - 1, 0, 1, 0))),
    VringStart(3, 63, 256, 65535, 1, 2, 3, True, False, True, False, True, True, False),
    VringCall(4, 0, True),
    VringKick(5, 0, False),
    VringEnable(6, 1, False),
    Limits(8, Quota(2, 1 << 30, 64), 10**9, 4, 8, 3),
    VringStop(7, 1),
    Program(8, 9, True, "wärning", 8, False),
    Ping(13),
    Resume(14),
    Shutdown(9),
    replace(SETUP, control=ControlSetup(64 << 20, 4096, 10_000)),
    ControlOpen(10, Terms(0, 2, 4, 0, 256, 1024, 10**9, 10**9), (0, 4095), (1, 16383), (1, (1 << 32) - 1)),
    ControlClose(11, (1, 2)),
    ControlSet(12, (1,), 5, 3),
    ControlSend(13, 1, b"hallo", True),
    ControlThreshold(14, (0,), "temperature", -1.5, 80.0),
    ControlSnapshot(15, 7, 100),
    ControlConfine(16, ()),
    ControlFirmware(17, "stage", 1, 2 << 48, ()),
    ControlFirmware(18, "activate", 1, 2 << 48, (0, 1)),
    replace(SETUP, arena=ArenaSetup(1 << 45, 1 << 40)),
    MemTable(19, (), 1 << 45),
    Register(7, 1, ("-O3",), 2, True, 2, ("scale(int32, pointer)", "count(pointer)")),
    Unregister(3),
    Registered(21, 7, 3, ""),
    Restore(22, 3, bytes(32), True, True, "", ("scale(int32, pointer)",)),
    MigrationHold(20, 5000),
    MigrationMeasure(21),
    MigrationSave(22),
    MigrationLoad(23),
    MigrationRelease(24),
    Measured(1 << 30, 5),
    Saved(7),
    CallListener(),
    Ready("null", 4, 3, "off"),
    Resumed(Ready("null", 4, 3, "off"), (1, 7)),
    Ack(10, False, "no", 7, 1 << 63),
    Compile(11, 12, 1, ("-O3", "-DX=ü"), 3),
    HostProgram(13, "blas"),
    CodeNames(1, (CodeRange(1 << 46, 64, "kernel(int) [region 0]"),)),
    VringBroken(0, "because"),
    Stats(1, 2, 3, 4, 5, 6, 7, 8),
    Stats(1, 2, 3, 4, 5, 6, 7, 8, latency=(0, 9)),
    Stats(1, 2, 3, 4, 5, 6, 7, 8, (0, 9), 10, (0, 1)),
    LookAtFunctions(11),
    Functions((FunctionFigures("sweep", 1, 2, (0, 1)), FunctionFigures("(others)", 3, 4, ()))),
    Log("warning", "event", {"n": 1.5, "flag": True, "none": None}),
    Marks(1, "train", 2, (Mark(1, 2, 1, 3, 4, 5, 1.5, "step", "io", "upload", "main"),)),
)
EVERY = (*DAEMON_MESSAGES, *WORKER_MESSAGES)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    daemon, worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with daemon, worker:
        yield daemon, worker


def fields_of(message: AnyMessage) -> list[Any]:
    body: list[Any] = msgspec.msgpack.decode(codec.pack(message))
    return body


def packet_of(kind: str, fields: object) -> bytes:
    return kind.encode() + b"\0" + msgspec.msgpack.encode(fields)


def test_there_is_an_example_of_every_message() -> None:
    assert {type(example) for example in EXAMPLES} == set(EVERY)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: message.TYPE)
def test_messages_round_trip(message: AnyMessage) -> None:
    assert codec.decode(codec.encode(message), EVERY) == message


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: message.TYPE)
def test_missing_and_unknown_fields_are_refused(message: AnyMessage) -> None:
    good = fields_of(message)
    required = sum(field.required for field in msgspec.structs.fields(type(message)))
    for bad in (*(good[:n] for n in range(required)), [*good, 1]):
        with pytest.raises(ProtocolError, match=rf"{message.TYPE}.*; allowed: "):
            codec.decode(packet_of(message.TYPE, bad), EVERY)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: message.TYPE)
def test_values_of_another_type_are_refused(message: AnyMessage) -> None:
    good = fields_of(message)
    for i, name in enumerate(message.__struct_fields__):
        values: tuple[object, ...] = ([[]], {"x": []}, "\0" * 70_000)
        if not isinstance(good[i], float):
            values += (-1,)
        for value in values:
            with pytest.raises(ProtocolError, match=rf"{name}|{message.TYPE} of 70\d+ bytes"):
                codec.decode(packet_of(message.TYPE, [*good[:i], value, *good[i + 1 :]]), EVERY)


@pytest.mark.parametrize("option", ["-DA=\0", "x" * 4097])
def test_options_that_no_compiler_can_be_given_are_refused(option: str) -> None:
    with pytest.raises(ProtocolError, match=r"compile\.options\[0\] is .*; allowed: "):
        codec.decode(packet_of("compile", [1, 1, 1, [option], 0]), EVERY)


def test_text_without_a_utf8_form_is_neither_sent_nor_taken() -> None:
    with pytest.raises(ProtocolError, match="cannot be packed"):
        codec.encode(Compile(1, 1, 1, ("-D\ud800",), 0))
    with pytest.raises(ProtocolError, match="not MessagePack"):
        codec.decode(packet_of("compile", [1, 1, 1, ["abc"], 0]).replace(b"abc", b"\xed\xa0\x80"), EVERY)


@pytest.mark.parametrize("fields", [{"line": "x" * 9000}, {str(i): "x" * 200 for i in range(60)}])
def test_log_larger_than_a_few_lines_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(ProtocolError, match=r"a log of \d+ bytes; allowed: 8192"):
        codec.decode(packet_of("log", ["info", "kernel_printed", fields]), EVERY)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_refused(number: float) -> None:
    for message in (Log("info", "x", {"n": number}), ControlThreshold(1, (), "x", number, 0.0)):
        with pytest.raises(ProtocolError, match="allowed"):
            codec.decode(codec.encode(message), EVERY)


@pytest.mark.parametrize("name", ["num_pes", "control_pes"])
def test_numbers_in_ready_are_bounded(name: str) -> None:
    message = replace(Ready("null", 4, 3, "off"), **{name: 4097})
    with pytest.raises(codec.ProtocolError, match=rf"ready.{name} is 4097; allowed: `int` <= 4096"):
        codec.decode(codec.encode(message), (Ready,))


def test_wrong_field_of_a_part_is_named_with_its_value() -> None:
    message = replace(SETUP, quota=Quota(0, 1 << 20, 64))
    with pytest.raises(ProtocolError, match=r"setup\.quota\.pes is 0; allowed: `int` >= 1"):
        codec.decode(codec.encode(message), EVERY)


def test_booleans_and_numbers_are_not_interchangeable() -> None:
    with pytest.raises(ProtocolError, match=r"seq is True; allowed: `int`"):
        codec.decode(packet_of("shutdown", [True]), EVERY)
    with pytest.raises(ProtocolError, match=r"enabled is 1; allowed: `bool`"):
        codec.decode(packet_of("vring_enable", [1, 1, 1]), EVERY)


def test_only_messages_of_the_right_direction_are_taken() -> None:
    for message in EXAMPLES:
        wrong = DAEMON_MESSAGES if type(message) in WORKER_MESSAGES else WORKER_MESSAGES
        with pytest.raises(ProtocolError, match="allowed: "):
            codec.decode(codec.encode(message), wrong)


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        b"\0",
        b"ack",
        b"ack\0",
        b"ack\0\xc1",
        b"ack\0\x92",
        b"ack\0" + b"\x91" * 15_000,
        b"x" * 60_000,
        b"\xff\0\x90",
    ],
)
def test_malformed_packets_are_refused(packet: bytes) -> None:
    with pytest.raises(ProtocolError):
        codec.decode(packet, EVERY)


def test_figures_with_all_latency_classes_fit_and_more_are_refused() -> None:
    u32, u64 = 2**32 - 1, 2**64 - 1
    full = Stats(u64, u64, u64, u64, u32, u32, u32, u32, (u64,) * NUM_CLASSES, u64, (u64,) * NUM_STATUSES)
    assert codec.decode(codec.encode(full), EVERY) == full
    with pytest.raises(ProtocolError, match=rf"stats\.latency.*; allowed: .*{NUM_CLASSES}"):
        codec.decode(packet_of("stats", [*[1] * 8, [0] * (NUM_CLASSES + 1)]), EVERY)


def test_work_of_as_many_functions_as_there_may_be_fits() -> None:
    u64 = 2**64 - 1
    full = Functions((FunctionFigures("n" * MAX_FUNCTION_NAME, u64, u64, (u64,) * NUM_CLASSES),) * MAX_FUNCTIONS)
    assert codec.decode(codec.encode(full), EVERY) == full
    for name in ("", "two\nlines", "\x1b[2J", "n" * (MAX_FUNCTION_NAME + 1)):
        with pytest.raises(ProtocolError, match="functions"):
            codec.decode(packet_of("functions", [[[name, 1, 1, []]]]), EVERY)


def test_length_is_checked_before_anything_is_decoded() -> None:
    with pytest.raises(ProtocolError, match="a stats of 60006 bytes; allowed: 1470"):
        codec.decode(b"stats\0" + b"\xc1" * 60_000, EVERY)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


@given(st.sampled_from(EXAMPLES), st.lists(_VALUES, max_size=3), _VALUES, st.data())
def test_random_packets_raise_protocol_errors_only(
    message: AnyMessage, extra: list[Any], value: Any, data: Any
) -> None:
    fields = [*fields_of(message), *extra] or [None]
    fields[data.draw(st.integers(0, len(fields) - 1))] = value
    with contextlib.suppress(ProtocolError):
        codec.decode(packet_of(message.TYPE, fields), EVERY)


@given(st.sampled_from(EVERY), st.binary(max_size=200))
def test_random_bytes_raise_protocol_errors_only(kind: type[AnyMessage], body: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        codec.decode(kind.TYPE.encode() + b"\0" + body, EVERY)


def test_a_message_too_long_is_not_sent() -> None:
    with pytest.raises(ProtocolError, match="allowed: 20480"):
        codec.encode(Compile(1, 1, 1, ("x" * 4096,) * 20, 0))


def test_the_longest_log_of_any_characters_fits() -> None:
    codec.encode(Program(1, 1, False, "\U0001f600" * protocol.MAX_LOG_CHARS, 1, False))


def test_fds_arrive_with_their_message(pair: tuple[socket.socket, socket.socket]) -> None:
    daemon, worker = pair
    with open("/dev/null", "rb") as null:
        protocol.send_to_worker(daemon, SETUP, (null.fileno(),) * (1 + NUM_SOURCES))
    received = protocol.receive_from_daemon(worker)
    assert received is not None
    message, fds = received
    assert (message, os.get_inheritable(fds[0])) == (SETUP, False)
    codec.close_fds(fds)


def test_a_wrong_number_of_fds_is_not_sent(pair: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(ProtocolError, match="setup with 0 fds; allowed: 5"):
        protocol.send_to_worker(pair[0], SETUP)


def test_unexpected_fds_are_closed(pair: tuple[socket.socket, socket.socket]) -> None:
    daemon, worker = pair
    read_end, write_end = os.pipe()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [write_end]))]
    worker.sendmsg([codec.encode(Ready("null", 1, 0, "off"))], rights)
    os.close(write_end)
    with pytest.raises(ProtocolError, match="ready with 1 fds; allowed: 0"):
        protocol.receive_from_worker(daemon)
    assert os.read(read_end, 1) == b""  # no process holds the other end any more
    os.close(read_end)


def test_an_overlong_packet_is_refused(pair: tuple[socket.socket, socket.socket]) -> None:
    daemon, worker = pair
    worker.send(b" " * (codec.MAX_PACKET_BYTES + 1))
    with pytest.raises(ProtocolError, match="a packet over 65536 bytes"):
        protocol.receive_from_worker(daemon)


def test_the_end_of_the_stream_is_returned_as_none(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[1].close()
    assert protocol.receive_from_worker(pair[0]) is None
