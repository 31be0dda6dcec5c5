/* Prefetches of managed memory, advice about it, and what is known of both. Advice changes no result; a prefetch moves
 * the data at once. */
#include <stdlib.h>
#include <string.h>

#include "managed.h"

/* ---- ranges --------------------------------------------------------------------------------- */

static cudaError_t check_span(const void *memory, size_t bytes, struct rt_range *range)
{
    uint64_t address = (uint64_t)(uintptr_t)memory;
    if (bytes == 0 || !rt_find_range(memory, range) || range->kind != RT_MANAGED_MEMORY ||
        bytes > range->size - (address - range->begin))
        return rt_explain(cudaErrorInvalidValue, "%zu bytes at %p are not all managed memory", bytes, memory);
    return cudaSuccess;
}

static cudaError_t check_location(int device)
{
    if (device != cudaCpuDeviceId && rt_device_at(device) == NULL)
        return rt_explain(cudaErrorInvalidDevice, "device %d; there are %d, and cudaCpuDeviceId", device,
                          rt_device_count());
    return cudaSuccess;
}

static cudaError_t ordinal_of(struct cudaMemLocation location, int *device)
{
    switch (location.type) {
    case cudaMemLocationTypeDevice:
        *device = location.id;
        return cudaSuccess;
    case cudaMemLocationTypeHost:
    case cudaMemLocationTypeHostNuma:
    case cudaMemLocationTypeHostNumaCurrent:
        *device = cudaCpuDeviceId;
        return cudaSuccess;
    default:
        return rt_explain(cudaErrorInvalidValue, "a memory location of type %d", (int)location.type);
    }
}

/* With the lock. */
static struct rt_advice *advice_of(struct rt_block *block)
{
    if (block->advice != NULL)
        return block->advice;
    block->advice = calloc(block->num_granules, sizeof(*block->advice));
    for (size_t i = 0; block->advice != NULL && i < block->num_granules; i++)
        block->advice[i].preferred = block->advice[i].prefetched = cudaInvalidDeviceId;
    return block->advice;
}

static void granules(const struct rt_block *block, const void *memory, size_t bytes, size_t *first, size_t *end)
{
    size_t offset = (size_t)((const uint8_t *)memory - block->begin);
    *first = offset / block->granule;
    *end = (offset + bytes + block->granule - 1) / block->granule;
}

/* ---- prefetches ----------------------------------------------------------------------------- */

static void note_prefetch(struct rt_block *block, const void *memory, size_t bytes, int location)
{
    size_t first;
    size_t end;
    rt_managed_lock();
    struct rt_advice *advice = advice_of(block);
    granules(block, memory, bytes, &first, &end);
    for (size_t i = first; advice != NULL && i < end; i++)
        advice[i].prefetched = (int16_t)location;
    rt_managed_unlock();
}

static cudaError_t prefetch(const void *memory, size_t bytes, int location, cudaStream_t stream)
{
    struct rt_device *device;
    struct rt_range range;
    uint32_t number;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess)
        error = check_span(memory, bytes, &range);
    if (error == cudaSuccess)
        error = check_location(location);
    if (error == cudaSuccess)
        error = rt_enter_stream(device, stream, &number);
    if (error != cudaSuccess)
        return error;
    bool to_own_device = location == range.device->ordinal;
    if (to_own_device || location == cudaCpuDeviceId)
        error = rt_managed_prefetch(range.device, memory, bytes, to_own_device, number);
    note_prefetch(range.owner, memory, bytes, location);
    return error;
}

RT_API cudaError_t cudaMemPrefetchAsync(const void *memory, size_t bytes, int device, cudaStream_t stream)
{
    return rt_return(prefetch(memory, bytes, device, stream));
}

RT_API cudaError_t cudaMemPrefetchAsync_v2(const void *memory, size_t bytes, struct cudaMemLocation location,
                                           unsigned int flags, cudaStream_t stream)
{
    int device = cudaCpuDeviceId;
    cudaError_t error = flags == 0 ? ordinal_of(location, &device) : cudaErrorInvalidValue;
    return rt_return(error == cudaSuccess ? prefetch(memory, bytes, device, stream) : error);
}

/* ---- advice --------------------------------------------------------------------------------- */

static void follow(struct rt_advice *advice, enum cudaMemoryAdvise what, int device)
{
    bool sets = what == cudaMemAdviseSetAccessedBy;
    switch (what) {
    case cudaMemAdviseSetReadMostly:
    case cudaMemAdviseUnsetReadMostly:
        advice->is_read_mostly = what == cudaMemAdviseSetReadMostly;
        break;
    case cudaMemAdviseSetPreferredLocation:
        advice->preferred = (int16_t)device;
        break;
    case cudaMemAdviseUnsetPreferredLocation:
        advice->preferred = cudaInvalidDeviceId;
        break;
    case cudaMemAdviseSetAccessedBy:
    case cudaMemAdviseUnsetAccessedBy:
        if (device == cudaCpuDeviceId)
            advice->host_accesses = sets;
        else if (sets)
            advice->accessed_by |= 1u << device;
        else
            advice->accessed_by &= ~(1u << device);
        break;
    }
}

