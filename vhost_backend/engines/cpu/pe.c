/* Processing elements: threads that take blocks of the oldest launch that has blocks left. */
#define _GNU_SOURCE
#include "cpu_check.h"
#include "cpu_control.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WAKES = 2, /* PEs that one wakes when it joins a launch: all come in few steps */
    CHUNK_TICKS =
        1 << 15,        /* of the time stamp counter, about 10 us: blocks that are taken at once should take as long */
    CHUNK_BLOCKS = 256, /* and should not be more */
    STRIP_LEAST = 64,   /* threads of a row of blocks that run as one, if the grid has them... */
    STRIP_TICKS = 16 * CHUNK_TICKS,   /* ...and they take no longer */
    STRIP_MOST = VGC_CPU_MAX_THREADS, /* threads of a row, so that a launch stops as soon as one of large blocks does */
    STRIP_MOST_OF_ROWS = 256,         /* if blocks have several rows, whose memory should stay in the cache meanwhile */
};

/* ---- taking work -------------------------------------------------------------------------------------------- */

static bool has_blocks(struct cpu_launch *launch)
{
    return !atomic_load_explicit(&launch->stop, memory_order_relaxed) &&
           (atomic_load_explicit(&launch->next_block, memory_order_relaxed) < launch->num_blocks ||
            atomic_load_explicit(&launch->num_leftovers, memory_order_relaxed) != 0);
}

/* Lock held. */
static struct cpu_launch *pick(struct cpu_engine *engine)
{
    for (struct cpu_launch *launch = engine->launches; launch != NULL; launch = launch->next)
        if (has_blocks(launch))
            return launch;
    return NULL;
}

/* True if work is left for more PEs than the one that joins `launch` and those that come. Lock held. */
static bool needs_more(const struct cpu_engine *engine, struct cpu_launch *launch)
{
    uint64_t calls = atomic_load_explicit(&engine->calls, memory_order_relaxed);
    uint64_t left = 0, coming = 1 + calls + engine->waking_pes;
    for (; launch != NULL && left <= coming; launch = launch->next) {
        uint64_t next = atomic_load_explicit(&launch->next_block, memory_order_relaxed);
        if (has_blocks(launch))
            left += atomic_load_explicit(&launch->num_leftovers, memory_order_relaxed) +
                    (next < launch->num_blocks ? launch->num_blocks - next : 0);
    }
    return left > coming;
}

/* Handles a kick of the control system while the PE has no work. Lock held; released meanwhile. */
static void answer_kick(struct cpu_pe *pe)
{
    pe->kicks_seen = pe->engine->kicks;
    if (vgc_ctl_attention(&pe->unit) == 0)
        return;
    pthread_mutex_unlock(&pe->engine->lock);
    cpu_hook_idle(pe);
    pthread_mutex_lock(&pe->engine->lock);
}

void cpu_pes_bound_frames(struct cpu_engine *engine, size_t most)
{
    pthread_mutex_lock(&engine->lock);
    bool smaller = most < engine->frame_most;
    engine->frame_most = most;
    if (smaller)
        cpu_call_all(engine);
    pthread_mutex_unlock(&engine->lock);
}

/* Waits for a launch with blocks left and joins it; NULL when the engine closes. Lock held. */
static struct cpu_launch *join_launch(struct cpu_pe *pe)
{
    struct cpu_engine *engine = pe->engine;
    bool spun = false;
    while (!engine->closing) {
        if (pe->frame_bytes > CPU_FRAME_BYTES && pe->frame_bytes > engine->frame_most)
            cpu_drop_frame(pe);
        bool confined = atomic_load_explicit(&pe->confined, memory_order_relaxed);
        struct cpu_launch *launch = confined ? NULL : pick(engine);
        if (launch != NULL) {
            launch->pes++;
            for (int i = 0; i < WAKES && engine->sleeping_pes != 0 && needs_more(engine, launch); i++)
                cpu_wake_one(engine);
            return launch;
        }
        if (pe->kicks_seen != engine->kicks) {
            answer_kick(pe);
            continue;
        }
        if (!spun && !confined) {
            spun = !cpu_spin_for_call(engine);
            continue;
        }
        cpu_sleep_for_call(engine);
        spun = false;
    }
    return NULL;
}

/* ---- running blocks ----------------------------------------------------------------------------------------- */

