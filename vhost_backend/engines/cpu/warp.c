/* Warp operations: the result of each lane when a group of lanes of a warp has come together. */
#include "cpu_engine.h"

#include <string.h>

static uint32_t arg_of(const struct vgc_cpu_ctx *ctx, const struct vgc_cpu_site *site, uint32_t thread)
{
    return (site->flags & VGC_SITE_CONST_ARG) != 0 ? site->arg : ctx->arg[thread];
}

/* The lane that a shuffle reads, in a warp that is split into segments of `width` lanes. */
static uint32_t source_lane(uint32_t kind, uint32_t lane, uint32_t arg)
{
    uint32_t delta = arg & 0xff;
    uint32_t width = (arg >> 8 & 31) + 1;
    uint32_t first = lane & ~(width - 1);
    uint32_t source;
    switch (kind) {
    case VGC_SITE_SHFL_IDX:
        return first + (delta & (width - 1));
    case VGC_SITE_SHFL_UP:
        return lane >= first + delta ? lane - delta : lane;
    case VGC_SITE_SHFL_DOWN:
        return lane + delta < first + width ? lane + delta : lane;
    default: /* XOR */
        source = lane ^ delta;
        return source < first + width ? source : lane;
    }
}

static void shuffle(struct vgc_cpu_ctx *ctx, const struct vgc_cpu_site *site, uint32_t base, uint32_t members)
{
    for (uint32_t left = members; left != 0; left &= left - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(left);
        uint32_t source = source_lane(site->kind, lane, arg_of(ctx, site, base + lane));
        if ((members >> source & 1) == 0)
            source = lane; /* CUDA leaves the value undefined */
        if ((site->flags & VGC_SITE_WIDE) != 0)
            ctx->result64[base + lane] = ctx->value64[base + source];
        else
            ctx->result32[base + lane] = ctx->value32[base + source];
    }
}

/* Fast path of a shuffle in which all lanes take part, with the same distance; false if it does not apply. */
static bool shuffle_whole(struct vgc_cpu_ctx *ctx, const struct vgc_cpu_site *site, uint32_t base)
{
    uint32_t delta = site->arg & 0xff;
    const uint32_t *value = &ctx->value32[base];
    uint32_t *result = &ctx->result32[base];
    if (site->flags != (VGC_SITE_CONST_ARG | VGC_SITE_CONST_MASK) || site->arg >> 8 != VGC_CPU_WARP - 1)
        return false;
    switch (site->kind) {
    case VGC_SITE_SHFL_DOWN:
        for (uint32_t lane = 0; lane < VGC_CPU_WARP; lane++)
            result[lane] = value[lane];
        for (uint32_t lane = 0; lane + delta < VGC_CPU_WARP; lane++)
            result[lane] = value[lane + delta];
        return true;
    case VGC_SITE_SHFL_XOR:
        for (uint32_t lane = 0; lane < VGC_CPU_WARP; lane++)
            result[lane] = value[lane ^ delta];
        return true;
    case VGC_SITE_SHFL_IDX:
        for (uint32_t lane = 0; lane < VGC_CPU_WARP; lane++)
            result[lane] = value[delta & 31];
        return true;
    default:
        return false;
    }
}

static uint64_t value_of(const struct vgc_cpu_ctx *ctx, const struct vgc_cpu_site *site, uint32_t thread)
{
    return (site->flags & VGC_SITE_WIDE) != 0 ? ctx->value64[thread] : ctx->value32[thread];
}

static void set_result(struct vgc_cpu_ctx *ctx, const struct vgc_cpu_site *site, uint32_t thread, uint32_t result)
{
    if ((site->flags & VGC_SITE_WIDE) != 0)
        ctx->result64[thread] = result;
    else
        ctx->result32[thread] = result;
}

static uint32_t lanes_with(const struct vgc_cpu_ctx *ctx, const struct vgc_cpu_site *site, uint32_t base,
                           uint32_t members, uint64_t value)
{
    uint32_t same = 0;
    for (uint32_t left = members; left != 0; left &= left - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(left);
        same |= (uint32_t)(value_of(ctx, site, base + lane) == value) << lane;
    }
    return same;
}

static void match(struct vgc_cpu_ctx *ctx, const struct vgc_cpu_site *site, uint32_t base, uint32_t members)
{
    for (uint32_t left = members; left != 0; left &= left - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(left);
        uint32_t same = lanes_with(ctx, site, base, members, value_of(ctx, site, base + lane));
        if (site->kind == VGC_SITE_MATCH_ALL && same != members)
            same = 0;
        set_result(ctx, site, base + lane, same);
    }
}

static void vote(struct vgc_cpu_ctx *ctx, uint32_t base, uint32_t members, uint32_t result)
{
    for (uint32_t left = members; left != 0; left &= left - 1)
        ctx->result32[base + (uint32_t)__builtin_ctz(left)] = result;
}

/* Lanes that have ended, and those behind the block's end, take part with zeroes. */
static void multiply(struct vgc_cpu_ctx *ctx, const struct vgc_cpu_site *site, uint32_t base, uint32_t members)
{
    uint32_t *rooms = (uint32_t *)(void *)(ctx->frame + (size_t)site->arg * ctx->stride) + base;
    for (uint32_t missing = ~members; missing != 0; missing &= missing - 1)
        for (uint32_t word = 0; word < VGC_CPU_ROOM; word++)
            rooms[word * ctx->stride + (uint32_t)__builtin_ctz(missing)] = 0;
    site->work(rooms, ctx->stride);
}

void cpu_exchange(struct vgc_cpu_ctx *ctx, const struct vgc_cpu_site *site, uint32_t warp, uint32_t members)
{
    uint32_t base = warp * VGC_CPU_WARP;
    switch (site->kind) {
    case VGC_SITE_SYNCWARP:
    case VGC_SITE_STEP:
        break;
    case VGC_SITE_BALLOT:
    case VGC_SITE_BALLOT_ACTIVE:
        vote(ctx, base, members, lanes_with(ctx, site, base, members, 1));
        break;
    case VGC_SITE_ACTIVEMASK:
        vote(ctx, base, members, members);
        break;
    case VGC_SITE_MATCH_ANY:
    case VGC_SITE_MATCH_ALL:
        match(ctx, site, base, members);
        break;
    case VGC_SITE_PRODUCT:
        multiply(ctx, site, base, members);
        break;
    default:
        if (members != ~0u || !shuffle_whole(ctx, site, base))
            shuffle(ctx, site, base, members);
    }
}
