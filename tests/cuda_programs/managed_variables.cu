// Rule: host code and kernels read and write __managed__ variables by their names.
#include "check.h"

__managed__ int total = 3;
__device__ __managed__ float grid[2][4];
__managed__ int *pointer;

__global__ void add(int value)
{
    atomicAdd(&total, value);
    grid[threadIdx.x / 4][threadIdx.x % 4] = threadIdx.x * 0.5f;
    if (pointer)
        *pointer = 77;
}

int main()
{
    EXPECT_EQUAL(total, 3);
    total += 1;
    add<<<1, 8>>>(2);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQUAL(total, 20);
    EXPECT_EQUAL(grid[1][3], 3.5);
    CHECK(cudaMallocManaged(&pointer, sizeof *pointer));
    *pointer = 0;
    total = 0;
    add<<<1, 8>>>(1);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQUAL(*pointer, 77);
    EXPECT_EQUAL(total, 8);
    return finish();
}
