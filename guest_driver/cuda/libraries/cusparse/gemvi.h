// Kernels of products of a dense matrix with a sparse vector.
#pragma once
#include "access.h"
#include "gemvi_work.h"

namespace vgc_sparse
{
template <class Number> __global__ void multiply_sparse_vector(Gemvi g)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= g.rows)
        return;
    Number sum = number<Number>(0);
    for (int at = 0; at < g.nnz; at++) {
        const Number a = *place<Number>(g.a, row, g.indices[at] - g.base);
        sum = sum + (g.conjugated ? conjugate(a) : a) * ((const Number *)g.x)[at];
    }
    const Number beta = value_of<Number>(g.beta), product = value_of<Number>(g.alpha) * sum;
    Number *const y = (Number *)g.y + row;
    *y = is_zero(beta) ? product : product + beta * *y;
}
} // namespace vgc_sparse

#define SPARSE_GEMVI(LETTER, NUMBER)                                                                                   \
    cudaError_t vgc_sparse::gemvi_##LETTER(const Gemvi &g, cudaStream_t stream)                                        \
    {                                                                                                                  \
        if (g.rows)                                                                                                    \
            multiply_sparse_vector<NUMBER><<<blocks_for(g.rows), 128, 0, stream>>>(g);                                 \
        return cudaGetLastError();                                                                                     \
    }
