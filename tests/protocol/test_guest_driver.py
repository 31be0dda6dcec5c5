"""The guest's driver against the real daemon, compiler, worker and CPU engine; only QEMU is missing."""

from __future__ import annotations

import ctypes
import io
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import guest_driver as vgc
from tests.fakes.guest import GuestProcess, open_device
from tests.protocol.guest_host import GuestHost, guest_host
from vhost_backend.config.daemon import MIB

SOURCE = r"""
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
extern "C" __global__ void reverse(int n, const int *in, int *out) {
    extern __shared__ int tile[];
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[n - 1 - threadIdx.x];
}
template <typename T> __global__ void twice(T *data) { data[threadIdx.x] *= 2; }
template __global__ void twice<double>(double *);
__device__ int counter;
extern "C" __global__ void count() { atomicAdd(&counter, 1); }
extern "C" __global__ void hello(int count) {
    for (int i = 0; i < count; i++) printf("hällo %d from thread %d\n", i, threadIdx.x);
}
extern "C" __global__ void hello_and_fail() { printf("before\n"); assert(threadIdx.x == 1); }
struct Table { unsigned char rows[32000]; };
extern "C" __global__ void look_up(const Table table, int n, const int *at, unsigned char *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = table.rows[at[i]];
}
extern "C" __global__ void stray(int *data) { data[1ll << 40] = 1; }
extern "C" __global__ void forever(volatile int *data) { while (data[0] != 1) {} }
"""


