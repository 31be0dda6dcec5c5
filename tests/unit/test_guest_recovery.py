"""Programs of guests on devices that recover by themselves, and what is left of one that was reset."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import guest_driver as vgc
from guest_driver.handle import RECOVERIES
from guest_driver.program import REPEATS
from tests.fakes.device import Answer, Ask, FakeDevice
from tests.fakes.guest import open_device
from tests.fakes.link import GuestLink
from tests.unit.guest_rig import dev, fake, link
from virtio_proto.schema import Opcode, Status

__all__ = ["dev", "fake", "link"]

NUMBERS = np.arange(100, dtype=np.float32)


def lose(fake: FakeDevice) -> None:
    """Replaces the worker: it has no context and no memory, as the next request will find."""
    fake.contexts.clear()
    fake.memory.clear()


def losing(fake: FakeDevice, count: int) -> Callable[[Ask], Answer | None]:
    """Answer to a request's kind by which the worker dies `count` times while it works on one."""
    left = [count]

    def answer(_: Ask) -> Answer | None:
        if left[0] == 0:
            return None
        left[0] -= 1
        lose(fake)
        return Answer(Status.DEVICE_LOST)

    return answer


@contextmanager
def recovering(
    link: GuestLink, folder: Path, on_recovered: Callable[[vgc.Device], object] | None = None
) -> Iterator[vgc.Device]:
    with open_device(link, folder, recover=True, on_recovered=on_recovered) as dev:
        yield dev


