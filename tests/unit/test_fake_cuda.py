"""The rules of the fake CUDA driver: contexts, streams, events. Modules test_fake_cuda_* have the other rules."""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import subprocess
import threading
from pathlib import Path

import pytest

from tests.fakes.cuda_driver import SOURCES_DIR, STRICT, sources
from tests.limits import HANGS_AFTER_S
from tests.unit.fake_cuda_rig import (
    ILLEGAL_ADDRESS,
    INVALID_CONTEXT,
    INVALID_HANDLE,
    INVALID_VALUE,
    NOT_INITIALIZED,
    NOT_READY,
    OPERATING_SYSTEM,
    SUCCESS,
    Rig,
    bare,
    fake,
    in_thread,
    rig,
)

__all__ = ["bare", "fake", "rig"]


# ---- contexts ------------------------------------------------------------------------------------


def test_nothing_works_before_init(bare: Rig) -> None:
    assert bare.code("cuDeviceGetCount", ctypes.byref(ctypes.c_int())) == NOT_INITIALIZED
    assert bare.fake.misuses() == ["cuDeviceGetCount was called before cuInit"]


def test_the_driver_does_not_start_without_the_files_that_it_needs(bare: Rig) -> None:
    """A real driver names a thread through /proc, for example, and fails with this error if /proc is read-only."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        assert bare.code("cuInit", 0) == OPERATING_SYSTEM
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    bare.call("cuInit", 0)


def test_errors_have_names(bare: Rig) -> None:
    name = ctypes.c_char_p()
    bare.call("cuGetErrorName", ILLEGAL_ADDRESS, ctypes.byref(name))
    assert name.value == b"CUDA_ERROR_ILLEGAL_ADDRESS"
    assert bare.code("cuGetErrorName", 4711, ctypes.byref(name)) == INVALID_VALUE


def test_a_device_has_one_primary_context(rig: Rig) -> None:
    assert rig.get("cuDevicePrimaryCtxRetain", 0) == rig.get("cuCtxGetCurrent")


def test_objects_of_a_primary_context_end_with_its_last_user(rig: Rig) -> None:
    rig.stream()
    rig.event()
    rig.alloc(100)
    rig.module()
    assert rig.fake.alive() == {
        "contexts": 1,
        "streams": 1,
        "events": 1,
        "modules": 1,
        "device_allocations": 1,
    }
    rig.call("cuDevicePrimaryCtxRelease_v2", 0)
    assert rig.fake.alive() == {}


def test_a_thread_needs_a_context(rig: Rig) -> None:
    assert in_thread(lambda: rig.code("cuStreamCreate", ctypes.byref(ctypes.c_uint64()), 1)) == INVALID_CONTEXT
    assert rig.fake.misuses() == ["cuStreamCreate was called in a thread without a context"]


def test_a_destroyed_context_is_refused(rig: Rig) -> None:
    context = rig.get("cuCtxGetCurrent")
    rig.call("cuDevicePrimaryCtxRelease_v2", 0)
    assert rig.code("cuCtxSetCurrent", context) == INVALID_CONTEXT
    assert "is a context that was destroyed" in rig.fake.misuses()[-1]


# ---- handles -------------------------------------------------------------------------------------


def test_a_destroyed_handle_is_refused(rig: Rig) -> None:
    stream = rig.stream()
    rig.call("cuStreamDestroy_v2", stream)
    assert rig.code("cuStreamDestroy_v2", stream) == INVALID_HANDLE
    assert rig.fake.misuses() == [f"{stream:#x} is a stream that was destroyed"]


def test_a_handle_of_another_kind_is_refused(rig: Rig) -> None:
    event = rig.event()
    assert rig.code("cuStreamQuery", event) == INVALID_HANDLE
    assert rig.fake.misuses() == [f"{event:#x} is an event; a stream was expected"]


def test_a_value_that_was_never_a_handle_is_refused(rig: Rig) -> None:
    assert rig.code("cuEventQuery", 0x1234) == INVALID_HANDLE
    assert rig.fake.misuses() == ["0x1234 was never a handle; an event was expected"]


# ---- streams and events --------------------------------------------------------------------------


def test_a_stream_is_ready_when_its_work_is_done(rig: Rig) -> None:
    stream = rig.stream()
    rig.launch(rig.kernel("hang"), stream=stream)
    assert rig.code("cuStreamQuery", stream) == NOT_READY
    rig.fake.await_hanging()
    rig.fake.release()
    rig.call("cuStreamSynchronize", stream)
    assert rig.code("cuStreamQuery", stream) == SUCCESS


def test_streams_do_not_wait_for_one_another(rig: Rig) -> None:
    hung, other = rig.stream(), rig.stream()
    rig.launch(rig.kernel("hang"), stream=hung)
    rig.launch(rig.kernel("empty"), stream=other)
    rig.call("cuStreamSynchronize", other)
    assert rig.code("cuStreamQuery", hung) == NOT_READY


def test_a_stream_keeps_its_order(rig: Rig) -> None:
    stream, address, kernel = rig.stream(), rig.alloc(4), rig.kernel("add_one")
    rig.call("cuMemsetD32Async", address, 40, 1, stream)
    for _ in range(100):
        rig.add_one(kernel, address, 1, stream)
    rig.call("cuStreamSynchronize", stream)
    assert rig.read(address, 4) == struct.pack("<I", 140)


def test_a_full_queue_blocks_until_there_is_room(bare: Rig) -> None:
    bare.fake.set("queue_depth 4")
    context = bare.start()
    stream, hang, empty = bare.stream(), bare.kernel("hang"), bare.kernel("empty")
    bare.launch(hang, stream=stream)
    for _ in range(3):
        bare.launch(empty, stream=stream)
    assert bare.fake.number("blocked") == 0

    def one_more() -> None:
        bare.call("cuCtxSetCurrent", context)
        bare.launch(empty, stream=stream)

    thread = threading.Thread(target=one_more)
    thread.start()
    while bare.fake.number("blocked") == 0:
        pass
    assert thread.is_alive()
    bare.fake.await_hanging()
    bare.fake.release()
    thread.join()
    bare.call("cuStreamSynchronize", stream)


def test_the_queue_of_a_stream_holds_1024(rig: Rig) -> None:
    stream, empty = rig.stream(), rig.kernel("empty")
    rig.fake.hold()
    for _ in range(1024):
        rig.launch(empty, stream=stream)
    assert rig.fake.number("blocked") == 0
    rig.fake.go_on()
    rig.call("cuStreamSynchronize", stream)


def test_an_event_is_done_when_its_stream_comes_to_it(rig: Rig) -> None:
    stream, event = rig.stream(), rig.event()
    assert rig.code("cuEventQuery", event) == SUCCESS, "never recorded"
    rig.fake.hold()
    rig.call("cuEventRecord", event, stream)
    assert rig.code("cuEventQuery", event) == NOT_READY
    rig.fake.go_on()
    rig.call("cuEventSynchronize", event)
    assert rig.code("cuEventQuery", event) == SUCCESS


def test_a_stream_waits_for_an_event_of_another(rig: Rig) -> None:
    first, second, event = rig.stream(), rig.stream(), rig.event()
    rig.launch(rig.kernel("hang"), stream=first)
    rig.call("cuEventRecord", event, first)
    rig.call("cuStreamWaitEvent", second, event, 0)
    rig.fake.await_hanging()
    assert rig.code("cuStreamQuery", second) == NOT_READY
    rig.fake.release()
    rig.call("cuStreamSynchronize", second)
    assert rig.code("cuEventQuery", event) == SUCCESS


def test_a_wait_refers_to_the_last_recording_before_it(rig: Rig) -> None:
    first, second, event = rig.stream(), rig.stream(), rig.event()
    rig.call("cuEventRecord", event, first)
    rig.call("cuStreamSynchronize", first)
    rig.call("cuStreamWaitEvent", second, event, 0)
    rig.launch(rig.kernel("hang"), stream=first)
    rig.call("cuEventRecord", event, first)
    rig.call("cuStreamSynchronize", second)


def test_events_measure_the_time_between_them(rig: Rig) -> None:
    stream, begin, end, address = rig.stream(), rig.event(), rig.event(), rig.alloc(4)
    rig.call("cuEventRecord", begin, stream)
    rig.launch(rig.kernel("slow"), struct.pack("<Q", address), struct.pack("<I", 1), stream=stream)
    rig.call("cuEventRecord", end, stream)
    rig.call("cuStreamSynchronize", stream)
    ms = ctypes.c_float()
    rig.call("cuEventElapsedTime", ctypes.byref(ms), begin, end)
    assert ms.value >= 5
    rig.call("cuEventElapsedTime_v2", ctypes.byref(ms), end, begin)
    assert ms.value <= -5


def test_events_without_a_time_have_none_between_them(rig: Rig) -> None:
    event, untimed, ms = rig.event(), rig.get("cuEventCreate", 2), ctypes.c_float()
    assert rig.code("cuEventElapsedTime", ctypes.byref(ms), event, event) == INVALID_HANDLE, "never recorded"
    for one in (event, untimed):
        rig.call("cuEventRecord", one, rig.stream())
        rig.call("cuEventSynchronize", one)
    assert rig.code("cuEventElapsedTime", ctypes.byref(ms), event, untimed) == INVALID_HANDLE


# ---- threads -------------------------------------------------------------------------------------


def test_many_threads_may_call_at_once(rig: Rig) -> None:
    context, kernel, threads = rig.get("cuCtxGetCurrent"), rig.kernel("add_one"), []
    totals: list[bytes] = []

    def work() -> None:
        rig.call("cuCtxSetCurrent", context)
        stream, address = rig.stream(), rig.alloc(4)
        rig.call("cuMemsetD32Async", address, 0, 1, stream)
        for _ in range(200):
            rig.add_one(kernel, address, 1, stream)
        rig.call("cuStreamSynchronize", stream)
        totals.append(rig.read(address, 4))
        rig.call("cuStreamDestroy_v2", stream)
        rig.call("cuMemFree_v2", address)

    for _ in range(4):
        threads.append(threading.Thread(target=work))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert totals == [struct.pack("<I", 200)] * 4
    assert rig.fake.misuses() == []


@pytest.mark.parametrize("settings", [(), STRICT], ids=["kind", "strict"])
def test_threads_share_nothing_unguarded(tmp_path: Path, settings: tuple[str, ...]) -> None:
    """ThreadSanitizer finds no data race."""
    program, told = str(tmp_path / "threads"), tmp_path / "settings"
    told.write_text("\n".join(settings))
    flags = ["-g", "-O1", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsanitize=thread", f"-I{SOURCES_DIR}"]
    flags.append("-Wno-tsan")  # it does not support fences; the control system has one, which no thread here executes
    files = [Path(__file__).with_name("fake_cuda_threads.c"), *sources()]
    plain = {name: value for name, value in os.environ.items() if name not in {"LD_PRELOAD", "VGC_FAKE_CUDA"}}
    command = ["gcc", *flags, "-o", program, *map(str, files), "-pthread", "-lm"]
    subprocess.run(command, check=True, timeout=HANGS_AFTER_S, env=plain)
    told_env = plain | {"VGC_FAKE_CUDA": str(told)}
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=HANGS_AFTER_S, env=told_env)
    assert (done.returncode, done.stderr) == (0, "")
