// What is launched for cuSPARSE's functions: matrices as kernels see them.
#pragma once
#include <cuda_runtime.h>

namespace vgc_sparse
{

// alpha or beta: a value, or where the device finds it.
struct Scalar {
    double re, im;
    const void *device;
};
struct Indices {
    void *data;
    int wide, base;
};
// Elements are numbers of this many bytes, or (for tests against 0) of a type.
enum Kind { BYTE, HALVES, SINGLES, DOUBLES, SINGLE_PAIRS, DOUBLE_PAIRS };
struct Dense {
    void *data;
    long long row, col, batch; // strides
};
enum Layout { COMPRESSED, ENTRIES, BLOCKS, BLOCKED_ELL, SLICES };
// Compressed in its outer dimension unless `layout` says otherwise; `outer` counts compressed rows or columns.
struct Sparse {
    const void *offsets, *indices, *values;
    int wide_offsets, wide_indices, base, layout, conjugated;
    long long outer, nnz;
    // Sizes of a block; rows of a slice in block_rows; blocks in a row of Blocked-ELL in width.
    long long block_rows, block_cols, width;
    int blocks_by_column;
    long long batch_offsets, batch_indices, batch_values;
};
struct Product {
    Sparse a;
    int outer_is_result; // outer numbers count the result's rows; else those of b
    int conjugates_b;
    Dense b, c;
    void *sums;                    // where the result's sums are kept until they are narrowed
    long long rows, cols, batches; // of c
    Scalar alpha, beta;
};
// Adds products of matrices of some types: rows or single entries of a at a time, and blocks of entries.
typedef cudaError_t ProductLaunch(const Product &product, cudaStream_t stream);

static __device__ inline long long index_at(const void *data, int wide, long long at)
{
    return wide ? ((const long long *)data)[at] : (long long)((const int *)data)[at];
}
static __device__ inline void put_index(void *data, int wide, long long at, long long value)
{
    if (wide)
        ((long long *)data)[at] = value;
    else
        ((int *)data)[at] = (int)value;
}
static inline unsigned blocks_for(long long count, long long threads = 128)
{
    return (unsigned)((count + threads - 1) / threads);
}
} // namespace vgc_sparse
