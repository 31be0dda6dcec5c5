"""Lanes, markers, launches, cancelling, naps and pauses of the CUDA engine, operation by operation on the fake driver."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.unit.cuda_direct import Direct, direct, gpu, text, words
from tests.unit.cuda_rig import MIB
from vhost_backend._dataplane import ffi, lib
from virtio_proto.schema import LaunchFlag, Status

__all__ = ["gpu", "words"]

COPY_IN, COPY_OUT = lib.VGC_OPK_COPY_IN, lib.VGC_OPK_COPY_OUT
LANE_COMMANDS = 64
SHORT_NS = 200_000


@pytest.fixture
def crowded() -> Iterator[Direct]:
    """An engine on a driver with so small a queue that a caller that does not count its commands has to wait."""
    with direct("queue_depth 160") as made:
        yield made


# ---- markers -------------------------------------------------------------------------------------


def test_markers_are_written_words_where_the_driver_supports_them() -> None:
    with direct(completion=lib.VGC_CUDA_AUTO) as gpu:
        gpu.wait(gpu.launch("empty"))
        assert gpu.engine.completion == lib.VGC_CUDA_MEMORY
        assert gpu.driver.count("cuEventQuery") == 0


def test_markers_are_events_elsewhere() -> None:
    with direct("stream_memops 0", completion=lib.VGC_CUDA_AUTO) as gpu:
        gpu.wait(gpu.launch("empty"))
        assert gpu.engine.completion == lib.VGC_CUDA_EVENT


def test_kernels_not_known_to_be_short_have_a_marker_each(words: Direct) -> None:
    words.driver.hold()
    before = words.driver.count("cuStreamWriteValue32_v2")
    launches = [words.launch("empty") for _ in range(3)]
    words.poll()
    assert words.driver.count("cuStreamWriteValue32_v2") - before == 3
    words.driver.go_on()
    words.wait(*launches)


def test_short_kernels_share_the_marker_of_their_round(words: Direct) -> None:
    took_ns = SHORT_NS
    while took_ns >= SHORT_NS:
        launch = words.launch("empty")
        words.wait(launch)
        took_ns = launch.end_ns - launch.start_ns
    before = words.driver.count("cuStreamWriteValue32_v2")
    launches = [words.launch("empty") for _ in range(10)]
    words.poll()
    assert words.driver.count("cuStreamWriteValue32_v2") - before == 1
    words.wait(*launches)


def test_launches_seen_to_end_together_share_their_time(words: Direct) -> None:
    """No time is counted twice."""
    test_short_kernels_share_the_marker_of_their_round(words)
    launches = words.finished[-10:]
    assert all(a.end_ns == b.start_ns for a, b in pairwise(launches))


def test_a_launch_that_waits_has_no_start_time(gpu: Direct) -> None:
    """Its deadline begins at the start time."""
    first, second = gpu.launch("hang"), gpu.launch("empty")
    gpu.driver.await_hanging()
    gpu.poll()
    assert first.start_ns != 0
    assert second.start_ns == 0
    gpu.driver.release()
    gpu.wait(first, second)
    assert first.start_ns <= first.end_ns <= second.start_ns <= second.end_ns


def test_a_launch_behind_a_wait_starts_when_the_wait_is_over(gpu: Direct) -> None:
    hang = gpu.launch("hang", stream=0)
    gpu.record(1, stream=0)
    waiting = gpu.await_event(1, stream=1)
    launch = gpu.launch("empty", stream=1)
    gpu.driver.await_hanging()
    gpu.poll()
    assert launch.start_ns == 0
    gpu.driver.release()
    gpu.wait(hang, waiting, launch)
    assert launch.start_ns >= waiting.end_ns


def test_markers_of_an_idle_stream_end_at_once(gpu: Direct) -> None:
    assert gpu.is_done(gpu.op(lib.VGC_OPK_MARKER))


def test_markers_end_after_all_work_before_them(gpu: Direct) -> None:
    hang = gpu.launch("hang")
    marker = gpu.op(lib.VGC_OPK_MARKER)
    gpu.driver.await_hanging()
    gpu.poll()
    assert not gpu.is_done(marker)
    gpu.driver.release()
    gpu.wait(hang, marker)


# ---- lanes and caps ------------------------------------------------------------------------------


def test_lanes_do_not_wait_for_each_other(gpu: Direct) -> None:
    hang = gpu.launch("hang", stream=0)
    gpu.driver.await_hanging()
    gpu.wait(*(gpu.launch("empty", stream=stream) for stream in range(1, 10)))
    assert not gpu.is_done(hang)
    gpu.driver.release()
    gpu.wait(hang)


def test_a_lane_that_hangs_does_not_fill_the_drivers_queues(crowded: Direct) -> None:
    launches = [crowded.launch("hang"), *(crowded.launch("empty") for _ in range(500))]
    crowded.driver.await_hanging()
    crowded.poll()
    assert crowded.driver.count("cuLaunchKernel") == LANE_COMMANDS
    crowded.wait(*(crowded.launch("empty", stream=1) for _ in range(500)))
    assert crowded.driver.count("cuLaunchKernel") == LANE_COMMANDS + 500
    crowded.driver.release()
    crowded.wait(*launches)
    assert crowded.driver.number("blocked") == 0


def test_lanes_that_hang_leave_room_for_others(crowded: Direct) -> None:
    """However many commands wait, a lane without any may submit one."""
    streams = range(20)
    hanging = [crowded.launch("hang", stream=stream) for stream in streams]
    behind = [crowded.launch("empty", stream=stream) for stream in streams for _ in range(LANE_COMMANDS)]
    crowded.driver.await_hanging(len(streams))
    crowded.wait(*(crowded.launch("empty", stream=20 + i % 5) for i in range(50)))
    assert crowded.driver.count("cuLaunchKernel") <= 256 + 50
    crowded.driver.release()
    crowded.wait(*hanging, *behind)
    assert crowded.driver.number("blocked") == 0


def test_streams_are_reused(gpu: Direct) -> None:
    """A thousand lanes, one after the other, need no thousand CUstreams."""
    before = gpu.driver.number("streams")
    for stream in range(64):
        gpu.wait(gpu.launch("empty", stream=stream))
    assert gpu.driver.number("streams") == before


def test_more_lanes_than_streams_take_turns() -> None:
    with direct("queue_depth 160", contexts=6) as gpu:
        lanes = [(context, stream) for context in range(1, 7) for stream in range(64)]
        gpu.driver.hold()
        launches = [gpu.launch("empty", context=context, stream=stream) for context, stream in lanes]
        gpu.poll()
        assert gpu.driver.count("cuLaunchKernel") == 256
        gpu.driver.go_on()
        gpu.wait(*launches)


def test_payloads_in_many_pieces_count_as_many_commands(crowded: Direct) -> None:
    region = mmap.mmap(-1, MIB)
    crowded.map_region(region)
    address = crowded.alloc(1000)
    crowded.driver.hold()
    with memoryview(region) as view:
        copies = [crowded.copy(COPY_IN, address, view[:1000], 40) for _ in range(3)]
        crowded.poll()
        assert crowded.driver.count("cuMemcpyHtoDAsync_v2") == 40
        crowded.driver.go_on()
        crowded.wait(*copies)


# ---- launches ------------------------------------------------------------------------------------


def test_a_launch_that_the_driver_refuses_ends_alone(gpu: Direct) -> None:
    address = gpu.alloc(4)
    zeroes = gpu.fill(address, 4, 0)
    refused = gpu.launch("empty", block=[1, 1, 128])
    others = [gpu.add_one(address, 1), gpu.add_one(address, 1)]
    gpu.wait(zeroes, *others)
    gpu.wait(refused, status=Status.LAUNCH_FAILED)
    assert refused.detail == 1
    assert text(refused).startswith("kernel empty: CUDA_ERROR_INVALID_VALUE (")
    assert gpu.read(address, 4) == struct.pack("<I", 2)


def test_large_shared_memory_needs_no_extra_call(gpu: Direct) -> None:
    gpu.wait(gpu.launch("empty", shared_bytes=200 << 10))


def test_a_description_names_the_running_kernel(gpu: Direct) -> None:
    hang, behind = gpu.launch("hang", stream=3), gpu.launch("empty", stream=3)
    gpu.launch("hang", stream=4)
    gpu.driver.await_hanging(2)
    gpu.poll()
    assert "oldest launch of stream 3" in described(gpu, hang)
    assert "1 other stream" in described(gpu, hang)
    assert described(gpu, behind) == "not started"
    gpu.driver.release()
    gpu.wait(hang, behind)


def described(gpu: Direct, op: object) -> str:
    room = ffi.new("char[]", 512)
    gpu.handle.ops.describe(gpu.handle, op, room, 512)
    return bytes(ffi.string(room)).decode()


# ---- cancelling ----------------------------------------------------------------------------------


def test_cancelling_ends_operations_that_are_not_submitted(gpu: Direct) -> None:
    """CUDA cannot stop a kernel: submitted operations end by themselves."""
    submitted = gpu.launch("hang")
    behind = [gpu.launch("empty") for _ in range(LANE_COMMANDS - 1)]
    pending = [gpu.launch("empty") for _ in range(50)]
    gpu.driver.await_hanging()
    gpu.handle.ops.cancel(gpu.handle, 1)
    gpu.wait(*pending, status=Status.CANCELLED)
    assert not gpu.is_done(submitted)
    gpu.driver.release()
    gpu.wait(submitted, *behind)


def test_a_cancelled_copy_ends_with_its_step(gpu: Direct) -> None:
    address = gpu.alloc(20 * MIB)
    gpu.driver.hold()
    move = gpu.move(address, address + 1, 20 * MIB - 1)
    gpu.poll()
    gpu.handle.ops.cancel(gpu.handle, 1)
    gpu.driver.go_on()
    gpu.wait(move, status=Status.CANCELLED)


def test_cancelled_contexts_do_not_touch_others() -> None:
    with direct(contexts=2) as gpu:
        hang, other = gpu.launch("hang", context=1), gpu.launch("hang", context=2)
        pending = [gpu.launch("empty", context=2) for _ in range(100)]
        gpu.driver.await_hanging(2)
        gpu.handle.ops.cancel(gpu.handle, 1)
        gpu.driver.release()
        gpu.wait(hang, other, *pending)


# ---- naps ----------------------------------------------------------------------------------------


def test_an_idle_engine_sleeps_until_it_is_woken(gpu: Direct) -> None:
    gpu.wait(gpu.launch("empty"))
    assert gpu.nap_ns(10**9) == 2**64 - 1


@pytest.mark.parametrize(
    ("took_ns", "nap_ns"),
    [(0, 20_000), (640_000, 20_000), (3_200_000, 100_000), (32_000_000, 1_000_000), (10**10, 1_000_000)],
)
def test_naps_grow_with_the_time_of_the_running_launch(gpu: Direct, took_ns: int, nap_ns: int) -> None:
    hang = gpu.launch("hang")
    gpu.driver.await_hanging()
    gpu.poll()
    assert gpu.nap_ns(hang.start_ns + took_ns) == nap_ns
    gpu.driver.release()
    gpu.wait(hang)


def test_the_launch_that_began_last_decides_about_naps(gpu: Direct) -> None:
    old = gpu.launch("hang", stream=0)
    gpu.driver.await_hanging()
    young = gpu.launch("hang", stream=1)
    gpu.driver.await_hanging(2)
    assert gpu.nap_ns(young.start_ns + 3_200_000) == 100_000
    gpu.driver.release()
    gpu.wait(old, young)


# ---- pauses --------------------------------------------------------------------------------------


def test_a_pause_is_granted_when_nothing_runs_and_nothing_starts_before_it_ends(gpu: Direct) -> None:
    """Loading may make the driver wait for running kernels, and a thread that waits there cannot end one that hangs."""
    hang = gpu.launch("hang")
    gpu.driver.await_hanging()
    assert not gpu.pause()

    launches = gpu.driver.count("cuLaunchKernel")
    held = gpu.launch("empty", stream=1)
    gpu.poll()
    assert gpu.driver.count("cuLaunchKernel") == launches
    gpu.driver.release()
    gpu.wait(hang)

    assert gpu.pause()
    gpu.resume()
    gpu.wait(held)


def test_a_pause_stops_an_operation_between_its_steps(words: Direct) -> None:
    address = words.alloc(40 * MIB)
    words.driver.hold()
    move = words.move(address, address + 1, 40 * MIB - 1)
    words.poll()
    assert not words.pause()
    words.driver.go_on()
    while not words.pause():
        words.poll()
    assert not words.is_done(move)
    before = words.driver.count("cuMemcpyDtoDAsync_v2")
    words.poll()
    assert words.driver.count("cuMemcpyDtoDAsync_v2") == before
    words.resume()
    words.wait(move)


# ---- cooperative launches ------------------------------------------------------------------------


def test_a_cooperative_launch_is_one_of_the_driver(gpu: Direct) -> None:
    before = gpu.driver.count("cuLaunchKernelEx")
    launch = gpu.launch("empty", grid=[2, 3, 1], block=[32, 1, 1], flags=LaunchFlag.COOPERATIVE)
    gpu.wait(launch)
    assert gpu.driver.count("cuLaunchKernelEx") == before + 1
    gpu.wait(gpu.launch("empty"))
    assert gpu.driver.count("cuLaunchKernelEx") == before + 1


def test_a_cooperative_launch_has_its_parameters(gpu: Direct) -> None:
    address = gpu.alloc(20)
    params = struct.pack("<QI", address, 5)
    gpu.wait(gpu.launch("add_one", params, flags=LaunchFlag.COOPERATIVE))
    assert gpu.read(address, 20) == b"\1\0\0\0" * 5


def test_more_blocks_than_the_gpu_holds_at_once_are_refused(gpu: Direct) -> None:
    launch = gpu.launch("empty", grid=[1 << 20, 1, 1], flags=LaunchFlag.COOPERATIVE)
    gpu.wait(launch, status=Status.LAUNCH_FAILED)
    assert "COOPERATIVE_LAUNCH_TOO_LARGE" in text(launch)
    gpu.wait(gpu.launch("empty", grid=[1 << 20, 1, 1]))
