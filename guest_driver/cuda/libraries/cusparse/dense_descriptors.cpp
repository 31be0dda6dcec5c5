// Descriptors of vectors, dense and sparse, and of dense matrices.
#include "descriptors.h"

using namespace vgc_sparse;

Dense vgc_sparse::seen(const cusparseDnMatDescr &matrix, bool transposed)
{
    const bool by_row = (matrix.order == CUSPARSE_ORDER_ROW) != transposed;
    return {matrix.values, by_row ? matrix.ld : 1, by_row ? 1 : matrix.ld, matrix.batch};
}

#define FORMS(CONST, VOID)                                                                                             \
    API cusparseStatus_t cusparseCreate##CONST##SpVec(                                                                 \
        cusparse##CONST##SpVecDescr_t *vector, int64_t size, int64_t nnz, VOID *indices, VOID *values,                 \
        cusparseIndexType_t index_type, cusparseIndexBase_t base, cudaDataType type)                                   \
    {                                                                                                                  \
        CHECK(vector &&size >= 0 && nnz >= 0 && nnz <= size && is_base(base), INVALID_VALUE);                          \
        CHECK(!nnz || (indices && values), INVALID_VALUE);                                                             \
        CHECK(is_index(index_type) && size_of(type), NOT_SUPPORTED);                                                   \
        return make((cusparseSpVecDescr_t *)vector,                                                                    \
                    {size, nnz, (void *)indices, (void *)values, index_type, base, type});                             \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##CONST##SpVecGet(cusparse##CONST##SpVecDescr_t vector, int64_t *size, int64_t *nnz,  \
                                                   VOID **indices, VOID **values, cusparseIndexType_t *index_type,     \
                                                   cusparseIndexBase_t *base, cudaDataType *type)                      \
    {                                                                                                                  \
        CHECK(vector &&size &&nnz &&indices &&values &&index_type &&base &&type, INVALID_VALUE);                       \
        *size = vector->size;                                                                                          \
        *nnz = vector->nnz;                                                                                            \
        *indices = vector->indices;                                                                                    \
        *values = vector->values;                                                                                      \
        *index_type = vector->index_type;                                                                              \
        *base = vector->base;                                                                                          \
        *type = vector->type;                                                                                          \
        return CUSPARSE_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    API cusparseStatus_t cusparseCreate##CONST##DnVec(cusparse##CONST##DnVecDescr_t *vector, int64_t size,             \
                                                      VOID *values, cudaDataType type)                                 \
    {                                                                                                                  \
        CHECK(vector &&size >= 0 && (!size || values), INVALID_VALUE);                                                 \
        CHECK(size_of(type), NOT_SUPPORTED);                                                                           \
        return make((cusparseDnVecDescr_t *)vector, {size, (void *)values, type});                                     \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##CONST##DnVecGet(cusparse##CONST##DnVecDescr_t vector, int64_t *size, VOID **values, \
                                                   cudaDataType *type)                                                 \
    {                                                                                                                  \
        CHECK(vector &&size &&values &&type, INVALID_VALUE);                                                           \
        *size = vector->size;                                                                                          \
        *values = vector->values;                                                                                      \
        *type = vector->type;                                                                                          \
        return CUSPARSE_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    API cusparseStatus_t cusparseCreate##CONST##DnMat(cusparse##CONST##DnMatDescr_t *matrix, int64_t rows,             \
                                                      int64_t cols, int64_t ld, VOID *values, cudaDataType type,       \
                                                      cusparseOrder_t order)                                           \
    {                                                                                                                  \
        const bool by_row = order == CUSPARSE_ORDER_ROW;                                                               \
        CHECK(matrix &&rows >= 0 && cols >= 0 && (by_row || order == CUSPARSE_ORDER_COL), INVALID_VALUE);              \
        CHECK(ld >= (by_row ? cols : rows) && (!rows || !cols || values), INVALID_VALUE);                              \
        CHECK(size_of(type), NOT_SUPPORTED);                                                                           \
        return make((cusparseDnMatDescr_t *)matrix, {rows, cols, ld, (void *)values, type, order, 1, 0});              \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##CONST##DnMatGet(cusparse##CONST##DnMatDescr_t matrix, int64_t *rows, int64_t *cols, \
                                                   int64_t *ld, VOID **values, cudaDataType *type,                     \
                                                   cusparseOrder_t *order)                                             \
    {                                                                                                                  \
        CHECK(matrix &&rows &&cols &&ld &&values &&type &&order, INVALID_VALUE);                                       \
        *rows = matrix->rows;                                                                                          \
        *cols = matrix->cols;                                                                                          \
        *ld = matrix->ld;                                                                                              \
        *values = matrix->values;                                                                                      \
        *type = matrix->type;                                                                                          \
        *order = matrix->order;                                                                                        \
        return CUSPARSE_STATUS_SUCCESS;                                                                                \
    }
FORMS(, void)
FORMS(Const, const void)

#define VALUES(NAME)                                                                                                   \
    API cusparseStatus_t cusparseDestroy##NAME(cusparseConst##NAME##Descr_t made)                                      \
    {                                                                                                                  \
        return drop(made);                                                                                             \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##NAME##GetValues(cusparse##NAME##Descr_t made, void **values)                        \
    {                                                                                                                  \
        CHECK(made &&values, INVALID_VALUE);                                                                           \
        *values = made->values;                                                                                        \
        return CUSPARSE_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    API cusparseStatus_t cusparseConst##NAME##GetValues(cusparseConst##NAME##Descr_t made, const void **values)        \
    {                                                                                                                  \
        CHECK(made &&values, INVALID_VALUE);                                                                           \
        *values = made->values;                                                                                        \
        return CUSPARSE_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##NAME##SetValues(cusparse##NAME##Descr_t made, void *values)                         \
    {                                                                                                                  \
        CHECK(made &&values, INVALID_VALUE);                                                                           \
        made->values = values;                                                                                         \
        return CUSPARSE_STATUS_SUCCESS;                                                                                \
    }
VALUES(SpVec)
VALUES(DnVec)
VALUES(DnMat)

API cusparseStatus_t cusparseSpVecGetIndexBase(cusparseConstSpVecDescr_t vector, cusparseIndexBase_t *base)
{
    CHECK(vector && base, INVALID_VALUE);
    *base = vector->base;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseDnMatSetStridedBatch(cusparseDnMatDescr_t matrix, int batches, int64_t stride)
{
    CHECK(matrix && batches > 0 && stride >= 0, INVALID_VALUE);
    CHECK(batches == 1 || !stride ||
              stride >= matrix->ld * (matrix->order == CUSPARSE_ORDER_ROW ? matrix->rows : matrix->cols),
          INVALID_VALUE);
    matrix->batches = batches;
    matrix->batch = stride;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseDnMatGetStridedBatch(cusparseConstDnMatDescr_t matrix, int *batches, int64_t *stride)
{
    CHECK(matrix && batches && stride, INVALID_VALUE);
    *batches = matrix->batches;
    *stride = matrix->batch;
    return CUSPARSE_STATUS_SUCCESS;
}
