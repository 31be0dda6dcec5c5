/* Memory pools as programs see them: made, chosen, asked, trimmed. */
#include <string.h>

#include "pools.h"

/* ---- making pools --------------------------------------------------------------------------- */

static cudaError_t check_properties(const struct cudaMemPoolProps *properties, struct rt_device **device)
{
    if (properties->allocType != cudaMemAllocationTypePinned || properties->location.type != cudaMemLocationTypeDevice)
        return rt_explain(cudaErrorInvalidValue, "cudaMemPoolCreate(): only pinned memory of a device");
    if (properties->handleTypes != cudaMemHandleTypeNone)
        return rt_unsupported("memory pools that other processes may import");
    return rt_device(properties->location.id, device);
}

RT_API cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties)
{
    struct rt_device *device;
    if (pool == NULL || properties == NULL)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = check_properties(properties, &device);
    if (error != cudaSuccess)
        return rt_return(error);
    rt_pools_lock();
    *pool = rt_pool_create(device);
    if (*pool != NULL)
        (*pool)->max_size = properties->maxSize;
    rt_pools_unlock();
    return rt_return(*pool != NULL ? cudaSuccess : cudaErrorMemoryAllocation);
}

/* Its free memory goes back after the next synchronisation, used memory when it is freed. */
RT_API cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    cudaError_t error = rt_pool_check(pool);
    if (error == cudaSuccess && pool->is_default)
        error = rt_explain(cudaErrorInvalidValue, "the default pool cannot be destroyed");
    if (error != cudaSuccess)
        return rt_return(error);
    rt_pools_lock();
    rt_pool_set_current(pool, false);
    pool->is_ended = true;
    rt_pool_trim(pool, 0);
    rt_pool_end_if_empty(pool);
    rt_pools_unlock();
    return rt_return(cudaSuccess);
}

static cudaError_t pool_of_device(cudaMemPool_t *pool, int ordinal, bool current)
{
    struct rt_device *device;
    if (pool == NULL)
        return cudaErrorInvalidValue;
    cudaError_t error = rt_device(ordinal, &device);
    if (error != cudaSuccess)
        return error;
    rt_pools_lock();
    *pool = current ? rt_pool_current(device) : rt_pool_default(device);
    rt_pools_unlock();
    return *pool != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

RT_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    return rt_return(pool_of_device(pool, device, false));
}

RT_API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
    return rt_return(pool_of_device(pool, device, true));
}

RT_API cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
    cudaError_t error = rt_pool_check(pool);
    if (error == cudaSuccess && pool->device->ordinal != device)
        error = rt_explain(cudaErrorInvalidValue, "the pool is device %d's", pool->device->ordinal);
    if (error == cudaSuccess) {
        rt_pools_lock();
        rt_pool_set_current(pool, true);
        rt_pools_unlock();
    }
    return rt_return(error);
}

RT_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
    cudaError_t error = rt_pool_check(pool);
    if (error == cudaSuccess)
        error = rt_synchronize(pool->device);
    if (error == cudaSuccess) {
        rt_pools_lock();
        rt_pool_trim(pool, keep);
        rt_pools_unlock();
    }
    return rt_return(error);
}

/* ---- attributes ----------------------------------------------------------------------------- */

static uint64_t *counter(cudaMemPool_t pool, enum cudaMemPoolAttr attribute)
{
    switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
        return &pool->threshold;
    case cudaMemPoolAttrReservedMemCurrent:
        return &pool->reserved;
    case cudaMemPoolAttrReservedMemHigh:
        return &pool->reserved_high;
    case cudaMemPoolAttrUsedMemCurrent:
        return &pool->used;
    case cudaMemPoolAttrUsedMemHigh:
        return &pool->used_high;
    default:
        return NULL;
    }
}

static int *reuse(cudaMemPool_t pool, enum cudaMemPoolAttr attribute)
{
    bool is_reuse =
        attribute >= cudaMemPoolReuseFollowEventDependencies && attribute <= cudaMemPoolReuseAllowInternalDependencies;
    return is_reuse ? &pool->reuse[attribute - cudaMemPoolReuseFollowEventDependencies] : NULL;
}

