/* Sparse linear algebra. */
#include "check.h"
#include "groups.h"
#include "vgc_builtin_params.h"

#include <errno.h>

static const struct vgc_builtin_param SPMV[] = {
    VGC_PARAM(vgc_spmv_params, rows, INTEGER, VALUE, "rows of the matrix"),
    VGC_PARAM(vgc_spmv_params, columns, INTEGER, VALUE, "columns of the matrix"),
    VGC_PARAM(vgc_spmv_params, nonzeros, INTEGER, VALUE, "elements that are stored"),
    VGC_PARAM(vgc_spmv_params, alpha, FLOAT, VALUE, "factor of the product"),
    VGC_PARAM(vgc_spmv_params, row_starts, POINTER, IN, "begin of each row in indices and values (rows + 1)"),
    VGC_PARAM(vgc_spmv_params, indices, POINTER, IN, "columns of the elements (nonzeros)"),
    VGC_PARAM(vgc_spmv_params, values, POINTER, IN, "elements (nonzeros)"),
    VGC_PARAM(vgc_spmv_params, x, POINTER, IN, "vector (columns)"),
    VGC_PARAM(vgc_spmv_params, beta, FLOAT, VALUE, "factor of y; 0: y is not read"),
    VGC_PARAM(vgc_spmv_params, y, POINTER, INOUT, "vector (rows)"),
};

static int check_spmv(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    const struct vgc_spmv_params *p = params;
    uint32_t bytes = vgc_builtin_type_bytes(builtin->type);
    uint32_t index_bytes = builtin->function == VGC_FN_SPMV_I64 ? 8 : 4;
    int64_t most = builtin->function == VGC_FN_SPMV_I64 ? VGC_BUILTIN_LONGEST : INT32_MAX;
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    if (!vgc_check_length(&check, &p->rows) ||
        !vgc_check_number(&check, &p->columns, 0, most, "those that an index can name") ||
        !vgc_check_number(&check, &p->nonzeros, 0, most, "those that an index can name"))
        return -EINVAL;
    if (p->rows == 0)
        return 0;
    bool is_allowed = vgc_check_array(&check, &p->row_starts, (uint64_t)p->rows + 1, index_bytes) &&
                      vgc_check_array(&check, &p->indices, (uint64_t)p->nonzeros, index_bytes) &&
                      vgc_check_array(&check, &p->values, (uint64_t)p->nonzeros, bytes) &&
                      vgc_check_array(&check, &p->x, (uint64_t)p->columns, bytes) &&
                      vgc_check_array(&check, &p->y, (uint64_t)p->rows, bytes) && vgc_check_apart(&check, NULL, &p->y);
    return is_allowed ? 0 : -EINVAL;
}

#define SPMV_ROW(suffix, type_, index)                                                                                 \
    {.name = "sparse.spmv_" suffix,                                                                                    \
     .summary = "product of a sparse matrix (compressed rows) and a vector",                                           \
     .numpy = "y = alpha * scipy.sparse.csr_array((values, indices, row_starts)) @ x + beta * y",                      \
     .limits = "the call fails if row_starts fall or leave the elements, or an index is no column",                    \
     .tolerance = "as many roundings as a row has elements, of the sum of absolute values",                            \
     .function = VGC_FN_SPMV_##index,                                                                                  \
     .type = VGC_TYPE_##type_,                                                                                         \
     VGC_TAKES(vgc_spmv_params, SPMV),                                                                                 \
     .check = check_spmv}

static const struct vgc_builtin BUILTINS[] = {
    SPMV_ROW("f32_i32", F32, I32),
    SPMV_ROW("f32_i64", F32, I64),
    SPMV_ROW("f64_i32", F64, I32),
    SPMV_ROW("f64_i64", F64, I64),
};

const struct vgc_builtin_group vgc_builtin_sparse = {
    "sparse",
    "sparse linear algebra; indices are int32 or int64, as the name says",
    BUILTINS,
    VGC_LENGTH_OF(BUILTINS),
};
