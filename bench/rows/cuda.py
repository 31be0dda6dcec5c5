"""Rows of the CUDA engine beside the GPU's driver: null launches, copies, loading, and the cost of an idle VM.

Both sides are measured alternately in one run: our device, and the native side in this process
(``bench/native/gpu.c``) with the same cubin.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from bench.cuda import work
from bench.cuda.compile import cubin_of
from bench.cuda.native import NativeGpu, Program
from bench.cuda.work import Native, on_device
from bench.device import Device
from bench.lab import Lab
from bench.placement import apart
from bench.processes import resident
from bench.registry import Outcome, row
from bench.results import Goal, outcome
from bench.rows.compile import fresh, load_ms
from bench.rows.copy import Bytes, Direction, copying, gbps
from bench.rows.footprint import idle_percent, parts
from bench.rows.null import Percentiles
from bench.stats import Subject
from bench.vgcd import OurDevice
from bench.workloads import KERNELS

KIB, MIB = 1 << 10, 1 << 20
DEPTH: Final = 64
"""Launches in flight in the pipelined row."""

NATIVE: Final = "native, same cubin"
PINNED: Final = "cuMemcpyAsync, the driver's pinned memory"
REGISTERED: Final = "cuMemcpyAsync, a registered memfd"
SIZES: Final = {"4k": 4 * KIB, "64k": 64 * KIB, "1m": MIB, "16m": 16 * MIB, "64m": 64 * MIB, "256m": 256 * MIB}
QUOTED: Final = "256m"
SMOKE_LIMIT: Final = 4 * MIB
SLEPT_NS: Final = 200_000
"""Time of a kernel for whose end the data plane naps instead of spinning."""


# ---- launches ----------------------------------------------------------------------------------


def _count(lab: Lab, full: int, quick: int) -> int:
    return lab.cuda.size(lab.samples(full, quick), 64)


def null_times(ours: OurDevice, count: int) -> Percentiles:
    """Subject of round trips of an empty kernel, the driver on one CPU and the device on the others."""
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
    """LAUNCH of an empty kernel, spinning, beside cuLaunchKernel and cuStreamSynchronize, also spinning."""
    count = _count(lab, 5_000, 2_000)
    ours, theirs = null_times(lab.cuda.vm, count), _native_times(lab, lab.cuda.native, count)
    native, own = lab.cuda.alternate(lab.samples(15, 7), theirs, ours)
    goal = Goal("ratio", "<", 1.3)
    yield outcome("cuda_null_launch_us_p50", own, "us", "lower", native, against=NATIVE, goal=goal)
    yield outcome("cuda_null_launch_us_p99", ours.p99, "us", "lower", theirs.p99, against=NATIVE)


@row("cuda_null_launch_event_us_p50")
def null_launch_by_event(lab: Lab) -> Iterator[Outcome]:
    """LAUNCH with completion seen by polling events, beside completion by words that the GPU writes to host memory."""
    count = _count(lab, 5_000, 2_000)
    with (
        lab.cuda.vms([lab.cuda.plan("event", completion="event")]) as (by_event,),
        lab.cuda.vms([lab.cuda.plan("memory", completion="memory")]) as (by_memory,),
    ):
        words, events = lab.cuda.alternate(
            lab.samples(15, 7), null_times(by_memory, count), null_times(by_event, count)
        )
    yield outcome("cuda_null_launch_event_us_p50", events, "us", "lower", words, against="completion: memory")


def _rounds_for(lab: Lab, ns: int) -> int:
    """Rounds of the busy kernel's loop, with a block on each SM, for a launch that natively takes `ns`."""
    few, many = 1_000, 11_000
    times = {}
    with lab.cuda.measured():
        for rounds in (few, many):
            made = Native(lab.cuda.native, work.busy(lab.cuda.gpu.num_pes, rounds), lab.cuda.cubin("busy"))
            times[rounds] = float(np.median(made.round_trips(20)))
    lab.cuda.native.free_all()
    return max(1, int(few + (ns - times[few]) * (many - few) / max(times[many] - times[few], 1.0)))


@row("cuda_launch_200us_us_p50", "cuda_launch_200us_us_p99")
def slept_through(lab: Lab) -> Iterator[Outcome]:
    """LAUNCH of a kernel of about 200 us, for whose end our data plane naps, beside a thread that spins."""
    native = lab.cuda.native
    rounds = 50 if lab.cuda.smoke else _rounds_for(lab, SLEPT_NS)
    made = work.busy(lab.cuda.gpu.num_pes, rounds)
    count = _count(lab, 1_000, 300)
    with on_device(lab.cuda.vm.device, made, lab.cuda.room) as on:
        theirs = Native(native, made, lab.cuda.cubin(made.source))
        through_us, natively = (Percentiles(partial(side.round_trips, count)) for side in (on, theirs))
        floor, own = lab.cuda.alternate(lab.samples(15, 7), natively, through_us)
    native.free_all()
    yield outcome("cuda_launch_200us_us_p50", own, "us", "lower", floor, against=NATIVE)
    yield outcome("cuda_launch_200us_us_p99", through_us.p99, "us", "lower", natively.p99, against=NATIVE)


