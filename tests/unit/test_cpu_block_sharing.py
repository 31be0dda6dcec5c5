"""How processing elements share work on the CPU engine: which are called for a launch, and who runs which blocks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

from tests.unit.cpu_rig import Rig, make_launch, rig
from tests.waiting import sleeps_for_good, threads_of, until
from vhost_backend._dataplane import ffi, lib
from virtio_proto.schema import Status

PES: Final = 4
SOURCE: Final = r"""
// Ends when `all` blocks are here, or when the host gives up.
extern "C" __global__ void meet(int *arrived, int all, volatile int *given_up) {
    atomicAdd(arrived, 1);
    while (atomicAdd(arrived, 0) < all && !*given_up) { }
}
// One block ends when all others of its grid have.
extern "C" __global__ void last_of_all(int *ended, int which, volatile int *given_up) {
    while (blockIdx.x == which && atomicAdd(ended, 0) < gridDim.x - 1 && !*given_up) { }
    atomicAdd(ended, 1);
}
extern "C" __global__ void mark(unsigned char *runs) { runs[blockIdx.x]++; }
extern "C" __global__ void nothing() { }
"""


class Shared:
    """Engine with several elements, the flag that ends kernels that wait in vain, and the operations under way."""

    def __init__(self, gpu: Rig) -> None:
        self.gpu = gpu
        self.given_up = gpu.array(1, np.int32)
        self._under_way: dict[int, Any] = {}

    def submit(self, name: str, *args: Any, grid: int = 1, stream: int = 0) -> Any:
        op, keep = make_launch(self.gpu.functions[name], grid, 1, args)
        op.context, op.stream = 1, stream
        if self.gpu.engine.handle.ops.submit(self.gpu.engine.handle, op) == lib.VGC_QUEUED:
            self._under_way[int(ffi.cast("uintptr_t", op))] = (op, keep, args)
        return op

    def is_done(self) -> bool:
        """True if no operation is under way."""
        op = lib.vgc_engine_take_finished(self.gpu.engine.handle)
        while op != ffi.NULL:
            del self._under_way[int(ffi.cast("uintptr_t", op))]
            op = op.next
        return not self._under_way

    def wait(self) -> None:
        """Waits for all operations; ends those that hang before it fails."""
        try:
            until(self.is_done)
        finally:
            self.given_up[0] = 1
            until(self.is_done)
            self.given_up[0] = 0

    def sleep(self) -> None:
        """Waits until all elements sleep."""
        elements = threads_of(os.getpid(), "vgc-pe")
        until(lambda: all(map(sleeps_for_good, elements)))


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    with rig(pes=PES) as made:
        made.load(SOURCE)
        yield Shared(made)


def stay_awake(shared: Shared) -> None:
    """Leaves some elements spinning, where the machine lets them."""
    shared.submit("nothing", grid=PES)
    shared.wait()


BEFORE: Final = pytest.mark.parametrize("before", [Shared.sleep, stay_awake])


@BEFORE
@pytest.mark.parametrize("launches", [2, PES])
def test_launches_of_streams_get_an_element_each(
    shared: Shared, before: Callable[[Shared], None], launches: int
) -> None:
    for _ in range(10):
        before(shared)
        arrived = shared.gpu.array(1, np.int32)
        for stream in range(launches):
            shared.submit("meet", arrived, np.int32(launches), shared.given_up, stream=stream)
        shared.wait()
        assert arrived[0] == launches


@BEFORE
@pytest.mark.parametrize("blocks", [2, PES])
def test_blocks_of_a_grid_get_an_element_each(shared: Shared, before: Callable[[Shared], None], blocks: int) -> None:
    for _ in range(10):
        before(shared)
        arrived = shared.gpu.array(1, np.int32)
        shared.submit("meet", arrived, np.int32(blocks), shared.given_up, grid=blocks)
        shared.wait()
        assert arrived[0] == blocks


@BEFORE
def test_grids_that_waited_in_their_stream_get_all_elements(shared: Shared, before: Callable[[Shared], None]) -> None:
    """The element that ends a launch starts the next one, and calls the others for it."""
    before(shared)
    arrived = shared.gpu.array(30, np.int32)
    for meeting in range(30):
        shared.submit("nothing")
        shared.submit("meet", arrived[meeting:], np.int32(PES), shared.given_up, grid=PES)
    shared.wait()
    assert (arrived == PES).all()


def test_small_and_large_grids_of_streams_run_side_by_side(shared: Shared) -> None:
    """One element runs all of the large grid while the others wait for it to take part in another launch."""
    arrived, runs = shared.gpu.array(1, np.int32), shared.gpu.array(3000, np.uint8)
    try:
        for stream in range(PES - 1):
            shared.submit("meet", arrived, np.int32(PES), shared.given_up, stream=stream)
        shared.submit("mark", runs, grid=3000, stream=PES)
        until(lambda: bool((runs == 1).all()))
        shared.submit("meet", arrived, np.int32(PES), shared.given_up, stream=PES)
    finally:
        shared.wait()
    assert arrived[0] == PES


@pytest.mark.parametrize("blocks", [2, 64, 1000])
def test_a_first_block_that_takes_long_holds_up_no_other(shared: Shared, blocks: int) -> None:
    """An element takes one block at first: it does not know yet how long they take."""
    ended = shared.gpu.array(1, np.int32)
    op = shared.submit("last_of_all", ended, np.int32(0), shared.given_up, grid=blocks)
    shared.wait()
    assert (op.status, ended[0]) == (Status.OK, blocks)


@pytest.mark.parametrize("blocks", [2, 64, 1000])
def test_a_last_block_that_takes_long_holds_up_no_other(shared: Shared, blocks: int) -> None:
    """Towards the end of a grid elements take few blocks, in the end one."""
    ended = shared.gpu.array(1, np.int32)
    shared.submit("last_of_all", ended, np.int32(blocks - 1), shared.given_up, grid=blocks)
    shared.wait()
    assert ended[0] == blocks


@pytest.mark.parametrize("blocks", [1, 2, PES, 255, 256, 257, 100_003, 1_000_000])
def test_each_block_runs_once(shared: Shared, blocks: int) -> None:
    runs = shared.gpu.array(blocks, np.uint8)
    shared.submit("mark", runs, grid=blocks)
    shared.wait()
    assert (runs == 1).all()
