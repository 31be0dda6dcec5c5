// Rule: the occupancy functions name launches that work, within the limits of the device.
#include "check.h"

__global__ void fill(float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = i;
}

__global__ void greedy(float *out)
{
    extern __shared__ float scratch[];
    scratch[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = scratch[blockDim.x - 1 - threadIdx.x];
}

int main()
{
    int grid = 0, block = 0, active = 0;
    const int n = 10000;
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, fill, 0, 0));
    EXPECT(block >= 32 && block <= properties.maxThreadsPerBlock && grid >= 1);
    CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, fill, 0, 128));
    EXPECT(block >= 1 && block <= 128);
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&active, fill, block, 0));
    EXPECT(active >= 1 && active * block <= properties.maxThreadsPerMultiProcessor);
    CHECK(cudaOccupancyMaxPotentialBlockSizeVariableSMem(
        &grid, &block, greedy, [](int threads) { return threads * sizeof(float); }, 256));
    EXPECT(block >= 1 && block <= 256);
    CHECK(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&active, greedy, 32, properties.sharedMemPerMultiprocessor + 1));
    EXPECT_EQUAL(active, 0);
    float *device, value;
    CHECK(cudaMalloc(&device, n * sizeof(float)));
    fill<<<(n + block - 1) / block, block>>>(device, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&value, device + n - 1, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(value, n - 1);
    CHECK(cudaFree(device));
    return finish();
}
