/* Plans of choosing elements: counts of parts before positions are written, and a launch that clears before items are
 * taken. */
#include "calls.h"
#include "planners.h"

enum { PARTS_PER_SM = 4 };

static void plan_nonzero(struct plan *plan, const struct vgc_nonzero_params *p)
{
    struct nonzero_call call = {.in = p->in, .n = (uint64_t)p->n, .out = p->out, .count = p->count};
    struct kernel_name count = plan_kernel(plan, "_count"), before = plan_kernel(plan, "_before");
    struct kernel_name put = plan_kernel(plan, "");
    uint64_t tiles = plan_max(plan_divide_up(call.n, THREADS), 1);
    call.part = plan_divide_up(tiles, plan_min((uint64_t)plan->num_sms * PARTS_PER_SM, tiles)) * THREADS;
    call.parts = plan_divide_up(call.n, call.part);
    call.counts = plan_take(plan, call.parts * sizeof(u64));
    plan_add(plan, &count, call.parts, 0, &call, sizeof(call));
    plan_add(plan, &before, 1, 0, &call, sizeof(call));
    plan_add(plan, &put, call.parts, 0, &call, sizeof(call));
}

static void plan_take_items(struct plan *plan, const struct vgc_take_params *p)
{
    struct kernel_name clear = plan_kernel_of("select_clear", NULL, NULL), kernel = plan_kernel(plan, "");
    if (p->num_indices == 0)
        return;
    struct take_call call = {
        .in = p->in,
        .n = (uint64_t)p->n,
        .indices = p->indices,
        .num_indices = (uint64_t)p->num_indices,
        .out = p->out,
        .status = plan_take_status(plan),
        .unit_bytes = vgc_builtin_unit(p->item_bytes),
    };
    call.units = (uint64_t)p->item_bytes / call.unit_bytes;
    plan_add(plan, &clear, 1, 0, &call, sizeof(call));
    plan_add(plan, &kernel, plan_blocks(plan, call.num_indices * call.units, THREADS), 0, &call, sizeof(call));
}

void plan_select(struct plan *plan, const void *params)
{
    if (plan->builtin->function == VGC_FN_NONZERO)
        plan_nonzero(plan, params);
    else
        plan_take_items(plan, params);
}
