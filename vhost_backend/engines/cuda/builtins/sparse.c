/* Plans of products of sparse matrices: a launch that clears the status, and one with some threads for each row. */
#include "calls.h"
#include "planners.h"

enum { MOST_LANES = 32 };

void plan_sparse(struct plan *plan, const void *params)
{
    const struct vgc_spmv_params *p = params;
    struct kernel_name clear = plan_kernel_of("sparse_clear", NULL, NULL), kernel = plan_kernel(plan, "");
    if (p->rows == 0)
        return;
    struct spmv_call call = {
        .rows = (uint64_t)p->rows,
        .columns = (uint64_t)p->columns,
        .nonzeros = (uint64_t)p->nonzeros,
        .row_starts = p->row_starts,
        .indices = p->indices,
        .values = p->values,
        .x = p->x,
        .y = p->y,
        .status = plan_take_status(plan),
        .alpha = p->alpha,
        .beta = p->beta,
        .lanes = 1,
    };
    while (call.lanes < MOST_LANES && call.lanes < call.nonzeros / call.rows)
        call.lanes *= 2;
    plan_add(plan, &clear, 1, 0, &call, sizeof(call));
    plan_add(plan, &kernel, plan_blocks(plan, call.rows, THREADS / call.lanes), 0, &call, sizeof(call));
}
