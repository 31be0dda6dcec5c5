"""Rings: started, stopped, swapped, misplaced, broken; memory that moves and shrinks."""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.driver import RESPONSE_BYTES, Pending, Reply
from tests.fakes.region import Block
from tests.unit.plane_rig import LIMITS, TIMEOUT_MS, Rig, plane_rig, ring_message
from tests.waiting import sleeps_for_good, until
from vhost_backend.worker.plane import DataPlaneError, RingFds
from vhost_backend.worker_protocol import codec
from vhost_backend.worker_protocol.protocol import MemRegion
from virtio_proto.schema import Opcode, Status

CALL = (1).to_bytes(8, "little")
LAUNCH = {"grid": [1, 1, 1], "block": [1, 1, 1]}


@pytest.fixture
def rig() -> Iterator[Rig]:
    with plane_rig() as made:
        yield made


def broken(rig: Rig) -> tuple[int, str]:
    """Waits for a ring to be reported as broken."""
    poller = select.poll()
    poller.register(rig.plane.notify_fd, select.POLLIN)
    while (found := rig.plane.take_broken()) is None:
        assert poller.poll(TIMEOUT_MS), "no ring broke"
        rig.plane.clear_notification()
    return found


def is_served(rig: Rig, pending: Pending) -> bool:
    """Lets the data plane look at all of its rings; True if it has answered the request."""
    before = rig.plane.sleeps()  # it sleeps after each look without work; this call wakes it
    until(lambda: rig.plane.sleeps() > before + 1)
    rig.driver.queues[0].poll()
    return pending.reply is not None


def hold(rig: Rig) -> tuple[int, dict[str, int]]:
    """Makes a context and loads a kernel that holds and one that releases it; returns context and function ids."""
    context = rig.context()
    return context, rig.load(context, "kernel hold behaviour=hold\nkernel release behaviour=release")


# ---- start and stop --------------------------------------------------------------------------------


def test_requests_published_before_the_start_are_served() -> None:
    with plane_rig(start=False) as rig:
        pending = rig.driver.submit(Opcode.NOP)
        rig.start()
        assert rig.driver.wait(pending).status is Status.OK


def test_a_stopped_ring_goes_on_at_its_base(rig: Rig) -> None:
    for _ in range(3):
        rig.ok(Opcode.NOP)
    assert rig.plane.stop_queue(0) == 3
    pending = rig.driver.submit(Opcode.NOP)
    assert not is_served(rig, pending)
    rig.start(base=3)
    assert rig.driver.wait(pending).status is Status.OK


def test_requests_in_flight_over_a_pause_are_returned_afterwards(rig: Rig) -> None:
    context, ids = hold(rig)
    launch = rig.driver.submit(Opcode.LAUNCH, LAUNCH | {"function": ids["hold"]}, context=context)
    rig.ok(Opcode.NOP)
    base = rig.plane.stop_queue(0)
    rig.ok(Opcode.LAUNCH, LAUNCH | {"function": ids["release"]}, context=context, stream=1, queue=1)
    rig.ok(Opcode.NOP, context=context, queue=1)  # behind the held launch, so that one has ended
    assert rig.driver.queues[0].poll() == []
    assert rig.usage().in_flight == 1
    rig.start(base=base)
    assert rig.driver.wait(launch).status is Status.OK


def test_a_ring_with_requests_in_flight_starts_only_where_it_was(rig: Rig) -> None:
    context, ids = hold(rig)
    rig.driver.submit(Opcode.LAUNCH, LAUNCH | {"function": ids["hold"]}, context=context)
    rig.ok(Opcode.NOP)
    base = rig.plane.stop_queue(0)
    with pytest.raises(DataPlaneError, match="1 requests of its earlier ring"):
        rig.start(base=base + 1)
    rig.start(base=base)
    rig.ok(Opcode.NOP)


def test_a_ring_starts_only_once(rig: Rig) -> None:
    with pytest.raises(DataPlaneError, match="is running already"):
        rig.start()