@row("cuda_pipelined_launches_per_s")
def pipelined_launches(lab: Lab) -> Iterator[Outcome]:
    """LAUNCH of empty kernels, 64 in flight on one queue, beside as many cuLaunchKernel and one cuStreamSynchronize."""
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

    theirs, own = lab.cuda.alternate(lab.samples(9, 5), natively, through_us)
    yield outcome("cuda_pipelined_launches_per_s", own, "1/s", "higher", theirs, against=NATIVE)


# ---- copies ------------------------------------------------------------------------------------


def _repeats(size: int) -> int:
    """Number of copies per sample: about 256 MiB in all, at most 200."""
    return max(1, min(200, 256 * MIB // size))


def device_copy(ours: OurDevice, direction: Direction, offset: int, size: int, address: int) -> Subject:
    """Subject that copies through the device; first checks that copies are right."""
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
    address, other = ours.device.alloc(largest), native.alloc(largest)
    pinned, registered = native.pinned(largest), native.registered(largest)
    pinned[:], registered[:] = 1, 1
    for name, size in sizes.items():
        theirs, in_small_pages, own = lab.cuda.alternate(
            lab.samples(11, 5),
            _native_copy(native, direction, pinned[:size], other),
            _native_copy(native, direction, registered[:size], other),
            device_copy(ours, direction, lab.cuda.room[0], size, address),
        )
        large, quoted = SIZES[name] >= MIB, name == QUOTED
        goal = Goal("ratio", ">=", 0.95) if large else None
        full_name = f"cuda_copy_{direction}_{name}"
        yield outcome(f"{full_name}_gbps", own, "GB/s", "higher", theirs, against=PINNED, goal=goal, quoted=quoted)
        if large:
            yield outcome(
                f"{full_name}_beside_registered",
                own,
                "GB/s",
                "higher",
                in_small_pages,
                against=REGISTERED,
                quoted=quoted,
            )
    ours.device.free(address)
    native.free_all()


def _copy_names(direction: Direction) -> list[str]:
    names = [f"cuda_copy_{direction}_{name}_gbps" for name in SIZES]
    return names + [f"cuda_copy_{direction}_{name}_beside_registered" for name, size in SIZES.items() if size >= MIB]


@row(*_copy_names("in"))
def copy_in(lab: Lab) -> Iterator[Outcome]:
    """COPY_IN, one at a time, beside cuMemcpyHtoDAsync and cuStreamSynchronize from pinned memory."""
    yield from _copies(lab, "in")


@row(*_copy_names("out"))
def copy_out(lab: Lab) -> Iterator[Outcome]:
    """COPY_OUT, one at a time, beside cuMemcpyDtoHAsync and cuStreamSynchronize to pinned memory."""
    yield from _copies(lab, "out")


# ---- loading -----------------------------------------------------------------------------------


def _check_saxpy(lab: Lab, device: Device, source: str) -> None:
    """Loads `source` and checks its result.

    :raise ArithmeticError: the result is wrong.
    """
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
    """PROGRAM_LOAD of saxpy: compiled for the first time, and with its cubin in the cache; beside the latter, the
    driver's loading of this cubin, which is a part of it.
    """
    device, native = lab.cuda.vm.device, lab.cuda.native
    source = fresh("cu")
    _check_saxpy(lab, device, source)
    image = cubin_of(source.encode(), lab.cuda.gpu)
    (cold,) = lab.cuda.alternate(lab.samples(7, 3), lambda: load_ms(device, fresh("cu")))
    bare, cached = lab.cuda.alternate(
        lab.samples(51, 21), lambda: native.load_ms(image), lambda: load_ms(device, source)
    )
    _check_saxpy(lab, device, source)
    yield outcome("cuda_compile_cold_ms", cold, "ms", "lower")
    goal = Goal("value", "<", 1.0)
    yield outcome("cuda_compile_cached_ms", cached, "ms", "lower", bare, against="native cuModuleLoadData", goal=goal)


# ---- an idle VM --------------------------------------------------------------------------------


@row("cuda_idle_cpu_percent", "cuda_worker_rss_mib")
def footprint(lab: Lab) -> Iterator[Outcome]:
    """Idle CPU time of a new daemon with one VM on the GPU, after a few launches, and its worker's anonymous memory:
    registering the region makes all of that resident, and libraries are shared by all workers.
    """
    with lab.cuda.vms([lab.cuda.plan("idle")]) as (ours,):
        with lab.cuda.measured():
            null_times(ours, 8)()
        share = idle_percent(ours, lab.cuda.size(lab.samples(10, 3), 1))
        worker = resident(ours.worker_pids)
    yield outcome("cuda_idle_cpu_percent", share, "%", "lower", goal=Goal("value", "<", 0.5))
    yield outcome("cuda_worker_rss_mib", worker.anon, "MiB", "lower", against=parts(worker))
