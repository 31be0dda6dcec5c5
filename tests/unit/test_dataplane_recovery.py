"""A new worker with the in-flight memory of a dead one: each request is answered exactly once."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import pytest

from tests.fakes.driver import Pending
from tests.unit.plane_rig import Rig, plane_rig
from vhost_backend.daemon import inflight
from vhost_backend.daemon.inflight import InflightMemory
from virtio_proto.schema import Opcode, Status

ROOM = 200


@pytest.fixture
def memory() -> Iterator[InflightMemory]:
    with InflightMemory() as made:
        yield made


@pytest.fixture
def rig(memory: InflightMemory) -> Iterator[Rig]:
    """A new worker that has not started its rings yet."""
    with plane_rig(start=False, inflight_fd=memory.fd) as made:
        yield made


def leave(
    memory: InflightMemory, heads: Sequence[int], *, last_avail: int, used_idx: int = 0, last_push: int = 0
) -> None:
    """Writes in-flight memory as a dead worker would have left it for queue 0."""
    bits = sum(1 << head for head in heads).to_bytes(32, "little")
    entry = struct.pack("<IHHH22x", 1, last_avail, used_idx, last_push) + bits
    memory._map[inflight.HEADER_BYTES : inflight.HEADER_BYTES + inflight.QUEUE_BYTES] = entry


def leave_black_box(memory: InflightMemory, head: int, text: bytes, *, queue: int = 0, status: int = 11) -> None:
    box = struct.pack("<6I", 1, queue, head, status, 77, len(text)) + text
    memory._map[inflight.BLACK_BOX_OFFSET : inflight.BLACK_BOX_OFFSET + len(box)] = box


def submit(rig: Rig, count: int) -> list[Pending]:
    return [rig.driver.submit(Opcode.NOP, writable_len=ROOM) for _ in range(count)]


def statuses(rig: Rig, requests: Sequence[Pending]) -> list[Status]:
    return [rig.driver.wait(request).status for request in requests]


def test_popped_requests_are_lost_and_others_are_served(rig: Rig, memory: InflightMemory) -> None:
    requests = submit(rig, 4)
    leave(memory, [requests[0].head, requests[1].head], last_avail=2)
    rig.start(base=2, recover=True)
    assert statuses(rig, requests) == [Status.DEVICE_LOST, Status.DEVICE_LOST, Status.OK, Status.OK]
    assert "worker died" in rig.driver.wait(requests[0]).text
    assert rig.driver.queues[0].poll() == []
    assert memory.queue(0).heads == ()


def test_the_black_box_names_the_request_at_fault(rig: Rig, memory: InflightMemory) -> None:
    requests = submit(rig, 2)
    leave(memory, [request.head for request in requests], last_avail=2)
    leave_black_box(memory, requests[1].head, b"kernel k, block 3: null pointer")
    rig.start(base=2, recover=True)
    assert statuses(rig, requests) == [Status.DEVICE_LOST, Status.FAULT]
    reply = rig.driver.wait(requests[1])
    assert (reply.text, reply.detail) == ("kernel k, block 3: null pointer", 77)
    assert memory.black_box() is None


def test_the_black_box_of_another_queue_is_left_alone(rig: Rig, memory: InflightMemory) -> None:
    requests = submit(rig, 1)
    leave(memory, [requests[0].head], last_avail=1)
    leave_black_box(memory, requests[0].head, b"not this one", queue=1)
    rig.start(base=1, recover=True)
    assert statuses(rig, requests) == [Status.DEVICE_LOST]
    assert memory.black_box() is not None


def test_death_between_popping_and_counting_answers_once(rig: Rig, memory: InflightMemory) -> None:
    """The worker had noted the head, but not yet last_avail."""
    requests = submit(rig, 2)
    leave(memory, [requests[0].head], last_avail=0)
    rig.start(base=0, recover=True)
    assert statuses(rig, requests) == [Status.DEVICE_LOST, Status.OK]
    assert rig.driver.queues[0].poll() == []


def test_death_between_pushing_and_clearing_the_head_answers_once(rig: Rig, memory: InflightMemory) -> None:
    """The used ring has the head, and the in-flight memory still names it."""
    requests = submit(rig, 1)
    rig.start()
    assert statuses(rig, requests) == [Status.OK]
    rig.plane.stop_queue(0)
    leave(memory, [requests[0].head], last_avail=1, used_idx=0, last_push=requests[0].head)
    rig.start(base=1, recover=True)
    rig.ok(Opcode.NOP)
    assert rig.driver.queues[0].poll() == []


def test_requests_without_room_for_an_answer_are_returned_empty(rig: Rig, memory: InflightMemory) -> None:
    block = rig.region.allocate(24)
    pending = rig.driver.queues[0].add([block], [])
    leave(memory, [pending.head], last_avail=1)
    rig.start(base=1, recover=True)
    assert rig.driver.wait(pending).used_len == 0


def test_a_chain_that_was_changed_since_is_returned_empty(rig: Rig, memory: InflightMemory) -> None:
    block = rig.region.allocate(24)
    pending = rig.driver.queues[0].add([block], [])
    at = rig.driver.queues[0].at.desc + 16 * pending.head
    rig.region.memory[at : at + 8] = (1).to_bytes(8, "little")  # an address in no region
    leave(memory, [pending.head], last_avail=1)
    rig.start(base=1, recover=True)
    assert rig.driver.wait(pending).used_len == 0


def test_heads_beyond_the_ring_are_ignored(rig: Rig, memory: InflightMemory) -> None:
    leave(memory, range(128, 256), last_avail=0)
    rig.start(recover=True)
    rig.ok(Opcode.NOP)
    assert memory.queue(0).heads == ()


@pytest.mark.parametrize(
    ("queue", "status", "text_len"), [(0, 0, 4), (0, 999, 4), (1 << 31, 11, 4), (0, 11, (1 << 32) - 1)]
)
def test_a_hostile_black_box_does_no_harm(
    rig: Rig, memory: InflightMemory, queue: int, status: int, text_len: int
) -> None:
    requests = submit(rig, 1)
    leave(memory, [requests[0].head], last_avail=1)
    box = struct.pack("<6I", 1, queue, requests[0].head, status, 0, text_len) + b"\xff" * 1024
    memory._map[inflight.BLACK_BOX_OFFSET : inflight.BLACK_BOX_OFFSET + len(box)] = box
    rig.start(base=1, recover=True)
    reply = rig.driver.queues[0]
    while requests[0].used_len is None:
        reply.poll()
    assert requests[0].used_len >= 48


def test_progress_counts_what_was_returned(rig: Rig, memory: InflightMemory) -> None:
    rig.start()
    before = memory.progress()
    for _ in range(5):
        rig.ok(Opcode.NOP)
    assert memory.progress() == before + 5


def test_the_memory_names_what_is_in_flight(rig: Rig, memory: InflightMemory) -> None:
    rig.start()
    context = rig.context()
    function = rig.load(context, "kernel hold behaviour=hold")["hold"]
    body = {"function": function, "grid": [1, 1, 1], "block": [1, 1, 1]}
    launch = rig.driver.submit(Opcode.LAUNCH, body, context=context)
    rig.ok(Opcode.NOP)
    state = memory.queue(0)
    assert (state.started, state.heads, state.last_avail) == (True, (launch.head,), 4)
