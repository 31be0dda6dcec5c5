"""A hostile guest: each chain comes back once, and the data plane goes on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.driver import RESPONSE_BYTES, Pending, pack_request
from tests.fakes.region import Block
from tests.unit.plane_rig import Rig, plane_rig
from virtio_proto.schema import Opcode, Status

WRITE, NEXT = 2, 1


@pytest.fixture
def rig() -> Iterator[Rig]:
    with plane_rig() as made:
        yield made


def block(rig: Rig, data: bytes) -> Block:
    made = rig.region.allocate(len(data))
    rig.region.write(made, data)
    return made


def chain(rig: Rig, readable: list[bytes], writable: list[int]) -> Pending:
    """Publishes a chain of these bytes and this much writable room, in pieces."""
    return rig.driver.queues[0].add(
        [block(rig, data) for data in readable], [rig.region.allocate(size) for size in writable]
    )


def test_a_request_without_room_for_a_response_is_returned_empty(rig: Rig) -> None:
    for writable in ([], [RESPONSE_BYTES - 1], [1] * 47):
        assert rig.driver.wait(chain(rig, [pack_request(Opcode.NOP)], writable)).used_len == 0
    rig.ok(Opcode.NOP)


@pytest.mark.parametrize("size", [1, 23])
def test_a_short_header_is_a_bad_request(rig: Rig, size: int) -> None:
    reply = rig.driver.wait(chain(rig, [bytes(size)], [RESPONSE_BYTES, 100]))
    assert (reply.status, reply.text) == (Status.BAD_REQUEST, f"a request of {size} bytes; allowed: 24 or more")


def test_a_chain_with_nothing_to_read_is_a_bad_request(rig: Rig) -> None:
    assert rig.driver.wait(chain(rig, [], [RESPONSE_BYTES])).status is Status.BAD_REQUEST


def test_the_response_may_be_in_pieces(rig: Rig) -> None:
    reply = rig.driver.wait(chain(rig, [pack_request(Opcode.NOP)], [1, 30, 17]))
    assert (reply.status, reply.used_len) == (Status.OK, 48)


def test_the_request_may_be_in_pieces(rig: Rig) -> None:
    header = pack_request(Opcode.NOP)
    pieces = [header[i : i + 1] for i in range(len(header))]
    assert rig.driver.wait(chain(rig, pieces, [RESPONSE_BYTES])).status is Status.OK


def test_reserved_fields_must_be_zero(rig: Rig) -> None:
    header = bytearray(pack_request(Opcode.NOP))
    header[12] = 1
    assert rig.driver.wait(chain(rig, [bytes(header)], [RESPONSE_BYTES])).status is Status.BAD_REQUEST


def test_a_malformed_chain_is_returned_empty_and_the_ring_goes_on(rig: Rig) -> None:
    """The chain has a readable descriptor behind a writable one."""
    queue = rig.driver.queues[0]
    good = chain(rig, [pack_request(Opcode.NOP)], [RESPONSE_BYTES])
    rig.driver.wait(good)
    queue.indirect = False
    rig.plane.enable_queue(0, False)
    bad = chain(rig, [pack_request(Opcode.NOP), b"x"], [RESPONSE_BYTES])
    at = queue.at.desc + 16 * bad.head
    rig.region.memory[at + 12 : at + 14] = (NEXT | WRITE).to_bytes(2, "little")
    rig.plane.enable_queue(0, True)
    assert rig.driver.wait(bad).used_len == 0
    rig.ok(Opcode.NOP)


def test_an_address_in_no_region_is_returned_empty(rig: Rig) -> None:
    for gpa in (0, rig.region.gpa - 1, rig.region.gpa + rig.region.size - 23, (1 << 64) - 24):
        pending = rig.driver.queues[0].add([Block(0, 24, gpa)], [rig.region.allocate(RESPONSE_BYTES)])
        assert rig.driver.wait(pending).used_len == 0
    rig.ok(Opcode.NOP)


def test_descriptors_changed_after_submit_change_nothing(rig: Rig) -> None:
    """The chain was read once when it was popped."""
    context = rig.context()
    ids = rig.load(context, "kernel hold behaviour=hold\nkernel release behaviour=release")
    launch = {"grid": [1, 1, 1], "block": [1, 1, 1]}
    held = rig.driver.submit(Opcode.LAUNCH, launch | {"function": ids["hold"]}, context=context)
    rig.ok(Opcode.NOP)
    table = held.owned[0]  # the indirect table
    rig.region.write(table, b"\xff" * table.size)
    at = rig.driver.queues[0].at.desc + 16 * held.head
    rig.region.memory[at : at + 16] = b"\xff" * 16
    rig.ok(Opcode.LAUNCH, launch | {"function": ids["release"]}, context=context, stream=1, queue=1)
    assert rig.driver.wait(held).status is Status.OK


def test_a_header_changed_after_submit_changes_nothing(rig: Rig) -> None:
    context = rig.context()
    ids = rig.load(context, "kernel hold behaviour=hold\nkernel release behaviour=release")
    launch = {"grid": [1, 1, 1], "block": [1, 1, 1]}
    held = rig.driver.submit(Opcode.LAUNCH, launch | {"function": ids["hold"]}, context=context)
    rig.ok(Opcode.NOP)
    for readable in held.readable:
        rig.region.write(readable, b"\xff" * readable.size)
    rig.ok(Opcode.LAUNCH, launch | {"function": ids["release"]}, context=context, stream=1, queue=1)
    assert rig.driver.wait(held).status is Status.OK


_HEADERS = st.builds(
    lambda opcode, flags, context, stream, reserved: (
        opcode.to_bytes(2, "little")
        + flags.to_bytes(2, "little")
        + context.to_bytes(4, "little")
        + stream.to_bytes(4, "little")
        + reserved.to_bytes(4, "little")
        + bytes(8)
    ),
    # without the opcodes that Python serves, which is missing here
    st.sampled_from(
        sorted(
            set(Opcode)
            - {
                Opcode.PROGRAM_LOAD,
                Opcode.PROGRAM_UNLOAD,
                Opcode.FUNCTION_LOOKUP,
                Opcode.GLOBAL_LOOKUP,
                Opcode.CONTEXT_DESTROY,
                Opcode.MARKS,
            }
        )
    )
    | st.integers(max(Opcode) + 1, 0xFFFF),
    st.sampled_from([0, 0, 0, 1, 0xFFFF]),
    st.sampled_from([0, 0x10001, 0x10001, 0x10001, 0x10002, 0xFFFFFFFF]),
    st.sampled_from([0, 1, 3, 4, 0xFFFFFFFF]),
    st.sampled_from([0, 0, 0, 1]),
)
_WORDS = st.lists(
    st.sampled_from([0, 1, 2, 4, 8, 48, 255, 4096, 1 << 31, (1 << 32) - 1]).map(lambda n: n.to_bytes(4, "little")),
    max_size=40,
).map(b"".join)


@pytest.fixture(scope="module")
def shared_rig() -> Iterator[Rig]:
    with plane_rig() as made:
        context = made.context()
        made.load(context, "kernel k 8 8 4\nkernel n")
        made.alloc(context, 4096)
        yield made


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    header=_HEADERS,
    rest=_WORDS | st.binary(max_size=200),
    cuts=st.lists(st.integers(1, 100), max_size=4),
    room=st.integers(0, 300),
)
def test_random_requests_are_answered_once(
    shared_rig: Rig, header: bytes, rest: bytes, cuts: list[int], room: int
) -> None:
    data = header + rest
    edges = [0, *sorted({cut for cut in cuts if cut < len(data)}), len(data)]
    pieces = [data[a:b] for a, b in pairwise(edges)]
    readable = [block(shared_rig, piece) for piece in pieces]
    writable = [shared_rig.region.allocate(size) for size in (room // 3, room - room // 3) if size]
    reply = shared_rig.driver.wait(shared_rig.driver.queues[0].add(readable, writable))
    for piece in (*readable, *writable):
        shared_rig.region.release(piece)
    assert reply.used_len == 0 if room < RESPONSE_BYTES else RESPONSE_BYTES <= reply.used_len <= room
    assert shared_rig.usage().in_flight == 0
