// Descriptors of sparse matrices: creation in every format, and what programs read and change of them.
#include <cstring>

#include "descriptors.h"

using namespace vgc_sparse;

namespace
{
cusparseStatus_t make_sparse(cusparseSpMatDescr_t *result, const cusparseSpMatDescr &matrix)
{
    CHECK(result && matrix.rows >= 0 && matrix.cols >= 0 && matrix.nnz >= 0 && is_base(matrix.base), INVALID_VALUE);
    CHECK(!matrix.nnz || (matrix.offsets && matrix.indices && matrix.values), INVALID_VALUE);
    CHECK(is_index(matrix.offset_type) && is_index(matrix.index_type) && size_of(matrix.type), NOT_SUPPORTED);
    return make(result, matrix);
}
cusparseSpMatDescr plain(cusparseFormat_t format, int64_t rows, int64_t cols, int64_t nnz, const void *offsets,
                         const void *indices, const void *values)
{
    cusparseSpMatDescr matrix = {};
    matrix.format = format;
    matrix.rows = rows;
    matrix.cols = cols;
    matrix.nnz = nnz;
    matrix.offsets = (void *)offsets;
    matrix.indices = (void *)indices;
    matrix.values = (void *)values;
    matrix.block_rows = matrix.block_cols = matrix.batches = 1;
    matrix.order = CUSPARSE_ORDER_ROW;
    return matrix;
}
cusparseSpMatDescr typed(cusparseSpMatDescr matrix, cusparseIndexType_t offset_type, cusparseIndexType_t index_type,
                         cusparseIndexBase_t base, cudaDataType type)
{
    matrix.offset_type = offset_type;
    matrix.index_type = index_type;
    matrix.base = base;
    matrix.type = type;
    return matrix;
}
cusparseStatus_t set_pointers(cusparseSpMatDescr_t matrix, cusparseFormat_t format, void *offsets, void *indices,
                              void *values)
{
    CHECK(matrix && matrix->format == format && offsets, INVALID_VALUE);
    CHECK(!matrix->nnz || (indices && values), INVALID_VALUE);
    matrix->offsets = offsets;
    matrix->indices = indices;
    matrix->values = values;
    return CUSPARSE_STATUS_SUCCESS;
}
// What the functions of the form cusparseCsrGet() tell.
struct Told {
    int64_t *rows, *cols, *nnz;
    void **offsets, **indices, **values;
    cusparseIndexType_t *offset_type, *index_type;
    cusparseIndexBase_t *base;
    cudaDataType *type;
};
cusparseStatus_t tell(cusparseConstSpMatDescr_t matrix, cusparseFormat_t format, const Told &told)
{
    CHECK(matrix && matrix->format == format && told.rows && told.cols && told.nnz && told.offsets && told.indices &&
              told.values && told.offset_type && told.index_type && told.base && told.type,
          INVALID_VALUE);
    *told.rows = matrix->rows;
    *told.cols = matrix->cols;
    *told.nnz = matrix->nnz;
    *told.offsets = matrix->offsets;
    *told.indices = matrix->indices;
    *told.values = matrix->values;
    *told.offset_type = matrix->offset_type;
    *told.index_type = matrix->index_type;
    *told.base = matrix->base;
    *told.type = matrix->type;
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t set_batches(cusparseSpMatDescr_t matrix, cusparseFormat_t format, int batches, int64_t offsets,
                             int64_t indices, int64_t values)
{
    CHECK(matrix && matrix->format == format && batches > 0 && offsets >= 0 && indices >= 0 && values >= 0,
          INVALID_VALUE);
    matrix->batches = batches;
    matrix->batch_offsets = offsets;
    matrix->batch_indices = indices;
    matrix->batch_values = values;
    return CUSPARSE_STATUS_SUCCESS;
}
} // namespace

Sparse vgc_sparse::seen(const cusparseSpMatDescr &matrix)
{
    Sparse sparse = {};
    sparse.offsets = matrix.offsets;
    sparse.indices = matrix.indices;
    sparse.values = matrix.values;
    sparse.wide_offsets = matrix.offset_type == CUSPARSE_INDEX_64I;
    sparse.wide_indices = matrix.index_type == CUSPARSE_INDEX_64I;
    sparse.base = matrix.base == CUSPARSE_INDEX_BASE_ONE;
    sparse.layout = matrix.format == CUSPARSE_FORMAT_COO || !matrix.nnz ? ENTRIES
                    : matrix.format == CUSPARSE_FORMAT_BSR              ? BLOCKS
                    : matrix.format == CUSPARSE_FORMAT_BLOCKED_ELL      ? BLOCKED_ELL
                    : matrix.format == CUSPARSE_FORMAT_SLICED_ELLPACK   ? SLICES
                                                                        : COMPRESSED;
    sparse.outer = matrix.format == CUSPARSE_FORMAT_CSC ? matrix.cols : matrix.rows;
    sparse.nnz = matrix.nnz;
    sparse.block_rows = matrix.block_rows;
    sparse.block_cols = matrix.block_cols;
    sparse.width = matrix.ell_cols / matrix.block_cols;
    sparse.blocks_by_column = matrix.order == CUSPARSE_ORDER_COL;
    sparse.batch_offsets = matrix.batch_offsets;
    sparse.batch_indices = matrix.batch_indices;
    sparse.batch_values = matrix.batch_values;
    return sparse;
}

#define CREATE(CONST, VOID)                                                                                            \
    API cusparseStatus_t cusparseCreate##CONST##Csr(cusparse##CONST##SpMatDescr_t *matrix, int64_t rows, int64_t cols, \
                                                    int64_t nnz, VOID *offsets, VOID *columns, VOID *values,           \
                                                    cusparseIndexType_t offset_type, cusparseIndexType_t column_type,  \
                                                    cusparseIndexBase_t base, cudaDataType type)                       \
    {                                                                                                                  \
        return make_sparse((cusparseSpMatDescr_t *)matrix,                                                             \
                           typed(plain(CUSPARSE_FORMAT_CSR, rows, cols, nnz, offsets, columns, values), offset_type,   \
                                 column_type, base, type));                                                            \
    }                                                                                                                  \
    API cusparseStatus_t cusparseCreate##CONST##Csc(cusparse##CONST##SpMatDescr_t *matrix, int64_t rows, int64_t cols, \
                                                    int64_t nnz, VOID *offsets, VOID *row_indices, VOID *values,       \
                                                    cusparseIndexType_t offset_type, cusparseIndexType_t row_type,     \
                                                    cusparseIndexBase_t base, cudaDataType type)                       \
    {                                                                                                                  \
        return make_sparse((cusparseSpMatDescr_t *)matrix,                                                             \
                           typed(plain(CUSPARSE_FORMAT_CSC, rows, cols, nnz, offsets, row_indices, values),            \
                                 offset_type, row_type, base, type));                                                  \
    }                                                                                                                  \
    API cusparseStatus_t cusparseCreate##CONST##Coo(                                                                   \
        cusparse##CONST##SpMatDescr_t *matrix, int64_t rows, int64_t cols, int64_t nnz, VOID *row_indices,             \
        VOID *columns, VOID *values, cusparseIndexType_t index_type, cusparseIndexBase_t base, cudaDataType type)      \
    {                                                                                                                  \
        return make_sparse((cusparseSpMatDescr_t *)matrix,                                                             \
                           typed(plain(CUSPARSE_FORMAT_COO, rows, cols, nnz, row_indices, columns, values),            \
                                 index_type, index_type, base, type));                                                 \
    }                                                                                                                  \
    API cusparseStatus_t cusparseCreate##CONST##Bsr(                                                                   \
        cusparse##CONST##SpMatDescr_t *matrix, int64_t rows, int64_t cols, int64_t nnz, int64_t block_rows,            \
        int64_t block_cols, VOID *offsets, VOID *columns, VOID *values, cusparseIndexType_t offset_type,               \
        cusparseIndexType_t column_type, cusparseIndexBase_t base, cudaDataType type, cusparseOrder_t order)           \
    {                                                                                                                  \
        CHECK(block_rows > 0 && block_cols > 0, INVALID_VALUE);                                                        \
        CHECK(order == CUSPARSE_ORDER_ROW || order == CUSPARSE_ORDER_COL, INVALID_VALUE);                              \
        cusparseSpMatDescr made =                                                                                      \
            plain(CUSPARSE_FORMAT_BSR, rows * block_rows, cols * block_cols, nnz, offsets, columns, values);           \
        made.block_rows = block_rows;                                                                                  \
        made.block_cols = block_cols;                                                                                  \
        made.order = order;                                                                                            \
        return make_sparse((cusparseSpMatDescr_t *)matrix, typed(made, offset_type, column_type, base, type));         \
    }                                                                                                                  \
    API cusparseStatus_t cusparseCreate##CONST##BlockedEll(                                                            \
        cusparse##CONST##SpMatDescr_t *matrix, int64_t rows, int64_t cols, int64_t block, int64_t ell_cols,            \
        VOID *columns, VOID *values, cusparseIndexType_t index_type, cusparseIndexBase_t base, cudaDataType type)      \
    {                                                                                                                  \
        CHECK(block > 0 && ell_cols >= 0 && rows % block == 0 && cols % block == 0 && ell_cols % block == 0 &&         \
                  ell_cols <= cols,                                                                                    \
              INVALID_VALUE);                                                                                          \
        cusparseSpMatDescr made =                                                                                      \
            plain(CUSPARSE_FORMAT_BLOCKED_ELL, rows, cols, rows * ell_cols, columns, columns, values);                 \
        made.block_rows = made.block_cols = block;                                                                     \
        made.ell_cols = ell_cols;                                                                                      \
        return make_sparse((cusparseSpMatDescr_t *)matrix, typed(made, index_type, index_type, base, type));           \
    }                                                                                                                  \
    API cusparseStatus_t cusparseCreate##CONST##SlicedEll(                                                             \
        cusparse##CONST##SpMatDescr_t *matrix, int64_t rows, int64_t cols, int64_t nnz, int64_t values_size,           \
        int64_t slice, VOID *offsets, VOID *columns, VOID *values, cusparseIndexType_t offset_type,                    \
        cusparseIndexType_t column_type, cusparseIndexBase_t base, cudaDataType type)                                  \
    {                                                                                                                  \
        CHECK(slice > 0 && values_size >= nnz, INVALID_VALUE);                                                         \
        cusparseSpMatDescr made = plain(CUSPARSE_FORMAT_SLICED_ELLPACK, rows, cols, nnz, offsets, columns, values);    \
        made.block_rows = slice;                                                                                       \
        made.ell_cols = values_size;                                                                                   \
        return make_sparse((cusparseSpMatDescr_t *)matrix, typed(made, offset_type, column_type, base, type));         \
    }
