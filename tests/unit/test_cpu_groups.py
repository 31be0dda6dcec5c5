"""Cooperative groups on the CPU engine: tiles, partitions, reductions, scans, copies, and grids whose blocks wait."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.cpu_rig import LaunchError, Rig, compile_image, make_launch, rig
from virtio_proto.schema import Status

SOURCE = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
#define EXPORT extern "C" __global__ void

// ---- grids ----

EXPORT ring(const int *in, int *out, int rounds) { // each block hands its values to the next one, again and again
    cg::grid_group grid = cg::this_grid();
    __shared__ int kept[64];
    int mine[3] = {in[grid.thread_rank()], 0, 0};
    int *p = &mine[threadIdx.x % 3], n = blockDim.x;
    *p = mine[0];
    for (int r = 0; r < rounds; r++) {
        kept[threadIdx.x] = *p;
        __syncthreads();
        out[blockIdx.x * n + threadIdx.x] = kept[(threadIdx.x + 1) % n];
        grid.sync();
        *p = out[(blockIdx.x + 1) % gridDim.x * n + threadIdx.x];
        grid.sync();
    }
    out[grid.thread_rank()] = *p;
}
EXPORT sum_of_all(const float *in, float *partial, float *total, int n) { // the grid's reduction in one launch
    cg::grid_group grid = cg::this_grid();
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<32>(block);
    float sum = 0;
    for (unsigned long long i = grid.thread_rank(); i < n; i += grid.size()) sum += in[i];
    sum = cg::reduce(tile, sum, cg::plus<float>());
    __shared__ float warps[32];
    if (tile.thread_rank() == 0) warps[tile.meta_group_rank()] = sum;
    block.sync();
    if (block.thread_rank() == 0) {
        for (unsigned w = 1; w < tile.meta_group_size(); w++) sum += warps[w];
        partial[grid.block_rank()] = sum;
    }
    cg::sync(grid);
    if (grid.thread_rank() == 0) {
        float all = 0;
        for (unsigned b = 0; b < grid.num_blocks(); b++) all += partial[b];
        *total = all;
    }
}
EXPORT some_leave(int *count) { // threads and whole blocks end before the others wait
    if (blockIdx.x % 3 == 1) return;
    if (threadIdx.x % 2) return;
    atomicAdd(&count[0], 1);
    cg::this_grid().sync();
    if (threadIdx.x == 0) atomicAdd(&count[1], count[0]);
    if (threadIdx.x % 4 == 0) cg::this_grid().sync(); else cg::this_grid().sync();
    if (threadIdx.x == 0) atomicAdd(&count[2], count[1]);
}
EXPORT dynamic_shared(int *out) {
    extern __shared__ int cells[];
    cells[threadIdx.x] = blockIdx.x * 1000 + threadIdx.x;
    auto token = cg::this_grid().barrier_arrive();
    cg::this_grid().barrier_wait(static_cast<decltype(token) &&>(token));
    out[blockIdx.x * blockDim.x + threadIdx.x] = cells[blockDim.x - 1 - threadIdx.x];
}
EXPORT beyond_shared(int *out, int at) {
    __shared__ int cells[16];
    cells[threadIdx.x] = 1;
    cg::this_grid().sync();
    out[threadIdx.x] = cells[at + threadIdx.x];
}
EXPORT stuck(int *out) {
    if (threadIdx.x < 32) __syncthreads(); else cg::this_grid().sync();
    out[threadIdx.x] = 1;
}
EXPORT trap_later(int *out) {
    cg::this_grid().sync();
    if (blockIdx.x == 2) __trap();
    cg::this_grid().sync();
    out[blockIdx.x] = 1;
}
EXPORT overwrites(unsigned *out) { // the next block's slot lies behind the page behind shared memory
    __shared__ unsigned cells[64];
    cells[threadIdx.x] = 1;
    cg::this_grid().sync();
    if (blockIdx.x == 0 && threadIdx.x == 0) *(volatile unsigned *)((char *)cells + 256 + 4096) = 77777;
    out[threadIdx.x] = cells[threadIdx.x];
}
EXPORT many_grids(unsigned *out) {
    cg::multi_grid_group all = cg::this_multi_grid();
    all.sync();
    out[0] = all.num_grids() * 10 + all.grid_rank();
}

// ---- tiles and partitions ----

struct Wide { double value; int index; short more; };
EXPORT tiles(unsigned *out) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto tile = cg::tiled_partition<8>(warp);
    unsigned *mine = out + 12 * block.thread_rank();
    mine[0] = tile.thread_rank(); mine[1] = tile.meta_group_rank(); mine[2] = tile.meta_group_size();
    mine[3] = warp.meta_group_rank(); mine[4] = tile.shfl(block.thread_rank(), 3);
    mine[5] = tile.shfl_up(block.thread_rank(), 2); mine[6] = tile.shfl_down(block.thread_rank(), 2);
    mine[7] = tile.shfl_xor(block.thread_rank(), 1); mine[8] = tile.ballot(threadIdx.x % 3 == 0);
    mine[9] = tile.match_any(threadIdx.x % 4);
    Wide wide = tile.shfl(Wide{threadIdx.x * 0.5, (int)threadIdx.x, (short)-threadIdx.x}, 5);
    mine[10] = (unsigned)(wide.value * 2) == (unsigned)wide.index && -wide.more == wide.index ? wide.index : 9999;
    cg::thread_block_tile<8> plain = tile;
    mine[11] = plain.size() + plain.any(threadIdx.x == 9) * 100;
}
EXPORT odd_group(unsigned *out) {
    if (threadIdx.x % 3 != 1) return;
    cg::coalesced_group active = cg::coalesced_threads();
    unsigned *mine = out + 10 * threadIdx.x;
    mine[0] = active.size(); mine[1] = active.thread_rank(); mine[2] = active.shfl(threadIdx.x, 4);
    mine[3] = active.shfl_up(threadIdx.x, 1); mine[4] = active.shfl_down(threadIdx.x, 3);
    mine[5] = active.ballot(active.thread_rank() % 2); mine[6] = cg::reduce(active, threadIdx.x, cg::plus<unsigned>());
    auto part = cg::tiled_partition(active, 4);
    mine[7] = part.size() * 100 + part.thread_rank() * 10 + part.meta_group_rank();
    mine[8] = cg::inclusive_scan(active, threadIdx.x);
    mine[9] = cg::exclusive_scan(part, threadIdx.x);
}
EXPORT partitions(unsigned *out) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    auto alike = cg::labeled_partition(warp, threadIdx.x % 5);
    auto half = cg::binary_partition(warp, threadIdx.x < 10);
    auto third = cg::labeled_partition(cg::coalesced_threads(), threadIdx.x / 11);
    unsigned *mine = out + 8 * threadIdx.x;
    mine[0] = alike.size(); mine[1] = alike.thread_rank(); mine[2] = alike.meta_group_rank(); mine[3] = alike.meta_group_size();
    mine[4] = half.size(); mine[5] = half.thread_rank(); mine[6] = cg::reduce(alike, threadIdx.x, cg::less<unsigned>());
    mine[7] = cg::reduce(third, threadIdx.x, cg::greater<unsigned>());
}
EXPORT any_group(unsigned *out) {
    cg::thread_group block = cg::this_thread_block(), tile = cg::tiled_partition(block, 16), one = cg::this_thread();
    cg::thread_group small = cg::tiled_partition(tile, 4);
    block.sync(); tile.sync(); one.sync(); small.sync();
    out[threadIdx.x] = block.size() * 1000000 + tile.size() * 10000 + small.thread_rank() * 100 + one.size() * 10 + one.thread_rank();
}
EXPORT operations(int *out) {
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    int v = threadIdx.x * 7 % 16 + 16, *mine = out + 8 * threadIdx.x;
    mine[0] = cg::reduce(tile, v, cg::less<int>()); mine[1] = cg::reduce(tile, v, cg::greater<int>());
    mine[2] = cg::reduce(tile, v, cg::bit_and<int>()); mine[3] = cg::reduce(tile, v, cg::bit_or<int>());
    mine[4] = cg::reduce(tile, v, cg::bit_xor<int>()); mine[5] = cg::inclusive_scan(tile, v, cg::greater<int>());
    mine[6] = cg::exclusive_scan(tile, v); mine[7] = cg::reduce(tile, v, [](int a, int b) { return a * 3 + b * 3; }) != 0;
}
struct Mixed { double sum; int last; char tag; };
template <unsigned Size> __device__ void in_large(int *out) { // ranks, votes, reductions, scans
    __shared__ cg::block_tile_memory<256> memory;
    auto block = cg::this_thread_block(memory);
    auto tile = cg::tiled_partition<Size>(block);
    int t = block.thread_rank(), *mine = out + 12 * t;
    mine[0] = tile.meta_group_rank() * 1000 + tile.thread_rank(); mine[1] = tile.meta_group_size() * 1000 + tile.size();
    mine[2] = tile.shfl(t, 37); mine[3] = tile.any(t == 70) * 2 + tile.all(t < 96);
    mine[4] = cg::reduce(tile, t, cg::plus<int>()); mine[5] = cg::inclusive_scan(tile, t);
    mine[6] = cg::exclusive_scan(tile, t + 1);
    Mixed all = cg::reduce(tile, Mixed{t * 0.5, t, 'x'}, [](Mixed a, Mixed b) {
        return Mixed{a.sum + b.sum, a.last > b.last ? a.last : b.last, b.tag}; });
    mine[7] = (int)(all.sum * 2) + all.last + (all.tag == 'x');
    auto part = cg::tiled_partition<16>(tile);
    mine[8] = part.meta_group_rank() * 100 + part.meta_group_size(); mine[9] = cg::reduce(part, t, cg::greater<int>());
}
EXPORT large_64(int *out) { in_large<64>(out); }
EXPORT large_128(int *out) { in_large<128>(out); }
EXPORT large_rounds(int *out, int *order) { // each tile waits another number of times; two sizes at once
    auto block = cg::this_thread_block();
    auto wide = cg::tiled_partition<128>(block);
    auto tile = cg::tiled_partition<64>(wide);
    __shared__ int cells[256];
    int t = block.thread_rank(), first = t / 64 * 64, sum = t;
    for (unsigned round = 0; round <= t / 64; round++) {
        cells[t] = sum;
        tile.sync();
        sum += cells[first + (t + 33) % 64];
        cg::sync(tile);
    }
    cells[t] = sum;
    wide.sync();
    out[t] = cells[t ^ 127];
    if (cg::invoke_one_broadcast(tile, [&] { return atomicAdd(order, 1); }) < 0) out[t] = -1;
}
EXPORT once(int *calls, int *out) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    cg::invoke_one(tile, [&] { atomicAdd(calls, 1); });
    out[threadIdx.x] = cg::invoke_one_broadcast(tile, [&](int x) { return atomicAdd(calls + 1, x); }, 10);
}
EXPORT copies(const int *in, int *out, int n) {
    __shared__ int cells[300];
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<32>(block);
    cg::memcpy_async(block, cells, in, sizeof(int) * n);
    cg::wait(block);
    if (threadIdx.x < 32) {
        cg::memcpy_async(tile, out, n, cells, 1000);
        cg::memcpy_async(tile, out + n, cells, cuda::aligned_size_t<4>(4 * n));
        cg::wait_prior<0>(tile);
    }
}
"""


