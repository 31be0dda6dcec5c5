/* Plans of convolutions: products of the filters and the pixels below them. */
#include "planners.h"
#include "tiles.h"

/* Places of a filter along one axis. */
static uint64_t places(int64_t length, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation)
{
    return (uint64_t)((length + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1);
}

void plan_conv(struct plan *plan, const void *params)
{
    const struct vgc_conv2d_params *p = params;
    uint64_t out_h = places(p->height, p->kernel_h, p->stride_h, p->pad_h, p->dilation_h);
    uint64_t out_w = places(p->width, p->kernel_w, p->stride_w, p->pad_w, p->dilation_w);
    struct conv_call call = {
        .x = p->x,
        .weights = p->weights,
        .y = p->y,
        .kernel_h = (u32)p->kernel_h,
        .kernel_w = (u32)p->kernel_w,
        .stride_h = (u32)p->stride_h,
        .stride_w = (u32)p->stride_w,
        .pad_h = (u32)p->pad_h,
        .pad_w = (u32)p->pad_w,
        .dilation_h = (u32)p->dilation_h,
        .dilation_w = (u32)p->dilation_w,
        .height = (uint64_t)p->height,
        .width = (uint64_t)p->width,
        .out_w = out_w,
        .pixels = out_h * out_w,
        .channels = (uint64_t)(p->channels / p->groups),
        .groups = (uint64_t)p->groups,
    };
    uint64_t m = (uint64_t)(p->filters / p->groups), n = (uint64_t)p->batch * call.pixels;
    uint64_t k = call.channels * call.kernel_h * call.kernel_w;
    if (m == 0 || n == 0)
        return;
    bool is_large = plan->builtin->type == VGC_TYPE_F32 && plan_has_large_tiles(plan, m, n, call.groups);
    call.shape = plan_tiles(plan, m, n, k, call.groups, is_large ? LARGE_TILE : TILE,
                            vgc_builtin_type_bytes(plan->builtin->type));
    struct kernel_name kernel = plan_kernel(plan, is_large ? "_large" : ""), add = plan_kernel(plan, "_add");
    plan_add(plan, &kernel, plan_tile_blocks(&call.shape), 0, &call, sizeof(call));
    if (call.shape.pieces > 1)
        plan_add(plan, &add, plan_blocks(plan, call.groups * m * n, THREADS), 0, &call, sizeof(call));
}
