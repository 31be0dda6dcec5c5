// cuSPARSE's handles, descriptors and names of errors.
#include "descriptors.h"
#include "structure.h"

using namespace vgc_sparse;

namespace
{
template <class Field, class Value> cusparseStatus_t set(cusparseMatDescr_t matrix, Field field, Value value, int last)
{
    if (!matrix || (int)value < 0 || (int)value > last)
        return CUSPARSE_STATUS_INVALID_VALUE;
    matrix->*field = value;
    return CUSPARSE_STATUS_SUCCESS;
}
} // namespace

size_t vgc_sparse::size_of(cudaDataType type)
{
    switch (type) {
    case CUDA_R_8I:
        return 1;
    case CUDA_R_16F:
    case CUDA_R_16BF:
        return 2;
    case CUDA_R_32F:
    case CUDA_R_32I:
        return 4;
    case CUDA_R_64F:
    case CUDA_C_32F:
        return 8;
    case CUDA_C_64F:
        return 16;
    default:
        return 0;
    }
}
int vgc_sparse::kind_of(cudaDataType type)
{
    switch (type) {
    case CUDA_R_8I:
        return BYTE;
    case CUDA_R_16F:
    case CUDA_R_16BF:
        return HALVES;
    case CUDA_R_64F:
        return DOUBLES;
    case CUDA_C_32F:
        return SINGLE_PAIRS;
    case CUDA_C_64F:
        return DOUBLE_PAIRS;
    default:
        return SINGLES;
    }
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
    case CUDA_R_32I:
        return {(double)*(const int *)value, 0, nullptr};
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