@pytest.fixture(scope="module")
def image() -> bytes:
    return compile_image(SOURCE)[0]


@pytest.fixture(params=[1, 3], ids="{} PEs".format)
def gpu(image: bytes, request: pytest.FixtureRequest) -> Iterator[Rig]:
    with rig(request.param) as gpu:
        gpu.load_image(image)
        yield gpu


# ---- grids ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("blocks", "threads"), [(1, 1), (7, 33), (40, 64)])
def test_blocks_hand_values_on(gpu: Rig, blocks: int, threads: int) -> None:
    """Values that live across barriers of the grid: registers, local arrays by address, shared memory."""
    values = np.arange(blocks * threads, dtype=np.int32) * 3
    given, out = gpu.array(values.size, np.int32, values), gpu.array(values.size, np.int32)
    gpu.launch("ring", blocks, threads, given, out, np.int32(5))
    expected = values.reshape(blocks, threads)
    for _ in range(5):
        expected = np.roll(np.roll(expected, -1, axis=1), -1, axis=0)
    assert (out == expected.ravel()).all()


def test_grid_reduces_in_one_launch(gpu: Rig) -> None:
    values = np.arange(10_000, dtype=np.float32) % 17
    given, partial, total = gpu.array(10_000, np.float32, values), gpu.array(9, np.float32), gpu.array(1, np.float32)
    gpu.launch("sum_of_all", (3, 3), (16, 4), given, partial, total, np.int32(10_000))
    assert total[0] == values.sum()


