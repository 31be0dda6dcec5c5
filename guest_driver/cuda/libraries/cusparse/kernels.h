// cuSPARSE's kernels for one type of numbers.
#pragma once
#include "numbers.h"
#include "work.h"

namespace vgc_sparse
{
namespace
{

__device__ inline long long index_at(const void *data, int wide, long long at)
{
    return wide ? ((const long long *)data)[at] : (long long)((const int *)data)[at];
}
template <class Number> __device__ Number value_of(const Scalar &scalar)
{
    return scalar.device ? *(const Number *)scalar.device : Make<Number>::of(scalar.re, scalar.im);
}
template <class Number> __device__ Number *place(const Dense &dense, long long row, long long col)
{
    return (Number *)dense.data + row * dense.row + col * dense.col;
}

// c = beta c, before others add to it.
template <class Number> __device__ void scale(const Product &p)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= p.rows)
        return;
    const Number beta = value_of<Number>(p.beta);
    Number *const at = place<Number>(p.c, row, blockIdx.y);
    *at = is_zero(beta) ? beta : times(beta, *at);
}
template <class Number> __device__ Number term(const Product &p, long long entry, long long inner)
{
    const Number a = ((const Number *)p.a.values)[entry], b = *place<Number>(p.b, inner, blockIdx.y);
    return times(p.a.conjugated ? conjugate(a) : a, p.conjugates_b ? conjugate(b) : b);
}
// Each thread makes one number of c.
template <class Number> __device__ void gather(const Product &p)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= p.rows)
        return;
    const long long begin = index_at(p.a.offsets, p.a.wide_offsets, row) - p.a.base;
    const long long end = index_at(p.a.offsets, p.a.wide_offsets, row + 1) - p.a.base;
    Number sum = Make<Number>::of(0, 0);
    for (long long entry = begin; entry < end; entry++)
        sum = plus(sum, term<Number>(p, entry, index_at(p.a.indices, p.a.wide_indices, entry) - p.a.base));
    const Number beta = value_of<Number>(p.beta);
    Number *const at = place<Number>(p.c, row, blockIdx.y);
    const Number product = times(value_of<Number>(p.alpha), sum);
    *at = is_zero(beta) ? product : plus(product, times(beta, *at));
}
// Each thread adds an entry, or those of an outer number, to where they belong.
template <class Number> __device__ void scatter(const Product &p)
{
    const long long number = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= (p.a.by_entry ? p.a.nnz : p.a.outer))
        return;
    const long long begin = p.a.by_entry ? number : index_at(p.a.offsets, p.a.wide_offsets, number) - p.a.base;
    const long long end = p.a.by_entry ? number + 1 : index_at(p.a.offsets, p.a.wide_offsets, number + 1) - p.a.base;
    const long long outer = p.a.by_entry ? index_at(p.a.offsets, p.a.wide_offsets, number) - p.a.base : number;
    const Number alpha = value_of<Number>(p.alpha);
    for (long long entry = begin; entry < end; entry++) {
        const long long index = index_at(p.a.indices, p.a.wide_indices, entry) - p.a.base;
        const Number value = times(alpha, term<Number>(p, entry, p.outer_is_result ? index : outer));
        add_to(place<Number>(p.c, p.outer_is_result ? outer : index, blockIdx.y), value);
    }
}
// One block for each column: rows of a level do not depend on each other.
template <class Number> __device__ void solve_column(const Solve &s)
{
    const Number alpha = value_of<Number>(s.alpha);
    const Number *const values = (const Number *)s.values;
    for (int level = 0; level < s.level_count; level++) {
        for (int i = s.levels[level] + threadIdx.x; i < s.levels[level + 1]; i += blockDim.x) {
            const int row = s.order[i];
            Number rest = times(alpha, *place<Number>(s.b, row, blockIdx.x));
            for (int entry = s.offsets[row]; entry < s.offsets[row + 1]; entry++) {
                Number a = values[s.places[entry]];
                a = times(s.conjugated ? conjugate(a) : a, *place<Number>(s.x, s.columns[entry], blockIdx.x));
                rest = plus(rest, times(Make<Number>::of(-1, 0), a));
            }
            if (!s.unit) {
                const int at = s.diagonals[row];
                const Number diagonal = at < 0 ? Make<Number>::of(0, 0) : values[at];
                rest = over(rest, s.conjugated ? conjugate(diagonal) : diagonal);
            }
            *place<Number>(s.x, row, blockIdx.x) = rest;
        }
        __syncthreads();
    }
}
inline dim3 blocks_of(long long count, long long cols)
{
    return dim3((unsigned)((count + 127) / 128), (unsigned)cols);
}
} // namespace
} // namespace vgc_sparse

#define VGC_SPARSE_UNIT(LETTER, NUMBER)                                                                                \
    __global__ void vgc_sparse_scale_##LETTER(vgc_sparse::Product p)                                                   \
    {                                                                                                                  \
        vgc_sparse::scale<NUMBER>(p);                                                                                  \
    }                                                                                                                  \
    __global__ void vgc_sparse_gather_##LETTER(vgc_sparse::Product p)                                                  \
    {                                                                                                                  \
        vgc_sparse::gather<NUMBER>(p);                                                                                 \
    }                                                                                                                  \
    __global__ void vgc_sparse_scatter_##LETTER(vgc_sparse::Product p)                                                 \
    {                                                                                                                  \
        vgc_sparse::scatter<NUMBER>(p);                                                                                \
    }                                                                                                                  \
    __global__ void vgc_sparse_solve_##LETTER(vgc_sparse::Solve s)                                                     \
    {                                                                                                                  \
        vgc_sparse::solve_column<NUMBER>(s);                                                                           \
    }                                                                                                                  \
    namespace vgc_sparse                                                                                               \
    {                                                                                                                  \
    static cudaError_t product_##LETTER(const Product &p, cudaStream_t stream)                                         \
    {                                                                                                                  \
        if (p.rows == 0 || p.cols == 0)                                                                                \
            return cudaSuccess;                                                                                        \
        if (p.outer_is_result && !p.a.by_entry) {                                                                      \
            vgc_sparse_gather_##LETTER<<<blocks_of(p.rows, p.cols), 128, 0, stream>>>(p);                              \
            return cudaGetLastError();                                                                                 \
        }                                                                                                              \
        vgc_sparse_scale_##LETTER<<<blocks_of(p.rows, p.cols), 128, 0, stream>>>(p);                                   \
        const long long count = p.a.by_entry ? p.a.nnz : p.a.outer;                                                    \
        if (count)                                                                                                     \
            vgc_sparse_scatter_##LETTER<<<blocks_of(count, p.cols), 128, 0, stream>>>(p);                              \
        return cudaGetLastError();                                                                                     \
    }                                                                                                                  \
    static cudaError_t solve_##LETTER(const Solve &s, cudaStream_t stream)                                             \
    {                                                                                                                  \
        if (s.level_count == 0)                                                                                        \
            return cudaSuccess;                                                                                        \
        vgc_sparse_solve_##LETTER<<<s.cols, 128, 0, stream>>>(s);                                                      \
        return cudaGetLastError();                                                                                     \
    }                                                                                                                  \
    const Launches *launches_##LETTER()                                                                                \
    {                                                                                                                  \
        static const Launches launches = {product_##LETTER, solve_##LETTER};                                           \
        return &launches;                                                                                              \
    }                                                                                                                  \
    }
