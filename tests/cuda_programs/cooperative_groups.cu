// Rule: groups of a block, its tiles and threads of one branch know their sizes and ranks, synchronise, reduce.
// flags: -std=c++17
#include "check.h"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

struct Thread {
    int tile_sum, tile_rank, scan, meta, branch_size, branch_rank, block_rank, shuffled;
};

__device__ int sum_of(cg::thread_group group, int *scratch, int value)
{
    int rank = group.thread_rank();
    for (int half = group.size() / 2; half > 0; half /= 2) {
        scratch[rank] = value;
        group.sync();
        if (rank < half)
            value += scratch[rank + half];
        group.sync();
    }
    return value;
}

__global__ void groups(Thread *threads, int *block_sum)
{
    __shared__ int scratch[128];
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    Thread mine = {};
    int rank = block.thread_rank();
    mine.block_rank = rank;
    mine.tile_rank = tile.thread_rank();
    mine.meta = tile.meta_group_rank() * 100 + tile.meta_group_size();
    mine.tile_sum = cg::reduce(tile, rank, cg::plus<int>());
    mine.scan = cg::inclusive_scan(tile, 1, cg::plus<int>());
    mine.shuffled = tile.shfl(rank, 2) + tile.any(tile.thread_rank() == 7);
    if (rank % 4 == 1) {
        cg::coalesced_group active = cg::coalesced_threads();
        mine.branch_size = active.size();
        mine.branch_rank = active.thread_rank();
    }
    threads[rank] = mine;
    block.sync();
    int sum = sum_of(block, scratch, rank);
    if (rank == 0)
        *block_sum = sum;
}

int main()
{
    Thread threads[128], *device;
    int *device_sum, sum;
    CHECK(cudaMalloc(&device, sizeof threads));
    CHECK(cudaMalloc(&device_sum, sizeof sum));
    groups<<<1, 128>>>(device, device_sum);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(threads, device, sizeof threads, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&sum, device_sum, sizeof sum, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(sum, 127 * 64);
    for (int i = 0; i < 128; i++) {
        int first = i / 8 * 8;
        EXPECT_EQUAL(threads[i].block_rank, i);
        EXPECT_EQUAL(threads[i].tile_rank, i % 8);
        EXPECT_EQUAL(threads[i].meta, i / 8 * 100 + 16);
        EXPECT_EQUAL(threads[i].tile_sum, first * 8 + 28);
        EXPECT_EQUAL(threads[i].scan, i % 8 + 1);
        EXPECT_EQUAL(threads[i].shuffled, first + 2 + 1);
        EXPECT(i % 4 != 1 || (threads[i].branch_size == 8 && threads[i].branch_rank == i % 32 / 4));
    }
    return finish();
}
