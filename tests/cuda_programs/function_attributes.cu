// Rule: cudaFuncGetAttributes tells what a kernel uses; hints about caches and shared memory are taken.
#include "check.h"

__constant__ float factors[64];

__global__ __launch_bounds__(128) void work(float *out)
{
    __shared__ float scratch[256];
    scratch[threadIdx.x] = factors[threadIdx.x % 64];
    scratch[threadIdx.x + 128] = 1;
    __syncthreads();
    out[threadIdx.x] = scratch[255 - threadIdx.x] + scratch[threadIdx.x];
}

int main()
{
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, work));
    EXPECT_EQUAL(attributes.sharedSizeBytes, 256 * sizeof(float));
    EXPECT(attributes.constSizeBytes >= sizeof factors);
    EXPECT(attributes.maxThreadsPerBlock >= 128 && attributes.maxThreadsPerBlock <= 1024);
    EXPECT(attributes.numRegs >= 0 && attributes.binaryVersion >= 10 && attributes.ptxVersion >= 10);
    CHECK(cudaFuncSetCacheConfig(work, cudaFuncCachePreferL1));
    CHECK(cudaFuncSetAttribute(work, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
    CHECK(cudaFuncSetAttribute(work, cudaFuncAttributeMaxDynamicSharedMemorySize, 16384));
    CHECK(cudaFuncGetAttributes(&attributes, work));
    EXPECT_EQUAL(attributes.maxDynamicSharedSizeBytes, 16384);
    EXPECT_ERROR(cudaFuncSetAttribute(work, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 30),
                 cudaErrorInvalidValue);
    CHECK(cudaDeviceSetCacheConfig(cudaFuncCachePreferShared));
    static int stranger;
    EXPECT_ERROR(cudaFuncGetAttributes(&attributes, (const void *)&stranger), cudaErrorInvalidDeviceFunction);
    float *device, out[128];
    CHECK(cudaMalloc(&device, sizeof out));
    work<<<1, 128>>>(device);
    CHECK(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(out[100], 1);
    return finish();
}
