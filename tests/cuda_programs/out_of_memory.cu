// Rule: memory that is not there is refused without harm, and all that was there is there again when it is freed.
// Kernels run then whose program had no room before.
#include "check.h"
#include <vector>

__global__ void call(int *out)
{
    *out = 7;
}

static std::vector<void *> taken(size_t piece)
{
    std::vector<void *> blocks;
    void *block;
    cudaError_t error;
    while ((error = cudaMalloc(&block, piece)) == cudaSuccess)
        blocks.push_back(block);
    EXPECT_EQUAL(error, cudaErrorMemoryAllocation);
    EXPECT_EQUAL(cudaGetLastError(), cudaErrorMemoryAllocation);
    return blocks;
}

int main()
{
    size_t available, total;
    void *block = NULL;
    CHECK(cudaMemGetInfo(&available, &total));
    EXPECT_ERROR(cudaMalloc(&block, total + (1 << 20)), cudaErrorMemoryAllocation);
    EXPECT_ERROR(cudaMalloc(&block, (size_t)1 << 62), cudaErrorMemoryAllocation);
    size_t piece = total / 16, counts[2];
    for (size_t &count : counts) {
        std::vector<void *> blocks = taken(piece);
        count = blocks.size();
        size_t left;
        CHECK(cudaMemGetInfo(&left, &total));
        EXPECT(left < piece + (1 << 20));
        CHECK(cudaMemset(blocks.back(), 1, piece));
        for (void *one : blocks)
            CHECK(cudaFree(one));
    }
    EXPECT(counts[0] == counts[1] && counts[0] >= 8 && counts[0] <= 16);
    size_t again;
    CHECK(cudaMemGetInfo(&again, &total));
    EXPECT_EQUAL(again, available);

    std::vector<void *> blocks = taken(64 << 10);
    call<<<1, 1>>>((int *)blocks[0]);
    (void)cudaGetLastError(); /* a device may have loaded it before */
    CHECK(cudaDeviceSynchronize());
    int value = 0;
    for (size_t i = 1; i < blocks.size(); i++)
        CHECK(cudaFree(blocks[i]));
    call<<<1, 1>>>((int *)blocks[0]);
    CHECK(cudaMemcpy(&value, blocks[0], sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(value, 7);
    return finish();
}
