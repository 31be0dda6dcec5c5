/* Properties of the device, as structs and one by one. Numbers come from the host's engine; 0 where it has no such
 * thing. Limits are those that launches are checked against. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

enum {
    MAX_TEXTURE_1D = 131072,
    MAX_TEXTURE_2D = 65536,
    MAX_TEXTURE_3D = 16384,
    MAX_SURFACE_1D = 32768,
    MAX_LINEAR = 1 << 27, /* texels of linear memory [docs/device.md] */
    MAX_LAYERS = 2048,
    FREE_SHARED_BYTES = 48 << 10, /* without cudaFuncSetAttribute() */
    TEXTURES = 1 << 4,            /* bit of device_features [docs/device.md] */
    BYTES_OF_CUDA_11 = 728,       /* of cudaDeviceProp */
};

static void fill_place(const char *address, struct cudaDeviceProp *p)
{
    unsigned domain;
    unsigned bus;
    unsigned slot;
    if (sscanf(address, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return;
    p->pciDomainID = (int)domain;
    p->pciBusID = (int)bus;
    p->pciDeviceID = (int)slot;
}

static void fill_textures(struct cudaDeviceProp *p)
{
    p->textureAlignment = 512;
    p->texturePitchAlignment = 32;
    p->surfaceAlignment = 512;
    p->maxTexture1D = MAX_TEXTURE_1D;
    p->maxSurface1D = MAX_SURFACE_1D;
    p->maxTexture1DMipmap = MAX_TEXTURE_3D;
    p->maxTexture1DLinear = MAX_LINEAR;
    p->maxTexture2D[0] = p->maxTexture2D[1] = p->maxSurface2D[0] = p->maxSurface2D[1] = MAX_TEXTURE_2D;
    p->maxTexture2DMipmap[0] = p->maxTexture2DMipmap[1] = MAX_TEXTURE_3D;
    p->maxTexture2DLinear[0] = MAX_TEXTURE_2D;
    p->maxTexture2DLinear[1] = 65000;
    p->maxTexture2DLinear[2] = 2097120;
    p->maxTexture2DGather[0] = p->maxTexture2DGather[1] = MAX_TEXTURE_3D;
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

static void fill_elements(const struct vgc_device_limits *told, struct cudaDeviceProp *p)
{
    p->major = (int)(told->compute_capability / 10);
    p->minor = (int)(told->compute_capability % 10);
    p->warpSize = (int)told->warp_threads;
    p->maxThreadsPerMultiProcessor = (int)told->pe_threads;
    p->maxBlocksPerMultiProcessor = (int)told->pe_blocks;
    p->regsPerMultiprocessor = (int)told->pe_registers;
    p->regsPerBlock = (int)told->block_registers;
    p->sharedMemPerMultiprocessor = told->pe_shared_bytes;
    p->sharedMemPerBlock = RT_MIN((size_t)told->block_shared_bytes, (size_t)FREE_SHARED_BYTES);
    p->sharedMemPerBlockOptin = told->block_shared_bytes;
    p->reservedSharedMemPerBlock = told->reserved_shared_bytes;
    p->totalConstMem = told->constant_bytes;
    p->l2CacheSize = (int)told->l2_bytes;
    p->clockRate = (int)told->clock_khz;
    p->memoryClockRate = (int)told->memory_clock_khz;
    p->memoryBusWidth = (int)told->memory_bus_bits;
    p->asyncEngineCount = (int)told->copy_engines;
    p->deviceOverlap = told->copy_engines > 0;
    p->singleToDoublePrecisionPerfRatio = (int)told->double_ratio;
    p->clusterLaunch = told->cluster_blocks > 0;
    p->ECCEnabled = (int)told->ecc;
    p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = INT32_MAX;
    p->maxGridSize[1] = p->maxGridSize[2] = UINT16_MAX;
    p->memPitch = INT32_MAX;
}

static void fill(const struct rt_device *device, struct cudaDeviceProp *p)
{
    const struct vgc_info *info = &device->info;
    memset(p, 0, sizeof(*p));
    (void)snprintf(p->name, sizeof(p->name), "%s", info->engine_name);
    memcpy(p->uuid.bytes, info->uuid, sizeof(p->uuid.bytes));
    p->totalGlobalMem = info->memory_bytes;
    p->multiProcessorCount = (int)info->num_pes;
    p->kernelExecTimeoutEnabled = info->deadline_ns != 0 && info->deadline_ns != UINT64_MAX;
    p->canMapHostMemory = p->hostRegisterSupported = 1;
    p->concurrentKernels = p->unifiedAddressing = p->managedMemory = p->cooperativeLaunch = 1;
    p->streamPrioritiesSupported = p->memoryPoolsSupported = p->computePreemptionSupported = 1;
    p->globalL1CacheSupported = p->localL1CacheSupported = 1;
    p->ipcEventSupported = rt_has_shared_events(device);
    fill_elements(&device->told, p);
    if ((info->device_features & TEXTURES) != 0)
        fill_textures(p);
    fill_place(info->address, p);
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

/* Programs that call it by this name, not by that of their header, have room for the fields of CUDA 11 alone. */
#undef cudaGetDeviceProperties
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int ordinal);

RT_API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int ordinal)
{
    struct cudaDeviceProp all;
    _Static_assert(offsetof(struct cudaDeviceProp, hostRegisterSupported) == BYTES_OF_CUDA_11, "CUDA 11 ends here");
    if (properties == NULL)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = cudaGetDeviceProperties_v2(&all, ordinal);
    if (error == cudaSuccess)
        memcpy(properties, &all, BYTES_OF_CUDA_11);
    return error;
}

/* ---- one by one ----------------------------------------------------------------------------- */

/* The attribute's field of the struct. */
static bool field(const struct cudaDeviceProp *p, enum cudaDeviceAttr attribute, int *value)
{
    switch (attribute) {
#define FIELD(name, of)                                                                                                \
    case cudaDevAttr##name:                                                                                            \
        *value = (int)RT_MIN((size_t)p->of, (size_t)INT32_MAX);                                                        \
        return true;
#include "attributes.h"
#undef FIELD
    default:
        return false;
    }
}

RT_API cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int ordinal)
{
    struct rt_device *device;
    struct cudaDeviceProp properties;
    if (value == NULL || (int)attribute < 1 || attribute >= cudaDevAttrMax)
        return rt_return(rt_explain(cudaErrorInvalidValue, "attribute %d; allowed: 1 to %d", (int)attribute,
                                    (int)cudaDevAttrMax - 1));
    cudaError_t error = rt_device(ordinal, &device);
    if (error != cudaSuccess)
        return rt_return(error);
    fill(device, &properties);
    if (!field(&properties, attribute, value))
        *value = 0; /* of features that no device of ours has */
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int ordinal)
{
    struct rt_device *device;
    struct cudaDeviceProp p;
    if (id == NULL || length < 13)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = rt_device(ordinal, &device);
    if (error != cudaSuccess)
        return rt_return(error);
    fill(device, &p);
    (void)snprintf(id, (size_t)length, "%04x:%02x:%02x.0", p.pciDomainID & 0xffff, p.pciBusID & 0xff,
                   p.pciDeviceID & 0x1f);
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaDeviceGetByPCIBusId(int *ordinal, const char *id)
{
    char own[16];
    if (ordinal == NULL || id == NULL)
        return rt_return(cudaErrorInvalidValue);
    for (int i = 0; i < rt_device_count(); i++) {
        if (cudaDeviceGetPCIBusId(own, sizeof(own), i) == cudaSuccess && strncmp(own, id, strlen(own)) == 0) {
            *ordinal = i;
            return rt_return(cudaSuccess);
        }
    }
    return rt_return(cudaErrorInvalidDevice);
}

/* The first device that has at least what is asked for, or else the first. */
RT_API cudaError_t cudaChooseDevice(int *ordinal, const struct cudaDeviceProp *wanted)
{
    if (ordinal == NULL || wanted == NULL)
        return rt_return(cudaErrorInvalidValue);
    for (int i = 0; i < rt_device_count(); i++) {
        struct cudaDeviceProp p;
        if (cudaGetDeviceProperties_v2(&p, i) != cudaSuccess)
            continue;
        *ordinal = i;
        if (10LL * p.major + p.minor >= 10LL * wanted->major + wanted->minor &&
            p.totalGlobalMem >= wanted->totalGlobalMem)
            return rt_return(cudaSuccess);
    }
    *ordinal = 0;
    return rt_return(rt_device_count() > 0 ? cudaSuccess : cudaErrorNoDevice);
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
