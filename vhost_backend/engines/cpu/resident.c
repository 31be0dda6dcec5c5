/* Resident grids: launches of kernels whose blocks wait for each other at barriers of the grid, or of their cluster.
 *
 * The PEs run every block up to its first such barrier, then every block on to its second one, and so on: a phase ends
 * when all blocks have reached the barrier or their end. Between phases the state of a block is in its slot of the
 * launch's workspace: the site of each thread, the values that live across sites, and shared memory. Kernels keep
 * pointers to both kinds of memory, so a block runs in its slot, whichever PE it is on. The slots of a cluster lie one
 * behind the other, in the order of their ranks.
 *
 * In a phase each block passes one barrier, so those of a cluster have all come to its next one at the end. While any
 * block waits for its cluster, those that wait for the grid stay where they are. */
#include "cpu_engine.h"

#include <string.h>
#include <sys/mman.h>

enum {
    PAGE = 4096,
    LINE = 64,
    MOST_GUARDED = 4096, /* blocks: a guard takes two of the process's mappings, of which there are 65530 */
};

/* A slot, from its begin: `next` of each thread, frame, shared memory to the end of a page, inaccessible page. */
struct slot {
    size_t frame;
    size_t shared;
    size_t guard;
    size_t bytes;
};

static size_t round_up(size_t size, size_t to)
{
    return (size + to - 1) & ~(to - 1);
}

static struct slot lay_out(const struct vgc_cpu_kernel_desc *kernel, uint32_t num_threads, uint32_t dynamic_bytes)
{
    size_t stride = round_up(num_threads, 64);
    size_t shared = cpu_dynamic_offset(kernel) + round_up(dynamic_bytes, 256);
    struct slot slot;
    slot.frame = round_up(num_threads * sizeof(uint32_t), LINE);
    slot.guard = round_up(slot.frame + kernel->frame_bytes * stride + round_up(shared, 256), PAGE);
    slot.shared = (slot.guard - shared) & ~(size_t)255;
    slot.bytes = slot.guard + CPU_GUARD;
    return slot;
}

size_t cpu_slot_bytes(const struct vgc_cpu_kernel_desc *kernel, uint32_t num_threads, uint32_t dynamic_shared_bytes)
{
    return (kernel->flags & VGC_CPU_KERNEL_RESIDENT) == 0 ? 0
                                                          : lay_out(kernel, num_threads, dynamic_shared_bytes).bytes;
}

uint64_t cpu_resident_bytes(const struct vgc_op *op)
{
    uint64_t slot =
        cpu_slot_bytes(op->kernel->engine_private, op->block[0] * op->block[1] * op->block[2], op->shared_bytes);
    uint64_t bytes;
    if (slot == 0)
        return 0;
    uint64_t blocks = (uint64_t)op->grid[0] * op->grid[1];
    if (__builtin_mul_overflow(blocks, op->grid[2], &blocks) || __builtin_mul_overflow(blocks, slot, &bytes))
        return UINT64_MAX;
    return bytes;
}

/* Takes up where each thread of a block waits. Kernels may have written there: a site that does not exist ends the
 * launch. */
static void take_up(struct cpu_pe *pe, const struct cpu_launch *launch, const uint32_t *next)
{
    uint32_t num_sites = launch->kernel->num_sites;
    for (uint32_t thread = 0; thread < launch->num_threads; thread++) {
        uint32_t site = next[thread];
        if (site >= num_sites)
            cpu_fail_launch(pe, VGC_STATUS_FAULT, "kernel '%s' has overwritten the state of block (%u,%u,%u)",
                            launch->kernel->name, pe->ctx.block_idx[0], pe->ctx.block_idx[1], pe->ctx.block_idx[2]);
        pe->ctx.next[thread] = site;
    }
}

