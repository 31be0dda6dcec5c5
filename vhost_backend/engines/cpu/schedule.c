/* Runs a block: its regions in turn, and between them the operations that threads wait for.
 *
 * While all live threads (those that have not ended) are neighbours at the same site, the block is *together*: each
 * region runs once over all of them. Otherwise the block is *apart* and runs one warp at a time: `next` is the site of
 * each thread, `waits` tells whether it may go on. A warp operation is complete when all live threads of its mask are
 * at an operation of the same kind with the same mask; an operation over the active lanes, when nothing else in the
 * warp can go on; a yield, when no thread of the block can go on otherwise; a barrier, when all live threads of the
 * block are at a barrier. If nothing can go on, the block is deadlocked.
 */
#include "cpu_engine.h"

#include <stdio.h>
#include <string.h>

enum { MAX_WARPS = VGC_CPU_MAX_THREADS / VGC_CPU_WARP };

/* State of a block that is apart. */
struct parts {
    struct cpu_pe *pe;
    const struct vgc_cpu_site *sites;
    uint32_t num_threads;
    uint32_t num_warps;
    bool at_grid;              /* all live threads are at a barrier of the grid, or of the cluster */
    uint32_t live[MAX_WARPS];  /* lanes that have not ended */
    uint32_t waits[MAX_WARPS]; /* lanes that are at a site and may not go on yet */
};

static bool is_barrier(uint32_t kind)
{
    return kind >= VGC_SITE_BARRIER && kind <= VGC_SITE_BARRIER_OR;
}

/* Barriers of several blocks. */
static bool is_beyond_block(uint32_t kind)
{
    return kind == VGC_SITE_GRID || kind == VGC_SITE_CLUSTER;
}

static bool is_for_all(uint32_t kind)
{
    return is_barrier(kind) || is_beyond_block(kind);
}

static bool is_over_active(uint32_t kind)
{
    return kind == VGC_SITE_ACTIVEMASK || kind == VGC_SITE_BALLOT_ACTIVE || kind == VGC_SITE_STEP;
}

/* Lanes of a warp within threads [first, last). */
static uint32_t lanes_in(uint32_t warp, uint32_t first, uint32_t last)
{
    uint32_t base = warp * VGC_CPU_WARP;
    uint32_t from = first > base ? first - base : 0;
    uint32_t to = last < base + VGC_CPU_WARP ? last - base : VGC_CPU_WARP;
    return from >= to ? 0 : (uint32_t)((((uint64_t)1 << to) - 1) & ~(((uint64_t)1 << from) - 1));
}

int32_t cpu_run_region(struct cpu_pe *pe, const struct vgc_cpu_site *site, uint32_t first, uint32_t last)
{
    pe->site = site;
    pe->first = first;
    pe->last = last;
    atomic_store_explicit(&pe->in_kernel, true, memory_order_release);
    pe->region_stack = (uintptr_t)__builtin_frame_address(0);
    return site->resume(&pe->ctx, first, last, site->table);
}

/* ---- barriers with a result --------------------------------------------------------------------------------- */

static uint32_t reduce(uint32_t kind, uint32_t total, uint32_t predicate)
{
    switch (kind) {
    case VGC_SITE_BARRIER_COUNT:
        return total + (predicate != 0);
    case VGC_SITE_BARRIER_AND:
        return total & (predicate != 0);
    default:
        return total | (predicate != 0);
    }
}

static void barrier_together(struct vgc_cpu_ctx *ctx, uint32_t kind, uint32_t first, uint32_t last)
{
    uint32_t total = kind == VGC_SITE_BARRIER_AND;
    if (kind == VGC_SITE_BARRIER)
        return;
    for (uint32_t thread = first; thread < last; thread++)
        total = reduce(kind, total, ctx->value32[thread]);
    for (uint32_t thread = first; thread < last; thread++)
        ctx->result32[thread] = total;
}

/* ---- the block apart ---------------------------------------------------------------------------------------- */

static const struct vgc_cpu_site *site_of(const struct parts *parts, uint32_t thread)
{
    return &parts->sites[parts->pe->ctx.next[thread]];
}

static uint32_t mask_of(const struct parts *parts, uint32_t thread)
{
    const struct vgc_cpu_site *site = site_of(parts, thread);
    return (site->flags & VGC_SITE_CONST_MASK) != 0 ? site->mask : parts->pe->ctx.mask[thread];
}

