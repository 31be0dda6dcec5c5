// Kernels of products: C = alpha op(A) op(B) + beta C for matrices stored as A, B and C, computed as Number.
#pragma once
#include "access.h"

namespace vgc_sparse
{
// Calls visit(place among the values, index) for each entry of an outer number.
template <bool BLOCKED> struct Walk;
template <> struct Walk<false> {
    template <class Visit> static __device__ void over(const Sparse &a, long long batch, long long outer, Visit visit)
    {
        const long long first = batch * a.batch_offsets + outer, jump = batch * a.batch_indices;
        const long long end = index_at(a.offsets, a.wide_offsets, first + 1) - a.base;
        for (long long entry = index_at(a.offsets, a.wide_offsets, first) - a.base; entry < end; entry++)
            visit(batch * a.batch_values + entry, index_at(a.indices, a.wide_indices, jump + entry) - a.base);
    }
};
template <> struct Walk<true> {
    template <class Visit> static __device__ void over(const Sparse &a, long long batch, long long outer, Visit visit)
    {
        const long long jump = batch * a.batch_values, group = outer / a.block_rows, row = outer % a.block_rows;
        if (a.layout == BLOCKED_ELL) {
            for (long long slot = group * a.width; slot < (group + 1) * a.width; slot++) {
                const long long column = index_at(a.indices, a.wide_indices, slot) - a.base;
                const long long at = outer * a.width * a.block_cols + (slot - group * a.width) * a.block_cols;
                for (long long i = 0; column >= 0 && i < a.block_cols; i++)
                    visit(jump + at + i, column * a.block_cols + i);
            }
            return;
        }
        const long long begin = index_at(a.offsets, a.wide_offsets, batch * a.batch_offsets + group) - a.base;
        const long long end = index_at(a.offsets, a.wide_offsets, batch * a.batch_offsets + group + 1) - a.base;
        if (a.layout == SLICES) {
            for (long long at = begin + row; at < end; at += a.block_rows) {
                const long long column = index_at(a.indices, a.wide_indices, at) - a.base;
                if (column >= 0)
                    visit(at, column);
            }
            return;
        }
        const long long in_row = a.blocks_by_column ? row : row * a.block_cols;
        const long long step = a.blocks_by_column ? a.block_rows : 1;
        for (long long block = begin; block < end; block++) {
            const long long at = jump + block * a.block_rows * a.block_cols + in_row;
            const long long column = index_at(a.indices, a.wide_indices, batch * a.batch_indices + block) - a.base;
            for (long long i = 0; i < a.block_cols; i++)
                visit(at + i * step, column * a.block_cols + i);
        }
    }
};

template <class A, class B, class Number> __device__ Number term(const Product &p, long long entry, const B *b)
{
    const Number left = widen<Number>(((const A *)p.a.values)[entry]), right = widen<Number>(*b);
    return (p.a.conjugated ? conjugate(left) : left) * (p.conjugates_b ? conjugate(right) : right);
}
template <class C, class Number> __device__ void finish(const Product &p, C *at, Number product)
{
    const Number beta = value_of<Number>(p.beta);
    *at = narrow<C>(is_zero(beta) ? product : product + beta * widen<Number>(*at));
}
template <bool BLOCKED, class A, class B, class C, class Number>
__device__ void gather_one(const Product &p, long long row, long long col, long long batch)
{
    Number sum = number<Number>(0);
    const B *const b = place<B>(p.b, 0, col, batch);
    Walk<BLOCKED>::over(p.a, batch, row, [&](long long entry, long long inner) {
        sum = sum + term<A, B, Number>(p, entry, b + inner * p.b.row);
    });
    finish(p, place<C>(p.c, row, col, batch), value_of<Number>(p.alpha) * sum);
}
// Each thread makes one number of a column.
template <bool BLOCKED, class A, class B, class C, class Number> __global__ void gather(Product p)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row < p.rows)
        for (long long at = blockIdx.y; at < p.cols * p.batches; at += gridDim.y)
            gather_one<BLOCKED, A, B, C, Number>(p, row, at % p.cols, at / p.cols);
}
// Each thread makes a strip of a row, whose numbers lie next to each other in b and c.
constexpr int STRIP = 16;
template <bool BLOCKED, class A, class B, class C, class Number>
__device__ void gather_strip(const Product &p, long long row, long long col, long long batch)
{
    Number sums[STRIP];
    for (int i = 0; i < STRIP; i++)
        sums[i] = number<Number>(0);
    const B *const first = place<B>(p.b, 0, col, batch);
    Walk<BLOCKED>::over(p.a, batch, row, [&](long long entry, long long inner) {
        const B *const b = first + inner * p.b.row;
        const Number value = widen<Number>(((const A *)p.a.values)[entry]);
        const Number left = p.a.conjugated ? conjugate(value) : value;
        for (int i = 0; i < STRIP; i++) {
            const Number right = widen<Number>(b[i]);
            sums[i] = sums[i] + left * (p.conjugates_b ? conjugate(right) : right);
        }
    });
    const Number alpha = value_of<Number>(p.alpha);
    for (int i = 0; i < STRIP; i++)
        finish(p, place<C>(p.c, row, col + i, batch), alpha * sums[i]);
}
template <bool BLOCKED, class A, class B, class C, class Number> __global__ void gather_along(Product p)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x, strips = (p.cols + STRIP - 1) / STRIP;
    if (row >= p.rows)
        return;
    for (long long at = blockIdx.y; at < strips * p.batches; at += gridDim.y) {
        const long long col = at % strips * STRIP, batch = at / strips;
        if (col + STRIP <= p.cols)
            gather_strip<BLOCKED, A, B, C, Number>(p, row, col, batch);
        else
            for (long long rest = col; rest < p.cols; rest++)
                gather_one<BLOCKED, A, B, C, Number>(p, row, rest, batch);
    }
}
// c = beta c, before others add to it.
template <class Number> __global__ void scale(Product p)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row < p.rows)
        for (long long at = blockIdx.y; at < p.cols * p.batches; at += gridDim.y)
            finish(p, place<Number>(p.c, row, at % p.cols, at / p.cols), number<Number>(0));
}
// c = sums + beta c, where the sums have more digits than c has.
template <class C, class Number> __global__ void add_sums(Product p)
{
    const long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row < p.rows)
        for (long long at = blockIdx.y; at < p.cols * p.batches; at += gridDim.y)
            finish(p, place<C>(p.c, row, at % p.cols, at / p.cols), ((const Number *)p.sums)[at * p.rows + row]);
}
// Each thread adds an entry, or those of an outer number, to where they belong.
template <bool BLOCKED, class A, class B, class Number> __global__ void scatter(Product p, Dense target)
{
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const bool by_entry = !BLOCKED && p.a.layout == ENTRIES;
    if (thread >= (by_entry ? p.a.nnz : p.a.outer))
        return;
    const Number alpha = value_of<Number>(p.alpha);
    for (long long at = blockIdx.y; at < p.cols * p.batches; at += gridDim.y) {
        const long long col = at % p.cols, batch = at / p.cols, jump = batch * p.a.batch_indices + thread;
        const B *const b = place<B>(p.b, 0, col, batch);
        const auto add = [&](long long outer, long long entry, long long index) {
            const long long inner = p.outer_is_result ? index : outer, row = p.outer_is_result ? outer : index;
            add_to(place<Number>(target, row, col, batch), alpha * term<A, B, Number>(p, entry, b + inner * p.b.row));
        };
        if (by_entry)
            add(index_at(p.a.offsets, p.a.wide_offsets, jump) - p.a.base, batch * p.a.batch_values + thread,
                index_at(p.a.indices, p.a.wide_indices, jump) - p.a.base);
        else
            Walk<BLOCKED>::over(p.a, batch, thread,
                                [&](long long entry, long long index) { add(thread, entry, index); });
    }
}

