/* Attributes of kernels, and how many blocks of one a processing element holds. */
#include <string.h>

#include "runtime.h"

enum { FREE_SHARED_BYTES = 48 << 10, WARP_THREADS = 32, REGISTER_UNIT = 256 };

struct kernel {
    struct rt_device *device;
    struct rt_function *function;
    struct vgc_function_info info;
};

static cudaError_t find(const void *host, struct kernel *kernel)
{
    struct vgc_function *loaded;
    kernel->function = rt_function(host);
    cudaError_t error = rt_current(&kernel->device);
    if (error == cudaSuccess && kernel->function == NULL)
        error = rt_explain(cudaErrorInvalidDeviceFunction, "%p is not a kernel of this program", host);
    if (error == cudaSuccess)
        error = rt_load_function(kernel->device, kernel->function, &loaded);
    if (error == cudaSuccess)
        vgc_function_info(loaded, &kernel->info);
    return error;
}

/* Most dynamic shared memory that a launch may ask for. */
static uint32_t dynamic_bytes(const struct kernel *kernel)
{
    if (kernel->function->max_dynamic_shared >= 0)
        return (uint32_t)kernel->function->max_dynamic_shared;
    uint32_t most = RT_MIN((uint32_t)FREE_SHARED_BYTES, kernel->device->told.block_shared_bytes);
    return most - RT_MIN(most, kernel->info.shared_bytes);
}

/* ---- attributes ----------------------------------------------------------------------------- */

RT_API cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function)
{
    struct kernel kernel;
    if (attributes == NULL)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = find(function, &kernel);
    if (error != cudaSuccess)
        return rt_return(error);
    memset(attributes, 0, sizeof(*attributes));
    attributes->sharedSizeBytes = kernel.info.shared_bytes;
    attributes->localSizeBytes = kernel.info.local_bytes;
    attributes->constSizeBytes = kernel.info.constant_bytes;
    attributes->maxThreadsPerBlock = (int)RT_MIN(kernel.info.max_threads, 1024u);
    attributes->numRegs = (int)kernel.info.num_registers;
    attributes->ptxVersion = attributes->binaryVersion = (int)kernel.device->told.compute_capability;
    attributes->maxDynamicSharedSizeBytes = (int)dynamic_bytes(&kernel);
    attributes->preferredShmemCarveout = kernel.function->carveout;
    return rt_return(cudaSuccess);
}

static cudaError_t allow_shared(struct kernel *kernel, int bytes)
{
    uint32_t most = kernel->device->told.block_shared_bytes;
    uint32_t allowed = most - RT_MIN(most, kernel->info.shared_bytes);
    if (bytes < 0 || (uint32_t)bytes > allowed)
        return rt_explain(cudaErrorInvalidValue, "%s: %d bytes of dynamic shared memory; allowed: %u",
                          kernel->info.short_name, bytes, allowed);
    kernel->function->max_dynamic_shared = bytes;
    return cudaSuccess;
}

RT_API cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value)
{
    struct kernel kernel;
    cudaError_t error = find(function, &kernel);
    if (error != cudaSuccess)
        return rt_return(error);
    switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
        return rt_return(allow_shared(&kernel, value));
    case cudaFuncAttributePreferredSharedMemoryCarveout:
        if (value < -1 || value > 100)
            return rt_return(cudaErrorInvalidValue);
        kernel.function->carveout = value; /* a hint */
        return rt_return(cudaSuccess);
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
    case cudaFuncAttributeClusterSchedulingPolicyPreference:
        return rt_return(cudaSuccess);
    case cudaFuncAttributeClusterDimMustBeSet:
    case cudaFuncAttributeRequiredClusterWidth:
    case cudaFuncAttributeRequiredClusterHeight:
    case cudaFuncAttributeRequiredClusterDepth:
        return rt_return(rt_unsupported("clusters whose size is chosen at run time"));
    case cudaFuncAttributeMax:
        break;
    }
    return rt_return(cudaErrorInvalidValue);
}

RT_API cudaError_t cudaFuncGetName(const char **name, const void *function)
{
    const struct rt_function *found = rt_function(function);
    if (name == NULL)
        return rt_return(cudaErrorInvalidValue);
    if (found == NULL)
        return rt_return(cudaErrorInvalidDeviceFunction);
    *name = found->name;
    return rt_return(cudaSuccess);
}

