/* This process's part of the region: first fit over chunk runs taken from the shared state. Bookkeeping is
 * private memory, so nothing that the host or another process writes can confuse it. */
#include <stdlib.h>

#include "internal.h"

enum { GROW_BYTES = 1 << 20 };

struct vgc_heap_block { /* sorted by offset; the blocks of one run are adjacent in the list */
    struct vgc_heap_block *next;
    uint64_t offset; /* in the region */
    uint64_t size;
    uint32_t run; /* first chunk of the run it belongs to */
    bool used;
};

static int split(struct vgc_heap_block *block, uint64_t size)
{
    if (block->size == size)
        return VGC_OK;
    struct vgc_heap_block *rest = malloc(sizeof(*rest));
    if (rest == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    *rest = (struct vgc_heap_block){block->next, block->offset + size, block->size - size, block->run, false};
    block->next = rest;
    block->size = size;
    return VGC_OK;
}

static struct vgc_heap_block *first_fit(struct vgc_device *device, uint64_t size)
{
    for (struct vgc_heap_block *block = device->heap; block != NULL; block = block->next)
        if (!block->used && block->size >= size)
            return block;
    return NULL;
}

static int add_run(struct vgc_device *device, uint32_t first, uint32_t chunks)
{
    const struct vgc_layout *layout = &device->layout;
    struct vgc_heap_block *block = malloc(sizeof(*block));
    if (block == NULL) {
        vgc_state_give_chunks(device, first, chunks);
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    }
    *block = (struct vgc_heap_block){NULL, layout->data_offset + first * layout->chunk_bytes,
                                     chunks * layout->chunk_bytes, first, false};
    struct vgc_heap_block **at = &device->heap;
    while (*at != NULL && (*at)->offset < block->offset)
        at = &(*at)->next;
    block->next = *at;
    *at = block;
    return VGC_OK;
}

/* Takes as much as is convenient, or at least what is needed. */
static int grow(struct vgc_device *device, uint64_t size)
{
    uint64_t chunk = device->layout.chunk_bytes;
    uint64_t need = size / chunk + (size % chunk != 0 ? 1 : 0);
    if (need > device->layout.num_chunks)
        return VGC_RESOURCES_EXHAUSTED;
    uint64_t wish = VGC_MAX(need, VGC_MIN(GROW_BYTES / chunk, device->layout.num_chunks / 16));
    uint32_t first;
    for (;;) {
        int result = vgc_state_take_chunks(device, (uint32_t)wish, &first);
        if (result == VGC_OK)
            return add_run(device, first, (uint32_t)wish);
        if (result != VGC_RESOURCES_EXHAUSTED || wish == need)
            return result;
        wish = need;
    }
}

static int alloc_locked(struct vgc_device *device, uint64_t size, uint8_t **pointer)
{
    struct vgc_heap_block *block = first_fit(device, size);
    if (block == NULL) {
        int result = grow(device, size);
        if (result != VGC_OK)
            return result;
        block = first_fit(device, size);
    }
    int result = split(block, size);
    if (result != VGC_OK)
        return result;
    block->used = true;
    *pointer = device->transport->region + block->offset;
    return VGC_OK;
}

int vgc_heap_alloc(struct vgc_device *device, uint64_t size, uint8_t **pointer)
{
    uint64_t rounded = (VGC_MAX(size, 1) + VGC_HEAP_ALIGN - 1) & ~(uint64_t)(VGC_HEAP_ALIGN - 1);
    if (size > device->transport->region_bytes)
        rounded = size; /* cannot be had; avoids the wrap of huge sizes */
    int result =
        vgc_check_process(device); /* a fork would take chunks in the parent's name, and never give them back */
    if (result != VGC_OK)
        return result;
    pthread_mutex_lock(&device->heap_mutex);
    result = alloc_locked(device, rounded, pointer);
    pthread_mutex_unlock(&device->heap_mutex);
    if (result == VGC_RESOURCES_EXHAUSTED)
        return vgc_fail(VGC_RESOURCES_EXHAUSTED,
                        "resources exhausted: no %llu contiguous bytes left in the shared region of %llu MiB",
                        (unsigned long long)size, (unsigned long long)device->transport->region_bytes >> 20);
    return result;
}

static void merge_with_next(struct vgc_heap_block *block)
{
    struct vgc_heap_block *next = block->next;
    if (next == NULL || block->used || next->used || next->run != block->run)
        return;
    block->size += next->size;
    block->next = next->next;
    free(next);
}

/* Gives a run back once all of it is free. */
static void give_back_if_whole(struct vgc_device *device, struct vgc_heap_block **at)
{
    struct vgc_heap_block *block = *at;
    const struct vgc_layout *layout = &device->layout;
    bool starts_run = block->offset == layout->data_offset + block->run * layout->chunk_bytes;
    bool ends_run = block->next == NULL || block->next->run != block->run;
    if (block->used || !starts_run || !ends_run)
        return;
    *at = block->next;
    vgc_state_give_chunks(device, block->run, (uint32_t)(block->size / layout->chunk_bytes));
    free(block);
}

bool vgc_heap_free(struct vgc_device *device, void *pointer)
{
    if (device->process != vgc_process())
        return false; /* the parent's; and a thread of its may have held the lock at the fork */
    pthread_mutex_lock(&device->heap_mutex);
    uint64_t offset = (uint64_t)((uint8_t *)pointer - device->transport->region);
    struct vgc_heap_block **before = NULL;
    struct vgc_heap_block **at = &device->heap;
    while (*at != NULL && (*at)->offset < offset) {
        before = at;
        at = &(*at)->next;
    }
    bool found = *at != NULL && (*at)->offset == offset && (*at)->used;
    if (found) {
        (*at)->used = false;
        merge_with_next(*at);
        if (before != NULL && !(*before)->used && (*before)->run == (*at)->run) {
            merge_with_next(*before);
            at = before;
        }
        give_back_if_whole(device, at);
    }
    pthread_mutex_unlock(&device->heap_mutex);
    return found;
}

void vgc_heap_close(struct vgc_device *device)
{
    while (device->heap != NULL) {
        struct vgc_heap_block *next = device->heap->next;
        free(device->heap);
        device->heap = next;
    }
}
