"""Rules of docs/device.md that bind the driver in every request alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import guest_driver as vgc
from tests.fakes.device import Ask, FakeDevice
from tests.fakes.ring import DeviceRing
from tests.unit.guest_rig import dev, fake, link
from virtio_proto import schema
from virtio_proto.schema import Opcode

__all__ = ["dev", "fake", "link"]


def use_everything(dev: vgc.Device) -> None:
    """Sends at least one request of every kind that the driver has a function for."""
    dev.nop()
    dev.usage()
    memory = dev.alloc(4096)
    memory.write(b"x" * 4096)
    memory.fill_bytes(b"x")
    memory.read(10)
    program = dev.compile("source")
    program.saxpy.launch((1,), (1,), 1, 2.5, memory, memory)
    stream, event = dev.stream(), dev.event()
    event.record(stream)
    stream.wait_for(event)
    stream.synchronize()
    program.unload()
    memory.free()


def test_flags_and_reserved_fields_are_zero(dev: vgc.Device, fake: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Opcode, list[int]]] = []
    read = fake._read

    def look(ring: DeviceRing) -> Ask:
        ask = read(ring)
        memory = fake.link.region.memory
        data = b"".join(memory[at : at + size] for at, size in ring.popped().readable)
        head: Any = schema.REQUEST.construct.parse(data)
        zeros = [head.flags, head.reserved]
        if ask.body is not None:
            zeros += [ask.body[name] for name in ask.body if name == "reserved"]
        seen.append((ask.opcode, zeros))
        return ask

    monkeypatch.setattr(fake, "_read", look)
    use_everything(dev)

    assert {opcode for opcode, zeros in seen if any(zeros)} == set()
    assert {Opcode.NOP, Opcode.QUERY, Opcode.FILL, Opcode.LAUNCH, Opcode.EVENT_WAIT} <= {opcode for opcode, _ in seen}


def test_buffers_of_the_caller_are_sent_from_the_region(dev: vgc.Device, fake: FakeDevice) -> None:
    """Memory outside the region, such as this array, is staged: the fake device sees nothing else of the guest."""
    data = np.arange(100_000, dtype=np.uint8)
    memory = dev.alloc(data.nbytes)
    memory.write(data)

    assert np.array_equal(np.frombuffer(memory.read(), np.uint8), data)
    assert Opcode.COPY_IN in fake.opcodes()
