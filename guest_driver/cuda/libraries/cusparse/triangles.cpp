// Triangular solves of the generic functions, with a vector or a dense matrix on the right.
#include "plans.h"

using namespace vgc_sparse;

struct cusparseSpSVDescr {
    Plan plan;
};
struct cusparseSpSMDescr {
    Plan plan;
};

namespace
{
const ByType<SolveLaunch> SOLVES = {solve_s, solve_d, solve_c, solve_z};

// One solve: op(A) X = alpha op(B).
struct Call {
    cusparseOperation_t operation, operation_b;
    const cusparseSpMatDescr &a;
    Dense b, x;
    int64_t cols;
    cudaDataType type;
};

cusparseStatus_t check_matrix(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                              cusparseConstSpMatDescr_t a, const void *b, const void *x, const void *plan)
{
    CHECK(handle, NOT_INITIALIZED);
    CHECK(alpha && a && b && x && plan && is_operation(operation) && a->rows == a->cols, INVALID_VALUE);
    CHECK(a->format == CUSPARSE_FORMAT_CSR || a->format == CUSPARSE_FORMAT_COO ||
              a->format == CUSPARSE_FORMAT_SLICED_ELLPACK,
          NOT_SUPPORTED);
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t check(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                       cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t b, cusparseDnVecDescr_t x,
                       cudaDataType type, const void *plan)
{
    TRY(check_matrix(handle, operation, alpha, a, b, x, plan));
    CHECK(b->size == a->rows && x->size == a->rows, INVALID_VALUE);
    CHECK(SOLVES[type] && a->type == type && b->type == type && x->type == type, NOT_SUPPORTED);
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t check(cusparseHandle_t handle, cusparseOperation_t operation, cusparseOperation_t operation_b,
                       const void *alpha, cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b,
                       cusparseDnMatDescr_t x, cudaDataType type, const void *plan)
{
    TRY(check_matrix(handle, operation, alpha, a, b, x, plan));
    CHECK(is_operation(operation_b), INVALID_VALUE);
    const bool transposed = operation_b != CUSPARSE_OPERATION_NON_TRANSPOSE;
    CHECK((transposed ? b->cols : b->rows) == a->rows && x->rows == a->rows, INVALID_VALUE);
    CHECK((transposed ? b->rows : b->cols) == x->cols, INVALID_VALUE);
    CHECK(SOLVES[type] && a->type == type && b->type == type && x->type == type, NOT_SUPPORTED);
    CHECK(b->batches == 1 && x->batches == 1 && x->cols < 0x7fffffff && a->format != CUSPARSE_FORMAT_SLICED_ELLPACK,
          NOT_SUPPORTED);
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t solve(const cusparseContext &context, const Plan &plan, const Call &call, const void *alpha)
{
    CHECK(plan.is_for(call.a, call.operation), INVALID_VALUE);
    if (!call.cols)
        return CUSPARSE_STATUS_SUCCESS;
    Solve work = {};
    work.structure = plan.structure();
    work.values = plan.updated ? plan.updated : call.a.values;
    work.unit = call.a.diagonal == CUSPARSE_DIAG_TYPE_UNIT;
    work.conjugated = call.operation == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE && is_complex(call.type);
    work.conjugates_b = call.operation_b == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE && is_complex(call.type);
    work.b = call.b;
    work.x = call.x;
    work.cols = (int)call.cols;
    work.alpha = scalar_of(context, call.type, alpha);
    return plan.run(work, SOLVES[call.type], context.stream);
}
template <class Descriptor> cusparseStatus_t create(Descriptor **plan)
{
    CHECK(plan, INVALID_VALUE);
    *plan = new (std::nothrow) Descriptor;
    return *plan ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_ALLOC_FAILED;
}
} // namespace

API cusparseStatus_t cusparseSpSV_createDescr(cusparseSpSVDescr_t *plan)
{
    return create(plan);
}
API cusparseStatus_t cusparseSpSV_destroyDescr(cusparseSpSVDescr_t plan)
{
    return drop(plan);
}
API cusparseStatus_t cusparseSpSV_updateMatrix(cusparseHandle_t handle, cusparseSpSVDescr_t plan, void *values,
                                               cusparseSpSVUpdate_t part)
{
    CHECK(handle, NOT_INITIALIZED);
    CHECK(plan && (part == CUSPARSE_SPSV_UPDATE_GENERAL || part == CUSPARSE_SPSV_UPDATE_DIAGONAL), INVALID_VALUE);
    return plan->plan.update(values, part == CUSPARSE_SPSV_UPDATE_DIAGONAL, handle->stream);
}
API cusparseStatus_t cusparseSpSV_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                                             cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x,
                                             cusparseDnVecDescr_t y, cudaDataType type, cusparseSpSVAlg_t,
                                             cusparseSpSVDescr_t plan, size_t *size)
{
    TRY(check(handle, operation, alpha, a, x, y, type, plan));
    CHECK(size, INVALID_VALUE);
    *size = 8; // the structure is the descriptor's own
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpSV_analysis(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                                           cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x,
                                           cusparseDnVecDescr_t y, cudaDataType type, cusparseSpSVAlg_t,
                                           cusparseSpSVDescr_t plan, void *)
{
    TRY(check(handle, operation, alpha, a, x, y, type, plan));
    return plan->plan.analyse(*a, operation, Part::TRIANGLE, handle->stream);
}
API cusparseStatus_t cusparseSpSV_solve(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                                        cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x,
                                        cusparseDnVecDescr_t y, cudaDataType type, cusparseSpSVAlg_t,
                                        cusparseSpSVDescr_t plan)
{
    TRY(check(handle, operation, alpha, a, x, y, type, plan));
    return solve(*handle, plan->plan,
                 {operation, CUSPARSE_OPERATION_NON_TRANSPOSE, *a, Dense{x->values, 1, x->size, 0},
                  Dense{y->values, 1, y->size, 0}, 1, type},
                 alpha);
}

API cusparseStatus_t cusparseSpSM_createDescr(cusparseSpSMDescr_t *plan)
{
    return create(plan);
}
API cusparseStatus_t cusparseSpSM_destroyDescr(cusparseSpSMDescr_t plan)
{
    return drop(plan);
}
API cusparseStatus_t cusparseSpSM_updateMatrix(cusparseHandle_t handle, cusparseSpSMDescr_t plan, void *values,
                                               cusparseSpSMUpdate_t part)
{
    CHECK(handle, NOT_INITIALIZED);
    CHECK(plan && (part == CUSPARSE_SPSM_UPDATE_GENERAL || part == CUSPARSE_SPSM_UPDATE_DIAGONAL), INVALID_VALUE);
    return plan->plan.update(values, part == CUSPARSE_SPSM_UPDATE_DIAGONAL, handle->stream);
}
API cusparseStatus_t cusparseSpSM_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation,
                                             cusparseOperation_t operation_b, const void *alpha,
                                             cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b,
                                             cusparseDnMatDescr_t x, cudaDataType type, cusparseSpSMAlg_t,
                                             cusparseSpSMDescr_t plan, size_t *size)
{
    TRY(check(handle, operation, operation_b, alpha, a, b, x, type, plan));
    CHECK(size, INVALID_VALUE);
    *size = 8;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpSM_analysis(cusparseHandle_t handle, cusparseOperation_t operation,
                                           cusparseOperation_t operation_b, const void *alpha,
                                           cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b,
                                           cusparseDnMatDescr_t x, cudaDataType type, cusparseSpSMAlg_t,
                                           cusparseSpSMDescr_t plan, void *)
{
    TRY(check(handle, operation, operation_b, alpha, a, b, x, type, plan));
    return plan->plan.analyse(*a, operation, Part::TRIANGLE, handle->stream);
}
API cusparseStatus_t cusparseSpSM_solve(cusparseHandle_t handle, cusparseOperation_t operation,
                                        cusparseOperation_t operation_b, const void *alpha, cusparseConstSpMatDescr_t a,
                                        cusparseConstDnMatDescr_t b, cusparseDnMatDescr_t x, cudaDataType type,
                                        cusparseSpSMAlg_t, cusparseSpSMDescr_t plan)
{
    TRY(check(handle, operation, operation_b, alpha, a, b, x, type, plan));
    return solve(*handle, plan->plan,
                 {operation, operation_b, *a, seen(*b, operation_b != CUSPARSE_OPERATION_NON_TRANSPOSE), seen(*x),
                  x->cols, type},
                 alpha);
}
