"""The control system on the CUDA engine: the area in device memory, channels, records, texts, input, snapshots.

The GPU is the fake one, and its SMs run the real control code (``tests/fakes/cuda/watched_kernels.c``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from tests.fakes import cuda_cubin
from tests.unit.cuda_control_rig import AREA_BYTES, SMS, Control, control
from tests.unit.cuda_direct import direct
from vhost_backend._dataplane import ffi, lib
from virtio_proto.control.records import Function

INVALID, NOT_SUPPORTED, ECC = 1, 801, 214
EINVAL, EIO, ENOMEM, EFAULT = -22, -5, -12, -14
WRITE_OFFSET = 1 << 20
STEP_NS = 1_000_000_000  # allowance for the drift or setting of a clock during the test
STDIO_FORMAT, BLOCK_BEGIN, BLOCK_END = 2, 1, 2


@pytest.fixture
def watched() -> Iterator[Control]:
    with control() as made:
        yield made


def read(made: Control, offset: int, size: int) -> bytes:
    to = ffi.new("uint8_t[]", size)
    assert made.gpu.handle.ops.control_read(made.gpu.handle, offset, to, size) == 0
    return bytes(ffi.buffer(to, size))


def write(made: Control, offset: int, data: bytes) -> int:
    return int(made.gpu.handle.ops.control_write(made.gpu.handle, offset, data, len(data)))


def test_elements_see_the_area_at_an_address_of_their_own(watched: Control) -> None:
    assert watched.device >> 42 == 0x200000000000 >> 42  # the fake's address range of device memory


@pytest.mark.parametrize("settings", [(), ("0.stream_memops 0",)])
def test_a_word_and_more_bytes_arrive_as_they_were(settings: tuple[str, ...]) -> None:
    with control(*settings) as made:
        long = bytes(range(256)) * 1024  # more than one copy takes
        for data in (b"12345678", b"odd", long):
            assert write(made, WRITE_OFFSET, data) == 0
            offset_of_slots = WRITE_OFFSET
            assert read(made, offset_of_slots, len(data)) == data


def test_addresses_outside_of_the_area_are_refused(watched: Control) -> None:
    handle = watched.gpu.handle
    to = ffi.new("uint8_t[]", 16)
    for offset, size in ((AREA_BYTES, 1), (AREA_BYTES - 8, 16), (2**64 - 8, 16)):
        assert handle.ops.control_read(handle, offset, to, size) == EINVAL
        assert handle.ops.control_write(handle, offset, to, size) == EINVAL


def test_a_block_prints_into_its_elements_channel(watched: Control) -> None:
    watched.open(Function.STDIO, pe=3, channel=5)
    line = watched.texts_at + cuda_cubin.LINE_AT
    watched.run(3, 2, line)
    watched.run(4, 2, line)
    found = watched.drain()
    assert [(record.pe, record.type, record.words(), record.sequence) for record in found] == [
        (3, STDIO_FORMAT, (line,), 0),
        (3, STDIO_FORMAT, (line,), 1),
    ]
    assert watched.text(line) == "a line\n"


def test_begin_and_end_of_blocks_are_recorded_with_the_kernel(watched: Control) -> None:
    watched.open(Function.PERF, pe=1, channel=2, period_ns=10**18)
    watched.run(1, 2)
    found = [record for record in watched.drain() if record.type in (BLOCK_BEGIN, BLOCK_END)]
    assert [(record.type, record.block) for record in found] == [
        (BLOCK_BEGIN, 0),
        (BLOCK_END, 0),
        (BLOCK_BEGIN, 1),
        (BLOCK_END, 1),
    ]
    assert {record.words()[0] for record in found} == {watched.texts_at}


def test_times_of_the_gpus_timer_become_those_of_the_host(watched: Control) -> None:
    watched.open(Function.STDIO, pe=0, channel=1)
    before = time.monotonic_ns()
    watched.run(0, 1, watched.texts_at + cuda_cubin.LINE_AT)
    after = time.monotonic_ns()
    (found,) = watched.drain()
    assert before - STEP_NS <= found.time_ns <= after + STEP_NS


def test_a_channel_is_bound_and_released_beside_a_kernel_that_runs(watched: Control) -> None:
    """No call of the control system waits for the kernel, and the control system has a stream of its own."""
    line = watched.texts_at + cuda_cubin.LINE_AT
    hanging = watched.gpu.launch("hang", stream=1)
    watched.gpu.driver.await_hanging()
    watched.open(Function.STDIO, pe=0, channel=1)
    watched.run(0, 1, line)
    assert len(watched.drain()) == 1
    watched.unbind(1)
    assert watched.settle() == []
    assert watched.close(1) == 0
    watched.run(0, 1, line)
    assert watched.drain() == []
    assert not watched.gpu.is_done(hanging)
    assert not watched.gpu.driver.calls("cuCtxSynchronize")


def test_records_that_find_no_room_are_counted(watched: Control) -> None:
    watched.open(Function.STDIO, pe=0, channel=1, slots=64)
    watched.run(0, 100, watched.texts_at + cuda_cubin.LINE_AT)
    kept = len(watched.drain())
    assert kept >= 64
    assert watched.lost[1] == 100 - kept


def test_input_reaches_a_kernel_that_waits(watched: Control) -> None:
    watched.open(Function.STDIO, pe=2, channel=1, wait_ns=10**12)
    address = watched.gpu.alloc(4096)
    waiting = watched.gpu.launch("listens", address.to_bytes(8, "little") + (2).to_bytes(4, "little"))
    watched.send(1, b"typed\n")
    watched.gpu.wait(waiting)
    assert watched.gpu.read(address, 10) == b"\x06\0\0\0typed\n"


def test_a_snapshot_shows_the_last_kernel(watched: Control) -> None:
    lib.vgc_control_ask(watched.handle, True)
    watched.run(6, 3)
    state = watched.snapshot()[6]
    assert (state.pe, state.block, watched.text(state.kernel)) == (6, 2, "_Z7watchedjjPKc")


def test_texts_are_those_of_loaded_programs(watched: Control) -> None:
    end = watched.texts_at + len(cuda_cubin.TEXTS)
    assert watched.text(end) == EFAULT
    assert watched.text(watched.texts_at - 1) == EFAULT
    assert watched.text(watched.texts_at + cuda_cubin.LINE_AT, size=3) == "a "
    with watched.gpu.left():
        watched.gpu.engine.unload_program(watched.gpu.programs.pop())
    assert watched.text(watched.texts_at) == EFAULT


def test_reads_see_earlier_writes(watched: Control) -> None:
    """Reads are answered from a recent copy until the next write."""
    assert write(watched, WRITE_OFFSET, b"A" * 64) == 0
    assert read(watched, WRITE_OFFSET, 64) == b"A" * 64
    assert write(watched, WRITE_OFFSET, b"B" * 64) == 0
    assert read(watched, WRITE_OFFSET, 64) == b"B" * 64


@pytest.mark.parametrize(
    "function", ["cuMemAlloc_v2", "cuStreamCreateWithPriority", "cuMemHostAlloc", "cuMemcpyHtoDAsync_v2"]
)
def test_an_area_without_room_on_the_gpu_is_an_error(function: str) -> None:
    with direct() as gpu:
        fd = os.memfd_create("control")
        os.ftruncate(fd, AREA_BYTES)
        why = ffi.new("char[]", lib.VGC_CONTROL_WHY)
        gpu.driver.inject(function, 2)
        assert lib.vgc_control_new(gpu.handle, fd, AREA_BYTES, SMS, 64, why) == ffi.NULL
        assert ffi.string(why)
        os.close(fd)


def test_a_driver_error_is_reported_and_ends_nothing(watched: Control) -> None:
    """A lost context is handled by the data plane's thread, which knows the launch at fault."""
    watched.gpu.driver.inject("cuMemcpyHtoDAsync_v2", ECC)
    assert write(watched, WRITE_OFFSET, b"x" * 100) == EIO
    watched.gpu.driver.inject("cuStreamQuery", ECC)
    assert write(watched, WRITE_OFFSET, b"x" * 100) == EIO
    assert write(watched, WRITE_OFFSET, b"x" * 100) == 0


