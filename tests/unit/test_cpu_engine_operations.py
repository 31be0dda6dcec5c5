"""Streams, events, copies and cancelling on the CPU engine, as ``vgc_engine.h`` promises."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.unit.cpu_rig import Rig, make_launch, rig
from tests.waiting import sleeps_for_good, threads_of, until
from vhost_backend._dataplane import ffi, lib
from vhost_backend.engines.cpu import CpuEngine
from vhost_backend.errors import EngineError
from virtio_proto.schema import Status

MIB = 1 << 20
SOURCE = r"""
extern "C" __global__ void wait_for(int *flag, int *out, int value) {
    while (atomicAdd(flag, 0) == 0) { }
    out[0] = out[0] * 10 + value;
}
extern "C" __global__ void append(int *out, int value) { out[0] = out[0] * 10 + value; }
extern "C" __global__ void count(int *out) { atomicAdd(out, 1); }
extern "C" __global__ void row(int quick, int *__restrict__ out) { // whose blocks run in strips
    int x = blockIdx.x * blockDim.x + threadIdx.x, sum = 0, rounds = x < quick ? 1 : 20000;
    for (int k = 0; k < rounds; k++) sum = (sum * 3 + k) ^ x;
    out[x] = sum | 1;
}
"""


class Queue:
    """Submits operations and collects what is finished, as the data plane does."""

    def __init__(self, gpu: Rig) -> None:
        self.gpu = gpu
        self.kept: list[Any] = []
        self.finished: list[Any] = []

    def submit(self, op: Any, *, context: int = 1, stream: int = 0, keep: Any = None) -> Any:
        op.context, op.stream = context, stream
        self.kept.append((op, keep))
        if self.gpu.engine.handle.ops.submit(self.gpu.engine.handle, op) == lib.VGC_DONE:
            self.finished.append(op)
        return op

    def op(self, kind: int, **where: Any) -> Any:
        op = ffi.new("struct vgc_op *")
        op.kind = kind
        for name in where.keys() - {"context", "stream"}:
            setattr(op, name, where[name])
        return self.submit(op, context=where.get("context", 1), stream=where.get("stream", 0))

    def launch(self, name: str, *args: Any, grid: int = 1, block: int = 1, context: int = 1, stream: int = 0) -> Any:
        op, keep = make_launch(self.gpu.functions[name], grid, block, args)
        return self.submit(op, context=context, stream=stream, keep=(keep, args))

    def copy(self, kind: int, address: int, array: np.ndarray[Any, Any], pieces: int = 1, *, stream: int = 0) -> Any:
        """A copy between device memory and the array, cut into spans of odd lengths."""
        op = ffi.new("struct vgc_op *")
        op.kind, op.dst, op.src, op.size = kind, address, address, array.nbytes
        ends = [array.nbytes * (i + 1) // pieces for i in range(pieces)]
        base = ffi.cast("uint8_t *", array.ctypes.data)
        spans = ffi.new("struct vgc_span[]", pieces)
        for span, start, end in zip(spans, [0, *ends], ends, strict=False):
            span.base, span.len = base + start, end - start
        op.spans, op.num_spans = spans, pieces
        return self.submit(op, stream=stream, keep=(spans, array))

    def poll(self) -> None:
        handle = self.gpu.engine.handle
        handle.ops.poll(handle)
        op = lib.vgc_engine_take_finished(handle)
        while op != ffi.NULL:
            self.finished.append(op)
            op = op.next

    def wait(self, *ops: Any) -> None:
        def are_done() -> bool:
            self.poll()
            return all(op in self.finished for op in ops)

        until(are_done)


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig(pes=2) as made:
        made.load(SOURCE)
        yield made


@pytest.fixture
def queue(gpu: Rig) -> Queue:
    return Queue(gpu)


def flag_of(gpu: Rig) -> np.ndarray[Any, Any]:
    return gpu.array(1, np.int32)


# ---- memory -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 256, 4095, 4096, 4097, 3 * MIB + 5])
def test_memory_is_zero_aligned_and_writable_to_its_end(gpu: Rig, size: int) -> None:
    address = gpu.alloc(size)
    assert address % 256 == 0
    memory = ffi.buffer(ffi.cast("char *", address), size)
    assert memory[:] == bytes(size)
    memory[:] = b"\xaa" * size


def test_more_memory_than_the_quota_is_refused(gpu: Rig) -> None:
    address = ffi.new("uint64_t *")
    assert gpu.engine.handle.ops.alloc(gpu.engine.handle, 1 << 60, address) == -12


# ---- copies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 1000, 256 << 10, (256 << 10) + 1, 9 * MIB + 13])
@pytest.mark.parametrize("pieces", [1, 7])
def test_copy_in_and_out(queue: Queue, size: int, pieces: int) -> None:
    address = queue.gpu.alloc(size)
    data = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8)
    back = np.zeros(size, np.uint8)
    queue.copy(lib.VGC_OPK_COPY_IN, address, data, min(pieces, size))
    queue.wait(queue.copy(lib.VGC_OPK_COPY_OUT, address, back, min(pieces, size)))
    assert np.array_equal(back, data)


def test_short_copies_are_done_at_once(queue: Queue) -> None:
    op = queue.copy(lib.VGC_OPK_COPY_IN, queue.gpu.alloc(4096), np.zeros(4096, np.uint8))
    assert op in queue.finished


@pytest.mark.parametrize("shift", [-100, 0, 100, 6 * MIB])
def test_copy_on_the_device_may_overlap(queue: Queue, shift: int) -> None:
    size = 5 * MIB
    memory = queue.gpu.array(12 * MIB, np.uint8, np.random.default_rng(2).integers(0, 256, 12 * MIB))
    expected = memory[100 : 100 + size].copy()
    base = memory.ctypes.data + 100
    queue.wait(queue.op(lib.VGC_OPK_COPY_DEVICE, src=base, dst=base + shift, size=size))
    assert np.array_equal(memory[100 + shift : 100 + shift + size], expected)


def test_boxes_of_narrow_rows_are_copied_in_pieces(queue: Queue) -> None:
    """Each row may touch a page of its own: the bytes alone do not tell how long it takes."""
    rows, pitch = 2000, 4096
    source = queue.gpu.array((rows, pitch), np.uint8, np.arange(rows)[:, None] % 251)
    column = queue.gpu.array(rows, np.uint8)
    box = {"dst_pitch": 1, "src_pitch": pitch, "width": 1, "height": rows, "depth": 1}
    op = queue.op(lib.VGC_OPK_COPY_BOX, dst=column.ctypes.data, src=source.ctypes.data, size=rows, box=box)
    assert op not in queue.finished
    queue.poll()
    assert 0 < op.progress < rows
    queue.wait(op)
    assert np.array_equal(column, source[:, 0])


@pytest.mark.parametrize("shift", [-100, 100, 6 * MIB])
def test_long_copies_on_the_device_are_done_in_pieces(queue: Queue, shift: int) -> None:
    base = queue.gpu.array(12 * MIB, np.uint8).ctypes.data + 100
    op = queue.op(lib.VGC_OPK_COPY_DEVICE, src=base, dst=base + shift, size=5 * MIB)
    queue.poll()
    assert 0 < op.progress < MIB
    queue.wait(op)


@pytest.mark.parametrize("unit", [1, 2, 4, 8])
@pytest.mark.parametrize("size", [0, 8, 1000, 5 * MIB])
def test_fill(queue: Queue, unit: int, size: int) -> None:
    memory = queue.gpu.array(size + 8, np.uint8)
    pattern = 0x1122334455667788
    queue.wait(queue.op(lib.VGC_OPK_FILL, dst=memory.ctypes.data, size=size, value=pattern, unit=unit))
    expected = np.frombuffer((pattern.to_bytes(8, "little")[:unit] * (size // unit + 1))[:size], np.uint8)
    assert np.array_equal(memory[:size], expected)
    assert not memory[size:].any()


# ---- streams and events -------------------------------------------------------------------------------------------


def test_operations_of_a_stream_are_in_order(queue: Queue) -> None:
    flag, out = flag_of(queue.gpu), queue.gpu.array(1, np.int32)
    seen = np.zeros(1, np.int32)
    queue.launch("wait_for", flag, out, np.int32(1))
    queue.launch("append", out, np.int32(2))
    copy = queue.copy(lib.VGC_OPK_COPY_OUT, out.ctypes.data, seen)
    marker = queue.op(lib.VGC_OPK_MARKER)
    last = queue.launch("append", out, np.int32(3))
    queue.poll()
    assert queue.finished == []
    flag[0] = 1
    queue.wait(last)
    assert out[0] == 123
    assert seen[0] == 12
    assert queue.finished.index(copy) < queue.finished.index(marker) < queue.finished.index(last)


def test_streams_do_not_wait_for_each_other(queue: Queue) -> None:
    flag, out, other = flag_of(queue.gpu), queue.gpu.array(1, np.int32), queue.gpu.array(1, np.int32)
    held = queue.launch("wait_for", flag, out, np.int32(1), stream=1)
    queue.wait(queue.launch("append", other, np.int32(7), stream=2))
    queue.wait(queue.launch("append", other, np.int32(8), context=2, stream=1))
    assert held not in queue.finished
    flag[0] = 1
    queue.wait(held)
    assert (out[0], other[0]) == (1, 78)


def test_event_orders_two_streams(queue: Queue) -> None:
    flag, out = flag_of(queue.gpu), queue.gpu.array(1, np.int32)
    queue.launch("wait_for", flag, out, np.int32(1), stream=1)
    record = queue.op(lib.VGC_OPK_EVENT_RECORD, value=3, stream=1)
    wait = queue.op(lib.VGC_OPK_EVENT_WAIT, value=3, stream=2)
    after = queue.launch("append", out, np.int32(2), stream=2)
    queue.poll()
    assert queue.finished == []
    flag[0] = 1
    queue.wait(after, wait, record)
    assert out[0] == 12


def test_wait_for_an_event_that_was_never_recorded_ends_at_once(queue: Queue) -> None:
    assert queue.op(lib.VGC_OPK_EVENT_WAIT, value=99) in queue.finished


def test_operations_have_times_of_start_and_end(queue: Queue) -> None:
    before = time.monotonic_ns()
    op = queue.launch("count", queue.gpu.array(1, np.int32), grid=1000, block=64)
    queue.wait(op)
    assert before <= op.start_ns <= op.end_ns <= time.monotonic_ns()


@pytest.mark.parametrize("grid", [1, 2, 3, 1000, 70000])
def test_every_block_runs_once(queue: Queue, grid: int) -> None:
    out = queue.gpu.array(1, np.int32)
    queue.wait(queue.launch("count", out, grid=grid, block=3))
    assert out[0] == 3 * grid


def test_many_launches_in_flight(queue: Queue) -> None:
    out = queue.gpu.array(8, np.int32)
    ops = [queue.launch("count", out[s : s + 1], grid=3, block=5, stream=s) for _ in range(200) for s in range(8)]
    queue.wait(ops[-1], *ops[-8:])
    queue.wait(*ops)
    assert (out == 200 * 15).all()


# ---- cancel -------------------------------------------------------------------------------------------------------


def test_cancel_ends_all_operations_of_a_context_and_no_others(queue: Queue) -> None:
    handle = queue.gpu.engine.handle
    flag, out, other = flag_of(queue.gpu), queue.gpu.array(1, np.int32), queue.gpu.array(1, np.int32)
    running = queue.launch("wait_for", flag, out, np.int32(1), context=3)
    queued = [queue.launch("append", out, np.int32(5), context=3) for _ in range(3)]
    record = queue.op(lib.VGC_OPK_EVENT_RECORD, value=7, context=3)
    waiting = queue.op(lib.VGC_OPK_EVENT_WAIT, value=7, context=3, stream=1)
    untouched = queue.launch("wait_for", flag, other, np.int32(4), context=4)
    handle.ops.cancel(handle, 3)
    queue.wait(*queued, record, waiting)
    flag[0] = 1
    queue.wait(running, untouched)
    assert [op.status for op in (running, *queued, record)] == [Status.CANCELLED] * 5
    assert untouched.status == Status.OK
    assert (out[0] in (0, 1), other[0]) == (True, 4)


def test_cancel_stops_blocks_that_run_as_one_like_a_large_block(queue: Queue) -> None:
    handle = queue.gpu.engine.handle
    threads, quick, largest = 1 << 18, 1 << 17, 1024
    out = queue.gpu.array(threads, np.int32)
    running = queue.launch("row", np.int32(quick), out, grid=threads // 64, block=64, context=3)
    until(out[quick:].any)
    handle.ops.cancel(handle, 3)
    had_run = np.count_nonzero(out)
    queue.wait(running)
    assert np.count_nonzero(out) - had_run <= largest * handle.num_pes


def test_context_number_works_again_after_cancel(queue: Queue) -> None:
    handle = queue.gpu.engine.handle
    handle.ops.cancel(handle, 3)
    out = queue.gpu.array(1, np.int32)
    queue.wait(queue.launch("append", out, np.int32(6), context=3))
    assert out[0] == 6


# ---- life ---------------------------------------------------------------------------------------------------------


def test_description_names_the_thread_at_which_a_launch_is(queue: Queue) -> None:
    handle = queue.gpu.engine.handle
    flag, out = flag_of(queue.gpu), queue.gpu.array(1, np.int32)
    op = queue.launch("wait_for", flag, out, np.int32(1))
    text = ffi.new("char[]", 256)

    def is_placed() -> bool:
        handle.ops.describe(handle, op, text, 256)
        return b"thread (0,0,0)" in ffi.string(text)

    try:
        until(is_placed)
    finally:  # a kernel that spins would never let the engine close
        flag[0] = 1
        queue.wait(op)
    assert ffi.string(text) == b"kernel 'wait_for', block (0,0,0), thread (0,0,0)"


def test_unknown_option_is_refused() -> None:
    with pytest.raises(EngineError, match="has the options guard_pages, perf_maps, but got colour"):
        CpuEngine.open({"colour": "red"}, 1, 1 << 20, 10**9)


def test_idle_engine_uses_no_time(gpu: Rig) -> None:
    gpu.launch("count", 1, 1, gpu.array(1, np.int32))
    elements = threads_of(os.getpid(), "vgc-pe")
    assert len(elements) >= gpu.engine.num_pes
    until(lambda: all(map(sleeps_for_good, elements)))
