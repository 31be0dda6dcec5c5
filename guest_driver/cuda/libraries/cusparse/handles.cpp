// cuSPARSE's handles, descriptors and names of errors.
#include <cstring>
#include <new>

#include "descriptors.h"

using namespace vgc_sparse;

namespace
{
template <class Made> cusparseStatus_t make(Made **result, const Made &value)
{
    if (!result)
        return CUSPARSE_STATUS_INVALID_VALUE;
    *result = new (std::nothrow) Made(value);
    return *result ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_ALLOC_FAILED;
}
template <class Made> cusparseStatus_t drop(const Made *made)
{
    if (!made)
        return CUSPARSE_STATUS_INVALID_VALUE;
    delete made;
    return CUSPARSE_STATUS_SUCCESS;
}
bool is_index(cusparseIndexType_t type)
{
    return type == CUSPARSE_INDEX_32I || type == CUSPARSE_INDEX_64I;
}
bool is_base(cusparseIndexBase_t base)
{
    return base == CUSPARSE_INDEX_BASE_ZERO || base == CUSPARSE_INDEX_BASE_ONE;
}

cusparseStatus_t make_sparse(cusparseSpMatDescr_t *result, const cusparseSpMatDescr &matrix)
{
    if (matrix.rows < 0 || matrix.cols < 0 || matrix.nnz < 0 || !is_base(matrix.base) || !matrix.offsets ||
        (matrix.nnz && (!matrix.indices || !matrix.values)))
        return CUSPARSE_STATUS_INVALID_VALUE;
    if (!is_index(matrix.offset_type) || !is_index(matrix.index_type) || !launches_of(matrix.type))
        return CUSPARSE_STATUS_NOT_SUPPORTED;
    return make(result, matrix);
}
template <class Field, class Value> cusparseStatus_t set(cusparseMatDescr_t matrix, Field field, Value value, int last)
{
    if (!matrix || (int)value < 0 || (int)value > last)
        return CUSPARSE_STATUS_INVALID_VALUE;
    matrix->*field = value;
    return CUSPARSE_STATUS_SUCCESS;
}
} // namespace

const Launches *vgc_sparse::launches_of(cudaDataType type)
{
    return type == CUDA_R_32F   ? launches_s()
           : type == CUDA_R_64F ? launches_d()
           : type == CUDA_C_32F ? launches_c()
           : type == CUDA_C_64F ? launches_z()
                                : nullptr;
}
bool vgc_sparse::is_operation(cusparseOperation_t operation)
{
    return operation >= CUSPARSE_OPERATION_NON_TRANSPOSE && operation <= CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE;
}
Scalar vgc_sparse::scalar_of(const cusparseContext &context, cudaDataType type, const void *value)
{
    if (context.mode == CUSPARSE_POINTER_MODE_DEVICE)
        return {0, 0, value};
    const float *const singles = (const float *)value;
    const double *const doubles = (const double *)value;
    switch (type) {
    case CUDA_R_32F:
        return {singles[0], 0, nullptr};
    case CUDA_C_32F:
        return {singles[0], singles[1], nullptr};
    case CUDA_R_64F:
        return {doubles[0], 0, nullptr};
    default:
        return {doubles[0], doubles[1], nullptr};
    }
}

