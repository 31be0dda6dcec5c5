"""libvgc and a quota that the host changes: how it hears of it, takes it, and acknowledges it."""

from __future__ import annotations

from pathlib import Path

import pytest

import guest_driver as vgc
from tests.fakes.device import SILENCE, Answer, FakeDevice
from tests.fakes.guest import GuestProcess, open_device
from tests.fakes.link import GuestLink
from tests.unit.guest_rig import dev, fake, link
from virtio_proto.schema import Opcode

__all__ = ["dev", "fake", "link"]

MEMORY_BYTES = 1 << 24
"""Quota of the link, unless told otherwise."""


def change(link: GuestLink, fake: FakeDevice | None = None, **limits: int) -> None:
    """Gives the guest other limits, whose number the device's answers bear if there is one."""
    number = link.config["allotment"] + 1
    link.set_config(allotment=number, driver_ack=0, **limits)
    if fake is not None:
        fake.allotment = number


def test_open_acknowledges_the_allotment(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    assert fake.link is link
    link.set_config(allotment=5)
    with open_device(link, tmp_path):
        assert link.acknowledged == 5


def test_reset_acknowledges_it_again(dev: vgc.Device, link: GuestLink) -> None:
    link.set_config(driver_ack=0, generation=2)
    dev.reset()
    assert link.acknowledged == 1


def test_answer_with_another_number_has_the_limits_taken(dev: vgc.Device, link: GuestLink, fake: FakeDevice) -> None:
    change(link, fake, quota_memory_bytes=4096)
    assert link.acknowledged == 0
    dev.nop()
    assert link.acknowledged == 2
    with pytest.raises(vgc.ResourcesExhausted, match="asked 8192, 4096 of 4096 bytes free"):
        dev.alloc(8192)
    assert fake.seen[-1].opcode is not Opcode.ALLOC


def test_number_that_does_not_rise_changes_nothing(dev: vgc.Device, link: GuestLink, fake: FakeDevice) -> None:
    change(link, fake, quota_memory_bytes=4096)
    dev.nop()
    for number in (1, 0, 2):
        fake.allotment = number
        link.set_config(driver_ack=0)
        dev.nop()
        assert link.acknowledged == 0


def test_memory_is_looked_for_before_it_is_refused(dev: vgc.Device, link: GuestLink) -> None:
    """The device has not answered anything since its quota rose."""
    change(link, quota_memory_bytes=4 * MEMORY_BYTES)
    dev.alloc(2 * MEMORY_BYTES)
    assert link.acknowledged == 2


def test_lower_memory_leaves_what_is_allocated(dev: vgc.Device, link: GuestLink, fake: FakeDevice) -> None:
    first, second = dev.alloc(1 << 20), dev.alloc(1 << 20)
    change(link, fake, quota_memory_bytes=1 << 20)
    dev.nop()
    with pytest.raises(vgc.ResourcesExhausted, match="asked 4096, 0 of 1048576 bytes free"):
        dev.alloc(4096)
    first.write(bytes(1 << 20))
    second.free()
    with pytest.raises(vgc.ResourcesExhausted):
        dev.alloc(4096)
    first.free()
    dev.alloc(4096)


def test_streams_follow_the_limit(dev: vgc.Device, link: GuestLink) -> None:
    streams = [dev.stream() for _ in range(7)]
    with pytest.raises(vgc.ResourcesExhausted, match="all 8 streams are in use"):
        dev.stream()
    change(link, max_streams=9)
    streams.append(dev.stream())
    assert link.acknowledged == 2


def test_queue_depth_follows_the_limit(dev: vgc.Device, link: GuestLink, fake: FakeDevice) -> None:
    change(link, fake, queue_depth=2)
    dev.nop()
    fake.override[Opcode.FILL] = lambda _: SILENCE
    memory, stream = dev.alloc(64), dev.stream()
    jobs = [memory.fill_bytes(b"x", stream) for _ in range(2)]
    with pytest.raises(vgc.ResourcesExhausted, match="2 requests of this VM are in flight and its quota is 2"):
        memory.fill_bytes(b"x", stream)
    fake.answer_silenced(Answer(), count=2)
    assert [job.wait().exec_ns for job in jobs if job is not None] == [7, 7]


def test_time_out_grows_with_the_deadline_and_never_shrinks(dev: vgc.Device, link: GuestLink, fake: FakeDevice) -> None:
    second = 10**9

    def timeout_ns() -> int:
        return int(vgc._lib.lib.vgc_request_timeout(dev._handle.pointer))

    assert timeout_ns() == 11 * second
    for deadline_s in (100, 1):
        change(link, fake, deadline_ns=deadline_s * second)
        dev.nop()
        assert timeout_ns() == 110 * second


def test_other_processes_take_the_limits_that_one_has_heard_of(
    dev: vgc.Device, link: GuestLink, fake: FakeDevice, tmp_path: Path
) -> None:
    script = """
say('open')
hear()
try:
    dev.alloc(8192)
except vgc.ResourcesExhausted as error:
    say(str(error).split(': ')[1].split(';')[0])
"""
    with GuestProcess(link, tmp_path, script) as other:
        other.expect("open")
        change(link, fake, quota_memory_bytes=4096)
        dev.nop()
        fake.allotment = 0  # no answer bears a number any more
        other.tell("go on")
        other.expect("asked 8192, 4096 of 4096 bytes free")


def test_configuration_that_makes_no_sense_is_not_taken(dev: vgc.Device, link: GuestLink, fake: FakeDevice) -> None:
    change(link, fake, queue_depth=0)
    dev.nop()
    dev.alloc(4096)
    assert link.acknowledged == 0