/* Lanes of `among` that are at an operation of the same kind, work and mask as `thread`. */
static uint32_t alike(const struct parts *parts, uint32_t warp, uint32_t among, uint32_t thread)
{
    uint32_t found = 0;
    for (uint32_t left = among; left != 0; left &= left - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(left);
        uint32_t other = warp * VGC_CPU_WARP + lane;
        if (site_of(parts, other)->kind == site_of(parts, thread)->kind &&
            site_of(parts, other)->work == site_of(parts, thread)->work &&
            mask_of(parts, other) == mask_of(parts, thread))
            found |= 1u << lane;
    }
    return found;
}

static bool orders_memory(uint32_t kind)
{
    return kind == VGC_SITE_SYNCWARP || kind == VGC_SITE_STEP;
}

/* Executes the operation of a group of lanes, which may be at different sites of the same kind. */
static void exchange_group(struct parts *parts, uint32_t warp, uint32_t members)
{
    struct vgc_cpu_ctx *ctx = &parts->pe->ctx;
    uint32_t base = warp * VGC_CPU_WARP;
    struct vgc_cpu_site common = *site_of(parts, base + (uint32_t)__builtin_ctz(members));
    for (uint32_t left = members; left != 0; left &= left - 1) {
        uint32_t thread = base + (uint32_t)__builtin_ctz(left);
        if ((site_of(parts, thread)->flags & VGC_SITE_CONST_ARG) != 0)
            ctx->arg[thread] = site_of(parts, thread)->arg;
    }
    common.flags &= VGC_SITE_WIDE;
    if (parts->pe->is_checked && orders_memory(common.kind))
        cpu_race_warp(parts->pe, warp, members);
    cpu_exchange(ctx, &common, warp, members);
    parts->waits[warp] &= ~members;
}

/* Executes the warp's complete operations and releases their lanes. */
static void release_groups(struct parts *parts, uint32_t warp)
{
    for (uint32_t left = parts->waits[warp]; left != 0;) {
        uint32_t lane = (uint32_t)__builtin_ctz(left);
        uint32_t thread = warp * VGC_CPU_WARP + lane;
        uint32_t kind = site_of(parts, thread)->kind;
        left &= left - 1;
        if (is_for_all(kind) || is_over_active(kind) || kind == VGC_SITE_YIELD)
            continue;
        uint32_t needed = (mask_of(parts, thread) | 1u << lane) & parts->live[warp];
        if ((needed & ~parts->waits[warp]) == 0 && alike(parts, warp, needed, thread) == needed)
            exchange_group(parts, warp, needed);
        left &= parts->waits[warp];
    }
}

/* The first site, in the kernel's order, of an operation over the active lanes that lanes wait at; 0: no lane does. */
static uint32_t first_active(const struct parts *parts, uint32_t warp)
{
    uint32_t first = 0;
    for (uint32_t left = parts->waits[warp]; left != 0; left &= left - 1) {
        uint32_t site = parts->pe->ctx.next[warp * VGC_CPU_WARP + (uint32_t)__builtin_ctz(left)];
        if (is_over_active(parts->sites[site].kind) && (first == 0 || site < first))
            first = site;
    }
    return first;
}

/* Releases lanes at the same site of an operation over the active lanes: those that are behind all others. */
static void release_active(struct parts *parts, uint32_t warp)
{
    uint32_t base = warp * VGC_CPU_WARP;
    uint32_t site = first_active(parts, warp), members = 0;
    for (uint32_t left = parts->waits[warp]; left != 0; left &= left - 1)
        if (parts->pe->ctx.next[base + (uint32_t)__builtin_ctz(left)] == site)
            members |= 1u << (uint32_t)__builtin_ctz(left);
    if (site != 0)
        exchange_group(parts, warp, members);
}

/* Notes the sites that a warp's lanes in [first, last) have reached. */
static void note_arrival(struct parts *parts, uint32_t warp, uint32_t first, uint32_t last, int32_t reached)
{
    uint32_t *next = parts->pe->ctx.next;
    for (uint32_t thread = first; thread < last; thread++) {
        uint32_t bit = 1u << (thread % VGC_CPU_WARP);
        if (reached != VGC_REGION_DIVERGED)
            next[thread] = (uint32_t)reached;
        if (next[thread] == VGC_REGION_EXIT)
            parts->live[warp] &= ~bit;
        else
            parts->waits[warp] |= bit;
    }
}

