/* Plans of reductions: one launch, and one more for the folds of pieces. */
#include "folds.h"
#include "planners.h"

/* Bytes of a fold. */
static uint32_t fold_bytes(const struct plan *plan)
{
    if (plan->builtin->type == VGC_TYPE_B8)
        return 8;
    switch (plan->builtin->function) {
    case VGC_FN_ARGMIN:
    case VGC_FN_ARGMAX:
        return 16;
    case VGC_FN_SUM:
    case VGC_FN_PROD:
        return 8;
    default:
        return vgc_builtin_type_bytes(plan->builtin->type);
    }
}

void plan_reduce(struct plan *plan, const void *params)
{
    const struct vgc_reduce_params *p = params;
    struct kernel_name kernel = plan_kernel(plan, "");
    struct reduce_call call = {.in = p->in, .out = p->out};
    if (p->outer == 0 || p->inner == 0)
        return;
    call.shape = plan_fold(plan, (uint64_t)p->outer, (uint64_t)p->n, (uint64_t)p->inner);
    if (call.shape.pieces == 1) {
        plan_add(plan, &kernel, plan_fold_blocks(&call.shape), 0, &call, sizeof(call));
        return;
    }
    struct reduce_call last = {.shape = plan_fold_parts(&call.shape), .out = p->out, .reads_parts = 1};
    call.out = last.in = plan_take(plan, last.shape.n * last.shape.inner * fold_bytes(plan));
    call.writes_parts = 1;
    plan_add(plan, &kernel, plan_fold_blocks(&call.shape), 0, &call, sizeof(call));
    plan_add(plan, &kernel, plan_fold_blocks(&last.shape), 0, &last, sizeof(last));
}
