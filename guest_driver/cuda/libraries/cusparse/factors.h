// Kernels of incomplete LU and Cholesky factors, in place of the matrix's values and without fill-in.
#pragma once
#include "access.h"
#include "plans.h"

namespace vgc_sparse
{
// A += -left * right of the entries of row `other` behind `from` whose columns this row has behind `at`.
template <class Number>
__device__ void subtract(const Structure &t, Number *values, Number left, int from, int other_end, int at, int end)
{
    for (int entry = from; entry < other_end; entry++) {
        const int column = t.columns[entry];
        while (at < end && t.columns[at] < column)
            at++;
        if (at < end && t.columns[at] == column)
            values[t.places[at]] = values[t.places[at]] - left * values[t.places[entry]];
    }
}
template <class Number> __device__ void lu_row(const Factor &f, int row)
{
    const Structure &t = f.structure;
    Number *const values = (Number *)f.values;
    const int end = t.offsets[row + 1];
    for (int entry = t.offsets[row]; entry < end && t.columns[entry] < row; entry++) {
        const int above = t.columns[entry], pivot = t.diagonals[above];
        const Number left = values[t.places[entry]] / (pivot < 0 ? number<Number>(0) : values[t.places[pivot]]);
        values[t.places[entry]] = left;
        if (pivot >= 0)
            subtract(t, values, left, pivot + 1, t.offsets[above + 1], entry + 1, end);
    }
    const int diagonal = t.diagonals[row];
    if (diagonal < 0)
        return;
    Number &pivot = values[t.places[diagonal]];
    if (f.boosted && magnitude(pivot) <= f.tolerance)
        pivot = number<Number>(f.boost_re, f.boost_im);
    if (is_zero(pivot))
        atomicMin(t.pivot, row);
}
// The sum of products of entries of two rows before column `limit`.
template <class Number>
__device__ Number overlap(const Structure &t, const Number *values, int row, int other, int limit)
{
    Number sum = number<Number>(0);
    int at = t.offsets[row];
    for (int entry = t.offsets[other]; entry < t.offsets[other + 1] && t.columns[entry] < limit; entry++) {
        while (at < t.offsets[row + 1] && t.columns[at] < t.columns[entry])
            at++;
        if (at < t.offsets[row + 1] && t.columns[at] == t.columns[entry])
            sum = sum + values[t.places[at]] * conjugate(values[t.places[entry]]);
    }
    return sum;
}
template <class Number> __device__ void cholesky_row(const Factor &f, int row)
{
    const Structure &t = f.structure;
    Number *const values = (Number *)f.values;
    for (int entry = t.offsets[row]; entry < t.offsets[row + 1] && t.columns[entry] < row; entry++) {
        const int above = t.columns[entry], pivot = t.diagonals[above];
        const Number rest = values[t.places[entry]] - overlap(t, values, row, above, above);
        values[t.places[entry]] = rest / (pivot < 0 ? number<Number>(0) : values[t.places[pivot]]);
    }
    const int diagonal = t.diagonals[row];
    if (diagonal < 0)
        return;
    const RealOf<Number> square = real_part(values[t.places[diagonal]] - overlap(t, values, row, row, row));
    if (!(square > 0))
        atomicMin(t.pivot, row);
    values[t.places[diagonal]] = number<Number>(sqrt(square));
}
template <class Number, bool LU> __global__ void factor_levels(Factor f, Stage stage)
{
    for (int level = stage.first; level < stage.end; level++) {
        const int end = f.structure.levels[level + 1], step = gridDim.x * blockDim.x;
        for (int i = f.structure.levels[level] + blockIdx.x * blockDim.x + threadIdx.x; i < end; i += step) {
            if (LU)
                lu_row<Number>(f, f.structure.order[i]);
            else
                cholesky_row<Number>(f, f.structure.order[i]);
        }
        __syncthreads();
    }
}
} // namespace vgc_sparse

#define SPARSE_FACTOR(NAME, NUMBER, LU)                                                                                \
    cudaError_t vgc_sparse::NAME(const Factor &factor, const Stage &stage, cudaStream_t stream)                        \
    {                                                                                                                  \
        factor_levels<NUMBER, LU><<<stage.blocks, 128, 0, stream>>>(factor, stage);                                    \
        return cudaGetLastError();                                                                                     \
    }
