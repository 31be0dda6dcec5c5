"""Devices that are opened to ask about them alone, without a context; and the list of processes that compute."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import guest_driver as vgc
from tests.fakes.device import FakeDevice
from tests.fakes.guest import GuestProcess, open_device
from tests.fakes.link import GuestLink
from tests.unit.guest_rig import dev, fake
from virtio_proto.schema import Opcode

__all__ = ["dev", "fake"]


@pytest.fixture
def link() -> Iterator[GuestLink]:
    with GuestLink(num_queues=4) as link:
        yield link


def test_looking_makes_no_context(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    with open_device(link, tmp_path, look=True) as looking:
        assert looking.info().engine_name == "fake engine"
        assert looking.info().context == 0
        assert looking.usage().in_flight == 0
        assert "compute_capability" in looking.limits()
        assert looking.processes() == []
        with pytest.raises(vgc.NoContext, match="VGC_OPEN_LOOK"):
            looking.alloc(1)
        looking._handle.show_output(asked=True)
        assert looking.nop().total_ns > 0  # neither has lost the device
    assert not {Opcode.CONTEXT_CREATE, Opcode.CONTEXT_DESTROY} & set(fake.opcodes())


def test_a_reset_makes_no_context_either(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    with open_device(link, tmp_path, look=True) as looking:
        looking.reset()
        assert looking.nop().total_ns > 0
    assert Opcode.CONTEXT_CREATE not in fake.opcodes()


def test_unknown_flags_are_refused() -> None:
    options, out = vgc._lib.ffi.new("struct vgc_options *"), vgc._lib.ffi.new("struct vgc_device **")
    options.flags = 2
    with pytest.raises(vgc.InvalidArgument, match="flags 0x2 of options; allowed: VGC_OPEN_LOOK"):
        vgc._lib.check(vgc._lib.lib.vgc_open(options, out))


def test_processes_are_listed_with_the_memory_that_they_have_allocated(
    dev: vgc.Device, link: GuestLink, tmp_path: Path
) -> None:
    own = os.getpid()
    assert dev.processes() == [vgc.Process(own, 0)]
    memory = dev.alloc(1000)
    with GuestProcess(link, tmp_path, "kept = dev.alloc(5000)\nsay('up')\nhear()") as other:
        other.expect("up")
        with open_device(link, tmp_path, look=True) as looking:
            assert {process.pid: process.memory_bytes for process in looking.processes()} == {
                own: memory.nbytes,
                other.process.pid: 5000,
            }
        other.kill()
        assert [process.pid for process in dev.processes()] == [own]


def test_a_process_with_two_contexts_is_listed_once(dev: vgc.Device, link: GuestLink, tmp_path: Path) -> None:
    first = dev.alloc(1000)
    with open_device(link, tmp_path) as again:
        second = again.alloc(300)
        assert dev.processes() == [vgc.Process(os.getpid(), first.nbytes + second.nbytes)]


def test_a_list_without_room_says_how_many_there_are(dev: vgc.Device) -> None:
    count = vgc._lib.ffi.new("size_t *")
    vgc._lib.check(vgc._lib.lib.vgc_processes(dev._handle.pointer, vgc._lib.ffi.NULL, 0, count))
    assert count[0] == 1


def test_memory_of_a_lost_worker_is_not_counted(dev: vgc.Device, link: GuestLink) -> None:
    kept = dev.alloc(1000)
    assert dev.processes()[0].memory_bytes == kept.nbytes
    link.set_config(generation=dev.info().generation + 1)
    assert dev.processes() == [vgc.Process(os.getpid(), 0)]
