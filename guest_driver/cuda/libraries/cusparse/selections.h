// Kernels that keep the larger numbers of a matrix.
#pragma once
#include "access.h"
#include "selection_work.h"

namespace vgc_sparse
{
// Calls visit(column, number) for each number of a row that is kept.
template <class Number, class Visit> __device__ void each_kept(const Selection &s, int row, Visit visit)
{
    const RealOf<Number> threshold = real_part(value_of<Number>(s.threshold));
    const Number *const values = (const Number *)s.values;
    const int begin = s.offsets ? s.offsets[row] - s.base : 0;
    const int end = s.offsets ? s.offsets[row + 1] - s.base : s.cols;
    for (int at = begin; at < end; at++) {
        const Number value = s.offsets ? values[at] : values[row + (long long)at * s.ld];
        if (magnitude(value) > threshold)
            visit(s.offsets ? s.columns[at] - s.base : at, value);
    }
}
template <class Number> __global__ void count_kept(Selection s, int *counts)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= s.rows)
        return;
    int count = 0;
    each_kept<Number>(s, row, [&](int, Number) { count++; });
    counts[row] = count;
}
template <class Number> __global__ void put_kept(Selection s)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= s.rows)
        return;
    int at = s.made_offsets[row] - s.made_base;
    each_kept<Number>(s, row, [&](int column, Number value) {
        s.made_columns[at] = column + s.made_base;
        ((Number *)s.made_values)[at++] = value;
    });
}
// Magnitudes as doubles, whose bits are in their order. `cols` numbers of one row, or of columns `ld` apart.
template <class Number> __global__ void rank_all(Selection s, unsigned long long *keys, long long count)
{
    const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count)
        return;
    const long long from = s.offsets ? at : at / s.rows * s.ld + at % s.rows;
    keys[at] = (unsigned long long)__double_as_longlong((double)magnitude(((const Number *)s.values)[from]));
}
} // namespace vgc_sparse

#define SPARSE_SELECTION(LETTER, NUMBER)                                                                               \
    cudaError_t vgc_sparse::count_kept_##LETTER(const Selection &s, int *counts, cudaStream_t stream)                  \
    {                                                                                                                  \
        if (s.rows)                                                                                                    \
            count_kept<NUMBER><<<blocks_for(s.rows), 128, 0, stream>>>(s, counts);                                     \
        return cudaGetLastError();                                                                                     \
    }                                                                                                                  \
    cudaError_t vgc_sparse::put_kept_##LETTER(const Selection &s, int *, cudaStream_t stream)                          \
    {                                                                                                                  \
        if (s.rows)                                                                                                    \
            put_kept<NUMBER><<<blocks_for(s.rows), 128, 0, stream>>>(s);                                               \
        return cudaGetLastError();                                                                                     \
    }
#define SPARSE_RANK(LETTER, NUMBER)                                                                                    \
    cudaError_t vgc_sparse::rank_##LETTER(const Selection &s, int *keys, cudaStream_t stream)                          \
    {                                                                                                                  \
        const long long count = s.offsets ? s.cols : (long long)s.rows * s.cols;                                       \
        if (count)                                                                                                     \
            rank_all<NUMBER><<<blocks_for(count), 128, 0, stream>>>(s, (unsigned long long *)keys, count);             \
        return cudaGetLastError();                                                                                     \
    }
