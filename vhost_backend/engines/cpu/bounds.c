/* Extents of the memory that kernels may access: allocations, images of programs, the guest's region. For checked
 * programs, which look addresses up here; while a program is checked for reads of memory that was never written, also
 * which bytes were. */
#include "cpu_engine.h"

#include <stdlib.h>
#include <string.h>

struct cpu_bound {
    struct cpu_extent extent;
    uint8_t *written; /* a bit for each byte; NULL: all count as written */
    struct cpu_block block;
};

/* Index of the first extent behind the address. Lock held. */
static size_t behind(const struct cpu_bounds *bounds, uint64_t address)
{
    size_t low = 0, high = bounds->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bounds->all[middle].extent.first <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The extent that has the address, or NULL. Lock held. */
static struct cpu_bound *at(struct cpu_bounds *bounds, uint64_t address)
{
    size_t index = behind(bounds, address);
    if (index == 0 || address - bounds->all[index - 1].extent.first >= bounds->all[index - 1].extent.size)
        return NULL;
    return &bounds->all[index - 1];
}

static bool has_room(struct cpu_bounds *bounds)
{
    if (bounds->count < bounds->room)
        return true;
    size_t room = bounds->room == 0 ? 64 : 2 * bounds->room;
    struct cpu_bound *all = realloc(bounds->all, room * sizeof(*all));
    if (all == NULL)
        return false;
    bounds->all = all;
    bounds->room = room;
    return true;
}

/* Adds an extent; false: no memory to note it. Lock held. */
static bool insert(struct cpu_bounds *bounds, const struct cpu_bound *bound, bool is_fresh)
{
    if (!has_room(bounds))
        return false;
    size_t index = behind(bounds, bound->extent.first);
    memmove(&bounds->all[index + 1], &bounds->all[index], (bounds->count - index) * sizeof(*bounds->all));
    bounds->all[index] = *bound;
    if (is_fresh && bounds->trackers != 0) /* without memory, all counts as written */
        bounds->all[index].written = calloc(bound->extent.size / 8 + 1, 1);
    bounds->count++;
    return true;
}

bool cpu_bounds_add(struct cpu_bounds *bounds, uint64_t first, uint64_t size, bool is_fresh)
{
    pthread_mutex_lock(&bounds->lock);
    bool added = insert(bounds, &(struct cpu_bound){.extent = {first, size}}, is_fresh);
    pthread_mutex_unlock(&bounds->lock);
    return added;
}

void cpu_bounds_add_block(struct cpu_bounds *bounds, const struct cpu_block *block)
{
    pthread_mutex_lock(&bounds->lock);
    if (bounds->count < CPU_MAX_BLOCKS)
        (void)insert(bounds, &(struct cpu_bound){.extent = block->extent, .block = *block}, true);
    pthread_mutex_unlock(&bounds->lock);
}

enum cpu_block_state cpu_bounds_free_block(struct cpu_bounds *bounds, uint64_t first,
                                           const struct vgc_cpu_access *freed, struct cpu_block *block)
{
    enum cpu_block_state state = CPU_BLOCK_UNKNOWN;
    pthread_mutex_lock(&bounds->lock);
    struct cpu_bound *bound = at(bounds, first);
    if (bound != NULL && bound->extent.first == first) {
        *block = bound->block;
        state = bound->block.freed == NULL ? CPU_BLOCK_IN_USE : CPU_BLOCK_FREED;
        if (state == CPU_BLOCK_IN_USE)
            bound->block.freed = freed;
    }
    pthread_mutex_unlock(&bounds->lock);
    return state;
}

bool cpu_bounds_find_freed(struct cpu_bounds *bounds, uint64_t address, struct cpu_block *block)
{
    pthread_mutex_lock(&bounds->lock);
    const struct cpu_bound *bound = at(bounds, address);
    bool is_freed = bound != NULL && bound->block.freed != NULL;
    if (is_freed)
        *block = bound->block;
    pthread_mutex_unlock(&bounds->lock);
    return is_freed;
}

bool cpu_bounds_take_block(struct cpu_bounds *bounds, const struct cpu_extent *within, struct cpu_block *block)
{
    pthread_mutex_lock(&bounds->lock);
    size_t end = behind(bounds, within->first + within->size - 1);
    bool is_found = end > behind(bounds, within->first);
    if (is_found) { /* the last one, behind which there is least to move */
        struct cpu_bound *bound = &bounds->all[end - 1];
        *block = bound->block;
        free(bound->written);
        memmove(bound, bound + 1, (bounds->count - end) * sizeof(*bound));
        bounds->count--;
    }
    pthread_mutex_unlock(&bounds->lock);
    return is_found;
}

void cpu_bounds_remove(struct cpu_bounds *bounds, uint64_t first)
{
    pthread_mutex_lock(&bounds->lock);
    struct cpu_bound *bound = at(bounds, first);
    if (bound != NULL) {
        size_t index = (size_t)(bound - bounds->all);
        free(bound->written);
        bounds->count--;
        memmove(bound, bound + 1, (bounds->count - index) * sizeof(*bound));
        atomic_fetch_add(&bounds->generation, 1);
    }
    pthread_mutex_unlock(&bounds->lock);
}

void cpu_bounds_free(struct cpu_bounds *bounds)
{
    for (size_t i = 0; i < bounds->count; i++)
        free(bounds->all[i].written);
    free(bounds->all);
}

bool cpu_bounds_find(struct cpu_bounds *bounds, uint64_t address, struct cpu_extent *extent)
{
    pthread_mutex_lock(&bounds->lock);
    const struct cpu_bound *bound = at(bounds, address);
    if (bound != NULL)
        *extent = bound->extent;
    pthread_mutex_unlock(&bounds->lock);
    return bound != NULL;
}

uint64_t cpu_distance(const struct cpu_extent *extent, uint64_t address)
{
    if (address < extent->first)
        return extent->first - address;
    return address - extent->first < extent->size ? 0 : address - extent->first - extent->size;
}

bool cpu_bounds_nearest(struct cpu_bounds *bounds, uint64_t address, struct cpu_extent *extent)
{
    pthread_mutex_lock(&bounds->lock);
    size_t index = behind(bounds, address), count = bounds->count;
    if (count != 0) {
        const struct cpu_extent *before = &bounds->all[index == 0 ? 0 : index - 1].extent;
        const struct cpu_extent *after = &bounds->all[index == count ? count - 1 : index].extent;
        *extent = cpu_distance(before, address) <= cpu_distance(after, address) ? *before : *after;
    }
    pthread_mutex_unlock(&bounds->lock);
    return count != 0;
}

/* ---- which bytes were written ------------------------------------------------------------------------------- */

void cpu_bounds_track(struct cpu_bounds *bounds, int programs)
{
    pthread_mutex_lock(&bounds->lock);
    bounds->trackers += (uint32_t)programs;
    pthread_mutex_unlock(&bounds->lock);
}

static void mark(struct cpu_bound *bound, uint64_t offset, uint64_t size)
{
    uint64_t end = offset + size;
    for (; offset < end && offset % 8 != 0; offset++)
        bound->written[offset / 8] |= (uint8_t)(1u << offset % 8);
    if (offset + 8 <= end)
        memset(bound->written + offset / 8, 0xff, (end - offset) / 8);
    for (offset += (end - offset) / 8 * 8; offset < end; offset++)
        bound->written[offset / 8] |= (uint8_t)(1u << offset % 8);
}

/* The bytes of the extent from `address` on, at most `size`. */
static uint64_t within(const struct cpu_bound *bound, uint64_t address, uint64_t size)
{
    uint64_t left = bound->extent.size - (address - bound->extent.first);
    return size < left ? size : left;
}

void cpu_bounds_written(struct cpu_bounds *bounds, uint64_t address, uint64_t size)
{
    if (__atomic_load_n(&bounds->trackers, __ATOMIC_RELAXED) == 0)
        return;
    pthread_mutex_lock(&bounds->lock);
    struct cpu_bound *bound = at(bounds, address);
    if (bound != NULL && bound->written != NULL)
        mark(bound, address - bound->extent.first, within(bound, address, size));
    pthread_mutex_unlock(&bounds->lock);
}

void cpu_bounds_all_written(struct cpu_bounds *bounds)
{
    if (__atomic_load_n(&bounds->trackers, __ATOMIC_RELAXED) == 0)
        return;
    pthread_mutex_lock(&bounds->lock);
    for (size_t i = 0; i < bounds->count; i++) {
        free(bounds->all[i].written);
        bounds->all[i].written = NULL;
    }
    pthread_mutex_unlock(&bounds->lock);
}

bool cpu_bounds_is_written(struct cpu_bounds *bounds, uint64_t address, uint64_t size)
{
    bool all = true;
    pthread_mutex_lock(&bounds->lock);
    const struct cpu_bound *bound = at(bounds, address);
    if (bound != NULL && bound->written != NULL) {
        uint64_t offset = address - bound->extent.first, end = offset + within(bound, address, size);
        for (; offset < end && all; offset++)
            all = (bound->written[offset / 8] >> offset % 8 & 1) != 0;
    }
    pthread_mutex_unlock(&bounds->lock);
    return all;
}
