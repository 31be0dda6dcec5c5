/* Device memory: ordinary private memory between inaccessible pages, so that overruns fault. An allocation ends at
 * the end of its last page, as far as its alignment allows. */
#include "cpu_engine.h"

#include <errno.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

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

int cpu_alloc(struct vgc_engine *engine, uint64_t size, uint64_t *address)
{
    (void)engine;
    if (size == 0)
        size = 1;
    if (size > UINT64_C(1) << 46)
        return -ENOMEM;
    uint8_t *base = cpu_map_guarded(size, CPU_GUARD);
    if (base == NULL)
        return -ENOMEM;
    if (size >= 2 << 20)
        (void)madvise(base, round_up(size, PAGE), MADV_HUGEPAGE);
    *address = (uint64_t)(uintptr_t)base + round_up(size, PAGE) - round_up(size, CPU_ALIGN);
    return 0;
}

int cpu_free(struct vgc_engine *engine, uint64_t address, uint64_t size)
{
    (void)engine;
    if (size == 0)
        size = 1;
    cpu_unmap_guarded((uint8_t *)(uintptr_t)(address & ~(uint64_t)(PAGE - 1)), size, CPU_GUARD);
    return 0;
}
