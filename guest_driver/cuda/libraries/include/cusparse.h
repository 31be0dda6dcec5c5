/* cuSPARSE, as of CUDA 12.6: what is implemented, and nothing else. */
#pragma once
#include "library_types.h"
#include <cuComplex.h>
#include <cuda_runtime.h>
#include <stdint.h>

#define CUSPARSEAPI
#define CUSPARSE_VER_MAJOR 12
#define CUSPARSE_VER_MINOR 5
#define CUSPARSE_VER_PATCH 1
#define CUSPARSE_VER_BUILD 0
#define CUSPARSE_VERSION 12501

typedef enum {
    CUSPARSE_STATUS_SUCCESS = 0,
    CUSPARSE_STATUS_NOT_INITIALIZED = 1,
    CUSPARSE_STATUS_ALLOC_FAILED = 2,
    CUSPARSE_STATUS_INVALID_VALUE = 3,
    CUSPARSE_STATUS_ARCH_MISMATCH = 4,
    CUSPARSE_STATUS_MAPPING_ERROR = 5,
    CUSPARSE_STATUS_EXECUTION_FAILED = 6,
    CUSPARSE_STATUS_INTERNAL_ERROR = 7,
    CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED = 8,
    CUSPARSE_STATUS_ZERO_PIVOT = 9,
    CUSPARSE_STATUS_NOT_SUPPORTED = 10,
    CUSPARSE_STATUS_INSUFFICIENT_RESOURCES = 11
} cusparseStatus_t;
typedef enum { CUSPARSE_POINTER_MODE_HOST = 0, CUSPARSE_POINTER_MODE_DEVICE = 1 } cusparsePointerMode_t;
typedef enum {
    CUSPARSE_MATRIX_TYPE_GENERAL = 0,
    CUSPARSE_MATRIX_TYPE_SYMMETRIC = 1,
    CUSPARSE_MATRIX_TYPE_HERMITIAN = 2,
    CUSPARSE_MATRIX_TYPE_TRIANGULAR = 3
} cusparseMatrixType_t;
typedef enum { CUSPARSE_FILL_MODE_LOWER = 0, CUSPARSE_FILL_MODE_UPPER = 1 } cusparseFillMode_t;
typedef enum { CUSPARSE_DIAG_TYPE_NON_UNIT = 0, CUSPARSE_DIAG_TYPE_UNIT = 1 } cusparseDiagType_t;
typedef enum { CUSPARSE_INDEX_BASE_ZERO = 0, CUSPARSE_INDEX_BASE_ONE = 1 } cusparseIndexBase_t;
typedef enum {
    CUSPARSE_OPERATION_NON_TRANSPOSE = 0,
    CUSPARSE_OPERATION_TRANSPOSE = 1,
    CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE = 2
} cusparseOperation_t;
typedef enum { CUSPARSE_DIRECTION_ROW = 0, CUSPARSE_DIRECTION_COLUMN = 1 } cusparseDirection_t;
typedef enum { CUSPARSE_ACTION_SYMBOLIC = 0, CUSPARSE_ACTION_NUMERIC = 1 } cusparseAction_t;
typedef enum { CUSPARSE_SOLVE_POLICY_NO_LEVEL = 0, CUSPARSE_SOLVE_POLICY_USE_LEVEL = 1 } cusparseSolvePolicy_t;
typedef enum { CUSPARSE_INDEX_16U = 1, CUSPARSE_INDEX_32I = 2, CUSPARSE_INDEX_64I = 3 } cusparseIndexType_t;
typedef enum {
    CUSPARSE_FORMAT_CSR = 1,
    CUSPARSE_FORMAT_CSC = 2,
    CUSPARSE_FORMAT_COO = 3,
    CUSPARSE_FORMAT_BLOCKED_ELL = 5,
    CUSPARSE_FORMAT_BSR = 6,
    CUSPARSE_FORMAT_SLICED_ELLPACK = 7
} cusparseFormat_t;
typedef enum { CUSPARSE_ORDER_COL = 1, CUSPARSE_ORDER_ROW = 2 } cusparseOrder_t;
typedef enum { CUSPARSE_SPMAT_FILL_MODE = 0, CUSPARSE_SPMAT_DIAG_TYPE = 1 } cusparseSpMatAttribute_t;
typedef enum {
    CUSPARSE_SPMV_ALG_DEFAULT = 0,
    CUSPARSE_SPMV_CSR_ALG1 = 2,
    CUSPARSE_SPMV_CSR_ALG2 = 3,
    CUSPARSE_SPMV_COO_ALG1 = 1,
    CUSPARSE_SPMV_COO_ALG2 = 4,
    CUSPARSE_SPMV_SELL_ALG1 = 5,
    CUSPARSE_SPMV_BSR_ALG1 = 6
} cusparseSpMVAlg_t;
typedef enum {
    CUSPARSE_SPMM_ALG_DEFAULT = 0,
    CUSPARSE_SPMM_COO_ALG1 = 1,
    CUSPARSE_SPMM_COO_ALG2 = 2,
    CUSPARSE_SPMM_COO_ALG3 = 3,
    CUSPARSE_SPMM_COO_ALG4 = 5,
    CUSPARSE_SPMM_CSR_ALG1 = 4,
    CUSPARSE_SPMM_CSR_ALG2 = 6,
    CUSPARSE_SPMM_CSR_ALG3 = 12,
    CUSPARSE_SPMM_BLOCKED_ELL_ALG1 = 13,
    CUSPARSE_SPMM_BSR_ALG1 = 14
} cusparseSpMMAlg_t;
typedef enum { CUSPARSE_SPSV_ALG_DEFAULT = 0 } cusparseSpSVAlg_t;
typedef enum { CUSPARSE_SPSV_UPDATE_GENERAL = 0, CUSPARSE_SPSV_UPDATE_DIAGONAL = 1 } cusparseSpSVUpdate_t;
typedef enum { CUSPARSE_SPSM_ALG_DEFAULT = 0 } cusparseSpSMAlg_t;
typedef enum { CUSPARSE_SPSM_UPDATE_GENERAL = 0, CUSPARSE_SPSM_UPDATE_DIAGONAL = 1 } cusparseSpSMUpdate_t;
typedef enum { CUSPARSE_SDDMM_ALG_DEFAULT = 0 } cusparseSDDMMAlg_t;
typedef enum { CUSPARSE_SPARSETODENSE_ALG_DEFAULT = 0 } cusparseSparseToDenseAlg_t;
typedef enum { CUSPARSE_DENSETOSPARSE_ALG_DEFAULT = 0 } cusparseDenseToSparseAlg_t;
typedef enum {
    CUSPARSE_SPGEMM_DEFAULT = 0,
    CUSPARSE_SPGEMM_CSR_ALG_DETERMINITIC = 1,
    CUSPARSE_SPGEMM_CSR_ALG_NONDETERMINITIC = 2,
    CUSPARSE_SPGEMM_ALG1 = 3,
    CUSPARSE_SPGEMM_ALG2 = 4,
    CUSPARSE_SPGEMM_ALG3 = 5
} cusparseSpGEMMAlg_t;

