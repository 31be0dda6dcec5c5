"""CALL: a whole function call in one request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.fakes.driver import Reply
from tests.unit.plane_rig import LIMITS, Rig, plane_rig
from virtio_proto import schema
from virtio_proto.schema import LIMITS as WIRE
from virtio_proto.schema import ArgKind, Opcode, Status

GEOMETRY = {"grid": [1, 1, 1], "block": [1, 1, 1]}
Arg = tuple[int, int]


@pytest.fixture
def rig() -> Iterator[Rig]:
    with plane_rig() as made:
        yield made


@pytest.fixture
def context(rig: Rig) -> int:
    made = rig.context()
    rig.load(made, "kernel work 8 8 4\nkernel noop\nkernel fails 8 behaviour=assert\nkernel later 8 8 behaviour=later")
    return made


def call_parts(name: bytes) -> tuple[dict[str, Any], bytes]:
    """Body of a call without arguments, and what follows it."""
    return GEOMETRY | {"name_len": len(name)}, name


def call(
    rig: Rig,
    context: int,
    name: bytes,
    args: Sequence[Arg] = (),
    values: bytes = b"",
    *,
    payload: bytes = b"",
    room: int = 512,
    body: dict[str, Any] | None = None,
) -> Reply:
    """Calls a function by name; `args` are (kind, size), `body` replaces fields of the body."""
    entries = b"".join(
        schema.CALL_ARG.construct.build({"kind": kind, "reserved": 0, "size": size}) for kind, size in args
    )
    fields = GEOMETRY | {"name_len": len(name), "num_args": len(args), "value_len": len(values)} | (body or {})
    return rig.driver.request(Opcode.CALL, fields, name + entries + values, payload, context=context, writable_len=room)


def test_a_call_returns_its_out_buffers(rig: Rig, context: int) -> None:
    args = [(ArgKind.IN, 100), (ArgKind.OUT, 50), (ArgKind.VALUE, 4)]
    reply = call(rig, context, b"work", args, b"\1\2\3\4", payload=bytes(100), room=50)
    assert (reply.status, len(reply.payload), reply.used_len) == (Status.OK, 50, 98)


def test_a_call_of_no_arguments_returns_nothing(rig: Rig, context: int) -> None:
    reply = call(rig, context, b"noop")
    assert (reply.status, reply.payload) == (Status.OK, b"")


def test_a_call_by_id_needs_no_name(rig: Rig, context: int) -> None:
    function = rig.load(context, "kernel another")["another"]
    assert call(rig, context, b"", body={"function": function}).status is Status.OK


def test_a_call_may_use_the_linkers_name(rig: Rig, context: int) -> None:
    assert call(rig, context, b"_null_noop").status is Status.OK


def test_names_of_later_programs_hide_earlier_ones(rig: Rig, context: int) -> None:
    rig.load(context, "kernel noop behaviour=assert")
    assert call(rig, context, b"noop").status is Status.ASSERT
    rig.cold(Opcode.PROGRAM_UNLOAD, {"program": rig.programs[-1]}, context=context)
    assert call(rig, context, b"noop").status is Status.OK


def test_names_belong_to_their_context(rig: Rig, context: int) -> None:
    for owner, name in ((rig.context(), b"noop"), (context, b"no"), (context, b"noop\0")):
        body, trailing = call_parts(name)
        reply = rig.cold(Opcode.CALL, body, trailing, context=owner, writable_len=1024)
        assert reply.status is Status.NOT_FOUND
        assert "no function 'no" in reply.text


def test_inout_buffers_are_copied_both_ways(rig: Rig, context: int) -> None:
    args = [(ArgKind.INOUT, 64), (ArgKind.INOUT, 32), (ArgKind.VALUE, 4)]
    reply = call(rig, context, b"work", args, bytes(4), payload=bytes(96))
    assert (reply.status, len(reply.payload)) == (Status.OK, 96)


def test_empty_buffers_are_null_pointers(rig: Rig, context: int) -> None:
    args = [(ArgKind.IN, 0), (ArgKind.OUT, 0), (ArgKind.VALUE, 4)]
    reply = call(rig, context, b"work", args, bytes(4))
    assert (reply.status, reply.payload) == (Status.OK, b"")


def test_a_long_call_ends_once(rig: Rig, context: int) -> None:
    reply = call(rig, context, b"later", [(ArgKind.IN, 16), (ArgKind.OUT, 16)], payload=bytes(16))
    assert (reply.status, len(reply.payload)) == (Status.OK, 16)
    assert reply.exec_ns > 0
    assert rig.usage().in_flight == 0


def test_a_failing_call_returns_an_error_text_in_place_of_its_buffers(rig: Rig, context: int) -> None:
    reply = call(rig, context, b"fails", [(ArgKind.OUT, 100)])
    assert (reply.status, reply.text) == (Status.ASSERT, "the null kernel's assertion failed")


def test_buffers_of_a_call_count_against_the_quota(rig: Rig, context: int) -> None:
    rig.alloc(context, LIMITS.memory_bytes - 8192)
    args = [(ArgKind.OUT, 8193), (ArgKind.OUT, 0), (ArgKind.VALUE, 4)]
    reply = call(rig, context, b"work", args, bytes(4), room=9000)
    assert reply.status is Status.OUT_OF_MEMORY
    args = [(ArgKind.OUT, 8192), (ArgKind.OUT, 0), (ArgKind.VALUE, 4)]
    assert call(rig, context, b"work", args, bytes(4), room=9000).status is Status.OK


def test_buffers_kept_for_the_next_call_make_room_for_allocations(rig: Rig, context: int) -> None:
    args = [(ArgKind.OUT, 100), (ArgKind.OUT, 0), (ArgKind.VALUE, 4)]
    assert call(rig, context, b"work", args, bytes(4)).status is Status.OK
    rig.alloc(context, LIMITS.memory_bytes)


IN, OUT, VALUE = ArgKind.IN, ArgKind.OUT, ArgKind.VALUE


@pytest.mark.parametrize(
    "case",
    [
        ([], b"", b"", Status.INVALID_ARGUMENT),
        ([(IN, 1), (OUT, 1)], b"", b"x", Status.INVALID_ARGUMENT),
        ([(IN, 1), (OUT, 1), (OUT, 1)], b"", b"x", Status.INVALID_ARGUMENT),
        ([(IN, 1), (OUT, 1), (VALUE, 8)], bytes(8), b"x", Status.INVALID_ARGUMENT),
        ([(VALUE, 4), (OUT, 1), (VALUE, 4)], bytes(8), b"", Status.INVALID_ARGUMENT),
        ([(IN, 1), (OUT, 1), (4, 4)], bytes(4), b"x", Status.BAD_REQUEST),
        ([(IN, 1), (OUT, 1), (VALUE, 4)], bytes(3), b"x", Status.BAD_REQUEST),
        ([(IN, 1), (OUT, 1), (VALUE, 4)], bytes(5), b"x", Status.BAD_REQUEST),
        ([(IN, 2), (OUT, 1), (VALUE, 4)], bytes(4), b"x", Status.BAD_REQUEST),
        ([(IN, 1), (OUT, 1), (VALUE, 4)], bytes(4), b"xx", Status.BAD_REQUEST),
        ([(IN, 1), (OUT, 513), (VALUE, 4)], bytes(4), b"x", Status.BAD_REQUEST),
        ([(IN, (1 << 64) - 1), (IN, 2), (VALUE, 4)], bytes(4), b"x", Status.BAD_REQUEST),
        ([(OUT, (1 << 64) - 1), (OUT, 2), (VALUE, 4)], bytes(4), b"", Status.BAD_REQUEST),
        ([(OUT, 1 << 63), (OUT, 1 << 63), (VALUE, 4)], bytes(4), b"", Status.BAD_REQUEST),
    ],
)
def test_arguments_must_match_function_and_chain(
    rig: Rig, context: int, case: tuple[list[Arg], bytes, bytes, Status]
) -> None:
    args, values, payload, status = case
    reply = call(rig, context, b"work", args, values, payload=payload)
    assert reply.status is status
    assert reply.text


@pytest.mark.parametrize(
    "body",
    [
        {"name_len": 0},
        {"function": 7},
        {"flags": 2},
        {"name_len": WIRE["MAX_NAME"] + 1},
        {"name_len": (1 << 32) - 1},
        {"num_args": WIRE["MAX_CALL_ARGS"] + 1},
        {"num_args": (1 << 32) - 1},
        {"num_args": 1},
        {"value_len": WIRE["MAX_PARAM_BYTES"] + 1},
        {"value_len": (1 << 32) - 1},
        {"value_len": 1},
    ],
)
def test_lengths_of_a_call_are_bounded(rig: Rig, context: int, body: dict[str, int]) -> None:
    assert call(rig, context, b"noop", body=body).status is Status.BAD_REQUEST


def test_geometry_of_a_call_is_checked(rig: Rig, context: int) -> None:
    assert call(rig, context, b"noop", body={"grid": [0, 1, 1]}).status is Status.INVALID_ARGUMENT
    assert call(rig, context, b"noop", body={"block": [2048, 1, 1]}).status is Status.INVALID_ARGUMENT
    assert call(rig, context, b"noop", body={"shared_bytes": 1 << 20}).status is Status.INVALID_ARGUMENT


def test_refused_calls_leave_nothing_behind(rig: Rig, context: int) -> None:
    for _ in range(200):  # more than there are call slots
        assert call(rig, context, b"work", [(IN, 1)], payload=b"x").status is Status.INVALID_ARGUMENT
    args = [(IN, 1), (OUT, 1), (VALUE, 4)]
    assert call(rig, context, b"work", args, bytes(4), payload=b"x").status is Status.OK


def test_framing_does_not_matter(rig: Rig, context: int) -> None:
    entries = b"".join(
        schema.CALL_ARG.construct.build({"kind": kind, "reserved": 0, "size": size})
        for kind, size in [(IN, 40), (OUT, 20), (VALUE, 4)]
    )
    body = GEOMETRY | {"name_len": 4, "num_args": 3, "value_len": 4}
    trailing = b"work" + entries + bytes(4) + bytes(40)
    cuts = (1, 23, 25, 71, 73, 77, 90, 128, 131, 140)
    reply = rig.driver.request(Opcode.CALL, body, trailing, context=context, writable_len=20, cuts=cuts)
    assert (reply.status, len(reply.payload)) == (Status.OK, 20)
