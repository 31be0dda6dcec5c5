"""The benchmark's C helpers do the work that they time: kernels compute correctly, loops serve every request."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import threading
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
import pytest

from bench import program_executors, programs, workloads
from bench.driver import nanoseconds
from bench.executors import PlainCpp, on_pocl
from bench.native.loops import ffi, lib
from bench.opencl import OpenCl
from bench.placement import apart, device_cpus, driver_cpu
from bench.program_executors import plain_cpp
from bench.programs import Program
from bench.results import SkipRow
from bench.workloads import Workload
from tests.unit.cpu_rig import rig

RING = 16
GPA, UVA = 0x1000_0000, 0x2000_0000
ANSWER_BYTES = 48
PR_GET_TIMERSLACK = 30
libc = ctypes.CDLL(None)

SMALL: dict[str, Callable[[], Workload]] = {
    "saxpy": lambda: workloads.saxpy(1024 + 256),
    "matmul": lambda: workloads.matmul(48),
    "matmul_tiled": lambda: workloads.matmul_tiled(48),
    "reduce": lambda: workloads.reduce(10_007),
    "nbody": lambda: workloads.nbody(256),
    "histogram": lambda: workloads.histogram(10_007),
}


# ---- kernels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", SMALL)
def test_plain_cpp_kernel_agrees_with_numpy(name: str, threads: int) -> None:
    PlainCpp().prepare(SMALL[name](), threads)  # raises when it does not


@pytest.mark.parametrize("name", SMALL)
def test_opencl_kernel_agrees_with_numpy(name: str) -> None:
    try:
        pocl = OpenCl(threads=2)
    except SkipRow as reason:
        pytest.skip(str(reason))
    with on_pocl(pocl, SMALL[name]()):  # raises when it does not
        pass


PROGRAMS: dict[str, Callable[[], Program]] = {
    "bfs": lambda: programs.bfs(1000),
    "nw": lambda: programs.nw(128),
    "gaussian": lambda: programs.gaussian(37),
    "lud": lambda: programs.lud(64),
    "hotspot": lambda: programs.hotspot(48, 2),
    "lavamd": lambda: programs.lavamd(2),
    "scan": lambda: programs.scan(1 << 12),
    "transpose": lambda: programs.transpose(96),
    "spmv": lambda: programs.spmv(1000),
    "transformer_block": programs.transformer_block,
    "transformer_block_bf16": programs.transformer_block_bf16,
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_plain_cpp_program_agrees_with_numpy(name: str, threads: int) -> None:
    plain_cpp(PlainCpp(), PROGRAMS[name](), threads)()  # raises when it does not, also after a run


@pytest.mark.parametrize("name", PROGRAMS)
def test_opencl_program_agrees_with_numpy(name: str) -> None:
    try:
        pocl = OpenCl(threads=2)
    except SkipRow as reason:
        pytest.skip(str(reason))
    with program_executors.on_pocl(pocl, PROGRAMS[name]()):  # raises when it does not
        pass


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_agrees_with_numpy_on_the_cpu_engine(name: str) -> None:
    program = PROGRAMS[name]()
    with rig() as gpu:
        gpu.load(program.text("cu"))
        arrays = {key: gpu.array(array.shape, array.dtype, array) for key, array in program.arrays.items()}
        for step in program.steps:
            arguments = [arrays[a] if isinstance(a, str) else a for a in step.arguments]
            gpu.launch(step.kernel, step.grid, step.block, *arguments)
        for key, expected in program.expected.items():
            program.verify(key, arrays[key][: expected.size], "the engine")


def test_wrong_result_of_a_program_is_detected() -> None:
    program = PROGRAMS["spmv"]()
    with pytest.raises(ArithmeticError, match="spmv: y by nobody is off by"):
        program.verify("y", np.zeros(1000, np.float32), "nobody")


def test_wrong_result_is_detected() -> None:
    work = SMALL["matmul"]()
    with pytest.raises(ArithmeticError, match="matmul by nobody is off by"):
        work.verify(np.zeros(48 * 48, np.float32), "nobody")


# ---- loops over a ring -------------------------------------------------------------------------


class EchoDevice:
    """A queue and a device thread that answers every chain; counts them. Ends when its stop_fd is written."""

    def __init__(self) -> None:
        self.kick_fd, self.call_fd, self.stop_fd = (os.eventfd(0, os.EFD_NONBLOCK) for _ in range(3))
        os.set_blocking(self.call_fd, True)
        self.answered = 0
        self.memory = ffi.new("uint8_t[]", 1 << 16)
        self.queue = ffi.new("struct vgcb_queue *")
        assert lib.vgcb_queue_open(self.queue, self.memory, RING, True, self.kick_fd, self.call_fd) == 0
        self._mem = ffi.new("struct vgc_mem *", {"count": 1})
        self._mem.regions[0] = {"gpa": GPA, "uva": UVA, "size": 1 << 16, "host": self.memory}
        self._vq = ffi.new("struct vgc_vq_device *")
        offsets = (0, lib.vgcb_avail_offset(RING), lib.vgcb_used_offset(RING))
        parts = [UVA + offset for offset in offsets]
        assert lib.vgc_vq_device_init(self._vq, self._mem, RING, *parts, 0, True, True) == 0
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.eventfd_write(self.stop_fd, 1)
        self._thread.join()
        for fd in (self.kick_fd, self.call_fd, self.stop_fd):
            os.close(fd)

    def requests(self, count: int) -> Any:
        made = ffi.new("struct vgcb_request[]", count)
        for index, request in enumerate(made):
            request.n_readable = request.n_writable = 1
            for part in range(2):
                request.sg[part] = {"gpa": GPA + 0x1000 + 256 * index + 64 * part, "len": ANSWER_BYTES}
        return made

    def _serve(self) -> None:
        chain = ffi.new("struct vgc_chain *")
        while True:
            while lib.vgc_vq_pop(self._vq, self._mem, chain) == 1:
                self.answered += 1
                lib.vgc_vq_push(self._vq, chain.head, ANSWER_BYTES)
                if lib.vgc_vq_should_call(self._vq):
                    os.eventfd_write(self.call_fd, 1)
            if not lib.vgc_vq_enable_kick(self._vq):
                ready, _, _ = select.select([self.kick_fd, self.stop_fd], [], [])
                if self.stop_fd in ready:
                    return
                os.eventfd_read(self.kick_fd)


@pytest.fixture
def device() -> Iterator[EchoDevice]:
    with EchoDevice() as made:
        yield made


def test_polled_loop_sends_every_request_and_times_it(device: EchoDevice) -> None:
    times, pointer = nanoseconds(50)
    assert lib.vgcb_polled(device.queue, device.requests(1), 50, pointer) == 0
    assert device.answered == 50
    assert times.all()


def test_sleeping_loop_sends_every_request_and_times_it(device: EchoDevice) -> None:
    times, pointer = nanoseconds(20)
    assert lib.vgcb_sleeping(device.queue, device.requests(1), 20, 100_000, pointer) == 0
    assert device.answered == 20
    assert times.all()


@pytest.mark.parametrize("depth", [1, 5, RING // 2])
def test_pipelined_loop_sends_exactly_what_was_asked(device: EchoDevice, depth: int) -> None:
    elapsed = ffi.new("uint64_t *")
    assert lib.vgcb_pipelined(device.queue, device.requests(depth), depth, 203, elapsed) == 0
    assert device.answered == 203
    assert elapsed[0] > 0


def test_pipelined_loop_refuses_more_requests_than_a_ring_may_hold(device: EchoDevice) -> None:
    requests = device.requests(1)
    assert lib.vgcb_pipelined(device.queue, requests, 257, 1, ffi.new("uint64_t *")) == -errno.EINVAL


def test_round_trip_gives_up_on_a_silent_device() -> None:
    silent = EchoDevice()  # never entered, so no thread serves it
    elapsed = ffi.new("uint64_t *")
    code = lib.vgcb_round_trip(silent.queue, silent.requests(1), 1_000, 1_000_000, elapsed)
    assert code == -errno.ETIMEDOUT


# ---- bare primitives ---------------------------------------------------------------------------


def test_eventfd_ping_pong_times_every_round() -> None:
    times, pointer = nanoseconds(20)
    assert lib.vgcb_eventfd_ping_pong(max(device_cpus()), 20, 0, pointer) == 0
    assert times.all()


def test_cache_line_ping_pong_times_every_round() -> None:
    times, pointer = nanoseconds(20)
    assert lib.vgcb_cache_line_ping_pong(max(device_cpus()), 20, pointer) == 0
    assert times.all()


def test_nap_lasts_its_time_and_restores_the_threads_slack() -> None:
    before = libc.prctl(PR_GET_TIMERSLACK)
    times, pointer = nanoseconds(20)
    assert lib.vgcb_naps(20, 20_000, 1, pointer) == 0
    assert times.min() >= 20_000
    assert libc.prctl(PR_GET_TIMERSLACK) == before > 1


@pytest.mark.parametrize("slice_bytes", [100, 33, 1000])
def test_memcpy_copies_in_slices_or_at_once(slice_bytes: int) -> None:
    source, target = np.arange(100, dtype=np.uint8), np.zeros(100, np.uint8)
    _, pointer = nanoseconds(3)
    to, origin = ffi.from_buffer("uint8_t[]", target), ffi.from_buffer("uint8_t[]", source)
    lib.vgcb_memcpy(to, origin, 100, slice_bytes, 3, pointer)
    assert (target == source).all()


def test_placement_is_restored() -> None:
    before = os.sched_getaffinity(0)
    mine = driver_cpu()
    with apart([os.getpid()]):
        assert os.sched_getaffinity(0) in ({mine}, before - {mine})
    assert os.sched_getaffinity(0) == before
