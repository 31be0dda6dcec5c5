// Products of a sparse matrix with a vector or a dense matrix: one kind of work, since a vector is one column.
#include "descriptors.h"

using namespace vgc_sparse;

namespace
{
struct Side {
    Dense dense;
    int64_t rows, cols;
};

Side side_of(cusparseConstDnVecDescr_t vector)
{
    return {{vector->values, 1, vector->size}, vector->size, 1};
}
Side side_of(cusparseConstDnMatDescr_t matrix, cusparseOperation_t operation = CUSPARSE_OPERATION_NON_TRANSPOSE)
{
    const bool by_row = matrix->order == CUSPARSE_ORDER_ROW;
    const Side side = {{matrix->values, by_row ? matrix->ld : 1, by_row ? 1 : matrix->ld}, matrix->rows, matrix->cols};
    if (operation == CUSPARSE_OPERATION_NON_TRANSPOSE)
        return side;
    return {{matrix->values, side.dense.col, side.dense.row}, side.cols, side.rows};
}

cusparseStatus_t check(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                       cusparseConstSpMatDescr_t a, const void *x, const void *beta, const void *y)
{
    if (!handle)
        return CUSPARSE_STATUS_NOT_INITIALIZED;
    return a && x && y && alpha && beta && is_operation(operation) ? CUSPARSE_STATUS_SUCCESS
                                                                   : CUSPARSE_STATUS_INVALID_VALUE;
}

cusparseStatus_t multiply(const cusparseContext &context, cusparseOperation_t operation, bool conjugates_b,
                          const void *alpha, const cusparseSpMatDescr &a, const Side &b, const void *beta,
                          const Side &c)
{
    const bool transposed = operation != CUSPARSE_OPERATION_NON_TRANSPOSE;
    const int64_t rows = transposed ? a.cols : a.rows, inner = transposed ? a.rows : a.cols;
    if (b.rows != inner || c.rows != rows || b.cols != c.cols)
        return CUSPARSE_STATUS_INVALID_VALUE;
    if (c.cols > 65535 || rows >= 1LL << 37 || a.nnz >= 1LL << 37)
        return CUSPARSE_STATUS_INSUFFICIENT_RESOURCES;
    const bool by_entry = a.format == CUSPARSE_FORMAT_COO, by_row = a.format != CUSPARSE_FORMAT_CSC;
    Product product = {};
    product.a = {a.offsets,
                 a.indices,
                 a.values,
                 a.offset_type == CUSPARSE_INDEX_64I,
                 a.index_type == CUSPARSE_INDEX_64I,
                 a.base == CUSPARSE_INDEX_BASE_ONE,
                 by_entry,
                 operation == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE && is_complex(a.type),
                 by_row ? a.rows : a.cols,
                 a.nnz};
    product.outer_is_result = by_row != transposed;
    product.conjugates_b = conjugates_b && is_complex(a.type);
    product.b = b.dense;
    product.c = c.dense;
    product.rows = rows;
    product.cols = c.cols;
    product.alpha = scalar_of(context, a.type, alpha);
    product.beta = scalar_of(context, a.type, beta);
    return status_of(launches_of(a.type)->product(product, context.stream));
}
} // namespace

API cusparseStatus_t cusparseSpMV(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                                  cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, const void *beta,
                                  cusparseDnVecDescr_t y, cudaDataType type, cusparseSpMVAlg_t, void *)
{
    if (const cusparseStatus_t status = check(handle, operation, alpha, a, x, beta, y))
        return status;
    if (a->type != type || x->type != type || y->type != type)
        return CUSPARSE_STATUS_NOT_SUPPORTED;
    return multiply(*handle, operation, false, alpha, *a, side_of(x), beta, side_of(y));
}
API cusparseStatus_t cusparseSpMV_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                                             cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, const void *beta,
                                             cusparseDnVecDescr_t y, cudaDataType type, cusparseSpMVAlg_t, size_t *size)
{
    if (const cusparseStatus_t status = check(handle, operation, alpha, a, x, beta, y))
        return status;
    if (!size)
        return CUSPARSE_STATUS_INVALID_VALUE;
    if (a->type != type || x->type != type || y->type != type)
        return CUSPARSE_STATUS_NOT_SUPPORTED;
    *size = 8; // programs allocate it, and some take no bytes for an error
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpMV_preprocess(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                                             cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, const void *beta,
                                             cusparseDnVecDescr_t y, cudaDataType, cusparseSpMVAlg_t, void *)
{
    return check(handle, operation, alpha, a, x, beta, y);
}
API cusparseStatus_t cusparseSpMM_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation_a,
                                             cusparseOperation_t operation_b, const void *alpha,
                                             cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b, const void *beta,
                                             cusparseDnMatDescr_t c, cudaDataType type, cusparseSpMMAlg_t, size_t *size)
{
    if (const cusparseStatus_t status = check(handle, operation_a, alpha, a, b, beta, c))
        return status;
    if (!size || !is_operation(operation_b))
        return CUSPARSE_STATUS_INVALID_VALUE;
    if (a->type != type || b->type != type || c->type != type)
        return CUSPARSE_STATUS_NOT_SUPPORTED;
    *size = 8;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpMM(cusparseHandle_t handle, cusparseOperation_t operation_a,
                                  cusparseOperation_t operation_b, const void *alpha, cusparseConstSpMatDescr_t a,
                                  cusparseConstDnMatDescr_t b, const void *beta, cusparseDnMatDescr_t c,
                                  cudaDataType type, cusparseSpMMAlg_t, void *)
{
    if (const cusparseStatus_t status = check(handle, operation_a, alpha, a, b, beta, c))
        return status;
    if (!is_operation(operation_b))
        return CUSPARSE_STATUS_INVALID_VALUE;
    if (a->type != type || b->type != type || c->type != type)
        return CUSPARSE_STATUS_NOT_SUPPORTED;
    return multiply(*handle, operation_a, operation_b == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE, alpha, *a,
                    side_of(b, operation_b), beta, side_of(c));
}
