"""The fake driver's own rules, against vring.c's device side in this process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from tests.fakes.driver import (
    RESPONSE_BYTES,
    UNWRITTEN,
    DeviceMisbehavedError,
    DriverTimeoutError,
    FakeDriver,
    RingFullError,
    pack_request,
)
from tests.fakes.region import Region, RegionFullError
from tests.fakes.ring import DeviceRing
from virtio_proto import schema
from virtio_proto._vring import lib
from virtio_proto.schema import Opcode, Status


@pytest.fixture
def region() -> Iterator[Region]:
    with Region(1 << 20) as region:
        yield region


@pytest.fixture(params=[True, False], ids=["indirect", "direct"])
def driver(region: Region, request: pytest.FixtureRequest) -> Iterator[FakeDriver]:
    with FakeDriver(region, queue_size=16, indirect=request.param) as driver:
        yield driver


def device_of(driver: FakeDriver) -> DeviceRing:
    return DeviceRing(driver.region, driver.queues[0].at, event_idx=driver.event_idx, indirect=driver.indirect)


def response(status: Status, payload: bytes = b"", value: int = 0) -> bytes:
    fields = dict.fromkeys((f.name for f in schema.fields(schema.RESPONSE)), 0)
    fields |= {"status": status, "value": value, "payload_len": len(payload)}
    return schema.RESPONSE.construct.build(fields) + payload


def answer(device: DeviceRing, data: bytes, used_len: int | None = None) -> bytes:
    """Answers one chain with `data` and returns the chain's readable bytes."""
    assert device.pop() == 1
    chain = device.popped()
    memory = device.region.memory
    asked = b"".join(memory[offset : offset + size] for offset, size in chain.readable)
    rest = data
    for offset, size in chain.writable:
        memory[offset : offset + min(size, len(rest))] = rest[:size]
        rest = rest[size:]
    assert device.push(chain.head, len(data) if used_len is None else used_len) == 0
    return asked


def test_request_reaches_the_device_as_one_stream(driver: FakeDriver) -> None:
    pending = driver.submit(
        Opcode.FILL, {"dst": 0x1000, "size": 8, "unit": 4}, b"name", b"payload", context=3, cuts=(5, 30)
    )
    asked = answer(device_of(driver), response(Status.OK, value=7))

    body = schema.BODY_FILL.construct.build({"dst": 0x1000, "size": 8, "value": 0, "unit": 4, "reserved": 0})
    header = pack_request(Opcode.FILL, context=3, request_id=1)
    assert asked == header + body + b"name" + b"payload"
    reply = driver.wait(pending)
    assert (reply.status, reply.value, reply.used_len) == (Status.OK, 7, RESPONSE_BYTES)


def test_payload_and_error_text_come_back(driver: FakeDriver) -> None:
    pending = driver.submit(Opcode.NOP, writable_len=100)
    answer(device_of(driver), response(Status.NOT_FOUND, b"no function 'f'"))

    reply = driver.wait(pending)
    assert reply.status is Status.NOT_FOUND
    assert reply.text == "no function 'f'"
    assert reply.raw[-1] == UNWRITTEN


def test_unwritten_response_is_a_bad_request(driver: FakeDriver) -> None:
    pending = driver.submit(Opcode.NOP)
    answer(device_of(driver), b"")

    assert driver.wait(pending).status is Status.BAD_REQUEST


def test_blocks_of_the_caller_are_used_in_place(driver: FakeDriver, region: Region) -> None:
    source, target = region.allocate(64), region.allocate(64)
    region.write(source, b"s" * 64)
    pending = driver.submit(Opcode.NOP, payload_in=source, payload_out=target)
    asked = answer(device_of(driver), response(Status.OK, b"t" * 64))

    assert asked.endswith(b"s" * 64)
    assert driver.wait(pending).payload == b"t" * 64
    assert region.read(target) == b"t" * 64


def test_memory_of_finished_requests_is_free_again(driver: FakeDriver, region: Region) -> None:
    free = region.free_bytes
    device = device_of(driver)
    for _ in range(40):
        pending = driver.submit(Opcode.NOP, payload_in=b"x" * 1000, writable_len=1000)
        answer(device, response(Status.OK))
        assert driver.wait(pending).status is Status.OK

    assert region.free_bytes == free


def test_waiting_sleeps_until_the_device_calls(driver: FakeDriver) -> None:
    device = device_of(driver)
    lib.vgc_vq_enable_kick(device.vq)
    pending = driver.submit(Opcode.NOP)
    assert os.eventfd_read(driver.queues[0].kick_fd) == 1

    def serve() -> None:
        answer(device, response(Status.OK))
        if lib.vgc_vq_should_call(device.vq):
            os.eventfd_write(driver.queues[0].call_fd, 1)

    server = threading.Thread(target=serve)
    server.start()
    assert driver.wait(pending).status is Status.OK
    server.join()


def test_silent_device_times_out(driver: FakeDriver) -> None:
    pending = driver.submit(Opcode.NOP)

    with pytest.raises(DriverTimeoutError, match="1 requests in flight"):
        driver.wait(pending, timeout_s=0.0)


def test_full_ring_leaves_everything_as_it_was(driver: FakeDriver, region: Region) -> None:
    queue = driver.queues[0]
    while True:
        free = region.free_bytes
        try:
            driver.submit(Opcode.NOP)
        except RingFullError:
            break

    assert queue.num_free == 0
    assert region.free_bytes == free


def test_head_that_was_never_in_flight_is_detected(driver: FakeDriver) -> None:
    queue = driver.queues[0]
    driver.submit(Opcode.NOP)
    queue.raw.set_used_entry(0, 15, 0)
    queue.raw.used_idx = 1

    with pytest.raises(DeviceMisbehavedError, match="15"):
        queue.poll()


def test_misspelt_field_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no fields \['dest'\]"):
        pack_request(Opcode.FILL, {"dest": 1})


def test_region_allocates_all_its_memory_and_merges_freed_blocks(region: Region) -> None:
    blocks = [region.allocate(region.size // 4) for _ in range(4)]
    with pytest.raises(RegionFullError):
        region.allocate(1)
    for block in (blocks[2], blocks[0], blocks[3], blocks[1]):
        region.release(block)

    assert region.allocate(region.size).offset == 0