def test_loss_is_raised_once_and_programs_go_on(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    with recovering(link, tmp_path) as dev:
        program = dev.compile("source")
        empty = program.empty
        lose(fake)
        with pytest.raises(vgc.DeviceLost, match="before it saw this request"):
            empty[1, 1]()
        empty[1, 1]()
        assert program.empty is empty
        assert list(program) == ["saxpy", "empty"]
        assert fake.opcodes().count(Opcode.PROGRAM_LOAD) == 2, "loaded once more, however often it is used"
        assert dev.function("empty") is empty


def test_linked_program_is_linked_again(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    with recovering(link, tmp_path) as dev:
        program = dev.link([vgc.Unit("a.cu", "one"), vgc.Unit("b.cu", "two")])
        loads = [ask for ask in fake.seen if ask.opcode == Opcode.PROGRAM_LOAD]
        lose(fake)
        with pytest.raises(vgc.DeviceLost):
            dev.alloc(1)
        program.empty[1, 1]()
        again = [ask for ask in fake.seen if ask.opcode == Opcode.PROGRAM_LOAD][len(loads) :]
        assert [ask.rest for ask in again] == [ask.rest for ask in loads]


def test_unloaded_program_is_not_loaded_again(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    with recovering(link, tmp_path) as dev:
        program = dev.compile("source")
        program.unload()
        dev.reset()
        with pytest.raises(ValueError, match="unloaded"):
            list(program)
        assert fake.opcodes().count(Opcode.PROGRAM_LOAD) == 1


def test_program_that_does_not_compile_any_more_says_so(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    with recovering(link, tmp_path) as dev:
        empty = dev.compile("source").empty
        dev.reset()
        fake.override[Opcode.PROGRAM_LOAD] = lambda _: Answer(Status.COMPILE_FAILED, b"no compiler")
        with pytest.raises(vgc.CompileError):
            empty[1, 1]()
        fake.override.clear()
        empty[1, 1]()


def test_lost_array_says_so_until_all_of_it_is_written(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    with recovering(link, tmp_path) as dev:
        array, other = dev.to_device(NUMBERS), dev.to_device(NUMBERS)
        part, whole, nothing = array[10:20], array.reshape(10, 10), dev.empty(0)
        lose(fake)
        with pytest.raises(vgc.DeviceLost):
            dev.alloc(1)
        dev.alloc(1)
        for use in (array.get, part.get, whole.get, lambda: part.set(NUMBERS[:10]), lambda: array.write(b"1234")):
            with pytest.raises(vgc.ObjectLost, match="400 bytes of device memory; allowed: writing all of it"):
                use()
        with pytest.raises(vgc.ObjectLost):
            dev.compile("source").saxpy.launch(1, 1, 1, 2.0, array, array)
        assert array.is_lost
        assert part.is_lost
        assert "that is lost" in repr(array)
        array.set(NUMBERS)
        assert (part.get() == NUMBERS[10:20]).all(), "views are of the memory as it is now"
        other.fill(3)
        assert (other.get() == 3).all()
        nothing.set(np.empty(0, np.float32))
        assert not nothing.is_lost


def test_lost_array_is_written_through_a_view_of_all_or_by_a_copy(
    link: GuestLink, fake: FakeDevice, tmp_path: Path
) -> None:
    with recovering(link, tmp_path) as dev:
        array, other = dev.to_device(NUMBERS), dev.to_device(NUMBERS)
        lose(fake)
        dev.reset()
        array[:] = NUMBERS + 1
        other.copy_from(array)
        assert (other.get() == NUMBERS + 1).all()


def test_freed_array_stays_freed(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    with recovering(link, tmp_path) as dev:
        array, freed_later = dev.to_device(NUMBERS), dev.to_device(NUMBERS)
        array.free()
        lose(fake)
        dev.reset()
        freed_later.free()
        for one in (array, freed_later):
            assert not one.is_lost
            with pytest.raises(ValueError, match="was freed"):
                one.set(NUMBERS)
        assert not fake.memory


def test_streams_of_the_lost_context_say_so(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    with recovering(link, tmp_path) as dev:
        stream, array = dev.stream(), dev.to_device(NUMBERS)
        lose(fake)
        dev.reset()
        with pytest.raises(vgc.ObjectLost, match="stream 1; allowed: a new one"):
            array.write(NUMBERS, stream=stream)
        fresh = dev.stream()
        assert fresh.number == 1
        stream.close()
        assert dev.stream().number == 2, "the number is the new stream's"


def test_data_is_put_back_before_the_device_is_used(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    called: list[vgc.Device] = []

    def refill(device: vgc.Device) -> None:
        called.append(device)
        array.set(NUMBERS)

    with recovering(link, tmp_path, refill) as dev:
        array = dev.to_device(NUMBERS)
        lose(fake)
        with pytest.raises(vgc.DeviceLost):
            array.get()
        assert not called, "the program hears of the loss first"
        assert (array.get() == NUMBERS).all()
        assert called == [dev]


def test_worker_that_dies_while_data_is_put_back_is_no_end(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    with recovering(link, tmp_path, lambda _: array.set(NUMBERS)) as dev:
        array = dev.to_device(NUMBERS)
        fake.override[Opcode.COPY_IN] = losing(fake, RECOVERIES - 1)
        lose(fake)
        dev.reset()
        assert (array.get() == NUMBERS).all()


def test_recovery_ends_if_every_worker_dies(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    with recovering(link, tmp_path, lambda _: array.set(NUMBERS)) as dev:
        array = dev.to_device(NUMBERS)
        fake.override[Opcode.COPY_IN] = losing(fake, RECOVERIES)
        with pytest.raises(vgc.DeviceLost):
            dev.reset()
        assert (array.get() == NUMBERS).all(), "the next use tries again"


def test_errors_of_the_callback_are_passed_on(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    def forget(_: vgc.Device) -> None:
        raise KeyError("data")

    with recovering(link, tmp_path, forget) as dev:
        lose(fake)
        with pytest.raises(vgc.DeviceLost):
            dev.alloc(1)
        with pytest.raises(KeyError, match="data"):
            dev.alloc(1)
        dev.alloc(1)


def test_callback_does_not_reset(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    assert fake.link is link
    with recovering(link, tmp_path, lambda device: device.reset()) as dev, pytest.raises(ValueError, match="is new"):
        dev.reset()


def test_repeated_launch_gets_through(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    with recovering(link, tmp_path, lambda _: array.set(NUMBERS)) as dev:
        array, saxpy = dev.to_device(NUMBERS), dev.compile("source").saxpy
        fake.override[Opcode.LAUNCH] = losing(fake, REPEATS)
        saxpy.launch(1, 1, 1, 2.0, array, array, repeat=True)
        launches = [ask for ask in fake.seen if ask.opcode == Opcode.LAUNCH]
        assert len(launches) == 1 + REPEATS
        assert len({ask.context for ask in launches}) == 1 + REPEATS, "each in a context of its own"


def test_repeats_are_bounded(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    with recovering(link, tmp_path) as dev:
        empty = dev.compile("source").empty
        fake.override[Opcode.LAUNCH] = losing(fake, 1 + REPEATS)
        with pytest.raises(vgc.DeviceLost):
            empty.launch(1, 1, repeat=True)
        assert fake.opcodes().count(Opcode.LAUNCH) == 1 + REPEATS


def test_launch_is_not_repeated_unasked(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    with recovering(link, tmp_path) as dev:
        empty = dev.compile("source").empty
        fake.override[Opcode.LAUNCH] = losing(fake, 1)
        with pytest.raises(vgc.DeviceLost):
            empty.launch(1, 1)
        assert fake.opcodes().count(Opcode.LAUNCH) == 1


def test_launch_is_not_repeated_on_arrays_that_nobody_put_back(
    link: GuestLink, fake: FakeDevice, tmp_path: Path
) -> None:
    with recovering(link, tmp_path) as dev:
        array, saxpy = dev.to_device(NUMBERS), dev.compile("source").saxpy
        fake.override[Opcode.LAUNCH] = losing(fake, 1)
        with pytest.raises(vgc.ObjectLost):
            saxpy.launch(1, 1, 1, 2.0, array, array, repeat=True)
        assert fake.opcodes().count(Opcode.LAUNCH) == 1


def test_other_threads_are_refused(link: GuestLink, fake: FakeDevice, tmp_path: Path) -> None:
    refused: list[str] = []

    def use(dev: vgc.Device) -> None:
        try:
            dev.nop()
        except ValueError as error:
            refused.append(str(error))

    assert fake.link is link
    with recovering(link, tmp_path) as dev:
        thread = threading.Thread(target=use, args=(dev,))
        thread.start()
        thread.join()
        assert refused == ["a device that recovers, in another thread; allowed: the thread that has opened it"]


def test_options_of_recovery_are_for_devices_that_recover(dev: vgc.Device, tmp_path: Path) -> None:
    with pytest.raises(vgc.InvalidArgument, match="recover=True"):
        dev.compile("source").empty.launch(1, 1, repeat=True)
    with pytest.raises(vgc.InvalidArgument, match="recover=True"):
        vgc.Device(state_dir=str(tmp_path), on_recovered=print)


def test_array_from_before_a_reset_frees_nothing_of_the_present_context(dev: vgc.Device, fake: FakeDevice) -> None:
    """A worker may give an address again: memory that is collected late must not take the new one along."""
    before = dev.alloc(100)
    address = before.address
    dev.reset()
    fake.override[Opcode.ALLOC] = lambda ask: (
        Answer(value=address) if fake.memory.setdefault(address, bytearray(ask.body.size)) else None
    )
    now = dev.alloc(100)
    assert now.address == address
    with pytest.raises(vgc.ObjectLost):
        before.read()
    del before
    gc.collect()
    now.write(bytes(100))
    assert Opcode.FREE not in fake.opcodes()