struct cusparseContext;
struct cusparseMatDescr;
struct cusparseSpMatDescr;
struct cusparseSpVecDescr;
struct cusparseDnVecDescr;
struct cusparseDnMatDescr;
struct cusparseSpSVDescr;
struct cusparseSpSMDescr;
struct cusparseSpGEMMDescr;
typedef struct cusparseContext *cusparseHandle_t;
typedef struct cusparseMatDescr *cusparseMatDescr_t;
typedef struct cusparseSpMatDescr *cusparseSpMatDescr_t;
typedef struct cusparseSpMatDescr const *cusparseConstSpMatDescr_t;
typedef struct cusparseDnVecDescr *cusparseDnVecDescr_t;
typedef struct cusparseDnVecDescr const *cusparseConstDnVecDescr_t;
typedef struct cusparseDnMatDescr *cusparseDnMatDescr_t;
typedef struct cusparseDnMatDescr const *cusparseConstDnMatDescr_t;
typedef struct cusparseSpVecDescr *cusparseSpVecDescr_t;
typedef struct cusparseSpVecDescr const *cusparseConstSpVecDescr_t;
typedef struct cusparseSpSVDescr *cusparseSpSVDescr_t;
typedef struct cusparseSpSMDescr *cusparseSpSMDescr_t;
typedef struct cusparseSpGEMMDescr *cusparseSpGEMMDescr_t;

