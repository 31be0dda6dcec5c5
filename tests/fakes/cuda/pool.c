/* Memory pools; allocations and frees in stream order. */
#include <stdlib.h>

#include "fake.h"

struct fake_pool *fake_pool_new(int device, uint64_t max_bytes)
{
    struct fake_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        abort();
    *pool = (struct fake_pool){.device = device, .max_bytes = max_bytes, .reuse = {1, 1, 1}};
    pool->handle = fake_handle_new(FAKE_POOL, pool);
    return pool;
}

FAKE_API CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    FAKE_CALL(FAKE_INIT);
    if (!result && (props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED || props->handleTypes ||
                    props->location.type != CU_MEM_LOCATION_TYPE_DEVICE || props->win32SecurityAttributes))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && (props->location.id < 0 || props->location.id >= fake.settings.num_devices))
        result = CUDA_ERROR_INVALID_DEVICE;
    for (size_t i = 0; !result && i < sizeof props->reserved; i++)
        if (props->reserved[i])
            result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pool = fake_pool_new(props->location.id, props->maxSize)->handle;
    FAKE_LEAVE("max=%zu", props->maxSize);
}

FAKE_API CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
    FAKE_CALL(FAKE_INIT);
    struct fake_pool *pool = result ? NULL : fake_handle_get(handle, FAKE_POOL);
    if (!result && !pool)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && pool->used)
        fake_misuse("a memory pool was destroyed with %llu bytes in use", (unsigned long long)pool->used);
    if (!result)
        fake_handle_end(handle); /* the pool itself remains for its allocations */
    FAKE_LEAVE("%p", (void *)handle);
}

static uint64_t *wide_attribute(struct fake_pool *pool, CUmemPool_attribute key)
{
    switch ((int)key) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return &pool->threshold;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return &pool->reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return &pool->reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return &pool->used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return &pool->used_high;
    default:
        return NULL;
    }
}

FAKE_API CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute key, void *value)
{
    FAKE_CALL(FAKE_INIT);
    struct fake_pool *pool = result ? NULL : fake_handle_get(handle, FAKE_POOL);
    if (!result && !pool)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        FAKE_LEAVE("%p, %d", (void *)handle, (int)key);
    if ((int)key >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
        (int)key <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
        pool->reuse[(int)key - 1] = *(int *)value;
    else if ((int)key == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        pool->threshold = *(cuuint64_t *)value;
    else
        result = CUDA_ERROR_INVALID_VALUE;
    FAKE_LEAVE("%p, %d, threshold=%#llx", (void *)handle, (int)key, (unsigned long long)pool->threshold);
}

FAKE_API CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute key, void *value)
{
    FAKE_CALL(FAKE_INIT);
    struct fake_pool *pool = result ? NULL : fake_handle_get(handle, FAKE_POOL);
    if (!result && !pool)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && (int)key >= 1 && (int)key <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
        *(int *)value = pool->reuse[(int)key - 1];
    else if (!result && wide_attribute(pool, key))
        *(cuuint64_t *)value = *wide_attribute(pool, key);
    else if (!result)
        result = CUDA_ERROR_INVALID_VALUE;
    FAKE_LEAVE("%p, %d", (void *)handle, (int)key);
}

FAKE_API CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
    FAKE_CALL(FAKE_INIT);
    struct fake_pool *pool = result ? NULL : fake_handle_get(handle, FAKE_POOL);
    if (!result && !pool)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && pool->reserved > keep)
        pool->reserved = pool->used > keep ? pool->used : keep;
    FAKE_LEAVE("%p, %zu", (void *)handle, keep);
}

FAKE_API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    FAKE_CALL(FAKE_INIT);
    if (!result && (device < 0 || device >= fake.settings.num_devices))
        result = CUDA_ERROR_INVALID_DEVICE;
    if (!result) {
        if (!fake.default_pools[device])
            fake.default_pools[device] = fake_pool_new(device, 0)->handle;
        *pool = fake.default_pools[device];
    }
    FAKE_LEAVE("%d", device);
}

