/* Grids that kernels launch (dynamic parallelism).
 *
 * A grid in any stream but cudaStreamTailLaunch runs on the PE that launches it, all of its blocks and theirs, when the
 * threads of the launching block have come to their next barrier or their end, or one of them waits for its children.
 * So it sees what its parent has written, also what other threads of the block write without a barrier before the
 * launch: on a GPU, where a launch takes microseconds, programs get away with that. Until then it waits in the level
 * that keeps its parent's state while it runs; grids at one depth share the level's memory, as they run one after the
 * other. Grids in cudaStreamTailLaunch wait in a list of the grid that launches them; when that has ended, its launch
 * becomes the next of them. */
#include "cpu_engine.h"

#include <stdlib.h>
#include <string.h>

/* Values of cudaError_t. */
enum {
    NO_ERROR = 0,
    OUT_OF_MEMORY = 2,
    INVALID_CONFIGURATION = 9,
    DEPTH_EXCEEDED = 65,
    PENDING_EXCEEDED = 69,
    NOT_SUPPORTED = 801,
};

enum { LEAST_STACK = 256 << 10 }; /* bytes that a grid finds */

enum { TAIL_STREAM = 3 }; /* cudaStreamTailLaunch of driver_types.h */

enum { WAITING_BYTES = 40 << 10 }; /* for grids that wait, at least one with the most parameters */

/* A grid that waits for its parent's threads; its parameters follow, and the next one. */
struct waiting_grid {
    _Alignas(16) struct cpu_grid what;
    uint32_t bytes; /* with its parameters */
};

/* State of a grid whose kernel has launched a child, and memory of the child. */
struct cpu_level {
    struct vgc_cpu_ctx ctx;
    const struct vgc_cpu_site *site;
    uint32_t first;
    uint32_t last;
    struct cpu_launch *parent;
    int launch_error; /* the parent's */
    bool is_checked;
    struct cpu_launch child;
    uint32_t waiting_bytes;
    _Alignas(16) uint8_t waiting[WAITING_BYTES];
    /* of the child while the parent runs, of the parent while the child runs */
    uint8_t *shared;
    uint8_t *frame;
    size_t frame_bytes;
    struct cpu_checks *checks;
};

static struct cpu_level *level_of(struct cpu_pe *pe)
{
    struct cpu_level **level = &pe->levels[pe->depth];
    if (*level == NULL && (*level = aligned_alloc(CPU_CACHE_LINE, sizeof(**level))) != NULL)
        memset(*level, 0, sizeof(**level));
    if (*level != NULL && (*level)->shared == NULL)
        (*level)->shared = cpu_map_guarded(VGC_CPU_MAX_SHARED, CPU_SHARED_GUARD);
    return *level != NULL && (*level)->shared != NULL ? *level : NULL;
}

static void swap_memory(struct cpu_pe *pe, struct cpu_level *level)
{
    uint8_t *shared = pe->shared, *frame = pe->frame;
    size_t frame_bytes = pe->frame_bytes;
    struct cpu_checks *checks = pe->checks;
    pe->shared = level->shared;
    pe->frame = level->frame;
    pe->frame_bytes = level->frame_bytes;
    pe->checks = level->checks;
    level->checks = checks;
    level->shared = shared;
    level->frame = frame;
    level->frame_bytes = frame_bytes;
}

static void enter(struct cpu_pe *pe, struct cpu_level *level)
{
    level->ctx = pe->ctx;
    level->site = pe->site;
    level->first = pe->first;
    level->last = pe->last;
    level->parent = pe->inner;
    level->launch_error = pe->launch_error;
    level->is_checked = pe->is_checked;
    level->child = (struct cpu_launch){
        .op = pe->inner->op, .number = pe->inner->number, .kernel = pe->inner->kernel, .root = pe->inner->root};
    swap_memory(pe, level);
    pe->depth++;
}

static void leave(struct cpu_pe *pe, struct cpu_level *level)
{
    swap_memory(pe, level);
    pe->ctx = level->ctx;
    pe->site = level->site;
    pe->first = level->first;
    pe->last = level->last;
    pe->inner = level->parent;
    pe->launch_error = level->launch_error;
    pe->is_checked = level->is_checked;
    pe->depth--;
}

