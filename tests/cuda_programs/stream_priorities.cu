// Rule: streams have a priority within the range that the device names; others are moved into it.
#include "check.h"

__global__ void put(int *out, int value)
{
    *out = value;
}

int main()
{
    int least, greatest, priority, *device, values[2];
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    EXPECT(greatest <= least);
    cudaStream_t high, low;
    CHECK(cudaStreamCreateWithPriority(&high, cudaStreamNonBlocking, greatest));
    CHECK(cudaStreamCreateWithPriority(&low, cudaStreamDefault, least + 100));
    CHECK(cudaStreamGetPriority(high, &priority));
    EXPECT_EQUAL(priority, greatest);
    CHECK(cudaStreamGetPriority(low, &priority));
    EXPECT_EQUAL(priority, least);
    CHECK(cudaMalloc(&device, sizeof values));
    put<<<1, 1, 0, low>>>(device, 1);
    put<<<1, 1, 0, high>>>(device + 1, 2);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
    EXPECT(values[0] == 1 && values[1] == 2);
    CHECK(cudaStreamDestroy(high));
    CHECK(cudaStreamDestroy(low));
    return finish();
}
