/* Limits, flags and hints of a device, and what a profiler is told. */
#include "runtime.h"

static const size_t DEFAULTS[] = {
    [cudaLimitStackSize] = 1024,
    [cudaLimitPrintfFifoSize] = 65536, /* what the device keeps of a context's output */
    [cudaLimitMallocHeapSize] = 8 << 20,
    [cudaLimitDevRuntimeSyncDepth] = 2,
    [cudaLimitDevRuntimePendingLaunchCount] = 2048,
    [cudaLimitMaxL2FetchGranularity] = 128,
    [cudaLimitPersistingL2CacheSize] = 0,
};

enum { NUM_LIMITS = sizeof(DEFAULTS) / sizeof(DEFAULTS[0]) };
enum { SMALLEST_HEAP = 64 << 10, LARGEST_HEAP = 1 << 30 }; /* of the software GPU's programs */

RT_API cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
    struct rt_device *device;
    if (value == NULL)
        return rt_return(cudaErrorInvalidValue);
    if ((unsigned)limit >= NUM_LIMITS)
        return rt_return(cudaErrorUnsupportedLimit);
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess)
        *value = device->limits[limit] != 0 ? device->limits[limit] : DEFAULTS[limit];
    return rt_return(error);
}

/* The nearest size that a heap may have. */
static cudaError_t choose_heap(const struct rt_device *device, size_t *size)
{
    *size = RT_MIN(RT_MAX(*size, (size_t)SMALLEST_HEAP), (size_t)LARGEST_HEAP);
    return *size <= device->info.memory_bytes
               ? cudaSuccess
               : rt_explain(cudaErrorMemoryAllocation,
                            "a heap of %zu bytes for kernels; this VM has %llu bytes of memory", *size,
                            (unsigned long long)device->info.memory_bytes);
}

/* The heap of malloc() in kernels is part of a program's image: its size counts for programs that are loaded later. The
 * others are kept, and told again: the device gives kernels what they need. */
RT_API cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    struct rt_device *device;
    if ((unsigned)limit >= NUM_LIMITS)
        return rt_return(cudaErrorUnsupportedLimit);
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess && limit == cudaLimitMallocHeapSize)
        error = choose_heap(device, &value);
    if (error == cudaSuccess)
        device->limits[limit] = value;
    return rt_return(error);
}

RT_API cudaError_t cudaThreadGetLimit(size_t *value, enum cudaLimit limit)
{
    return cudaDeviceGetLimit(value, limit);
}

RT_API cudaError_t cudaThreadSetLimit(enum cudaLimit limit, size_t value)
{
    return cudaDeviceSetLimit(limit, value);
}

RT_API cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    struct rt_device *device = rt_device_at(rt_ordinal());
    if ((flags & ~(unsigned)cudaDeviceMask) != 0 || (flags & cudaDeviceScheduleMask) == 3)
        return rt_return(rt_explain(cudaErrorInvalidValue, "device flags %#x", flags));
    if (device == NULL)
        return rt_return(cudaErrorNoDevice);
    device->flags = flags;
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
    const struct rt_device *device = rt_device_at(rt_ordinal());
    if (flags == NULL)
        return rt_return(cudaErrorInvalidValue);
    if (device == NULL)
        return rt_return(cudaErrorNoDevice);
    *flags = device->flags | cudaDeviceMapHost;
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaSetValidDevices(int *devices, int count)
{
    if (count < 0 || count > rt_device_count() || (count > 0 && devices == NULL))
        return rt_return(cudaErrorInvalidValue);
    for (int i = 0; i < count; i++)
        if (rt_device_at(devices[i]) == NULL)
            return rt_return(cudaErrorInvalidDevice);
    return rt_return(cudaSuccess);
}

/* ---- hints that change nothing ---------------------------------------------------------------- */

static cudaError_t take_hint(bool is_valid)
{
    struct rt_device *device;
    return rt_return(is_valid ? rt_current(&device) : cudaErrorInvalidValue);
}

RT_API cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config)
{
    return take_hint((unsigned)config <= cudaFuncCachePreferEqual);
}

RT_API cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *config)
{
    if (config != NULL)
        *config = cudaFuncCachePreferNone;
    return take_hint(config != NULL);
}

RT_API cudaError_t cudaThreadSetCacheConfig(enum cudaFuncCache config)
{
    return cudaDeviceSetCacheConfig(config);
}

RT_API cudaError_t cudaThreadGetCacheConfig(enum cudaFuncCache *config)
{
    return cudaDeviceGetCacheConfig(config);
}

RT_API cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config)
{
    return take_hint((unsigned)config <= cudaSharedMemBankSizeEightByte);
}

RT_API cudaError_t cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *config)
{
    if (config != NULL)
        *config = cudaSharedMemBankSizeFourByte;
    return take_hint(config != NULL);
}

RT_API cudaError_t cudaCtxResetPersistingL2Cache(void)
{
    return take_hint(true);
}

/* The control system on the host records all work, without being told when. */
RT_API cudaError_t cudaProfilerStart(void)
{
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaProfilerStop(void)
{
    return rt_return(cudaSuccess);
}
