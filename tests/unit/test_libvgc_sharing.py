"""Memory and events that processes share, in libvgc and its binding: what reaches the device, and what comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

import guest_driver as vgc
from tests.fakes.device import SILENCE, Answer, FakeDevice
from tests.fakes.guest import GuestProcess, open_device
from tests.fakes.link import GuestLink
from tests.unit.guest_rig import dev, fake, link
from virtio_proto.schema import Opcode, Status

__all__ = ["dev", "fake", "link"]

FORGED = bytes(range(16))


def test_memory_is_exported_opened_and_closed(
    dev: vgc.Device, fake: FakeDevice, link: GuestLink, tmp_path: Path
) -> None:
    memory = dev.alloc(1000)
    memory.write(bytes(1000))
    with open_device(link, tmp_path) as other:
        opened = other.open_memory(memory.export())
        assert (opened.address, opened.nbytes) == (memory.address, 1000)
        opened.fill_bytes(b"\7")
        assert memory.read() == b"\7" * 1000
        opened.free()
        assert fake.seen[-1].opcode is Opcode.MEMORY_CLOSE
        assert fake.seen[-1].body.address == memory.address
        with pytest.raises(ValueError, match="was freed"):
            opened.read()
    assert memory.read() == b"\7" * 1000


def test_opened_memory_is_not_counted_twice(dev: vgc.Device, link: GuestLink, tmp_path: Path) -> None:
    """Memory counts for the process that has allocated it, and for no other."""
    quota = dev.info().memory_bytes
    memory = dev.alloc(quota - 100)
    with open_device(link, tmp_path) as other:
        opened, rest = other.open_memory(memory.export()), other.alloc(100)
        assert opened.nbytes + rest.nbytes == quota
        with pytest.raises(vgc.OutOfMemory, match="0 of"):
            other.alloc(1)


def test_memory_that_was_not_allocated_here_is_not_freed_here(dev: vgc.Device, link: GuestLink, tmp_path: Path) -> None:
    memory = dev.alloc(1000)
    with open_device(link, tmp_path) as other:
        opened = other.open_memory(memory.export())
        with pytest.raises(vgc.InvalidAddress, match="of this process"):
            vgc._lib.check(vgc._lib.lib.vgc_free(other._handle.pointer, opened.address))


def test_refusals_of_the_device_reach_the_program(dev: vgc.Device) -> None:
    for key in (FORGED, bytes(16)):
        with pytest.raises(vgc.NotFound, match="nothing has this key"):
            dev.open_memory(key)
        with pytest.raises(vgc.NotFound, match="nothing has this key"):
            dev.open_event(key)
    with pytest.raises(vgc.InvalidArgument, match="own"):
        dev.open_memory(dev.alloc(1).export())
    with pytest.raises(ValueError, match="a key of 3 bytes; allowed: 16"):
        dev.open_memory(b"key")


@pytest.mark.parametrize("opcode", [Opcode.MEMORY_EXPORT, Opcode.EVENT_EXPORT])
def test_limit_of_the_device_reaches_the_program(dev: vgc.Device, fake: FakeDevice, opcode: Opcode) -> None:
    fake.override[opcode] = lambda _: Answer(Status.RESOURCES_EXHAUSTED, b"4096 are shared")
    exporting = dev.alloc(1) if opcode is Opcode.MEMORY_EXPORT else dev.event()
    with pytest.raises(vgc.ResourcesExhausted, match="4096 are shared"):
        exporting.export()


def test_record_of_a_shared_event_returns_when_the_device_has_taken_it(dev: vgc.Device, fake: FakeDevice) -> None:
    event = dev.event()
    event.record().synchronize()
    assert fake.opcodes()[-1] is Opcode.EVENT_RECORD
    event.export()
    event.record()
    assert fake.opcodes()[-2:] == [Opcode.EVENT_RECORD, Opcode.EVENT_QUERY]


def test_shared_event_is_asked_of_the_device(
    dev: vgc.Device, fake: FakeDevice, link: GuestLink, tmp_path: Path
) -> None:
    event = dev.event()
    event.record()
    with open_device(link, tmp_path) as other:
        opened = other.open_event(event.export())
        for each in (event, opened):
            assert each.happened()
            each.synchronize()
            assert fake.opcodes()[-2:] == [Opcode.EVENT_QUERY, Opcode.EVENT_SYNC]
        fake.override[Opcode.EVENT_QUERY] = lambda _: Answer(value=0)
        assert not event.happened()
        assert not opened.happened()
        opened.close()
        assert fake.opcodes()[-1] is Opcode.EVENT_DESTROY


def test_synchronize_waits_for_the_device_and_not_for_its_own_older_record(dev: vgc.Device, fake: FakeDevice) -> None:
    """Records of other processes count: a later one of theirs may have happened already."""
    event = dev.event()
    event.export()
    fake.override[Opcode.EVENT_RECORD] = lambda _: SILENCE
    event.record()
    event.synchronize()
    assert event.happened()
    fake.answer_silenced(Answer(Status.FAULT, b"the work has failed"))
    with pytest.raises(vgc.KernelFault, match="the work has failed"):
        event.synchronize()


def test_allocation_makes_room_by_the_end_of_dead_processes(
    dev: vgc.Device, fake: FakeDevice, link: GuestLink, tmp_path: Path
) -> None:
    """A dead process may keep memory that its owner has freed, so the device is asked again once it is reaped."""
    with GuestProcess(link, tmp_path, "say('ready')\nhear()") as process:
        process.expect("ready")
        process.kill()
    full = len(fake.contexts)

    def refuse(_: object) -> Answer | None:
        return Answer(Status.OUT_OF_MEMORY, b"no memory left") if len(fake.contexts) == full else None

    fake.override[Opcode.ALLOC] = refuse
    memory = dev.alloc(100)
    assert memory.nbytes == 100
    assert fake.opcodes()[-3:] == [Opcode.ALLOC, Opcode.CONTEXT_DESTROY, Opcode.ALLOC]


def test_refused_allocation_is_asked_once_if_nobody_has_died(dev: vgc.Device, fake: FakeDevice) -> None:
    fake.override[Opcode.ALLOC] = lambda _: Answer(Status.OUT_OF_MEMORY, b"no memory left")
    with pytest.raises(vgc.OutOfMemory, match="no memory left"):
        dev.alloc(100)
    assert fake.opcodes()[-2:] != [Opcode.ALLOC, Opcode.ALLOC]
