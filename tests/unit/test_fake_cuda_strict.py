"""Delays of a GPU, which the fake has only on request: time slices, connections, stacks."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.fakes.cuda_cubin import Kernel, cubin
from tests.fakes.cuda_driver import STRICT
from tests.unit.fake_cuda_rig import NOT_READY, Rig, bare, fake, rig

__all__ = ["bare", "fake", "rig"]

STACK_LIMIT = 0


def until(condition: Callable[[], bool]) -> None:
    """Waits for a counter of the fake, which needs no pause."""
    while not condition():
        pass


@contextmanager
def in_thread(work: Callable[[], None]) -> Iterator[threading.Thread]:
    """Runs `work`, which may block, on a thread beside the body."""
    thread = threading.Thread(target=work)
    thread.start()
    yield thread
    thread.join()


# ---- start and turns: several processes in test_fake_cuda_processes ----------------------------------


def test_without_a_time_to_start_nothing_is_started(rig: Rig) -> None:
    assert rig.fake.number("starts") == 0


def test_copies_take_no_turns(bare: Rig) -> None:
    bare.fake.set("slice_ms 2")
    bare.start()
    address = bare.alloc(4)
    bare.write(address, bytes(4))
    assert bare.fake.number("turns") == 0
    bare.add_one(bare.kernel("add_one"), address, 1)
    bare.call("cuCtxSynchronize")
    assert bare.fake.number("turns") == 1
    assert bare.read(address, 4) == struct.pack("<I", 1)


# ---- connections and priorities ----------------------------------------------------------------------


def marked(rig: Rig, stream: int, host: int) -> None:
    """Launches a kernel that hangs, and behind it a write of a word, for which the connection's next work must wait."""
    rig.launch(rig.kernel("hang"), stream=stream)
    rig.call("cuStreamWriteValue32_v2", stream, host, 1, 0)


def test_a_stream_waits_for_another_ones_work_in_its_connection(bare: Rig) -> None:
    bare.fake.set("connections 2")
    bare.start()
    streams, host = [bare.stream() for _ in range(3)], bare.get("cuMemHostAlloc", 64, 0)
    marked(bare, streams[0], host)
    bare.fake.await_hanging()
    bare.launch(bare.kernel("empty"), stream=streams[1])
    bare.call("cuStreamSynchronize", streams[1])
    bare.launch(bare.kernel("empty"), stream=streams[2])
    until(lambda: bare.fake.number("behind") == 1)
    assert bare.code("cuStreamQuery", streams[2]) == NOT_READY
    bare.fake.release()
    bare.call("cuStreamSynchronize", streams[2])


def test_kernels_of_one_connection_run_side_by_side(bare: Rig) -> None:
    """Running work of a connection delays nothing: only work that cannot begin yet does."""
    bare.fake.set("connections 1")
    bare.start()
    first, second = bare.stream(), bare.stream()
    bare.launch(bare.kernel("hang"), stream=first)
    bare.launch(bare.kernel("empty"), stream=second)
    bare.call("cuStreamSynchronize", second)
    bare.fake.await_hanging()
    assert bare.code("cuStreamQuery", first) == NOT_READY
    bare.fake.release()


def test_a_stream_of_a_higher_priority_has_another_connection(bare: Rig) -> None:
    bare.fake.set("connections 1")
    bare.start()
    host = bare.get("cuMemHostAlloc", 64, 0)
    marked(bare, bare.stream(), host)
    bare.fake.await_hanging()
    urgent = bare.get("cuStreamCreateWithPriority", 1, -1)
    bare.launch(bare.kernel("empty"), stream=urgent)
    bare.call("cuStreamSynchronize", urgent)
    assert bare.fake.number("hanging") == 1
    bare.fake.release()


@pytest.mark.parametrize(("asked", "count"), [(None, 8), ("3", 3), ("0", 1), ("100", 32)])
def test_the_environment_says_how_many_connections_there_are(
    bare: Rig, monkeypatch: pytest.MonkeyPatch, asked: str | None, count: int
) -> None:
    monkeypatch.delenv("CUDA_DEVICE_MAX_CONNECTIONS", raising=False)
    if asked is not None:
        monkeypatch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", asked)
    bare.fake.set("connections env")
    bare.start()
    streams, host = [bare.stream() for _ in range(count + 1)], bare.get("cuMemHostAlloc", 64, 0)
    marked(bare, streams[0], host)
    bare.fake.await_hanging()
    for stream in streams[1:-1]:
        bare.launch(bare.kernel("empty"), stream=stream)
        bare.call("cuStreamSynchronize", stream)
    bare.launch(bare.kernel("empty"), stream=streams[-1])
    until(lambda: bare.fake.number("behind") == 1)
    bare.fake.release()


