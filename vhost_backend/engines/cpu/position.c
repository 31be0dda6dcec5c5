/* Positions: the processing element that the calling thread serves, and the CUDA thread that runs on it. */
#include "cpu_engine.h"

#include <stdio.h>
#include <string.h>

static __thread struct cpu_pe *current_pe;

struct cpu_pe *cpu_current_pe(void)
{
    return current_pe;
}

void cpu_set_current_pe(struct cpu_pe *pe)
{
    current_pe = pe;
}

/* Position of a thread by its number among those of the blocks that run as one. */
static void thread_position(const struct cpu_pe *pe, uint32_t linear, uint32_t position[3])
{
    const struct vgc_cpu_ctx *ctx = &pe->ctx;
    position[0] = linear % ctx->row_threads;
    position[1] = linear / ctx->row_threads % ctx->block_dim[1];
    position[2] = linear / ctx->row_threads / ctx->block_dim[1];
}

/* Position of the thread that runs, as far as it is known, in the blocks that run as one. */
static void find_thread(const struct cpu_pe *pe, uint32_t position[3])
{
    uint32_t flags = pe->site != NULL ? pe->site->flags : 0;
    if (pe->locating)
        thread_position(pe, pe->located, position);
    else if ((flags & (VGC_SITE_KEEPS_POSITION | VGC_SITE_KEEPS_NEIGHBOUR)) == 0)
        thread_position(pe, pe->first, position);
    else
        memcpy(position, pe->ctx.tid, sizeof(pe->ctx.tid));
}

/* True if it is that thread or one of the next. */
static bool is_vague(const struct cpu_pe *pe)
{
    uint32_t flags = pe->site != NULL ? pe->site->flags : 0;
    if (pe->locating || (flags & VGC_SITE_KEEPS_POSITION) != 0)
        return false;
    return (flags & VGC_SITE_KEEPS_NEIGHBOUR) != 0 || pe->last - pe->first > 1;
}

void cpu_locate(const struct cpu_pe *pe, uint32_t block[3], uint32_t thread[3])
{
    uint32_t width = pe->ctx.block_dim[0];
    find_thread(pe, thread);
    memcpy(block, pe->ctx.block_idx, sizeof(pe->ctx.block_idx));
    block[0] += thread[0] / width;
    thread[0] %= width;
}

void cpu_describe(const struct cpu_pe *pe, char *text, uint32_t size)
{
    uint32_t block[3], thread[3];
    const struct cpu_launch *launch = pe->inner;
    const char *name = launch != NULL ? launch->kernel->name : "?";
    cpu_locate(pe, block, thread);
    snprintf(text, size, "%skernel '%s', block (%u,%u,%u), thread (%u,%u,%u)%s",
             pe->in_hook ? "a hook of loaded firmware, called by " : "", name, block[0], block[1], block[2], thread[0],
             thread[1], thread[2], is_vague(pe) ? " or one of the next" : "");
}

uint32_t cpu_warp_of(const struct cpu_pe *pe)
{
    const uint32_t *dim = pe->ctx.block_dim;
    uint32_t thread[3];
    find_thread(pe, thread);
    return (thread[0] % dim[0] + dim[0] * (thread[1] + dim[1] * thread[2])) / VGC_CPU_WARP;
}

uint32_t cpu_blocks_before(const struct cpu_pe *pe)
{
    uint32_t thread[3];
    find_thread(pe, thread);
    return thread[0] / pe->ctx.block_dim[0];
}
