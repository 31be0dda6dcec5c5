/* Dense linear algebra. */
#include "check.h"
#include "groups.h"
#include "vgc_builtin_params.h"

#include <errno.h>

static const struct vgc_builtin_param AXPY[] = {
    VGC_PARAM(vgc_axpy_params, n, INTEGER, VALUE, "elements"),
    VGC_PARAM(vgc_axpy_params, alpha, FLOAT, VALUE, "factor"),
    VGC_PARAM(vgc_axpy_params, x, POINTER, IN, "vector (n)"),
    VGC_PARAM(vgc_axpy_params, incx, INTEGER, VALUE, "elements from one of x to the next, from 1"),
    VGC_PARAM(vgc_axpy_params, y, POINTER, INOUT, "vector (n)"),
    VGC_PARAM(vgc_axpy_params, incy, INTEGER, VALUE, "elements from one of y to the next, from 1"),
};

static const struct vgc_builtin_param DOT[] = {
    VGC_PARAM(vgc_dot_params, n, INTEGER, VALUE, "elements"),
    VGC_PARAM(vgc_dot_params, x, POINTER, IN, "vector (n)"),
    VGC_PARAM(vgc_dot_params, incx, INTEGER, VALUE, "elements from one of x to the next, from 1"),
    VGC_PARAM(vgc_dot_params, y, POINTER, IN, "vector (n)"),
    VGC_PARAM(vgc_dot_params, incy, INTEGER, VALUE, "elements from one of y to the next, from 1"),
    VGC_PARAM(vgc_dot_params, result, POINTER, OUT, "one element"),
};

static const struct vgc_builtin_param NRM2[] = {
    VGC_PARAM(vgc_nrm2_params, n, INTEGER, VALUE, "elements"),
    VGC_PARAM(vgc_nrm2_params, x, POINTER, IN, "vector (n)"),
    VGC_PARAM(vgc_nrm2_params, incx, INTEGER, VALUE, "elements from one of x to the next, from 1"),
    VGC_PARAM(vgc_nrm2_params, result, POINTER, OUT, "one element"),
};

static const struct vgc_builtin_param GEMV[] = {
    VGC_PARAM(vgc_gemv_params, transpose, INTEGER, VALUE, "1: a is transposed before it is used"),
    VGC_PARAM(vgc_gemv_params, m, INTEGER, VALUE, "rows of a as it is stored"),
    VGC_PARAM(vgc_gemv_params, n, INTEGER, VALUE, "columns of a as it is stored"),
    VGC_PARAM(vgc_gemv_params, alpha, FLOAT, VALUE, "factor of the product"),
    VGC_PARAM(vgc_gemv_params, a, POINTER, IN, "matrix (m, n)"),
    VGC_PARAM(vgc_gemv_params, lda, INTEGER, VALUE, "elements from one row of a to the next, from n"),
    VGC_PARAM(vgc_gemv_params, x, POINTER, IN, "vector (n); (m) if transposed"),
    VGC_PARAM(vgc_gemv_params, incx, INTEGER, VALUE, "elements from one of x to the next, from 1"),
    VGC_PARAM(vgc_gemv_params, beta, FLOAT, VALUE, "factor of y; 0: y is not read"),
    VGC_PARAM(vgc_gemv_params, y, POINTER, INOUT, "vector (m); (n) if transposed"),
    VGC_PARAM(vgc_gemv_params, incy, INTEGER, VALUE, "elements from one of y to the next, from 1"),
};

