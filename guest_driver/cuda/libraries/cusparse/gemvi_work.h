// What is launched for products of a dense matrix with a sparse vector.
#pragma once
#include "work.h"

namespace vgc_sparse
{
struct Gemvi {
    Dense a; // op(A)
    long long rows;
    int nnz, base, conjugated;
    const int *indices;
    const void *x;
    void *y;
    Scalar alpha, beta;
};
typedef cudaError_t GemviLaunch(const Gemvi &gemvi, cudaStream_t stream);
GemviLaunch gemvi_s, gemvi_d, gemvi_c, gemvi_z;
} // namespace vgc_sparse
