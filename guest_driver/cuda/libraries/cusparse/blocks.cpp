// Conversions between CSR and BSR, and products of BSR.
#include "block_work.h"
#include "legacy.h"

using namespace vgc_sparse;

namespace
{
struct Conversion {
    cusparseHandle_t handle;
    cusparseDirection_t direction;
    int rows, cols; // of numbers where they come from CSR, else of blocks
    cusparseMatDescr_t from, to;
    int row_block, col_block, size;
};
cusparseStatus_t check(const Conversion &call, const void *offsets, const void *columns, const void *made)
{
    CHECK(call.handle, NOT_INITIALIZED);
    CHECK(call.rows >= 0 && call.cols >= 0 && call.from && call.to && call.row_block > 0 && call.col_block > 0,
          INVALID_VALUE);
    CHECK(call.direction == CUSPARSE_DIRECTION_ROW || call.direction == CUSPARSE_DIRECTION_COLUMN, INVALID_VALUE);
    CHECK(offsets && columns && made, INVALID_VALUE);
    CHECK(call.from->type == CUSPARSE_MATRIX_TYPE_GENERAL && call.to->type == CUSPARSE_MATRIX_TYPE_GENERAL,
          MATRIX_TYPE_NOT_SUPPORTED);
    return CUSPARSE_STATUS_SUCCESS;
}
BlockShape shape_of(const Conversion &call)
{
    return {call.row_block, call.col_block, call.direction == CUSPARSE_DIRECTION_COLUMN, call.size};
}
int rows_of_blocks(const Conversion &call)
{
    return (call.rows + call.row_block - 1) / call.row_block;
}
IndexedRows rows_of(const cusparseMatDescr &about, const int *offsets, const int *columns, const void *values,
                    int count)
{
    return {(int *)offsets, (int *)columns, (void *)values, base_of(about), count};
}
cusparseStatus_t count(const Conversion &call, const int *offsets, const int *columns, int *made, int *total)
{
    TRY(check(call, offsets, columns, made));
    CHECK(total, INVALID_VALUE);
    const cudaStream_t stream = call.handle->stream;
    const int blocks = rows_of_blocks(call);
    TRY(status_of(count_blocks(rows_of(*call.from, offsets, columns, nullptr, call.rows), shape_of(call),
                               rows_of(*call.to, made, nullptr, nullptr, blocks), stream)));
    TRY(status_of(scan({made, 0, base_of(*call.to)}, blocks, stream)));
    return tell_end(*call.handle, made, blocks, base_of(*call.to), total);
}
cusparseStatus_t to_blocks(const Conversion &call, const void *values, const int *offsets, const int *columns,
                           void *made_values, int *made_offsets, int *made_columns)
{
    TRY(check(call, offsets, columns, made_offsets));
    CHECK(values && made_values && made_columns, INVALID_VALUE);
    return status_of(fill_blocks(rows_of(*call.from, offsets, columns, values, call.rows), shape_of(call),
                                 rows_of(*call.to, made_offsets, made_columns, made_values, rows_of_blocks(call)),
                                 call.handle->stream));
}
cusparseStatus_t to_rows(const Conversion &call, const void *values, const int *offsets, const int *columns,
                         void *made_values, int *made_offsets, int *made_columns)
{
    TRY(check(call, offsets, columns, made_offsets));
    CHECK(made_columns && !values == !made_values, INVALID_VALUE);
    return status_of(split_blocks(
        rows_of(*call.from, offsets, columns, values, call.rows), shape_of(call),
        rows_of(*call.to, made_offsets, made_columns, made_values, call.rows * call.row_block), call.handle->stream));
}
template <class Size> cusparseStatus_t tell_size(cusparseHandle_t handle, Size *size, size_t bytes)
{
    CHECK(handle, NOT_INITIALIZED);
    CHECK(size, INVALID_VALUE);
    *size = (Size)bytes;
    return CUSPARSE_STATUS_SUCCESS;
}
// As csr2csc, of blocks in place of numbers.
cusparseStatus_t transpose(cusparseHandle_t handle, int mb, int nb, int nnzb, const void *values, const int *offsets,
                           const int *columns, int elements, void *made, int *made_rows, int *made_offsets,
                           cusparseAction_t action, cusparseIndexBase_t base, void *buffer, cudaDataType type)
{
    CHECK(handle, NOT_INITIALIZED);
    CHECK(elements > 0, INVALID_VALUE);
    const bool numeric = action == CUSPARSE_ACTION_NUMERIC;
    CHECK(!nnzb || !numeric || (values && made), INVALID_VALUE);
    TRY(cusparseCsr2cscEx2(handle, mb, nb, nnzb, nullptr, offsets, columns, nullptr, made_offsets, made_rows, type,
                           CUSPARSE_ACTION_SYMBOLIC, base, CUSPARSE_CSR2CSC_ALG1, buffer));
    if (!nnzb || !numeric)
        return CUSPARSE_STATUS_SUCCESS;
    Sorting sorting(buffer, nnzb); // the same work once more, for the order
    TRY(status_of(
        sorting.of_rows({(void *)offsets, 0, base}, mb, {(void *)columns, 0, base}, nnzb, true, handle->stream)));
    return status_of(
        permute_blocks(made, values, sorting.order[0], nnzb, elements, (int)size_of(type), handle->stream));
}
cusparseStatus_t multiply(cusparseHandle_t handle, cusparseOperation_t operation, cusparseOperation_t operation_b,
                          const void *alpha, const cusparseSpMatDescr &a, const void *b, int ldb, int cols,
                          const void *beta, void *c, int ldc)
{
    CHECK(a.block_rows > 0 && a.rows >= 0 && a.cols >= 0 && a.nnz >= 0 && cols >= 0, INVALID_VALUE);
    CHECK(a.offsets && (!a.nnz || (a.indices && a.values)), INVALID_VALUE);
    CHECK(operation == CUSPARSE_OPERATION_NON_TRANSPOSE, NOT_SUPPORTED);
    const bool transposed = operation_b != CUSPARSE_OPERATION_NON_TRANSPOSE;
    const int64_t rows_b = transposed ? cols : a.cols;
    CHECK(ldb >= rows_b && ldc >= a.rows && ((b && c) || !a.rows || !cols), INVALID_VALUE);
    const cusparseDnMatDescr dense_b = {rows_b, transposed ? a.cols : cols, ldb, (void *)b,
                                        a.type, CUSPARSE_ORDER_COL,         1,   0};
    cusparseDnMatDescr dense_c = {a.rows, cols, ldc, c, a.type, CUSPARSE_ORDER_COL, 1, 0};
    return cusparseSpMM(handle, operation, operation_b, alpha, &a, &dense_b, beta, &dense_c, a.type,
                        CUSPARSE_SPMM_ALG_DEFAULT, nullptr);
}
} // namespace