/* Runs a grid and those behind it; false: there is no memory for its threads. */
static bool run_grids(struct cpu_pe *pe, struct cpu_launch *grid, const struct cpu_grid *what)
{
    struct cpu_launch *root = atomic_load(&pe->launch);
    cpu_launch_set(grid, what, 1);
    pe->inner = grid;
    do {
        if (!cpu_prepare(pe, grid)) {
            cpu_drop_tails(grid);
            return false;
        }
        for (uint64_t block = 0; block < grid->num_blocks; block++) {
            if (atomic_load_explicit(&root->stop, memory_order_relaxed))
                _longjmp(pe->leave_block, 1);
            cpu_place_block(pe, grid, block);
            pe->launch_error = NO_ERROR;
            cpu_run_block(pe, grid);
        }
    } while (cpu_next_tail(grid, 1));
    return true;
}

static int run_child(struct cpu_pe *pe, const struct cpu_grid *what)
{
    if (pe->depth == CPU_MAX_DEPTH)
        return DEPTH_EXCEEDED;
    if ((uint8_t *)__builtin_frame_address(0) - pe->stack_low < LEAST_STACK)
        return OUT_OF_MEMORY;
    struct cpu_level *level = level_of(pe);
    if (level == NULL)
        return OUT_OF_MEMORY;
    enter(pe, level);
    bool done = run_grids(pe, &level->child, what);
    leave(pe, level);
    return done ? NO_ERROR : OUT_OF_MEMORY;
}

/* Runs the grids that wait, in the order of their launches. Returns the first error. */
static int run_waiting(struct cpu_pe *pe)
{
    if (pe->num_waiting == 0)
        return NO_ERROR;
    struct cpu_level *level = pe->levels[pe->depth];
    uint32_t count = pe->num_waiting, at = 0;
    int first = NO_ERROR;
    pe->num_waiting = 0;
    for (; count > 0; count--) {
        const struct waiting_grid *grid = (const struct waiting_grid *)&level->waiting[at];
        int error = run_child(pe, &grid->what);
        first = first != NO_ERROR ? first : error;
        at += grid->bytes;
    }
    level->waiting_bytes = 0;
    return first;
}

void cpu_run_children(struct cpu_pe *pe)
{
    if (run_waiting(pe) != NO_ERROR)
        cpu_fail_launch(pe, VGC_STATUS_RESOURCES_EXHAUSTED, "no memory for a grid that kernel '%s' launches",
                        pe->inner->kernel->name);
}

/* Has a grid run when the threads of the running block have come to their next wait. */
static int add_child(struct cpu_pe *pe, const struct cpu_grid *what)
{
    uint32_t params = what->kernel->param_bytes;
    uint32_t bytes = (uint32_t)sizeof(struct waiting_grid) + ((params + 15u) & ~15u);
    if (pe->depth == CPU_MAX_DEPTH)
        return DEPTH_EXCEEDED;
    struct cpu_level *level = level_of(pe);
    if (level == NULL || bytes > WAITING_BYTES)
        return OUT_OF_MEMORY;
    int error = bytes > WAITING_BYTES - level->waiting_bytes ? run_waiting(pe) : NO_ERROR;
    struct waiting_grid *grid = (struct waiting_grid *)&level->waiting[level->waiting_bytes];
    *grid = (struct waiting_grid){.what = *what, .bytes = bytes};
    memcpy(grid + 1, what->params, params);
    grid->what.params = (const uint8_t *)(grid + 1);
    level->waiting_bytes += bytes;
    pe->num_waiting++;
    return error;
}

