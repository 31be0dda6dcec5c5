"""Order of a warp's accesses to memory: kept for volatile accesses, and for all with --lockstep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.cpu_rig import rig

LOCKSTEP = ("--lockstep",)

TAIL = r"""
template <class T> __device__ void tail(volatile T *s, unsigned tid) {
    s[tid] += s[tid + 32]; s[tid] += s[tid + 16]; s[tid] += s[tid + 8]; s[tid] += s[tid + 4]; s[tid] += s[tid + 2]; s[tid] += s[tid + 1];
}
extern "C" __global__ void reduce(const int *x, int *sums) {
    extern __shared__ int s[];
    unsigned tid = threadIdx.x;
    s[tid] = x[blockIdx.x * blockDim.x + tid];
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 32; half /= 2) {
        if (tid < half) s[tid] += s[tid + half];
        __syncthreads();
    }
    if (tid < 32) tail(s, tid);
    if (tid == 0) sums[blockIdx.x] = s[0];
}
extern "C" __global__ void scan(const int *x, int *o) {
    volatile __shared__ int s[8][64];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    s[warp][lane] = 0;
    volatile int *row = s[warp] + 32;
    row[lane] = x[threadIdx.x];
    row[lane] = row[lane] + row[(int)lane - 1]; row[lane] = row[lane] + row[(int)lane - 2];
    for (int step = 4; step < 32; step *= 2) row[lane] = row[lane] + row[(int)lane - step];
    o[threadIdx.x] = row[lane];
}
extern "C" __global__ void mixed(const int *other, int *o) {
    __shared__ int s[32];
    volatile int *seen = s;
    unsigned tid = threadIdx.x;
    s[tid] = tid * 3;
    o[tid] = seen[other[tid]];
    s[tid] = tid + 100;
    o[32 + tid] = seen[other[tid]];
}
"""


@pytest.mark.parametrize("options", [(), LOCKSTEP])
@pytest.mark.parametrize("threads", [64, 128, 256, 512])
def test_reduction_whose_last_warp_does_not_wait(options: tuple[str, ...], threads: int) -> None:
    x = np.random.default_rng(threads).integers(-1000, 1000, 5 * threads).astype(np.int32)
    with rig() as gpu:
        gpu.load(TAIL, options)
        sums = gpu.array(5, np.int32)
        gpu.launch("reduce", 5, threads, gpu.array(x.size, np.int32, x), sums, shared=4 * threads)
        assert sums.tolist() == x.reshape(5, threads).sum(1).tolist()


IN_PLACE = r"""
extern "C" __global__ void reduce(int *data, int *sums) { // as textbooks have it, in global memory
    int tid = threadIdx.x, *own = data + blockIdx.x * blockDim.x;
    for (int half = blockDim.x / 2; half > 32; half /= 2) {
        if (tid < half) own[tid] += own[tid + half];
        __syncthreads();
    }
    if (tid < 32) {
        volatile int *v = own;
        v[tid] += v[tid + 32]; v[tid] += v[tid + 16]; v[tid] += v[tid + 8]; v[tid] += v[tid + 4]; v[tid] += v[tid + 2]; v[tid] += v[tid + 1];
    }
    if (tid == 0) sums[blockIdx.x] = own[0];
}
"""


@pytest.mark.parametrize("threads", [64, 128, 1024])
def test_volatile_global_memory_is_in_order_too(threads: int) -> None:
    x = np.random.default_rng(threads).integers(-1000, 1000, 3 * threads).astype(np.int32)
    with rig() as gpu:
        gpu.load(IN_PLACE)
        sums = gpu.array(3, np.int32)
        gpu.launch("reduce", 3, threads, gpu.array(x.size, np.int32, x), sums)
        assert sums.tolist() == x.reshape(3, threads).sum(1).tolist()


def test_volatile_shared_memory_is_in_order_whatever_local_memory_there_is() -> None:
    source = """
        extern "C" __global__ void swap(int *o, int n) {
            __shared__ volatile int s[32];
            int local[2000];
            for (int i = 0; i < 2000; i++) local[i] = i * n + threadIdx.x;
            s[threadIdx.x] = local[n];
            o[threadIdx.x] = s[threadIdx.x ^ 1] + local[o[threadIdx.x]];
        }
    """
    with rig() as gpu:
        gpu.load(source)
        out = gpu.array(32, np.int32, 5)
        gpu.launch("swap", 1, 32, out, np.int32(3))
        lanes = np.arange(32)
        assert out.tolist() == (9 + (lanes ^ 1) + 15 + lanes).tolist()


@pytest.mark.parametrize("options", [(), LOCKSTEP])
def test_scan_of_warps_without_waits(options: tuple[str, ...]) -> None:
    x = np.random.default_rng(1).integers(-1000, 1000, 256).astype(np.int32)
    with rig() as gpu:
        gpu.load(TAIL, options)
        out = gpu.array(256, np.int32)
        gpu.launch("scan", 1, 256, gpu.array(256, np.int32, x), out)
        assert out.tolist() == x.reshape(8, 32).cumsum(1).reshape(-1).tolist()


def test_volatile_loads_see_plain_stores_of_other_lanes() -> None:
    lanes = np.arange(32)
    with rig() as gpu:
        gpu.load(TAIL)
        out = gpu.array(64, np.int32)
        gpu.launch("mixed", 1, 32, gpu.array(32, np.int32, lanes ^ 5), out)
        assert out.tolist() == [*((lanes ^ 5) * 3), *((lanes ^ 5) + 100)]


STEPS = r"""
__device__ int counter;
extern "C" __global__ void tail(const int *x, int *o) {
    __shared__ int s[64];
    unsigned tid = threadIdx.x;
    s[tid] = x[tid]; s[tid + 32] = x[tid + 32];
    s[tid] += s[tid + 32]; s[tid] += s[tid + 16]; s[tid] += s[tid + 8]; s[tid] += s[tid + 4]; s[tid] += s[tid + 2]; s[tid] += s[tid + 1];
    o[tid] = s[tid];
}
extern "C" __global__ void transpose(int *m) {
    int lane = threadIdx.x;
    for (int row = 0; row < 32; row++)
        if (lane > row) { int a = m[row * 32 + lane], b = m[lane * 32 + row]; m[row * 32 + lane] = b; m[lane * 32 + row] = a; }
}
extern "C" __global__ void rotate(int *m, int n) {
    for (int i = 0; i < n; i++) m[threadIdx.x] = m[(threadIdx.x + 1) % 32];
}
extern "C" __global__ void uneven(int *m) {
    int lane = threadIdx.x;
    for (int i = 0; i < lane; i++) m[lane] += 1;
    m[lane] = m[31 - lane] * 2;
}
extern "C" __global__ void nested(int *m, int n) {
    int lane = threadIdx.x % 32;
    int *row = m + threadIdx.x / 32 * 32;
    for (int i = 0; i < n; i++) {
        if (lane & 1) { for (int k = 1; k < lane; k++) row[lane] += row[lane - 2]; }
        else if (lane < 30) row[lane] += row[lane + 2];
        row[lane] ^= row[31 - lane];
    }
}
struct Pair { int a, b; };
struct Many { int a[12]; };
extern "C" __global__ void structs(Pair *p) { p[threadIdx.x] = p[(threadIdx.x + 1) % 32]; p[threadIdx.x] = p[(threadIdx.x + 3) % 32]; }
extern "C" __global__ void large(Many *p) { p[threadIdx.x] = p[(threadIdx.x + 1) % 32]; p[threadIdx.x] = p[(threadIdx.x + 3) % 32]; }
extern "C" __global__ void atomics(int *o) {
    int before = atomicAdd(&counter, 1);
    o[threadIdx.x] = before; o[32 + threadIdx.x] = counter;
}
"""


def nested(m: Any, rounds: int) -> Any:
    """Model of the kernel `nested`, statement by statement, for a warp in step."""
    m = m.copy()
    lanes = np.arange(32)
    even = lanes[(lanes % 2 == 0) & (lanes < 30)]
    for _ in range(rounds):
        m[even] = m[even] + m[even + 2]
        for k in range(1, 32):
            odd = lanes[(lanes % 2 == 1) & (k < lanes)]
            m[odd] = m[odd] + m[odd - 2]
        m = m ^ m[31 - lanes]
    return m


def run(name: str, m: Any, *more: Any, threads: int = 32) -> Any:
    with rig() as gpu:
        gpu.load(STEPS, LOCKSTEP)
        out = gpu.array(m.size, np.int32, m)
        gpu.launch(name, 1, threads, *more[:1] if name == "tail" else (), out, *(() if name == "tail" else more))
        return out.copy()


def test_lockstep_orders_plain_shared_memory() -> None:
    x = np.random.default_rng(2).integers(-1000, 1000, 64).astype(np.int32)
    with rig() as gpu:
        gpu.load(STEPS, LOCKSTEP)
        out = gpu.array(32, np.int32)
        gpu.launch("tail", 1, 32, gpu.array(64, np.int32, x), out)
        assert out[0] == x.sum()


def test_lockstep_orders_global_memory() -> None:
    m = np.random.default_rng(3).integers(0, 1 << 30, 1024).astype(np.int32)
    assert (run("transpose", m) == m.reshape(32, 32).T.reshape(-1)).all()
    assert run("rotate", m[:32], np.int32(5)).tolist() == np.roll(m[:32], -5).tolist()
    lanes = np.arange(32)
    assert run("uneven", m[:32]).tolist() == ((m[31 - lanes] + 31 - lanes) * 2).astype(np.int32).tolist()
    pairs = m[:64].reshape(32, 2)
    assert run("structs", m[:64]).tolist() == np.roll(pairs, -4, 0).reshape(-1).tolist()
    assert run("large", m[:384]).tolist() == np.roll(m[:384].reshape(32, 12), -4, 0).reshape(-1).tolist()


def test_lockstep_brings_diverged_lanes_together_again() -> None:
    m = np.random.default_rng(4).integers(0, 1 << 30, 96).astype(np.int32)
    wanted = [nested(row, 3) for row in m.reshape(3, 32)]
    assert run("nested", m, np.int32(3), threads=96).tolist() == np.concatenate(wanted).tolist()


def test_lockstep_orders_atomics() -> None:
    out = run("atomics", np.zeros(64, np.int32))
    assert sorted(out[:32]) == list(range(32))
    assert (out[32:] == 32).all()
