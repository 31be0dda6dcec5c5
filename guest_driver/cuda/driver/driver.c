/* libcuda: the few functions of CUDA's driver API that ask about devices, over the runtime. Makefiles name -lcuda for
 * programs that use no more of it, or nothing; a program that uses another function is told its name by the linker. The
 * runtime is the program's own: the dynamic linker finds its functions in a program with libcudart_static before those
 * of libcudart.so.12, which this library names. */
#include "cuda.h"
#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static atomic_bool is_initialized;

/* Errors have the same numbers in both interfaces. */
static CUresult result_of(cudaError_t error)
{
    return (CUresult)error;
}

EXPORT CUresult cuInit(unsigned int flags)
{
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    int count;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess)
        is_initialized = true;
    return result_of(error);
}

/* Needs no cuInit(). */
EXPORT CUresult cuDriverGetVersion(int *version)
{
    return version == NULL ? CUDA_ERROR_INVALID_VALUE : result_of(cudaDriverGetVersion(version));
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
    if (!is_initialized)
        return CUDA_ERROR_NOT_INITIALIZED;
    return count == NULL ? CUDA_ERROR_INVALID_VALUE : result_of(cudaGetDeviceCount(count));
}

/* Success if a call with `into` can answer about a device. */
static CUresult check(const void *into, CUdevice device)
{
    int count;
    const CUresult result = cuDeviceGetCount(&count);
    if (result != CUDA_SUCCESS)
        return result;
    if (into == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return device < 0 || device >= count ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    const CUresult result = check(device, ordinal);
    if (result == CUDA_SUCCESS)
        *device = ordinal;
    return result;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    const CUresult result = check(value, device);
    if (result != CUDA_SUCCESS)
        return result;
    return result_of(cudaDeviceGetAttribute(value, (enum cudaDeviceAttr)attribute, device)); /* the same numbers, too */
}

EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    CUresult result = major == NULL ? CUDA_ERROR_INVALID_VALUE
                                    : cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    return result;
}

static CUresult properties_of(const void *into, CUdevice device, struct cudaDeviceProp *properties)
{
    const CUresult result = check(into, device);
    return result == CUDA_SUCCESS ? result_of(cudaGetDeviceProperties(properties, device)) : result;
}

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    struct cudaDeviceProp properties;
    const CUresult result = length <= 0 ? CUDA_ERROR_INVALID_VALUE : properties_of(name, device, &properties);
    if (result == CUDA_SUCCESS)
        snprintf(name, (size_t)length, "%s", properties.name);
    return result;
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    struct cudaDeviceProp properties;
    const CUresult result = properties_of(uuid, device, &properties);
    if (result == CUDA_SUCCESS)
        memcpy(uuid, &properties.uuid, sizeof(*uuid));
    return result;
}

EXPORT CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    struct cudaDeviceProp properties;
    const CUresult result = properties_of(bytes, device, &properties);
    if (result == CUDA_SUCCESS)
        *bytes = properties.totalGlobalMem;
    return result;
}

/* Names that NVIDIA's cuda.h gives them in programs. */
EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) __attribute__((alias("cuDeviceTotalMem")));
EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) __attribute__((alias("cuDeviceGetUuid")));

EXPORT CUresult cuGetErrorString(CUresult error, const char **text)
{
    if (text == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *text = cudaGetErrorString((cudaError_t)error);
    return CUDA_SUCCESS;
}