API cusparseStatus_t cusparseCreate(cusparseHandle_t *handle)
{
    return make(handle, cusparseContext{nullptr, CUSPARSE_POINTER_MODE_HOST});
}
API cusparseStatus_t cusparseDestroy(cusparseHandle_t handle)
{
    return handle ? drop(handle) : CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseGetVersion(cusparseHandle_t handle, int *version)
{
    if (!handle)
        return CUSPARSE_STATUS_NOT_INITIALIZED;
    if (!version)
        return CUSPARSE_STATUS_INVALID_VALUE;
    *version = CUSPARSE_VERSION;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseGetProperty(libraryPropertyType type, int *value)
{
    if (!value || type > PATCH_LEVEL)
        return CUSPARSE_STATUS_INVALID_VALUE;
    *value = type == MAJOR_VERSION   ? CUSPARSE_VER_MAJOR
             : type == MINOR_VERSION ? CUSPARSE_VER_MINOR
                                     : CUSPARSE_VER_PATCH;
    return CUSPARSE_STATUS_SUCCESS;
}
API const char *cusparseGetErrorName(cusparseStatus_t status)
{
    static const char *const names[] = {"CUSPARSE_STATUS_SUCCESS",
                                        "CUSPARSE_STATUS_NOT_INITIALIZED",
                                        "CUSPARSE_STATUS_ALLOC_FAILED",
                                        "CUSPARSE_STATUS_INVALID_VALUE",
                                        "CUSPARSE_STATUS_ARCH_MISMATCH",
                                        "CUSPARSE_STATUS_MAPPING_ERROR",
                                        "CUSPARSE_STATUS_EXECUTION_FAILED",
                                        "CUSPARSE_STATUS_INTERNAL_ERROR",
                                        "CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED",
                                        "CUSPARSE_STATUS_ZERO_PIVOT",
                                        "CUSPARSE_STATUS_NOT_SUPPORTED",
                                        "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES"};
    return (unsigned)status < sizeof names / sizeof *names ? names[status] : "unrecognized error code";
}
API const char *cusparseGetErrorString(cusparseStatus_t status)
{
    static const char *const texts[] = {"success",
                                        "initialization error",
                                        "out of memory",
                                        "invalid value",
                                        "architecture mismatch",
                                        "texture memory mapping error",
                                        "kernel launch failure",
                                        "internal error",
                                        "matrix type not supported",
                                        "zero pivot",
                                        "operation not supported",
                                        "insufficient resources"};
    return (unsigned)status < sizeof texts / sizeof *texts ? texts[status] : "unrecognized error code";
}
API cusparseStatus_t cusparseSetStream(cusparseHandle_t handle, cudaStream_t stream)
{
    if (!handle)
        return CUSPARSE_STATUS_NOT_INITIALIZED;
    handle->stream = stream;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseGetStream(cusparseHandle_t handle, cudaStream_t *stream)
{
    if (!handle || !stream)
        return handle ? CUSPARSE_STATUS_INVALID_VALUE : CUSPARSE_STATUS_NOT_INITIALIZED;
    *stream = handle->stream;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t mode)
{
    if (!handle)
        return CUSPARSE_STATUS_NOT_INITIALIZED;
    if (mode != CUSPARSE_POINTER_MODE_HOST && mode != CUSPARSE_POINTER_MODE_DEVICE)
        return CUSPARSE_STATUS_INVALID_VALUE;
    handle->mode = mode;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseGetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t *mode)
{
    if (!handle || !mode)
        return handle ? CUSPARSE_STATUS_INVALID_VALUE : CUSPARSE_STATUS_NOT_INITIALIZED;
    *mode = handle->mode;
    return CUSPARSE_STATUS_SUCCESS;
}

API cusparseStatus_t cusparseCreateMatDescr(cusparseMatDescr_t *matrix)
{
    return make(matrix, cusparseMatDescr{});
}
API cusparseStatus_t cusparseDestroyMatDescr(cusparseMatDescr_t matrix)
{
    return matrix ? drop(matrix) : CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSetMatType(cusparseMatDescr_t matrix, cusparseMatrixType_t type)
{
    return set(matrix, &cusparseMatDescr::type, type, CUSPARSE_MATRIX_TYPE_TRIANGULAR);
}
API cusparseMatrixType_t cusparseGetMatType(const cusparseMatDescr_t matrix)
{
    return matrix->type;
}
API cusparseStatus_t cusparseSetMatFillMode(cusparseMatDescr_t matrix, cusparseFillMode_t mode)
{
    return set(matrix, &cusparseMatDescr::fill, mode, CUSPARSE_FILL_MODE_UPPER);
}
API cusparseFillMode_t cusparseGetMatFillMode(const cusparseMatDescr_t matrix)
{
    return matrix->fill;
}
API cusparseStatus_t cusparseSetMatDiagType(cusparseMatDescr_t matrix, cusparseDiagType_t type)
{
    return set(matrix, &cusparseMatDescr::diagonal, type, CUSPARSE_DIAG_TYPE_UNIT);
}
API cusparseDiagType_t cusparseGetMatDiagType(const cusparseMatDescr_t matrix)
{
    return matrix->diagonal;
}
API cusparseStatus_t cusparseSetMatIndexBase(cusparseMatDescr_t matrix, cusparseIndexBase_t base)
{
    return set(matrix, &cusparseMatDescr::base, base, CUSPARSE_INDEX_BASE_ONE);
}
API cusparseIndexBase_t cusparseGetMatIndexBase(const cusparseMatDescr_t matrix)
{
    return matrix->base;
}

API cusparseStatus_t cusparseCreateCsr(cusparseSpMatDescr_t *matrix, int64_t rows, int64_t cols, int64_t nnz,
                                       void *offsets, void *columns, void *values, cusparseIndexType_t offset_type,
                                       cusparseIndexType_t column_type, cusparseIndexBase_t base, cudaDataType type)
{
    return make_sparse(matrix, {CUSPARSE_FORMAT_CSR, rows, cols, nnz, offsets, columns, values, offset_type,
                                column_type, base, type, CUSPARSE_FILL_MODE_LOWER, CUSPARSE_DIAG_TYPE_NON_UNIT});
}
API cusparseStatus_t cusparseCreateCsc(cusparseSpMatDescr_t *matrix, int64_t rows, int64_t cols, int64_t nnz,
                                       void *offsets, void *row_indices, void *values, cusparseIndexType_t offset_type,
                                       cusparseIndexType_t row_type, cusparseIndexBase_t base, cudaDataType type)
{
    return make_sparse(matrix, {CUSPARSE_FORMAT_CSC, rows, cols, nnz, offsets, row_indices, values, offset_type,
                                row_type, base, type, CUSPARSE_FILL_MODE_LOWER, CUSPARSE_DIAG_TYPE_NON_UNIT});
}
API cusparseStatus_t cusparseCreateCoo(cusparseSpMatDescr_t *matrix, int64_t rows, int64_t cols, int64_t nnz,
                                       void *row_indices, void *columns, void *values, cusparseIndexType_t index_type,
                                       cusparseIndexBase_t base, cudaDataType type)
{
    return make_sparse(matrix, {CUSPARSE_FORMAT_COO, rows, cols, nnz, row_indices, columns, values, index_type,
                                index_type, base, type, CUSPARSE_FILL_MODE_LOWER, CUSPARSE_DIAG_TYPE_NON_UNIT});
}
API cusparseStatus_t cusparseDestroySpMat(cusparseConstSpMatDescr_t matrix)
{
    return drop(matrix);
}
API cusparseStatus_t cusparseSpMatGetSize(cusparseConstSpMatDescr_t matrix, int64_t *rows, int64_t *cols, int64_t *nnz)
{
    if (!matrix || !rows || !cols || !nnz)
        return CUSPARSE_STATUS_INVALID_VALUE;
    *rows = matrix->rows;
    *cols = matrix->cols;
    *nnz = matrix->nnz;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpMatGetFormat(cusparseConstSpMatDescr_t matrix, cusparseFormat_t *format)
{
    if (!matrix || !format)
        return CUSPARSE_STATUS_INVALID_VALUE;
    *format = matrix->format;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpMatGetIndexBase(cusparseConstSpMatDescr_t matrix, cusparseIndexBase_t *base)
{
    if (!matrix || !base)
        return CUSPARSE_STATUS_INVALID_VALUE;
    *base = matrix->base;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpMatGetValues(cusparseSpMatDescr_t matrix, void **values)
{
    if (!matrix || !values)
        return CUSPARSE_STATUS_INVALID_VALUE;
    *values = matrix->values;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpMatSetValues(cusparseSpMatDescr_t matrix, void *values)
{
    if (!matrix || !values)
        return CUSPARSE_STATUS_INVALID_VALUE;
    matrix->values = values;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseCsrSetPointers(cusparseSpMatDescr_t matrix, void *offsets, void *columns, void *values)
{
    if (!matrix || matrix->format != CUSPARSE_FORMAT_CSR || !offsets || (matrix->nnz && (!columns || !values)))
        return CUSPARSE_STATUS_INVALID_VALUE;
    matrix->offsets = offsets;
    matrix->indices = columns;
    matrix->values = values;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpMatSetAttribute(cusparseSpMatDescr_t matrix, cusparseSpMatAttribute_t attribute,
                                               void *data, size_t size)
{
    if (!matrix || !data || size != sizeof(int) || *(int *)data < 0 || *(int *)data > 1)
        return CUSPARSE_STATUS_INVALID_VALUE;
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
    if (!matrix || !data || size != sizeof(int))
        return CUSPARSE_STATUS_INVALID_VALUE;
    if (attribute == CUSPARSE_SPMAT_FILL_MODE)
        memcpy(data, &matrix->fill, size);
    else if (attribute == CUSPARSE_SPMAT_DIAG_TYPE)
        memcpy(data, &matrix->diagonal, size);
    else
        return CUSPARSE_STATUS_INVALID_VALUE;
    return CUSPARSE_STATUS_SUCCESS;
}

API cusparseStatus_t cusparseCreateDnVec(cusparseDnVecDescr_t *vector, int64_t size, void *values, cudaDataType type)
{
    if (size < 0 || (size && !values))
        return CUSPARSE_STATUS_INVALID_VALUE;
    return launches_of(type) ? make(vector, cusparseDnVecDescr{size, values, type}) : CUSPARSE_STATUS_NOT_SUPPORTED;
}
API cusparseStatus_t cusparseDestroyDnVec(cusparseConstDnVecDescr_t vector)
{
    return drop(vector);
}
API cusparseStatus_t cusparseDnVecGetValues(cusparseDnVecDescr_t vector, void **values)
{
    if (!vector || !values)
        return CUSPARSE_STATUS_INVALID_VALUE;
    *values = vector->values;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseDnVecSetValues(cusparseDnVecDescr_t vector, void *values)
{
    if (!vector || !values)
        return CUSPARSE_STATUS_INVALID_VALUE;
    vector->values = values;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseCreateDnMat(cusparseDnMatDescr_t *matrix, int64_t rows, int64_t cols, int64_t ld,
                                         void *values, cudaDataType type, cusparseOrder_t order)
{
    const bool by_row = order == CUSPARSE_ORDER_ROW;
    if (rows < 0 || cols < 0 || (!by_row && order != CUSPARSE_ORDER_COL) || ld < (by_row ? cols : rows) ||
        (rows && cols && !values))
        return CUSPARSE_STATUS_INVALID_VALUE;
    return launches_of(type) ? make(matrix, cusparseDnMatDescr{rows, cols, ld, values, type, order})
                             : CUSPARSE_STATUS_NOT_SUPPORTED;
}
API cusparseStatus_t cusparseDestroyDnMat(cusparseConstDnMatDescr_t matrix)
{
    return drop(matrix);
}
API cusparseStatus_t cusparseDnMatGetValues(cusparseDnMatDescr_t matrix, void **values)
{
    if (!matrix || !values)
        return CUSPARSE_STATUS_INVALID_VALUE;
    *values = matrix->values;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseDnMatSetValues(cusparseDnMatDescr_t matrix, void *values)
{
    if (!matrix || !values)
        return CUSPARSE_STATUS_INVALID_VALUE;
    matrix->values = values;
    return CUSPARSE_STATUS_SUCCESS;
}
