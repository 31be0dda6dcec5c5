// Triangular solves of BSR, with a vector or a dense matrix on the right.
#include "legacy.h"
#include "plans.h"

using namespace vgc_sparse;

struct bsrsv2Info {
    Plan plan;
};
struct bsrsm2Info {
    Plan plan;
};

namespace
{
const ByType<SolveLaunch> SOLVES = {solve_s, solve_d, solve_c, solve_z};

struct Call {
    cusparseHandle_t handle;
    cusparseOperation_t operation;
    int mb, nnzb;
    cusparseMatDescr_t about;
    const void *values, *offsets, *columns;
    int block;
    Plan *plan;
};
cusparseStatus_t check(const Call &call)
{
    CHECK(call.handle, NOT_INITIALIZED);
    CHECK(call.about && call.plan && call.mb >= 0 && call.nnzb >= 0 && call.block > 0, INVALID_VALUE);
    CHECK(is_operation(call.operation), INVALID_VALUE);
    CHECK((!call.mb || call.offsets) && (!call.nnzb || (call.values && call.columns)), INVALID_VALUE);
    CHECK(call.about->type == CUSPARSE_MATRIX_TYPE_GENERAL, MATRIX_TYPE_NOT_SUPPORTED);
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseSpMatDescr matrix_of(const Call &call, cudaDataType type, cusparseDirection_t direction)
{
    return vgc_sparse::matrix_of(*call.about, type, call.mb, call.mb, call.nnzb, call.values, (const int *)call.offsets,
                                 (const int *)call.columns, call.block, direction);
}
cusparseStatus_t solve(const Call &call, const cusparseSpMatDescr &a, const void *alpha, Dense b, Dense x, int cols)
{
    CHECK(call.plan->is_for(a, call.operation), INVALID_VALUE);
    TRY(call.plan->forget_pivot(call.handle->stream));
    if (!cols)
        return CUSPARSE_STATUS_SUCCESS;
    Solve work = {};
    work.structure = call.plan->structure();
    work.values = a.values;
    work.unit = a.diagonal == CUSPARSE_DIAG_TYPE_UNIT;
    work.conjugated = call.operation == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE;
    work.b = b;
    work.x = x;
    work.cols = cols;
    work.alpha = scalar_of(*call.handle, a.type, alpha);
    return call.plan->run(work, SOLVES[a.type], call.handle->stream);
}
// Rows of x lie in its columns where it is transposed.
Dense strides(const void *data, int ld, bool transposed)
{
    return {(void *)data, transposed ? ld : 1, transposed ? 1 : ld, 0};
}
template <class Size> cusparseStatus_t tell_size(Size *size)
{
    CHECK(size, INVALID_VALUE);
    *size = 8;
    return CUSPARSE_STATUS_SUCCESS;
}
} // namespace

INFO_FUNCTIONS(Bsrsv2, bsrsv2)
INFO_FUNCTIONS(Bsrsm2, bsrsm2)

#define CALL {handle, operation, mb, nnzb, about, values, offsets, columns, block, info ? &info->plan : nullptr}
#define VECTOR_SIZE(S, T, SUFFIX, SIZE)                                                                                \
    API cusparseStatus_t cusparse##S##bsrsv2_bufferSize##SUFFIX(                                                       \
        cusparseHandle_t handle, cusparseDirection_t, cusparseOperation_t operation, int mb, int nnzb,                 \
        const cusparseMatDescr_t about, T *values, const int *offsets, const int *columns, int block,                  \
        bsrsv2Info_t info, SIZE *size)                                                                                 \
    {                                                                                                                  \
        TRY(check(CALL));                                                                                              \
        return tell_size(size);                                                                                        \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##bsrsm2_bufferSize##SUFFIX(                                                       \
        cusparseHandle_t handle, cusparseDirection_t, cusparseOperation_t operation, cusparseOperation_t, int mb, int, \
        int nnzb, const cusparseMatDescr_t about, T *values, const int *offsets, const int *columns, int block,        \
        bsrsm2Info_t info, SIZE *size)                                                                                 \
    {                                                                                                                  \
        TRY(check(CALL));                                                                                              \
        return tell_size(size);                                                                                        \
    }
