// Products of a sparse matrix with a vector or a dense matrix: one kind of work, since a vector is one column.
#include "descriptors.h"
#include "product_types.h"

using namespace vgc_sparse;

namespace
{
struct Types {
    cudaDataType a, b, c, compute;
};
struct Combination {
    Types types;
    ProductLaunch *launch, *blocked;
};
#define COMBINATION(A, B, C, COMPUTE, NAME)                                                                            \
    {{CUDA_##A, CUDA_##B, CUDA_##C, CUDA_##COMPUTE}, products_##NAME, blocked_products_##NAME}
const Combination COMBINATIONS[] = {
    COMBINATION(R_32F, R_32F, R_32F, R_32F, s),         COMBINATION(R_64F, R_64F, R_64F, R_64F, d),
    COMBINATION(C_32F, C_32F, C_32F, C_32F, c),         COMBINATION(C_64F, C_64F, C_64F, C_64F, z),
    COMBINATION(R_16F, R_16F, R_16F, R_32F, half),      COMBINATION(R_16F, R_16F, R_32F, R_32F, half_float),
    COMBINATION(R_16BF, R_16BF, R_16BF, R_32F, bfloat), COMBINATION(R_16BF, R_16BF, R_32F, R_32F, bfloat_float),
    COMBINATION(R_8I, R_8I, R_32I, R_32I, char_int),    COMBINATION(R_8I, R_8I, R_32F, R_32F, char_float),
    COMBINATION(R_32F, C_32F, C_32F, C_32F, s_c),       COMBINATION(R_64F, C_64F, C_64F, C_64F, d_z),
    COMBINATION(R_32F, R_64F, R_64F, R_64F, s_d),
};
const Combination *combination_of(const Types &types)
{
    for (const Combination &one : COMBINATIONS)
        if (one.types.a == types.a && one.types.b == types.b && one.types.c == types.c &&
            one.types.compute == types.compute)
            return &one;
    return nullptr;
}

// A vector or a dense matrix, as op() makes of it.
struct Side {
    Dense dense;
    int64_t rows, cols;
    cudaDataType type;
    int batches;
};
Side side_of(cusparseConstDnVecDescr_t vector)
{
    return {{vector->values, 1, vector->size, 0}, vector->size, 1, vector->type, 1};
}
Side side_of(cusparseConstDnMatDescr_t matrix, cusparseOperation_t operation = CUSPARSE_OPERATION_NON_TRANSPOSE)
{
    const bool transposed = operation != CUSPARSE_OPERATION_NON_TRANSPOSE;
    return {seen(*matrix, transposed), transposed ? matrix->cols : matrix->rows,
            transposed ? matrix->rows : matrix->cols, matrix->type, matrix->batches};
}

struct Call {
    cusparseOperation_t operation_a, operation_b;
    const cusparseSpMatDescr &a;
    Side b, c;
    cudaDataType type;
};

cusparseStatus_t check(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                       cusparseConstSpMatDescr_t a, const void *x, const void *beta, const void *y)
{
    CHECK(handle, NOT_INITIALIZED);
    CHECK(a && x && y && alpha && beta && is_operation(operation), INVALID_VALUE);
    return CUSPARSE_STATUS_SUCCESS;
}
bool is_batched_alike(const Call &call)
{
    const int batches = call.c.batches;
    return (call.a.batches == 1 || call.a.batches == batches) && (call.b.batches == 1 || call.b.batches == batches);
}
cusparseStatus_t check(const Call &call)
{
    const bool transposed = call.operation_a != CUSPARSE_OPERATION_NON_TRANSPOSE;
    const int64_t rows = transposed ? call.a.cols : call.a.rows, inner = transposed ? call.a.rows : call.a.cols;
    CHECK(is_operation(call.operation_b), INVALID_VALUE);
    CHECK(call.b.rows == inner && call.c.rows == rows && call.b.cols == call.c.cols, INVALID_VALUE);
    CHECK(is_batched_alike(call), INVALID_VALUE);
    CHECK(combination_of({call.a.type, call.b.type, call.c.type, call.type}), NOT_SUPPORTED);
    CHECK(call.a.batches == 1 || (call.a.format != CUSPARSE_FORMAT_BLOCKED_ELL && call.a.format != CUSPARSE_FORMAT_CSC),
          NOT_SUPPORTED);
    CHECK(rows < 1LL << 37 && call.a.nnz < 1LL << 37 && call.c.cols < 1LL << 22, INSUFFICIENT_RESOURCES);
    return CUSPARSE_STATUS_SUCCESS;
}
bool adds_into_sums(const Call &call)
{
    const bool transposed = call.operation_a != CUSPARSE_OPERATION_NON_TRANSPOSE;
    return call.c.type != call.type && (call.a.format == CUSPARSE_FORMAT_COO ||
                                        transposed != (call.a.format == CUSPARSE_FORMAT_CSC) || !call.a.nnz);
}
size_t buffer_of(const Call &call)
{
    const size_t sums = (size_t)(call.c.rows * call.c.cols * call.c.batches) * 4; // floats
    return adds_into_sums(call) && sums ? sums : 8; // programs allocate it, and some take no bytes for an error
}
cusparseStatus_t multiply(const cusparseContext &context, const Call &call, const void *alpha, const void *beta,
                          void *buffer)
{
    TRY(check(call));
    CHECK(buffer || !adds_into_sums(call), INVALID_VALUE);
    const Combination &combination = *combination_of({call.a.type, call.b.type, call.c.type, call.type});
    const bool transposed = call.operation_a != CUSPARSE_OPERATION_NON_TRANSPOSE;
    Product product = {};
    product.a = seen(call.a);
    product.a.conjugated = call.operation_a == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE && is_complex(call.a.type);
    product.outer_is_result = transposed == (call.a.format == CUSPARSE_FORMAT_CSC);
    product.conjugates_b = call.operation_b == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE && is_complex(call.b.type);
    product.b = call.b.dense;
    product.c = call.c.dense;
    product.sums = buffer;
    product.rows = call.c.rows;
    product.cols = call.c.cols;
    product.batches = call.c.batches;
    product.alpha = scalar_of(context, call.type, alpha);
    product.beta = scalar_of(context, call.type, beta);
    const bool blocked = product.a.layout != COMPRESSED && product.a.layout != ENTRIES;
    return status_of((blocked ? combination.blocked : combination.launch)(product, context.stream));
}
// A product with a vector, which Blocked-ELL has none of.
cusparseStatus_t vector_call(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                             cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, const void *beta,
                             cusparseConstDnVecDescr_t y)
{
    TRY(check(handle, operation, alpha, a, x, beta, y));
    CHECK(a->format != CUSPARSE_FORMAT_BLOCKED_ELL && a->batches == 1, NOT_SUPPORTED);
    return CUSPARSE_STATUS_SUCCESS;
}
} // namespace

#define VECTOR_CALL {operation, CUSPARSE_OPERATION_NON_TRANSPOSE, *a, side_of(x), side_of(y), type}
#define MATRIX_CALL {operation_a, operation_b, *a, side_of(b, operation_b), side_of(c), type}

API cusparseStatus_t cusparseSpMV(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                                  cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, const void *beta,
                                  cusparseDnVecDescr_t y, cudaDataType type, cusparseSpMVAlg_t, void *buffer)
{
    TRY(vector_call(handle, operation, alpha, a, x, beta, y));
    return multiply(*handle, VECTOR_CALL, alpha, beta, buffer);
}
API cusparseStatus_t cusparseSpMV_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                                             cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, const void *beta,
                                             cusparseDnVecDescr_t y, cudaDataType type, cusparseSpMVAlg_t, size_t *size)
{
    TRY(vector_call(handle, operation, alpha, a, x, beta, y));
    CHECK(size, INVALID_VALUE);
    const Call call = VECTOR_CALL;
    TRY(check(call));
    *size = buffer_of(call);
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpMV_preprocess(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                                             cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, const void *beta,
                                             cusparseDnVecDescr_t y, cudaDataType type, cusparseSpMVAlg_t, void *)
{
    TRY(vector_call(handle, operation, alpha, a, x, beta, y));
    return check(VECTOR_CALL);
}
API cusparseStatus_t cusparseSpMM_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation_a,
                                             cusparseOperation_t operation_b, const void *alpha,
                                             cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b, const void *beta,
                                             cusparseDnMatDescr_t c, cudaDataType type, cusparseSpMMAlg_t, size_t *size)
{
    TRY(check(handle, operation_a, alpha, a, b, beta, c));
    CHECK(size, INVALID_VALUE);
    const Call call = MATRIX_CALL;
    TRY(check(call));
    *size = buffer_of(call);
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpMM_preprocess(cusparseHandle_t handle, cusparseOperation_t operation_a,
                                             cusparseOperation_t operation_b, const void *alpha,
                                             cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b, const void *beta,
                                             cusparseDnMatDescr_t c, cudaDataType type, cusparseSpMMAlg_t, void *)
{
    TRY(check(handle, operation_a, alpha, a, b, beta, c));
    return check(MATRIX_CALL);
}
API cusparseStatus_t cusparseSpMM(cusparseHandle_t handle, cusparseOperation_t operation_a,
                                  cusparseOperation_t operation_b, const void *alpha, cusparseConstSpMatDescr_t a,
                                  cusparseConstDnMatDescr_t b, const void *beta, cusparseDnMatDescr_t c,
                                  cudaDataType type, cusparseSpMMAlg_t, void *buffer)
{
    TRY(check(handle, operation_a, alpha, a, b, beta, c));
    return multiply(*handle, MATRIX_CALL, alpha, beta, buffer);
}
