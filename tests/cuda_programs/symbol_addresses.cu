// Rule: a variable's address on the device is device memory to every call: cudaMemcpyDefault, attributes, fills.
#include "check.h"

__device__ int numbers[64];
__device__ int others[64];

__global__ void add(int *sums)
{
    sums[threadIdx.x] = numbers[threadIdx.x] + others[threadIdx.x];
}

static void pointers(int *address)
{
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, address + 1));
    EXPECT_EQUAL(attributes.type, cudaMemoryTypeDevice);
    EXPECT(attributes.devicePointer == address + 1);
    EXPECT_ERROR(cudaFree(address), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaMemcpy(address + 1, address, 256, cudaMemcpyDefault), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaMemset(address + 63, 0, 8), cudaErrorInvalidValue);
}

int main()
{
    int host[64], *address, *device;
    for (int i = 0; i < 64; i++)
        host[i] = i + 1;
    CHECK(cudaGetSymbolAddress((void **)&address, numbers));
    CHECK(cudaMalloc(&device, sizeof(host)));
    CHECK(cudaMemcpy(address, host, sizeof(host), cudaMemcpyDefault));
    CHECK(cudaMemcpy(device, address, sizeof(host), cudaMemcpyDefault));
    CHECK(cudaMemcpyToSymbol(others, device, sizeof(host), 0, cudaMemcpyDefault));
    CHECK(cudaMemcpyToSymbol(others, host, sizeof(host[0]), 0, cudaMemcpyDefault));
    pointers(address);
    add<<<1, 64>>>(device);
    CHECK(cudaMemset(address, 0, 8));
    CHECK(cudaMemcpyFromSymbol(host, numbers, sizeof(host), 0, cudaMemcpyDefault));
    EXPECT_EQUAL(host[1], 0);
    EXPECT_EQUAL(host[2], 3);
    CHECK(cudaMemcpy(host, device, sizeof(host), cudaMemcpyDefault));
    for (int i = 0; i < 64; i++)
        EXPECT_EQUAL(host[i], 2 * (i + 1));
    CHECK(cudaDeviceReset());
    EXPECT_ERROR(cudaMemcpy(address, device, 0, cudaMemcpyDefault), cudaSuccess);
    CHECK(cudaMemcpyFromSymbol(host, numbers, sizeof(host), 0, cudaMemcpyDefault));
    EXPECT_EQUAL(host[2], 0);
    return finish();
}