/* Runs the lanes that may go on; neighbours at the same site run together. */
static void run_ready(struct parts *parts, uint32_t warp)
{
    uint32_t base = warp * VGC_CPU_WARP;
    for (uint32_t ready; (ready = parts->live[warp] & ~parts->waits[warp]) != 0;) {
        uint32_t first = (uint32_t)__builtin_ctz(ready);
        uint32_t last = first + 1;
        uint32_t site = parts->pe->ctx.next[base + first];
        while (last < VGC_CPU_WARP && (ready >> last & 1) != 0 && parts->pe->ctx.next[base + last] == site)
            last++;
        int32_t reached = cpu_run_region(parts->pe, &parts->sites[site], base + first, base + last);
        note_arrival(parts, warp, base + first, base + last, reached);
    }
}

/* Runs a warp until all its threads have ended or wait for other warps. */
static void run_warp(struct parts *parts, uint32_t warp)
{
    do {
        run_ready(parts, warp);
        release_groups(parts, warp);
        if ((parts->live[warp] & ~parts->waits[warp]) == 0)
            release_active(parts, warp);
    } while ((parts->live[warp] & ~parts->waits[warp]) != 0);
}

static __attribute__((noreturn)) void deadlock(struct parts *parts)
{
    const uint32_t *dim = parts->pe->ctx.block_dim, *block = parts->pe->ctx.block_idx;
    uint32_t thread = 0, at_barrier = 0, ended = 0;
    for (uint32_t t = parts->num_threads; t-- > 0;)
        if ((parts->live[t / VGC_CPU_WARP] >> t % VGC_CPU_WARP & 1) == 0)
            ended++;
        else if (is_for_all(site_of(parts, t)->kind))
            at_barrier++;
        else
            thread = t;
    cpu_fail_launch(
        parts->pe, VGC_STATUS_DEADLOCK,
        "kernel '%s': threads of block (%u,%u,%u) wait for each other: thread (%u,%u,%u) for warp lanes 0x%08x, "
        "%u threads at barriers, %u ended",
        parts->pe->inner->kernel->name, block[0], block[1], block[2], thread % dim[0], thread / dim[0] % dim[1],
        thread / dim[0] / dim[1], mask_of(parts, thread), at_barrier, ended);
}

static bool is_live(const struct parts *parts, uint32_t thread)
{
    return (parts->live[thread / VGC_CPU_WARP] >> thread % VGC_CPU_WARP & 1) != 0;
}

/* Between rounds of threads that have yielded, perhaps for a block that never comes: a launch that was stopped ends. */
static void pass_time(struct cpu_pe *pe)
{
    if (atomic_load_explicit(&atomic_load(&pe->launch)->stop, memory_order_relaxed))
        _longjmp(pe->leave_block, 1);
    __builtin_ia32_pause();
}

/* Releases all threads that have yielded; false if no thread has. They may wait for another block. */
static bool release_yields(struct parts *parts)
{
    bool found = false;
    for (uint32_t warp = 0; warp < parts->num_warps; warp++)
        for (uint32_t left = parts->waits[warp]; left != 0; left &= left - 1) {
            uint32_t lane = (uint32_t)__builtin_ctz(left);
            if (site_of(parts, warp * VGC_CPU_WARP + lane)->kind == VGC_SITE_YIELD) {
                parts->waits[warp] &= ~(1u << lane);
                found = true;
            }
        }
    if (found)
        pass_time(parts->pe);
    return found;
}

/* True if all live threads have reached a barrier of the grid, or of the cluster. */
static bool is_at_grid(const struct parts *parts)
{
    uint32_t kind = 0;
    for (uint32_t thread = 0; thread < parts->num_threads; thread++) {
        if (!is_live(parts, thread))
            continue;
        uint32_t reached = site_of(parts, thread)->kind;
        if (!is_beyond_block(reached) || (kind != 0 && kind != reached))
            return false;
        kind = reached;
    }
    return true;
}

