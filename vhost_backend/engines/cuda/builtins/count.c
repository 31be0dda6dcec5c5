/* Plans of counting: a launch that clears, and one that counts. */
#include "calls.h"
#include "planners.h"

/* Most bins whose counts blocks have in shared memory, with four bytes each. */
enum { MOST_SHARED_BINS = 8192 };

static void plan_bins(struct plan *plan, struct count_call *call)
{
    struct kernel_name clear = plan_kernel_of("count_clear", NULL, NULL), count = plan_kernel(plan, "");
    call->has_tables = call->bins <= MOST_SHARED_BINS;
    plan_add(plan, &clear, plan_max(plan_blocks(plan, call->bins, THREADS), 1), 0, call, sizeof(*call));
    plan_add(plan, &count, plan_blocks(plan, call->n, THREADS),
             call->has_tables ? (uint32_t)call->bins * sizeof(uint32_t) : 0, call, sizeof(*call));
}

static void plan_histogram(struct plan *plan, const struct vgc_histogram_params *p)
{
    struct count_call call = {.in = p->in, .n = (uint64_t)p->n, .counts = p->counts, .bins = (uint64_t)p->bins};
    call.low = p->low;
    call.high = p->high;
    call.step = (p->high - p->low) / (double)p->bins;
    plan_bins(plan, &call);
}

static void plan_bincount(struct plan *plan, const struct vgc_bincount_params *p)
{
    struct count_call call = {.in = p->in, .n = (uint64_t)p->n, .counts = p->counts, .bins = (uint64_t)p->bins};
    call.status = plan_take_status(plan);
    plan_bins(plan, &call);
}

void plan_count(struct plan *plan, const void *params)
{
    if (plan->builtin->function == VGC_FN_HISTOGRAM)
        plan_histogram(plan, params);
    else
        plan_bincount(plan, params);
}
