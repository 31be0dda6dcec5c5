/* Attributes of kernels. A CUfunction and a CUkernel are what the runtime takes in place of a stub's address. */
#include "runtime.h"

static CUresult value_of(const struct cudaFuncAttributes *attributes, int attribute, int *value)
{
    enum { CACHE_MODE = 7, CARVEOUT = 9, CLUSTER_MUST_BE_SET = 10 };
    enum { PTX_VERSION = 5, BINARY_VERSION = 6 };
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = attributes->maxThreadsPerBlock;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = (int)attributes->sharedSizeBytes;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        *value = (int)attributes->constSizeBytes;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = (int)attributes->localSizeBytes;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = attributes->numRegs;
        return CUDA_SUCCESS;
    case PTX_VERSION:
        *value = attributes->ptxVersion;
        return CUDA_SUCCESS;
    case BINARY_VERSION:
        *value = attributes->binaryVersion;
        return CUDA_SUCCESS;
    case CACHE_MODE:
        *value = attributes->cacheModeCA;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = attributes->maxDynamicSharedSizeBytes;
        return CUDA_SUCCESS;
    case CARVEOUT:
        *value = attributes->preferredShmemCarveout;
        return CUDA_SUCCESS;
    default:
        *value = 0; /* of clusters, and of graphs that kernels change */
        return attribute >= CLUSTER_MUST_BE_SET && attribute < CU_FUNC_ATTRIBUTE_MAX ? CUDA_SUCCESS
                                                                                     : CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult get_attribute(int *value, int attribute, const void *kernel)
{
    struct cudaFuncAttributes attributes;
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = RT_ASK(cudaFuncGetAttributes(&attributes, kernel));
    return result == CUDA_SUCCESS ? value_of(&attributes, attribute, value) : result;
}

static CUresult set_attribute(const void *kernel, int attribute, int value)
{
    enum { SETTABLE_FROM = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES }; /* those of the runtime, same numbers */
    if (attribute < SETTABLE_FROM)
        return CUDA_ERROR_INVALID_VALUE;
    return RT_ASK(cudaFuncSetAttribute(kernel, (enum cudaFuncAttribute)attribute, value));
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    const CUresult result = rt_enter_context(NULL, NULL);
    return result == CUDA_SUCCESS ? get_attribute(value, (int)attribute, function) : result;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    const CUresult result = rt_enter_context(NULL, NULL);
    return result == CUDA_SUCCESS ? set_attribute(function, (int)attribute, value) : result;
}

/* Kernels of libraries have attributes on each device: no context is asked for. */
CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device)
{
    CUresult result = rt_check_ordinal(value, device);
    if (result != CUDA_SUCCESS)
        return result;
    const int before = rt_ordinal();
    rt_set_ordinal(device);
    result = get_attribute(value, (int)attribute, kernel);
    rt_set_ordinal(before);
    return result;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device)
{
    CUresult result = rt_check_ordinal(kernel, device);
    if (result != CUDA_SUCCESS)
        return result;
    const int before = rt_ordinal();
    rt_set_ordinal(device);
    result = set_attribute(kernel, (int)attribute, value);
    rt_set_ordinal(before);
    return result;
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config)
{
    return RT_IN_CONTEXT(cudaFuncSetCacheConfig(function, (enum cudaFuncCache)config));
}

static CUresult name_of(const char **name, const void *kernel)
{
    return name == NULL || kernel == NULL ? CUDA_ERROR_INVALID_VALUE : RT_ASK(cudaFuncGetName(name, kernel));
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
    return name_of(name, function);
}

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
    return name_of(name, kernel);
}

static CUresult parameter_of(const void *kernel, size_t index, size_t *offset, size_t *size)
{
    struct rt_function *function;
    struct rt_device *device;
    struct vgc_function *loaded;
    struct vgc_param parameter;
    CUresult result = rt_check_driver();
    if (result == CUDA_SUCCESS)
        result = rt_check_kernel(kernel, &function);
    if (result == CUDA_SUCCESS)
        result = RT_ASK(rt_device(rt_ordinal(), &device));
    if (result == CUDA_SUCCESS)
        result = RT_ASK(rt_load_function(device, function, &loaded));
    if (result != CUDA_SUCCESS)
        return result;
    if (offset == NULL || index > UINT32_MAX || vgc_function_param(loaded, (uint32_t)index, &parameter) != VGC_OK)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = parameter.offset;
    if (size != NULL)
        *size = parameter.size;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size)
{
    return parameter_of(function, index, offset, size);
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
    return parameter_of(kernel, index, offset, size);
}

