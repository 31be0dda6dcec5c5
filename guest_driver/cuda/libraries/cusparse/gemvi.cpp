// Products of a dense matrix with a sparse vector.
#include "gemvi_work.h"
#include "legacy.h"

using namespace vgc_sparse;

namespace
{
const ByType<GemviLaunch> GEMVI = {gemvi_s, gemvi_d, gemvi_c, gemvi_z};
}

#define DEFINE_GEMVI(S, T, TYPE)                                                                                       \
    API cusparseStatus_t cusparse##S##gemvi_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation, int m,  \
                                                       int n, int nnz, int *size)                                      \
    {                                                                                                                  \
        CHECK(handle, NOT_INITIALIZED);                                                                                \
        CHECK(is_operation(operation) && m >= 0 && n >= 0 && nnz >= 0 && size, INVALID_VALUE);                         \
        *size = 8;                                                                                                     \
        return CUSPARSE_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##gemvi(cusparseHandle_t handle, cusparseOperation_t operation, int m, int n,      \
                                            const T *alpha, const T *a, int lda, int nnz, const T *x,                  \
                                            const int *indices, const T *beta, T *y, cusparseIndexBase_t base, void *) \
    {                                                                                                                  \
        const bool transposed = operation != CUSPARSE_OPERATION_NON_TRANSPOSE;                                         \
        CHECK(handle, NOT_INITIALIZED);                                                                                \
        CHECK(is_operation(operation) && m >= 0 && n >= 0 && nnz >= 0 && lda >= m && is_base(base), INVALID_VALUE);    \
        CHECK(alpha &&beta &&a &&y && (!nnz || (x && indices)), INVALID_VALUE);                                        \
        const Dense dense = {(void *)a, transposed ? lda : 1, transposed ? 1 : lda, 0};                                \
        return status_of(                                                                                              \
            GEMVI[TYPE]({dense, transposed ? n : m, nnz, base, operation == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE,    \
                         indices, x, y, scalar_of(*handle, TYPE, alpha), scalar_of(*handle, TYPE, beta)},              \
                        handle->stream));                                                                              \
    }
SPARSE_TYPES(DEFINE_GEMVI)
