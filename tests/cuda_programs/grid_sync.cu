// Rule: all blocks of a cooperative launch wait for one another in grid.sync(); a grid that does not fit is refused.
#include "check.h"
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void pass_on(int *values, int rounds)
{
    cg::grid_group grid = cg::this_grid();
    int me = grid.thread_rank(), n = grid.size();
    for (int round = 0; round < rounds; round++) {
        int next = values[(me + 1) % n];
        grid.sync();
        values[me] = next;
        grid.sync();
    }
}

int main()
{
    int supported, per_multiprocessor, multiprocessors;
    CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, 0));
    CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    EXPECT(supported);
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, pass_on, 64, 0));
    EXPECT(per_multiprocessor >= 1);
    int blocks = multiprocessors * (per_multiprocessor < 2 ? per_multiprocessor : 2);
    if (blocks > 8)
        blocks = 8;
    int n = blocks * 64, rounds = 5, *device, values[512];
    CHECK(cudaMalloc(&device, n * sizeof(int)));
    for (int i = 0; i < n; i++)
        values[i] = i;
    CHECK(cudaMemcpy(device, values, n * sizeof(int), cudaMemcpyHostToDevice));
    void *arguments[] = {&device, &rounds};
    CHECK(cudaLaunchCooperativeKernel((void *)pass_on, dim3(blocks), dim3(64), arguments, 0, 0));
    CHECK(cudaMemcpy(values, device, n * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++)
        EXPECT_EQUAL(values[i], (i + rounds) % n);
    dim3 too_many(multiprocessors * per_multiprocessor + 1);
    EXPECT_ERROR(cudaLaunchCooperativeKernel((void *)pass_on, too_many, dim3(64), arguments, 0, 0),
                 cudaErrorCooperativeLaunchTooLarge);
    CHECK(cudaDeviceSynchronize());
    return finish();
}
