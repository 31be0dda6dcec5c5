/* Checks of accesses: is all of it within the object from which its address was derived? If not, it is made at some
 * other memory: loads give zeroes, stores have no effect, and the kernel goes on. */
#include "cpu_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool contains(const struct cpu_extent *extent, uint64_t address, uint64_t bytes)
{
    uint64_t offset = address - extent->first;
    return offset <= extent->size && bytes <= extent->size - offset;
}

enum { NULL_BYTES = 4096 }; /* from a null pointer on there is no memory */

static struct cpu_extent shared_of(const struct cpu_pe *pe)
{
    uint64_t first = (uintptr_t)pe->ctx.shared;
    return (struct cpu_extent){first, (uintptr_t)pe->ctx.dynamic_shared - first + pe->inner->what.shared_bytes};
}

/* Memory of the block itself, to which pointers may point: shared memory, local variables, parameters. */
static bool find_own(const struct cpu_pe *pe, uint64_t address, struct cpu_extent *extent)
{
    const struct vgc_cpu_kernel_desc *kernel = pe->inner->kernel;
    const struct cpu_extent own[] = {
        shared_of(pe),
        {(uintptr_t)pe->ctx.frame, (uint64_t)kernel->frame_bytes * pe->ctx.stride},
        {(uintptr_t)pe->stack_low, CPU_STACK_BYTES},
        {(uintptr_t)pe->ctx.params, kernel->param_bytes},
    };
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (address - own[i].first < own[i].size) {
            *extent = own[i];
            return true;
        }
    return false;
}

/* Finds what has the address, at first among what was found last. */
static bool find(struct cpu_pe *pe, uint64_t address, struct cpu_extent *extent)
{
    struct cpu_checks *checks = pe->checks;
    if (cpu_bounds_find(&pe->engine->blocks, address, extent)) /* within an image */
        return true;
    uint64_t generation = atomic_load_explicit(&pe->engine->bounds.generation, memory_order_acquire);
    if (generation != checks->generation)
        memset(checks->extents, 0, sizeof(checks->extents));
    checks->generation = generation;
    for (uint32_t i = 0; i < CPU_CACHED_EXTENTS; i++)
        if (address - checks->extents[i].first < checks->extents[i].size) {
            *extent = checks->extents[i];
            return true;
        }
    if (find_own(pe, address, extent))
        return true;
    if (!cpu_bounds_find(&pe->engine->bounds, address, extent))
        return false;
    checks->extents[checks->next_extent++ % CPU_CACHED_EXTENTS] = *extent;
    return true;
}

/* The extent within which the access must be. False: no memory is there. */
static bool find_object(struct cpu_pe *pe, uint64_t address, uint64_t base, const struct vgc_cpu_access *access,
                        struct cpu_extent *extent)
{
    switch (access->kind) {
    case VGC_OBJECT_SHARED:
    case VGC_OBJECT_VARIABLE:
    case VGC_OBJECT_LOCAL:
        *extent = (struct cpu_extent){base, access->object_bytes};
        return true;
    case VGC_OBJECT_DYNAMIC:
        *extent = (struct cpu_extent){(uintptr_t)pe->ctx.dynamic_shared, pe->inner->what.shared_bytes};
        return true;
    case VGC_OBJECT_ANY_SHARED:
        *extent = shared_of(pe);
        return true;
    default:
        return (base != 0 && find(pe, base, extent)) || find(pe, address, extent);
    }
}

/* Describes the object that an access missed. */
static void describe_object(const struct cpu_pe *pe, const struct vgc_cpu_access *access,
                            const struct cpu_extent *extent, char *text, size_t size)
{
    static const char *const NAMES[] = {[VGC_OBJECT_SHARED] = "shared array",
                                        [VGC_OBJECT_DYNAMIC] = "dynamic shared array",
                                        [VGC_OBJECT_ANY_SHARED] = "shared memory",
                                        [VGC_OBJECT_VARIABLE] = "variable",
                                        [VGC_OBJECT_LOCAL] = "local variable"};
    struct cpu_extent own;
    const char *quote = access->object[0] != '\0' ? "'" : "", *space = quote[0] != '\0' ? " " : "";
    if (access->kind == VGC_OBJECT_POINTER && find_own(pe, extent->first, &own))
        snprintf(text, size, "%" PRIu64 " bytes of the block's own memory", extent->size);
    else if (access->kind == VGC_OBJECT_POINTER && access->object[0] != '\0')
        snprintf(text, size, "the array of %" PRIu64 " bytes that '%s' points to", extent->size, access->object);
    else if (access->kind == VGC_OBJECT_POINTER)
        snprintf(text, size, "an array of %" PRIu64 " bytes at %#" PRIx64, extent->size, extent->first);
    else
        snprintf(text, size, "%s%s%s%s%s of %" PRIu64 " bytes", NAMES[access->kind], space, quote, access->object,
                 quote, extent->size);
}