def test_an_area_with_a_wrong_header_is_refused() -> None:
    with direct() as gpu:
        host, device = ffi.new("uint8_t[]", 4096), ffi.new("uint64_t *")
        assert gpu.handle.ops.control_attach(gpu.handle, -1, host, 4096, device) == EINVAL
        assert device[0] == 0


def test_programs_loaded_without_an_area_run_without_records() -> None:
    with direct() as gpu:
        with gpu.left():
            program = gpu.load_image(cuda_cubin.hooked())
        gpu.functions |= {(1, function.name): function for function in program.functions}
        gpu.wait(gpu.launch("watched", bytes(16)))


def test_many_channels_are_read_in_few_copies() -> None:
    """A trip to the GPU and back for each channel would take longer than the channels' records."""
    count = 512
    with control(num_channels=count + 1, sms=count, area_bytes=16 << 20) as made:
        for number in range(count):
            made.open(Function.STDIO, pe=number, channel=number + 1, slots=8, in_bytes=0)
        made.drain()
        made.gpu.driver.clear()
        made.drain()
        assert made.gpu.driver.count("cuMemcpyDtoHAsync_v2") < count // 8


def is_on_device(made: Control, channel: int) -> bool:
    """True if the channel's link is in device memory, not in the host's."""
    return made.device <= made.link_of(channel) < made.device + AREA_BYTES


