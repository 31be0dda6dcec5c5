"""Clusters of several blocks on the CPU engine: places, barriers, shared memory of other blocks, and refusals."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.cpu_rig import CompileError, LaunchError, Rig, compile_image, rig
from vhost_backend.engines.base import ProgramError
from virtio_proto.schema import Status

SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#define EXPORT extern "C" __global__ void

EXPORT __cluster_dims__(2, 3, 2) places(unsigned *out) { // 20 numbers of each block
    cg::cluster_group cluster = cg::this_cluster();
    cg::grid_group grid = cg::this_grid();
    unsigned *o = out + grid.block_rank() * 20;
    dim3 block = cluster.block_index(), blocks = cluster.dim_blocks(), index = grid.cluster_index();
    dim3 clusters = grid.dim_clusters(), thread = cluster.thread_index();
    if (threadIdx.x != blockDim.x - 1)
        return;
    o[0] = block.x; o[1] = block.y; o[2] = block.z; o[3] = cluster.block_rank();
    o[4] = blocks.x; o[5] = blocks.y; o[6] = blocks.z; o[7] = cluster.num_blocks();
    o[8] = index.x; o[9] = index.y; o[10] = index.z; o[11] = grid.cluster_rank();
    o[12] = clusters.x; o[13] = clusters.y; o[14] = clusters.z; o[15] = grid.num_clusters();
    o[16] = cluster.thread_rank(); o[17] = cluster.num_threads(); o[18] = thread.x; o[19] = cluster.dim_threads().x;
}

// Each block counts its part of the values; block `bin % blocks` of the cluster keeps a bin for all of it.
template <int Blocks> __device__ void count(const int *values, int *bins, int n) {
    __shared__ int mine[64];
    cg::cluster_group cluster = cg::this_cluster();
    for (int i = threadIdx.x; i < 64; i += blockDim.x) mine[i] = 0;
    cluster.sync();
    for (int i = cluster.thread_rank(); i < n; i += cluster.num_threads())
        atomicAdd(&cluster.map_shared_rank(mine, values[i] % Blocks)[values[i]], 1);
    for (int i = threadIdx.x; i < 64; i += blockDim.x) atomicAdd(&mine[i], 1);
    cluster.sync();
    for (int i = threadIdx.x; i < 64; i += blockDim.x) bins[blockIdx.x * 64 + i] = mine[i];
}
EXPORT __cluster_dims__(8) count8(const int *values, int *bins, int n) { count<8>(values, bins, n); }
EXPORT __cluster_dims__(16, 1) count16(const int *values, int *bins, int n) { count<16>(values, bins, n); }

EXPORT __cluster_dims__(4, 1, 1) ring(int *out, int rounds) { // dynamic shared memory goes round, as often as a cluster likes
    extern __shared__ int kept[];
    cg::cluster_group cluster = cg::this_cluster();
    unsigned rank = cluster.block_rank(), turns = rounds + blockIdx.x / 4;
    int value = blockIdx.x * 100 + threadIdx.x;
    for (unsigned turn = 0; turn < turns; turn++) {
        kept[threadIdx.x] = value;
        cluster.sync();
        value = cluster.map_shared_rank(kept, (rank + 1) % 4)[threadIdx.x];
        auto token = cluster.barrier_arrive();
        cluster.barrier_wait(static_cast<decltype(token) &&>(token));
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}
EXPORT __cluster_dims__(2) mixed(int *out, int *total) { // clusters wait unlike often, between barriers of the grid
    __shared__ int sum;
    cg::cluster_group cluster = cg::this_cluster();
    sum = 0;
    for (unsigned turn = 0; turn <= blockIdx.x / 2; turn++) {
        cluster.sync();
        if (threadIdx.x == 0) atomicAdd(cluster.map_shared_rank(&sum, 0), 1);
    }
    cg::this_grid().sync();
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
    atomicAdd(total, 1);
    cg::this_grid().sync();
    cluster.sync();
    out[blockIdx.x + gridDim.x] = *total + *cluster.map_shared_rank(&sum, 0);
}
EXPORT __cluster_dims__(2) some_end(int *out) { // threads and blocks that have ended count as arrived
    __shared__ int kept;
    cg::cluster_group cluster = cg::this_cluster();
    if (blockIdx.x == 3) return;
    kept = 7 + blockIdx.x;
    if (threadIdx.x % 3 == 1) return;
    cluster.sync();
    out[blockIdx.x * blockDim.x + threadIdx.x] = *cluster.map_shared_rank(&kept, 0);
}
EXPORT __cluster_dims__(4) in_ptx(unsigned *out) {
    __shared__ unsigned kept[2];
    unsigned rank, size, explicit_cluster, id, own = (unsigned)__cvta_generic_to_shared(kept), there, found, value, whose;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    asm("mov.u32 %0, %%clusterid.x;" : "=r"(id));
    asm("{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; @!%%is_explicit_cluster mov.u32 %0, 5; }"
        : "=r"(explicit_cluster));
    kept[0] = 0; kept[1] = rank * 10;
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"((rank + 3) % size));
    asm("getctarank.shared::cluster.u32 %0, %1;" : "=r"(found) : "r"(there));
    asm volatile("ld.shared::cluster.u32 %0, [%1 + 4];" : "=r"(value) : "r"(there) : "memory");
    asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;" :: "r"(there), "r"(threadIdx.x) : "memory");
    unsigned long long address;
    asm("mapa.u64 %0, %1, %2;" : "=l"(address) : "l"(&kept[1]), "r"(0));
    asm("getctarank.u64 %0, %1;" : "=r"(whose) : "l"(address));
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    unsigned numbers[9] = {rank, size, id, explicit_cluster, found, value, kept[0], whose, *(unsigned *)address};
    for (int i = 0; i < 9; i++) out[blockIdx.x * 9 + i] = numbers[i];
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
}
EXPORT alone(unsigned *out) { // without __cluster_dims__: a cluster of one block
    __shared__ unsigned kept[32];
    cg::cluster_group cluster = cg::this_cluster();
    kept[threadIdx.x] = threadIdx.x;
    cluster.sync();
    unsigned *mapped = cluster.map_shared_rank(kept, 0);
    out[threadIdx.x] = mapped[31 - threadIdx.x] * 10000 + cluster.num_blocks() * 100 + cluster.query_shared_rank(mapped + 3);
}
EXPORT __cluster_dims__(3) queried(unsigned *out) {
    __shared__ unsigned kept[32];
    cg::cluster_group cluster = cg::this_cluster();
    out[blockIdx.x * 3 + threadIdx.x] = cluster.query_shared_rank(cluster.map_shared_rank(&kept[31], threadIdx.x));
}
EXPORT __cluster_dims__(2) torn(int *out) { if (threadIdx.x == 0) cg::this_cluster().sync(); else cg::this_grid().sync(); *out = 1; }
extern "C" __global__ void parent(int *out) { count8<<<8, 32>>>(out, out, 1); *out = cudaGetLastError(); }
"""


