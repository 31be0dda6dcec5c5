/* Small allocations. Several share a granule of 2 MiB, as GPUs' drivers give them: what lies a little before or behind
 * an allocation is memory, too, which programs that reach there do not notice on a GPU either.
 *
 * A granule lies at a multiple of its size, and its edges are given to nobody. Its units are given in rising order, so
 * that freed addresses are not used again soon. Whole pages of which no unit is in use go back to the host. */
#include "cpu_engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PAGE = 4096,
    UNIT = CPU_ALLOC_ALIGN, /* bytes between allocations, as on GPUs */
    UNITS = CPU_GRANULE / UNIT,
    PAGE_UNITS = PAGE / UNIT,
    FIRST = (32 << 10) / UNIT, /* units of each edge */
    LAST = UNITS - FIRST,      /* exclusive */
    WORD = 64,                 /* bits */
    CLEARED_BY_KERNEL = 64 << 10,
};

struct cpu_granule {
    uint8_t *base;
    uint32_t used;       /* units */
    uint32_t next;       /* where the last allocation ended */
    uint32_t most;       /* no run of free units is longer, */
    uint32_t most_pages; /* or, from a page's begin on, longer than this */
    uint64_t taken[UNITS / WORD];
};

static uint32_t units_of(uint64_t size)
{
    return (uint32_t)((size + UNIT - 1) / UNIT);
}

static bool is_taken(const struct cpu_granule *granule, uint32_t unit)
{
    return (granule->taken[unit / WORD] >> unit % WORD & 1) != 0;
}

/* Number of free units from `first` on, at most `count`. */
static uint32_t free_from(const struct cpu_granule *granule, uint32_t first, uint32_t count)
{
    uint32_t unit = first;
    while (unit < first + count && !is_taken(granule, unit))
        unit += unit % WORD == 0 && unit + WORD <= first + count && granule->taken[unit / WORD] == 0 ? WORD : 1;
    return unit - first;
}

static void mark(struct cpu_granule *granule, uint32_t first, uint32_t count, bool taken)
{
    for (uint32_t unit = first; unit < first + count; unit++) {
        uint64_t bit = UINT64_C(1) << unit % WORD;
        granule->taken[unit / WORD] = taken ? granule->taken[unit / WORD] | bit : granule->taken[unit / WORD] & ~bit;
    }
    granule->used = taken ? granule->used + count : granule->used - count;
}

/* First of `count` free units that lie in [from, to), at a multiple of `align`; LAST: no run is that long. */
static uint32_t find_run(const struct cpu_granule *granule, uint32_t from, uint32_t to, uint32_t count, uint32_t align)
{
    uint32_t first = (from + align - 1) / align * align;
    while (first + count <= to) {
        uint32_t free = free_from(granule, first, count);
        if (free == count)
            return first;
        first = (first + free + align) / align * align; /* behind the unit that is taken */
    }
    return LAST;
}

static uint32_t take_run(struct cpu_granule *granule, uint32_t count, uint32_t align)
{
    uint32_t first = find_run(granule, granule->next, LAST, count, align);
    if (first == LAST)
        first = find_run(granule, FIRST, LAST, count, align);
    if (first == LAST) {
        *(align == 1 ? &granule->most : &granule->most_pages) = count - 1;
        return LAST;
    }
    mark(granule, first, count, true);
    granule->next = first + count;
    return first;
}

/* Index of the first granule behind the address. */
static size_t behind(const struct cpu_granules *granules, uint64_t address)
{
    size_t low = 0, high = granules->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)granules->all[middle]->base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct cpu_granule *granule_of(const struct cpu_granules *granules, uint64_t address)
{
    size_t index = behind(granules, address);
    struct cpu_granule *granule = index == 0 ? NULL : granules->all[index - 1];
    return granule != NULL && address - (uintptr_t)granule->base < CPU_GRANULE ? granule : NULL;
}

static bool has_room(struct cpu_granules *granules)
{
    if (granules->count < granules->room)
        return true;
    size_t room = granules->room == 0 ? 16 : 2 * granules->room;
    struct cpu_granule **all = realloc(granules->all, room * sizeof(struct cpu_granule *));
    if (all == NULL)
        return false;
    granules->all = all;
    granules->room = room;
    return true;
}

