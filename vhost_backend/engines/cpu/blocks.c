/* Blocks of malloc() in checked kernels: their extents, for accesses behind their end and reads of what nothing has
 * written, and the place that asked for each, for those that nobody has freed when the program is unloaded. */
#include "cpu_check.h"
#include "cpu_profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_LEAKS = 32 };

/* Blocks that one place in the source has asked for and nobody has freed. */
struct leak {
    struct cpu_block first;
    uint64_t count;
    uint64_t bytes;
};

/* Takes out the block that was freed first; false: no block is kept. Lock held. */
static bool take_freed(struct cpu_quarantine *quarantine, struct cpu_freed *freed)
{
    uint32_t count = atomic_load(&quarantine->count);
    if (count == 0)
        return false;
    *freed = quarantine->ring[quarantine->first];
    quarantine->first = (quarantine->first + 1) % CPU_FREED_BLOCKS;
    quarantine->bytes -= freed->bytes;
    atomic_store(&quarantine->count, count - 1);
    return true;
}

/* Gives the block that was freed first back to its heap; false: no block is kept, or those that are left take no more
 * than `most` bytes and leave room for `room` more. */
static bool give_back(struct cpu_engine *engine, uint64_t most, uint32_t room)
{
    struct cpu_quarantine *quarantine = &engine->quarantine;
    struct cpu_freed freed;
    pthread_mutex_lock(&quarantine->lock);
    bool is_enough = quarantine->bytes <= most && atomic_load(&quarantine->count) + room <= CPU_FREED_BLOCKS;
    bool is_taken = !is_enough && take_freed(quarantine, &freed);
    pthread_mutex_unlock(&quarantine->lock);
    if (is_taken) {
        cpu_bounds_remove(&engine->blocks, (uintptr_t)freed.block);
        __vgc_heap_release(freed.heap, freed.heap_bytes, freed.block);
    }
    return is_taken;
}

/* Keeps a freed block; false: there is no room. */
static bool keep(struct cpu_quarantine *quarantine, const struct cpu_freed *freed)
{
    pthread_mutex_lock(&quarantine->lock);
    uint32_t count = atomic_load(&quarantine->count);
    bool has_room = count < CPU_FREED_BLOCKS;
    if (has_room) {
        quarantine->ring[(quarantine->first + count) % CPU_FREED_BLOCKS] = *freed;
        quarantine->bytes += freed->bytes;
        atomic_store(&quarantine->count, count + 1);
    }
    pthread_mutex_unlock(&quarantine->lock);
    return has_room;
}

/* Forgets the freed blocks of an image that goes. */
static void forget_freed(struct cpu_quarantine *quarantine, const struct cpu_extent *image)
{
    struct cpu_freed freed;
    pthread_mutex_lock(&quarantine->lock);
    for (uint32_t left = atomic_load(&quarantine->count); left > 0 && take_freed(quarantine, &freed); left--)
        if ((uintptr_t)freed.heap - image->first >= image->size) {
            uint32_t count = atomic_load(&quarantine->count);
            quarantine->ring[(quarantine->first + count) % CPU_FREED_BLOCKS] = freed;
            quarantine->bytes += freed.bytes;
            atomic_store(&quarantine->count, count + 1);
        }
    pthread_mutex_unlock(&quarantine->lock);
}

void *__vgc_heap_allocate_checked(void *heap, uint64_t heap_bytes, uint64_t bytes, uint64_t align,
                                  const struct vgc_cpu_access *place)
{
    struct cpu_pe *pe = cpu_current_pe();
    void *block = __vgc_heap_allocate(heap, heap_bytes, bytes, align);
    while (block == NULL && bytes != 0 && give_back(pe->engine, 0, 0))
        block = __vgc_heap_allocate(heap, heap_bytes, bytes, align);
    const struct cpu_block noted = {{(uintptr_t)block, bytes}, place, pe->inner->kernel->name, NULL};
    if (block != NULL)
        cpu_bounds_add_block(&pe->engine->blocks, &noted);
    return block;
}

