// Rule: sizes, pitches and extents whose products no memory has are errors; nothing is copied or filled in part.
#include "check.h"

#include <stdint.h>

__global__ void store(int *to, int value)
{
    *to = value;
}

static const size_t MOST = SIZE_MAX;

static void memory(void *device)
{
    void *made;
    size_t pitch;
    const size_t sizes[] = {MOST, MOST - 1, MOST - 4095, MOST / 2 + 1, (size_t)1 << 48};
    for (size_t size : sizes) {
        EXPECT_ERROR(cudaMalloc(&made, size), cudaErrorMemoryAllocation);
        EXPECT_ERROR(cudaMallocHost(&made, size), cudaErrorMemoryAllocation);
        EXPECT_ERROR(cudaHostAlloc(&made, size, cudaHostAllocMapped), cudaErrorMemoryAllocation);
        EXPECT_ERROR(cudaMallocManaged(&made, size), cudaErrorMemoryAllocation);
        EXPECT_ERROR(cudaMallocAsync(&made, size, 0), cudaErrorMemoryAllocation);
        EXPECT_ERROR(cudaMallocPitch(&made, &pitch, 512, size), cudaErrorMemoryAllocation);
        EXPECT_ERROR(cudaMemset(device, 0, size), cudaErrorInvalidValue);
        EXPECT_ERROR(cudaMemcpy(device, &made, size, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
        EXPECT(cudaMemset2D(device, 64, 0, 64, size) == cudaErrorInvalidValue);
        EXPECT(cudaMemset2D((char *)device + ((size_t)1 << 40), 64, 0, 4, size) == cudaErrorInvalidValue);
    }
    EXPECT_ERROR(cudaHostRegister(device, MOST, 0), cudaErrorInvalidValue);
}

static void boxes(void *device)
{
    char host[256];
    cudaMemcpy3DParms copy = {};
    EXPECT_ERROR(cudaMemcpy2D(device, 1 << 16, host, 1 << 16, 1 << 16, (size_t)1 << 48, cudaMemcpyHostToDevice),
                 cudaErrorInvalidValue);
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float4>();
    CHECK(cudaMallocArray(&array, &format, 4, 4));
    copy.dstArray = array;
    copy.srcPtr = {host, 64, 4, 4};
    copy.extent = {((size_t)1 << 60) + 1, 1, 1}; // one texel, if the product wraps round
    copy.kind = cudaMemcpyHostToDevice;
    EXPECT_ERROR(cudaMemcpy3D(&copy), cudaErrorInvalidValue);
    copy.extent = {1, 1, 1};
    copy.dstPos.x = (size_t)1 << 60;
    EXPECT_ERROR(cudaMemcpy3D(&copy), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaMemset3D({device, 256, 64, MOST / 2 + 1}, 0, {64, 1, 3}), cudaErrorInvalidValue);
    CHECK(cudaFreeArray(array));
}

static void launches()
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {65536, 65536, 1}; // 0, if the product wraps round
    cudaLaunchConfig_t config = {};
    config.gridDim = config.blockDim = dim3(1);
    config.attrs = &attribute;
    config.numAttrs = 1;
    EXPECT_ERROR(cudaLaunchKernelExC(&config, (const void *)store, NULL), cudaErrorNotSupported);
    EXPECT_ERROR(cudaLaunchKernel((const void *)store, dim3(1), dim3(1), NULL, 0, NULL), cudaErrorInvalidValue);
    int device = 0;
    EXPECT_ERROR(cudaSetValidDevices(&device, 1 << 20), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaSetValidDevices(&device, 1), cudaSuccess);
}

int main()
{
    void *device;
    CHECK(cudaMalloc(&device, 4096));
    memory(device);
    boxes(device);
    launches();
    CHECK(cudaDeviceSynchronize());
    return finish();
}
