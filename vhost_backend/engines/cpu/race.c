/* Shared memory of checked programs. Two accesses to a byte conflict if different threads make them, at least one
 * writes, not both are atomic, and the threads have not waited for each other in between, whatever the order in which
 * the PE happened to run them.
 *
 * Time counts waits. Accesses from before the block's last barrier conflict with nothing. Within a warp, a thread knows
 * of another's accesses up to a time that waits of the warp set: for all lanes that take part, to what any of them
 * knew, and to the time of the wait for each other. Shuffles and votes do not order memory, so they do not count. Two
 * volatile accesses of a warp are in order without a wait. */
#include "cpu_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint32_t running_thread(const struct cpu_pe *pe)
{
    const struct vgc_cpu_ctx *ctx = &pe->ctx;
    return ctx->tid[0] + ctx->block_dim[0] * (ctx->tid[1] + ctx->block_dim[1] * ctx->tid[2]);
}

void cpu_race_block(struct cpu_pe *pe)
{
    struct cpu_checks *checks = pe->checks;
    if (checks->now > UINT32_MAX / 2) { /* time begins again: nothing that is noted counts any more */
        memset(checks->seen, 0, sizeof(checks->seen));
        memset(checks->cells, 0, checks->num_cells * sizeof(*checks->cells));
        checks->now = 0;
    }
    checks->block_begin = checks->barrier = ++checks->now;
}

void cpu_race_barrier(struct cpu_pe *pe)
{
    pe->checks->barrier = ++pe->checks->now;
}

void cpu_race_warp(struct cpu_pe *pe, uint32_t warp, uint32_t members)
{
    struct cpu_checks *checks = pe->checks;
    uint32_t(*seen)[VGC_CPU_WARP] = &checks->seen[warp * VGC_CPU_WARP];
    uint32_t known[VGC_CPU_WARP] = {0};
    checks->now++;
    for (uint32_t left = members; left != 0; left &= left - 1)
        for (uint32_t lane = 0; lane < VGC_CPU_WARP; lane++) {
            uint32_t time = seen[__builtin_ctz(left)][lane];
            known[lane] = time > known[lane] ? time : known[lane];
        }
    for (uint32_t left = members; left != 0; left &= left - 1)
        known[__builtin_ctz(left)] = checks->now;
    for (uint32_t left = members; left != 0; left &= left - 1)
        memcpy(seen[__builtin_ctz(left)], known, sizeof(known));
}

/* True if an access conflicts with an earlier one, one of them being a write. */
static bool conflicts(const struct cpu_checks *checks, const struct cpu_touch *before, uint32_t thread,
                      const struct vgc_cpu_access *access)
{
    if (before->access == NULL || before->time < checks->barrier || before->thread == thread)
        return false;
    uint32_t both = before->access->flags & access->flags, either = before->access->flags | access->flags;
    if ((either & VGC_ACCESS_WRITE) == 0)
        return false;
    if ((both & VGC_ACCESS_ATOMIC) != 0)
        return false;
    if (before->thread / VGC_CPU_WARP != thread / VGC_CPU_WARP)
        return true;
    return (both & VGC_ACCESS_VOLATILE) == 0 && checks->seen[thread][before->thread % VGC_CPU_WARP] <= before->time;
}

/* Notes a load or an atomic operation: beside another thread's, of another warp if possible. */
static void note(const struct cpu_checks *checks, struct cpu_touch pair[2], struct cpu_touch touch)
{
    struct cpu_touch *first = &pair[0], *second = &pair[1];
    bool first_is_old = first->access == NULL || first->time < checks->barrier;
    bool second_is_old = second->access == NULL || second->time < checks->barrier;
    if (first_is_old || first->thread == touch.thread)
        *first = touch;
    else if (second_is_old || second->thread == touch.thread ||
             second->thread / VGC_CPU_WARP == first->thread / VGC_CPU_WARP)
        *second = touch;
}

static void position_of(const struct cpu_pe *pe, uint32_t thread, char *text, size_t size)
{
    const uint32_t *dim = pe->ctx.block_dim;
    snprintf(text, size, "(%u,%u,%u)", thread % dim[0], thread / dim[0] % dim[1], thread / dim[0] / dim[1]);
}

static const char *object_of(const struct vgc_cpu_access *access)
{
    return access->kind != VGC_OBJECT_POINTER && access->object[0] != '\0' ? access->object : "shared memory";
}

