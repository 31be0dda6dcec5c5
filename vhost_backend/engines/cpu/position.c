/* Positions: the processing element that the calling thread serves, and the CUDA thread that runs on it. */
#include "cpu_engine.h"

#include <stdio.h>

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

void cpu_describe(const struct cpu_pe *pe, char *text, uint32_t size)
{
    const uint32_t *block = pe->ctx.block_idx, *dim = pe->ctx.block_dim;
    uint32_t thread[3] = {pe->ctx.tid[0], pe->ctx.tid[1], pe->ctx.tid[2]};
    const struct cpu_launch *launch = pe->inner;
    const char *name = launch != NULL ? launch->kernel->name : "?";
    uint32_t flags = pe->site != NULL ? pe->site->flags : 0;
    const char *more = (flags & VGC_SITE_KEEPS_NEIGHBOUR) != 0 ? " or one of the next" : "";
    if (pe->locating) {
        thread_position(pe, pe->located, thread);
        more = "";
    } else if ((flags & (VGC_SITE_KEEPS_POSITION | VGC_SITE_KEEPS_NEIGHBOUR)) == 0) {
        thread_position(pe, pe->first, thread);
        more = pe->last - pe->first > 1 ? " or one of the next" : "";
    }
    snprintf(text, size, "kernel '%s', block (%u,%u,%u), thread (%u,%u,%u)%s", name, block[0] + thread[0] / dim[0],
             block[1], block[2], thread[0] % dim[0], thread[1], thread[2], more);
}

uint32_t cpu_warp_of(const struct cpu_pe *pe)
{
    const struct vgc_cpu_ctx *ctx = &pe->ctx;
    uint32_t flags = pe->site != NULL ? pe->site->flags : 0;
    uint32_t thread = pe->first;
    if ((flags & (VGC_SITE_KEEPS_POSITION | VGC_SITE_KEEPS_NEIGHBOUR)) != 0)
        thread = ctx->tid[0] % ctx->block_dim[0] + ctx->block_dim[0] * (ctx->tid[1] + ctx->block_dim[1] * ctx->tid[2]);
    return thread / VGC_CPU_WARP;
}