#ifdef __cplusplus
extern "C" {
#endif
cusparseStatus_t cusparseCreate(cusparseHandle_t *handle);
cusparseStatus_t cusparseDestroy(cusparseHandle_t handle);
cusparseStatus_t cusparseGetVersion(cusparseHandle_t handle, int *version);
cusparseStatus_t cusparseGetProperty(libraryPropertyType type, int *value);
const char *cusparseGetErrorName(cusparseStatus_t status);
const char *cusparseGetErrorString(cusparseStatus_t status);
cusparseStatus_t cusparseSetStream(cusparseHandle_t handle, cudaStream_t stream);
cusparseStatus_t cusparseGetStream(cusparseHandle_t handle, cudaStream_t *stream);
cusparseStatus_t cusparseSetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t mode);
cusparseStatus_t cusparseGetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t *mode);

cusparseStatus_t cusparseCreateMatDescr(cusparseMatDescr_t *matrix);
cusparseStatus_t cusparseDestroyMatDescr(cusparseMatDescr_t matrix);
cusparseStatus_t cusparseSetMatType(cusparseMatDescr_t matrix, cusparseMatrixType_t type);
cusparseMatrixType_t cusparseGetMatType(const cusparseMatDescr_t matrix);
cusparseStatus_t cusparseSetMatFillMode(cusparseMatDescr_t matrix, cusparseFillMode_t mode);
cusparseFillMode_t cusparseGetMatFillMode(const cusparseMatDescr_t matrix);
cusparseStatus_t cusparseSetMatDiagType(cusparseMatDescr_t matrix, cusparseDiagType_t type);
cusparseDiagType_t cusparseGetMatDiagType(const cusparseMatDescr_t matrix);
cusparseStatus_t cusparseSetMatIndexBase(cusparseMatDescr_t matrix, cusparseIndexBase_t base);
cusparseIndexBase_t cusparseGetMatIndexBase(const cusparseMatDescr_t matrix);

