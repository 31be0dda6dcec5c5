// Kernels of sampled products: C = alpha (A B, where C has entries) + beta C, for CSR.
#pragma once
#include "access.h"
#include "sampled_work.h"

namespace vgc_sparse
{
// Each thread makes one entry, whose row it looks for.
template <class In, class Out, class Number> __global__ void sample(Sampled w)
{
    const long long entry = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (entry >= w.c.nnz)
        return;
    for (long long batch = blockIdx.y; batch < w.batches; batch += gridDim.y) {
        long long low = 0, high = w.c.outer - 1;
        while (low < high) {
            const long long middle = (low + high + 1) / 2;
            if (index_at(w.c.offsets, w.c.wide_offsets, batch * w.c.batch_offsets + middle) - w.c.base <= entry)
                low = middle;
            else
                high = middle - 1;
        }
        const long long at = batch * w.c.batch_indices + entry;
        const long long col = index_at(w.c.indices, w.c.wide_indices, at) - w.c.base;
        const In *const a = place<In>(w.a, low, 0, batch), *const b = place<In>(w.b, 0, col, batch);
        Number sum = number<Number>(0);
        for (long long i = 0; i < w.inner; i++) {
            const Number left = widen<Number>(a[i * w.a.col]), right = widen<Number>(b[i * w.b.row]);
            sum = sum + (w.conjugates_a ? conjugate(left) : left) * (w.conjugates_b ? conjugate(right) : right);
        }
        Out *const c = (Out *)w.values + batch * w.c.batch_values + entry;
        const Number beta = value_of<Number>(w.beta), product = value_of<Number>(w.alpha) * sum;
        *c = narrow<Out>(is_zero(beta) ? product : product + beta * widen<Number>(*c));
    }
}
} // namespace vgc_sparse

#define SPARSE_SAMPLED(NAME, IN, OUT, NUMBER)                                                                          \
    cudaError_t vgc_sparse::NAME(const Sampled &work, cudaStream_t stream)                                             \
    {                                                                                                                  \
        const dim3 grid(blocks_for(work.c.nnz), (unsigned)(work.batches < 65535 ? work.batches : 65535));              \
        if (work.c.nnz)                                                                                                \
            sample<IN, OUT, NUMBER><<<grid, 128, 0, stream>>>(work);                                                   \
        return cudaGetLastError();                                                                                     \
    }