template <class A, class B> constexpr bool SAME = false;
template <class A> constexpr bool SAME<A, A> = true;

static inline unsigned rows_of_grid(long long count)
{
    return (unsigned)(count < 65535 ? count : 65535);
}
template <bool BLOCKED, class A, class B, class C, class Number>
cudaError_t multiply(const Product &p, cudaStream_t stream)
{
    const long long columns = p.cols * p.batches;
    if (p.rows == 0 || columns == 0)
        return cudaSuccess;
    if (p.outer_is_result && p.a.layout != ENTRIES) {
        if (p.cols >= STRIP && p.b.col == 1 && p.c.col == 1) {
            const dim3 grid(blocks_for(p.rows), rows_of_grid((p.cols + STRIP - 1) / STRIP * p.batches));
            gather_along<BLOCKED, A, B, C, Number><<<grid, 128, 0, stream>>>(p);
        } else {
            const dim3 grid(blocks_for(p.rows), rows_of_grid(columns));
            gather<BLOCKED, A, B, C, Number><<<grid, 128, 0, stream>>>(p);
        }
        return cudaGetLastError();
    }
    Dense target = p.c;
    const dim3 all(blocks_for(p.rows), rows_of_grid(columns));
    if constexpr (SAME<C, Number>) {
        scale<Number><<<all, 128, 0, stream>>>(p);
    } else {
        target = {p.sums, 1, p.rows, p.rows * p.cols};
        const cudaError_t error = cudaMemsetAsync(p.sums, 0, (size_t)(p.rows * columns) * sizeof(Number), stream);
        if (error != cudaSuccess)
            return error;
    }
    const long long count = p.a.layout == ENTRIES ? p.a.nnz : p.a.outer;
    if (count)
        scatter<BLOCKED, A, B, Number><<<dim3(blocks_for(count), rows_of_grid(columns)), 128, 0, stream>>>(p, target);
    if constexpr (!SAME<C, Number>)
        add_sums<C, Number><<<all, 128, 0, stream>>>(p);
    return cudaGetLastError();
}
} // namespace vgc_sparse

// The launches of one combination of types: NAME for rows and entries, blocked_NAME for formats made of blocks.
#define SPARSE_PRODUCT(NAME, A, B, C, NUMBER)                                                                          \
    cudaError_t vgc_sparse::NAME(const Product &product, cudaStream_t stream)                                          \
    {                                                                                                                  \
        return multiply<false, A, B, C, NUMBER>(product, stream);                                                      \
    }
#define SPARSE_BLOCKED_PRODUCT(NAME, A, B, C, NUMBER)                                                                  \
    cudaError_t vgc_sparse::blocked_##NAME(const Product &product, cudaStream_t stream)                                \
    {                                                                                                                  \
        return multiply<true, A, B, C, NUMBER>(product, stream);                                                       \
    }
