// Rule: an access to an invalid address is told at the next synchronisation, and every later call fails with it.
#include "check.h"

__global__ void store(int *out)
{
    *out = 1;
}

int main()
{
    int *device, value = 3;
    cudaStream_t stream;
    CHECK(cudaMalloc(&device, sizeof value));
    CHECK(cudaStreamCreate(&stream));
    store<<<1, 1, 0, stream>>>((int *)16);
    EXPECT_EQUAL(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
    EXPECT_EQUAL(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost), cudaErrorIllegalAddress);
    EXPECT_EQUAL(value, 3);
    EXPECT_EQUAL(cudaMalloc(&device, 4), cudaErrorIllegalAddress);
    EXPECT_EQUAL(cudaFree(device), cudaErrorIllegalAddress);
    EXPECT_EQUAL(cudaGetLastError(), cudaErrorIllegalAddress);
    EXPECT_EQUAL(cudaGetLastError(), cudaErrorIllegalAddress); /* sticky: taking it does not clear it */
    store<<<1, 1>>>(device);
    EXPECT_EQUAL(cudaPeekAtLastError(), cudaErrorIllegalAddress);
    EXPECT_EQUAL(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    return finish();
}
