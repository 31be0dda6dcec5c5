// What cuSPARSE's handles and descriptors are made of.
#pragma once
#include "cusparse.h"
#include "work.h"

struct cusparseContext {
    cudaStream_t stream;
    cusparsePointerMode_t mode;
};
struct cusparseMatDescr {
    cusparseMatrixType_t type;
    cusparseFillMode_t fill;
    cusparseDiagType_t diagonal;
    cusparseIndexBase_t base;
};
struct cusparseSpMatDescr {
    cusparseFormat_t format;
    int64_t rows, cols, nnz;
    void *offsets, *indices, *values; // of COO: rows, columns
    cusparseIndexType_t offset_type, index_type;
    cusparseIndexBase_t base;
    cudaDataType type;
    cusparseFillMode_t fill;
    cusparseDiagType_t diagonal;
};
struct cusparseDnVecDescr {
    int64_t size;
    void *values;
    cudaDataType type;
};
struct cusparseDnMatDescr {
    int64_t rows, cols, ld;
    void *values;
    cudaDataType type;
    cusparseOrder_t order;
};

#define API extern "C" __attribute__((visibility("default")))

namespace vgc_sparse
{
// Null for types of numbers that are not supported.
const Launches *launches_of(cudaDataType type);
bool is_operation(cusparseOperation_t operation);
Scalar scalar_of(const cusparseContext &context, cudaDataType type, const void *value);
inline bool is_complex(cudaDataType type)
{
    return type == CUDA_C_32F || type == CUDA_C_64F;
}
inline cusparseStatus_t status_of(cudaError_t error)
{
    return error == cudaSuccess ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_EXECUTION_FAILED;
}
} // namespace vgc_sparse
