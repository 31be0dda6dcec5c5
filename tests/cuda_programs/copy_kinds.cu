// Rule: cudaMemcpyDefault finds the direction by the addresses; host to host copies on the host.
#include "check.h"

__global__ void twice(int *values)
{
    values[threadIdx.x] *= 2;
}

int main()
{
    int values[32], copy[32], *device, *pinned;
    for (int i = 0; i < 32; i++)
        values[i] = i;
    CHECK(cudaMalloc(&device, sizeof values));
    CHECK(cudaMallocHost(&pinned, sizeof values));
    CHECK(cudaMemcpy(copy, values, sizeof values, cudaMemcpyHostToHost));
    EXPECT_EQUAL(copy[31], 31);
    CHECK(cudaMemcpy(device, copy, sizeof values, cudaMemcpyDefault));
    twice<<<1, 32>>>(device);
    CHECK(cudaMemcpy(pinned, device, sizeof values, cudaMemcpyDefault));
    EXPECT_EQUAL(pinned[31], 62);
    CHECK(cudaMemcpy(device, pinned, sizeof values, cudaMemcpyDefault));
    twice<<<1, 32>>>(device);
    int *second;
    CHECK(cudaMalloc(&second, sizeof values));
    CHECK(cudaMemcpy(second, device, sizeof values, cudaMemcpyDefault));
    CHECK(cudaMemcpy(values, second, sizeof values, cudaMemcpyDefault));
    EXPECT_EQUAL(values[31], 124);
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFree(second));
    CHECK(cudaFree(device));
    return finish();
}
