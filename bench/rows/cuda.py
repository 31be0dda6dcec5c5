"""The CUDA engine beside the GPU's own driver: null launches, copies, loading, and what an idle VM costs.

Both sides are measured in this run, alternately: ours through the device, the native one in this process
(``bench/native/gpu.c``) with the same cubin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from bench.cuda.native import NativeGpu, Program
from bench.device import Device
from bench.lab import Lab
from bench.placement import apart
from bench.registry import Outcome, row
from bench.results import Goal, outcome
from bench.rows.compile import fresh, load_ms
from bench.rows.copy import Bytes, Direction, copying, gbps
from bench.rows.footprint import idle_percent, rss_mib
from bench.rows.null import Percentiles
from bench.stats import Subject, alternate
from bench.vgcd import OurDevice
from bench.workloads import KERNELS

KIB, MIB = 1 << 10, 1 << 20
DEPTH: Final = 64
"""Launches in flight in the pipelined row."""

NATIVE: Final = "native, same cubin"
SIZES: Final = {"4k": 4 * KIB, "64k": 64 * KIB, "1m": MIB, "16m": 16 * MIB, "64m": 64 * MIB, "256m": 256 * MIB}
SMOKE_LIMIT: Final = 4 * MIB


# ---- launches ----------------------------------------------------------------------------------


def _count(lab: Lab, full: int, quick: int) -> int:
    return lab.cuda.size(lab.samples(full, quick), 64)


def _null_times(ours: OurDevice, count: int) -> Percentiles:
    """Round trips of an empty kernel through a device, the driver on one CPU and the device on the others."""
    device = ours.device
    program = device.load((KERNELS / "empty.cu").read_text())
    empty = device.launch(device.function(program, "empty"), (1,), (1,))

    def run() -> npt.NDArray[np.uint64]:
        with apart(ours.pids):
            times = device.driver.polled(empty.native, count)
        empty.check()
        return times

    return Percentiles(run)


def _native_null(lab: Lab, native: NativeGpu) -> Program:
    return Program().launch(native.function(lab.cuda.cubin("empty"), "empty"), (1,), (1,))


def _native_times(lab: Lab, native: NativeGpu, count: int) -> Percentiles:
    empty = _native_null(lab, native)

    def run() -> npt.NDArray[np.uint64]:
        with apart():
            return native.round_trips(empty, count)

    return Percentiles(run)


@row("cuda_null_launch_us_p50", "cuda_null_launch_us_p99")
def null_launch(lab: Lab) -> Iterator[Outcome]:
    """LAUNCH of an empty kernel, spinning, beside cuLaunchKernel and cuStreamSynchronize, spinning too."""
    count = _count(lab, 5_000, 2_000)
    ours, theirs = _null_times(lab.cuda.vm, count), _native_times(lab, lab.cuda.native, count)
    native, own = alternate(lab.samples(15, 7), theirs, ours)
    goal = Goal("ratio", "<", 1.3)
    yield outcome("cuda_null_launch_us_p50", own, "us", "lower", native, against=NATIVE, goal=goal)
    yield outcome("cuda_null_launch_us_p99", ours.p99, "us", "lower", theirs.p99, against=NATIVE)


@row("cuda_null_launch_event_us_p50")
def null_launch_by_event(lab: Lab) -> Iterator[Outcome]:
    """The same where completion is seen by polling events, beside words that the GPU writes to the host's memory."""
    count = _count(lab, 5_000, 2_000)
    with (
        lab.cuda.vms([lab.cuda.plan("event", completion="event")]) as (by_event,),
        lab.cuda.vms([lab.cuda.plan("memory", completion="memory")]) as (by_memory,),
    ):
        words, events = alternate(lab.samples(15, 7), _null_times(by_memory, count), _null_times(by_event, count))
    yield outcome("cuda_null_launch_event_us_p50", events, "us", "lower", words, against="completion: memory")


@row("cuda_pipelined_launches_per_s")
def pipelined_launches(lab: Lab) -> Iterator[Outcome]:
    """Empty kernels with 64 in flight on one queue, beside as many cuLaunchKernel and one cuStreamSynchronize."""
    count = _count(lab, 100_000, 50_000)
    ours, native = lab.cuda.vm, lab.cuda.native
    device = ours.device
    program = device.load((KERNELS / "empty.cu").read_text())
    launches = device.launches(DEPTH, device.function(program, "empty"), (1,), (1,))
    empty = _native_null(lab, native)

    def through_us() -> float:
        with apart(ours.pids):
            per_second = device.driver.pipelined(launches.native, count)
        launches.check()
        return per_second

    def natively() -> float:
        with apart():
            return native.per_second(empty, count)

    theirs, own = alternate(lab.samples(9, 5), natively, through_us)
    yield outcome("cuda_pipelined_launches_per_s", own, "1/s", "higher", theirs, against=NATIVE)


# ---- copies ------------------------------------------------------------------------------------