static CUresult count_parameters(const void *kernel, size_t *count)
{
    struct rt_function *function;
    struct rt_device *device;
    struct vgc_function *loaded;
    struct vgc_function_info info;
    CUresult result = rt_check_driver();
    if (result == CUDA_SUCCESS)
        result = count == NULL ? CUDA_ERROR_INVALID_VALUE : rt_check_kernel(kernel, &function);
    if (result == CUDA_SUCCESS)
        result = RT_ASK(rt_device(rt_ordinal(), &device));
    if (result == CUDA_SUCCESS)
        result = RT_ASK(rt_load_function(device, function, &loaded));
    if (result != CUDA_SUCCESS)
        return result;
    vgc_function_info(loaded, &info);
    *count = info.num_params;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamCount(CUfunction function, size_t *count)
{
    return count_parameters(function, count);
}

CUresult cuKernelGetParamCount(CUkernel kernel, size_t *count)
{
    return count_parameters(kernel, count);
}

/* Modules are loaded with all their kernels. */
CUresult cuFuncLoad(CUfunction function)
{
    struct rt_function *found;
    const CUresult result = rt_enter_context(NULL, NULL);
    return result == CUDA_SUCCESS ? rt_check_kernel(function, &found) : result;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    const CUresult result = state == NULL ? CUDA_ERROR_INVALID_VALUE : cuFuncLoad(function);
    if (result == CUDA_SUCCESS)
        *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return result;
}

/* Two hints, which no engine has a use for. */
CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config)
{
    return RT_IN_CONTEXT(cudaFuncSetSharedMemConfig(function, (enum cudaSharedMemConfig)config));
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
    const CUresult result = rt_check_ordinal(&device, device);
    return result == CUDA_SUCCESS ? RT_ASK(cudaFuncSetCacheConfig(kernel, (enum cudaFuncCache)config)) : result;
}

/* ---- occupancy ------------------------------------------------------------------------------ */

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int block_size,
                                                              size_t shared, unsigned int flags)
{
    return RT_IN_CONTEXT(
        cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, shared, flags));
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block_size, size_t shared)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, shared, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function, int blocks, int block_size)
{
    return RT_IN_CONTEXT(cudaOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks, block_size));
}

/* The size of whole warps with the most threads at once; the largest of several. */
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *min_grid, int *block_size, CUfunction function,
                                                   CUoccupancyB2DSize shared_of, size_t shared, int limit,
                                                   unsigned int flags)
{
    enum { WARP_THREADS = 32 };
    struct rt_device *device;
    int most = 0, best = 0;
    CUresult result = rt_enter_context(NULL, &device);
    if (result != CUDA_SUCCESS)
        return result;
    if (min_grid == NULL || block_size == NULL || limit < 0)
        return CUDA_ERROR_INVALID_VALUE;
    result = get_attribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
    if (result != CUDA_SUCCESS)
        return result;
    *min_grid = *block_size = 0;
    most = limit > 0 ? RT_MIN(limit, most) : most;
    for (int threads = most; threads > 0; threads = (threads - 1) / WARP_THREADS * WARP_THREADS) {
        int blocks = 0;
        const size_t dynamic = shared_of != NULL ? shared_of(threads) : shared;
        result = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, function, threads, dynamic, flags);
        if (result != CUDA_SUCCESS)
            return result;
        if (blocks * threads > best) {
            best = blocks * threads;
            *block_size = threads;
            *min_grid = blocks * (int)device->info.num_pes;
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *min_grid, int *block_size, CUfunction function,
                                          CUoccupancyB2DSize shared_of, size_t shared, int limit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(min_grid, block_size, function, shared_of, shared, limit, 0);
}

/* ---- clusters ------------------------------------------------------------------------------- */

CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *given)
{
    if (given == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const cudaLaunchConfig_t config = rt_launch_config(given);
    return RT_IN_CONTEXT(cudaOccupancyMaxActiveClusters(clusters, function, &config));
}

CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction function, const CUlaunchConfig *given)
{
    if (given == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const cudaLaunchConfig_t config = rt_launch_config(given);
    return RT_IN_CONTEXT(cudaOccupancyMaxPotentialClusterSize(size, function, &config));
}