API cusparseStatus_t cusparseXcsr2bsrNnz(cusparseHandle_t handle, cusparseDirection_t direction, int m, int n,
                                         const cusparseMatDescr_t about_a, const int *offsets_a, const int *columns_a,
                                         int block, const cusparseMatDescr_t about_c, int *offsets_c, int *total)
{
    return count({handle, direction, m, n, about_a, about_c, block, block, 0}, offsets_a, columns_a, offsets_c, total);
}
API cusparseStatus_t cusparseXcsr2gebsrNnz(cusparseHandle_t handle, cusparseDirection_t direction, int m, int n,
                                           const cusparseMatDescr_t about_a, const int *offsets_a, const int *columns_a,
                                           const cusparseMatDescr_t about_c, int *offsets_c, int row_block,
                                           int col_block, int *total, void *)
{
    return count({handle, direction, m, n, about_a, about_c, row_block, col_block, 0}, offsets_a, columns_a, offsets_c,
                 total);
}
API cusparseStatus_t cusparseXgebsr2csr(cusparseHandle_t handle, cusparseDirection_t direction, int mb, int nb,
                                        const cusparseMatDescr_t about_a, const int *offsets_a, const int *columns_a,
                                        int row_block, int col_block, const cusparseMatDescr_t about_c, int *offsets_c,
                                        int *columns_c)
{
    return to_rows({handle, direction, mb, nb, about_a, about_c, row_block, col_block, 0}, nullptr, offsets_a,
                   columns_a, nullptr, offsets_c, columns_c);
}

#define BLOCK_SIZES(S, T, SUFFIX, SIZE)                                                                                \
    API cusparseStatus_t cusparse##S##csr2gebsr_bufferSize##SUFFIX(cusparseHandle_t handle, cusparseDirection_t, int,  \
                                                                   int, const cusparseMatDescr_t, const T *,           \
                                                                   const int *, const int *, int, int, SIZE *size)     \
    {                                                                                                                  \
        return tell_size(handle, size, 8);                                                                             \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##gebsr2gebsc_bufferSize##SUFFIX(                                                  \
        cusparseHandle_t handle, int, int, int nnzb, const T *, const int *, const int *, int, int, SIZE *size)        \
    {                                                                                                                  \
        CHECK(nnzb >= 0, INVALID_VALUE);                                                                               \
        return tell_size(handle, size, Sorting::bytes(nnzb));                                                          \
    }