class HeapFigures(ctypes.Structure):
    """struct mallinfo2 of glibc."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in ("arena", "ord", "sm", "hblk", "hblkhd", "usm", "fsm", "uord", "ford", "keep")
    )


def heap_bytes() -> int:
    """Bytes in use of this thread's heap, without Python's small objects."""
    figures = ctypes.CDLL(None).mallinfo2
    figures.restype = HeapFigures
    return int(figures().uord + figures().hblkhd)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[GuestHost]:
    with guest_host(tmp_path) as host:
        yield host


@pytest.fixture
def dev(host: GuestHost, tmp_path: Path) -> Iterator[vgc.Device]:
    with open_device(host.link, tmp_path / "state") as dev:
        yield dev


def test_saxpy_from_numpy_arrays(dev: vgc.Device) -> None:
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    on_x, on_y = dev.to_device(x), dev.to_device(y)
    timing = dev.compile(SOURCE).saxpy[4, 256](1000, np.float32(2), on_x, on_y)
    assert np.array_equal(on_y.get(), 1 + 2 * x)
    assert isinstance(timing, vgc.Timing)
    assert timing.exec_ns > 0


def test_numbers_are_converted_to_the_kernels_parameters(dev: vgc.Device) -> None:
    saxpy = dev.compile(SOURCE).saxpy
    x, y = dev.to_device(np.arange(8, dtype=np.float32)), dev.zeros(8, "float32")
    saxpy[1, 8](8, 2, x, y)
    assert np.array_equal(y.get(), 2 * np.arange(8))
    with pytest.raises(
        TypeError, match=r"argument 0 of saxpy: the float 8.0, but the parameter is an integer of 4 bytes"
    ):
        saxpy[1, 8](8.0, 2, x, y)
    on_the_guest = np.zeros(8, np.float32)
    dev.call("saxpy", grid=1, block=8, args=[8, 3, vgc.In(x.get()), vgc.InOut(on_the_guest)])
    assert np.array_equal(on_the_guest, 3 * np.arange(8))
    with pytest.raises(TypeError, match="argument 1 of saxpy: a buffer, but the parameter is a float of 4 bytes"):
        dev.call("saxpy", grid=1, block=8, args=[8, vgc.In(b"1234"), x, y])


def test_parameters_too_large_for_a_slot_arrive_in_launches_and_calls(dev: vgc.Device) -> None:
    look_up = dev.compile(SOURCE).look_up
    rng = np.random.default_rng(5)
    index = rng.integers(0, 32000, 500).astype(np.int32)
    on_device, outs = dev.to_device(index), [dev.zeros(500, "uint8") for _ in range(8)]
    tables = [rng.integers(0, 256, 32000).astype(np.uint8) for _ in outs]
    with dev.stream() as stream:
        for table, out in zip(tables, outs, strict=True):
            look_up[2, 256, 0, stream](table.tobytes(), 500, on_device, out)
        stream.synchronize()
    for table, out in zip(tables, outs, strict=True):
        assert np.array_equal(out.get(), table[index])
    on_the_guest = np.zeros(500, np.uint8)
    args = [tables[0].tobytes(), 500, vgc.In(index), vgc.Out(on_the_guest)]
    dev.call("look_up", grid=2, block=256, args=args)
    assert np.array_equal(on_the_guest, tables[0][index])


NESTED = r"""
struct Node { Node *next; int value; };
__device__ Node *head;
extern "C" __global__ void push(int base) {
    Node *node = new Node{nullptr, base + (int)threadIdx.x};
    if (node == nullptr) return;
    unsigned long long old = (unsigned long long)head, seen;
    do { seen = old; node->next = (Node *)seen; } while ((old = atomicCAS((unsigned long long *)&head, seen, (unsigned long long)node)) != seen);
}
extern "C" __global__ void fan_out(int n) { if ((int)threadIdx.x < n) push<<<1, 32>>>(32 * threadIdx.x); }
extern "C" __global__ void collect(int *values, int *count) {
    while (head != nullptr) { Node *node = head; head = node->next; values[(*count)++] = node->value; delete node; }
}
"""


def test_kernels_take_memory_and_launch_kernels(dev: vgc.Device) -> None:
    before = dev.usage().memory_used_bytes
    program = dev.compile(NESTED, ["--malloc-heap-size=1000000"])
    assert 1_000_000 < dev.usage().memory_used_bytes - before < 40 * MIB
    values, count = dev.zeros(256, "int32"), dev.zeros(1, "int32")
    program.fan_out[1, 64](8)
    program.collect[1, 1](values, count)
    assert count.get()[0] == 256
    assert sorted(values.get()) == list(range(256))


def test_shared_memory_templates_and_variables(dev: vgc.Device) -> None:
    program = dev.compile(SOURCE)
    source, out = dev.to_device(np.arange(64, dtype=np.int32)), dev.empty(64, "int32")
    program.reverse[1, 64, 64 * 4](64, source, out)
    assert np.array_equal(out.get(), np.arange(64)[::-1])
    doubles = dev.to_device(np.arange(8.0))
    program.twice[1, 8](doubles)
    assert np.array_equal(doubles.get(), 2 * np.arange(8.0))
    program["count"][10, 100]()
    assert program.variable("counter").size_bytes == 4


@pytest.mark.parametrize("in_region", [False, True])
def test_whole_call_in_one_request(dev: vgc.Device, in_region: bool) -> None:
    dev.compile(SOURCE)
    x = dev.region_array(100_000) if in_region else np.empty(100_000, np.float32)
    y = dev.region_array(100_000) if in_region else np.empty(100_000, np.float32)
    x[:], y[:] = np.arange(100_000), 1
    before = dev.usage().requests_done
    dev.call("saxpy", grid=391, block=256, args=[np.int32(100_000), 3.0, vgc.In(x), vgc.InOut(y)])
    assert dev.usage().requests_done - before == 2, "the call, and the question before it"
    assert np.array_equal(y, 1 + 3 * np.arange(100_000, dtype=np.float32))


@pytest.mark.parametrize("size", [100, 5_000_000])
def test_copies_keep_every_byte(dev: vgc.Device, size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    memory = dev.to_device(data)
    copy = dev.empty(size, "uint8")
    copy.copy_from(memory)
    assert np.array_equal(copy.get(), data)


def test_streams_and_events(dev: vgc.Device) -> None:
    program = dev.compile(SOURCE)
    ones, sums = dev.to_device(np.ones(1000, np.float32)), [dev.zeros(1000) for _ in range(3)]
    start, end = dev.event().record(), dev.event()
    streams = [dev.stream() for _ in sums]
    for _ in range(10):
        for stream, total in zip(streams, sums, strict=True):
            program.saxpy[4, 256, 0, stream](1000, 1.0, ones, total)
    for stream in streams:
        stream.synchronize()
    end.record()
    assert start.elapsed_s(end) > 0
    assert all((total.get() == 10).all() for total in sums)


@pytest.mark.skipif("VGC_SANITIZE" in os.environ, reason="AddressSanitizer's allocator does not tell what is in use")
def test_a_device_that_is_closed_frees_what_is_left_of_it(host: GuestHost, tmp_path: Path) -> None:
    kept: list[object] = []

    def use_and_leave() -> None:
        with open_device(host.link, tmp_path / "state") as dev:
            kept.extend((dev.compile(SOURCE), dev.event().record(), dev.texture_array((64, 64))))
            dev.reset()
            dev.compile(SOURCE)["count"][1, 1]()

    for _ in range(3):
        use_and_leave()
    before = heap_bytes()
    for _ in range(40):
        use_and_leave()
    per_device = (heap_bytes() - before) / 40
    assert per_device < 1000, f"{per_device} bytes of each device are left"


@pytest.mark.parametrize("own_queue", [False, True])
def test_threads_compute_side_by_side(dev: vgc.Device, own_queue: bool) -> None:
    program = dev.compile(SOURCE)

    def work(factor: int) -> bool:
        if own_queue:
            dev.claim_queue()
        try:
            x, y = dev.to_device(np.arange(1000, dtype=np.float32)), dev.zeros(1000)
            for _ in range(20):
                program.saxpy[4, 256](1000, np.float32(factor), x, y)
            return np.array_equal(y.get(), 20 * factor * np.arange(1000, dtype=np.float32))
        finally:
            if own_queue:
                dev.release_queue()

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(work, (1, 2, 3)))


def test_job_can_be_asked_whether_it_is_done(dev: vgc.Device) -> None:
    program, flag = dev.compile(SOURCE), dev.zeros(4, "int32")
    with dev.stream() as stream:
        job = program.forever[1, 1, 0, stream](flag)
        assert isinstance(job, vgc.Job)
        assert not job.done()
        with pytest.raises(vgc.Pending):
            job.wait(timeout_s=0.01)
        flag.set(np.ones(4, np.int32))
        assert job.wait().exec_ns > 0
        assert job.done()


def test_prints_of_kernels_come_out_here(dev: vgc.Device, capsys: pytest.CaptureFixture[str]) -> None:
    program = dev.compile(SOURCE)
    program.hello[1, 2](1)
    assert sorted(capsys.readouterr().out.splitlines()) == [f"hällo 0 from thread {i}" for i in range(2)]
    dev.call("hello", grid=1, block=1, args=[np.int32(500)])
    assert capsys.readouterr().out == "".join(f"hällo {i} from thread 0\n" for i in range(500))
    with dev.stream() as stream:
        job = program.hello[1, 1, 0, stream](1)
        assert isinstance(job, vgc.Job)
        job.wait()
        assert capsys.readouterr().out == "hällo 0 from thread 0\n"
    before = dev.usage().requests_done
    program.hello[1, 1](0)
    assert dev.usage().requests_done - before == 2, "a kernel that prints nothing costs no request more"


def test_prints_of_a_kernel_that_fails_come_out_first(dev: vgc.Device, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(vgc.KernelAssert):
        dev.compile(SOURCE).hello_and_fail[1, 1]()
    assert capsys.readouterr().out == "before\n"


def test_prints_go_to_the_given_file_and_lost_bytes_are_counted(host: GuestHost, tmp_path: Path) -> None:
    file = io.StringIO()
    with open_device(host.link, tmp_path / "state", output=file) as dev:
        dev.compile(SOURCE).hello[1, 1](5000)
    *lines, last = file.getvalue().splitlines()
    kept, whole = sum(len(f"{line}\n".encode()) for line in lines), [f"hällo {i} from thread 0\n" for i in range(5000)]
    assert lines == [line.rstrip() for line in whole[: len(lines)]]
    assert last == f"[{len(''.join(whole).encode()) - kept} bytes of kernels' output were lost]"


def test_compile_error_names_the_line(dev: vgc.Device) -> None:
    with pytest.raises(vgc.CompileError) as caught:
        dev.compile("\n\n__global__ void f() { int x = nonsense; }")
    assert "3:" in caught.value.log
    assert "nonsense" in caught.value.log


def test_memory_counts_against_the_quota(dev: vgc.Device) -> None:
    with pytest.raises(vgc.OutOfMemory, match="resources exhausted"):
        dev.alloc(65 * MIB)
    with dev.alloc(32 * MIB):
        assert dev.usage().memory_used_bytes >= 32 * MIB
    assert dev.usage().memory_used_bytes == 0


def test_kernel_fault_names_the_kernel_and_the_device_works_after_reset(dev: vgc.Device, host: GuestHost) -> None:
    program, memory = dev.compile(SOURCE), dev.alloc(64)
    with pytest.raises(vgc.KernelFault, match="stray"):
        program.stray[1, 1](memory)
    with pytest.raises(vgc.DeviceLost):
        memory.read()
    host.link.wait_ready(generation=2)
    dev.reset()
    ones, total = dev.to_device(np.ones(10, np.float32)), dev.zeros(10)
    dev.compile(SOURCE).saxpy[1, 10](10, 5.0, ones, total)
    assert (total.get() == 5).all()


def test_kernel_past_its_deadline_is_ended(tmp_path: Path) -> None:
    short = guest_host(tmp_path, deadline_ns=100_000_000)
    with short as host, open_device(host.link, tmp_path / "state") as dev:
        program, memory = dev.compile(SOURCE), dev.zeros(4, "int32")
        with pytest.raises(vgc.Timeout, match="forever"):
            program.forever[1, 1](memory)


def test_interrupt_ends_the_wait_for_a_kernel(tmp_path: Path) -> None:
    script = f"""
