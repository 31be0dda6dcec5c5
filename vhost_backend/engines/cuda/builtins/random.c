/* Plans of random numbers: one launch, whose threads each take the numbers of one counter. */
#include "calls.h"
#include "planners.h"

static void add(struct plan *plan, const struct random_call *call)
{
    struct kernel_name kernel = plan_kernel(plan, "");
    uint64_t counter_numbers = 16 / vgc_builtin_type_bytes(plan->builtin->type);
    if (call->n > 0) /* the first counter may have less */
        plan_add(plan, &kernel, plan_blocks(plan, call->n / counter_numbers + 2, THREADS), 0, call, sizeof(*call));
}

void plan_random(struct plan *plan, const void *params)
{
    const struct vgc_random_params *p = params; /* those of normal numbers begin alike */
    struct random_call call = {.out = p->out, .n = (uint64_t)p->n, .seed = p->seed, .offset = p->offset};
    if (plan->builtin->function == VGC_FN_RANDOM_NORMAL) {
        const struct vgc_normal_params *normal = params;
        call.mean = normal->mean;
        call.deviation = normal->deviation;
    }
    add(plan, &call);
}