/* Moves on by some blocks of a row of the grid, without cpu_place_block's divisions: they cost as much as a small
 * block.
 */
static void next_block(struct cpu_pe *pe, uint32_t blocks)
{
    struct vgc_cpu_ctx *ctx = &pe->ctx;
    ctx->block_idx[0] += blocks;
    if (ctx->block_idx[0] < ctx->grid_dim[0])
        return;
    ctx->block_idx[0] = 0;
    if (++ctx->block_idx[1] < ctx->grid_dim[1])
        return;
    ctx->block_idx[1] = 0;
    ctx->block_idx[2]++;
}

/* Number of blocks to take from `next` on: one at first, then as many as should take CHUNK_TICKS, but no more than four
 * times as many as before; towards the end of the grid fewer again. Long blocks are thus taken one by one, and those
 * that were taken with one that is much longer than they are wait for a short while only. Blocks that run as one are
 * taken for at least a vector or two. */
static uint32_t size_chunk(struct cpu_pe *pe, const struct cpu_launch *launch, uint64_t next)
{
    uint64_t now = __builtin_ia32_rdtsc(), took = (now - pe->chunk_began) | 1; /* counters of two CPUs may differ */
    uint64_t fair = (launch->num_blocks - next) / (2 * (uint64_t)launch->num_pes);
    uint64_t most = fair < CHUNK_BLOCKS ? fair : CHUNK_BLOCKS;
    uint64_t factor = CHUNK_TICKS / took;
    uint64_t wanted = factor == 0 ? pe->chunk * (uint64_t)CHUNK_TICKS / took : pe->chunk * (factor < 4 ? factor : 4);
    uint64_t strip = STRIP_LEAST / pe->ctx.block_dim[0];
    if (pe->runs_strips && wanted < strip && pe->chunk != 0 && took / pe->chunk * strip <= STRIP_TICKS)
        wanted = strip;
    wanted = wanted < most ? wanted : most;
    pe->chunk = wanted < 1 ? 1 : (uint32_t)wanted;
    pe->chunk_began = now;
    return pe->chunk;
}

/* Takes blocks that another PE has left; an empty range if no PE has left any. */
static struct cpu_range take_leftover(struct cpu_engine *engine, struct cpu_launch *launch)
{
    struct cpu_range range = {0, 0};
    pthread_mutex_lock(&engine->lock);
    unsigned left = atomic_load(&launch->num_leftovers);
    if (left != 0) {
        range = launch->leftovers[left - 1];
        atomic_store(&launch->num_leftovers, left - 1);
    }
    pthread_mutex_unlock(&engine->lock);
    return range;
}

/* Takes blocks: first those that other PEs have left, then new ones; an empty range if all are taken. */
static struct cpu_range take_blocks(struct cpu_pe *pe, struct cpu_launch *launch)
{
    struct cpu_range range = {0, 0};
    if (atomic_load_explicit(&launch->num_leftovers, memory_order_relaxed) != 0)
        range = take_leftover(pe->engine, launch);
    uint64_t next = atomic_load_explicit(&launch->next_block, memory_order_relaxed);
    if (range.first == range.last && next < launch->num_blocks) {
        uint32_t chunk = size_chunk(pe, launch, next);
        range.first = atomic_fetch_add(&launch->next_block, chunk);
        range.last = range.first + chunk < launch->num_blocks ? range.first + chunk : launch->num_blocks;
    }
    return range;
}

/* Leaves blocks to other PEs; false if the launch has no room to note them. */
static bool leave_blocks(struct cpu_engine *engine, struct cpu_launch *launch, struct cpu_range range)
{
    pthread_mutex_lock(&engine->lock);
    unsigned count = atomic_load(&launch->num_leftovers);
    if (count < CPU_LEFTOVERS) {
        launch->leftovers[count] = range;
        atomic_store(&launch->num_leftovers, count + 1);
    }
    pthread_mutex_unlock(&engine->lock);
    return count < CPU_LEFTOVERS;
}

/* True if the PE may run `range.first`: the launch is not stopped, and the PE was not confined and has left the range.
 */
static bool goes_on(struct cpu_pe *pe, struct cpu_launch *launch, struct cpu_range range)
{
    if (range.first >= range.last || atomic_load_explicit(&launch->stop, memory_order_relaxed))
        return false;
    return !atomic_load_explicit(&pe->confined, memory_order_relaxed) || !leave_blocks(pe->engine, launch, range);
}