static const struct vgc_builtin_param GEMM[] = {
    VGC_PARAM(vgc_gemm_params, transpose_a, INTEGER, VALUE, "1: a is stored as (k, m)"),
    VGC_PARAM(vgc_gemm_params, transpose_b, INTEGER, VALUE, "1: b is stored as (n, k)"),
    VGC_PARAM(vgc_gemm_params, m, INTEGER, VALUE, "rows of c"),
    VGC_PARAM(vgc_gemm_params, n, INTEGER, VALUE, "columns of c"),
    VGC_PARAM(vgc_gemm_params, k, INTEGER, VALUE, "terms of each sum"),
    VGC_PARAM(vgc_gemm_params, alpha, FLOAT, VALUE, "factor of the product"),
    VGC_PARAM(vgc_gemm_params, a, POINTER, IN, "matrices (batch, m, k)"),
    VGC_PARAM(vgc_gemm_params, lda, INTEGER, VALUE, "elements from one row of a to the next"),
    VGC_PARAM(vgc_gemm_params, b, POINTER, IN, "matrices (batch, k, n)"),
    VGC_PARAM(vgc_gemm_params, ldb, INTEGER, VALUE, "elements from one row of b to the next"),
    VGC_PARAM(vgc_gemm_params, beta, FLOAT, VALUE, "factor of c; 0: c is not read"),
    VGC_PARAM(vgc_gemm_params, c, POINTER, INOUT, "matrices (batch, m, n)"),
    VGC_PARAM(vgc_gemm_params, ldc, INTEGER, VALUE, "elements from one row of c to the next"),
    VGC_PARAM(vgc_gemm_params, batch, INTEGER, VALUE, "number of products"),
    VGC_PARAM(vgc_gemm_params, stride_a, INTEGER, VALUE, "elements from one matrix a to the next; 0: all take one"),
    VGC_PARAM(vgc_gemm_params, stride_b, INTEGER, VALUE, "elements from one matrix b to the next; 0: all take one"),
    VGC_PARAM(vgc_gemm_params, stride_c, INTEGER, VALUE, "elements from one matrix c to the next"),
};

static int check_axpy(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    const struct vgc_axpy_params *p = params;
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    bool is_allowed = vgc_check_length(&check, &p->n) && vgc_check_vector(&check, &p->x, p->n, &p->incx) &&
                      vgc_check_vector(&check, &p->y, p->n, &p->incy) && vgc_check_apart(&check, NULL, &p->y);
    return is_allowed ? 0 : -EINVAL;
}

static int check_dot(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    const struct vgc_dot_params *p = params;
    uint32_t bytes = vgc_builtin_type_bytes(builtin->type);
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    bool is_allowed = vgc_check_length(&check, &p->n) && vgc_check_vector(&check, &p->x, p->n, &p->incx) &&
                      vgc_check_vector(&check, &p->y, p->n, &p->incy) &&
                      vgc_check_array(&check, &p->result, 1, bytes) && vgc_check_apart(&check, NULL, &p->result);
    return is_allowed ? 0 : -EINVAL;
}

static int check_nrm2(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    const struct vgc_nrm2_params *p = params;
    uint32_t bytes = vgc_builtin_type_bytes(builtin->type);
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    bool is_allowed = vgc_check_length(&check, &p->n) && vgc_check_vector(&check, &p->x, p->n, &p->incx) &&
                      vgc_check_array(&check, &p->result, 1, bytes) && vgc_check_apart(&check, NULL, &p->result);
    return is_allowed ? 0 : -EINVAL;
}

static int check_gemv(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    const struct vgc_gemv_params *p = params;
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    if (!vgc_check_flag(&check, &p->transpose) || !vgc_check_length(&check, &p->m) || !vgc_check_length(&check, &p->n))
        return -EINVAL;
    struct vgc_matrices a = {.rows = p->m, .columns = p->n, .ld = &p->lda, .batch = 1};
    bool is_allowed = vgc_check_matrices(&check, &p->a, &a) &&
                      vgc_check_vector(&check, &p->x, p->transpose ? p->m : p->n, &p->incx) &&
                      vgc_check_vector(&check, &p->y, p->transpose ? p->n : p->m, &p->incy) &&
                      vgc_check_apart(&check, NULL, &p->y);
    return is_allowed ? 0 : -EINVAL;
}

/* Checks the three matrices of a product whose other values are allowed. */
static bool check_operands(struct vgc_check *check, const struct vgc_gemm_params *p)
{
    struct vgc_matrices a = {p->m, p->k, &p->lda, p->batch, &p->stride_a, false};
    struct vgc_matrices b = {p->k, p->n, &p->ldb, p->batch, &p->stride_b, false};
    struct vgc_matrices c = {p->m, p->n, &p->ldc, p->batch, &p->stride_c, true};
    if (p->transpose_a) {
        a.rows = p->k;
        a.columns = p->m;
    }
    if (p->transpose_b) {
        b.rows = p->n;
        b.columns = p->k;
    }
    return vgc_check_matrices(check, &p->a, &a) && vgc_check_matrices(check, &p->b, &b) &&
           vgc_check_matrices(check, &p->c, &c) && vgc_check_apart(check, NULL, &p->c);
}

