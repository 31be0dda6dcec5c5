"""The control system's copies when the GPU delays them: nothing is lost, and the link recovers afterwards."""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Iterator

import pytest

from tests.fakes import cuda_cubin
from tests.unit.cuda_control_rig import AREA_BYTES, Control, control, hook
from tests.waiting import until
from vhost_backend._dataplane import ffi
from vhost_backend.engines.base import LoadedProgram
from virtio_proto.control.records import Function

EAGAIN, EIO = -11, -5
TABLES_AT, LINKS_AT = 4096, 1 << 20
ECC = 214


@pytest.fixture
def late() -> Iterator[Control]:
    """An area whose copies do not end: the first one has timed out."""
    with control() as made:
        made.open(Function.STDIO, pe=3, channel=1)
        made.gpu.driver.hold()
        assert read(made, LINKS_AT, 64)[0] == EAGAIN
        yield made
        made.gpu.driver.go_on()


def read(made: Control, offset: int, size: int) -> tuple[int, bytes]:
    to = ffi.new("uint8_t[]", [ord("?")] * size)
    error = made.gpu.handle.ops.control_read(made.gpu.handle, offset, to, size)
    return int(error), bytes(ffi.buffer(to))


def write(made: Control, offset: int, data: bytes) -> int:
    return int(made.gpu.handle.ops.control_write(made.gpu.handle, offset, data, len(data)))


def heal(made: Control) -> None:
    """Lets the GPU go on, and waits until the control system can read again."""
    made.gpu.driver.go_on()
    until(lambda: read(made, LINKS_AT, 8)[0] == 0)


def test_a_late_copy_does_not_break_the_link(late: Control) -> None:
    heal(late)
    late.run(3, 2, late.texts_at + cuda_cubin.LINE_AT)
    assert len(late.drain()) == 2


def test_writes_to_a_late_link_are_done_in_order_afterwards(late: Control) -> None:
    long = bytes(range(256)) * 1024  # more than one copy takes
    offset = AREA_BYTES - len(long)
    for data in (b"A" * 64, long, b"12345678", b"odd"):
        assert write(late, offset, data) == 0
    heal(late)
    assert read(late, offset, len(long)) == (0, b"odd45678" + long[8:])


def test_nobody_waits_for_a_link_that_is_late(late: Control) -> None:
    queries = late.gpu.driver.count("cuStreamQuery")
    for _ in range(10):
        assert read(late, LINKS_AT, 64)[0] == EAGAIN
        assert write(late, LINKS_AT, b"x" * 64) == 0
    assert late.gpu.driver.count("cuStreamQuery") == queries + 20


def test_reads_of_a_late_link_return_the_last_known_tables(late: Control) -> None:
    assert write(late, TABLES_AT, b"12345678") == 0
    assert read(late, TABLES_AT, 8) == (EAGAIN, b"12345678")
    assert read(late, LINKS_AT, 8) == (EAGAIN, bytes(8))


def test_a_channel_counts_as_held_while_its_state_is_unknown(late: Control) -> None:
    """A hook may still write into the channel's link, so its memory is not reused before the state is known."""
    late.unbind(1)
    late.drain()
    assert late.close(1) == 1
    late.open(Function.STDIO, pe=4, channel=2)
    heal(late)
    late.run(3, 1, late.texts_at + cuda_cubin.LINE_AT)
    late.run(4, 1, late.texts_at + cuda_cubin.LINE_AT)
    assert [record.pe for record in late.drain()] == [4]


def test_a_program_loaded_during_a_delay_has_records_afterwards(late: Control) -> None:
    with late.gpu.left():
        program = late.gpu.load_image(cuda_cubin.hooked())
        names = hook(late.gpu, program)
    late.gpu.functions |= {(1, function.name): function for function in program.functions}
    heal(late)
    late.run(3, 1, names + cuda_cubin.LINE_AT)
    assert len(late.drain()) == 1


def test_pending_writes_of_a_program_are_dropped_with_it(late: Control) -> None:
    with late.gpu.left():
        hook(late.gpu, late.gpu.load_image(cuda_cubin.hooked(clock=None)))
        late.gpu.engine.unload_program(late.gpu.programs.pop())
    heal(late)
    assert not late.gpu.driver.misuses()


@pytest.fixture
def under_way() -> Iterator[tuple[Control, LoadedProgram]]:
    """A program whose connection is being written by a copy that does not end."""
    with control() as made:
        made.gpu.driver.hold()
        with made.gpu.left():
            program = made.gpu.load_image(cuda_cubin.hooked(clock=None))
            hook(made.gpu, program)
        made.gpu.programs.remove(program)
        yield made, program


def test_a_program_is_unloaded_when_the_copy_to_it_has_ended(under_way: tuple[Control, LoadedProgram]) -> None:
    made, program = under_way
    modules = made.gpu.driver.number("modules")
    looks = made.gpu.driver.count("cuStreamQuery")

    def go_on_once_it_waits() -> None:
        until(lambda: made.gpu.driver.count("cuStreamQuery") > looks)
        made.gpu.driver.go_on()

    going_on = threading.Thread(target=go_on_once_it_waits)
    going_on.start()
    with made.gpu.left():
        made.gpu.engine.unload_program(program)
    going_on.join()
    assert made.gpu.driver.number("modules") == modules - 1
    made.open(Function.STDIO, pe=3, channel=1)
    made.run(3, 1, made.texts_at + cuda_cubin.LINE_AT)
    assert len(made.drain()) == 1


def test_a_program_stays_while_a_copy_to_it_does_not_end(under_way: tuple[Control, LoadedProgram]) -> None:
    """The copy would write to freed or reused memory, and the context would be lost."""
    made, program = under_way
    module = made.gpu.driver.calls("cuModuleLoadData")[-1]
    with made.gpu.left():
        made.gpu.engine.unload_program(program)
    assert not made.gpu.driver.calls("cuModuleUnload")
    heal(made)
    made.run(3, 1)
    (handle,) = re.findall(r"0x[0-9a-f]+", module)[:1]
    assert made.gpu.driver.library.cuModuleUnload(ctypes.c_void_p(int(handle, 16))) == 0


def test_too_many_pending_writes_break_the_link(late: Control) -> None:
    """GPU and host would no longer agree on the bindings."""
    while write(late, LINKS_AT, bytes(1 << 16)) == 0:
        pass
    late.gpu.driver.go_on()
    assert write(late, LINKS_AT, bytes(8)) == EIO
    assert read(late, LINKS_AT, 8)[0] == EIO


def test_a_lost_context_ends_a_late_link(late: Control) -> None:
    late.gpu.driver.inject("cuStreamQuery", ECC)
    assert write(late, LINKS_AT, bytes(8)) == EIO