/* High-water marks can only be set to 0: they begin again with what there is now. */
static cudaError_t set_counter(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, uint64_t value)
{
    switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
        pool->threshold = value;
        return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
        pool->reserved_high = pool->reserved;
        return value == 0 ? cudaSuccess : cudaErrorInvalidValue;
    case cudaMemPoolAttrUsedMemHigh:
        pool->used_high = pool->used;
        return value == 0 ? cudaSuccess : cudaErrorInvalidValue;
    default:
        return rt_explain(cudaErrorInvalidValue, "attribute %d of memory pools cannot be set", (int)attribute);
    }
}

RT_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    cudaError_t error = rt_pool_check(pool);
    if (error == cudaSuccess && value == NULL)
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return rt_return(error);
    rt_pools_lock();
    if (reuse(pool, attribute) != NULL)
        *reuse(pool, attribute) = *(const int *)value;
    else
        error = set_counter(pool, attribute, *(const uint64_t *)value);
    rt_pools_unlock();
    return rt_return(error);
}

RT_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    cudaError_t error = rt_pool_check(pool);
    if (error == cudaSuccess && value == NULL)
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return rt_return(error);
    rt_pools_lock();
    if (reuse(pool, attribute) != NULL)
        *(int *)value = *reuse(pool, attribute);
    else if (counter(pool, attribute) != NULL)
        *(uint64_t *)value = *counter(pool, attribute);
    else
        error = rt_explain(cudaErrorInvalidValue, "memory pools have no attribute %d", (int)attribute);
    rt_pools_unlock();
    return rt_return(error);
}

/* ---- access --------------------------------------------------------------------------------- */

RT_API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t count)
{
    cudaError_t error = rt_pool_check(pool);
    if (error == cudaSuccess && list == NULL && count > 0)
        error = cudaErrorInvalidValue;
    for (size_t i = 0; i < count && error == cudaSuccess; i++) {
        bool is_own =
            list[i].location.type == cudaMemLocationTypeDevice && list[i].location.id == pool->device->ordinal;
        if (is_own && list[i].flags != cudaMemAccessFlagsProtReadWrite)
            error = rt_explain(cudaErrorInvalidValue, "a pool's own device always reads and writes its memory");
        else if (!is_own && list[i].flags != cudaMemAccessFlagsProtNone)
            error = rt_unsupported("memory pools that other devices access");
    }
    return rt_return(error);
}

RT_API cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t pool,
                                        struct cudaMemLocation *location)
{
    cudaError_t error = rt_pool_check(pool);
    if (error == cudaSuccess && (flags == NULL || location == NULL || location->type != cudaMemLocationTypeDevice ||
                                 rt_device_at(location->id) == NULL))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *flags = location->id == pool->device->ordinal ? cudaMemAccessFlagsProtReadWrite : cudaMemAccessFlagsProtNone;
    return rt_return(error);
}

/* ---- other processes ------------------------------------------------------------------------ */

RT_API cudaError_t cudaMemPoolExportToShareableHandle(void *handle, cudaMemPool_t pool,
                                                      enum cudaMemAllocationHandleType type, unsigned int flags)
{
    (void)handle, (void)pool, (void)type, (void)flags;
    return rt_return(rt_unsupported("cudaMemPoolExportToShareableHandle()"));
}

RT_API cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *pool, void *handle,
                                                        enum cudaMemAllocationHandleType type, unsigned int flags)
{
    (void)handle, (void)pool, (void)type, (void)flags;
    return rt_return(rt_unsupported("cudaMemPoolImportFromShareableHandle()"));
}

RT_API cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *data, void *memory)
{
    (void)data, (void)memory;
    return rt_return(rt_unsupported("cudaMemPoolExportPointer()"));
}

RT_API cudaError_t cudaMemPoolImportPointer(void **memory, cudaMemPool_t pool, struct cudaMemPoolPtrExportData *data)
{
    (void)memory, (void)pool, (void)data;
    return rt_return(rt_unsupported("cudaMemPoolImportPointer()"));
}