_Static_assert((VGC_CPU_KERNEL_STRIPS & (VGC_CPU_KERNEL_CHECKS | VGC_CPU_KERNEL_PROFILE)) == 0, "a flag of its own");

/* True if neighbouring blocks of the launch may run as one: nobody looks at single blocks. */
static bool allows_strips(const struct cpu_launch *launch)
{
    return (launch->kernel->flags & VGC_CPU_KERNEL_STRIPS) != 0 && launch->slot_bytes == 0;
}

/* Number of blocks from the placed one on that run as one, of at most `left`. */
static uint32_t strip_of(const struct cpu_pe *pe, const struct cpu_launch *launch, uint64_t left)
{
    const struct vgc_cpu_ctx *ctx = &pe->ctx;
    uint32_t most = ctx->grid_dim[0] - ctx->block_idx[0];
    if (!pe->runs_strips)
        return 1;
    uint32_t room = launch->num_threads > ctx->block_dim[0] ? STRIP_MOST_OF_ROWS : STRIP_MOST;
    most = most < room / ctx->block_dim[0] ? most : room / ctx->block_dim[0];
    most = left < most ? (uint32_t)left : most;
    return most < 1 ? 1 : most;
}

static void run_blocks(struct cpu_pe *pe, struct cpu_launch *launch)
{
    uint32_t blocks;
    pe->runs_strips = allows_strips(launch);
    pe->chunk = 0;
    while (has_blocks(launch) && !atomic_load_explicit(&pe->confined, memory_order_relaxed)) {
        struct cpu_range range = take_blocks(pe, launch);
        cpu_place_block(pe, launch, range.first);
        for (; goes_on(pe, launch, range); range.first += blocks, next_block(pe, blocks)) {
            pe->unit.block = range.first;
            bool is_watched = vgc_ctl_attention(&pe->unit) != 0;
            bool attended = is_watched && cpu_hook_block_begin(pe);
            blocks = is_watched ? 1 : strip_of(pe, launch, range.last - range.first);
            if (launch->phase == 0)
                pe->launch_error = 0;
            if (blocks > 1)
                cpu_run_strip(pe, launch, blocks);
            else if (launch->slot_bytes == 0)
                cpu_run_block(pe, launch);
            else
                cpu_run_resident(pe, launch);
            if (attended)
                cpu_hook_block_end(pe);
        }
    }
}

static void work_on(struct cpu_pe *pe, struct cpu_launch *launch)
{
    pe->inner = launch;
    pe->launch_error = 0;
    atomic_store(&pe->launch, launch); /* others may ask now where the PE is */
    cpu_hook_join(pe, launch);
    cpu_profile_begin(pe, launch);
    if (!cpu_prepare(pe, launch)) {
        pthread_mutex_lock(&pe->engine->lock);
        launch->op->status = VGC_STATUS_RESOURCES_EXHAUSTED;
        snprintf(launch->op->error, sizeof(launch->op->error), "no memory for the threads of kernel '%s'",
                 launch->kernel->name);
        pthread_mutex_unlock(&pe->engine->lock);
        atomic_store(&launch->stop, true);
    } else if (_setjmp(pe->leave_block) == 0) {
        run_blocks(pe, launch);
    }
    atomic_store_explicit(&pe->in_kernel, false, memory_order_release);
    cpu_leave_children(pe);
    cpu_profile_end(pe, launch);
    cpu_hook_leave(pe);
    atomic_store(&pe->launch, NULL);
}

static void leave_launch(struct cpu_engine *engine, struct cpu_launch *launch)
{
    launch->pes--;
    bool has_more = has_blocks(launch);
    if (!has_more && launch->pes == 0) {
        has_more = cpu_next_phase(launch) || cpu_next_tail(launch, engine->base.num_pes);
        if (!has_more)
            cpu_launch_finished(engine, launch);
    }
    if (has_more) /* for other PEs: this one was confined, or a phase begins */
        cpu_call_pes(engine, launch->num_blocks);
}

