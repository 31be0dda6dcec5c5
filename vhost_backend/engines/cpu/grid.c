/* A launch on its way: what is launched, with the grids that wait for its end, and a block of it on a PE. */
#include "cpu_check.h"
#include "cpu_engine.h"

#include <stdlib.h>
#include <string.h>

void cpu_launch_set(struct cpu_launch *launch, const struct cpu_grid *what, uint32_t num_pes)
{
    uint64_t blocks = (uint64_t)what->grid[0] * what->grid[1] * what->grid[2];
    launch->what = *what;
    launch->kernel = what->kernel;
    launch->num_blocks = blocks;
    launch->num_threads = what->block[0] * what->block[1] * what->block[2];
    launch->num_pes = num_pes;
    launch->phase = 0;
    launch->is_of_clusters = false;
    atomic_store(&launch->num_at_cluster, 0);
    atomic_store(&launch->num_parked, 0);
    atomic_store(&launch->num_leftovers, 0);
    atomic_store(&launch->next_block, 0);
}

/* ---- behind the grid that launches --------------------------------------------------------------------------- */

/* Gives back what the tail takes of its root's bounds. */
static void free_tail(struct cpu_launch *root, struct cpu_tail *tail)
{
    if (tail == NULL)
        return;
    atomic_fetch_sub(&root->num_tails, 1);
    atomic_fetch_sub(&root->tail_bytes, tail->grid.kernel->param_bytes);
    free(tail);
}

bool cpu_add_tail(struct cpu_engine *engine, struct cpu_launch *launch, const struct cpu_grid *what)
{
    uint32_t size = what->kernel->param_bytes;
    struct cpu_launch *root = launch->root;
    bool fits = atomic_fetch_add(&root->num_tails, 1) < CPU_MAX_TAILS;
    fits = atomic_fetch_add(&root->tail_bytes, size) + size <= CPU_MAX_TAIL_BYTES && fits;
    struct cpu_tail *tail = fits ? aligned_alloc(16, sizeof(*tail) + ((size + 15u) & ~15u)) : NULL;
    if (tail == NULL) {
        atomic_fetch_sub(&root->num_tails, 1);
        atomic_fetch_sub(&root->tail_bytes, size);
        return false;
    }
    *tail = (struct cpu_tail){.grid = *what};
    memcpy(tail->params, what->params, size);
    tail->grid.params = tail->params;
    pthread_mutex_lock(&engine->lock);
    struct cpu_tails *tails = &launch->tails;
    *(tails->last != NULL ? &tails->last->next : &tails->first) = tail;
    tails->last = tail;
    pthread_mutex_unlock(&engine->lock);
    return true;
}

/* Puts what the ended grid has launched before what was launched earlier. */
static void merge_tails(struct cpu_launch *launch)
{
    struct cpu_tails *new = &launch->tails, *old = &launch->later;
    if (new->first == NULL)
        return;
    new->last->next = old->first;
    old->first = new->first;
    old->last = old->last != NULL ? old->last : new->last;
    *new = (struct cpu_tails){0};
}

bool cpu_next_tail(struct cpu_launch *launch, uint32_t num_pes)
{
    if (atomic_load(&launch->stop))
        return false;
    free_tail(launch->root, launch->running);
    launch->running = NULL;
    merge_tails(launch);
    struct cpu_tail *tail = launch->later.first;
    if (tail == NULL)
        return false;
    cpu_leave_workspace(launch);
    launch->slot_bytes = 0;
    launch->later.first = tail->next;
    launch->later.last = tail->next != NULL ? launch->later.last : NULL;
    launch->running = tail;
    cpu_launch_set(launch, &tail->grid, num_pes);
    return true;
}

void cpu_drop_tails(struct cpu_launch *launch)
{
    merge_tails(launch);
    for (struct cpu_tail *tail = launch->later.first, *next; tail != NULL; tail = next) {
        next = tail->next;
        free_tail(launch->root, tail);
    }
    free_tail(launch->root, launch->running);
    launch->running = NULL;
    launch->later = (struct cpu_tails){0};
}

