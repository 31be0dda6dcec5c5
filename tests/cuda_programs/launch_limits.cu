// Rule: launches beyond the limits of device and kernel fail at once, run nothing, and spoil nothing.
#include "check.h"

__global__ void count(int *out)
{
    atomicAdd(out, 1);
}

__global__ void __launch_bounds__(64) small(int *out)
{
    atomicAdd(out, 1);
}

int main()
{
    int *device, value = -1;
    CHECK(cudaMalloc(&device, sizeof value));
    CHECK(cudaMemset(device, 0, sizeof value));
    count<<<1, 1025>>>(device);
    EXPECT_ERROR(cudaGetLastError(), cudaErrorInvalidConfiguration);
    count<<<1, dim3(1, 1, 65)>>>(device);
    EXPECT_ERROR(cudaGetLastError(), cudaErrorInvalidConfiguration);
    count<<<0, 32>>>(device);
    EXPECT_ERROR(cudaGetLastError(), cudaErrorInvalidConfiguration);
    count<<<1, 0>>>(device);
    EXPECT_ERROR(cudaGetLastError(), cudaErrorInvalidConfiguration);
    count<<<dim3(1, 65536), 32>>>(device);
    EXPECT_ERROR(cudaGetLastError(), cudaErrorInvalidConfiguration);
    small<<<1, 128>>>(device);
    EXPECT_ERROR(cudaGetLastError(), cudaErrorInvalidValue); /* not documented: what NVIDIA's driver says */
    count<<<1, 32, 1 << 20>>>(device);
    EXPECT_ERROR(cudaGetLastError(), cudaErrorInvalidValue);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(value, 0);
    count<<<dim3(2, 3, 4), dim3(8, 4, 2)>>>(device);
    CHECK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(value, 24 * 64);
    return finish();
}