def test_a_ring_that_does_not_run_cannot_be_stopped() -> None:
    with plane_rig(start=False) as rig, pytest.raises(DataPlaneError, match="does not run"):
        rig.plane.stop_queue(0)


def test_a_disabled_ring_is_not_served_until_enabled(rig: Rig) -> None:
    rig.plane.enable_queue(0, False)
    pending = rig.driver.submit(Opcode.NOP)
    assert not is_served(rig, pending)
    rig.plane.enable_queue(0, True)
    assert rig.driver.wait(pending).status is Status.OK


@pytest.mark.parametrize("event_idx", [True, False])
@pytest.mark.parametrize("indirect", [True, False])
def test_rings_work_with_and_without_features(event_idx: bool, indirect: bool) -> None:
    with plane_rig(start=False) as rig:
        rig.driver.close()
        rig.driver.__init__(rig.region, num_queues=1, event_idx=event_idx, indirect=indirect)  # type: ignore[misc]
        rig.start(event_idx=event_idx, indirect=indirect)
        for _ in range(300):  # more than once around
            rig.ok(Opcode.NOP)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 0}, "power of two"),
        ({"size": 100}, "power of two"),
        ({"size": 512}, "power of two"),
        ({"size": 1 << 15}, "power of two"),
        ({"desc_uva": 0}, "outside the memory table"),
        ({"avail_uva": (1 << 64) - 2}, "outside the memory table"),
        ({"used_uva": (1 << 64) - 4}, "outside the memory table"),
    ],
)
def test_misplaced_rings_are_refused(changes: dict[str, Any], message: str) -> None:
    with plane_rig(start=False) as rig:
        with pytest.raises(DataPlaneError, match=message):
            rig.start(**changes)
        rig.start()
        rig.ok(Opcode.NOP)


@pytest.mark.parametrize(("part", "by"), [("desc_uva", 8), ("avail_uva", 1), ("used_uva", 2)])
def test_unaligned_rings_are_refused(part: str, by: int) -> None:
    with plane_rig(start=False) as rig:
        at = getattr(rig.driver.queues[0].at, part.removesuffix("_uva"))
        with pytest.raises(DataPlaneError, match="misaligned or overlap"):
            rig.start(**{part: rig.region.uva + at + by})


def test_overlapping_rings_are_refused() -> None:
    with plane_rig(start=False) as rig, pytest.raises(DataPlaneError, match="misaligned or overlap"):
        rig.start(used_uva=rig.region.uva + rig.driver.queues[0].at.desc)


def test_a_ring_beyond_the_last_is_refused(rig: Rig) -> None:
    with pytest.raises(DataPlaneError, match=r"vring 2; allowed: 0\.\.1"):
        rig.plane.start_queue(_message(rig, 2), RingFds())


def _message(rig: Rig, index: int) -> Any:
    return ring_message(rig.region, rig.driver.queues[0].at, index, 0)


# ---- eventfds --------------------------------------------------------------------------------------


def test_calls_go_to_the_new_eventfd_after_a_swap(rig: Rig) -> None:
    queue = rig.driver.queues[0]
    fresh = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    rig.plane.set_call(0, os.dup(fresh))
    old, queue.call_fd = queue.call_fd, fresh
    os.close(old)
    rig.ok(Opcode.NOP)


def test_a_swap_of_the_call_eventfd_loses_no_call(rig: Rig) -> None:
    """A call on the old eventfd is repeated on the new one."""
    fresh = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    rig.plane.set_call(0, os.dup(fresh))
    assert os.eventfd_read(fresh) == 1
    os.close(fresh)


def _full_eventfd() -> tuple[int, int]:
    fd = os.eventfd(0, os.EFD_CLOEXEC)
    os.eventfd_write(fd, (1 << 64) - 2)
    return fd, fd


def _full_pipe() -> tuple[int, int]:
    reading, writing = os.pipe()
    return reading, _filled(writing)


