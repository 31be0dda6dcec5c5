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

void __vgc_heap_note(void *block, uint64_t bytes, const struct vgc_cpu_access *place)
{
    struct cpu_pe *pe = cpu_current_pe();
    const struct cpu_block noted = {{(uintptr_t)block, bytes}, place, pe->inner->kernel->name};
    if (block != NULL)
        cpu_bounds_add_block(&pe->engine->blocks, &noted);
}

void __vgc_heap_forget(void *block)
{
    struct cpu_bounds *blocks = &cpu_current_pe()->engine->blocks;
    struct cpu_extent known;
    if (cpu_bounds_find(blocks, (uintptr_t)block, &known) && known.first == (uintptr_t)block)
        cpu_bounds_remove(blocks, known.first);
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
             "leak-check: %s:%u:%u: %" PRIu64 " bytes in %" PRIu64
             " blocks of malloc() were never freed, the first at %#" PRIx64 " by kernel '%s'\n",
             file, place->line, place->column, leak->bytes, leak->count, leak->first.extent.first, kernel);
    cpu_append_output(engine, context, text, (int)strlen(text));
}

void cpu_blocks_end(struct cpu_engine *engine, const struct cpu_extent *image, bool is_checked, uint32_t context)
{
    struct leak leaks[MOST_LEAKS], others = {.count = 0};
    struct cpu_block block;
    size_t count = 0;
    uint64_t all = 0;
    while (cpu_bounds_take_block(&engine->blocks, image, &block)) {
        size_t i = 0;
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
