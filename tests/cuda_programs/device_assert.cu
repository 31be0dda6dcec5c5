// Rule: a failed assert() in a kernel is told on stderr with its place, and all later calls fail with cudaErrorAssert.
// expect: stderr: block: [0,0,0], thread: [5,0,0] Assertion `x[threadIdx.x] != 5` failed.
#include "check.h"
#include <assert.h>

__device__ int x[8] = {0, 1, 2, 3, 4, 5, 6, 7};
__global__ void check(int)
{
    assert(x[threadIdx.x] != 5);
}

int main()
{
    int *device;
    check<<<1, 4>>>(0);
    CHECK(cudaDeviceSynchronize());
    check<<<1, 8>>>(0);
    EXPECT_EQUAL(cudaDeviceSynchronize(), cudaErrorAssert);
    EXPECT_EQUAL(cudaMalloc(&device, 4), cudaErrorAssert);
    EXPECT_EQUAL(cudaGetLastError(), cudaErrorAssert);
    EXPECT_EQUAL(cudaDeviceSynchronize(), cudaErrorAssert);
    return finish();
}