program, memory = dev.compile({SOURCE!r}), dev.zeros(4, "int32")
say("ready")
try:
    program.forever[1, 1](memory)
except KeyboardInterrupt:
    say("interrupted")
dev.close()
say("closed")
"""
    with (
        guest_host(tmp_path) as host,
        open_device(host.link, tmp_path / "state") as dev,
        GuestProcess(host.link, tmp_path / "state", script) as process,
    ):
        process.expect("ready")
        while dev.usage().in_flight < 2:  # this query, and the kernel, just submitted or in progress
            assert process.process.poll() is None
        process.process.send_signal(signal.SIGINT)
        process.expect("interrupted")
        process.expect("closed")
        assert process.wait() == 0


def test_killed_worker_is_a_lost_device_and_nothing_worse(dev: vgc.Device, host: GuestHost) -> None:
    dev.alloc(1 << 20)
    host.kill_worker()
    host.link.wait_ready(generation=2)
    with pytest.raises(vgc.DeviceLost):
        dev.alloc(1)
    dev.reset()
    assert dev.info().generation == 2
    assert dev.usage().memory_used_bytes == 0


def test_second_process_uses_the_device_and_leaves_nothing(dev: vgc.Device, host: GuestHost, tmp_path: Path) -> None:
    script = "a = dev.alloc(1 << 20); a.fill_bytes(b'x'); say(len(a.read())); hear()"
    with GuestProcess(host.link, tmp_path / "state", script) as process:
        process.expect(str(1 << 20))
        assert dev.usage().num_contexts == 2
    with open_device(host.link, tmp_path / "state"):
        assert dev.usage().num_contexts == 2, "the killed process's context is gone"
        assert dev.usage().memory_used_bytes == 0
