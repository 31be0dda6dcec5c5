"""Copies and calls whose buffers are larger than the shared region, or find it full."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import guest_driver as vgc
from tests.fakes.device import Answer, Ask, FakeDevice, FakeFunction
from tests.fakes.guest import GuestProcess
from tests.fakes.link import GuestLink
from tests.unit.guest_rig import dev, fake
from virtio_proto.schema import Opcode, Status

__all__ = ["dev", "fake"]

REGION_BYTES = 1 << 19
LARGE_BYTES = 16 * REGION_BYTES + 12_345
LARGE = random.Random(0).randbytes(LARGE_BYTES)
INLINE_BYTES = 4096
"""Most bytes of a copy that lie in its request."""


@pytest.fixture
def link() -> Iterator[GuestLink]:
    with GuestLink(region_bytes=REGION_BYTES, quota_memory_bytes=8 * LARGE_BYTES) as link:
        yield link


def fill_region(dev: vgc.Device) -> list[object]:
    """Takes all of the region, until what is returned is gone."""
    held: list[object] = []
    for size in (64 << 10, 256):
        with suppress(vgc.ResourcesExhausted):
            while True:
                held.append(dev.region_buffer(size))
    return held


# ---- copies --------------------------------------------------------------------------------------


def test_copy_of_sixteen_regions_keeps_every_byte(dev: vgc.Device) -> None:
    memory = dev.alloc(LARGE_BYTES)
    memory.write(LARGE)
    assert memory.read() == LARGE


def test_copy_of_sixteen_regions_in_a_stream_keeps_every_byte(dev: vgc.Device) -> None:
    memory, back = dev.alloc(LARGE_BYTES), bytearray(LARGE_BYTES)
    with dev.stream() as stream:
        memory.write(LARGE, stream=stream)
        memory.read_into(back, stream=stream)
    assert back == LARGE


@pytest.mark.parametrize("size", [4097, 300_001])
@pytest.mark.parametrize("in_stream", [False, True])
def test_copy_in_a_full_region_travels_in_its_requests(
    dev: vgc.Device, fake: FakeDevice, size: int, *, in_stream: bool
) -> None:
    held = fill_region(dev)
    memory, back = dev.alloc(size), bytearray(size)
    before = len(fake.seen)
    with dev.stream() as stream:
        memory.write(LARGE[:size], stream=stream if in_stream else None)
        memory.read_into(back, stream=stream if in_stream else None)
    assert held
    assert back == LARGE[:size]
    assert max(ask.body.size for ask in fake.seen[before:] if ask.opcode == Opcode.COPY_IN) == INLINE_BYTES


def test_copy_uses_what_other_copies_have_given_back(dev: vgc.Device, fake: FakeDevice) -> None:
    memory = dev.alloc(300_001)
    held = fill_region(dev)
    held.clear()
    before = len(fake.seen)
    memory.write(LARGE[:300_001])
    assert max(ask.body.size for ask in fake.seen[before:]) > INLINE_BYTES


def test_failed_piece_before_the_last_fails_the_copy_in_a_stream(dev: vgc.Device, fake: FakeDevice) -> None:
    memory = dev.alloc(LARGE_BYTES)
    bad = Answer(Status.INVALID_ADDRESS, b"piece refused")
    fake.override[Opcode.COPY_IN] = lambda ask: bad if ask.body.dst > memory.address + REGION_BYTES else None
    with dev.stream() as stream:
        with pytest.raises(vgc.InvalidAddress, match="piece refused"):
            memory.write(LARGE, stream=stream)
        stream.forget()
    fake.override.clear()
    memory.write(LARGE)
    assert memory.read() == LARGE


HALF = """
import numpy as np
held = []
try:
    while len(held) < {chunks}:
        held.append(dev.region_buffer(64 << 10))
except vgc.ResourcesExhausted:
    pass
