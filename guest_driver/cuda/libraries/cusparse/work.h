// What is launched for cuSPARSE's functions, for one type of numbers.
#pragma once

namespace vgc_sparse
{

// alpha or beta: a value, or where the device finds it.
struct Scalar {
    double re, im;
    const void *device;
};
struct Dense {
    void *data;
    long long row, col; // strides
};
// Compressed in its outer dimension, or (by_entry) a list of entries. `outer` counts compressed rows or columns.
struct Sparse {
    const void *offsets, *indices, *values;
    int wide_offsets, wide_indices, base, by_entry, conjugated;
    long long outer, nnz;
};
struct Product {
    Sparse a;
    int outer_is_result; // outer numbers count the result's rows; else those of b
    int conjugates_b;
    Dense b, c;
    long long rows, cols; // of c
    Scalar alpha, beta;
};
// A triangular solve: rows in an order of levels, and each row's entries by their place among the values.
struct Solve {
    const void *values;
    const int *order, *levels, *offsets, *columns, *places, *diagonals; // diagonals: -1 for rows that lack theirs
    int level_count, unit, conjugated;
    Dense b, x;
    int cols;
    Scalar alpha;
};

struct Launches {
    cudaError_t (*product)(const Product &product, cudaStream_t stream);
    cudaError_t (*solve)(const Solve &solve, cudaStream_t stream);
};
const Launches *launches_s();
const Launches *launches_d();
const Launches *launches_c();
const Launches *launches_z();

} // namespace vgc_sparse
