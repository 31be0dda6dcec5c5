// What is launched for products and sums of sparse matrices in CSR with indices of 32 bits.
#pragma once
#include "structure.h"

namespace vgc_sparse
{
struct Csr {
    int *offsets, *columns;
    void *values;
    int base;
};
struct MatrixProduct {
    Csr a, b, c;
    long long rows;
    // Room for the row's products begins at starts[row]; what is left of them after sums of equal columns are made
    // begins there, too, and ends[row] is where c's row ends.
    const long long *starts;
    int *columns;
    void *sums;
    int *ends; // [0]: 0 or c's base
    Scalar alpha, beta;
};
struct MatrixSum {
    Csr a, b, c;
    long long rows;
    Scalar alpha, beta;
};
typedef cudaError_t MatrixLaunch(const MatrixProduct &product, cudaStream_t stream);
typedef cudaError_t MatrixSumLaunch(const MatrixSum &sum, cudaStream_t stream);

// Writes how many products each row has to [1], and where rows' room begins.
cudaError_t count_products(const MatrixProduct &product, cudaStream_t stream);
// Columns alone, for products whose numbers follow later.
cudaError_t find_columns(const MatrixProduct &product, cudaStream_t stream);
cudaError_t put_columns(const MatrixProduct &product, cudaStream_t stream);
cudaError_t count_union(const MatrixSum &sum, cudaStream_t stream);
// Products and sums of them in the room, then their way to c; and products into a c that has its columns.
MatrixLaunch multiply_s, multiply_d, multiply_c, multiply_z;
MatrixLaunch put_s, put_d, put_c, put_z;
MatrixLaunch refill_s, refill_d, refill_c, refill_z;
MatrixSumLaunch add_s, add_d, add_c, add_z;
} // namespace vgc_sparse