static void *pe_main(void *argument)
{
    struct cpu_pe *pe = argument;
    struct cpu_engine *engine = pe->engine;
    cpu_set_current_pe(pe);
    vgc_cpu_current = &pe->ctx;
    pe->stack_low = (uint8_t *)__builtin_frame_address(0) - CPU_STACK_BYTES;
    stack_t stack = {.ss_sp = pe->signal_stack, .ss_size = CPU_SIGNAL_STACK_BYTES};
    sigaltstack(&stack, NULL);
    pthread_mutex_lock(&engine->lock);
    for (struct cpu_launch *launch; (launch = join_launch(pe)) != NULL;) {
        pthread_mutex_unlock(&engine->lock);
        work_on(pe, launch);
        pthread_mutex_lock(&engine->lock);
        leave_launch(engine, launch);
    }
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

/* ---- life --------------------------------------------------------------------------------------------------- */

static void free_pe(struct cpu_pe *pe)
{
    if (pe->shared != NULL)
        cpu_unmap_guarded(pe->shared, VGC_CPU_MAX_SHARED, CPU_SHARED_GUARD);
    if (pe->signal_stack != NULL)
        cpu_unmap_guarded(pe->signal_stack, CPU_SIGNAL_STACK_BYTES, CPU_GUARD);
    cpu_drop_frame(pe);
    cpu_drop_checks(&pe->checks);
    free(pe->samples);
    for (uint32_t depth = 0; depth < CPU_MAX_DEPTH; depth++)
        free(pe->levels[depth]);
}

/* Starts a thread that takes only signals raised by its own code, and the sampler's. It inherits its name, by which the
 * daemon knows the PEs' threads as soon as the worker is ready. */
static int start_thread(struct cpu_pe *pe)
{
    char name[16], own_name[16] = "";
    sigset_t blocked, before;
    pthread_attr_t attributes;
    snprintf(name, sizeof(name), "vgc-pe%u", pe->ctx.pe);
    pthread_getname_np(pthread_self(), own_name, sizeof(own_name));
    pthread_setname_np(pthread_self(), name);
    sigfillset(&blocked);
    for (size_t i = 0; i < 5; i++)
        sigdelset(&blocked, (int[]){SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGPROF}[i]);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, CPU_STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int error = pthread_create(&pe->thread, &attributes, pe_main, pe);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    pthread_setname_np(pthread_self(), own_name);
    return error;
}

static int start_pe(struct cpu_engine *engine, uint32_t index)
{
    struct cpu_pe *pe = &engine->pes[index];
    pe->engine = engine;
    pe->ctx.pe = index;
    pe->ctx.row_threads = 1;
    for (int axis = 0; axis < 3; axis++)
        pe->ctx.block_dim[axis] = 1;
    pe->modules = &cpu_built_in;
    pe->trying = -1;
    cpu_control_join(pe);
    pe->shared = cpu_map_guarded(VGC_CPU_MAX_SHARED, CPU_SHARED_GUARD);
    pe->signal_stack = cpu_map_guarded(CPU_SIGNAL_STACK_BYTES, CPU_GUARD);
    if (pe->shared == NULL || pe->signal_stack == NULL || !cpu_reserve_frame(pe, CPU_FRAME_BYTES) ||
        start_thread(pe) != 0) {
        free_pe(pe);
        return -1;
    }
    return 0;
}

int cpu_pes_start(struct cpu_engine *engine, char *why)
{
    uint32_t wanted = engine->base.num_pes;
    engine->pes = aligned_alloc(64, (wanted * sizeof(struct cpu_pe) + 63) & ~(size_t)63);
    if (engine->pes == NULL) {
        snprintf(why, VGC_CPU_WHY, "no memory for %u processing elements", wanted);
        return -1;
    }
    memset(engine->pes, 0, wanted * sizeof(struct cpu_pe));
    for (uint32_t index = 0; index < wanted; index++)
        if (start_pe(engine, index) != 0) {
            snprintf(why, VGC_CPU_WHY, "cannot start processing element %u of %u", index, wanted);
            return -1;
        } else {
            engine->started_pes++;
        }
    return 0;
}

void cpu_pes_stop(struct cpu_engine *engine)
{
    cpu_sampler_stop(engine);
    pthread_mutex_lock(&engine->lock);
    engine->closing = true;
    cpu_call_all(engine);
    pthread_mutex_unlock(&engine->lock);
    for (uint32_t i = 0; i < engine->started_pes; i++) {
        pthread_join(engine->pes[i].thread, NULL);
        free_pe(&engine->pes[i]);
    }
    free(engine->pes);
}
