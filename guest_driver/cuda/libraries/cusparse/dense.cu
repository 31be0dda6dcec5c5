// Elements that go between dense matrices or vectors and sparse ones, of any type.
#include "elements.h"
#include "structure.h"

using namespace vgc_sparse;

namespace
{
__device__ long long place_of(const DenseElements &dense, bool by_column, long long outer, long long inner)
{
    return by_column ? inner * dense.row + outer * dense.col : outer * dense.row + inner * dense.col;
}
__global__ void count_kernel(DenseElements dense, bool by_column, Indices counts, long long first)
{
    const long long outer = thread_number();
    if (outer >= (by_column ? dense.cols : dense.rows))
        return;
    long long found = 0;
    for (long long inner = 0; inner < (by_column ? dense.rows : dense.cols); inner++)
        found += is_nonzero(dense.data, place_of(dense, by_column, outer, inner), dense.kind);
    put_index(counts.data, counts.wide, first + outer, found);
}
__global__ void pick_kernel(DenseElements dense, bool by_column, Indices offsets, Indices outers, Indices inners,
                            void *values)
{
    const long long outer = thread_number();
    if (outer >= (by_column ? dense.cols : dense.rows))
        return;
    long long at = get(offsets, outer);
    for (long long inner = 0; inner < (by_column ? dense.rows : dense.cols); inner++) {
        const long long from = place_of(dense, by_column, outer, inner);
        if (!is_nonzero(dense.data, from, dense.kind))
            continue;
        if (outers.data)
            put(outers, at, outer);
        put(inners, at, inner);
        copy_element(values, at++, dense.data, from, dense.size);
    }
}
__global__ void clear_kernel(DenseElements dense)
{
    const long long at = thread_number();
    if (at >= dense.rows * dense.cols)
        return;
    const bool by_row = dense.col == 1;
    const long long row = by_row ? at / dense.cols : at % dense.rows, col = by_row ? at % dense.cols : at / dense.rows;
    clear_element(dense.data, place_of(dense, false, row, col), dense.size);
}
__global__ void spread_kernel(DenseElements dense, bool by_column, Sparse a)
{
    const long long thread = thread_number();
    const bool by_entry = a.layout == ENTRIES;
    if (thread >= (by_entry ? a.nnz : a.outer))
        return;
    const long long begin = by_entry ? thread : index_at(a.offsets, a.wide_offsets, thread) - a.base;
    const long long end = by_entry ? thread + 1 : index_at(a.offsets, a.wide_offsets, thread + 1) - a.base;
    const long long outer = by_entry ? index_at(a.offsets, a.wide_offsets, thread) - a.base : thread;
    for (long long at = begin; at < end; at++) {
        const long long inner = index_at(a.indices, a.wide_indices, at) - a.base;
        copy_element(dense.data, place_of(dense, by_column, outer, inner), a.values, at, dense.size);
    }
}
// Each thread fills a row of Blocked-ELL.
__global__ void pick_blocks_kernel(DenseElements dense, Sparse a, void *values)
{
    const long long row = thread_number();
    if (row >= dense.rows)
        return;
    for (long long slot = 0; slot < a.width; slot++) {
        const long long at = row / a.block_rows * a.width + slot;
        const long long block = index_at(a.indices, a.wide_indices, at) - a.base;
        for (long long i = 0; i < a.block_cols; i++) {
            const long long to = (row * a.width + slot) * a.block_cols + i;
            if (block < 0)
                clear_element(values, to, dense.size);
            else
                copy_element(values, to, dense.data, place_of(dense, false, row, block * a.block_cols + i), dense.size);
        }
    }
}
__global__ void gather_kernel(void *to, const void *from, Indices indices, long long count, int size)
{
    if (thread_number() < count)
        copy_element(to, thread_number(), from, get(indices, thread_number()), size);
}
__global__ void scatter_kernel(void *to, const void *from, Indices indices, long long count, int size)
{
    if (thread_number() < count)
        copy_element(to, get(indices, thread_number()), from, thread_number(), size);
}
} // namespace

cudaError_t vgc_sparse::count_nonzeros(DenseElements dense, bool by_column, Indices counts, long long first,
                                       cudaStream_t stream)
{
    SPARSE_LAUNCH(count_kernel, (by_column ? dense.cols : dense.rows), stream, dense, by_column, counts, first);
}
cudaError_t vgc_sparse::pick_nonzeros(DenseElements dense, bool by_column, Indices offsets, Indices outer,
                                      Indices inner, void *values, cudaStream_t stream)
{
    SPARSE_LAUNCH(pick_kernel, (by_column ? dense.cols : dense.rows), stream, dense, by_column, offsets, outer, inner,
                  values);
}
cudaError_t vgc_sparse::clear(DenseElements dense, cudaStream_t stream)
{
    SPARSE_LAUNCH(clear_kernel, dense.rows * dense.cols, stream, dense);
}
cudaError_t vgc_sparse::spread(DenseElements dense, bool by_column, const Sparse &a, cudaStream_t stream)
{
    SPARSE_LAUNCH(spread_kernel, (a.layout == ENTRIES ? a.nnz : a.outer), stream, dense, by_column, a);
}
cudaError_t vgc_sparse::pick_blocks(DenseElements dense, const Sparse &a, void *values, cudaStream_t stream)
{
    SPARSE_LAUNCH(pick_blocks_kernel, dense.rows, stream, dense, a, values);
}
cudaError_t vgc_sparse::gather_elements(void *to, const void *from, Indices indices, long long count, int size,
                                        cudaStream_t stream)
{
    SPARSE_LAUNCH(gather_kernel, count, stream, to, from, indices, count, size);
}
cudaError_t vgc_sparse::scatter_elements(void *to, const void *from, Indices indices, long long count, int size,
                                         cudaStream_t stream)
{
    SPARSE_LAUNCH(scatter_kernel, count, stream, to, from, indices, count, size);
}