static void report_second_free(struct cpu_pe *pe, const struct vgc_cpu_access *place, const struct cpu_block *block)
{
    char where[256];
    if (!cpu_is_new_finding(pe, place, NULL))
        return;
    cpu_describe(pe, where, sizeof(where));
    cpu_report(pe,
               "memcheck: %s:%u:%u: free() of %#" PRIx64 ", a block of %" PRIu64
               " bytes that was freed at %s:%u:%u, in %s",
               place->file, place->line, place->column, block->extent.first, block->extent.size, block->freed->file,
               block->freed->line, block->freed->column, where);
}

void __vgc_heap_release_checked(void *heap, uint64_t heap_bytes, void *memory, const struct vgc_cpu_access *place)
{
    struct cpu_pe *pe = cpu_current_pe();
    struct cpu_engine *engine = pe->engine;
    struct cpu_block block = {.freed = NULL};
    switch (cpu_bounds_free_block(&engine->blocks, (uintptr_t)memory, place, &block)) {
    case CPU_BLOCK_FREED:
        report_second_free(pe, place, &block);
        return;
    case CPU_BLOCK_IN_USE:
        if ((place->checks & VGC_CPU_KERNEL_MEMCHECK) != 0 && block.extent.size <= heap_bytes / 4) {
            while (give_back(engine, heap_bytes / 4 - block.extent.size, 1))
                ;
            if (keep(&engine->quarantine, &(struct cpu_freed){heap, heap_bytes, memory, block.extent.size}))
                return;
        }
        cpu_bounds_remove(&engine->blocks, block.extent.first);
        break;
    case CPU_BLOCK_UNKNOWN:
        break;
    }
    __vgc_heap_release(heap, heap_bytes, memory);
}

/* Prints the leaks of places that are one too many, and that there may be others. Engine's lock held. */
static void print_others(struct cpu_engine *engine, const struct leak *others, uint64_t all, uint32_t context)
{
    static const char MORE[] = "leak-check: blocks that were given while as many were in use are not counted\n";
    char text[160];
    snprintf(text, sizeof(text), "leak-check: %" PRIu64 " bytes in %" PRIu64 " blocks of other places, too\n",
             others->bytes, others->count);
    if (others->count != 0)
        cpu_append_output(engine, context, text, (int)strlen(text));
    if (all >= CPU_MAX_BLOCKS)
        cpu_append_output(engine, context, MORE, (int)strlen(MORE));
}

/* Engine's lock held. */
static void print_leak(struct cpu_engine *engine, const struct leak *leak, uint32_t context)
{
    char text[768], file[CPU_PLACE_TEXT], kernel[256];
    const struct vgc_cpu_access *place = leak->first.place;
    cpu_copy_name(file, sizeof(file), place->file);
    cpu_copy_name(kernel, sizeof(kernel), leak->first.kernel);
    snprintf(text, sizeof(text),
             "leak-check: %s:%u:%u: %" PRIu64 " bytes in %" PRIu64 " %s never freed, the first at %#" PRIx64
             " by kernel '%s'\n",
             file, place->line, place->column, leak->bytes, leak->count,
             leak->count == 1 ? "block of malloc() was" : "blocks of malloc() were", leak->first.extent.first, kernel);
    cpu_append_output(engine, context, text, (int)strlen(text));
}

void cpu_blocks_end(struct cpu_engine *engine, const struct cpu_extent *image, bool is_checked, uint32_t context)
{
    struct leak leaks[MOST_LEAKS], others = {.count = 0};
    struct cpu_block block;
    size_t count = 0;
    uint64_t all = 0;
    forget_freed(&engine->quarantine, image);
    while (cpu_bounds_take_block(&engine->blocks, image, &block)) {
        size_t i = 0;
        if (block.freed != NULL)
            continue;
        while (i < count && leaks[i].first.place != block.place)
            i++;
        struct leak *leak = i < MOST_LEAKS ? &leaks[i] : &others;
        if (i == count && i < MOST_LEAKS)
            leaks[count++] = (struct leak){.count = 0};
        leak->first = block; /* the last comes first */
        leak->count++;
        all++;
        leak->bytes += block.extent.size;
    }
    if (!is_checked)
        return;
    pthread_mutex_lock(&engine->lock);
    while (count > 0)
        print_leak(engine, &leaks[--count], context);
    print_others(engine, &others, all, context);
    pthread_mutex_unlock(&engine->lock);
}