/* Describes where an access is that misses its object. */
static void describe_miss(uint64_t address, const struct cpu_extent *extent, char *text, size_t size)
{
    if (address < extent->first)
        snprintf(text, size, "%" PRIu64 " bytes before", extent->first - address);
    else if (address - extent->first >= extent->size)
        snprintf(text, size, "%" PRIu64 " bytes behind the end of", address - extent->first - extent->size);
    else
        snprintf(text, size, "across the end of");
}

static void report(struct cpu_pe *pe, uint64_t address, uint64_t base, uint64_t bytes,
                   const struct vgc_cpu_access *access, const struct cpu_extent *extent)
{
    char where[256], object[320] = "all memory", miss[64] = "outside of", index[64] = "";
    int64_t offset = (int64_t)(address - base);
    if (address < NULL_BYTES)
        snprintf(object, sizeof(object), "all memory (a null pointer)");
    if (extent != NULL) {
        describe_object(pe, access, extent, object, sizeof(object));
        describe_miss(address, extent, miss, sizeof(miss));
    }
    if (base != 0 && bytes != 0 && offset % (int64_t)bytes == 0)
        snprintf(index, sizeof(index), ", index %" PRId64, offset / (int64_t)bytes);
    cpu_describe(pe, where, sizeof(where));
    cpu_report(pe, "memcheck: %s:%u:%u: %s of %" PRIu64 " bytes at %#" PRIx64 ", %s %s%s, in %s", access->file,
               access->line, access->column, cpu_access_name(access), bytes, address, miss, object, index, where);
}

/* Reports an access to a block that was freed. */
static void report_freed(struct cpu_pe *pe, uint64_t address, uint64_t base, uint64_t bytes,
                         const struct vgc_cpu_access *access, const struct cpu_block *block)
{
    char where[256], index[64] = "";
    if (!cpu_is_new_finding(pe, access, NULL))
        return;
    if (base != 0 && (int64_t)(address - base) % (int64_t)bytes == 0)
        snprintf(index, sizeof(index), ", index %" PRId64, (int64_t)(address - base) / (int64_t)bytes);
    cpu_describe(pe, where, sizeof(where));
    cpu_report(pe,
               "memcheck: %s:%u:%u: %s of %" PRIu64 " bytes at %#" PRIx64 ", in a block of %" PRIu64
               " bytes that was freed at %s:%u:%u%s, in %s",
               access->file, access->line, access->column, cpu_access_name(access), bytes, address, block->extent.size,
               block->freed->file, block->freed->line, block->freed->column, index, where);
}

/* The memory to which an access goes that must not happen. */
static uint8_t *refuse(struct cpu_pe *pe, const struct vgc_cpu_access *access)
{
    if ((access->flags & VGC_ACCESS_LARGE) != 0)
        cpu_leave_launch(pe);
    memset(pe->checks->zeroes, 0, VGC_CPU_SCRATCH);
    return (access->flags & VGC_ACCESS_WRITE) != 0 ? pe->checks->sink : pe->checks->zeroes;
}

/* The memory that is nearest to an address in none: an array, or the block's shared memory. */
static bool find_nearest(struct cpu_pe *pe, uint64_t address, struct cpu_extent *extent)
{
    const struct cpu_extent shared = shared_of(pe);
    const bool is_found = cpu_bounds_nearest(&pe->engine->bounds, address, extent);
    if (shared.size == 0 || (is_found && cpu_distance(extent, address) <= cpu_distance(&shared, address)))
        return is_found;
    *extent = shared;
    return true;
}

/* Reports an access outside of its object. */
static void report_miss(struct cpu_pe *pe, uint64_t address, uint64_t base, uint64_t bytes,
                        const struct vgc_cpu_access *access, bool is_found, struct cpu_extent *extent)
{
    if (!cpu_is_new_finding(pe, access, NULL))
        return;
    if (!is_found && address >= NULL_BYTES)
        is_found = find_nearest(pe, address, extent);
    report(pe, address, base, bytes, access, is_found ? extent : NULL);
}

/* Checks that at least one byte of a local variable that is read has been written: structs have padding that is read
 * with them. Notes what is written, in the bits that the compiler has put beside the variable. */