static void report_race(struct cpu_pe *pe, uint64_t offset, const struct vgc_cpu_access *access, uint32_t thread,
                        const struct cpu_touch *before)
{
    const uint32_t *block = pe->ctx.block_idx;
    char here[48], there[48];
    if (!cpu_is_new_finding(pe, access, before->access))
        return;
    position_of(pe, thread, here, sizeof(here));
    position_of(pe, before->thread, there, sizeof(there));
    cpu_report(pe,
               "racecheck: %s:%u:%u: %s of '%s' (byte %" PRIu64
               " of shared memory) by thread %s conflicts with the %s at "
               "%s:%u:%u by thread %s: no %s between them, in kernel '%s', block (%u,%u,%u)",
               access->file, access->line, access->column, cpu_access_name(access), object_of(access), offset, here,
               cpu_access_name(before->access), before->access->file, before->access->line, before->access->column,
               there, thread / VGC_CPU_WARP == before->thread / VGC_CPU_WARP ? "barrier or __syncwarp()" : "barrier",
               pe->inner->kernel->name, block[0], block[1], block[2]);
}

/* True if the store would write what is there already. */
static bool changes_nothing(const uint8_t *address, uint64_t bytes, const struct vgc_cpu_access *access, uint64_t value)
{
    return (access->flags & VGC_ACCESS_VALUE) != 0 && bytes <= sizeof(value) && memcmp(address, &value, bytes) == 0;
}

/* The first of some earlier accesses that conflicts with one; NULL: none does. */
static const struct cpu_touch *first_conflict(const struct cpu_checks *checks, const struct cpu_touch *before,
                                              uint32_t count, uint32_t thread, const struct vgc_cpu_access *access)
{
    for (uint32_t i = 0; i < count; i++)
        if (conflicts(checks, &before[i], thread, access))
            return &before[i];
    return NULL;
}

static void check_race(struct cpu_pe *pe, struct cpu_cell *cell, uint64_t offset, uint32_t thread,
                       const struct vgc_cpu_access *access, bool is_same)
{
    const struct cpu_touch *before = is_same ? NULL : first_conflict(pe->checks, &cell->write, 1, thread, access);
    if (before == NULL)
        before = first_conflict(pe->checks, cell->atomic, 2, thread, access);
    if (before == NULL && (access->flags & VGC_ACCESS_WRITE) != 0)
        before = first_conflict(pe->checks, cell->read, 2, thread, access);
    if (before != NULL) {
        struct cpu_touch other = *before;
        report_race(pe, offset, access, thread, &other);
    }
}

static void report_unwritten(struct cpu_pe *pe, uint64_t offset, uint64_t bytes, const struct vgc_cpu_access *access)
{
    char where[256];
    if (!cpu_is_new_finding(pe, access, access))
        return;
    cpu_describe(pe, where, sizeof(where));
    cpu_report(pe,
               "initcheck: %s:%u:%u: read of %" PRIu64 " bytes of '%s' (byte %" PRIu64
               " of shared memory) that the block has not written, in %s",
               access->file, access->line, access->column, bytes, object_of(access), offset, where);
}

static bool is_written(const struct cpu_checks *checks, const struct cpu_cell *cell)
{
    return (cell->write.access != NULL && cell->write.time >= checks->block_begin) ||
           (cell->atomic[0].access != NULL && cell->atomic[0].time >= checks->block_begin);
}

void cpu_check_shared(struct cpu_pe *pe, const uint8_t *address, uint64_t bytes, const struct vgc_cpu_access *access,
                      uint64_t value)
{
    struct cpu_checks *checks = pe->checks;
    uint32_t thread = running_thread(pe);
    uint64_t first = (uint64_t)(address - pe->ctx.shared);
    struct cpu_touch touch = {access, checks->now, thread};
    bool is_same = changes_nothing(address, bytes, access, value);
    bool wants_written = (access->checks & VGC_CPU_KERNEL_INITCHECK) != 0 && pe->inner->slot_bytes == 0 &&
                         (access->flags & (VGC_ACCESS_READ | VGC_ACCESS_COPY)) == VGC_ACCESS_READ;
    for (uint64_t offset = first; offset < first + bytes && offset < checks->num_cells; offset++) {
        struct cpu_cell *cell = &checks->cells[offset];
        if (wants_written && !is_written(checks, cell))
            report_unwritten(pe, offset, bytes, access);
        if ((access->checks & VGC_CPU_KERNEL_RACECHECK) != 0)
            check_race(pe, cell, offset, thread, access, is_same);
        if ((access->flags & VGC_ACCESS_ATOMIC) != 0)
            note(checks, cell->atomic, touch);
        else if ((access->flags & VGC_ACCESS_WRITE) != 0)
            *cell = (struct cpu_cell){.write = touch};
        else
            note(checks, cell->read, touch);
    }
}