/* Maps a granule, at `at` if that is not 0. NULL with errno. */
static struct cpu_granule *add(struct cpu_engine *engine, uint64_t at)
{
    struct cpu_granules *granules = &engine->granules;
    struct cpu_granule *granule = has_room(granules) ? calloc(1, sizeof(*granule)) : NULL;
    if (granule == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    void *base = vgc_arena_map(&engine->base, at, CPU_GRANULE, CPU_GRANULE, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        free(granule);
        return NULL;
    }
    granule->base = base;
    granule->next = FIRST;
    granule->most = granule->most_pages = LAST - FIRST;
    size_t index = behind(granules, (uintptr_t)base);
    memmove(&granules->all[index + 1], &granules->all[index], (granules->count - index) * sizeof(struct cpu_granule *));
    granules->all[index] = granule;
    granules->count++;
    return granule;
}

static void drop(struct cpu_engine *engine, struct cpu_granule *granule)
{
    struct cpu_granules *granules = &engine->granules;
    size_t index = behind(granules, (uintptr_t)granule->base);
    vgc_arena_unmap(&engine->base, granule->base, CPU_GRANULE);
    memmove(&granules->all[index - 1], &granules->all[index], (granules->count - index) * sizeof(struct cpu_granule *));
    granules->count--;
    free(granule);
}

/* Makes memory zero that allocations before, or kernels that reached beyond theirs, have written to. */
static void clear(uint8_t *memory, uint64_t size)
{
    uint64_t whole = size & ~(uint64_t)(PAGE - 1);
    if (size < CLEARED_BY_KERNEL || (uintptr_t)memory % PAGE != 0 || madvise(memory, whole, MADV_DONTNEED) != 0)
        whole = 0;
    memset(memory + whole, 0, size - whole);
}

int cpu_granules_alloc(struct cpu_engine *engine, uint64_t size, uint64_t *address)
{
    struct cpu_granules *granules = &engine->granules;
    uint32_t count = units_of(size), align = size % PAGE == 0 ? PAGE_UNITS : 1, unit = LAST;
    struct cpu_granule *granule = NULL;
    for (size_t i = 0; i < granules->count && unit == LAST; i++) {
        granule = granules->all[(granules->last + i) % granules->count];
        if (granule->most >= count && (align == 1 || granule->most_pages >= count))
            unit = take_run(granule, count, align);
        if (unit != LAST)
            granules->last = (granules->last + i) % granules->count;
    }
    if (unit == LAST) {
        granule = add(engine, 0);
        if (granule == NULL)
            return -ENOMEM;
        unit = take_run(granule, count, align);
        granules->last = behind(granules, (uintptr_t)granule->base) - 1;
    }
    uint8_t *memory = granule->base + (size_t)unit * UNIT;
    clear(memory, (uint64_t)count * UNIT);
    *address = (uintptr_t)memory;
    return 0;
}

int cpu_granules_alloc_at(struct cpu_engine *engine, uint64_t address, uint64_t size)
{
    uint64_t base = address & ~(uint64_t)(CPU_GRANULE - 1);
    uint32_t count = units_of(size), unit = (uint32_t)((address - base) / UNIT);
    if (base == 0 || address % UNIT != 0 || unit < FIRST || count > LAST - FIRST || unit > LAST - count)
        return -EINVAL;
    struct cpu_granule *granule = granule_of(&engine->granules, base);
    if (granule == NULL)
        granule = add(engine, base);
    if (granule == NULL)
        return -errno;
    if (free_from(granule, unit, count) != count)
        return -EEXIST;
    mark(granule, unit, count, true);
    clear(granule->base + (size_t)unit * UNIT, (uint64_t)count * UNIT);
    return 0;
}

/* Gives back the pages of these units that no other unit is in. */
static void release_pages(struct cpu_granule *granule, uint32_t first, uint32_t count)
{
    uint32_t from = first / PAGE_UNITS, to = (first + count + PAGE_UNITS - 1) / PAGE_UNITS;
    if (free_from(granule, from * PAGE_UNITS, PAGE_UNITS) != PAGE_UNITS)
        from++;
    if (from < to && free_from(granule, (to - 1) * PAGE_UNITS, PAGE_UNITS) != PAGE_UNITS)
        to--;
    if (from < to)
        (void)madvise(granule->base + (size_t)from * PAGE, (size_t)(to - from) * PAGE, MADV_DONTNEED);
}

void cpu_granules_free(struct cpu_engine *engine, uint64_t address, uint64_t size)
{
    struct cpu_granule *granule = granule_of(&engine->granules, address);
    uint32_t count = units_of(size);
    if (granule == NULL)
        return;
    uint32_t first = (uint32_t)((address - (uintptr_t)granule->base) / UNIT);
    mark(granule, first, count, false);
    granule->most = granule->most_pages = LAST - FIRST;
    if (granule->used == 0 && engine->granules.count > 1)
        drop(engine, granule);
    else
        release_pages(granule, first, count);
}

void cpu_granules_close(struct cpu_engine *engine)
{
    while (engine->granules.count != 0)
        drop(engine, engine->granules.all[engine->granules.count - 1]);
    free(engine->granules.all);
}
