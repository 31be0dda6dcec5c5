"""Threads that wait in a loop for what other threads of their block store."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.cpu_code import llvm_code
from tests.unit.cpu_rig import Rig, rig

SOURCE = r"""
#define EXPORT extern "C" __global__ void
__device__ int lock, count, turn;
__device__ volatile int flag;

EXPORT turns(int *order) { // the last thread goes first
    int tid = threadIdx.x, last = blockDim.x - 1;
    if (tid == last) turn = 0;
    __syncthreads();
    while (*(volatile int *)&turn != last - tid);
    order[tid] = atomicAdd(&count, 1);
    __threadfence();
    atomicExch(&turn, last - tid + 1);
}
EXPORT consumers(int *out) {
    __shared__ volatile int ready, value;
    if (threadIdx.x == 0) ready = 0;
    __syncthreads();
    if (threadIdx.x < blockDim.x - 1) {
        while (ready == 0) {}
        out[threadIdx.x] = value;
    } else {
        value = 42;
        __threadfence_block();
        ready = 1;
    }
}
EXPORT looks(int *out, int kind) { // at a flag that the last thread of the block sets
    __shared__ int set;
    if (threadIdx.x == 0) set = 0;
    __syncthreads();
    if (threadIdx.x == blockDim.x - 1) { atomicExch(&set, 1); }
    if (kind == 0) while (atomicAdd(&set, 0) == 0);
    else if (kind == 1) while (atomicCAS(&set, 1, 1) == 0);
    else if (kind == 2) { bool seen = false; while (!seen) { if (atomicOr(&set, 0)) seen = true; } }
    else if (kind == 3) for (int round = 0; __atomic_load_n(&set, __ATOMIC_ACQUIRE) == 0; round++) out[threadIdx.x] = -round;
    else do { __threadfence(); } while (__ldcv(&set) == 0);
    out[threadIdx.x] = kind;
}
EXPORT guarded(int *sum, int rounds) { // a lock that each thread takes
    volatile int *own = sum;
    for (int i = 0; i < rounds; i++) {
        while (atomicCAS(&lock, 0, 1) != 0);
        own[0] = own[0] + 1;
        own[1] = own[1] + threadIdx.x;
        __threadfence();
        atomicExch(&lock, 0);
    }
}
EXPORT tried(int *sum, int rounds) {
    volatile int *own = sum;
    for (int i = 0; i < rounds; i++)
        for (bool done = false; !done;)
            if (atomicExch(&lock, 1) == 0) {
                own[0] = own[0] + 1;
                own[1] = own[1] + threadIdx.x;
                __threadfence();
                atomicExch(&lock, 0);
                done = true;
            }
}
EXPORT update(float *max, const float *x) { // as nvcc's users write what the hardware lacks: no thread waits
    int *word = (int *)max, old = *word, seen;
    do { seen = old; old = atomicCAS(word, seen, __float_as_int(fmaxf(x[threadIdx.x], __int_as_float(seen)))); } while (seen != old);
}
EXPORT sum(const volatile int *x, int *out, int n) {
    int s = 0;
    for (int i = 0; i < n && x[i] >= 0; i++) s += x[i];
    out[threadIdx.x] = s;
}
"""


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig() as made:
        made.load(SOURCE)
        yield made


@pytest.mark.parametrize("threads", [2, 32, 100, 256])
def test_threads_take_turns(gpu: Rig, threads: int) -> None:
    gpu.variable("count")[...] = 0
    order = gpu.array(threads, np.int32)
    gpu.launch("turns", 1, threads, order)
    assert order.tolist() == list(range(threads))[::-1]


@pytest.mark.parametrize("threads", [2, 32, 33, 1024])
def test_the_last_thread_provides(gpu: Rig, threads: int) -> None:
    out = gpu.array(threads, np.int32)
    gpu.launch("consumers", 4, threads, out)
    assert out.tolist() == [42] * (threads - 1) + [0]


@pytest.mark.parametrize("kind", range(5))
@pytest.mark.parametrize("threads", [32, 64])
def test_forms_of_looking(gpu: Rig, kind: int, threads: int) -> None:
    out = gpu.array(threads, np.int32, -1)
    gpu.launch("looks", 2, threads, out, np.int32(kind))
    assert out.tolist() == [kind] * threads


@pytest.mark.parametrize("name", ["guarded", "tried"])
def test_a_lock_of_threads_of_many_blocks(gpu: Rig, name: str) -> None:
    sums = gpu.array(2, np.int32)
    gpu.launch(name, 4, 64, sums, np.int32(3))
    assert sums.tolist() == [4 * 64 * 3, 4 * 3 * sum(range(64))]
    assert not gpu.variable("lock").any()


def test_what_is_no_spin_does_not_yield(gpu: Rig) -> None:
    x = np.arange(32, dtype=np.float32)
    largest = gpu.array(1, np.float32)
    gpu.launch("update", 1, 32, largest, gpu.array(32, np.float32, x))
    assert largest[0] == 31
    kept = SOURCE[: SOURCE.index("EXPORT turns")] + SOURCE[SOURCE.index("EXPORT update") :]
    assert [yields_of(text) for text in (kept, SOURCE)] == [False, True]


def yields_of(source: str) -> bool:
    """True if any kernel has a place where threads yield."""
    return "i32 18," in llvm_code(source)  # VGC_SITE_YIELD in the table of waits


ROUNDS = r"""
extern "C" __global__ void counted(const int *n, int *out) {
    __shared__ int s[32];
    int lane = threadIdx.x, sum = 0;
    for (int i = 0; i < n[lane]; i++) sum += i * lane + 1;
    s[lane] = sum;
    out[lane] = s[lane ^ 1];
}
"""


def test_loops_that_count_keep_their_warp_together() -> None:
    rounds = np.arange(32)[::-1]
    with rig() as gpu:
        gpu.load(ROUNDS, ["--lockstep"])
        out = gpu.array(32, np.int32)
        gpu.launch("counted", 1, 32, gpu.array(32, np.int32, rounds), out)
        sums = rounds * (rounds - 1) // 2 * np.arange(32) + rounds
        assert out.tolist() == sums[np.arange(32) ^ 1].tolist()


def test_local_memory_too_large_to_be_kept_stays_local() -> None:
    source = """
        __device__ int lock;
        extern "C" __global__ void f(float *o) {
            float local[20000];
            for (int i = 0; i < 20000; i++) local[i] = i + threadIdx.x;
            while (atomicCAS(&lock, 0, 1) != 0);
            *o += local[(int)*o % 7 + 3];
            atomicExch(&lock, 0);
        }
    """
    with rig() as gpu:
        gpu.load(source)
        out = gpu.array(1, np.float32)
        gpu.launch("f", 1, 1, out)
        assert out[0] == 3


LOCKS = r"""
extern "C" __global__ void classical(int *lock, volatile int *sum) { // a warp in lockstep never comes out of this one
    while (atomicCAS(lock, 0, 1) != 0);
    sum[0] = sum[0] + threadIdx.x;
    __threadfence();
    atomicExch(lock, 0);
}
extern "C" __global__ void within(int *lock, volatile int *sum) { // the form that works there
    for (bool done = false; !done;)
        if (atomicCAS(lock, 0, 1) == 0) {
            sum[0] = sum[0] + threadIdx.x;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
}
extern "C" __global__ void one_by_one(int *lock, volatile int *sum) { // and the other
    for (int lane = 0; lane < 32; lane++)
        if (threadIdx.x % 32 == lane) {
            while (atomicCAS(lock, 0, 1) != 0);
            sum[0] = sum[0] + threadIdx.x;
            __threadfence();
            atomicExch(lock, 0);
        }
}
extern "C" __global__ void several(int *lock, volatile int *sum) { // locks of cells, as where trees are built
    int cell = threadIdx.x % 4;
    for (bool done = false; !done;) {
        if (atomicCAS(&lock[cell], 0, -2) == 0) {
            sum[cell] = sum[cell] + threadIdx.x;
            __threadfence();
            lock[cell] = 0;
            done = true;
        }
        __syncthreads();
    }
}
"""


@pytest.mark.parametrize("options", [(), ("--lockstep",)])
@pytest.mark.parametrize("name", ["classical", "within", "one_by_one", "several"])
def test_lanes_of_a_warp_take_a_lock(name: str, options: tuple[str, ...]) -> None:
    with rig() as gpu:
        gpu.load(LOCKS, options)
        lock, total = gpu.array(4, np.int32), gpu.array(4, np.int32)
        gpu.launch(name, 4, 64, lock, total)
        assert total.sum() == 4 * sum(range(64))
        assert lock.tolist() == [0, 0, 0, 0]