static void check_local(struct cpu_pe *pe, uint64_t offset, uint64_t bytes, const struct vgc_cpu_access *access,
                        uint8_t *bits)
{
    char where[256];
    bool is_written = false;
    if (offset > access->object_bytes || bytes > access->object_bytes - offset)
        return;
    for (uint64_t i = offset; i < offset + bytes; i++)
        is_written |= (bits[i / 8] >> i % 8 & 1) != 0;
    if ((access->flags & (VGC_ACCESS_READ | VGC_ACCESS_COPY)) == VGC_ACCESS_READ && !is_written &&
        cpu_is_new_finding(pe, access, access)) {
        cpu_describe(pe, where, sizeof(where));
        cpu_report(pe,
                   "initcheck: %s:%u:%u: read of %" PRIu64 " bytes of local variable '%s' (byte %" PRIu64 " of %" PRIu64
                   ") that nothing has written, in %s",
                   access->file, access->line, access->column, bytes, access->object, offset, access->object_bytes,
                   where);
    }
    for (uint64_t i = offset; (access->flags & VGC_ACCESS_WRITE) != 0 && i < offset + bytes; i++)
        bits[i / 8] |= (uint8_t)(1u << i % 8);
}

/* Checks that global memory that is read has been written; notes what is written. */
static void check_written(struct cpu_pe *pe, uint64_t address, uint64_t bytes, const struct vgc_cpu_access *access)
{
    char where[256];
    struct cpu_extent own;
    if (find_own(pe, address,
                 &own)) /* stores to locals are not noted; those of a resident block lie in an allocation */
        return;
    struct cpu_extent block;
    bool is_block = cpu_bounds_find(&pe->engine->blocks, address, &block);
    struct cpu_bounds *bounds = is_block ? &pe->engine->blocks : &pe->engine->bounds;
    if ((access->flags & (VGC_ACCESS_READ | VGC_ACCESS_COPY)) == VGC_ACCESS_READ &&
        !cpu_bounds_is_written(bounds, address, bytes) && cpu_is_new_finding(pe, access, access)) {
        cpu_describe(pe, where, sizeof(where));
        cpu_report(
            pe, "initcheck: %s:%u:%u: read of %" PRIu64 " bytes at %#" PRIx64 "%s%s%s that nothing has written, in %s",
            access->file, access->line, access->column, bytes, address, access->object[0] != '\0' ? ", by '" : "",
            access->object, access->object[0] != '\0' ? "'," : "", where);
    }
    if ((access->flags & VGC_ACCESS_WRITE) != 0)
        cpu_bounds_written(bounds, address, bytes);
}

uint8_t *__vgc_check(uint8_t *pointer, uint8_t *base_pointer, uint64_t bytes, const struct vgc_cpu_access *access,
                     uint64_t value)
{
    struct cpu_pe *pe = cpu_current_pe();
    uint64_t address = (uintptr_t)pointer, base = (uintptr_t)base_pointer;
    if (bytes == 0)
        return pointer;
    if ((access->checks & VGC_CPU_KERNEL_MEMCHECK) != 0) {
        struct cpu_extent extent;
        struct cpu_block block;
        bool is_found = find_object(pe, address, base, access, &extent);
        if (!is_found || !contains(&extent, address, bytes)) {
            report_miss(pe, address, base, bytes, access, is_found, &extent);
            return refuse(pe, access);
        }
        if (access->kind == VGC_OBJECT_POINTER &&
            atomic_load_explicit(&pe->engine->quarantine.count, memory_order_relaxed) != 0 &&
            cpu_bounds_find_freed(&pe->engine->blocks, address, &block)) {
            report_freed(pe, address, base, bytes, access, &block);
            return refuse(pe, access);
        }
    }
    if (access->kind == VGC_OBJECT_LOCAL) {
        if ((access->checks & VGC_CPU_KERNEL_INITCHECK) != 0 && value != 0)
            check_local(pe, address - base, bytes, access, (uint8_t *)(uintptr_t)value);
        return pointer;
    }
    if ((access->checks & (VGC_CPU_KERNEL_RACECHECK | VGC_CPU_KERNEL_INITCHECK)) != 0) {
        struct cpu_extent shared = shared_of(pe);
        if (contains(&shared, address, bytes))
            cpu_check_shared(pe, pointer, bytes, access, value);
        else if ((access->checks & VGC_CPU_KERNEL_INITCHECK) != 0)
            check_written(pe, address, bytes, access);
    }
    return pointer;
}
