/* Device memory: private memory between inaccessible pages, so that overruns fault. An allocation ends at the end of
 * its last page, except for alignment. */
#include "cpu_engine.h"

#include <errno.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

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

/* Maps guarded memory in the VM's arena, at `at` if that is not 0. */
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

/* Bytes from the first page to the begin of the allocation. */
static uint64_t lead_of(uint64_t size)
{
    return round_up(size, PAGE) - round_up(size, CPU_ALIGN);
}

static int allocate(struct vgc_engine *engine, uint64_t at, uint64_t size, uint64_t *address)
{
    int error = 0;
    uint8_t *base = map_device(cpu_engine_of(engine), at, size, &error);
    if (base == NULL)
        return error;
    if (!cpu_bounds_add(&cpu_engine_of(engine)->bounds, (uintptr_t)base + lead_of(size), size, at == 0)) {
        cpu_unmap_device(cpu_engine_of(engine), base, size);
        return -ENOMEM;
    }
    if (size >= 2 << 20)
        (void)madvise(base, round_up(size, PAGE), MADV_HUGEPAGE);
    *address = (uint64_t)(uintptr_t)base + lead_of(size);
    return 0;
}

int cpu_alloc(struct vgc_engine *engine, uint64_t size, uint64_t *address)
{
    if (size == 0)
        size = 1;
    if (size > CPU_LARGEST || allocate(engine, 0, size, address) != 0)
        return -ENOMEM;
    return 0;
}

int cpu_alloc_at(struct vgc_engine *engine, uint64_t address, uint64_t size)
{
    uint64_t got;
    if (size == 0 || size > CPU_LARGEST || address <= lead_of(size) + CPU_GUARD ||
        (address - lead_of(size)) % PAGE != 0)
        return -EINVAL;
    return allocate(engine, address - lead_of(size), size, &got);
}

int cpu_free(struct vgc_engine *engine, uint64_t address, uint64_t size)
{
    if (size == 0)
        size = 1;
    cpu_bounds_remove(&cpu_engine_of(engine)->bounds, address);
    cpu_unmap_device(cpu_engine_of(engine), (uint8_t *)(uintptr_t)(address & ~(uint64_t)(PAGE - 1)), size);
    return 0;
}