# ---- last words --------------------------------------------------------------------------------------------------


def test_records_since_the_last_drain_are_in_the_areas_file(watched: Control) -> None:
    watched.open(Function.STDIO, pe=3, channel=1)
    watched.run(3, 1, 0x1000)
    assert len(watched.drain()) == 1
    before = time.monotonic_ns()
    watched.run(3, 2, 0x2000)
    after = time.monotonic_ns()
    found = watched.salvaged(1, Function.STDIO, pe=3, taken=1)
    assert [(record.words(), record.sequence) for record in found] == [((0x2000,), 1), ((0x2000,), 2)]
    assert all(before - STEP_NS < record.time_ns < after + STEP_NS for record in found)


def test_links_of_last_words_are_in_the_hosts_memory_and_cost_no_copies(watched: Control) -> None:
    for channel, function in enumerate((Function.STDIO, Function.FAULT, Function.LOG), 1):
        watched.open(function, pe=0, channel=channel)
    watched.run(0, 40, 0x1000)
    watched.gpu.driver.clear()
    assert len(watched.drain()) == 40
    slots = [call for call in watched.gpu.driver.calls("cuMemcpyDtoHAsync_v2") if f", {64 << 10}, " in call]
    assert slots == []
    assert [is_on_device(watched, number) for number in (1, 2, 3)] == [False, False, True]


def test_links_of_last_words_move_to_the_device_when_host_memory_is_full(watched: Control) -> None:
    for pe in range(SMS):
        watched.open(Function.FAULT, pe=pe, channel=pe + 1, slots=4096)
    outs = [watched.link_of(pe + 1) for pe in range(SMS)]
    assert [is_on_device(watched, channel) for channel in (1, SMS)] == [False, True]
    everything = range(1, SMS + 1)
    watched.unbind(*everything)
    watched.settle()
    assert watched.close(*everything) == 0
    watched.open(Function.FAULT, pe=0, channel=1, slots=4096)
    assert watched.link_of(1) == outs[0]


@pytest.mark.parametrize("function", ["cuMemHostRegister_v2", "cuMemHostGetDevicePointer_v2"])
def test_without_registered_memory_all_links_are_on_the_device(function: str) -> None:
    with control(fails=function) as made:
        made.open(Function.STDIO, pe=3, channel=1)
        made.run(3, 2, 0x1000)
        assert len(made.drain()) == 2
        assert is_on_device(made, 1)


def test_tables_of_a_failed_gpu_are_the_last_ones_read(watched: Control) -> None:
    """Zeros would mean that a link has lost its records."""
    before = read(watched, 4096, 1024)
    assert write(watched, 4096, before) == 0
    watched.gpu.driver.inject("cuMemcpyDtoHAsync_v2", ECC)
    assert read(watched, 4096, 1024) == before