def _repeats(size: int) -> int:
    """Copies per sample: about 256 MiB in all, at most 200."""
    return max(1, min(200, 256 * MIB // size))


def _our_copy(ours: OurDevice, direction: Direction, offset: int, size: int, address: int) -> Subject:
    """Copies through the device; what was copied is compared first."""
    device, span = ours.device, (offset, size)
    there, back = device.copy_in(address, span), device.copy_out(address, span)
    view = device.driver.view(*span)
    data = np.random.default_rng(5).integers(0, 256, size, np.uint8)
    view[:] = data
    device.run(there)
    view[:] = 0
    device.run(back)
    if not np.array_equal(view, data):
        raise ArithmeticError(f"{size} bytes copied in and out again are not what they were")
    return copying(ours, there if direction == "in" else back, size, _repeats(size))


def _native_copy(native: NativeGpu, direction: Direction, host: Bytes, address: int) -> Subject:
    program = Program()
    copy = program.copy_in(address, host) if direction == "in" else program.copy_out(address, host)

    def run() -> float:
        with apart():
            return gbps(host.nbytes, native.round_trips(copy, _repeats(host.nbytes)))

    return run


def _copies(lab: Lab, direction: Direction) -> Iterator[Outcome]:
    ours, native = lab.cuda.vm, lab.cuda.native
    sizes = {name: lab.cuda.size(size, min(size, SMOKE_LIMIT)) for name, size in SIZES.items()}
    largest = max(sizes.values())
    address = ours.device.alloc(largest)
    other, host = native.alloc(largest), native.pinned(largest)
    host[:] = 1
    for name, size in sizes.items():
        theirs, own = alternate(
            lab.samples(11, 5),
            _native_copy(native, direction, host[:size], other),
            _our_copy(ours, direction, lab.cuda.room[0], size, address),
        )
        goal = Goal("ratio", ">=", 0.95) if SIZES[name] >= MIB else None
        against = "cuMemcpyAsync, pinned memory"
        yield outcome(f"cuda_copy_{direction}_{name}_gbps", own, "GB/s", "higher", theirs, against=against, goal=goal)
    ours.device.free(address)
    native.free_all()


@row(*(f"cuda_copy_in_{name}_gbps" for name in SIZES))
def copy_in(lab: Lab) -> Iterator[Outcome]:
    """COPY_IN, one at a time, beside cuMemcpyHtoDAsync and cuStreamSynchronize from pinned memory."""
    yield from _copies(lab, "in")


@row(*(f"cuda_copy_out_{name}_gbps" for name in SIZES))
def copy_out(lab: Lab) -> Iterator[Outcome]:
    """COPY_OUT, one at a time, beside cuMemcpyDtoHAsync and cuStreamSynchronize to pinned memory."""
    yield from _copies(lab, "out")


# ---- loading -----------------------------------------------------------------------------------


def _check_saxpy(lab: Lab, device: Device, source: str) -> None:
    """:raise ArithmeticError: when the program that is loaded from `source` does not compute."""
    program = device.load(source)
    n = 256
    numbers = np.arange(n, dtype=np.float32)
    vector = device.upload(numbers, lab.cuda.room)
    arguments = [np.uint64(n).tobytes(), np.float32(2).tobytes(), *[np.uint64(vector).tobytes()] * 2]
    device.run(device.launch(device.function(program, "saxpy"), (1,), (n,), arguments))
    found = np.zeros_like(numbers)
    device.download(vector, found, lab.cuda.room)
    device.free(vector)
    device.unload(program)
    if not np.array_equal(found, 3 * numbers):
        raise ArithmeticError("saxpy computes something else")


@row("cuda_compile_cold_ms", "cuda_compile_cached_ms")
def load(lab: Lab) -> Iterator[Outcome]:
    """PROGRAM_LOAD of saxpy: never seen before, and again, when its cubin is in the cache."""
    device = lab.cuda.vm.device
    source = fresh("cu")
    _check_saxpy(lab, device, source)
    (cold,) = alternate(lab.samples(7, 3), lambda: load_ms(device, fresh("cu")))
    (cached,) = alternate(lab.samples(51, 21), lambda: load_ms(device, source))
    _check_saxpy(lab, device, source)
    yield outcome("cuda_compile_cold_ms", cold, "ms", "lower")
    yield outcome("cuda_compile_cached_ms", cached, "ms", "lower", goal=Goal("value", "<", 1.0))


# ---- an idle VM --------------------------------------------------------------------------------


@row("cuda_idle_cpu_percent", "cuda_worker_rss_mib")
def footprint(lab: Lab) -> Iterator[Outcome]:
    """A fresh daemon with one VM on the GPU, after a few launches."""
    with lab.cuda.vms([lab.cuda.plan("idle")]) as (ours,):
        _null_times(ours, 8)()
        share = idle_percent(ours, lab.cuda.size(lab.samples(10, 3), 1))
        worker = sum(map(rss_mib, ours.worker_pids))
    yield outcome("cuda_idle_cpu_percent", share, "%", "lower", goal=Goal("value", "<", 0.5))
    yield outcome("cuda_worker_rss_mib", worker, "MiB", "lower")
