// Kernels of systems with three or five diagonals.
#pragma once
#include "access.h"
#include "band_work.h"

namespace vgc_sparse
{
// Rows below the current one that its pivot may come from, and their entries from the current column on.
template <class Number, int HALF> struct Window {
    Number rows[HALF + 1][2 * HALF + 1], right[HALF + 1];
};
template <class Number, int HALF>
__device__ void load_row(Window<Number, HALF> &w, int slot, const Band &band, long long row, long long first,
                         long long system, const Number *x)
{
    constexpr int COUNT = 2 * HALF + 1;
    const bool exists = row < band.m;
    const long long at = row * band.step + system * band.jump;
    w.right[slot] = exists ? *x : number<Number>(0);
    for (int i = 0; i < COUNT; i++) {
        const long long column = first + i, diagonal = column - row + HALF;
        const bool inside = exists && column >= 0 && column < band.m && diagonal >= 0 && diagonal < COUNT;
        w.rows[slot][i] = inside ? ((const Number *)band.diagonals[diagonal])[at] : number<Number>(0);
    }
}
// Brings the row with the largest entry to the front and takes that entry out of the others.
template <class Number, int HALF> __device__ void eliminate(Window<Number, HALF> &w)
{
    constexpr int COUNT = 2 * HALF + 1;
    for (int slot = 1; slot <= HALF; slot++) {
        if (magnitude(w.rows[slot][0]) > magnitude(w.rows[0][0])) {
            for (int i = 0; i < COUNT; i++) {
                const Number kept = w.rows[0][i];
                w.rows[0][i] = w.rows[slot][i];
                w.rows[slot][i] = kept;
            }
            const Number kept = w.right[0];
            w.right[0] = w.right[slot];
            w.right[slot] = kept;
        }
    }
    for (int slot = 1; slot <= HALF; slot++) {
        if (is_zero(w.rows[slot][0]))
            continue;
        const Number factor = w.rows[slot][0] / w.rows[0][0];
        for (int i = 1; i < COUNT; i++)
            w.rows[slot][i] = w.rows[slot][i] - factor * w.rows[0][i];
        w.right[slot] = w.right[slot] - factor * w.right[0];
    }
}
// Gaussian elimination with partial pivoting; rows of U go to `put`(row, which, entry).
template <class Number, int HALF, class Put>
__device__ void sweep_down(const Band &band, long long system, Number *x, long long x_step, Put put)
{
    constexpr int COUNT = 2 * HALF + 1;
    Window<Number, HALF> w;
    for (int slot = 0; slot <= HALF; slot++)
        load_row<Number, HALF>(w, slot, band, slot, 0, system, x + (slot < band.m ? slot : 0) * x_step);
    for (long long row = 0; row < band.m; row++) {
        eliminate(w);
        for (int i = 0; i < COUNT; i++)
            put(row, i, w.rows[0][i]);
        x[row * x_step] = w.right[0];
        for (int slot = 0; slot < HALF; slot++) {
            for (int i = 0; i + 1 < COUNT; i++)
                w.rows[slot][i] = w.rows[slot + 1][i + 1];
            w.rows[slot][COUNT - 1] = number<Number>(0);
            w.right[slot] = w.right[slot + 1];
        }
        const long long next = row + 1 + HALF;
        load_row<Number, HALF>(w, HALF, band, next, row + 1, system, x + (next < band.m ? next : 0) * x_step);
    }
}
template <class Number, int HALF, class Get> __device__ void sweep_up(long long m, Number *x, long long x_step, Get get)
{
    constexpr int COUNT = 2 * HALF + 1;
    for (long long row = m - 1; row >= 0; row--) {
        Number rest = x[row * x_step];
        for (int i = 1; i < COUNT && row + i < m; i++)
            rest = rest - get(row, i) * x[(row + i) * x_step];
        x[row * x_step] = rest / get(row, 0);
    }
}
// Each thread solves a system, whose diagonals it overwrites.
template <class Number, int HALF> __global__ void solve_systems(Band band)
{
    const long long system = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (system >= band.batch)
        return;
    Number *const x = (Number *)band.x + system * band.jump;
    const auto entry = [&](long long row, int i) -> Number & {
        return ((Number *)band.diagonals[i])[row * band.step + system * band.jump];
    };
    sweep_down<Number, HALF>(band, system, x, band.step, [&](long long row, int i, Number u) { entry(row, i) = u; });
    sweep_up<Number, HALF>(band.m, x, band.step, entry);
}
// One system: each thread has a right side, and the first one writes U.
template <class Number> __global__ void columns_down(Band band)
{
    const long long col = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= band.batch)
        return;
    Number *const upper = (Number *)band.upper;
    Band system = band;
    system.jump = 0;
    sweep_down<Number, 1>(system, 0, (Number *)band.x + col * band.jump, 1, [&](long long row, int i, Number u) {
        if (col == 0)
            upper[3 * row + i] = u;
    });
}
template <class Number> __global__ void columns_up(Band band)
{
    const long long col = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const Number *const upper = (const Number *)band.upper;
    if (col < band.batch)
        sweep_up<Number, 1>(band.m, (Number *)band.x + col * band.jump, 1,
                            [&](long long row, int i) { return upper[3 * row + i]; });
}

