/* Going on when the host has replaced the VM's worker, with VGC_FALLBACK=cpu.
 *
 * What was in the device's memory is lost. A program goes on only if that is nothing: all work that it had sent was
 * done, and all its data are also in this process, because it has managed memory that the host has used last,
 * allocations that CPU versions of kernels have used last (adopted.c), or memory beyond the allotment (spare.c). All
 * these become the process's own, for CPU versions of kernels; the device has a new context, which is empty. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "managed.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* before managed memory's */

/* ---- what is lost ------------------------------------------------------------------------------- */

struct search {
    struct rt_device *device;
    struct rt_range lost; /* size 0: nothing */
};

static bool is_on_host(const struct rt_block *block, uint64_t begin, uint64_t size)
{
    size_t offset = (size_t)(begin - (uint64_t)(uintptr_t)block->begin);
    for (size_t i = offset / block->granule; i * block->granule < offset + size; i++)
        if (block->sides[i] == RT_ON_DEVICE)
            return false;
    return true;
}

/* Are the range's data in this process? */
static bool is_here(struct rt_range *range, void *data)
{
    struct search *search = data;
    if (range->device != search->device || range->kind == RT_HOST_MEMORY || range->is_spare)
        return true;
    const struct rt_block *block = rt_managed_block((const void *)(uintptr_t)range->begin);
    if (block != NULL && is_on_host(block, range->begin, range->size))
        return true;
    search->lost = *range;
    return false;
}

/* Describes what is lost; NULL: nothing. */
static const char *loss_of(struct rt_device *device, char *room, size_t size)
{
    struct search search = {.device = device};
    struct vgc_device *opened = atomic_load(&device->device);
    const char *object = atomic_load(&device->only_there);
    if (vgc_detached_failure(opened) != VGC_OK || atomic_load(&device->has_lost_work) ||
        atomic_load(&device->late) != cudaSuccess)
        return "results of its work";
    if (vgc_output_waits(opened))
        return "what its kernels had printed";
    if (object != NULL)
        return object;
    if (rt_visit_ranges(is_here, &search))
        return NULL;
    (void)snprintf(room, size, "%llu bytes of memory at %p", (unsigned long long)search.lost.size,
                   (void *)(uintptr_t)search.lost.begin);
    return room;
}

/* ---- keeping what is here ----------------------------------------------------------------------- */

struct keeping {
    struct rt_device *device;
    bool failed;
};

/* Makes the range the process's own. Several ranges may share a block. */
static bool keep(struct rt_range *range, void *data)
{
    struct keeping *keeping = data;
    if (range->device != keeping->device || range->kind == RT_HOST_MEMORY || range->is_spare)
        return true;
    struct rt_block *block = rt_managed_block((const void *)(uintptr_t)range->begin);
    if (!block->is_spare) {
        keeping->failed = !rt_managed_keep(block);
        if (keeping->failed)
            return false;
        rt_spare_note();
        block->num_kept = 0;
    }
    block->num_kept++;
    range->is_spare = true;
    range->is_kept = range->kind == RT_DEVICE_MEMORY;
    return true;
}

static bool keep_all(struct rt_device *device)
{
    struct keeping keeping = {.device = device};
    (void)rt_visit_ranges(keep, &keeping);
    if (!keeping.failed)
        rt_adopted_keep(device);
    return !keeping.failed;
}

void rt_free_kept(const struct rt_range *range)
{
    rt_managed_lock();
    struct rt_block *block = rt_managed_block((const void *)(uintptr_t)range->begin);
    bool is_last = block != NULL && --block->num_kept == 0;
    if (is_last)
        rt_managed_remove(block);
    rt_managed_unlock();
    if (is_last)
        (void)rt_block_end(block, true);
}

/* ---- going on ----------------------------------------------------------------------------------- */

/* With both locks. */
static bool go_on(struct rt_device *device)
{
    char room[64];
    struct vgc_device *opened = atomic_load(&device->device);
    const char *loss = loss_of(device, room, sizeof(room));
    if (loss != NULL) {
        (void)fprintf(stderr, "virtio-gpu-compute: the device was lost, and with it %s: the program cannot go on\n",
                      loss);
        return false;
    }
    if (vgc_reset(opened) != VGC_OK || !keep_all(device))
        return false;
    rt_programs_forget(device);
    (void)atomic_fetch_add(&device->contexts, 1);
    rt_streams_renew(device);
    (void)vgc_info(opened, &device->info);
    (void)fprintf(stderr,
                  "virtio-gpu-compute: the device was lost, and nothing that the program needs: kernels go on in "
                  "their CPU versions\n");
    return true;
}

bool rt_go_on(struct rt_device *device, uint32_t contexts)
{
    if (!rt_falls_back() || rt_is_called_back || rt_is_forked || atomic_load(&device->device) == NULL)
        return false;
    (void)pthread_mutex_lock(&lock);
    bool goes_on = !atomic_load(&device->has_told_loss);
    if (goes_on && device->contexts == contexts && vgc_nop(atomic_load(&device->device), 0, NULL) != VGC_OK) {
        rt_managed_lock();
        goes_on = go_on(device);
        rt_managed_unlock();
        atomic_store(&device->has_told_loss, !goes_on);
    }
    if (goes_on && atomic_load(&device->sticky) == cudaErrorDevicesUnavailable) /* of the context before */
        atomic_store(&device->sticky, cudaSuccess);
    (void)pthread_mutex_unlock(&lock);
    return goes_on;
}
