// Rule: __trap() ends the launch, and all later calls, with cudaErrorLaunchFailure.
#include "check.h"

__global__ void check(int limit)
{
    if (threadIdx.x >= limit)
        __trap();
}

int main()
{
    check<<<1, 32>>>(32);
    CHECK(cudaDeviceSynchronize());
    check<<<1, 32>>>(31);
    EXPECT_EQUAL(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    void *memory;
    EXPECT_EQUAL(cudaMalloc(&memory, 1), cudaErrorLaunchFailure);
    return finish();
}