def test_priorities_are_kept_within_their_range(rig: Rig) -> None:
    least, greatest = ctypes.c_int(9), ctypes.c_int(9)
    rig.call("cuCtxGetStreamPriorityRange", ctypes.byref(least), ctypes.byref(greatest))
    assert (least.value, greatest.value) == (0, -5)
    assert [priority_of(rig, asked) for asked in (7, 0, -3, -9)] == [0, 0, -3, -5]


def priority_of(rig: Rig, asked: int) -> int:
    stream, found = rig.get("cuStreamCreateWithPriority", 1, asked), ctypes.c_int()
    rig.call("cuStreamGetPriority", stream, ctypes.byref(found))
    return found.value


# ---- stacks ------------------------------------------------------------------------------------------


def deep(rig: Rig, local_bytes: int) -> int:
    """A kernel that needs this much stack."""
    return rig.kernel("empty", rig.module(cubin([Kernel("empty", local_bytes=local_bytes)])))


def growing(rig: Rig) -> int:
    """Makes a context in which a kernel hangs; returns an idle stream."""
    rig.fake.set("stack_growth 1")
    rig.start()
    rig.launch(rig.kernel("hang"), stream=rig.stream())
    rig.fake.await_hanging()
    return rig.stream()


def blocked(rig: Rig, work: Callable[[], None]) -> None:
    """Asserts that `work` waits for the hanging kernel, and goes on at its end."""
    context = rig.get("cuCtxGetCurrent")

    def call() -> None:
        rig.call("cuCtxSetCurrent", context)
        work()

    with in_thread(call) as thread:
        until(lambda: rig.fake.number("stack_waits") == 1)
        assert thread.is_alive()
        assert rig.fake.number("hanging") == 1
        rig.fake.release()


def test_a_launch_with_a_larger_stack_waits_for_all_that_runs(bare: Rig) -> None:
    stream = growing(bare)
    kernel = deep(bare, 4096)
    blocked(bare, lambda: bare.launch(kernel, stream=stream))
    bare.call("cuStreamSynchronize", stream)


@pytest.mark.parametrize("local_bytes", [0, 1024])
def test_a_stack_within_the_limit_waits_for_nothing(bare: Rig, local_bytes: int) -> None:
    stream = growing(bare)
    bare.launch(deep(bare, local_bytes), stream=stream)
    bare.call("cuStreamSynchronize", stream)
    assert bare.fake.number("hanging") == 1
    bare.fake.release()


def test_a_stack_size_that_was_reached_before_needs_no_wait(bare: Rig) -> None:
    bare.fake.set("stack_growth 1")
    bare.start()
    first, second, stream = deep(bare, 4096), deep(bare, 2048), bare.stream()
    bare.launch(first, stream=stream)
    bare.call("cuStreamSynchronize", stream)
    bare.launch(bare.kernel("hang"), stream=bare.stream())
    bare.launch(second, stream=stream)
    bare.call("cuStreamSynchronize", stream)
    assert bare.fake.number("stack_waits") == 0
    bare.fake.await_hanging()
    bare.fake.release()


def test_the_limit_makes_stacks_grow_at_once(bare: Rig) -> None:
    stream = growing(bare)
    kernel = deep(bare, 4096)
    blocked(bare, lambda: bare.call("cuCtxSetLimit", STACK_LIMIT, 4096))
    bare.launch(bare.kernel("hang"), stream=bare.stream())
    bare.launch(kernel, stream=stream)
    bare.call("cuStreamSynchronize", stream)
    assert bare.fake.number("stack_waits") == 1
    bare.fake.await_hanging()
    bare.fake.release()


def test_a_lower_limit_takes_stacks_away(bare: Rig) -> None:
    """A limit must therefore be the largest need of all kernels, not that of the latest one."""
    bare.fake.set("stack_growth 1")
    bare.start()
    kernel, stream = deep(bare, 4096), bare.stream()
    for size in (4096, 1024):
        bare.call("cuCtxSetLimit", STACK_LIMIT, size)
    bare.launch(bare.kernel("hang"), stream=bare.stream())
    bare.fake.await_hanging()
    blocked(bare, lambda: bare.launch(kernel, stream=stream))


# ---- all at once -------------------------------------------------------------------------------------


def test_a_kernel_computes_however_strict_the_driver_is(bare: Rig) -> None:
    bare.fake.set(*STRICT)
    bare.start()
    address, kernel = bare.alloc(4), bare.kernel("add_one")
    bare.write(address, bytes(4))
    for _ in range(40):
        bare.add_one(kernel, address, 1, bare.stream())
        bare.call("cuCtxSynchronize")
    assert bare.read(address, 4) == struct.pack("<I", 40)
    assert bare.fake.number("starts") + bare.fake.number("turns") > 0
    assert bare.fake.misuses() == []
