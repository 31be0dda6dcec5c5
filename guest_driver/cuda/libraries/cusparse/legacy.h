// What the functions for CSR and BSR with indices of 32 bits have in common.
#pragma once
#include "descriptors.h"
#include "structure.h"

// S T TYPE for each type of numbers.
#define SPARSE_TYPES(DEFINE)                                                                                           \
    DEFINE(S, float, CUDA_R_32F)                                                                                       \
    DEFINE(D, double, CUDA_R_64F)                                                                                      \
    DEFINE(C, cuComplex, CUDA_C_32F)                                                                                   \
    DEFINE(Z, cuDoubleComplex, CUDA_C_64F)

namespace vgc_sparse
{
inline int base_of(const cusparseMatDescr &about)
{
    return about.base == CUSPARSE_INDEX_BASE_ONE;
}
// A descriptor of CSR, or of BSR whose rows and columns are counted in blocks.
cusparseSpMatDescr matrix_of(const cusparseMatDescr &about, cudaDataType type, int rows, int cols, int nnz,
                             const void *values, const int *offsets, const int *columns, int block = 0,
                             cusparseDirection_t direction = CUSPARSE_DIRECTION_ROW);
// Writes a number to where a program wants it by the handle's pointer mode: the sum of counts, or what offsets end
// with.
cusparseStatus_t tell_total(const cusparseContext &context, const int *counts, int count, int *total);
cusparseStatus_t tell_end(const cusparseContext &context, const int *offsets, int count, int base, int *total);
} // namespace vgc_sparse
