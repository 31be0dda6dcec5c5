"""Atomics on shared memory, which the compiler turns into plain instructions, still count every thread."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.unit.cpu_rig import Rig, compile_image, rig

THREADS = 256
BLOCKS = 8

SOURCE = r"""
extern "C" __global__ void operations(int *out) {
    __shared__ int sum, smallest, largest, all, any, parity, last;
    __shared__ unsigned wrapping;
    __shared__ float total;
    __shared__ unsigned long long wide;
    int i = threadIdx.x;
    if (i == 0) {
        sum = 0; smallest = 1 << 30; largest = -1; all = -1; any = 0; parity = 0; last = -1;
        wrapping = 0; total = 0; wide = 0;
    }
    __syncthreads();
    atomicAdd(&sum, i);
    atomicMin(&smallest, i + 5);
    atomicMax(&largest, i);
    atomicAnd(&all, ~(i & 7));
    atomicOr(&any, i);
    atomicXor(&parity, i);
    atomicInc(&wrapping, 99);
    atomicAdd(&total, 0.5f);
    atomicAdd(&wide, 1ull << 33);
    for (int seen = last; ; ) { /* the largest, by compare and swap */
        if (seen >= i) break;
        int found = atomicCAS(&last, seen, i);
        if (found == seen) break;
        seen = found;
    }
    __syncthreads();
    if (i == 0) {
        int results[] = {sum, smallest, largest, all, any, parity, (int)wrapping, (int)total, (int)(wide >> 33), last};
        for (int k = 0; k < 10; k++) out[10 * blockIdx.x + k] = results[k];
    }
}
extern "C" __global__ void dynamic(const unsigned char *data, unsigned *bins) {
    extern __shared__ unsigned counts[];
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (int k = 0; k < 16; k++) atomicAdd(&counts[data[(blockIdx.x * 16 + k) * 256 + threadIdx.x]], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], counts[threadIdx.x]);
}
extern "C" __global__ void strided(unsigned n, const unsigned char *data, unsigned *bins) {
    __shared__ unsigned counts[256];
    for (unsigned bin = threadIdx.x; bin < 256; bin += blockDim.x) counts[bin] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&counts[data[i]], 1u);
    __syncthreads();
    for (unsigned bin = threadIdx.x; bin < 256; bin += blockDim.x) atomicAdd(&bins[bin], counts[bin]);
}
extern "C" __global__ void old_values(int *out) {
    __shared__ int next;
    if (threadIdx.x == 0) next = 0;
    __syncthreads();
    out[atomicAdd(&next, 1)] = 1;
}
"""


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig() as made:
        made.load(SOURCE)
        yield made


def test_every_thread_counts_in_every_operation(gpu: Rig) -> None:
    out = gpu.array((BLOCKS, 10), np.int32)
    gpu.launch("operations", BLOCKS, THREADS, out)
    i = np.arange(THREADS)
    expected = [i.sum(), 5, 255, ~7, 255, np.bitwise_xor.reduce(i), THREADS % 100, THREADS // 2, THREADS, 255]
    assert (out == expected).all(), out


def test_histogram_in_dynamic_shared_memory(gpu: Rig) -> None:
    data = gpu.array(BLOCKS * 16 * 256, np.uint8, np.random.default_rng(3).integers(0, 7, BLOCKS * 16 * 256))
    bins = gpu.array(256, np.uint32)
    gpu.launch("dynamic", BLOCKS, 256, data, bins, shared=1024)
    assert (bins == np.bincount(data, minlength=256)).all()


def test_no_two_threads_get_the_same_old_value(gpu: Rig) -> None:
    out = gpu.array(THREADS, np.int32)
    gpu.launch("old_values", 1, THREADS, out)
    assert out.all()


def disassembled(source: str, folder: Path) -> str:
    objdump = shutil.which("objdump")
    if objdump is None:
        pytest.skip("objdump is not installed (binutils)")
    path = folder / "image.so"
    path.write_bytes(compile_image(source)[0])
    return subprocess.run([objdump, "-d", str(path)], capture_output=True, text=True, check=True).stdout


def test_no_locked_instruction_is_left_for_shared_memory(tmp_path: Path) -> None:
    code = disassembled(SOURCE[: SOURCE.index('extern "C" __global__ void dynamic')], tmp_path)
    assert "\tret" in code
    assert "\tlock " not in code


STREAM = """
extern "C" __global__ void __launch_bounds__(256) stream(unsigned n, const unsigned char *data, unsigned *out) {
    __shared__ unsigned counts[256];
    unsigned sum = 0;
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) %s;
    __syncthreads();
    out[blockIdx.x * 256 + threadIdx.x] = counts[threadIdx.x] + sum;
}"""


def test_memory_of_the_next_round_is_asked_for_ahead(tmp_path: Path) -> None:
    by_lane = disassembled(STREAM % "atomicAdd(&counts[data[i]], 1)", tmp_path)
    assert by_lane.count("prefetcht0") == 256 // 64
    vectors = disassembled(STREAM % "sum += data[i]", tmp_path)
    assert "prefetch" not in vectors
    scattered = disassembled(STREAM % "atomicAdd(&counts[data[i * 64]], 1)", tmp_path)
    assert "prefetch" not in scattered


@pytest.mark.parametrize("threads", [256, 300, 512, 37])
@pytest.mark.parametrize("count", [1, 255, 4096, 5000])
def test_loops_whose_threads_leave_in_different_rounds_count_all(gpu: Rig, count: int, threads: int) -> None:
    data = np.random.default_rng(count).integers(0, 256, count, np.uint8)
    bins = gpu.array(256, np.uint32)
    gpu.launch("strided", 3, threads, np.uint32(count), gpu.array(count, np.uint8, data), bins)
    assert np.array_equal(bins, np.bincount(data, minlength=256))


def test_values_carried_to_a_loop_with_atomics_are_not_asked_for_ahead() -> None:
    """They lie in slots that the compiler replaces later: the request kept the place of one, where anything came to lie."""
    source = """
__device__ int highest;
extern "C" __global__ void count(int n, const int *__restrict__ label, int *__restrict__ counts) {
    for (int v = threadIdx.x + blockIdx.x * 256; v < n; v += gridDim.x * 256)
        atomicAdd(&counts[label[v]], 1);
}
extern "C" __global__ void most(int n, const int *__restrict__ counts, int *out) {
    if (threadIdx.x + blockIdx.x == 0)
        highest = 0;
    for (int v = threadIdx.x + blockIdx.x * 256; v < n; v += gridDim.x * 256)
        if (highest < counts[v])
            atomicMax(&highest, counts[v]);
    __syncthreads();
    *out = highest;
}
"""
    labels = np.arange(5000, dtype=np.int32) % 37 % 11
    with rig() as gpu:
        gpu.load(source)
        counts, out = gpu.array(16, np.int32), gpu.array(1, np.int32)
        gpu.launch("count", 4, 256, np.int32(5000), gpu.array(5000, np.int32, labels), counts)
        gpu.launch("most", 1, 256, np.int32(16), counts, out)
        expected = np.bincount(labels, minlength=16)
        assert np.array_equal(counts, expected)
        assert out[0] == expected.max()