/* Number of a block's slot. */
static uint64_t slot_of(const struct vgc_cpu_ctx *ctx)
{
    uint64_t cluster = 0, rank = 0, size = 1;
    for (int axis = 2; axis >= 0; axis--) {
        uint32_t dim = ctx->cluster_dim[axis];
        cluster = cluster * (ctx->grid_dim[axis] / dim) + ctx->block_idx[axis] / dim;
        rank = rank * dim + ctx->block_idx[axis] % dim;
        size *= dim;
    }
    return cluster * size + rank;
}

/* True if the block waits for its cluster. Its live threads are all at barriers of one kind. */
static bool is_at_cluster(const struct cpu_launch *launch, const uint32_t *next)
{
    uint32_t thread = 0;
    while (thread < launch->num_threads && next[thread] == VGC_REGION_EXIT)
        thread++;
    return thread < launch->num_threads && launch->kernel->sites[next[thread]].kind == VGC_SITE_CLUSTER;
}

static void note_parked(struct cpu_launch *launch, const uint32_t *next)
{
    atomic_fetch_add(&launch->num_parked, 1);
    if (is_at_cluster(launch, next))
        atomic_fetch_add(&launch->num_at_cluster, 1);
}

void cpu_run_resident(struct cpu_pe *pe, struct cpu_launch *launch)
{
    struct vgc_cpu_ctx *ctx = &pe->ctx;
    struct slot slot = lay_out(launch->kernel, launch->num_threads, launch->what.shared_bytes);
    uint8_t *base = (uint8_t *)(uintptr_t)launch->op->workspace + slot_of(ctx) * slot.bytes;
    uint32_t *next = (uint32_t *)(void *)base;
    bool begun = launch->phase != 0;
    if (begun && next[0] == UINT32_MAX)
        return;
    if (begun)
        take_up(pe, launch, next);
    if (begun && launch->is_of_clusters && !is_at_cluster(launch, ctx->next))
        return note_parked(launch, ctx->next);
    if (!begun && launch->num_blocks <= MOST_GUARDED) /* overruns are not found without memory for one more mapping */
        (void)mprotect(base + slot.guard, CPU_GUARD, PROT_NONE);
    ctx->frame = base + slot.frame;
    ctx->shared = base + slot.shared;
    ctx->dynamic_shared = ctx->shared + cpu_dynamic_offset(launch->kernel);
    ctx->slot_bytes = slot.bytes;
    if (cpu_run_to_grid(pe, launch, begun)) {
        memcpy(next, ctx->next, launch->num_threads * sizeof(*next));
        note_parked(launch, ctx->next);
    } else {
        next[0] = UINT32_MAX; /* the block has ended */
    }
}

bool cpu_next_phase(struct cpu_launch *launch)
{
    if (atomic_load(&launch->num_parked) == 0 || atomic_load(&launch->stop))
        return false;
    launch->phase++;
    launch->is_of_clusters = atomic_load(&launch->num_at_cluster) != 0;
    atomic_store(&launch->num_at_cluster, 0);
    atomic_store(&launch->num_parked, 0);
    atomic_store(&launch->next_block, 0);
    return true;
}

static bool make_writable(const struct vgc_op *op, uint64_t size)
{
    return mprotect((void *)(uintptr_t)op->workspace, size, PROT_READ | PROT_WRITE) == 0;
}

/* True once a workspace has kept its guards: launches that got it before that was known find them there. */
static atomic_bool guards_stay;

bool cpu_enter_workspace(const struct vgc_op *op, uint64_t size)
{
    return op->workspace != 0 && make_writable(op, size);
}

bool cpu_guards_stay(void)
{
    return atomic_load_explicit(&guards_stay, memory_order_relaxed);
}

void cpu_leave_workspace(const struct cpu_launch *launch)
{
    if (launch->slot_bytes != 0 && !make_writable(launch->op, launch->num_blocks * launch->slot_bytes)) {
        atomic_store_explicit(&guards_stay, true, memory_order_relaxed);
        launch->op->workspace = 0;
    }
}