say(len(held))
hear()
data = np.random.default_rng({chunks}).integers(0, 256, 3 << 20, "uint8")
memory = dev.alloc(len(data))
memory.write(data)
say(memory.read() == data.tobytes())
"""


def test_processes_that_hold_half_of_the_region_each_copy_more_than_all_of_it(tmp_path: Path) -> None:
    """None waits for what the other has."""
    with (
        GuestLink(region_bytes=2 << 20) as link,
        FakeDevice(link),
        GuestProcess(link, tmp_path, HALF.format(chunks=4)) as one,
    ):
        one.expect("4")
        with GuestProcess(link, tmp_path, HALF.format(chunks=1000)) as two:
            assert two.process.stdout is not None
            assert 0 < int(two.process.stdout.readline()) < 32, "the rest"
            for process in (one, two):
                process.tell("go")
            for process in (one, two):
                process.expect("True")
                assert process.wait() == 0


# ---- calls ---------------------------------------------------------------------------------------


def combine(fake: FakeDevice) -> list[Ask]:
    """Has calls of `combine` add their first buffer, of device memory, to the second; the third gets its size."""
    asks: list[Ask] = []

    def call(ask: Ask) -> Answer:
        asks.append(ask)
        addresses = np.frombuffer(ask.rest[-24:], "<u8")
        first, second, third = (np.frombuffer(fake.memory[int(address)], "uint8") for address in addresses)
        assert not third.any(), "an output begins as zeroes"
        second += first
        third[:] = 7
        return Answer()

    fake.functions = [FakeFunction("combine", (8, 8, 8))]
    fake.override[Opcode.CALL] = call
    return asks


def test_call_with_sixteen_regions_of_buffers_goes_over_device_memory(dev: vgc.Device, fake: FakeDevice) -> None:
    asks = combine(fake)
    dev.compile("source")
    one = np.frombuffer(LARGE, "uint8")
    two, three = one[::-1].copy(), np.ones(5, "uint8")
    dev.call("combine", grid=1, block=1, args=[vgc.In(one), vgc.InOut(two), vgc.Out(three)])
    assert np.array_equal(two, one + one[::-1])
    assert three.tolist() == [7] * 5
    assert len(asks) == 1
    assert fake.memory == {}


def test_failed_call_over_device_memory_tells_why_and_gives_it_back(dev: vgc.Device, fake: FakeDevice) -> None:
    fake.functions = [FakeFunction("combine", (8,))]
    fake.override[Opcode.CALL] = lambda _: Answer(Status.LAUNCH_FAILED, b"it fell over")
    dev.compile("source")
    data = np.zeros(LARGE_BYTES, "uint8")
    with pytest.raises(vgc.LaunchFailed, match="it fell over"):
        dev.call("combine", grid=1, block=1, args=[vgc.InOut(data)])
    assert not data.any()
    assert fake.memory == {}
    assert fake.opcodes().count(Opcode.CALL) == 1


def test_call_in_a_stream_needs_room_in_the_region(dev: vgc.Device, fake: FakeDevice) -> None:
    combine(fake)
    dev.compile("source")
    args = [vgc.In(LARGE), vgc.InOut(bytearray(LARGE)), vgc.Out(bytearray(5))]
    with dev.stream() as stream, pytest.raises(vgc.ResourcesExhausted, match="8400953 bytes, the shared region 524288"):
        dev.call("combine", grid=1, block=1, args=args, stream=stream)
    assert Opcode.CALL not in fake.opcodes()


def test_refusal_by_the_host_is_not_a_reason_to_call_again(dev: vgc.Device, fake: FakeDevice) -> None:
    fake.functions = [FakeFunction("combine", (8,))]
    fake.override[Opcode.CALL] = lambda _: Answer(Status.RESOURCES_EXHAUSTED, b"no room on the host")
    dev.compile("source")
    with pytest.raises(vgc.ResourcesExhausted, match="no room on the host"):
        dev.call("combine", grid=1, block=1, args=[vgc.In(bytes(100))])
    assert fake.opcodes().count(Opcode.CALL) == 1