/* Releases the barrier: all live threads have reached it. */
static void release_barrier(struct parts *parts)
{
    struct vgc_cpu_ctx *ctx = &parts->pe->ctx;
    uint32_t count = 0, all = 1;
    for (uint32_t thread = 0; thread < parts->num_threads; thread++) {
        if (!is_live(parts, thread))
            continue;
        if (!is_barrier(site_of(parts, thread)->kind))
            deadlock(parts);
        if (site_of(parts, thread)->kind != VGC_SITE_BARRIER) {
            count = reduce(VGC_SITE_BARRIER_COUNT, count, ctx->value32[thread]);
            all = reduce(VGC_SITE_BARRIER_AND, all, ctx->value32[thread]);
        }
    }
    for (uint32_t thread = 0; thread < parts->num_threads; thread++) {
        uint32_t kind = site_of(parts, thread)->kind;
        ctx->result32[thread] = kind == VGC_SITE_BARRIER_COUNT ? count
                                : kind == VGC_SITE_BARRIER_AND ? all
                                                               : count != 0;
    }
    memset(parts->waits, 0, sizeof(parts->waits));
    if (parts->pe->is_checked)
        cpu_race_barrier(parts->pe);
}

/* Site at which the block is together again: all live threads are neighbours there; otherwise NULL. */
static const struct vgc_cpu_site *together(const struct parts *parts, uint32_t *first, uint32_t *last)
{
    const uint32_t *next = parts->pe->ctx.next;
    uint32_t from = 0, to;
    while (from < parts->num_threads && !is_live(parts, from))
        from++;
    for (to = from; to < parts->num_threads && is_live(parts, to); to++)
        if (next[to] != next[from])
            return NULL;
    for (uint32_t thread = to; thread < parts->num_threads; thread++)
        if (is_live(parts, thread))
            return NULL;
    *first = from;
    *last = to;
    return &parts->sites[next[from]];
}

static void set_next(struct vgc_cpu_ctx *ctx, uint32_t first, uint32_t last, uint32_t site)
{
    for (uint32_t thread = first; thread < last; thread++)
        ctx->next[thread] = site;
}

/* The block's parts, by ctx->next. All live threads wait. */
static struct parts part(struct cpu_pe *pe, const struct cpu_launch *launch)
{
    struct parts parts = {.pe = pe, .sites = launch->kernel->sites, .num_threads = launch->num_threads};
    parts.num_warps = (parts.num_threads + VGC_CPU_WARP - 1) / VGC_CPU_WARP;
    for (uint32_t warp = 0; warp < parts.num_warps; warp++) {
        uint32_t base = warp * VGC_CPU_WARP;
        uint32_t end = base + VGC_CPU_WARP < parts.num_threads ? base + VGC_CPU_WARP : parts.num_threads;
        parts.live[warp] = lanes_in(warp, 0, parts.num_threads);
        note_arrival(&parts, warp, base, end, VGC_REGION_DIVERGED);
    }
    return parts;
}

/* Runs the block while it is apart. Returns the site where the live threads, [*first, *last), are together again and
 * may go on, NULL when all have ended or are at a barrier of the grid. */
static const struct vgc_cpu_site *run_apart(struct parts *parts, uint32_t *first, uint32_t *last)
{
    for (;;) {
        uint32_t alive = 0;
        for (uint32_t warp = 0; warp < parts->num_warps; warp++) {
            release_groups(parts, warp);
            if ((parts->live[warp] & ~parts->waits[warp]) == 0)
                release_active(parts, warp);
            run_warp(parts, warp);
            alive |= parts->live[warp];
        }
        if (alive == 0)
            return NULL;
        if (!release_yields(parts)) {
            parts->at_grid = is_at_grid(parts);
            if (parts->at_grid)
                return NULL;
            release_barrier(parts);
        }
        const struct vgc_cpu_site *site = together(parts, first, last);
        if (site != NULL)
            return site;
    }
}

/* ---- the block together ------------------------------------------------------------------------------------- */

/* Notes for a checked program that the block, or each of its warps, has waited. */
static void note_wait(struct cpu_pe *pe, uint32_t kind, uint32_t first, uint32_t last)
{
    if (is_barrier(kind))
        cpu_race_barrier(pe);
    else if (orders_memory(kind))
        for (uint32_t warp = first / VGC_CPU_WARP; warp * VGC_CPU_WARP < last; warp++)
            cpu_race_warp(pe, warp, lanes_in(warp, first, last));
}