/* Descriptors; each has a form with Const that takes pointers to constant data. */
#define VGC_DESCRIPTORS(CONST, VOID)                                                                                   \
    cusparseStatus_t cusparseCreate##CONST##Csr(cusparse##CONST##SpMatDescr_t *matrix, int64_t rows, int64_t cols,     \
                                                int64_t nnz, VOID *offsets, VOID *columns, VOID *values,               \
                                                cusparseIndexType_t offset_type, cusparseIndexType_t column_type,      \
                                                cusparseIndexBase_t base, cudaDataType type);                          \
    cusparseStatus_t cusparseCreate##CONST##Csc(cusparse##CONST##SpMatDescr_t *matrix, int64_t rows, int64_t cols,     \
                                                int64_t nnz, VOID *offsets, VOID *row_indices, VOID *values,           \
                                                cusparseIndexType_t offset_type, cusparseIndexType_t row_type,         \
                                                cusparseIndexBase_t base, cudaDataType type);                          \
    cusparseStatus_t cusparseCreate##CONST##Coo(                                                                       \
        cusparse##CONST##SpMatDescr_t *matrix, int64_t rows, int64_t cols, int64_t nnz, VOID *row_indices,             \
        VOID *columns, VOID *values, cusparseIndexType_t index_type, cusparseIndexBase_t base, cudaDataType type);     \
    cusparseStatus_t cusparseCreate##CONST##Bsr(                                                                       \
        cusparse##CONST##SpMatDescr_t *matrix, int64_t rows, int64_t cols, int64_t nnz, int64_t block_rows,            \
        int64_t block_cols, VOID *offsets, VOID *columns, VOID *values, cusparseIndexType_t offset_type,               \
        cusparseIndexType_t column_type, cusparseIndexBase_t base, cudaDataType type, cusparseOrder_t order);          \
    cusparseStatus_t cusparseCreate##CONST##BlockedEll(                                                                \
        cusparse##CONST##SpMatDescr_t *matrix, int64_t rows, int64_t cols, int64_t block, int64_t ell_cols,            \
        VOID *columns, VOID *values, cusparseIndexType_t index_type, cusparseIndexBase_t base, cudaDataType type);     \
    cusparseStatus_t cusparseCreate##CONST##SlicedEll(                                                                 \
        cusparse##CONST##SpMatDescr_t *matrix, int64_t rows, int64_t cols, int64_t nnz, int64_t values_size,           \
        int64_t slice, VOID *offsets, VOID *columns, VOID *values, cusparseIndexType_t offset_type,                    \
        cusparseIndexType_t column_type, cusparseIndexBase_t base, cudaDataType type);                                 \
    cusparseStatus_t cusparse##CONST##CsrGet(cusparse##CONST##SpMatDescr_t matrix, int64_t *rows, int64_t *cols,       \
                                             int64_t *nnz, VOID **offsets, VOID **columns, VOID **values,              \
                                             cusparseIndexType_t *offset_type, cusparseIndexType_t *column_type,       \
                                             cusparseIndexBase_t *base, cudaDataType *type);                           \
    cusparseStatus_t cusparse##CONST##CscGet(cusparse##CONST##SpMatDescr_t matrix, int64_t *rows, int64_t *cols,       \
                                             int64_t *nnz, VOID **offsets, VOID **row_indices, VOID **values,          \
                                             cusparseIndexType_t *offset_type, cusparseIndexType_t *row_type,          \
                                             cusparseIndexBase_t *base, cudaDataType *type);                           \
    cusparseStatus_t cusparse##CONST##CooGet(cusparse##CONST##SpMatDescr_t matrix, int64_t *rows, int64_t *cols,       \
                                             int64_t *nnz, VOID **row_indices, VOID **columns, VOID **values,          \
                                             cusparseIndexType_t *index_type, cusparseIndexBase_t *base,               \
                                             cudaDataType *type);                                                      \
    cusparseStatus_t cusparse##CONST##BlockedEllGet(cusparse##CONST##SpMatDescr_t matrix, int64_t *rows,               \
                                                    int64_t *cols, int64_t *block, int64_t *ell_cols, VOID **columns,  \
                                                    VOID **values, cusparseIndexType_t *index_type,                    \
                                                    cusparseIndexBase_t *base, cudaDataType *type);                    \
    cusparseStatus_t cusparse##CONST##SpMatGetValues(cusparse##CONST##SpMatDescr_t matrix, VOID **values);             \
    cusparseStatus_t cusparseCreate##CONST##SpVec(cusparse##CONST##SpVecDescr_t *vector, int64_t size, int64_t nnz,    \
                                                  VOID *indices, VOID *values, cusparseIndexType_t index_type,         \
                                                  cusparseIndexBase_t base, cudaDataType type);                        \
    cusparseStatus_t cusparse##CONST##SpVecGet(cusparse##CONST##SpVecDescr_t vector, int64_t *size, int64_t *nnz,      \
                                               VOID **indices, VOID **values, cusparseIndexType_t *index_type,         \
                                               cusparseIndexBase_t *base, cudaDataType *type);                         \
    cusparseStatus_t cusparse##CONST##SpVecGetValues(cusparse##CONST##SpVecDescr_t vector, VOID **values);             \
    cusparseStatus_t cusparseCreate##CONST##DnVec(cusparse##CONST##DnVecDescr_t *vector, int64_t size, VOID *values,   \
                                                  cudaDataType type);                                                  \
    cusparseStatus_t cusparse##CONST##DnVecGet(cusparse##CONST##DnVecDescr_t vector, int64_t *size, VOID **values,     \
                                               cudaDataType *type);                                                    \
    cusparseStatus_t cusparse##CONST##DnVecGetValues(cusparse##CONST##DnVecDescr_t vector, VOID **values);             \
    cusparseStatus_t cusparseCreate##CONST##DnMat(cusparse##CONST##DnMatDescr_t *matrix, int64_t rows, int64_t cols,   \
                                                  int64_t ld, VOID *values, cudaDataType type, cusparseOrder_t order); \
    cusparseStatus_t cusparse##CONST##DnMatGet(cusparse##CONST##DnMatDescr_t matrix, int64_t *rows, int64_t *cols,     \
                                               int64_t *ld, VOID **values, cudaDataType *type,                         \
                                               cusparseOrder_t *order);                                                \
    cusparseStatus_t cusparse##CONST##DnMatGetValues(cusparse##CONST##DnMatDescr_t matrix, VOID **values);
VGC_DESCRIPTORS(, void)
VGC_DESCRIPTORS(Const, const void)
#undef VGC_DESCRIPTORS