/* ---- a block on a PE ----------------------------------------------------------------------------------------- */

void cpu_drop_frame(struct cpu_pe *pe)
{
    if (pe->frame != NULL)
        cpu_unmap_guarded(pe->frame, pe->frame_bytes, CPU_GUARD);
    pe->frame = NULL;
    pe->frame_bytes = 0;
}

void cpu_place_block(struct cpu_pe *pe, const struct cpu_launch *launch, uint64_t index)
{
    const uint32_t *grid = launch->what.grid;
    pe->ctx.block_idx[0] = (uint32_t)(index % grid[0]);
    pe->ctx.block_idx[1] = (uint32_t)(index / grid[0] % grid[1]);
    pe->ctx.block_idx[2] = (uint32_t)(index / grid[0] / grid[1]);
}

/* Makes room for the values that threads keep across waits. */
bool cpu_reserve_frame(struct cpu_pe *pe, size_t needed)
{
    if (needed <= pe->frame_bytes)
        return true;
    needed = needed < CPU_FRAME_BYTES ? CPU_FRAME_BYTES : needed;
    uint8_t *frame = cpu_map_guarded(needed, CPU_GUARD);
    if (frame == NULL)
        return false;
    cpu_drop_frame(pe);
    pe->frame = frame;
    pe->frame_bytes = needed;
    return true;
}

/* Makes room for what checked kernels note. */
static bool reserve_checks(struct cpu_pe *pe, const struct cpu_launch *launch)
{
    bool is_shared_noted = (launch->kernel->flags & (VGC_CPU_KERNEL_RACECHECK | VGC_CPU_KERNEL_INITCHECK)) != 0;
    size_t needed = is_shared_noted ? (size_t)cpu_dynamic_offset(launch->kernel) + launch->what.shared_bytes : 0;
    if (pe->checks == NULL)
        pe->checks = calloc(1, sizeof(*pe->checks));
    if (pe->checks == NULL || needed <= pe->checks->num_cells)
        return pe->checks != NULL;
    free(pe->checks->cells);
    pe->checks->cells = calloc(needed, sizeof(*pe->checks->cells));
    pe->checks->num_cells = pe->checks->cells != NULL ? needed : 0;
    return pe->checks->cells != NULL;
}

void cpu_drop_checks(struct cpu_checks **checks)
{
    if (*checks != NULL)
        free((*checks)->cells);
    free(*checks);
    *checks = NULL;
}

bool cpu_prepare(struct cpu_pe *pe, const struct cpu_launch *launch)
{
    const struct cpu_grid *what = &launch->what;
    struct vgc_cpu_ctx *ctx = &pe->ctx;
    size_t shared = cpu_dynamic_offset(launch->kernel) + ((what->shared_bytes + 255u) & ~255u);
    ctx->stride = (launch->num_threads + 63) & ~63u;
    if (!cpu_reserve_frame(pe, (size_t)launch->kernel->frame_bytes * ctx->stride))
        return false;
    pe->is_checked = (launch->kernel->flags & VGC_CPU_KERNEL_CHECKS) != 0;
    if (pe->is_checked && !reserve_checks(pe, launch))
        return false;
    ctx->frame = pe->frame;
    ctx->shared = pe->shared + ((VGC_CPU_MAX_SHARED - shared) & ~(size_t)255); /* ends at the guard page */
    ctx->dynamic_shared = ctx->shared + cpu_dynamic_offset(launch->kernel);
    ctx->params = what->params;
    memcpy(ctx->block_dim, what->block, sizeof(ctx->block_dim));
    memcpy(ctx->grid_dim, what->grid, sizeof(ctx->grid_dim));
    memcpy(ctx->cluster_dim, launch->kernel->cluster, sizeof(ctx->cluster_dim));
    ctx->row_threads = what->block[0];
    ctx->slot_bytes = VGC_CPU_MAX_SHARED;
    return true;
}
