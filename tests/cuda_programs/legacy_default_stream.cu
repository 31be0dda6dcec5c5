// Rule: the legacy default stream waits for earlier work of all blocking streams, and later work of theirs for it.
#include "check.h"

__global__ void slow_store(volatile int *out, int value, int turns)
{
    int waste = 0;
    for (int i = 0; i < turns; i++)
        waste += out[1];
    *out = value + (waste & 0);
}

__global__ void copy(const volatile int *from, int *to)
{
    *to = *from;
}

int main()
{
    cudaStream_t first, second;
    int *device, values[4];
    CHECK(cudaStreamCreate(&first));
    CHECK(cudaStreamCreate(&second));
    CHECK(cudaMalloc(&device, sizeof values));
    CHECK(cudaMemset(device, 0, sizeof values));
    slow_store<<<1, 1, 0, first>>>(device, 5, 200000);
    copy<<<1, 1>>>(device, device + 2);
    copy<<<1, 1, 0, second>>>(device + 2, device + 3);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(values[2], 5);
    EXPECT_EQUAL(values[3], 5);
    slow_store<<<1, 1, 0, first>>>(device, 6, 200000);
    slow_store<<<1, 1, 0, cudaStreamLegacy>>>(device, 7, 1);
    CHECK(cudaStreamSynchronize(cudaStreamLegacy));
    CHECK(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(values[0], 7);
    return finish();
}