def _full_socket() -> tuple[int, int]:
    reading, writing = socket.socketpair()
    return reading.detach(), _filled(writing.detach())


def _filled(writing: int) -> int:
    """Writes until there is no room, and makes the descriptor a blocking one again."""
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(8))
    os.set_blocking(writing, True)
    return writing


@pytest.mark.parametrize("make", [_full_eventfd, _full_pipe, _full_socket])
def test_a_call_without_room_stops_no_queue(rig: Rig, make: Callable[[], tuple[int, int]]) -> None:
    reading, writing = make()
    rig.plane.set_call(0, os.dup(writing))
    pending = rig.driver.submit(Opcode.NOP)
    rig.ok(Opcode.NOP, queue=1)
    while not rig.driver.queues[0].poll():
        rig.ok(Opcode.NOP, queue=1)
    assert pending.reply is not None
    codec.close_fds({reading, writing})


@pytest.mark.parametrize("make", [os.pipe, lambda: tuple(end.detach() for end in socket.socketpair())])
def test_calls_go_through_a_pipe_or_a_socket(rig: Rig, make: Callable[[], tuple[int, int]]) -> None:
    reading, writing = make()
    rig.plane.set_call(0, writing)
    assert os.read(reading, 64) == CALL
    pending = rig.driver.submit(Opcode.NOP)
    assert os.read(reading, 64) == CALL
    assert rig.driver.queues[0].poll()
    assert pending.reply is not None
    os.close(reading)
    rig.driver.submit(Opcode.NOP)  # a call that nobody can read
    rig.ok(Opcode.NOP, queue=1)


def test_the_flags_of_a_call_eventfd_stay_as_they_are(rig: Rig) -> None:
    """A frontend may sleep in read(): it shares the flags."""
    fd = os.eventfd(0, os.EFD_CLOEXEC)
    rig.plane.set_call(0, os.dup(fd))
    rig.driver.submit(Opcode.NOP)
    assert os.eventfd_read(fd) > 0
    assert os.get_blocking(fd)
    os.close(fd)


def test_kicks_on_the_new_eventfd_wake_after_a_swap(rig: Rig) -> None:
    queue = rig.driver.queues[0]
    fresh = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    rig.plane.set_kick(0, os.dup(fresh))
    old, queue.kick_fd = queue.kick_fd, fresh
    os.close(old)
    rig.ok(Opcode.NOP)


def test_a_ring_without_kicks_is_polled(rig: Rig) -> None:
    rig.plane.set_kick(0, -1)
    pending = rig.driver.submit(Opcode.NOP, kick=False)
    assert rig.driver.wait(pending).status is Status.OK


def test_a_ring_without_call_eventfd_is_served_silently(rig: Rig) -> None:
    rig.plane.set_call(0, -1)
    pending = rig.driver.submit(Opcode.NOP)
    rig.ok(Opcode.NOP, queue=1)
    while not rig.driver.queues[0].poll():
        rig.ok(Opcode.NOP, queue=1)
    assert pending.reply is not None


def test_a_sleeping_data_plane_stays_asleep(rig: Rig) -> None:
    rig.ok(Opcode.NOP)
    plane = Path(f"/proc/self/task/{rig.thread.native_id}")
    until(lambda: sleeps_for_good(plane))


def test_spinning_ends() -> None:
    with plane_rig(replace(LIMITS, spin_ns=1000)) as rig:
        rig.ok(Opcode.NOP)
        while rig.plane.sleeps() == 0:
            rig.ok(Opcode.NOP)


# ---- memory ----------------------------------------------------------------------------------------


def test_a_region_that_moves_keeps_its_rings(rig: Rig) -> None:
    """When the guest moves the BAR, the table is empty, and then has the same file at a new address."""
    rig.plane.set_memory([], [])
    pending = rig.driver.submit(Opcode.NOP)
    assert not is_served(rig, pending)
    rig.set_memory()
    assert rig.driver.wait(pending).status is Status.OK


