"""The GPU's timer and the host's clock: records have the host's times, however the timer is set, with a known error.

The fake GPU's timer is a setting; the engine launches the kernel that reads it, as with a real program.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes import cuda_cubin
from tests.limits import HANGS_AFTER_S
from tests.unit.cuda_control_rig import Control, control, hook
from tests.waiting import until
from vhost_backend._dataplane import lib
from vhost_backend.control.links.channel_port import DRIFT_DIVISOR
from vhost_backend.engines.cuda import cubin
from virtio_proto.control.records import Function

DECADES_NS = 1_500_000_000_000_000_000
UNKNOWN = 2**64 - 1
SMS = 132
FIRST_LIMIT_NS = 50_000_000
"""Longest time that the engine makes readings before the first record."""
REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(params=["0", f"-{DECADES_NS}", "3600000000000", "-77"])
def watched(request: pytest.FixtureRequest) -> Iterator[Control]:
    """A GPU whose timer has the given offset from the time since 1970, in ns."""
    with control(f"timer_offset_ns {request.param}") as made:
        await_first_reading(made)
        yield made


def await_first_reading(made: Control) -> None:
    """It may be a late one: whoever loads a program waits for 50 ms only, which is nothing on a busy machine."""
    until(made.gpu.pause)
    made.gpu.resume()


def record_time(made: Control) -> tuple[int, int, int]:
    """Makes a record; returns the time before, the record's time and the time after, by CLOCK_MONOTONIC."""
    before = time.monotonic_ns()
    made.run(0, 1, made.texts_at + cuda_cubin.LINE_AT)
    after = time.monotonic_ns()
    (found,) = made.drain()
    return before, found.time_ns, after


