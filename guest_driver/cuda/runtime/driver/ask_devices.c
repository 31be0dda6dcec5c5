/* Questions of the driver API about the driver and about devices. */
#include <stdio.h>
#include <string.h>

#include "runtime.h"

enum { DRIVER_VERSION = 13000 }; /* of the newest runtime that there is, as a driver serves the older ones, too */

/* Needs no cuInit(). */
CUresult cuDriverGetVersion(int *version)
{
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    const CUresult result = rt_check_driver();
    if (result != CUDA_SUCCESS)
        return result;
    return count == NULL ? CUDA_ERROR_INVALID_VALUE : RT_ASK(cudaGetDeviceCount(count));
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    const CUresult result = rt_check_ordinal(device, ordinal);
    if (result == CUDA_SUCCESS)
        *device = ordinal;
    return result;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    const CUresult result = rt_check_ordinal(value, device);
    if (result != CUDA_SUCCESS)
        return result;
    if ((int)attribute >= cudaDevAttrMax && attribute < CU_DEVICE_ATTRIBUTE_MAX) {
        *value = 0; /* of features that the runtime has no number for, and no device of ours has */
        return CUDA_SUCCESS;
    }
    return RT_ASK(cudaDeviceGetAttribute(value, (enum cudaDeviceAttr)attribute, device)); /* the same numbers */
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    CUresult result = major == NULL ? CUDA_ERROR_INVALID_VALUE
                                    : cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    return result;
}

static CUresult properties_of(const void *into, CUdevice device, struct cudaDeviceProp *properties)
{
    const CUresult result = rt_check_ordinal(into, device);
    return result == CUDA_SUCCESS ? RT_ASK(cudaGetDeviceProperties(properties, device)) : result;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    struct cudaDeviceProp properties;
    const CUresult result = length <= 0 ? CUDA_ERROR_INVALID_VALUE : properties_of(name, device, &properties);
    if (result == CUDA_SUCCESS)
        (void)snprintf(name, (size_t)length, "%s", properties.name);
    return result;
}

CUresult cuDeviceGetProperties(CUdevprop *properties, CUdevice device)
{
    struct cudaDeviceProp all;
    const CUresult result = properties_of(properties, device, &all);
    if (result != CUDA_SUCCESS)
        return result;
    *properties = (CUdevprop){.maxThreadsPerBlock = all.maxThreadsPerBlock,
                              .sharedMemPerBlock = (int)all.sharedMemPerBlock,
                              .totalConstantMemory = (int)all.totalConstMem,
                              .SIMDWidth = all.warpSize,
                              .memPitch = (int)all.memPitch,
                              .regsPerBlock = all.regsPerBlock,
                              .clockRate = all.clockRate,
                              .textureAlign = (int)all.textureAlignment};
    memcpy(properties->maxThreadsDim, all.maxThreadsDim, sizeof(properties->maxThreadsDim));
    memcpy(properties->maxGridSize, all.maxGridSize, sizeof(properties->maxGridSize));
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int *can, CUexecAffinityType type, CUdevice device)
{
    const CUresult result = rt_check_ordinal(can, device);
    if (result != CUDA_SUCCESS)
        return result;
    if ((unsigned)type >= CU_EXEC_AFFINITY_TYPE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *can = 0; /* the host decides which multiprocessors a VM's work has */
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    struct cudaDeviceProp properties;
    const CUresult result = properties_of(uuid, device, &properties);
    if (result == CUDA_SUCCESS)
        memcpy(uuid, &properties.uuid, sizeof(*uuid));
    return result;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    struct cudaDeviceProp properties;
    const CUresult result = properties_of(bytes, device, &properties);
    if (result == CUDA_SUCCESS)
        *bytes = properties.totalGlobalMem;
    return result;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *width, CUarray_format format, unsigned int components,
                                            CUdevice device)
{
    struct cudaDeviceProp properties;
    struct cudaChannelFormatDesc channels;
    CUresult result = properties_of(width, device, &properties);
    if (result == CUDA_SUCCESS)
        result = rt_channels_of(format, components, &channels);
    if (result == CUDA_SUCCESS)
        *width = (size_t)properties.maxTexture1DLinear;
    return result;
}

CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
    const CUresult result = rt_check_ordinal(text, device);
    return result == CUDA_SUCCESS ? RT_ASK(cudaDeviceGetPCIBusId(text, length, device)) : result;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
    const CUresult result = rt_check_driver();
    if (result != CUDA_SUCCESS)
        return result;
    return device == NULL || text == NULL ? CUDA_ERROR_INVALID_VALUE : RT_ASK(cudaDeviceGetByPCIBusId(device, text));
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    const CUresult result = rt_check_ordinal(can, device);
    return result == CUDA_SUCCESS ? RT_ASK(cudaDeviceCanAccessPeer(can, device, peer)) : result;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer)
{
    const CUresult result = rt_check_ordinal(value, device);
    if (result != CUDA_SUCCESS)
        return result;
    return RT_ASK(cudaDeviceGetP2PAttribute(value, (enum cudaDeviceP2PAttr)attribute, device, peer));
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    const CUresult result = rt_check_ordinal(pool, device);
    return result == CUDA_SUCCESS ? RT_ASK(cudaDeviceGetDefaultMemPool((cudaMemPool_t *)pool, device)) : result;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    const CUresult result = rt_check_ordinal(pool, device);
    return result == CUDA_SUCCESS ? RT_ASK(cudaDeviceGetMemPool((cudaMemPool_t *)pool, device)) : result;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    const CUresult result = rt_check_ordinal(&device, device);
    return result == CUDA_SUCCESS ? RT_ASK(cudaDeviceSetMemPool(device, (cudaMemPool_t)pool)) : result;
}