// Parallel cyclic reduction: each step halves how many rows a row depends on. Coefficients lie in the buffer as lower,
// diagonal, upper of m each.
template <class Number> struct Coefficients {
    const Number *lower, *diagonal, *upper;
};
template <class Number> __device__ Coefficients<Number> of_system(const Number *all, long long m, long long system)
{
    const Number *const first = all + system * 3 * m;
    return {first, first + m, first + 2 * m};
}
template <class Number> __global__ void load_coefficients(Reduction r, Number *to)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= r.m)
        return;
    for (long long system = blockIdx.y; system < r.systems; system += gridDim.y) {
        const long long at = system * r.jump + row;
        Number *const first = to + system * 3 * r.m + row;
        first[0] = row > 0 ? ((const Number *)r.lower)[at] : number<Number>(0);
        first[r.m] = ((const Number *)r.diagonal)[at];
        first[2 * r.m] = row + 1 < r.m ? ((const Number *)r.upper)[at] : number<Number>(0);
    }
}
template <class Number> __global__ void reduce_coefficients(Reduction r, const Number *from, Number *to, long long step)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= r.m)
        return;
    for (long long system = blockIdx.y; system < r.systems; system += gridDim.y) {
        const Coefficients<Number> c = of_system(from, r.m, system);
        Number *const first = to + system * 3 * r.m + row;
        Number lower = number<Number>(0), upper = lower, diagonal = c.diagonal[row];
        if (row >= step) {
            const Number factor = c.lower[row] / c.diagonal[row - step];
            lower = -(factor * c.lower[row - step]);
            diagonal = diagonal - factor * c.upper[row - step];
        }
        if (row + step < r.m) {
            const Number factor = c.upper[row] / c.diagonal[row + step];
            upper = -(factor * c.upper[row + step]);
            diagonal = diagonal - factor * c.lower[row + step];
        }
        first[0] = lower;
        first[r.m] = diagonal;
        first[2 * r.m] = upper;
    }
}
// From b to its copy, or back; the copy's columns follow each other.
template <class Number>
__global__ void reduce_sides(Reduction r, const Number *coefficients, const Number *from, long long from_ld, Number *to,
                             long long to_ld, long long step)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= r.m)
        return;
    for (long long col = blockIdx.y; col < r.cols * r.systems; col += gridDim.y) {
        const Coefficients<Number> c = of_system(coefficients, r.m, col / r.cols);
        const Number *const b = from + col * from_ld + row;
        Number rest = *b;
        if (row >= step)
            rest = rest - c.lower[row] / c.diagonal[row - step] * b[-step];
        if (row + step < r.m)
            rest = rest - c.upper[row] / c.diagonal[row + step] * b[step];
        to[col * to_ld + row] = rest;
    }
}
template <class Number>
__global__ void divide_sides(Reduction r, const Number *coefficients, const Number *from, long long from_ld)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row < r.m)
        for (long long col = blockIdx.y; col < r.cols * r.systems; col += gridDim.y)
            ((Number *)r.b)[col * r.ld + row] =
                from[col * from_ld + row] / of_system(coefficients, r.m, col / r.cols).diagonal[row];
}
static inline dim3 grid_of(long long rows, long long cols)
{
    return dim3(blocks_for(rows), (unsigned)(cols < 65535 ? cols : 65535));
}
template <class Number> cudaError_t reduce(const Reduction &r, cudaStream_t stream)
{
    const long long sides = r.cols * r.systems;
    if (r.m == 0 || sides == 0)
        return cudaSuccess;
    Number *now = (Number *)r.buffer, *next = now + 3 * r.m * r.systems, *const copy = next + 3 * r.m * r.systems;
    load_coefficients<Number><<<grid_of(r.m, r.systems), 128, 0, stream>>>(r, now);
    bool is_copied = false;
    for (long long step = 1; step < r.m; step *= 2) {
        const Number *const from = is_copied ? copy : (const Number *)r.b;
        reduce_sides<Number><<<grid_of(r.m, sides), 128, 0, stream>>>(
            r, now, from, is_copied ? r.m : r.ld, is_copied ? (Number *)r.b : copy, is_copied ? r.ld : r.m, step);
        reduce_coefficients<Number><<<grid_of(r.m, r.systems), 128, 0, stream>>>(r, now, next, step);
        Number *const before = now;
        now = next;
        next = before;
        is_copied = !is_copied;
    }
    divide_sides<Number><<<grid_of(r.m, sides), 128, 0, stream>>>(r, now, is_copied ? copy : (const Number *)r.b,
                                                                  is_copied ? r.m : r.ld);
    return cudaGetLastError();
}
} // namespace vgc_sparse

#define SPARSE_BANDS(LETTER, NUMBER)                                                                                   \
    cudaError_t vgc_sparse::three_##LETTER(const Band &band, cudaStream_t stream)                                      \
    {                                                                                                                  \
        if (band.batch && band.m)                                                                                      \
            solve_systems<NUMBER, 1><<<blocks_for(band.batch), 128, 0, stream>>>(band);                                \
        return cudaGetLastError();                                                                                     \
    }                                                                                                                  \
    cudaError_t vgc_sparse::columns_##LETTER(const Band &band, cudaStream_t stream)                                    \
    {                                                                                                                  \
        if (band.batch && band.m) {                                                                                    \
            columns_down<NUMBER><<<blocks_for(band.batch), 128, 0, stream>>>(band);                                    \
            columns_up<NUMBER><<<blocks_for(band.batch), 128, 0, stream>>>(band);                                      \
        }                                                                                                              \
        return cudaGetLastError();                                                                                     \
    }                                                                                                                  \
    cudaError_t vgc_sparse::reduce_##LETTER(const Reduction &reduction, cudaStream_t stream)                           \
    {                                                                                                                  \
        return reduce<NUMBER>(reduction, stream);                                                                      \
    }
#define SPARSE_FIVE(LETTER, NUMBER)                                                                                    \
    cudaError_t vgc_sparse::five_##LETTER(const Band &band, cudaStream_t stream)                                       \
    {                                                                                                                  \
        if (band.batch && band.m)                                                                                      \
            solve_systems<NUMBER, 2><<<blocks_for(band.batch), 128, 0, stream>>>(band);                                \
        return cudaGetLastError();                                                                                     \
    }