static int check_gemm(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    const struct vgc_gemm_params *p = params;
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    bool is_allowed = vgc_check_flag(&check, &p->transpose_a) && vgc_check_flag(&check, &p->transpose_b) &&
                      vgc_check_length(&check, &p->m) && vgc_check_length(&check, &p->n) &&
                      vgc_check_length(&check, &p->k) && vgc_check_length(&check, &p->batch) &&
                      check_operands(&check, p);
    return is_allowed ? 0 : -EINVAL;
}

/* Inputs, as the subject of a sentence, and the array that is written. */
#define APART(inputs, written)                                                                                         \
    inputs " not overlap " written "; columns of one matrix that pass each other by may be used"
#define HALVES "halves: sums are floats, rounded once; "

#define AXPY_ROW(suffix, type_, tolerance_)                                                                            \
    {.name = "blas.axpy_" suffix,                                                                                      \
     .summary = "adds a multiple of a vector to another",                                                              \
     .numpy = "y += alpha * x",                                                                                        \
     .limits = APART("x does", "y"),                                                                                   \
     .tolerance = tolerance_ "2 units in the last place of the larger term",                                           \
     .function = VGC_FN_AXPY,                                                                                          \
     .type = VGC_TYPE_##type_,                                                                                         \
     VGC_TAKES(vgc_axpy_params, AXPY),                                                                                 \
     .check = check_axpy}

#define DOT_ROW(suffix, type_, tolerance_)                                                                             \
    {.name = "blas.dot_" suffix,                                                                                       \
     .summary = "inner product of two vectors",                                                                        \
     .numpy = "result[0] = np.dot(x, y)",                                                                              \
     .limits = APART("x and y do", "result"),                                                                          \
     .tolerance = tolerance_ "n roundings of the sum of absolute values",                                              \
     .function = VGC_FN_DOT,                                                                                           \
     .type = VGC_TYPE_##type_,                                                                                         \
     VGC_TAKES(vgc_dot_params, DOT),                                                                                   \
     .check = check_dot}

#define NRM2_ROW(suffix, type_, tolerance_)                                                                            \
    {.name = "blas.nrm2_" suffix,                                                                                      \
     .summary = "Euclidean norm of a vector",                                                                          \
     .numpy = "result[0] = np.linalg.norm(x)",                                                                         \
     .limits = APART("x does", "result"),                                                                              \
     .tolerance = tolerance_ "n roundings",                                                                            \
     .function = VGC_FN_NRM2,                                                                                          \
     .type = VGC_TYPE_##type_,                                                                                         \
     VGC_TAKES(vgc_nrm2_params, NRM2),                                                                                 \
     .check = check_nrm2}

#define GEMV_ROW(suffix, type_, tolerance_)                                                                            \
    {.name = "blas.gemv_" suffix,                                                                                      \
     .summary = "product of a matrix and a vector",                                                                    \
     .numpy = "y = alpha * a @ x + beta * y",                                                                          \
     .limits = APART("a and x do", "y"),                                                                               \
     .tolerance = tolerance_ "as many roundings as terms, of the sum of absolute values",                              \
     .function = VGC_FN_GEMV,                                                                                          \
     .type = VGC_TYPE_##type_,                                                                                         \
     VGC_TAKES(vgc_gemv_params, GEMV),                                                                                 \
     .check = check_gemv}

#define GEMM_ROW(suffix, type_, tolerance_)                                                                            \
    {.name = "blas.gemm_" suffix,                                                                                      \
     .summary = "products of matrices",                                                                                \
     .numpy = "c = alpha * a @ b + beta * c",                                                                          \
     .limits = APART("a and b do", "c"),                                                                               \
     .tolerance = tolerance_ "k roundings of the sum of absolute values",                                              \
     .function = VGC_FN_GEMM,                                                                                          \
     .type = VGC_TYPE_##type_,                                                                                         \
     VGC_TAKES(vgc_gemm_params, GEMM),                                                                                 \
     .check = check_gemm}

#define ROWS(ROW) ROW("f16", F16, HALVES), ROW("f32", F32, ""), ROW("f64", F64, "")

static const struct vgc_builtin BUILTINS[] = {
    ROWS(AXPY_ROW), ROWS(DOT_ROW), ROWS(NRM2_ROW), ROWS(GEMV_ROW), ROWS(GEMM_ROW),
};

const struct vgc_builtin_group vgc_builtin_blas = {
    "blas",
    "dense linear algebra",
    BUILTINS,
    VGC_LENGTH_OF(BUILTINS),
};