def test_threads_and_blocks_that_have_ended_count_as_arrived(gpu: Rig) -> None:
    count = gpu.array(3, np.int32)
    gpu.launch("some_leave", 9, 50, count)
    assert list(count) == [6 * 25, 6 * 150, 6 * 900]


def test_shared_memory_of_the_launch_stays_with_its_block(gpu: Rig) -> None:
    out = gpu.array((20, 96), np.int32)
    gpu.launch("dynamic_shared", 20, 96, out, shared=96 * 4)
    assert (out == np.arange(20)[:, None] * 1000 + np.arange(95, -1, -1)).all()


def test_grid_of_one_device(gpu: Rig) -> None:
    out = gpu.array(1, np.uint32)
    gpu.launch("many_grids", 4, 32, out)
    assert out[0] == 10


def test_threads_at_different_barriers_are_a_deadlock(gpu: Rig) -> None:
    with pytest.raises(LaunchError, match="wait for each other") as failed:
        gpu.launch("stuck", 2, 64, gpu.array(64, np.int32))
    assert failed.value.status is Status.DEADLOCK


def test_grid_ends_with_a_block_that_fails(gpu: Rig) -> None:
    out = gpu.array(30, np.int32)
    with pytest.raises(LaunchError, match=r"block \(2,0,0\)"):
        gpu.launch("trap_later", 30, 32, out)
    assert not out.any()
    gpu.launch("many_grids", 4, 32, out)