static cudaError_t advise(const void *memory, size_t bytes, enum cudaMemoryAdvise what, int device)
{
    struct rt_device *current;
    struct rt_range range;
    bool has_location = what >= cudaMemAdviseSetPreferredLocation && what != cudaMemAdviseUnsetPreferredLocation;
    cudaError_t error = rt_current(&current);
    if (error == cudaSuccess)
        error = check_span(memory, bytes, &range);
    if (error == cudaSuccess && (what < cudaMemAdviseSetReadMostly || what > cudaMemAdviseUnsetAccessedBy))
        error = rt_explain(cudaErrorInvalidValue, "advice %d", (int)what);
    if (error == cudaSuccess && has_location)
        error = check_location(device);
    if (error != cudaSuccess)
        return error;
    size_t first;
    size_t end;
    rt_managed_lock();
    struct rt_advice *advice = advice_of(range.owner);
    granules(range.owner, memory, bytes, &first, &end);
    for (size_t i = first; advice != NULL && i < end; i++)
        follow(&advice[i], what, device);
    rt_managed_unlock();
    return advice != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

RT_API cudaError_t cudaMemAdvise(const void *memory, size_t bytes, enum cudaMemoryAdvise advice, int device)
{
    return rt_return(advise(memory, bytes, advice, device));
}

RT_API cudaError_t cudaMemAdvise_v2(const void *memory, size_t bytes, enum cudaMemoryAdvise advice,
                                    struct cudaMemLocation location)
{
    int device = cudaCpuDeviceId;
    bool ignored = advice == cudaMemAdviseSetReadMostly || advice == cudaMemAdviseUnsetReadMostly ||
                   advice == cudaMemAdviseUnsetPreferredLocation;
    cudaError_t error = ignored ? cudaSuccess : ordinal_of(location, &device);
    return rt_return(error == cudaSuccess ? advise(memory, bytes, advice, device) : error);
}

/* ---- questions ------------------------------------------------------------------------------ */

/* One device, if it is that of all granules. */
static int common_location(const struct rt_advice *advice, size_t count, bool prefetched)
{
    int location = prefetched ? advice[0].prefetched : advice[0].preferred;
    for (size_t i = 1; i < count; i++)
        if ((prefetched ? advice[i].prefetched : advice[i].preferred) != location)
            return cudaInvalidDeviceId;
    return location;
}

/* Devices that are to access all granules, then cudaInvalidDeviceId. */
static void list_accesses(const struct rt_advice *advice, size_t count, int *list, size_t room)
{
    uint32_t devices = advice[0].accessed_by;
    bool host = advice[0].host_accesses;
    size_t at = 0;
    for (size_t i = 1; i < count; i++) {
        devices &= advice[i].accessed_by;
        host = host && advice[i].host_accesses;
    }
    if (host && at < room)
        list[at++] = cudaCpuDeviceId;
    for (int device = 0; device < RT_MAX_DEVICES; device++)
        if ((devices & (1u << device)) != 0 && at < room)
            list[at++] = device;
    while (at < room)
        list[at++] = cudaInvalidDeviceId;
}

static cudaError_t answer(const struct rt_advice *advice, size_t count, enum cudaMemRangeAttribute attribute,
                          int *values, size_t size)
{
    bool is_list = attribute == cudaMemRangeAttributeAccessedBy;
    if (values == NULL || size == 0 || size % sizeof(int) != 0 || (!is_list && size != sizeof(int)))
        return rt_explain(cudaErrorInvalidValue, "attribute %d of a range in %zu bytes", (int)attribute, size);
    switch (attribute) {
    case cudaMemRangeAttributeReadMostly:
        values[0] = 1;
        for (size_t i = 0; i < count; i++)
            values[0] &= advice[i].is_read_mostly ? 1 : 0;
        return cudaSuccess;
    case cudaMemRangeAttributePreferredLocation:
        values[0] = common_location(advice, count, false);
        return cudaSuccess;
    case cudaMemRangeAttributeLastPrefetchLocation:
        values[0] = common_location(advice, count, true);
        return cudaSuccess;
    case cudaMemRangeAttributeAccessedBy:
        list_accesses(advice, count, values, size / sizeof(int));
        return cudaSuccess;
    default:
        return rt_explain(cudaErrorInvalidValue, "ranges of managed memory have no attribute %d", (int)attribute);
    }
}

static cudaError_t ask(void *data, size_t size, enum cudaMemRangeAttribute attribute, const void *memory, size_t bytes)
{
    struct rt_device *current;
    struct rt_range range;
    size_t first;
    size_t end;
    cudaError_t error = rt_current(&current);
    if (error == cudaSuccess)
        error = check_span(memory, bytes, &range);
    if (error != cudaSuccess)
        return error;
    rt_managed_lock();
    const struct rt_advice *advice = advice_of(range.owner);
    granules(range.owner, memory, bytes, &first, &end);
    error = advice != NULL ? answer(advice + first, end - first, attribute, data, size) : cudaErrorMemoryAllocation;
    rt_managed_unlock();
    return error;
}

RT_API cudaError_t cudaMemRangeGetAttribute(void *data, size_t size, enum cudaMemRangeAttribute attribute,
                                            const void *memory, size_t bytes)
{
    return rt_return(ask(data, size, attribute, memory, bytes));
}

RT_API cudaError_t cudaMemRangeGetAttributes(void **data, size_t *sizes, enum cudaMemRangeAttribute *attributes,
                                             size_t count, const void *memory, size_t bytes)
{
    cudaError_t error =
        data == NULL || sizes == NULL || attributes == NULL || count == 0 ? cudaErrorInvalidValue : cudaSuccess;
    for (size_t i = 0; i < count && error == cudaSuccess; i++)
        error = ask(data[i], sizes[i], attributes[i], memory, bytes);
    return rt_return(error);
}
