// Rule: a program may have more streams than the device, destroy them with work pending, and make new ones.
#include "check.h"

__global__ void add(int *out)
{
    atomicAdd(out, 1);
}

int main()
{
    const int count = 150;
    static cudaStream_t streams[count];
    int *device, value = 0;
    CHECK(cudaMalloc(&device, sizeof value));
    CHECK(cudaMemset(device, 0, sizeof value));
    for (int round = 0; round < 3; round++) {
        for (auto &stream : streams)
            CHECK(cudaStreamCreate(&stream));
        for (auto &stream : streams)
            add<<<1, 32, 0, stream>>>(device);
        for (auto &stream : streams)
            CHECK(cudaStreamDestroy(stream));
    }
    CHECK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost)); /* after all blocking streams */
    EXPECT_EQUAL(value, 3 * count * 32);
    return finish();
}