CREATE(, void)
CREATE(Const, const void)

#define GET(NAME, CONST, VOID, FORMAT)                                                                                 \
    API cusparseStatus_t cusparse##CONST##NAME##Get(                                                                   \
        cusparse##CONST##SpMatDescr_t matrix, int64_t *rows, int64_t *cols, int64_t *nnz, VOID **offsets,              \
        VOID **indices, VOID **values, cusparseIndexType_t *offset_type, cusparseIndexType_t *index_type,              \
        cusparseIndexBase_t *base, cudaDataType *type)                                                                 \
    {                                                                                                                  \
        return tell(matrix, FORMAT,                                                                                    \
                    {rows, cols, nnz, (void **)offsets, (void **)indices, (void **)values, offset_type, index_type,    \
                     base, type});                                                                                     \
    }
GET(Csr, , void, CUSPARSE_FORMAT_CSR)
GET(Csr, Const, const void, CUSPARSE_FORMAT_CSR)
GET(Csc, , void, CUSPARSE_FORMAT_CSC)
GET(Csc, Const, const void, CUSPARSE_FORMAT_CSC)

#define GET_OTHERS(CONST, VOID)                                                                                        \
    API cusparseStatus_t cusparse##CONST##CooGet(                                                                      \
        cusparse##CONST##SpMatDescr_t matrix, int64_t *rows, int64_t *cols, int64_t *nnz, VOID **row_indices,          \
        VOID **columns, VOID **values, cusparseIndexType_t *index_type, cusparseIndexBase_t *base, cudaDataType *type) \
    {                                                                                                                  \
        return tell(matrix, CUSPARSE_FORMAT_COO,                                                                       \
                    {rows, cols, nnz, (void **)row_indices, (void **)columns, (void **)values, index_type, index_type, \
                     base, type});                                                                                     \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##CONST##BlockedEllGet(                                                               \
        cusparse##CONST##SpMatDescr_t matrix, int64_t *rows, int64_t *cols, int64_t *block, int64_t *ell_cols,         \
        VOID **columns, VOID **values, cusparseIndexType_t *index_type, cusparseIndexBase_t *base, cudaDataType *type) \
    {                                                                                                                  \
        CHECK(ell_cols, INVALID_VALUE);                                                                                \
        TRY(tell(matrix, CUSPARSE_FORMAT_BLOCKED_ELL,                                                                  \
                 {rows, cols, block, (void **)columns, (void **)columns, (void **)values, index_type, index_type,      \
                  base, type}));                                                                                       \
        *block = matrix->block_cols;                                                                                   \
        *ell_cols = matrix->ell_cols;                                                                                  \
        return CUSPARSE_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##CONST##SpMatGetValues(cusparse##CONST##SpMatDescr_t matrix, VOID **values)          \
    {                                                                                                                  \
        CHECK(matrix &&values, INVALID_VALUE);                                                                         \
        *values = matrix->values;                                                                                      \
        return CUSPARSE_STATUS_SUCCESS;                                                                                \
    }
GET_OTHERS(, void)
GET_OTHERS(Const, const void)

API cusparseStatus_t cusparseDestroySpMat(cusparseConstSpMatDescr_t matrix)
{
    return drop(matrix);
}
API cusparseStatus_t cusparseSpMatGetSize(cusparseConstSpMatDescr_t matrix, int64_t *rows, int64_t *cols, int64_t *nnz)
{
    CHECK(matrix && rows && cols && nnz, INVALID_VALUE);
    *rows = matrix->rows;
    *cols = matrix->cols;
    *nnz = matrix->nnz;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpMatGetFormat(cusparseConstSpMatDescr_t matrix, cusparseFormat_t *format)
{
    CHECK(matrix && format, INVALID_VALUE);
    *format = matrix->format;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpMatGetIndexBase(cusparseConstSpMatDescr_t matrix, cusparseIndexBase_t *base)
{
    CHECK(matrix && base, INVALID_VALUE);
    *base = matrix->base;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpMatSetValues(cusparseSpMatDescr_t matrix, void *values)
{
    CHECK(matrix && values, INVALID_VALUE);
    matrix->values = values;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseCsrSetPointers(cusparseSpMatDescr_t matrix, void *offsets, void *columns, void *values)
{
    return set_pointers(matrix, CUSPARSE_FORMAT_CSR, offsets, columns, values);
}
API cusparseStatus_t cusparseCscSetPointers(cusparseSpMatDescr_t matrix, void *offsets, void *row_indices, void *values)
{
    return set_pointers(matrix, CUSPARSE_FORMAT_CSC, offsets, row_indices, values);
}
API cusparseStatus_t cusparseCooSetPointers(cusparseSpMatDescr_t matrix, void *row_indices, void *columns, void *values)
{
    return set_pointers(matrix, CUSPARSE_FORMAT_COO, row_indices, columns, values);
}
API cusparseStatus_t cusparseSpMatSetAttribute(cusparseSpMatDescr_t matrix, cusparseSpMatAttribute_t attribute,
                                               void *data, size_t size)
{
    CHECK(matrix && data && size == sizeof(int) && *(int *)data >= 0 && *(int *)data <= 1, INVALID_VALUE);
    if (attribute == CUSPARSE_SPMAT_FILL_MODE)
        matrix->fill = *(cusparseFillMode_t *)data;
    else if (attribute == CUSPARSE_SPMAT_DIAG_TYPE)
        matrix->diagonal = *(cusparseDiagType_t *)data;
    else
        return CUSPARSE_STATUS_INVALID_VALUE;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpMatGetAttribute(cusparseConstSpMatDescr_t matrix, cusparseSpMatAttribute_t attribute,
                                               void *data, size_t size)
{
    CHECK(matrix && data && size == sizeof(int), INVALID_VALUE);
    if (attribute == CUSPARSE_SPMAT_FILL_MODE)
        memcpy(data, &matrix->fill, size);
    else if (attribute == CUSPARSE_SPMAT_DIAG_TYPE)
        memcpy(data, &matrix->diagonal, size);
    else
        return CUSPARSE_STATUS_INVALID_VALUE;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpMatGetStridedBatch(cusparseConstSpMatDescr_t matrix, int *batches)
{
    CHECK(matrix && batches, INVALID_VALUE);
    *batches = matrix->batches;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseCooSetStridedBatch(cusparseSpMatDescr_t matrix, int batches, int64_t stride)
{
    return set_batches(matrix, CUSPARSE_FORMAT_COO, batches, stride, stride, stride);
}
API cusparseStatus_t cusparseCsrSetStridedBatch(cusparseSpMatDescr_t matrix, int batches, int64_t offsets,
                                                int64_t entries)
{
    return set_batches(matrix, CUSPARSE_FORMAT_CSR, batches, offsets, entries, entries);
}
API cusparseStatus_t cusparseBsrSetStridedBatch(cusparseSpMatDescr_t matrix, int batches, int64_t offsets,
                                                int64_t columns, int64_t values)
{
    return set_batches(matrix, CUSPARSE_FORMAT_BSR, batches, offsets, columns, values);
}