def error_now(made: Control) -> int:
    """Error of the records' times, as reported by the engine."""
    device = made.device_state()
    assert device.clock_error_ns != UNKNOWN
    return int(device.clock_error_ns + (time.monotonic_ns() - device.clock_read_ns) // DRIFT_DIVISOR)


def turn_until(made: Control, condition: Callable[[], bool]) -> None:
    """Polls, as the data plane's thread does while work of the VM runs, until the condition holds."""

    def turned() -> bool:
        made.gpu.poll()
        return condition()

    until(turned)


def await_readings(made: Control, count: int) -> None:
    for _ in range(count):
        last = made.device_state().clock_read_ns
        turn_until(made, lambda last=last: made.device_state().clock_read_ns != last)  # type: ignore[misc]


def test_records_have_the_hosts_times_however_the_timer_is_set(watched: Control) -> None:
    watched.open(Function.STDIO, pe=0, channel=1)
    before, told, after = record_time(watched)
    error_ns = error_now(watched)
    assert before - error_ns <= told <= after + error_ns


def test_the_timers_error_is_measured_before_the_first_record() -> None:
    """The error is that of the best reading: half of its duration, and the timer's resolution."""
    before = time.monotonic_ns()
    with control() as made:
        started = time.monotonic_ns()
        readings = made.gpu.driver.count("cuLaunchKernel")
        assert readings == 8 or started - before > FIRST_LIMIT_NS
        await_first_reading(made)
        after = time.monotonic_ns()
        device = made.device_state()
        assert made.gpu.driver.count("cuLaunchKernel") == readings
        assert before < device.clock_read_ns < after
        assert 1024 < device.clock_error_ns < 1024 + (after - before) // 2


def test_a_timer_that_is_set_while_kernels_run_is_read_again(watched: Control) -> None:
    watched.open(Function.STDIO, pe=0, channel=1)
    watched.gpu.launch("hang", stream=1)
    watched.gpu.driver.await_hanging()
    watched.gpu.driver.set(f"timer_offset_ns {DECADES_NS}")
    await_readings(watched, 2)  # the first reading may have begun before the change
    earliest, told, latest = record_time(watched)
    error_ns = error_now(watched)
    assert earliest - error_ns <= told <= latest + error_ns


def test_a_timer_that_drifts_is_followed() -> None:
    """Oscillators may drift by 50 in a million: after ten readings, that would be an error of 125 us."""
    with control("timer_ppm 50") as made:
        await_first_reading(made)
        made.open(Function.STDIO, pe=0, channel=1)
        made.gpu.launch("hang", stream=1)
        made.gpu.driver.await_hanging()
        for _ in range(3):
            await_readings(made, 1)
            before, told, after = record_time(made)
            error_ns = error_now(made)
            assert before - error_ns <= told <= after + error_ns


def test_records_of_a_dead_worker_have_the_hosts_times(watched: Control) -> None:
    watched.open(Function.STDIO, pe=3, channel=1)
    before = time.monotonic_ns()
    watched.run(3, 1, 0x1000)
    after = time.monotonic_ns()
    (found,) = watched.salvaged(1, Function.STDIO, pe=3, taken=0)
    error_ns = error_now(watched)
    assert before - error_ns <= found.time_ns <= after + error_ns


def test_an_idle_vms_timer_is_not_read() -> None:
    with control() as made:
        made.gpu.driver.clear()
        for _ in range(100):
            made.gpu.poll()
        assert not made.gpu.driver.calls("cuLaunchKernel")


def test_without_the_kernel_that_reads_the_timer_the_error_is_unknown() -> None:
    with control(image=cuda_cubin.hooked(clock=None)) as made:
        assert made.device_state().clock_error_ns == UNKNOWN
        assert made.device_state().num_pes == 0
        made.open(Function.STDIO, pe=0, channel=1)
        made.run(0, 1, made.texts_at + cuda_cubin.LINE_AT)
        assert len(made.drain()) == 1


def test_the_next_programs_kernel_reads_the_timer_after_an_unload() -> None:
    with control() as made:
        with made.gpu.left():
            second = made.gpu.load_image(cuda_cubin.hooked())
            hook(made.gpu, second)
            made.gpu.engine.unload_program(made.gpu.programs.pop(0))
        made.gpu.functions |= {(1, function.name): function for function in second.functions}
        made.gpu.launch("hang", stream=1)
        await_readings(made, 1)
        made.gpu.driver.release()
        assert not made.gpu.driver.misuses()


def test_no_program_is_unloaded_while_its_kernel_may_read_the_timer() -> None:
    with control("timer_hangs 1") as made:
        assert made.gpu.driver.count("cuLaunchKernel") == 1
        assert made.device_state().clock_error_ns == UNKNOWN
        assert not made.gpu.pause()
        made.gpu.driver.set("timer_hangs 0")
        made.gpu.driver.release()
        turn_until(made, made.gpu.pause)
        assert made.device_state().clock_error_ns != UNKNOWN


@pytest.mark.parametrize(
    "function", ["cuMemHostAlloc", "cuMemHostGetDevicePointer_v2", "cuStreamCreateWithPriority", "cuLaunchKernel"]
)
def test_a_failed_reading_of_the_timer_affects_nothing_else(function: str) -> None:
    with control(image=cuda_cubin.hooked(clock=None)) as made:
        made.gpu.driver.inject(function, 2, times=9)
        with made.gpu.left():
            hook(made.gpu, made.gpu.load_image(cuda_cubin.hooked()))
        made.gpu.driver.clear()
        assert made.device_state().clock_error_ns == UNKNOWN
        made.run(0, 1)


def test_a_reading_that_waited_for_kernels_does_not_count_as_stuck() -> None:
    """Only the time in which the reading has the GPU for itself counts."""
    stuck_ns = 200_000_000
    with control("timer_hangs 1", stuck_ns=stuck_ns) as made:
        asked_ns = time.monotonic_ns()
        while time.monotonic_ns() - asked_ns <= stuck_ns:
            made.gpu.wait(made.gpu.launch("empty"))
        assert not made.gpu.pause()
        made.gpu.driver.set("timer_hangs 0")
        made.gpu.driver.release()
        turn_until(made, made.gpu.pause)
        assert made.device_state().clock_error_ns != UNKNOWN


STUCK = """
from tests.unit.cuda_control_rig import control
with control("timer_hangs 1", stuck_ns=500_000_000) as made:
    made.gpu.pause()
    made.gpu.launch("empty")
    while not made.gpu.pause():
        pass
"""


def test_a_reading_that_never_ends_ends_the_worker() -> None:
    """Also while operations wait: none begins while a program is to be loaded, so they must not delay the end."""
    child = subprocess.run([sys.executable, "-c", STUCK], cwd=REPOSITORY, timeout=HANGS_AFTER_S, check=False)
    assert child.returncode == lib.VGC_EXIT_FATAL


# ---- a guest's kernels of that name ----------------------------------------------------------------


def test_a_guests_kernel_of_that_name_with_other_parameters_is_not_launched() -> None:
    with control(image=cuda_cubin.hooked(clock=cuda_cubin.Kernel("__vgc_clock", (8,) * 500))) as made:
        assert made.device_state().clock_error_ns == UNKNOWN
        made.open(Function.STDIO, pe=0, channel=1)
        made.run(0, 1, made.texts_at + cuda_cubin.LINE_AT)
        assert len(made.drain()) == 1


def test_a_guests_kernel_of_that_name_with_a_large_stack_is_not_launched() -> None:
    greedy = cuda_cubin.Kernel("__vgc_clock", (8,), local_bytes=400_000)
    with control(image=cuda_cubin.hooked(clock=greedy)) as made:
        assert made.device_state().clock_error_ns == UNKNOWN
        assert not made.gpu.driver.calls("cuLaunchKernel")
        assert not made.gpu.driver.calls("cuCtxSetLimit")
        made.run(0, 1)


def test_a_failure_with_one_program_is_retried_with_the_next_and_leaves_nothing_behind() -> None:
    with control(image=cuda_cubin.hooked(clock=None)) as made:
        made.gpu.driver.inject("cuMemHostAlloc", 2)
        before = made.gpu.driver.number("streams")
        for _ in range(2):
            with made.gpu.left():
                hook(made.gpu, made.gpu.load_image(cuda_cubin.hooked()))
        assert made.gpu.driver.number("streams") == before + 1
        await_first_reading(made)
        assert made.device_state().clock_error_ns != UNKNOWN


def test_numbers_of_sms_with_gaps_are_reported() -> None:
    for setting, pes in (("smid_base 12", SMS + 12), ("smid_stride 2", 2 * SMS - 1), ("smid_base 0", SMS)):
        with control(setting) as made:
            await_first_reading(made)
            assert made.device_state().num_pes == pes


def test_the_kernel_that_reads_the_timer_is_hidden_from_the_guest() -> None:
    names = {kernel.name for kernel in cubin.parse(cuda_cubin.hooked()).kernels}
    assert cubin.CLOCK_KERNEL not in names
    assert names == set(cuda_cubin.KERNELS)
