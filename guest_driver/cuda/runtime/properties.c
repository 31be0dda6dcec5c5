/* Properties of the device. Numbers that no device of ours has (clocks of memory, buses) are 0 or what the host's
 * engine tells; limits are those that launches are checked against. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

enum {
    MAX_TEXTURE_1D = 131072,
    MAX_TEXTURE_2D = 65536,
    MAX_TEXTURE_3D = 16384,
    MAX_LAYERS = 2048,
    SHARED_BYTES = 48 << 10,
};

static void pci_numbers(const char *address, struct cudaDeviceProp *properties)
{
    unsigned domain;
    unsigned bus;
    unsigned slot;
    if (sscanf(address, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return;
    properties->pciDomainID = (int)domain;
    properties->pciBusID = (int)bus;
    properties->pciDeviceID = (int)slot;
}

static void fill_textures(struct cudaDeviceProp *p)
{
    p->textureAlignment = 512;
    p->texturePitchAlignment = 32;
    p->surfaceAlignment = 512;
    p->maxTexture1D = p->maxSurface1D = MAX_TEXTURE_1D;
    p->maxTexture1DMipmap = MAX_TEXTURE_3D;
    p->maxTexture1DLinear = 1 << 28;
    p->maxTexture2D[0] = p->maxTexture2D[1] = p->maxSurface2D[0] = p->maxSurface2D[1] = MAX_TEXTURE_2D;
    p->maxTexture2DMipmap[0] = p->maxTexture2DMipmap[1] = MAX_TEXTURE_3D;
    p->maxTexture2DLinear[0] = p->maxTexture2DLinear[1] = MAX_TEXTURE_2D;
    p->maxTexture2DLinear[2] = 1 << 21;
    p->maxTexture2DGather[0] = p->maxTexture2DGather[1] = MAX_TEXTURE_2D;
    for (int i = 0; i < 3; i++)
        p->maxTexture3D[i] = p->maxTexture3DAlt[i] = p->maxSurface3D[i] = MAX_TEXTURE_3D;
    p->maxTextureCubemap = p->maxSurfaceCubemap = MAX_TEXTURE_3D;
    p->maxTexture1DLayered[0] = p->maxSurface1DLayered[0] = MAX_TEXTURE_3D;
    p->maxTexture1DLayered[1] = p->maxSurface1DLayered[1] = MAX_LAYERS;
    p->maxTexture2DLayered[0] = p->maxTexture2DLayered[1] = MAX_TEXTURE_3D;
    p->maxSurface2DLayered[0] = p->maxSurface2DLayered[1] = MAX_TEXTURE_3D;
    p->maxTexture2DLayered[2] = p->maxSurface2DLayered[2] = MAX_LAYERS;
    p->maxTextureCubemapLayered[0] = p->maxSurfaceCubemapLayered[0] = MAX_TEXTURE_3D;
    p->maxTextureCubemapLayered[1] = p->maxSurfaceCubemapLayered[1] = MAX_LAYERS - 2;
}

static void fill_limits(struct cudaDeviceProp *p)
{
    p->sharedMemPerBlock = p->sharedMemPerBlockOptin = p->sharedMemPerMultiprocessor = SHARED_BYTES;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->warpSize = 32;
    p->memPitch = INT32_MAX;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = INT32_MAX;
    p->maxGridSize[1] = p->maxGridSize[2] = UINT16_MAX;
    p->maxThreadsPerMultiProcessor = 2048;
    p->maxBlocksPerMultiProcessor = 32;
    p->totalConstMem = 65536;
}

static void fill(const struct rt_device *device, struct cudaDeviceProp *p)
{
    const struct vgc_info *info = &device->info;
    memset(p, 0, sizeof(*p));
    (void)snprintf(p->name, sizeof(p->name), "%s", info->engine_name);
    memcpy(p->uuid.bytes, info->uuid, sizeof(p->uuid.bytes));
    p->totalGlobalMem = info->memory_bytes;
    p->multiProcessorCount = (int)info->num_pes;
    p->major = 8;
    p->clockRate = 1000000; /* kHz: clocks of kernels count nanoseconds */
    p->deviceOverlap = 1;
    p->asyncEngineCount = 1;
    p->kernelExecTimeoutEnabled = info->deadline_ns != 0 && info->deadline_ns != UINT64_MAX;
    p->canMapHostMemory = 1;
    p->concurrentKernels = 1;
    p->unifiedAddressing = 1;
    p->managedMemory = 1;
    p->streamPrioritiesSupported = 1;
    p->globalL1CacheSupported = p->localL1CacheSupported = 1;
    p->l2CacheSize = 1 << 20;
    p->singleToDoublePrecisionPerfRatio = 2;
    p->cooperativeLaunch = 1;
    p->hostRegisterSupported = 1;
    p->memoryPoolsSupported = 1;
    fill_limits(p);
    if (info->device_features & 1 << 4)
        fill_textures(p);
    pci_numbers(info->address, p);
}

RT_API cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *properties, int ordinal)
{
    struct rt_device *device;
    if (properties == NULL)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = rt_device(ordinal, &device);
    if (error == cudaSuccess)
        fill(device, properties);
    return rt_return(error);
}

RT_API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int ordinal)
{
    return cudaGetDeviceProperties_v2(properties, ordinal);
}

RT_API cudaError_t cudaDriverGetVersion(int *version)
{
    if (version == NULL)
        return rt_return(cudaErrorInvalidValue);
    *version = rt_device_count() > 0 ? CUDART_VERSION : 0;
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (version == NULL)
        return rt_return(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return rt_return(cudaSuccess);
}
