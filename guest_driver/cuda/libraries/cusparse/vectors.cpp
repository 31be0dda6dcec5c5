// Functions of a sparse and a dense vector.
#include "descriptors.h"
#include "vector_work.h"

using namespace vgc_sparse;

namespace
{
const VectorLaunches *launches_of(cudaDataType type)
{
    switch (type) {
    case CUDA_R_32F:
        return vectors_s();
    case CUDA_R_64F:
        return vectors_d();
    case CUDA_C_32F:
        return vectors_c();
    case CUDA_C_64F:
        return vectors_z();
    case CUDA_R_16F:
        return vectors_half();
    case CUDA_R_16BF:
        return vectors_bfloat();
    default:
        return nullptr;
    }
}
cudaDataType computed(cudaDataType type)
{
    return type == CUDA_R_16F || type == CUDA_R_16BF ? CUDA_R_32F : type;
}
cusparseStatus_t check(cusparseHandle_t handle, cusparseConstSpVecDescr_t x, cusparseConstDnVecDescr_t y)
{
    CHECK(handle, NOT_INITIALIZED);
    CHECK(x && y && x->size == y->size, INVALID_VALUE);
    CHECK(x->type == y->type, NOT_SUPPORTED);
    return CUSPARSE_STATUS_SUCCESS;
}
Indices indices_of(const cusparseSpVecDescr &x)
{
    return {x.indices, x.index_type == CUSPARSE_INDEX_64I, x.base == CUSPARSE_INDEX_BASE_ONE};
}
VectorWork work_of(const cusparseSpVecDescr &x, const cusparseDnVecDescr &y)
{
    VectorWork work = {};
    work.indices = indices_of(x);
    work.x = x.values;
    work.y = y.values;
    work.nnz = x.nnz;
    work.size = y.size;
    return work;
}
} // namespace

API cusparseStatus_t cusparseAxpby(cusparseHandle_t handle, const void *alpha, cusparseConstSpVecDescr_t x,
                                   const void *beta, cusparseDnVecDescr_t y)
{
    TRY(check(handle, x, y));
    CHECK(alpha && beta, INVALID_VALUE);
    CHECK(launches_of(x->type), NOT_SUPPORTED);
    VectorWork work = work_of(*x, *y);
    work.alpha = scalar_of(*handle, computed(x->type), alpha);
    work.beta = scalar_of(*handle, computed(x->type), beta);
    return status_of(launches_of(x->type)->add(work, handle->stream));
}
API cusparseStatus_t cusparseRot(cusparseHandle_t handle, const void *c, const void *s, cusparseSpVecDescr_t x,
                                 cusparseDnVecDescr_t y)
{
    TRY(check(handle, x, y));
    CHECK(c && s, INVALID_VALUE);
    CHECK(launches_of(x->type), NOT_SUPPORTED);
    VectorWork work = work_of(*x, *y);
    work.alpha = scalar_of(*handle, computed(x->type), c);
    work.beta = scalar_of(*handle, computed(x->type), s);
    return status_of(launches_of(x->type)->rotate(work, handle->stream));
}
API cusparseStatus_t cusparseGather(cusparseHandle_t handle, cusparseConstDnVecDescr_t y, cusparseSpVecDescr_t x)
{
    TRY(check(handle, x, y));
    return status_of(
        gather_elements(x->values, y->values, indices_of(*x), x->nnz, (int)size_of(x->type), handle->stream));
}
API cusparseStatus_t cusparseScatter(cusparseHandle_t handle, cusparseConstSpVecDescr_t x, cusparseDnVecDescr_t y)
{
    TRY(check(handle, x, y));
    return status_of(
        scatter_elements(y->values, x->values, indices_of(*x), x->nnz, (int)size_of(x->type), handle->stream));
}
API cusparseStatus_t cusparseSpVV_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation,
                                             cusparseConstSpVecDescr_t x, cusparseConstDnVecDescr_t y,
                                             const void *result, cudaDataType type, size_t *size)
{
    TRY(check(handle, x, y));
    CHECK(result && size && is_operation(operation), INVALID_VALUE);
    CHECK(launches_of(x->type) && computed(x->type) == type, NOT_SUPPORTED);
    *size = 16; // the sum
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpVV(cusparseHandle_t handle, cusparseOperation_t operation, cusparseConstSpVecDescr_t x,
                                  cusparseConstDnVecDescr_t y, void *result, cudaDataType type, void *buffer)
{
    TRY(check(handle, x, y));
    CHECK(result && buffer && is_operation(operation), INVALID_VALUE);
    CHECK(launches_of(x->type) && computed(x->type) == type, NOT_SUPPORTED);
    VectorWork work = work_of(*x, *y);
    work.conjugated = operation == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE;
    work.result = result;
    work.sum = buffer;
    TRY(status_of(launches_of(x->type)->multiply(work, handle->stream)));
    if (handle->mode == CUSPARSE_POINTER_MODE_HOST)
        return status_of(cudaStreamSynchronize(handle->stream));
    return CUSPARSE_STATUS_SUCCESS;
}