def test_requests_that_end_while_the_region_is_away_are_returned_later(rig: Rig) -> None:
    context, ids = hold(rig)
    launch = rig.driver.submit(Opcode.LAUNCH, LAUNCH | {"function": ids["hold"]}, context=context)
    rig.ok(Opcode.NOP)
    rig.driver.submit(Opcode.LAUNCH, LAUNCH | {"function": ids["release"]}, context=context, stream=1, queue=1)
    rig.plane.set_memory([], [])
    rig.set_memory()
    assert rig.driver.wait(launch).status is Status.OK


def test_memory_in_use_by_requests_cannot_be_replaced(rig: Rig) -> None:
    context, ids = hold(rig)
    rig.driver.submit(Opcode.LAUNCH, LAUNCH | {"function": ids["hold"]}, context=context)
    rig.ok(Opcode.NOP)
    other = os.memfd_create("other")
    os.ftruncate(other, rig.region.size)
    entry = MemRegion(rig.region.gpa, rig.region.uva, rig.region.size, 0)
    with pytest.raises(DataPlaneError, match="1 requests in flight"):
        rig.plane.set_memory([entry], [other])
    os.close(other)
    rig.ok(Opcode.NOP)


@pytest.mark.parametrize(("size", "offset"), [(1 << 21, 0), (1 << 20, 4096), (1, (1 << 62) - 1), ((1 << 62) - 1, 1)])
def test_a_region_longer_than_its_file_is_refused(rig: Rig, size: int, offset: int) -> None:
    entry = MemRegion(rig.region.gpa, rig.region.uva, size, offset)
    with pytest.raises(DataPlaneError, match="in a file of 1048576 bytes"):
        rig.plane.set_memory([entry], [rig.region.fd])
    rig.ok(Opcode.NOP)


def test_a_truncated_region_breaks_the_rings_and_nothing_else() -> None:
    with plane_rig() as rig:
        rig.ok(Opcode.NOP)
        os.ftruncate(rig.region.fd, 0)
        os.eventfd_write(rig.driver.queues[0].kick_fd, 1)
        index, why = broken(rig)
        assert (index, why) == (0, "the file behind the VM's region was truncated")
        assert broken(rig)[0] == 1
        assert os.eventfd_read(rig.err_fds[0]) == 1
        os.ftruncate(rig.region.fd, rig.region.size)


def test_a_request_in_a_truncated_part_of_the_region_is_survived() -> None:
    with plane_rig() as rig:
        end = rig.region.size - 4096
        gone = Block(end, 24, rig.region.gpa + end)
        response = rig.region.allocate(RESPONSE_BYTES)
        os.ftruncate(rig.region.fd, end)
        rig.driver.queues[0].add([gone], [response])
        assert broken(rig)[1] == "the file behind the VM's region was truncated"
        (pending,) = rig.driver.queues[0].poll()
        assert pending.reply is not None
        assert pending.reply.status is Status.UNSUPPORTED  # opcode 0, since the page reads as zeros
        os.ftruncate(rig.region.fd, rig.region.size)


# ---- broken rings ----------------------------------------------------------------------------------


def test_an_avail_index_that_jumps_breaks_only_its_ring(rig: Rig) -> None:
    rig.driver.queues[0].raw.avail_idx = 129
    rig.driver.queues[0].kick()
    index, why = broken(rig)
    assert (index, "out of range" in why) == (0, True)
    assert os.eventfd_read(rig.err_fds[0]) == 1
    rig.ok(Opcode.NOP, queue=1)


def test_a_broken_ring_works_again_after_a_restart(rig: Rig) -> None:
    queue = rig.driver.queues[0]
    queue.raw.avail_idx = 129
    queue.kick()
    broken(rig)
    rig.plane.stop_queue(0)
    queue.raw.avail_idx = 0
    rig.start()
    assert isinstance(rig.ok(Opcode.NOP), Reply)
