/* Plans of running reductions: one launch for rows of one tile, else three. */
#include "calls.h"
#include "planners.h"

/* Bytes of a fold. */
static uint32_t fold_bytes(const struct plan *plan)
{
    bool is_wide = plan->builtin->function == VGC_FN_SCAN_SUM || plan->builtin->function == VGC_FN_SCAN_PROD;
    return is_wide ? 8 : vgc_builtin_type_bytes(plan->builtin->type);
}

static uint32_t lanes_of(uint64_t n)
{
    uint32_t lanes = 1;
    while (lanes < THREADS && lanes * SCAN_ITEMS < n)
        lanes *= 2;
    return lanes;
}

void plan_scan(struct plan *plan, const void *params)
{
    const struct vgc_scan_params *p = params;
    uint64_t outer = (uint64_t)p->outer, n = (uint64_t)p->n;
    if (outer == 0 || n == 0)
        return;
    struct scan_call call = {.in = p->in, .out = p->out, .outer = outer, .n = n, .exclusive = (uint32_t)p->exclusive};
    call.tiles = plan_divide_up(n, SCAN_TILE);
    call.lanes = lanes_of(n);
    uint64_t tiles = plan_divide_up(outer, THREADS / call.lanes) * call.tiles;
    if (call.tiles > 1) {
        struct kernel_name fold = plan_kernel(plan, "_fold"), before = plan_kernel(plan, "_before");
        call.before = plan_take(plan, outer * call.tiles * fold_bytes(plan));
        plan_add(plan, &fold, plan_min(tiles, INT32_MAX), 0, &call, sizeof(call));
        plan_add(plan, &before, plan_min(outer, INT32_MAX), 0, &call, sizeof(call));
    }
    struct kernel_name kernel = plan_kernel(plan, "");
    plan_add(plan, &kernel, plan_min(tiles, INT32_MAX), 0, &call, sizeof(call));
}