/* Hints for caches, which the device chooses itself. */
static cudaError_t hint(const void *function)
{
    struct kernel kernel;
    return rt_return(find(function, &kernel));
}

RT_API cudaError_t cudaFuncSetCacheConfig(const void *function, enum cudaFuncCache config)
{
    return (unsigned)config > cudaFuncCachePreferEqual ? rt_return(cudaErrorInvalidValue) : hint(function);
}

RT_API cudaError_t cudaFuncSetSharedMemConfig(const void *function, enum cudaSharedMemConfig config)
{
    return (unsigned)config > cudaSharedMemBankSizeEightByte ? rt_return(cudaErrorInvalidValue) : hint(function);
}

/* ---- occupancy ------------------------------------------------------------------------------ */

static uint32_t rounded(uint32_t value, uint32_t unit)
{
    return (value + unit - 1) / unit * unit;
}

uint32_t rt_resident_blocks(const struct rt_device *device, const struct vgc_function_info *info, uint32_t threads,
                            size_t dynamic)
{
    const struct vgc_device_limits *told = &device->told;
    uint32_t whole = rounded(threads, WARP_THREADS);
    uint32_t blocks = RT_MIN(told->pe_blocks, told->pe_threads / whole);
    uint32_t warp_registers = rounded(info->num_registers * WARP_THREADS, REGISTER_UNIT);
    if (warp_registers > 0 && told->pe_registers > 0)
        blocks = RT_MIN(blocks, told->pe_registers / warp_registers / (whole / WARP_THREADS));
    size_t shared = info->shared_bytes + dynamic + told->reserved_shared_bytes;
    if (shared > 0 && told->pe_shared_bytes > 0)
        blocks = (uint32_t)RT_MIN((size_t)blocks, told->pe_shared_bytes / shared);
    return blocks;
}

static bool fits(const struct kernel *kernel, int threads, size_t dynamic)
{
    return threads > 0 && (uint32_t)threads <= RT_MIN(kernel->info.max_threads, 1024u) &&
           kernel->info.shared_bytes + dynamic <= kernel->device->told.block_shared_bytes;
}

RT_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function,
                                                                          int block_size, size_t shared,
                                                                          unsigned int flags)
{
    struct kernel kernel;
    if (blocks == NULL || block_size <= 0 || flags > cudaOccupancyDisableCachingOverride)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = find(function, &kernel);
    if (error == cudaSuccess)
        *blocks = fits(&kernel, block_size, shared)
                      ? (int)rt_resident_blocks(kernel.device, &kernel.info, (uint32_t)block_size, shared)
                      : 0;
    return rt_return(error);
}

RT_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int block_size,
                                                                 size_t shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, shared,
                                                                  cudaOccupancyDefault);
}

RT_API cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *shared, const void *function, int blocks,
                                                             int block_size)
{
    struct kernel kernel;
    if (shared == NULL || blocks <= 0 || block_size <= 0)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = find(function, &kernel);
    if (error != cudaSuccess)
        return rt_return(error);
    const struct vgc_device_limits *told = &kernel.device->told;
    uint32_t taken = kernel.info.shared_bytes + told->reserved_shared_bytes;
    uint32_t each = told->pe_shared_bytes / (uint32_t)blocks;
    uint32_t most = told->block_shared_bytes - RT_MIN(told->block_shared_bytes, kernel.info.shared_bytes);
    *shared = RT_MIN(each - RT_MIN(each, taken), most);
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaOccupancyMaxPotentialClusterSize(int *size, const void *function,
                                                        const cudaLaunchConfig_t *config)
{
    struct kernel kernel;
    if (size == NULL || config == NULL)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = find(function, &kernel);
    if (error == cudaSuccess)
        *size = (int)RT_MAX(1u, kernel.device->told.cluster_blocks);
    return rt_return(error);
}

RT_API cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *function, const cudaLaunchConfig_t *config)
{
    struct kernel kernel;
    if (clusters == NULL || config == NULL)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = find(function, &kernel);
    if (error == cudaSuccess && kernel.device->told.cluster_blocks == 0)
        error = rt_explain(cudaErrorInvalidClusterSize, "this device has no clusters");
    if (error == cudaSuccess)
        *clusters = (int)RT_MAX(1u, kernel.device->info.num_pes / kernel.device->told.cluster_blocks);
    return rt_return(error);
}