def test_state_that_a_kernel_overwrites_ends_its_launch(image: bytes) -> None:
    with rig(pes=1) as alone:
        alone.load_image(image)
        with pytest.raises(LaunchError, match=r"'overwrites' has overwritten the state of block \(1,0,0\)") as failed:
            alone.launch("overwrites", 2, 64, alone.array(64, np.uint32))
    assert failed.value.status is Status.FAULT


def test_engine_without_memory_for_all_blocks_refuses(gpu: Rig) -> None:
    op, _keep = make_launch(gpu.functions["trap_later"], 3, 32, [gpu.array(3, np.int32)])
    assert gpu.submit(op) == Status.RESOURCES_EXHAUSTED


# ---- tiles and partitions ------------------------------------------------------------------------


def test_tiles(gpu: Rig) -> None:
    out = gpu.array((64, 12), np.uint32)
    gpu.launch("tiles", 1, 64, out)
    for t, row in enumerate(out.tolist()):
        lane, first = t % 8, t // 8 * 8
        fizz = sum(1 << i for i in range(8) if (first + i) % 3 == 0)
        alike = sum(1 << i for i in range(8) if i % 4 == t % 4)
        assert row == [
            *(lane, t % 32 // 8, 4, t // 32, first + 3),
            *(t - 2 if lane >= 2 else t, t + 2 if lane < 6 else t, t ^ 1),
            *(fizz, alike, first + 5, 8 + 100 * (first == 8)),
        ]


def test_group_of_every_third_lane(gpu: Rig) -> None:
    out = gpu.array((32, 10), np.uint32)
    gpu.launch("odd_group", 1, 32, out)
    members = list(range(1, 32, 3))
    for rank, t in enumerate(members):
        part = members[rank // 4 * 4 : rank // 4 * 4 + 4]
        assert out[t].tolist() == [
            *(len(members), rank, members[4], members[max(rank - 1, 0)]),
            members[rank + 3] if rank + 3 < len(members) else t,
            *(0b1010101010, sum(members), len(part) * 100 + rank % 4 * 10 + rank // 4),
            *(sum(members[: rank + 1]), sum(part[: rank % 4])),
        ]


def test_partitions_by_label(gpu: Rig) -> None:
    out = gpu.array((32, 8), np.uint32)
    gpu.launch("partitions", 1, 32, out)
    for t in range(32):
        alike = list(range(t % 5, 32, 5))
        half = list(range(10)) if t < 10 else list(range(10, 32))
        assert out[t].tolist() == [
            *(len(alike), alike.index(t), t % 5, 5, len(half), half.index(t)),
            *(t % 5, min(t // 11 * 11 + 10, 31)),
        ]


def test_groups_whose_kind_is_known_at_run_time(gpu: Rig) -> None:
    out = gpu.array(48, np.uint32)
    gpu.launch("any_group", 1, 48, out)
    assert out.tolist() == [48 * 1_000_000 + 16 * 10_000 + t % 4 * 100 + 10 for t in range(48)]


def test_operations_of_reductions_and_scans(gpu: Rig) -> None:
    out = gpu.array((32, 8), np.int32)
    gpu.launch("operations", 1, 32, out)
    for t in range(32):
        values = [u * 7 % 16 + 16 for u in range(t // 16 * 16, t // 16 * 16 + 16)]
        so_far = values[: t % 16]
        assert out[t].tolist() == [
            *(min(values), max(values), np.bitwise_and.reduce(values), np.bitwise_or.reduce(values)),
            *(np.bitwise_xor.reduce(values), max([*so_far, values[t % 16]]), sum(so_far), 1),
        ]


@pytest.mark.parametrize(("size", "threads"), [(64, 256), (128, 256), (64, 96), (128, 96)])
def test_tiles_of_several_warps(gpu: Rig, size: int, threads: int) -> None:
    out = gpu.array((threads, 12), np.int32)
    gpu.launch(f"large_{size}", 1, threads, out)
    for t, row in enumerate(out.tolist()):
        tile, rank = divmod(t, size)
        first = tile * size
        all_of = range(first, min(first + size, threads))
        assert row[:10] == [
            *(tile * 1000 + rank, -(-threads // size) * 1000 + size),
            *(first + 37 if first + 37 < threads else row[2], (70 in all_of) * 2 + (all_of[-1] < 96)),
            *(sum(all_of), sum(range(first, t + 1)), sum(range(first + 1, t + 1))),
            *(sum(all_of) + all_of[-1] + 1, rank // 16 * 100 + size // 16, t | 15),
        ]


def test_tiles_of_several_warps_wait_apart(gpu: Rig) -> None:
    out, order = gpu.array(256, np.int32), gpu.array(1, np.int32)
    gpu.launch("large_rounds", 1, 256, out, order)
    sums = np.arange(256).reshape(4, 64)
    for tile in range(4):
        for _ in range(tile + 1):
            sums[tile] += np.roll(sums[tile], -33)
    assert (out == sums.reshape(-1)[np.arange(256) ^ 127]).all()
    assert order[0] == 4


def test_one_thread_of_a_group_calls(gpu: Rig) -> None:
    calls, out = gpu.array(2, np.int32), gpu.array(64, np.int32)
    gpu.launch("once", 1, 64, calls, out)
    assert list(calls) == [8, 80]
    assert sorted(out[::8].tolist()) == list(range(0, 80, 10))
    assert all((out[first : first + 8] == out[first]).all() for first in range(0, 64, 8))


def test_copies_of_a_group(gpu: Rig) -> None:
    given, out = gpu.array(300, np.int32, np.arange(300)), gpu.array(600, np.int32)
    gpu.launch("copies", 1, 96, given, out, np.int32(299))
    assert list(out) == [*range(299), *range(299), 0, 0]
