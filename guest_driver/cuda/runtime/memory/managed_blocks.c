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

/* All of the host's. */
static struct rt_block *new_block(struct rt_device *device, size_t size, void *begin)
{
    size_t granule = rt_managed_granule(size);
    size_t num_granules = (size + granule - 1) / granule;
    struct rt_block *block = calloc(1, sizeof(*block) + num_granules);
    if (block == NULL)
        return NULL;
    block->device = device;
    block->contexts = device->contexts;
    block->begin = begin;
    block->size = size;
    block->fd = -1;
    block->granule = granule;
    block->num_granules = num_granules;
    block->count[RT_ON_HOST] = num_granules;
    return block;
}

static cudaError_t make_block(struct rt_device *device, size_t size, struct rt_block **out)
{
    struct rt_range taken;
    uint64_t begin = 0;
    cudaError_t error = allocate_pages(device, size, &taken, &begin);
    if (error != cudaSuccess)
        return error;
    struct rt_block *block = new_block(device, size, (void *)(uintptr_t)begin);
    error = cudaErrorMemoryAllocation;
    if (block != NULL) {
        block->allocation = taken.begin;
        block->allocation_size = taken.size;
        block->is_fresh = true;
        error = rt_block_map(block);
    }
    if (error != cudaSuccess) {
        if (block != NULL)
            rt_block_free(block);
        (void)rt_free(&taken);
        return error;
    }
    *out = block;
    return cudaSuccess;
}

/* A block of the process's own memory; `error` if that cannot be. */
static cudaError_t make_spare_block(struct rt_device *device, size_t size, cudaError_t error, struct rt_block **out)
{
    void *memory = error == cudaErrorMemoryAllocation ? rt_spare_map(size) : NULL;
    if (memory == NULL)
        return error;
    *out = new_block(device, size, memory);
    if (*out == NULL) {
        rt_spare_unmap(memory, size);
        return error;
    }
    (*out)->is_spare = true;
    return cudaSuccess;
}

cudaError_t rt_block_end(struct rt_block *block, bool is_lost)
{
    const struct rt_range taken = {.begin = block->allocation,
                                   .size = block->allocation_size,
                                   .kind = RT_DEVICE_MEMORY,
                                   .device = block->device,
                                   .is_reserved = true};
    cudaError_t error = cudaSuccess;
    bool is_spare = block->is_spare;
    bool is_of_variables = !is_spare && block->spans != NULL;
    if (is_spare)
        rt_spare_unmap(block->begin, block->size);
    if (is_of_variables) /* all of its pages, in which other variables lie, too */
        (void)munmap(block->begin, block->size);
    rt_block_free(block);
    if (is_of_variables)
        return cudaSuccess;
    if ((is_spare || is_lost) && taken.size > 0)
        rt_release(taken.begin, taken.size);
    else if (!is_spare)
        error = rt_free(&taken);
    return error;
}

static cudaError_t allocate(struct rt_device *device, size_t size, unsigned flags, bool is_host, void **pointer)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t whole = (size + page - 1) & ~(page - 1);
    struct rt_block *block;
    if (whole < size)
        return rt_explain(cudaErrorMemoryAllocation, "%zu bytes of managed memory", size);
    cudaError_t error = make_block(device, whole, &block);
    if (error != cudaSuccess)
        error = make_spare_block(device, whole, error, &block);
    if (error != cudaSuccess)
        return error;
    struct rt_range range = {.begin = (uint64_t)(uintptr_t)block->begin,
                             .size = size,
                             .kind = RT_MANAGED_MEMORY,
                             .device = device,
                             .flags = flags,
                             .is_spare = block->is_spare,
                             .owner = block};
    error = rt_add_range(&range);
    if (error != cudaSuccess) {
        (void)rt_block_end(block, false);
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
    rt_managed_remove(range->owner);
    return rt_block_end(range->owner, false);
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
        (void)rt_block_end(block, true);
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
