/* Allocations of the device that the host uses, too, for CPU versions of kernels: managed memory for a while.
 *
 * Pages are what can be taken, and small allocations share them: a block holds all allocations that are connected by
 * pages, and moves only their bytes. When memory is allocated or freed, blocks are given up: others may follow. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "managed.h"
#include "runtime.h"

static _Atomic uint32_t num_adopted;

static struct rt_block *new_block(const struct rt_cluster *cluster)
{
    size_t size = cluster->end - cluster->begin;
    size_t granule = rt_managed_granule(size);
    size_t num_granules = (size + granule - 1) / granule;
    struct rt_block *block = calloc(1, sizeof(*block) + num_granules);
    struct rt_span *spans = calloc(cluster->num_ranges, sizeof(*spans));
    if (block == NULL || spans == NULL) {
        free(block);
        free(spans);
        return NULL;
    }
    for (size_t i = 0; i < cluster->num_ranges; i++) {
        spans[i].from = cluster->ranges[i].begin - cluster->begin;
        spans[i].to = spans[i].from + cluster->ranges[i].size;
    }
    block->device = cluster->ranges[0].device;
    block->contexts = block->device->contexts;
    block->begin = (uint8_t *)(uintptr_t)cluster->begin;
    block->size = size;
    block->is_adopted = true;
    block->granule = granule;
    block->num_granules = num_granules;
    block->count[RT_ON_DEVICE] = num_granules;
    block->spans = spans;
    block->num_spans = cluster->num_ranges;
    memset(block->sides, RT_ON_DEVICE, num_granules);
    return block;
}

/* Does any of the allocations belong to other processes, too? They do not ask this one for its bytes. */
static bool is_shared(const struct rt_cluster *cluster)
{
    for (size_t i = 0; i < cluster->num_ranges; i++)
        if (cluster->ranges[i].is_shared)
            return true;
    return false;
}

bool rt_managed_adopt(const void *address)
{
    struct rt_cluster cluster;
    rt_managed_lock();
    bool adopted = rt_managed_block(address) != NULL; /* by another thread, meanwhile */
    if (!adopted && rt_find_cluster(address, &cluster)) {
        struct rt_block *block = is_shared(&cluster) ? NULL : new_block(&cluster);
        adopted = block != NULL && rt_block_map(block) == cudaSuccess;
        if (adopted) {
            rt_managed_busy(block->device); /* with work that was sent before any of it was watched */
            rt_managed_add(block);
            (void)atomic_fetch_add(&num_adopted, 1);
        } else if (block != NULL) {
            rt_block_free(block);
        }
        free(cluster.ranges);
    }
    rt_managed_unlock();
    return adopted;
}

/* With the lock. */
static void give_up(struct rt_block *block)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    rt_managed_remove(block);
    (void)mmap(block->begin, block->size, PROT_NONE, flags, -1, 0);
    (void)atomic_fetch_sub(&num_adopted, 1);
    rt_block_free(block);
}

static struct rt_block *first_adopted(const struct rt_device *device)
{
    struct rt_block *block = rt_managed_first(device);
    while (block != NULL && (!block->is_adopted || block->device != device))
        block = block->next;
    return block;
}

cudaError_t rt_adopted_release(struct rt_device *device)
{
    cudaError_t error = cudaSuccess;
    if (atomic_load_explicit(&num_adopted, memory_order_relaxed) == 0)
        return cudaSuccess;
    rt_managed_lock();
    for (struct rt_block *block = first_adopted(device); block != NULL; block = first_adopted(device)) {
        cudaError_t pushed = rt_managed_push(block);
        error = error != cudaSuccess ? error : pushed;
        if (pushed == cudaErrorDevicesUnavailable)
            break; /* its data are nowhere else: lost.c */
        give_up(block);
    }
    rt_managed_unlock();
    return error;
}

void rt_adopted_keep(struct rt_device *device)
{
    for (struct rt_block *block = first_adopted(device); block != NULL; block = first_adopted(device)) {
        if (!block->is_spare) {
            give_up(block);
            continue;
        }
        block->is_adopted = false;
        (void)atomic_fetch_sub(&num_adopted, 1);
    }
}

void rt_adopted_forget(struct rt_device *device)
{
    rt_managed_lock();
    for (struct rt_block *block = first_adopted(device); block != NULL; block = first_adopted(device))
        give_up(block);
    rt_managed_unlock();
}
