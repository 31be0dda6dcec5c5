// Kernels of triangular solves.
#pragma once
#include "access.h"
#include "plans.h"

namespace vgc_sparse
{
template <class Number> __device__ void solve_row(const Solve &s, int row, int col, Number alpha)
{
    const Structure &t = s.structure;
    const Number *const values = (const Number *)s.values;
    const Number b = *place<Number>(s.b, row, col);
    Number rest = alpha * (s.conjugates_b ? conjugate(b) : b);
    for (int entry = t.offsets[row]; entry < t.offsets[row + 1]; entry++) {
        const Number a = values[t.places[entry]];
        rest = rest - (s.conjugated ? conjugate(a) : a) * *place<Number>(s.x, t.columns[entry], col);
    }
    if (!s.unit) {
        const int at = t.diagonals[row];
        const Number diagonal = at < 0 ? number<Number>(0) : values[at];
        if (is_zero(diagonal))
            atomicMin(t.pivot, row);
        rest = rest / (s.conjugated ? conjugate(diagonal) : diagonal);
    }
    *place<Number>(s.x, row, col) = rest;
}
// Blocks of one number in y have a column; several in x only where there is one level.
template <class Number> __global__ void solve_levels(Solve s, Stage stage)
{
    const Number alpha = value_of<Number>(s.alpha);
    for (int col = blockIdx.y; col < s.cols; col += gridDim.y)
        for (int level = stage.first; level < stage.end; level++) {
            const int end = s.structure.levels[level + 1], step = gridDim.x * blockDim.x;
            for (int i = s.structure.levels[level] + blockIdx.x * blockDim.x + threadIdx.x; i < end; i += step)
                solve_row<Number>(s, s.structure.order[i], col, alpha);
            __syncthreads();
        }
}
} // namespace vgc_sparse

#define SPARSE_SOLVE(LETTER, NUMBER)                                                                                   \
    cudaError_t vgc_sparse::solve_##LETTER(const Solve &solve, const Stage &stage, cudaStream_t stream)                \
    {                                                                                                                  \
        const dim3 grid(stage.blocks, solve.cols < 65535 ? solve.cols : 65535);                                        \
        solve_levels<NUMBER><<<grid, 128, 0, stream>>>(solve, stage);                                                  \
        return cudaGetLastError();                                                                                     \
    }