cusparseStatus_t cusparseDestroySpMat(cusparseConstSpMatDescr_t matrix);
cusparseStatus_t cusparseSpMatGetSize(cusparseConstSpMatDescr_t matrix, int64_t *rows, int64_t *cols, int64_t *nnz);
cusparseStatus_t cusparseSpMatGetFormat(cusparseConstSpMatDescr_t matrix, cusparseFormat_t *format);
cusparseStatus_t cusparseSpMatGetIndexBase(cusparseConstSpMatDescr_t matrix, cusparseIndexBase_t *base);
cusparseStatus_t cusparseSpMatSetValues(cusparseSpMatDescr_t matrix, void *values);
cusparseStatus_t cusparseCsrSetPointers(cusparseSpMatDescr_t matrix, void *offsets, void *columns, void *values);
cusparseStatus_t cusparseCscSetPointers(cusparseSpMatDescr_t matrix, void *offsets, void *row_indices, void *values);
cusparseStatus_t cusparseCooSetPointers(cusparseSpMatDescr_t matrix, void *row_indices, void *columns, void *values);
cusparseStatus_t cusparseSpMatSetAttribute(cusparseSpMatDescr_t matrix, cusparseSpMatAttribute_t attribute, void *data,
                                           size_t size);
cusparseStatus_t cusparseSpMatGetAttribute(cusparseConstSpMatDescr_t matrix, cusparseSpMatAttribute_t attribute,
                                           void *data, size_t size);
cusparseStatus_t cusparseSpMatGetStridedBatch(cusparseConstSpMatDescr_t matrix, int *batches);
cusparseStatus_t cusparseCooSetStridedBatch(cusparseSpMatDescr_t matrix, int batches, int64_t stride);
cusparseStatus_t cusparseCsrSetStridedBatch(cusparseSpMatDescr_t matrix, int batches, int64_t offsets, int64_t entries);
cusparseStatus_t cusparseBsrSetStridedBatch(cusparseSpMatDescr_t matrix, int batches, int64_t offsets, int64_t columns,
                                            int64_t values);
cusparseStatus_t cusparseDestroySpVec(cusparseConstSpVecDescr_t vector);
cusparseStatus_t cusparseSpVecGetIndexBase(cusparseConstSpVecDescr_t vector, cusparseIndexBase_t *base);
cusparseStatus_t cusparseSpVecSetValues(cusparseSpVecDescr_t vector, void *values);
cusparseStatus_t cusparseDestroyDnVec(cusparseConstDnVecDescr_t vector);
cusparseStatus_t cusparseDnVecSetValues(cusparseDnVecDescr_t vector, void *values);
cusparseStatus_t cusparseDestroyDnMat(cusparseConstDnMatDescr_t matrix);
cusparseStatus_t cusparseDnMatSetValues(cusparseDnMatDescr_t matrix, void *values);
cusparseStatus_t cusparseDnMatSetStridedBatch(cusparseDnMatDescr_t matrix, int batches, int64_t stride);
cusparseStatus_t cusparseDnMatGetStridedBatch(cusparseConstDnMatDescr_t matrix, int *batches, int64_t *stride);

cusparseStatus_t cusparseSpMV_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                                         cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, const void *beta,
                                         cusparseDnVecDescr_t y, cudaDataType type, cusparseSpMVAlg_t algorithm,
                                         size_t *size);
cusparseStatus_t cusparseSpMV_preprocess(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                                         cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, const void *beta,
                                         cusparseDnVecDescr_t y, cudaDataType type, cusparseSpMVAlg_t algorithm,
                                         void *buffer);
cusparseStatus_t cusparseSpMV(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                              cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, const void *beta,
                              cusparseDnVecDescr_t y, cudaDataType type, cusparseSpMVAlg_t algorithm, void *buffer);
cusparseStatus_t cusparseSpMM_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation_a,
                                         cusparseOperation_t operation_b, const void *alpha,
                                         cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b, const void *beta,
                                         cusparseDnMatDescr_t c, cudaDataType type, cusparseSpMMAlg_t algorithm,
                                         size_t *size);
cusparseStatus_t cusparseSpMM_preprocess(cusparseHandle_t handle, cusparseOperation_t operation_a,
                                         cusparseOperation_t operation_b, const void *alpha,
                                         cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b, const void *beta,
                                         cusparseDnMatDescr_t c, cudaDataType type, cusparseSpMMAlg_t algorithm,
                                         void *buffer);
cusparseStatus_t cusparseSpMM(cusparseHandle_t handle, cusparseOperation_t operation_a, cusparseOperation_t operation_b,
                              const void *alpha, cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b,
                              const void *beta, cusparseDnMatDescr_t c, cudaDataType type, cusparseSpMMAlg_t algorithm,
                              void *buffer);

