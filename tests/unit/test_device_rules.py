"""Rules of docs/device.md that hold for every request alike."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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


@pytest.mark.parametrize("opcode", WITH_RESERVED, ids=lambda opcode: opcode.name)
def test_reserved_field_of_a_body_must_be_zero(rig: Rig, opcode: Opcode) -> None:
    """A reserved field is checked before everything else."""
    reply = rig.driver.request(opcode, {"reserved": 1}, context=rig.context(), writable_len=200)

    assert reply.status is Status.BAD_REQUEST


@pytest.mark.parametrize("indirect", [False, True], ids=["direct", "indirect"])
def test_request_may_be_cut_anywhere(indirect: bool) -> None:
    """With a descriptor for each byte, or two of every possible division, address and size are still read correctly."""
    with plane_rig() as rig:
        rig.driver.queues[0].indirect = indirect
        context = rig.context()
        body = {"dst": rig.alloc(context, 64), "size": 4}
        size = schema.REQUEST.size_bytes + schema.BODY_COPY.size_bytes + 4
        for cuts in [*((cut,) for cut in range(1, size)), tuple(range(1, size))]:
            assert rig.ok(Opcode.COPY_IN, body, b"four", context=context, cuts=cuts).used_len == 48


def test_order_of_a_stream_is_kept(rig: Rig) -> None:
    """Behind a long launch, requests of all kinds end in the order in which they were sent."""
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
