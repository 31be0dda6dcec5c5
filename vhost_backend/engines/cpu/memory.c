/* Device memory. Small allocations share granules (granules.c); a larger one has a mapping of its own, with memory
 * before and behind it. With guard pages, each has its own mapping, and ends at an inaccessible page but for alignment,
 * so that overruns fault. */
#include "cpu_engine.h"

#include <errno.h>
#include <sys/mman.h>

enum {
    PAGE = 4096,
    LARGEST_SHARED = 256 << 10, /* bytes of an allocation in a granule */
    LEAD = 16 << 10,            /* bytes before other allocations */
    LEAST_TAIL = 32 << 10,      /* and behind them: an eighth of their size */
    MOST_TAIL = 1 << 20,
};

#define CPU_LARGEST (UINT64_C(1) << 46)

static size_t round_up(size_t size, size_t to)
{
    return (size + to - 1) & ~(to - 1);
}

uint8_t *cpu_map_guarded(size_t size, size_t guard)
{
    size_t pages = round_up(size, PAGE);
    uint8_t *base = mmap(NULL, pages + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    if (mprotect(base + guard, pages, PROT_READ | PROT_WRITE) != 0) {
        munmap(base, pages + 2 * guard);
        return NULL;
    }
    return base + guard;
}

void cpu_unmap_guarded(uint8_t *base, size_t size, size_t guard)
{
    munmap(base - guard, round_up(size, PAGE) + 2 * guard);
}

/* Maps memory between inaccessible pages in the VM's arena, at `at` if that is not 0. */
static uint8_t *map_device(struct cpu_engine *engine, uint64_t at, size_t size, int *error)
{
    size_t pages = round_up(size, PAGE);
    if (at != 0 && at <= CPU_GUARD) { /* the guard's address would be 0, which means any address */
        *error = -EINVAL;
        return NULL;
    }
    uint8_t *base = vgc_arena_map(&engine->base, at != 0 ? at - CPU_GUARD : 0, PAGE, pages + 2 * CPU_GUARD, PROT_NONE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        *error = -errno;
        return NULL;
    }
    if (mprotect(base + CPU_GUARD, pages, PROT_READ | PROT_WRITE) != 0) {
        *error = -errno;
        vgc_arena_unmap(&engine->base, base, pages + 2 * CPU_GUARD);
        return NULL;
    }
    return base + CPU_GUARD;
}

uint8_t *cpu_map_device(struct cpu_engine *engine, uint64_t at, size_t size)
{
    int error;
    return map_device(engine, at, size, &error);
}

void cpu_unmap_device(struct cpu_engine *engine, uint8_t *base, size_t size)
{
    vgc_arena_unmap(&engine->base, base - CPU_GUARD, round_up(size, PAGE) + 2 * CPU_GUARD);
}

/* ---- allocations with mappings of their own ----------------------------------------------------------------- */

/* The mapping of an allocation: bytes from its first page to the allocation, and in all. */
struct layout {
    uint64_t lead;
    uint64_t bytes;
};

static struct layout lay_out(const struct cpu_engine *engine, uint64_t size)
{
    uint64_t pages = round_up(size, PAGE), tail = round_up(size / 8, PAGE);
    if (engine->has_guard_pages)
        return (struct layout){pages - round_up(size, CPU_ALLOC_ALIGN), pages};
    tail = tail < LEAST_TAIL ? LEAST_TAIL : tail > MOST_TAIL ? MOST_TAIL : tail;
    return (struct layout){LEAD, LEAD + pages + tail};
}

/* Maps an allocation, at `at` if that is not 0. */
static int map_own(struct cpu_engine *engine, uint64_t at, uint64_t size, uint64_t *address)
{
    struct layout layout = lay_out(engine, size);
    int error = 0;
    if (at != 0 && (at <= layout.lead + CPU_GUARD || (at - layout.lead) % PAGE != 0))
        return -EINVAL;
    uint8_t *base = map_device(engine, at != 0 ? at - layout.lead : 0, layout.bytes, &error);
    if (base == NULL)
        return error;
    if (size >= 2 << 20)
        (void)madvise(base, layout.bytes, MADV_HUGEPAGE);
    *address = (uint64_t)(uintptr_t)base + layout.lead;
    return 0;
}

/* ---- all allocations ---------------------------------------------------------------------------------------- */

static bool is_shared(const struct cpu_engine *engine, uint64_t size)
{
    return size <= LARGEST_SHARED && !engine->has_guard_pages;
}

static void give_back(struct cpu_engine *engine, uint64_t address, uint64_t size)
{
    struct layout layout = lay_out(engine, size);
    if (is_shared(engine, size))
        cpu_granules_free(engine, address, size);
    else
        cpu_unmap_device(engine, (uint8_t *)(uintptr_t)(address - layout.lead), layout.bytes);
}

int cpu_alloc(struct vgc_engine *base, uint64_t size, uint64_t *address)
{
    struct cpu_engine *engine = cpu_engine_of(base);
    if (size == 0)
        size = 1;
    if (size > CPU_LARGEST)
        return -ENOMEM;
    int error = is_shared(engine, size) ? cpu_granules_alloc(engine, size, address) : map_own(engine, 0, size, address);
    if (error != 0)
        return -ENOMEM;
    if (cpu_bounds_add(&engine->bounds, *address, size, true))
        return 0;
    give_back(engine, *address, size);
    return -ENOMEM;
}

int cpu_alloc_at(struct vgc_engine *base, uint64_t address, uint64_t size)
{
    struct cpu_engine *engine = cpu_engine_of(base);
    uint64_t got;
    if (size == 0 || size > CPU_LARGEST)
        return -EINVAL;
    int error =
        is_shared(engine, size) ? cpu_granules_alloc_at(engine, address, size) : map_own(engine, address, size, &got);
    if (error != 0)
        return error;
    if (cpu_bounds_add(&engine->bounds, address, size, false))
        return 0;
    give_back(engine, address, size);
    return -ENOMEM;
}

int cpu_free(struct vgc_engine *base, uint64_t address, uint64_t size)
{
    struct cpu_engine *engine = cpu_engine_of(base);
    cpu_bounds_remove(&engine->bounds, address);
    give_back(engine, address, size == 0 ? 1 : size);
    return 0;
}
