/* The arena's addresses: see vgc_engine_set_arena(). They are given in ascending order, so that freed addresses, except
 * the last, are not used again soon. */
#include "internal.h"

#include <sys/mman.h>

enum { PAGE = 4096 };

#define LOWEST_ADDRESS (UINT64_C(1) << 32)
#define END_OF_ADDRESSES (UINT64_C(1) << 47)

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

int vgc_engine_set_arena(struct vgc_engine *engine, uint64_t base, uint64_t size)
{
    if (base % PAGE != 0 || size % PAGE != 0 || base < LOWEST_ADDRESS || base >= END_OF_ADDRESSES || size == 0 ||
        size > END_OF_ADDRESSES - base)
        return -EINVAL;
    engine->arena_base = base;
    engine->arena_size = size;
    atomic_store(&engine->arena_next, base);
    return 0;
}

/* mmap() at exactly `at`. Kernels before 4.17 ignore MAP_FIXED_NOREPLACE and may map elsewhere. */
static void *map_exactly(uint64_t at, uint64_t size, int protection, int flags, int fd, int64_t offset)
{
    void *wanted = (void *)(uintptr_t)at;
    void *got = mmap(wanted, size, protection, flags | MAP_FIXED_NOREPLACE, fd, (off_t)offset);
    if (got != MAP_FAILED && got != wanted) {
        munmap(got, size);
        errno = EEXIST;
        return MAP_FAILED;
    }
    return got;
}

static bool is_inside(const struct vgc_engine *engine, uint64_t at, uint64_t size)
{
    if (engine->arena_size == 0)
        return at >= LOWEST_ADDRESS && at < END_OF_ADDRESSES && size <= END_OF_ADDRESSES - at;
    return at >= engine->arena_base && at - engine->arena_base <= engine->arena_size &&
           size <= engine->arena_size - (at - engine->arena_base);
}

/* Makes later mappings lie behind `end`. */
static void advance_next(struct vgc_engine *engine, uint64_t end)
{
    uint64_t next = atomic_load(&engine->arena_next);
    while (next < end && !atomic_compare_exchange_weak(&engine->arena_next, &next, end))
        ;
}

static void *map_at(struct vgc_engine *engine, uint64_t at, uint64_t size, int protection, int flags, int fd,
                    int64_t offset)
{
    if (at % PAGE != 0 || !is_inside(engine, at, size)) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    void *got = map_exactly(at, size, protection, flags, fd, offset);
    if (got != MAP_FAILED && engine->arena_size != 0)
        advance_next(engine, at + size);
    return got;
}

/* Tries addresses behind the last mapping, then from the arena's begin, in steps that double, as obstacles may be long
 * (the guest's memory); then every address that is a multiple of the size. */
static void *map_next(struct vgc_engine *engine, uint64_t align, uint64_t size, int protection, int flags, int fd,
                      int64_t offset)
{
    enum { ROUNDS = 3 };
    uint64_t at = (atomic_load(&engine->arena_next) + align - 1) & ~(align - 1);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t step = size;
        while (is_inside(engine, at, size)) {
            void *got = map_exactly(at, size, protection, flags, fd, offset);
            if (got != MAP_FAILED)
                atomic_store(&engine->arena_next, at + size);
            if (got != MAP_FAILED || errno != EEXIST)
                return got;
            at = (at + step + align - 1) & ~(align - 1);
            step = round < ROUNDS - 1 ? 2 * step : size;
        }
        at = (engine->arena_base + align - 1) & ~(align - 1);
    }
    errno = ENOMEM;
    return MAP_FAILED;
}

/* mmap() anywhere at a multiple of `align`: of more, of which the rest is given back. */
static void *map_anywhere(uint64_t align, uint64_t size, int protection, int flags, int fd, int64_t offset)
{
    if (align <= PAGE)
        return mmap(NULL, size, protection, flags, fd, (off_t)offset);
    uint8_t *room = mmap(NULL, size + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return MAP_FAILED;
    uint64_t lead = -(uint64_t)(uintptr_t)room & (align - 1);
    void *got = mmap(room + lead, size, protection, flags | MAP_FIXED, fd, (off_t)offset);
    int error = errno;
    if (lead != 0 || got == MAP_FAILED)
        munmap(room, got == MAP_FAILED ? size + align : lead);
    if (got != MAP_FAILED)
        munmap(room + lead + size, align - lead);
    errno = error;
    return got;
}

void *vgc_arena_map(struct vgc_engine *engine, uint64_t at, uint64_t align, uint64_t size, int protection, int flags,
                    int fd, int64_t offset)
{
    if (at != 0)
        return map_at(engine, at, size, protection, flags, fd, offset);
    if (engine->arena_size == 0)
        return map_anywhere(align, size, protection, flags, fd, offset);
    return map_next(engine, align, size, protection, flags, fd, offset);
}

void vgc_arena_unmap(struct vgc_engine *engine, void *base, uint64_t size)
{
    uint64_t end = (uint64_t)(uintptr_t)base + size;
    munmap(base, size);
    atomic_compare_exchange_strong(&engine->arena_next, &end, (uint64_t)(uintptr_t)base);
}
