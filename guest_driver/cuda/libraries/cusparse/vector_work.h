// What is launched for sparse vectors; types have units of their own.
#pragma once
#include "structure.h"

namespace vgc_sparse
{
struct VectorWork {
    Indices indices;
    void *x, *y;
    long long nnz, size;
    int conjugated;
    Scalar alpha, beta; // of a rotation: c and s
    void *result, *sum; // of a product: where it goes, and where it is summed up
};
// Launches of one combination of types: y = alpha x + beta y, a rotation of both, the product of both.
struct VectorLaunches {
    cudaError_t (*add)(const VectorWork &work, cudaStream_t stream);
    cudaError_t (*rotate)(const VectorWork &work, cudaStream_t stream);
    cudaError_t (*multiply)(const VectorWork &work, cudaStream_t stream);
};
const VectorLaunches *vectors_s(), *vectors_d(), *vectors_c(), *vectors_z(), *vectors_half(), *vectors_bfloat();
} // namespace vgc_sparse
