// Rule: an asynchronous copy from page-locked memory reads it when it is the copy's turn, also if it is small.
#include "check.h"

__global__ void step(int *values)
{
    values[threadIdx.x] = values[threadIdx.x] * 3 + 2;
}

int main()
{
    int *device, *pinned;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&device, 64 * sizeof(int)));
    CHECK(cudaMallocHost(&pinned, 64 * sizeof(int)));
    for (int i = 0; i < 64; i++)
        pinned[i] = i;
    for (int round = 0; round < 3; round++) {
        CHECK(cudaMemcpyAsync(device, pinned, 64 * sizeof(int), cudaMemcpyHostToDevice, stream));
        step<<<1, 64, 0, stream>>>(device);
        CHECK(cudaMemcpyAsync(pinned, device, 64 * sizeof(int), cudaMemcpyDeviceToHost, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 64; i++)
        EXPECT_EQUAL(pinned[i], ((i * 3 + 2) * 3 + 2) * 3 + 2);
    return finish();
}
