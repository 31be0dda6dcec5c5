"""The CUDA engine on a difficult driver: growing stacks, streams that share connections, text flushed at any launch.

All tests of the engine run on a driver as strict as this (`cuda_rig.fake_driver`); here the rules take effect.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.fakes import cuda_cubin
from tests.fakes.cuda_driver import FakeDriver
from tests.unit.cuda_control_rig import SMS, control
from tests.unit.cuda_direct import Direct, direct, hello, printing
from virtio_proto.control.records import Function
from virtio_proto.schema import Status

CONNECTIONS = 32
WRITE_OFFSET = 1 << 20
BLOCK_BEGIN = 1


def finished(gpu: Direct, launch: object) -> None:
    """Waits until the launch has ended on the GPU, before the engine polls."""
    assert not gpu.is_done(launch)
    while gpu.driver.number("finished") != gpu.driver.number("submitted"):
        pass


# ---- text ------------------------------------------------------------------------------------------


def test_text_flushed_by_another_contexts_launch_stays_with_its_context() -> None:
    """The driver flushes at the start of every launch, in any context."""
    with printing(contexts=2) as gpu:
        printed = gpu.launch("prints", struct.pack("<I", 2), context=1)
        finished(gpu, printed)
        other = gpu.launch("empty", context=2, stream=1)
        gpu.wait(printed, other)
        assert gpu.take_output(context=1) == (hello(2), 0, 0)
        assert gpu.take_output(context=2) == ("", 0, 0)


def test_text_flushed_by_loading_stays_with_its_context() -> None:
    with printing() as gpu:
        printed = gpu.launch("prints", struct.pack("<I", 2))
        finished(gpu, printed)
        with gpu.left():
            gpu.load_image(cuda_cubin.all_kernels(), context=2)
        gpu.wait(printed)
        assert gpu.take_output(context=1) == (hello(2), 0, 0)


def test_text_of_two_kernels_of_a_context_is_kept_in_any_order_of_polling() -> None:
    with printing(contexts=2) as gpu:
        launches = [gpu.launch("prints", struct.pack("<I", 1), stream=stream) for stream in (0, 1)]
        gpu.wait(*launches)
        behind = gpu.launch("prints", struct.pack("<I", 3), context=2)
        gpu.wait(behind)
        assert gpu.take_output(context=1) == (hello(1) * 2, 0, 0)
        assert gpu.take_output(context=2) == (hello(3), 0, 0)


# ---- connections -----------------------------------------------------------------------------------


def test_streams_behind_a_kernel_in_its_connection_go_on_after_it() -> None:
    """With more streams than connections, streams that share one wait, and nothing is lost."""
    with direct(f"connections {CONNECTIONS}") as gpu:
        streams = range(CONNECTIONS + 8)
        hanging = [gpu.launch("hang", stream=stream) for stream in streams]
        gpu.driver.await_hanging(CONNECTIONS - 4)
        behind = [gpu.launch("empty", stream=stream) for stream in streams]
        gpu.poll()
        assert not gpu.is_done(behind[0])
        while not gpu.is_done(*hanging, *behind):
            gpu.driver.release()
            gpu.poll()
        gpu.wait(*hanging, *behind, status=Status.OK)


def test_the_control_area_is_reached_while_kernels_hang_in_every_connection() -> None:
    with control(f"connections {CONNECTIONS}") as made:
        hanging = [made.gpu.launch("hang", stream=stream) for stream in range(CONNECTIONS + 8)]
        made.gpu.driver.await_hanging(CONNECTIONS - 4)
        made.gpu.poll()
        result = made.gpu.handle.ops.control_write(made.gpu.handle, WRITE_OFFSET, bytes(8), 8)
        while not made.gpu.is_done(*hanging):
            made.gpu.driver.release()
            made.gpu.poll()
        assert result == 0


# ---- numbers of SMs --------------------------------------------------------------------------------


def elements_seen(*settings: str, index: int) -> set[int]:
    """Elements with records of a block on the SM with that index; all elements have a channel."""
    with control(*settings) as made:
        for pe in range(SMS):
            made.open(Function.PERF, pe, pe + 1)
        made.run(index, 1)
        return {record.pe for record in made.drain() if record.type == BLOCK_BEGIN}


@pytest.mark.parametrize(("index", "number"), [(0, 3), (1, 5), (2, 7)])
def test_records_name_an_sm_by_its_hardware_number(index: int, number: int) -> None:
    assert elements_seen("smid_base 3", "smid_stride 2", index=index) == {number}


def test_a_kernel_on_an_sm_beyond_all_rows_runs_without_records() -> None:
    """SM numbers need not be contiguous. The area has room for some gaps (`CudaEngine.control_rows`), not for any."""
    assert elements_seen("smid_stride 2", index=SMS // 2) == set()


# ---- stacks ----------------------------------------------------------------------------------------


@contextmanager
def released_if_a_stack_grows(driver: FakeDriver) -> Iterator[None]:
    """Ends the kernels that hang as soon as a call waits for them."""
    before, over = driver.number("stack_waits"), threading.Event()

    def watch() -> None:
        while not over.is_set():
            if driver.number("stack_waits") != before:
                driver.release()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert driver.number("stack_waits") == before


def test_a_kernel_with_a_large_stack_starts_beside_one_that_hangs() -> None:
    kernels = [cuda_cubin.Kernel(name, params) for name, params in cuda_cubin.KERNELS.items() if name != "empty"]
    deep = cuda_cubin.cubin([*kernels, cuda_cubin.Kernel("empty", local_bytes=8192)])
    with direct() as gpu:
        with gpu.left():
            program = gpu.load_image(deep, context=2)
        gpu.functions |= {(2, function.name): function for function in program.functions}
        hang = gpu.launch("hang", stream=1)
        gpu.driver.await_hanging()
        with released_if_a_stack_grows(gpu.driver):
            gpu.wait(gpu.launch("empty", context=2))
            assert not gpu.is_done(hang)