struct pool_op {
    struct fake_op op;
    CUdeviceptr address;
};

static CUresult run_alloc(struct fake_op *op)
{
    pthread_mutex_lock(&fake.lock);
    struct fake_memory *memory = fake_memory_find(((struct pool_op *)op)->address, 1);
    if (memory)
        memory->ready = true;
    pthread_mutex_unlock(&fake.lock);
    return CUDA_SUCCESS;
}

static CUresult run_free(struct fake_op *op)
{
    pthread_mutex_lock(&fake.lock);
    struct fake_memory *memory = fake_memory_find(((struct pool_op *)op)->address, 1);
    if (memory)
        fake_memory_end(memory);
    pthread_mutex_unlock(&fake.lock);
    return CUDA_SUCCESS;
}

static CUresult submit(struct fake_stream *stream, CUresult (*run)(struct fake_op *), CUdeviceptr address)
{
    struct pool_op *op = calloc(1, sizeof *op);
    if (!op)
        abort();
    op->op.run = run;
    op->address = address;
    return fake_submit(stream, &op->op);
}

static CUresult alloc_in_order(CUdeviceptr *address, size_t size, struct fake_pool *pool, CUstream handle,
                               struct fake_context *context)
{
    CUresult result = CUDA_SUCCESS;
    struct fake_stream *stream = fake_stream_get(handle, context, &result);
    if (!stream)
        return result;
    if (pool->device != context->device) {
        fake_misuse("a pool of device %d in a stream of device %d", pool->device, context->device);
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct fake_memory *memory = fake_memory_new(context, size, FAKE_MEM_POOL, pool, &result);
    if (!memory)
        return result;
    memory->ready = false;
    *address = memory->address;
    return submit(stream, run_alloc, memory->address);
}

FAKE_API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t size, CUmemoryPool handle, CUstream stream)
{
    FAKE_CALL(FAKE_CURRENT);
    struct fake_pool *pool = result ? NULL : fake_handle_get(handle, FAKE_POOL);
    if (!result && !pool)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = alloc_in_order(address, size, pool, stream, call.context);
    FAKE_LEAVE("%zu, %p, %p -> %#llx", size, (void *)handle, (void *)stream, result ? 0 : *address);
}

FAKE_API CUresult cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result) {
        int device = call.context->device;
        if (!fake.default_pools[device])
            fake.default_pools[device] = fake_pool_new(device, 0)->handle;
        struct fake_pool *pool = fake_handle_get(fake.default_pools[device], FAKE_POOL);
        result = alloc_in_order(address, size, pool, stream, call.context);
    }
    FAKE_LEAVE("%zu, %p -> %#llx", size, (void *)stream, result ? 0 : *address);
}

FAKE_API CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle)
{
    FAKE_CALL(FAKE_CURRENT);
    struct fake_stream *stream = result ? NULL : fake_stream_get(handle, call.context, &result);
    if (!result && !fake_memory_usable(call.context, address, 1))
        result = CUDA_ERROR_INVALID_VALUE;
    struct fake_memory *memory = result ? NULL : fake_memory_find(address, 1);
    if (memory && (memory->address != address || memory->kind > FAKE_MEM_POOL)) {
        fake_misuse("%#llx is to be freed, but is not the start of an allocation", address);
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (!result) {
        memory->freeing = true;
        result = submit(stream, run_free, address);
    }
    FAKE_LEAVE("%#llx, %p", address, (void *)handle);
}

static void end_pool(void *object, void *unused)
{
    struct fake_pool *pool = object;
    (void)unused;
    fake_handle_end(pool->handle);
    free(pool);
}

void fake_pools_end(void)
{
    fake_handle_each(FAKE_POOL, end_pool, NULL);
    for (int i = 0; i < FAKE_MAX_DEVICES; i++)
        fake.default_pools[i] = NULL;
}