cusparseStatus_t cusparseSpSV_createDescr(cusparseSpSVDescr_t *plan);
cusparseStatus_t cusparseSpSV_destroyDescr(cusparseSpSVDescr_t plan);
cusparseStatus_t cusparseSpSV_updateMatrix(cusparseHandle_t handle, cusparseSpSVDescr_t plan, void *values,
                                           cusparseSpSVUpdate_t part);
cusparseStatus_t cusparseSpSV_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                                         cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x,
                                         cusparseDnVecDescr_t y, cudaDataType type, cusparseSpSVAlg_t algorithm,
                                         cusparseSpSVDescr_t plan, size_t *size);
cusparseStatus_t cusparseSpSV_analysis(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                                       cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, cusparseDnVecDescr_t y,
                                       cudaDataType type, cusparseSpSVAlg_t algorithm, cusparseSpSVDescr_t plan,
                                       void *buffer);
cusparseStatus_t cusparseSpSV_solve(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                                    cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, cusparseDnVecDescr_t y,
                                    cudaDataType type, cusparseSpSVAlg_t algorithm, cusparseSpSVDescr_t plan);
cusparseStatus_t cusparseSpSM_createDescr(cusparseSpSMDescr_t *plan);
cusparseStatus_t cusparseSpSM_destroyDescr(cusparseSpSMDescr_t plan);
cusparseStatus_t cusparseSpSM_updateMatrix(cusparseHandle_t handle, cusparseSpSMDescr_t plan, void *values,
                                           cusparseSpSMUpdate_t part);
cusparseStatus_t cusparseSpSM_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation,
                                         cusparseOperation_t operation_b, const void *alpha,
                                         cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b,
                                         cusparseDnMatDescr_t x, cudaDataType type, cusparseSpSMAlg_t algorithm,
                                         cusparseSpSMDescr_t plan, size_t *size);
cusparseStatus_t cusparseSpSM_analysis(cusparseHandle_t handle, cusparseOperation_t operation,
                                       cusparseOperation_t operation_b, const void *alpha, cusparseConstSpMatDescr_t a,
                                       cusparseConstDnMatDescr_t b, cusparseDnMatDescr_t x, cudaDataType type,
                                       cusparseSpSMAlg_t algorithm, cusparseSpSMDescr_t plan, void *buffer);
cusparseStatus_t cusparseSpSM_solve(cusparseHandle_t handle, cusparseOperation_t operation,
                                    cusparseOperation_t operation_b, const void *alpha, cusparseConstSpMatDescr_t a,
                                    cusparseConstDnMatDescr_t b, cusparseDnMatDescr_t x, cudaDataType type,
                                    cusparseSpSMAlg_t algorithm, cusparseSpSMDescr_t plan);

/* Sparse vectors. */
cusparseStatus_t cusparseAxpby(cusparseHandle_t handle, const void *alpha, cusparseConstSpVecDescr_t x,
                               const void *beta, cusparseDnVecDescr_t y);
cusparseStatus_t cusparseGather(cusparseHandle_t handle, cusparseConstDnVecDescr_t y, cusparseSpVecDescr_t x);
cusparseStatus_t cusparseScatter(cusparseHandle_t handle, cusparseConstSpVecDescr_t x, cusparseDnVecDescr_t y);
cusparseStatus_t cusparseRot(cusparseHandle_t handle, const void *c, const void *s, cusparseSpVecDescr_t x,
                             cusparseDnVecDescr_t y);
cusparseStatus_t cusparseSpVV_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation,
                                         cusparseConstSpVecDescr_t x, cusparseConstDnVecDescr_t y, const void *result,
                                         cudaDataType type, size_t *size);
cusparseStatus_t cusparseSpVV(cusparseHandle_t handle, cusparseOperation_t operation, cusparseConstSpVecDescr_t x,
                              cusparseConstDnVecDescr_t y, void *result, cudaDataType type, void *buffer);

/* Between dense and sparse. */
cusparseStatus_t cusparseSparseToDense_bufferSize(cusparseHandle_t handle, cusparseConstSpMatDescr_t a,
                                                  cusparseDnMatDescr_t b, cusparseSparseToDenseAlg_t algorithm,
                                                  size_t *size);
