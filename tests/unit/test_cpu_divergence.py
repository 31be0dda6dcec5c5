"""Warps whose lanes go different ways: shuffles, votes, barriers and locks as the CUDA programming guide has them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.cpu_rig import Rig, rig

SOURCE = r"""
#define EXPORT extern "C" __global__ void
EXPORT two_masks(int *o) {
    int t = threadIdx.x, v = t * 10, r;
    if (t & 1) r = __shfl_sync(0xaaaaaaaa, v, (t + 2) & 31);
    else r = __shfl_sync(0x55555555, v, (t + 4) & 31);
    o[t] = r;
}
EXPORT two_sites(int *o) { // one shuffle of all lanes, called at two places
    int t = threadIdx.x, r;
    if (t < 16) r = __shfl_sync(~0u, t, 31 - t);
    else r = __shfl_sync(~0u, t + 100, 31 - t);
    o[t] = r;
}
EXPORT widths(int *o) {
    int t = threadIdx.x;
    o[t] = __shfl_sync(~0u, t, t + 3, 8);
    o[32 + t] = __shfl_up_sync(~0u, t, 3, 8);
    o[64 + t] = __shfl_down_sync(~0u, t, 3, 8);
    o[96 + t] = __shfl_xor_sync(~0u, t, 5, 8);
    o[128 + t] = __shfl_xor_sync(~0u, t, 8, 8);
    o[160 + t] = __shfl_sync(~0u, t, -1, 16);
    o[192 + t] = __shfl_down_sync(~0u, t, 1, 1);
}
EXPORT votes(unsigned *o) {
    int t = threadIdx.x, all;
    if (t >= 20) return;
    o[t] = __ballot_sync(0xfffff, t & 1);
    o[32 + t] = __ballot_sync(~0u, 1); // lanes that have ended are not waited for
    o[64 + t] = __activemask();
    if (t < 7) o[96 + t] = __activemask();
    else o[96 + t] = __activemask();
    o[128 + t] = __match_any_sync(0xfffff, t / 3);
    o[160 + t] = __match_all_sync(0xfffff, 5, &all) + all;
}
EXPORT early(int *o) {
    int t = threadIdx.x;
    if (t % 3 == 0) return;
    o[t] = __syncthreads_count(t & 1);
    o[128 + t] = __syncthreads_and(t % 3) + 2 * __syncthreads_or(t == 127);
}
EXPORT trips(int *o) { // warps meet at different rounds of a loop
    int count = 0;
    for (int i = 0; i <= threadIdx.x / 32; i++) count += __syncthreads_count(1);
    o[threadIdx.x] = count;
}
EXPORT rounds(int *o, int n) {
    __shared__ int left;
    int count = 0;
    if (threadIdx.x == 0) left = n;
    __syncthreads();
    while (left > 0) {
        __syncthreads();
        if (threadIdx.x == 0) left--;
        count++;
        __syncthreads();
    }
    o[threadIdx.x] = count;
}
EXPORT aggregate(int *o) { // the guide's counter for all active lanes at once
    int t = threadIdx.x;
    if (t % 3 == 1) {
        unsigned mask = __activemask();
        int lead = __ffs(mask) - 1, base = 0;
        if (t == lead) base = atomicAdd(o, __popc(mask));
        base = __shfl_sync(mask, base, lead);
        o[1 + base + __popc(mask & ((1u << t) - 1))] = t;
    }
}
EXPORT lock_in_loop(int *lock, int *count) {
    bool done = false;
    while (!done)
        if (atomicCAS(lock, 0, 1) == 0) {
            *(volatile int *)count += 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
}
EXPORT lock_before(int *lock, int *count) {
    while (atomicCAS(lock, 0, 1) != 0) {}
    *(volatile int *)count += 1;
    __threadfence();
    atomicExch(lock, 0);
}
EXPORT lock_that_sleeps(int *lock, int *count) {
    while (atomicCAS(lock, 0, 1) != 0) __nanosleep(20);
    int v = *(volatile int *)count;
    __nanosleep(100);
    *(volatile int *)count = v + 1;
    __threadfence();
    atomicExch(lock, 0);
}
EXPORT chain(volatile int *flag, int *o) { // each lane waits for the next higher one
    int t = threadIdx.x;
    if (t != 31)
        while (flag[t + 1] == 0) __nanosleep(10);
    o[t] = flag[(t + 1) & 31];
    flag[t] = 1;
}
typedef int (*Function)(int);
__device__ int more(int x) { return x + 1; }
__device__ int twice(int x) { return x * 2; }
__device__ Function functions[2] = {more, twice};
EXPORT pointers(int *o) { o[threadIdx.x] = __shfl_xor_sync(~0u, functions[threadIdx.x & 1](threadIdx.x), 1); }
union Word {
    unsigned u;
    unsigned char b[4];
    struct { unsigned low : 5, middle : 20, high : 7; } bits;
};
EXPORT fields(unsigned *o) {
    __shared__ Word s[32];
    int t = threadIdx.x;
    s[t].u = 0;
    s[t].bits.low = t; s[t].bits.middle = t * 1000; s[t].bits.high = 127 - t;
    __syncthreads();
    o[t] = s[31 - t].u;
    o[32 + t] = s[31 - t].b[1];
}
EXPORT shorts(unsigned short *p) {
    unsigned short old = *p, seen;
    do { seen = old; old = atomicCAS(p, seen, (unsigned short)(seen + 3)); } while (old != seen);
}
"""
LANES = np.arange(32)


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig() as gpu:
        gpu.load(SOURCE)
        yield gpu


def test_shuffles_of_lanes_that_went_different_ways(gpu: Rig) -> None:
    out = gpu.array(32, np.int32)
    gpu.launch("two_masks", 1, 32, out)
    assert out.tolist() == np.where(LANES & 1, (LANES + 2) % 32 * 10, (LANES + 4) % 32 * 10).tolist()
    gpu.launch("two_sites", 1, 32, out)
    assert out.tolist() == [(31 - t) + 100 * (t < 16) for t in range(32)]
    gpu.launch("pointers", 1, 32, out)
    assert out.tolist() == [(t ^ 1) + 1 if t & 1 else (t ^ 1) * 2 for t in range(32)]


def test_widths_below_32(gpu: Rig) -> None:
    out = gpu.array((7, 32), np.int32)
    gpu.launch("widths", 1, 32, out)
    first = LANES // 8 * 8
    wanted = [
        first + (LANES + 3) % 8,
        np.where(LANES % 8 >= 3, LANES - 3, LANES),
        np.where(LANES % 8 < 5, LANES + 3, LANES),
        LANES ^ 5,
        np.where(LANES & 8, LANES ^ 8, LANES),  # lanes of a later segment are out of reach
        LANES // 16 * 16 + 15,
        LANES,
    ]
    assert out.tolist() == np.array(wanted).tolist()


def test_votes_without_lanes_that_have_ended(gpu: Rig) -> None:
    out = gpu.array((6, 32), np.uint32)
    gpu.launch("votes", 1, 32, out)
    wanted = [
        [0xAAAAA] * 20,
        [0xFFFFF] * 20,
        [0xFFFFF] * 20,
        [0x7F] * 7 + [0xFFF80] * 13,
        [7 << t // 3 * 3 & 0xFFFFF for t in range(20)],
        [0xFFFFF + 1] * 20,
    ]
    assert out[:, :20].tolist() == wanted


def test_barriers_without_threads_that_have_ended(gpu: Rig) -> None:
    out = gpu.array(256, np.int32)
    gpu.launch("early", 1, 128, out)
    left = np.array([t for t in range(128) if t % 3])
    assert set(out[left]) == {int((left & 1).sum())}
    assert set(out[128 + left]) == {3}


def test_barriers_in_loops(gpu: Rig) -> None:
    out = gpu.array(128, np.int32)
    gpu.launch("trips", 1, 128, out)
    assert out[::32].tolist() == [128, 128 + 96, 128 + 96 + 64, 128 + 96 + 64 + 32]
    gpu.launch("rounds", 1, 96, out, np.int32(5))
    assert out[:96].tolist() == [5] * 96


def test_one_atomic_for_all_active_lanes(gpu: Rig) -> None:
    out = gpu.array(12, np.int32)
    gpu.launch("aggregate", 1, 32, out)
    assert out.tolist() == [11, *range(1, 32, 3)]


@pytest.mark.parametrize("name", ["lock_in_loop", "lock_before", "lock_that_sleeps"])
def test_locks_between_lanes_of_a_warp(gpu: Rig, name: str) -> None:
    lock, count = gpu.array(1, np.int32), gpu.array(1, np.int32)
    gpu.launch(name, 4, 64, lock, count)
    assert (lock[0], count[0]) == (0, 256)


def test_lanes_that_sleep_let_later_ones_go_first(gpu: Rig) -> None:
    flags, out = gpu.array(32, np.int32), gpu.array(32, np.int32)
    gpu.launch("chain", 1, 32, flags, out)
    assert out[:31].tolist() == [1] * 31


def test_bit_fields_and_unions_in_shared_memory(gpu: Rig) -> None:
    out = gpu.array(64, np.uint32)
    gpu.launch("fields", 1, 32, out)
    t = 31 - LANES
    words = (t | t * 1000 << 5 | (127 - t) << 25).astype(np.uint32)
    assert out[:32].tolist() == words.tolist()
    assert out[32:].tolist() == (words >> 8 & 0xFF).tolist()


def test_compare_and_swap_of_16_bits_spares_its_neighbour(gpu: Rig) -> None:
    pair = gpu.array(2, np.uint16, [0, 0xFFFF])
    gpu.launch("shorts", 4, 64, pair)
    assert pair.tolist() == [768, 0xFFFF]
