// What cuSPARSE's handles and descriptors are made of.
#pragma once
#include <new>

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
struct cusparseSpVecDescr {
    int64_t size, nnz;
    void *indices, *values;
    cusparseIndexType_t index_type;
    cusparseIndexBase_t base;
    cudaDataType type;
};
struct cusparseSpMatDescr {
    cusparseFormat_t format;
    int64_t rows, cols, nnz;          // of numbers, also where these come in blocks; nnz of BSR counts blocks
    void *offsets, *indices, *values; // of COO: rows, columns
    cusparseIndexType_t offset_type, index_type;
    cusparseIndexBase_t base;
    cudaDataType type;
    cusparseFillMode_t fill;
    cusparseDiagType_t diagonal;
    int64_t block_rows, block_cols, ell_cols; // SELL: rows of a slice in block_rows
    cusparseOrder_t order;                    // within BSR's blocks
    int batches;
    int64_t batch_offsets, batch_indices, batch_values;
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
    int batches;
    int64_t batch;
};

#define API extern "C" __attribute__((visibility("default")))

// Ends a function of the API with `status` unless `condition` holds.
#define CHECK(condition, status)                                                                                       \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return CUSPARSE_STATUS_##status;                                                                           \
    } while (0)
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        if (const cusparseStatus_t status_of_call = (call))                                                            \
            return status_of_call;                                                                                     \
    } while (0)

namespace vgc_sparse
{
template <class Made> cusparseStatus_t make(Made **result, const Made &value)
{
    CHECK(result, INVALID_VALUE);
    *result = new (std::nothrow) Made(value);
    return *result ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_ALLOC_FAILED;
}
template <class Made> cusparseStatus_t drop(const Made *made)
{
    CHECK(made, INVALID_VALUE);
    delete made;
    return CUSPARSE_STATUS_SUCCESS;
}
// Bytes of a number, or 0 for types that cuSPARSE's descriptors do not take.
size_t size_of(cudaDataType type);
int kind_of(cudaDataType type); // see structure.h
bool is_operation(cusparseOperation_t operation);
Scalar scalar_of(const cusparseContext &context, cudaDataType type, const void *value);
inline bool is_complex(cudaDataType type)
{
    return type == CUDA_C_32F || type == CUDA_C_64F;
}
inline bool is_computed(cudaDataType type)
{
    return type == CUDA_R_32F || type == CUDA_R_64F || is_complex(type);
}
inline bool is_index(cusparseIndexType_t type)
{
    return type == CUSPARSE_INDEX_32I || type == CUSPARSE_INDEX_64I;
}
inline bool is_base(cusparseIndexBase_t base)
{
    return base == CUSPARSE_INDEX_BASE_ZERO || base == CUSPARSE_INDEX_BASE_ONE;
}
inline cusparseStatus_t status_of(cudaError_t error)
{
    return error == cudaSuccess ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_EXECUTION_FAILED;
}

// What the four types of numbers are called in names of functions, with the unit's launch for each.
template <class Launch> struct ByType {
    Launch *s, *d, *c, *z;
    Launch *operator[](cudaDataType type) const
    {
        return type == CUDA_R_32F   ? s
               : type == CUDA_R_64F ? d
               : type == CUDA_C_32F ? c
               : type == CUDA_C_64F ? z
                                    : nullptr;
    }
};
Sparse seen(const cusparseSpMatDescr &matrix);
Dense seen(const cusparseDnMatDescr &matrix, bool transposed = false);
} // namespace vgc_sparse