#define BLOCKS(S, T, TYPE)                                                                                             \
    BLOCK_SIZES(S, T, , int)                                                                                           \
    BLOCK_SIZES(S, T, Ext, size_t)                                                                                     \
    API cusparseStatus_t cusparse##S##csr2bsr(                                                                         \
        cusparseHandle_t handle, cusparseDirection_t direction, int m, int n, const cusparseMatDescr_t about_a,        \
        const T *values_a, const int *offsets_a, const int *columns_a, int block, const cusparseMatDescr_t about_c,    \
        T *values_c, int *offsets_c, int *columns_c)                                                                   \
    {                                                                                                                  \
        return to_blocks({handle, direction, m, n, about_a, about_c, block, block, sizeof(T)}, values_a, offsets_a,    \
                         columns_a, values_c, offsets_c, columns_c);                                                   \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##csr2gebsr(                                                                       \
        cusparseHandle_t handle, cusparseDirection_t direction, int m, int n, const cusparseMatDescr_t about_a,        \
        const T *values_a, const int *offsets_a, const int *columns_a, const cusparseMatDescr_t about_c, T *values_c,  \
        int *offsets_c, int *columns_c, int row_block, int col_block, void *)                                          \
    {                                                                                                                  \
        return to_blocks({handle, direction, m, n, about_a, about_c, row_block, col_block, sizeof(T)}, values_a,       \
                         offsets_a, columns_a, values_c, offsets_c, columns_c);                                        \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##bsr2csr(                                                                         \
        cusparseHandle_t handle, cusparseDirection_t direction, int mb, int nb, const cusparseMatDescr_t about_a,      \
        const T *values_a, const int *offsets_a, const int *columns_a, int block, const cusparseMatDescr_t about_c,    \
        T *values_c, int *offsets_c, int *columns_c)                                                                   \
    {                                                                                                                  \
        return to_rows({handle, direction, mb, nb, about_a, about_c, block, block, sizeof(T)}, values_a, offsets_a,    \
                       columns_a, values_c, offsets_c, columns_c);                                                     \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##gebsr2csr(                                                                       \
        cusparseHandle_t handle, cusparseDirection_t direction, int mb, int nb, const cusparseMatDescr_t about_a,      \
        const T *values_a, const int *offsets_a, const int *columns_a, int row_block, int col_block,                   \
        const cusparseMatDescr_t about_c, T *values_c, int *offsets_c, int *columns_c)                                 \
    {                                                                                                                  \
        return to_rows({handle, direction, mb, nb, about_a, about_c, row_block, col_block, sizeof(T)}, values_a,       \
                       offsets_a, columns_a, values_c, offsets_c, columns_c);                                          \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##gebsr2gebsc(cusparseHandle_t handle, int mb, int nb, int nnzb, const T *values,  \
                                                  const int *offsets, const int *columns, int row_block,               \
                                                  int col_block, T *made_values, int *made_rows, int *made_offsets,    \
                                                  cusparseAction_t action, cusparseIndexBase_t base, void *buffer)     \
    {                                                                                                                  \
        return transpose(handle, mb, nb, nnzb, values, offsets, columns, row_block * col_block, made_values,           \
                         made_rows, made_offsets, action, base, buffer, TYPE);                                         \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##bsrmv(cusparseHandle_t handle, cusparseDirection_t direction,                    \
                                            cusparseOperation_t operation, int mb, int nb, int nnzb, const T *alpha,   \
                                            const cusparseMatDescr_t about, const T *values, const int *offsets,       \
                                            const int *columns, int block, const T *x, const T *beta, T *y)            \
    {                                                                                                                  \
        CHECK(handle, NOT_INITIALIZED);                                                                                \
        CHECK(about &&alpha &&beta &&block > 0, INVALID_VALUE);                                                        \
        CHECK(about->type == CUSPARSE_MATRIX_TYPE_GENERAL, MATRIX_TYPE_NOT_SUPPORTED);                                 \
        return multiply(handle, operation, CUSPARSE_OPERATION_NON_TRANSPOSE, alpha,                                    \
                        matrix_of(*about, TYPE, mb, nb, nnzb, values, offsets, columns, block, direction), x,          \
                        nb * block, 1, beta, y, mb * block);                                                           \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##bsrmm(cusparseHandle_t handle, cusparseDirection_t direction,                    \
                                            cusparseOperation_t operation, cusparseOperation_t operation_b, int mb,    \
                                            int n, int kb, int nnzb, const T *alpha, const cusparseMatDescr_t about,   \
                                            const T *values, const int *offsets, const int *columns, int block,        \
                                            const T *b, int ldb, const T *beta, T *c, int ldc)                         \
    {                                                                                                                  \
        CHECK(handle, NOT_INITIALIZED);                                                                                \
        CHECK(about &&alpha &&beta &&block > 0, INVALID_VALUE);                                                        \
        CHECK(about->type == CUSPARSE_MATRIX_TYPE_GENERAL, MATRIX_TYPE_NOT_SUPPORTED);                                 \
        return multiply(handle, operation, operation_b, alpha,                                                         \
                        matrix_of(*about, TYPE, mb, kb, nnzb, values, offsets, columns, block, direction), b, ldb, n,  \
                        beta, c, ldc);                                                                                 \
    }
SPARSE_TYPES(BLOCKS)