static void exchange_together(struct vgc_cpu_ctx *ctx, const struct vgc_cpu_site *site, uint32_t first, uint32_t last)
{
    if (is_barrier(site->kind)) {
        barrier_together(ctx, site->kind, first, last);
        return;
    }
    if (site->kind == VGC_SITE_SYNCWARP || site->kind == VGC_SITE_STEP)
        return;
    if (site->kind == VGC_SITE_YIELD)
        return;
    for (uint32_t warp = first / VGC_CPU_WARP; warp * VGC_CPU_WARP < last; warp++)
        cpu_exchange(ctx, site, warp, lanes_in(warp, first, last));
}

/* True if the operation's mask has all lanes, or makes no difference. Other masks make several groups of a warp, which
 * run apart. Of __syncwarp() only checks want to know the groups. */
static bool is_whole(const struct cpu_pe *pe, const struct vgc_cpu_site *site)
{
    return is_barrier(site->kind) || is_over_active(site->kind) || site->kind == VGC_SITE_YIELD ||
           (site->kind == VGC_SITE_SYNCWARP && !pe->is_checked) ||
           ((site->flags & VGC_SITE_CONST_MASK) != 0 && site->mask == ~0u);
}

/* Runs the block while it is together, from `site` on, and whenever it is together again; true at a barrier of the
 * grid. */
static bool run_together(struct cpu_pe *pe, const struct cpu_launch *launch, const struct vgc_cpu_site *site,
                         uint32_t first, uint32_t last)
{
    const struct vgc_cpu_site *sites = launch->kernel->sites;
    while (site != NULL) {
        int32_t reached = cpu_run_region(pe, site, first, last);
        if (pe->num_waiting != 0 && reached != VGC_REGION_DIVERGED)
            cpu_run_children(pe);
        if (reached == VGC_REGION_EXIT)
            return false;
        if (reached != VGC_REGION_DIVERGED && is_whole(pe, &sites[reached])) {
            site = &sites[reached];
            if (pe->is_checked)
                note_wait(pe, site->kind, first, last);
            if (site->kind == VGC_SITE_YIELD)
                pass_time(pe);
            exchange_together(&pe->ctx, site, first, last);
            continue;
        }
        if (reached != VGC_REGION_DIVERGED)
            set_next(&pe->ctx, first, last, (uint32_t)reached);
        set_next(&pe->ctx, 0, first, VGC_REGION_EXIT);
        set_next(&pe->ctx, last, launch->num_threads, VGC_REGION_EXIT);
        if (reached != VGC_REGION_DIVERGED && is_beyond_block(sites[reached].kind))
            return true;
        struct parts parts = part(pe, launch);
        site = run_apart(&parts, &first, &last);
        if (pe->num_waiting != 0)
            cpu_run_children(pe);
        if (parts.at_grid)
            return true;
    }
    return false;
}

void cpu_run_block(struct cpu_pe *pe, const struct cpu_launch *launch)
{
    if (pe->is_checked)
        cpu_race_block(pe);
    run_together(pe, launch, launch->kernel->sites, 0, launch->num_threads);
}

void cpu_run_strip(struct cpu_pe *pe, const struct cpu_launch *launch, uint32_t blocks)
{
    pe->ctx.row_threads = pe->ctx.block_dim[0] * blocks;
    cpu_run_region(pe, launch->kernel->sites, 0, launch->num_threads * blocks);
    pe->ctx.row_threads = pe->ctx.block_dim[0];
    if (pe->num_waiting != 0)
        cpu_run_children(pe);
}

bool cpu_run_to_grid(struct cpu_pe *pe, const struct cpu_launch *launch, bool begun)
{
    const struct vgc_cpu_site *site = launch->kernel->sites;
    uint32_t first = 0, last = launch->num_threads;
    if (pe->is_checked)
        cpu_race_block(pe);
    if (begun) {
        struct parts parts = part(pe, launch);
        memset(parts.waits, 0, sizeof(parts.waits));
        site = together(&parts, &first, &last);
        if (site == NULL)
            site = run_apart(&parts, &first, &last);
        if (pe->num_waiting != 0)
            cpu_run_children(pe);
        if (parts.at_grid)
            return true;
    }
    return run_together(pe, launch, site, first, last);
}
