"""Rules of docs/device.md that hold for every request alike."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.driver import pack_request
from tests.unit.plane_rig import Rig, plane_rig
from virtio_proto import schema
from virtio_proto.schema import Opcode, Status

LAUNCH = {"grid": [1, 1, 1], "block": [1, 1, 1]}
WITH_RESERVED = [
    opcode for opcode, body in schema.BODIES.items() if any(f.name == "reserved" for f in schema.fields(body))
]


@pytest.fixture
def rig() -> Iterator[Rig]:
    with plane_rig() as made:
        yield made


def test_reserved_field_of_a_request_must_be_zero(rig: Rig) -> None:
    field = next(f for f in schema.fields(schema.REQUEST) if f.name == "reserved")
    request = bytearray(pack_request(Opcode.NOP))
    request[field.offset_bytes] = 1
    block = rig.region.allocate(len(request))
    rig.region.write(block, bytes(request))
    queue = rig.driver.queues[0]
    response = rig.region.allocate(schema.RESPONSE.size_bytes)

    assert queue.wait(queue.add([block], [response])).status is Status.BAD_REQUEST


@pytest.mark.parametrize("opcode", WITH_RESERVED, ids=lambda opcode: opcode.name)
def test_reserved_field_of_a_body_must_be_zero(rig: Rig, opcode: Opcode) -> None:
    """Whatever else may be wrong with it: this is found first."""
    reply = rig.driver.request(opcode, {"reserved": 1}, context=rig.context(), writable_len=200)

    assert reply.status is Status.BAD_REQUEST


@pytest.mark.parametrize("indirect", [False, True], ids=["direct", "indirect"])
def test_request_may_be_cut_anywhere(indirect: bool) -> None:
    """A descriptor for each byte, or two of every possible division: the address and size are found all the same."""
    with plane_rig() as rig:
        rig.driver.queues[0].indirect = indirect
        context = rig.context()
        body = {"dst": rig.alloc(context, 64), "size": 4}
        size = schema.REQUEST.size_bytes + schema.BODY_COPY.size_bytes + 4
        for cuts in [*((cut,) for cut in range(1, size)), tuple(range(1, size))]:
            assert rig.ok(Opcode.COPY_IN, body, b"four", context=context, cuts=cuts).used_len == 48


@pytest.mark.parametrize("room", [0, 1, 47])
def test_chain_without_room_for_a_response_comes_back_empty(rig: Rig, room: int) -> None:
    request = pack_request(Opcode.NOP)
    block = rig.region.allocate(len(request))
    rig.region.write(block, request)
    queue = rig.driver.queues[0]
    pending = queue.add([block], [rig.region.allocate(room)] if room else [])

    assert queue.wait(pending).used_len == 0
    rig.ok(Opcode.NOP)


def test_request_that_changes_after_it_was_taken_on_is_carried_out_as_it_was(rig: Rig) -> None:
    context = rig.context()
    address = rig.alloc(context, 4096)
    ids = rig.load(context, "kernel hold behaviour=hold\nkernel release behaviour=release")
    rig.driver.submit(Opcode.LAUNCH, LAUNCH | {"function": ids["hold"]}, context=context, stream=1)
    copy = rig.driver.submit(Opcode.COPY_OUT, {"src": address, "size": 64}, writable_len=64, context=context, stream=1)
    nop = rig.driver.request(Opcode.NOP)
    assert nop.status is Status.OK, "the copy was taken on before"
    forged = pack_request(Opcode.COPY_OUT, {"src": 2**64 - 1, "size": 2**64 - 1}, context=77, stream=99, flags=1)
    rig.region.write(copy.readable[0], forged)
    rig.ok(Opcode.LAUNCH, LAUNCH | {"function": ids["release"]}, context=context, stream=2)

    reply = rig.driver.wait(copy)
    assert (reply.status, len(reply.payload)) == (Status.OK, 64)


def test_order_of_a_stream_is_kept(rig: Rig) -> None:
    """Behind a launch that takes a while, requests of all kinds end in the order in which they were sent."""
    context = rig.context()
    address = rig.alloc(context, 4096)
    later = rig.load(context, "kernel later behaviour=later")["later"]
    fill = {"dst": address, "size": 8, "unit": 4}
    sent = []
    for _ in range(5):
        sent.append(rig.driver.submit(Opcode.LAUNCH, LAUNCH | {"function": later}, context=context, kick=False))
        sent.append(rig.driver.submit(Opcode.FILL, fill, context=context, kick=False))
        sent.append(rig.driver.submit(Opcode.COPY_OUT, {"src": address, "size": 8}, writable_len=8, context=context))
    rig.driver.wait(sent[-1])

    used = rig.driver.queues[0].raw
    heads = [used.used_entry(slot)[0] for slot in range(used.used_idx - len(sent), used.used_idx)]
    assert heads == [pending.head for pending in sent]
    assert all(pending.reply is not None and pending.reply.status is Status.OK for pending in sent)