cusparseStatus_t cusparseSparseToDense(cusparseHandle_t handle, cusparseConstSpMatDescr_t a, cusparseDnMatDescr_t b,
                                       cusparseSparseToDenseAlg_t algorithm, void *buffer);
cusparseStatus_t cusparseDenseToSparse_bufferSize(cusparseHandle_t handle, cusparseConstDnMatDescr_t a,
                                                  cusparseSpMatDescr_t b, cusparseDenseToSparseAlg_t algorithm,
                                                  size_t *size);
cusparseStatus_t cusparseDenseToSparse_analysis(cusparseHandle_t handle, cusparseConstDnMatDescr_t a,
                                                cusparseSpMatDescr_t b, cusparseDenseToSparseAlg_t algorithm,
                                                void *buffer);
cusparseStatus_t cusparseDenseToSparse_convert(cusparseHandle_t handle, cusparseConstDnMatDescr_t a,
                                               cusparseSpMatDescr_t b, cusparseDenseToSparseAlg_t algorithm,
                                               void *buffer);

/* Products of dense matrices, sampled, and of sparse ones. */
#define VGC_SDDMM                                                                                                      \
    cusparseHandle_t handle, cusparseOperation_t operation_a, cusparseOperation_t operation_b, const void *alpha,      \
        cusparseConstDnMatDescr_t a, cusparseConstDnMatDescr_t b, const void *beta, cusparseSpMatDescr_t c,            \
        cudaDataType type, cusparseSDDMMAlg_t algorithm
cusparseStatus_t cusparseSDDMM_bufferSize(VGC_SDDMM, size_t *size);
cusparseStatus_t cusparseSDDMM_preprocess(VGC_SDDMM, void *buffer);
cusparseStatus_t cusparseSDDMM(VGC_SDDMM, void *buffer);
#undef VGC_SDDMM
#define VGC_SPGEMM                                                                                                     \
    cusparseHandle_t handle, cusparseOperation_t operation_a, cusparseOperation_t operation_b, const void *alpha,      \
        cusparseConstSpMatDescr_t a, cusparseConstSpMatDescr_t b, const void *beta, cusparseSpMatDescr_t c,            \
        cudaDataType type, cusparseSpGEMMAlg_t algorithm, cusparseSpGEMMDescr_t plan
cusparseStatus_t cusparseSpGEMM_createDescr(cusparseSpGEMMDescr_t *plan);
cusparseStatus_t cusparseSpGEMM_destroyDescr(cusparseSpGEMMDescr_t plan);
cusparseStatus_t cusparseSpGEMM_workEstimation(VGC_SPGEMM, size_t *size1, void *buffer1);
cusparseStatus_t cusparseSpGEMM_getNumProducts(cusparseSpGEMMDescr_t plan, int64_t *count);
cusparseStatus_t cusparseSpGEMM_estimateMemory(VGC_SPGEMM, float chunk_fraction, size_t *size3, void *buffer3,
                                               size_t *size2);
cusparseStatus_t cusparseSpGEMM_compute(VGC_SPGEMM, size_t *size2, void *buffer2);
cusparseStatus_t cusparseSpGEMM_copy(VGC_SPGEMM);
cusparseStatus_t cusparseSpGEMMreuse_compute(VGC_SPGEMM);
#undef VGC_SPGEMM
#define VGC_SPGEMM_REUSE                                                                                               \
    cusparseHandle_t handle, cusparseOperation_t operation_a, cusparseOperation_t operation_b,                         \
        cusparseConstSpMatDescr_t a, cusparseConstSpMatDescr_t b, cusparseSpMatDescr_t c,                              \
        cusparseSpGEMMAlg_t algorithm, cusparseSpGEMMDescr_t plan
cusparseStatus_t cusparseSpGEMMreuse_workEstimation(VGC_SPGEMM_REUSE, size_t *size1, void *buffer1);
cusparseStatus_t cusparseSpGEMMreuse_nnz(VGC_SPGEMM_REUSE, size_t *size2, void *buffer2, size_t *size3, void *buffer3,
                                         size_t *size4, void *buffer4);
cusparseStatus_t cusparseSpGEMMreuse_copy(VGC_SPGEMM_REUSE, size_t *size5, void *buffer5);
#undef VGC_SPGEMM_REUSE
#ifdef __cplusplus
}
#endif
#include "cusparse_legacy.h"
