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
template <class Number, int HALF> __global__ void columns_down(Band band)
{
    const long long col = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= band.batch)
        return;
    Number *const upper = (Number *)band.upper;
    Band system = band;
    system.jump = 0;
    sweep_down<Number, HALF>(system, 0, (Number *)band.x + col * band.jump, 1, [&](long long row, int i, Number u) {
        if (col == 0)
            upper[(2 * HALF + 1) * row + i] = u;
    });
}
template <class Number, int HALF> __global__ void columns_up(Band band)
{
    const long long col = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const Number *const upper = (const Number *)band.upper;
    if (col < band.batch)
        sweep_up<Number, HALF>(band.m, (Number *)band.x + col * band.jump, 1,
                               [&](long long row, int i) { return upper[(2 * HALF + 1) * row + i]; });
}

// A row of a chunk: its entries of the unknown before the chunk, of the chunk's first one, and from the current one on.
template <class Number> struct ChunkRow {
    Number before, first, from[3], right;
};
template <class Number>
__device__ ChunkRow<Number> chunk_row(const Chunks &c, long long row, long long begin, long long current,
                                      const Number *b)
{
    const Number zero = number<Number>(0);
    ChunkRow<Number> made = {zero, zero, {zero, zero, zero}, b[row]};
    const Number entries[3] = {row > 0 ? ((const Number *)c.lower)[row] : zero, ((const Number *)c.diagonal)[row],
                               row + 1 < c.m ? ((const Number *)c.upper)[row] : zero};
    for (int i = 0; i < 3; i++) {
        const long long column = row - 1 + i;
        if (column < begin)
            made.before = entries[i];
        else if (column == begin)
            made.first = entries[i];
        else if (column >= current)
            made.from[column - current] = entries[i];
    }
    return made;
}
template <class Number> __device__ ChunkRow<Number> without(const ChunkRow<Number> &row, const ChunkRow<Number> &pivot)
{
    const Number zero = number<Number>(0);
    const Number factor = is_zero(row.from[0]) ? zero : row.from[0] / pivot.from[0];
    return {row.before - factor * pivot.before,
            row.first - factor * pivot.first,
            {row.from[1] - factor * pivot.from[1], row.from[2] - factor * pivot.from[2], zero},
            row.right - factor * pivot.right};
}
template <class Number> __device__ void put_outer(const Chunks &c, const ChunkRow<Number> &row, long long at, int shift)
{
    Number *const outer = (Number *)c.outer;
    const long long rows = 2 * c.count;
    const Number entries[4] = {row.before, row.first, row.from[0], row.from[1]};
    outer[(shift ? 4 : 0) * rows + at] = number<Number>(0);
    for (int i = 0; i < 4; i++)
        outer[(1 - shift + i) * rows + at] = entries[i];
}
template <class Number> __global__ void chunks_down(Chunks c)
{
    const long long chunk = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (chunk >= c.count)
        return;
    const long long begin = chunk * c.m / c.count, last = (chunk + 1) * c.m / c.count - 1;
    for (long long col = blockIdx.y; col < c.cols; col += gridDim.y) {
        Number *const b = (Number *)c.b + col * c.ld;
        ChunkRow<Number> one = chunk_row(c, begin, begin, begin + 1, b);
        ChunkRow<Number> two = chunk_row(c, begin + 1, begin, begin + 1, b);
        for (long long at = begin + 1; at < last; at++) {
            ChunkRow<Number> pivot = chunk_row(c, at + 1, begin, at, b);
            if (magnitude(one.from[0]) > magnitude(pivot.from[0])) {
                const ChunkRow<Number> kept = pivot;
                pivot = one;
                one = kept;
            }
            if (magnitude(two.from[0]) > magnitude(pivot.from[0])) {
                const ChunkRow<Number> kept = pivot;
                pivot = two;
                two = kept;
            }
            one = without(one, pivot);
            two = without(two, pivot);
            b[at] = pivot.right;
            if (col == 0) {
                Number *const inner = (Number *)c.inner + 5 * at;
                inner[0] = pivot.before;
                inner[1] = pivot.first;
                for (int i = 0; i < 3; i++)
                    inner[2 + i] = pivot.from[i];
            }
        }
        Number *const sides = (Number *)c.sides + col * 2 * c.count + 2 * chunk;
        sides[0] = one.right;
        sides[1] = two.right;
        if (col == 0) {
            put_outer(c, one, 2 * chunk, 0);
            put_outer(c, two, 2 * chunk + 1, 1);
        }
    }
}
template <class Number> __global__ void chunks_up(Chunks c)
{
    const long long chunk = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (chunk >= c.count)
        return;
    const long long begin = chunk * c.m / c.count, last = (chunk + 1) * c.m / c.count - 1;
    for (long long col = blockIdx.y; col < c.cols; col += gridDim.y) {
        Number *const b = (Number *)c.b + col * c.ld;
        const Number *const sides = (const Number *)c.sides + col * 2 * c.count + 2 * chunk;
        const Number before = chunk > 0 ? sides[-1] : number<Number>(0), first = sides[0];
        Number next = sides[1], behind = chunk + 1 < c.count ? sides[2] : number<Number>(0);
        b[begin] = first;
        b[last] = next;
        for (long long at = last - 1; at > begin; at--) {
            const Number *const inner = (const Number *)c.inner + 5 * at;
            const Number rest = b[at] - inner[0] * before - inner[1] * first - inner[3] * next - inner[4] * behind;
            behind = next;
            next = rest / inner[2];
            b[at] = next;
        }
    }
}
static inline dim3 grid_of(long long rows, long long cols)
{
    return dim3(blocks_for(rows), (unsigned)(cols < 65535 ? cols : 65535));
}
template <class Number> cudaError_t solve_chunks(const Chunks &c, cudaStream_t stream)
{
    if (c.m == 0 || c.cols == 0)
        return cudaSuccess;
    Number *const outer = (Number *)c.outer;
    Band band = {};
    for (int i = 0; i < 5; i++)
        band.diagonals[i] = outer + i * 2 * c.count;
    band.x = c.sides;
    band.upper = outer + 10 * c.count;
    band.m = band.jump = 2 * c.count;
    band.batch = c.cols;
    band.step = 1;
    chunks_down<Number><<<grid_of(c.count, c.cols), 128, 0, stream>>>(c);
    columns_down<Number, 2><<<blocks_for(c.cols), 128, 0, stream>>>(band);
    columns_up<Number, 2><<<blocks_for(c.cols), 128, 0, stream>>>(band);
    chunks_up<Number><<<grid_of(c.count, c.cols), 128, 0, stream>>>(c);
    return cudaGetLastError();
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
#define SPARSE_CHUNKS(LETTER, NUMBER)                                                                                  \
    cudaError_t vgc_sparse::chunks_##LETTER(const Chunks &chunks, cudaStream_t stream)                                 \
    {                                                                                                                  \
        return solve_chunks<NUMBER>(chunks, stream);                                                                   \
    }
