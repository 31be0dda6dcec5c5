/* Plans of dense linear algebra. */
#include "folds.h"
#include "planners.h"
#include "tiles.h"

/* Bytes of sums: floats of halves and floats, doubles of doubles. */
static uint32_t sum_bytes(const struct plan *plan)
{
    return plan->builtin->type == VGC_TYPE_F64 ? 8 : 4;
}

static void plan_axpy(struct plan *plan, const struct vgc_axpy_params *p)
{
    struct kernel_name kernel = plan_kernel(plan, "");
    struct vector_call call = {(uint64_t)p->n, p->x, p->y, (uint64_t)p->incx, (uint64_t)p->incy, p->alpha};
    plan_add(plan, &kernel, plan_blocks(plan, call.n, THREADS), 0, &call, sizeof(call));
}

/* ---- sums of products ------------------------------------------------------------------------------------------ */

/* Adds the launches of a call whose shape, at least, has not been filled in: one, or two if there are pieces. */
static void add_folds(struct plan *plan, const char *name, struct product_call *call, uint32_t part_bytes,
                      struct fold_shape shape)
{
    struct kernel_name kernel = plan_kernel_of(name, plan_type(plan->builtin->type), NULL);
    call->shape = shape;
    if (shape.pieces > 1)
        call->parts = plan_take(plan, shape.pieces * shape.outer * shape.inner * part_bytes);
    plan_add(plan, &kernel, plan_fold_blocks(&shape), 0, call, sizeof(*call));
    if (shape.pieces == 1)
        return;
    call->reads_parts = 1;
    call->shape = plan_fold_parts(&shape);
    plan_add(plan, &kernel, plan_fold_blocks(&call->shape), 0, call, sizeof(*call));
}

static void plan_dot(struct plan *plan, const struct vgc_dot_params *p)
{
    struct product_call call = {.a = p->x, .x = p->y, .y = p->result, .alpha = 1};
    call.a_term = (uint64_t)p->incx;
    call.incx = (uint64_t)p->incy;
    call.incy = 1;
    add_folds(plan, "blas_products", &call, sum_bytes(plan), plan_fold(plan, 1, (uint64_t)p->n, 1));
}

static void plan_nrm2(struct plan *plan, const struct vgc_nrm2_params *p)
{
    enum { MOST_FOLD = 3 * sizeof(double) };
    struct product_call call = {.x = p->x, .y = p->result, .incx = (uint64_t)p->incx};
    add_folds(plan, "blas_nrm2", &call, MOST_FOLD, plan_fold(plan, 1, (uint64_t)p->n, 1));
}

static void plan_gemv(struct plan *plan, const struct vgc_gemv_params *p)
{
    uint64_t m = (uint64_t)p->m, n = (uint64_t)p->n;
    struct product_call call = {.a = p->a, .x = p->x, .y = p->y, .alpha = p->alpha, .beta = p->beta};
    call.incx = (uint64_t)p->incx;
    call.incy = (uint64_t)p->incy;
    call.a_result = p->transpose ? 1 : (uint64_t)p->lda;
    call.a_term = p->transpose ? (uint64_t)p->lda : 1;
    if (p->alpha == 0) /* a and x are not read */
        add_folds(plan, "blas_products", &call, sum_bytes(plan), plan_fold(plan, 1, 0, p->transpose ? n : m));
    else if (p->transpose)
        add_folds(plan, "blas_products", &call, sum_bytes(plan), plan_fold(plan, 1, m, n));
    else
        add_folds(plan, "blas_products", &call, sum_bytes(plan), plan_fold(plan, m, n, 1));
}

/* ---- products of matrices -------------------------------------------------------------------------------------- */

static void plan_gemm(struct plan *plan, const struct vgc_gemm_params *p)
{
    uint64_t m = (uint64_t)p->m, n = (uint64_t)p->n, batch = (uint64_t)p->batch;
    uint64_t k = p->alpha == 0 ? 0 : (uint64_t)p->k; /* then a and b are not read */
    struct gemm_call call = {.a = p->a, .b = p->b, .c = p->c, .alpha = p->alpha, .beta = p->beta};
    if (m == 0 || n == 0 || batch == 0)
        return;
    bool is_large = plan->builtin->type != VGC_TYPE_F64 && plan_has_large_tiles(plan, m, n, batch);
    call.a_row = p->transpose_a ? 1 : (uint64_t)p->lda;
    call.a_term = p->transpose_a ? (uint64_t)p->lda : 1;
    call.b_term = p->transpose_b ? 1 : (uint64_t)p->ldb;
    call.b_column = p->transpose_b ? (uint64_t)p->ldb : 1;
    call.c_row = (uint64_t)p->ldc;
    call.a_matrix = (uint64_t)p->stride_a;
    call.b_matrix = (uint64_t)p->stride_b;
    call.c_matrix = (uint64_t)p->stride_c;
    call.shape = plan_tiles(plan, m, n, k, batch, is_large ? LARGE_TILE : TILE, sum_bytes(plan));
    struct kernel_name kernel = plan_kernel(plan, is_large ? "_large" : ""), add = plan_kernel(plan, "_add");
    plan_add(plan, &kernel, plan_tile_blocks(&call.shape), 0, &call, sizeof(call));
    if (call.shape.pieces > 1)
        plan_add(plan, &add, plan_blocks(plan, batch * m * n, THREADS), 0, &call, sizeof(call));
}

void plan_blas(struct plan *plan, const void *params)
{
    switch (plan->builtin->function) {
    case VGC_FN_AXPY:
        plan_axpy(plan, params);
        break;
    case VGC_FN_DOT:
        plan_dot(plan, params);
        break;
    case VGC_FN_NRM2:
        plan_nrm2(plan, params);
        break;
    case VGC_FN_GEMV:
        plan_gemv(plan, params);
        break;
    default:
        plan_gemm(plan, params);
        break;
    }
}