@pytest.fixture(scope="module")
def image() -> bytes:
    return compile_image(SOURCE)[0]


@pytest.fixture(params=[1, 3])
def gpu(request: pytest.FixtureRequest, image: bytes) -> Iterator[Rig]:
    """Engines with one processing element, and with several."""
    with rig(pes=request.param) as gpu:
        gpu.load_image(image)
        yield gpu


def test_places_of_blocks_and_clusters(gpu: Rig) -> None:
    grid, cluster = (4, 3, 4), (2, 3, 2)
    out = gpu.array((4 * 3 * 4, 20), np.uint32)
    gpu.launch("places", grid, 33, out)
    for number, (z, y, x) in enumerate(itertools.product(range(4), range(3), range(4))):
        block = (x % 2, y % 3, z % 2)
        index = (x // 2, y // 3, z // 2)
        rank = block[0] + 2 * (block[1] + 3 * block[2])
        assert out[number].tolist() == [
            *(*block, rank, *cluster, 12),
            *(*index, index[0] + 2 * (index[1] + index[2]), 2, 1, 2, 4),
            *(rank * 33 + 32, 12 * 33, block[0] * 33 + 32, 66),
        ]


@pytest.mark.parametrize("blocks", [8, 16])
def test_histogram_over_the_shared_memory_of_a_cluster(gpu: Rig, blocks: int) -> None:
    values = gpu.array(5000, np.int32, np.random.default_rng(1).integers(0, 64, 5000))
    bins = gpu.array((2 * blocks, 64), np.int32)
    gpu.launch(f"count{blocks}", 2 * blocks, 96, values, bins, np.int32(5000))
    counts = np.bincount(values, minlength=64)
    for block in range(2 * blocks):
        expected = np.where(np.arange(64) % blocks == block % blocks, counts, 0) + 1
        assert (bins[block] == expected).all()


def test_clusters_wait_as_often_as_they_like(gpu: Rig) -> None:
    out = gpu.array((12, 40), np.int32)
    gpu.launch("ring", 12, 40, out, np.int32(2), shared=160)
    for block in range(12):
        source = block // 4 * 4 + (block % 4 + 2 + block // 4) % 4
        assert (out[block] == source * 100 + np.arange(40)).all()


def test_barriers_of_clusters_and_of_the_grid(gpu: Rig) -> None:
    out, total = gpu.array((2, 10), np.int32), gpu.array(1, np.int32)
    gpu.launch("mixed", 10, 64, out, total)
    sums = [2 * (block // 2 + 1) for block in range(0, 10, 2)]
    assert out[0].tolist() == list(itertools.chain.from_iterable((total, 0) for total in sums))
    assert out[1].tolist() == list(itertools.chain.from_iterable((640 + total,) * 2 for total in sums))


def test_ended_threads_and_blocks_count_as_arrived(gpu: Rig) -> None:
    out = gpu.array((4, 48), np.int32)
    gpu.launch("some_end", 4, 48, out)
    left = np.arange(48) % 3 != 1
    assert [sorted(set(row[left].tolist())) for row in out] == [[7], [7], [9], [0]]
    assert not out[:, ~left].any()


def test_clusters_in_ptx(gpu: Rig) -> None:
    out = gpu.array((8, 9), np.uint32)
    gpu.launch("in_ptx", 8, 32, out)
    for block in range(8):
        rank = block % 4
        other = (rank + 3) % 4
        assert out[block].tolist() == [rank, 4, block // 4, 1, other, other * 10, 31 * 16, 0, 0]


def test_cluster_of_one_block(gpu: Rig) -> None:
    out = gpu.array(32, np.uint32)
    gpu.launch("alone", 1, 32, out)
    assert out.tolist() == [(31 - thread) * 10000 + 100 for thread in range(32)]


def test_rank_of_an_address(gpu: Rig) -> None:
    out = gpu.array((6, 3), np.uint32)
    gpu.launch("queried", 6, 3, out)
    assert out.tolist() == [[0, 1, 2]] * 6


# ---- errors --------------------------------------------------------------------------------------


def test_grid_must_be_whole_clusters(gpu: Rig) -> None:
    out = gpu.array(1, np.int32)
    with pytest.raises(
        LaunchError, match=r"'ring' has clusters of 4 x 1 x 1 blocks, of which a grid of 6 x 1 x 1 is no multiple"
    ) as caught:
        gpu.launch("ring", 6, 32, out, np.int32(1), shared=128)
    assert caught.value.status == Status.INVALID_ARGUMENT


def test_threads_of_a_block_at_different_barriers_are_a_deadlock(gpu: Rig) -> None:
    with pytest.raises(LaunchError, match="wait for each other") as caught:
        gpu.launch("torn", 2, 2, gpu.array(1, np.int32))
    assert caught.value.status == Status.DEADLOCK


def test_kernels_do_not_launch_clusters(gpu: Rig) -> None:
    out = gpu.array(1, np.int32)
    gpu.launch("parent", 1, 1, out)
    assert out[0] == 801, "cudaErrorNotSupported"


@pytest.mark.parametrize("dims", ["17", "4, 4, 2", "0, 1, 1", "100000, 100000, 100000"])
def test_size_of_clusters_is_bounded(dims: str) -> None:
    with pytest.raises(CompileError, match=r"'big' has clusters of (no|too many) blocks \(allowed: 1 to 16\)"):
        compile_image(f'extern "C" __global__ void __cluster_dims__({dims}) big(int *x) {{ *x = 1; }}')


def test_clusters_are_not_checked() -> None:
    source = 'extern "C" __global__ void __cluster_dims__(2) two(int *x) { *x = 1; }'
    with pytest.raises(CompileError, match="'two' has clusters of several blocks and cannot be checked"):
        compile_image(source, ["--racecheck"])


def forged(image: bytes, dims: tuple[int, int, int]) -> bytes:
    """The image with other dimensions for the clusters of `places`, which the table has once."""
    before = struct.pack("<4I", 2, 3, 2, 0)  # the last words of the kernel's entry
    assert image.count(before) == 1
    return image.replace(before, struct.pack("<4I", *dims, 0))


@pytest.mark.parametrize(
    "dims", [(0, 1, 1), (1, 1, 0), (17, 1, 1), (16, 2, 1), (1 << 16, 1 << 16, 1 << 31), (0xFFFFFFFF,) * 3]
)
def test_images_with_impossible_clusters_are_refused(image: bytes, dims: tuple[int, int, int]) -> None:
    with rig() as gpu, pytest.raises(ProgramError, match="a kernel has impossible clusters"):
        gpu.load_image(forged(image, dims))


def test_images_with_other_clusters_are_taken(image: bytes) -> None:
    with rig() as gpu:
        gpu.load_image(forged(image, (16, 1, 1)))
        out = gpu.array(16 * 20, np.uint32)
        gpu.launch("places", 16, 1, out)
        assert out.reshape(16, 20)[:, 7].tolist() == [16] * 16