void cpu_leave_children(struct cpu_pe *pe)
{
    pe->num_waiting = 0;
    while (pe->depth > 0) { /* a grid has failed */
        struct cpu_level *level = pe->levels[--pe->depth];
        swap_memory(pe, level);
        pe->inner = level->parent;
        cpu_drop_tails(&level->child);
    }
    for (uint32_t depth = 0; depth < CPU_MAX_DEPTH && pe->levels[depth] != NULL; depth++) {
        struct cpu_level *level = pe->levels[depth];
        if (level->shared != NULL)
            cpu_unmap_guarded(level->shared, VGC_CPU_MAX_SHARED, CPU_SHARED_GUARD);
        if (level->frame != NULL)
            cpu_unmap_guarded(level->frame, level->frame_bytes, CPU_GUARD);
        cpu_drop_checks(&level->checks);
        level->waiting_bytes = 0;
        level->shared = level->frame = NULL;
        level->frame_bytes = 0;
    }
}

uint64_t cpu_children_bytes(size_t frame_bytes)
{
    enum { PAGE = 4096, MALLOC = 32 /* around a block */ };
    uint64_t level = sizeof(struct cpu_level) + VGC_CPU_MAX_SHARED + frame_bytes;
    /* no more launches have begun and not ended than there are PEs: these take the oldest that has blocks left */
    uint64_t tails = CPU_MAX_TAILS * (uint64_t)(sizeof(struct cpu_tail) + MALLOC) + CPU_MAX_TAIL_BYTES;
    return CPU_MAX_DEPTH * ((level + PAGE - 1) & ~(uint64_t)(PAGE - 1)) + ((tails + PAGE - 1) & ~(uint64_t)(PAGE - 1));
}

static int add_tail(struct cpu_pe *pe, const struct cpu_grid *what)
{
    return cpu_add_tail(pe->engine, pe->inner, what) ? NO_ERROR : PENDING_EXCEEDED;
}

/* ---- for kernels --------------------------------------------------------------------------------------------- */

static bool is_valid(const struct cpu_grid *what, uint64_t shared_bytes)
{
    uint64_t threads = 1;
    for (int axis = 0; axis < 3; axis++) {
        uint64_t most = axis == 0 ? INT32_MAX : UINT16_MAX;
        if (what->grid[axis] == 0 || what->grid[axis] > most || what->block[axis] == 0 ||
            what->block[axis] > VGC_CPU_MAX_THREADS || (uint64_t)what->grid[axis] * what->block[axis] > INT32_MAX)
            return false;
        threads *= what->block[axis];
        if (what->kernel->block[axis] != 0 && what->kernel->block[axis] != what->block[axis])
            return false;
    }
    uint64_t room = VGC_CPU_MAX_SHARED - CPU_ALIGN;
    return threads <= what->kernel->max_threads && shared_bytes <= room &&
           what->kernel->shared_bytes <= room - shared_bytes;
}

void __vgc_launch(struct cpu_dim grid, struct cpu_dim block, uint64_t shared_bytes, uint64_t stream, uint32_t kernel,
                  const void *params)
{
    struct cpu_pe *pe = cpu_current_pe();
    const struct vgc_cpu_kernel_desc *own = pe->inner->kernel;
    struct cpu_grid what = {.kernel = own - own->index + kernel,
                            .grid = {grid.x, grid.y, grid.z},
                            .block = {block.x, block.y, block.z},
                            .shared_bytes = (uint32_t)shared_bytes,
                            .params = params};
    int error;
    if (!is_valid(&what, shared_bytes))
        error = INVALID_CONFIGURATION;
    else if ((what.kernel->flags & VGC_CPU_KERNEL_RESIDENT) != 0)
        error = NOT_SUPPORTED;
    else
        error = stream == TAIL_STREAM ? add_tail(pe, &what) : add_child(pe, &what);
    atomic_store_explicit(&pe->in_kernel, true, memory_order_release);
    if (error != NO_ERROR)
        pe->launch_error = error;
}

int __vgc_launch_wait(void)
{
    struct cpu_pe *pe = cpu_current_pe();
    int error = run_waiting(pe);
    atomic_store_explicit(&pe->in_kernel, true, memory_order_release);
    if (error != NO_ERROR)
        pe->launch_error = error;
    return error;
}

int __vgc_launch_error(int clear)
{
    struct cpu_pe *pe = cpu_current_pe();
    int error = pe->launch_error;
    if (clear)
        pe->launch_error = NO_ERROR;
    return error;
}

uint32_t __vgc_num_pes(void)
{
    return cpu_current_pe()->engine->base.num_pes;
}
