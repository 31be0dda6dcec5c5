/* Managed memory, made and given back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "managed.h"

/* ---- a block -------------------------------------------------------------------------------- */

/* The process's side: a file's pages, mapped for the program in place of the reservation, and once more. A child of
 * fork() gets neither: it could not use the device. */
cudaError_t rt_block_map(struct rt_block *block)
{
    const int both = PROT_READ | PROT_WRITE;
    block->fd = memfd_create("vgc-managed", MFD_CLOEXEC);
    block->alias = MAP_FAILED;
    if (block->fd >= 0 && ftruncate(block->fd, (off_t)block->size) == 0)
        block->alias = mmap(NULL, block->size, both, MAP_SHARED, block->fd, 0);
    if (block->alias == MAP_FAILED || mmap(block->begin, block->size, block->is_adopted ? PROT_NONE : both,
                                           MAP_SHARED | MAP_FIXED, block->fd, 0) == MAP_FAILED)
        return rt_explain(cudaErrorMemoryAllocation, "%zu bytes of managed memory: %s", block->size, strerror(errno));
    (void)madvise(block->begin, block->size, MADV_DONTFORK);
    (void)madvise(block->alias, block->size, MADV_DONTFORK);
    return cudaSuccess;
}

void rt_block_free(struct rt_block *block)
{
    if (block->alias != MAP_FAILED && block->alias != NULL)
        (void)munmap(block->alias, block->size);
    if (block->fd >= 0)
        (void)close(block->fd);
    free(block->advice);
    free(block->spans);
    free(block);
}

/* Device memory in whole pages, whose addresses are this process's, too. */
static cudaError_t allocate_pages(struct rt_device *device, size_t size, struct rt_range *range, uint64_t *begin)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t slack = 0; slack <= page; slack += page) {
        void *memory;
        cudaError_t error = rt_allocate(device, size + slack, &memory);
        if (error != cudaSuccess)
            return error;
        (void)rt_remove_range((uint64_t)(uintptr_t)memory, range);
        *begin = (range->begin + page - 1) & ~(uint64_t)(page - 1);
        if (range->is_reserved && *begin + size <= range->begin + range->size)
            return cudaSuccess;
        (void)rt_free(range);
    }
    return rt_explain(cudaErrorMemoryAllocation, "no addresses that are free on both sides for %zu bytes", size);
}

static struct rt_block *new_block(struct rt_device *device, size_t size, const struct rt_range *range, uint64_t begin)
{
    size_t granule = rt_managed_granule(size);
    size_t num_granules = (size + granule - 1) / granule;
    struct rt_block *block = calloc(1, sizeof(*block) + num_granules);
    if (block == NULL)
        return NULL;
    block->device = device;
    block->epoch = device->epoch;
    block->allocation = range->begin;
    block->allocation_size = range->size;
    block->begin = (uint8_t *)(uintptr_t)begin;
    block->size = size;
    block->is_fresh = true;
    block->granule = granule;
    block->num_granules = num_granules;
    block->count[RT_ON_HOST] = num_granules;
    return block;
}

static cudaError_t allocate(struct rt_device *device, size_t size, unsigned flags, bool is_host, void **pointer)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t whole = (size + page - 1) & ~(page - 1);
    struct rt_range taken;
    uint64_t begin = 0;
    if (whole < size)
        return rt_explain(cudaErrorMemoryAllocation, "%zu bytes of managed memory", size);
    cudaError_t error = allocate_pages(device, whole, &taken, &begin);
    if (error != cudaSuccess)
        return error;
    struct rt_block *block = new_block(device, whole, &taken, begin);
    error = block != NULL ? rt_block_map(block) : cudaErrorMemoryAllocation;
    struct rt_range range = {
        .begin = begin, .size = size, .kind = RT_MANAGED_MEMORY, .device = device, .flags = flags, .owner = block};
    if (error == cudaSuccess)
        error = rt_add_range(&range);
    if (error != cudaSuccess) {
        if (block != NULL)
            rt_block_free(block);
        (void)rt_free(&taken);
        return error;
    }
    block->is_host = is_host;
    rt_managed_add(block);
    *pointer = block->begin;
    return cudaSuccess;
}

cudaError_t rt_managed_allocate(struct rt_device *device, size_t size, unsigned flags, void **pointer)
{
    return allocate(device, size, flags, false, pointer);
}

cudaError_t rt_managed_allocate_host(struct rt_device *device, size_t size, unsigned flags, void **pointer)
{
    return allocate(device, size, flags, true, pointer);
}

bool rt_managed_is_variable(const struct rt_range *range)
{
    return range->kind == RT_MANAGED_MEMORY && ((const struct rt_block *)range->owner)->spans != NULL;
}

cudaError_t rt_managed_free(const struct rt_range *range)
{
    struct rt_block *block = range->owner;
    struct rt_range taken = {.begin = block->allocation,
                             .size = block->allocation_size,
                             .kind = RT_DEVICE_MEMORY,
                             .device = block->device,
                             .is_reserved = true};
    rt_managed_remove(block);
    rt_block_free(block);
    return rt_free(&taken);
}

/* The device's side is gone already. */
void rt_managed_forget(struct rt_device *device)
{
    rt_adopted_forget(device);
    for (;;) {
        rt_managed_lock();
        struct rt_block *block = rt_managed_first(device);
        rt_managed_unlock();
        if (block == NULL)
            return;
        struct rt_range range;
        (void)rt_remove_range((uint64_t)(uintptr_t)block->begin, &range);
        rt_managed_remove(block);
        rt_release(block->allocation, block->allocation_size);
        rt_block_free(block);
    }
}

/* ---- the API -------------------------------------------------------------------------------- */

RT_API cudaError_t cudaMallocManaged(void **memory, size_t bytes, unsigned int flags)
{
    struct rt_device *device;
    if (memory == NULL || bytes == 0 || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
        return rt_return(rt_explain(cudaErrorInvalidValue,
                                    "cudaMallocManaged(%zu bytes, flags %u); allowed: at least 1 byte, "
                                    "cudaMemAttachGlobal or cudaMemAttachHost",
                                    bytes, flags));
    *memory = NULL;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess)
        error = rt_check_unsafe();
    return rt_return(error == cudaSuccess ? rt_managed_allocate(device, bytes, flags, memory) : error);
}

/* Which streams' work may keep the host from the memory: here, all work does, and the host waits when it looks. */
RT_API cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *memory, size_t length, unsigned int flags)
{
    struct rt_device *device;
    struct CUstream_st *checked;
    struct rt_range range;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess)
        error = rt_check_stream(device, stream, &checked);
    if (error != cudaSuccess)
        return rt_return(error);
    if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost && flags != cudaMemAttachSingle)
        return rt_return(rt_explain(cudaErrorInvalidValue, "cudaStreamAttachMemAsync() with flags %u", flags));
    if (!rt_find_range(memory, &range) || range.kind != RT_MANAGED_MEMORY ||
        range.begin != (uint64_t)(uintptr_t)memory || (length != 0 && length != range.size))
        return rt_return(
            rt_explain(cudaErrorInvalidValue, "cudaStreamAttachMemAsync(%p): not all of one managed memory", memory));
    return rt_return(flags == cudaMemAttachSingle && checked == NULL ? cudaErrorInvalidValue : cudaSuccess);
}