#define SOLVE(S, T, TYPE)                                                                                              \
    VECTOR_SIZE(S, T, , int)                                                                                           \
    VECTOR_SIZE(S, T, Ext, size_t)                                                                                     \
    API cusparseStatus_t cusparse##S##bsrsv2_analysis(                                                                 \
        cusparseHandle_t handle, cusparseDirection_t direction, cusparseOperation_t operation, int mb, int nnzb,       \
        const cusparseMatDescr_t about, const T *values, const int *offsets, const int *columns, int block,            \
        bsrsv2Info_t info, cusparseSolvePolicy_t, void *)                                                              \
    {                                                                                                                  \
        const Call call = CALL;                                                                                        \
        TRY(check(call));                                                                                              \
        return info->plan.analyse(matrix_of(call, TYPE, direction), operation, Part::TRIANGLE, handle->stream);        \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##bsrsv2_solve(                                                                    \
        cusparseHandle_t handle, cusparseDirection_t direction, cusparseOperation_t operation, int mb, int nnzb,       \
        const T *alpha, const cusparseMatDescr_t about, const T *values, const int *offsets, const int *columns,       \
        int block, bsrsv2Info_t info, const T *b, T *x, cusparseSolvePolicy_t, void *)                                 \
    {                                                                                                                  \
        const Call call = CALL;                                                                                        \
        TRY(check(call));                                                                                              \
        CHECK(alpha && (!mb || (b && x)), INVALID_VALUE);                                                              \
        return solve(call, matrix_of(call, TYPE, direction), alpha, strides(b, 0, false), strides(x, 0, false), 1);    \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##bsrsm2_analysis(                                                                 \
        cusparseHandle_t handle, cusparseDirection_t direction, cusparseOperation_t operation, cusparseOperation_t,    \
        int mb, int, int nnzb, const cusparseMatDescr_t about, const T *values, const int *offsets,                    \
        const int *columns, int block, bsrsm2Info_t info, cusparseSolvePolicy_t, void *)                               \
    {                                                                                                                  \
        const Call call = CALL;                                                                                        \
        TRY(check(call));                                                                                              \
        return info->plan.analyse(matrix_of(call, TYPE, direction), operation, Part::TRIANGLE, handle->stream);        \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##bsrsm2_solve(                                                                    \
        cusparseHandle_t handle, cusparseDirection_t direction, cusparseOperation_t operation,                         \
        cusparseOperation_t operation_x, int mb, int n, int nnzb, const T *alpha, const cusparseMatDescr_t about,      \
        const T *values, const int *offsets, const int *columns, int block, bsrsm2Info_t info, const T *b, int ldb,    \
        T *x, int ldx, cusparseSolvePolicy_t, void *)                                                                  \
    {                                                                                                                  \
        const Call call = CALL;                                                                                        \
        const bool transposed = operation_x != CUSPARSE_OPERATION_NON_TRANSPOSE;                                       \
        TRY(check(call));                                                                                              \
        CHECK(alpha &&n >= 0 && (!mb || !n || (b && x)), INVALID_VALUE);                                               \
        CHECK(ldb >= (transposed ? n : mb * block) && ldx >= (transposed ? n : mb * block), INVALID_VALUE);            \
        CHECK(operation_x == CUSPARSE_OPERATION_NON_TRANSPOSE || operation_x == CUSPARSE_OPERATION_TRANSPOSE,          \
              NOT_SUPPORTED);                                                                                          \
        return solve(call, matrix_of(call, TYPE, direction), alpha, strides(b, ldb, transposed),                       \
                     strides(x, ldx, transposed), n);                                                                  \
    }
SPARSE_TYPES(SOLVE)
