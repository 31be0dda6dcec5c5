// Rule: a blocking stream that is made after work was given to the legacy default stream comes behind that work.
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
    int *device, values[4] = {};
    cudaStream_t stream;
    CHECK(cudaMalloc(&device, sizeof values));
    CHECK(cudaMemset(device, 0, sizeof values));
    copy<<<1, 1>>>(device, device + 3); /* compiled now, not below */
    CHECK(cudaDeviceSynchronize());
    slow_store<<<1, 1>>>(device, 5, 500000);
    CHECK(cudaStreamCreate(&stream));
    copy<<<1, 1, 0, stream>>>(device, device + 2);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(values[2], 5);
    return finish();
}
