// Conversions between rows and blocks.
#include "block_work.h"
#include "elements.h"

using namespace vgc_sparse;

namespace
{
// The first entry of a row that is in column `column` or behind.
__device__ int first_from(const IndexedRows &a, int row, long long column)
{
    int low = a.offsets[row] - a.base, high = a.offsets[row + 1] - a.base;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (a.columns[middle] - a.base < column)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
// The next column of blocks behind `last` that one of the rows has, or -1.
__device__ int next_block(const IndexedRows &a, BlockShape shape, int block_row, int last)
{
    int next = -1;
    for (int i = 0; i < shape.rows && block_row * shape.rows + i < a.count; i++) {
        const int row = block_row * shape.rows + i, at = first_from(a, row, (last + 1LL) * shape.cols);
        if (at == a.offsets[row + 1] - a.base)
            continue;
        const int found = (a.columns[at] - a.base) / shape.cols;
        next = next < 0 || found < next ? found : next;
    }
    return next;
}
__global__ void count_kernel(IndexedRows a, BlockShape shape, IndexedRows blocks)
{
    const int block_row = (int)thread_number();
    if (block_row >= blocks.count)
        return;
    int count = 0;
    for (int at = next_block(a, shape, block_row, -1); at >= 0; at = next_block(a, shape, block_row, at))
        count++;
    blocks.offsets[block_row + 1] = count;
}
__device__ long long inside(BlockShape shape, int row, int col)
{
    return shape.by_column ? (long long)col * shape.rows + row : (long long)row * shape.cols + col;
}
__device__ void fill_block(const IndexedRows &a, BlockShape shape, int block_row, int column, void *values,
                           long long first)
{
    for (int i = 0; i < shape.rows * shape.cols; i++)
        clear_element(values, first + i, shape.size);
    for (int i = 0; i < shape.rows && block_row * shape.rows + i < a.count; i++) {
        const int row = block_row * shape.rows + i, end = a.offsets[row + 1] - a.base;
        for (int at = first_from(a, row, (long long)column * shape.cols); at < end; at++) {
            const int col = a.columns[at] - a.base - column * shape.cols;
            if (col >= shape.cols)
                break;
            copy_element(values, first + inside(shape, i, col), a.values, at, shape.size);
        }
    }
}
__global__ void fill_kernel(IndexedRows a, BlockShape shape, IndexedRows blocks)
{
    const int block_row = (int)thread_number();
    if (block_row >= blocks.count)
        return;
    int at = blocks.offsets[block_row] - blocks.base;
    for (int col = next_block(a, shape, block_row, -1); col >= 0; col = next_block(a, shape, block_row, col)) {
        blocks.columns[at] = col + blocks.base;
        fill_block(a, shape, block_row, col, blocks.values, (long long)at++ * shape.rows * shape.cols);
    }
}
// Each thread writes a row, with the zeros that its blocks have.
__global__ void split_kernel(IndexedRows blocks, BlockShape shape, IndexedRows a)
{
    const int row = (int)thread_number();
    if (row > a.count)
        return;
    if (row == a.count) {
        a.offsets[row] = (blocks.offsets[blocks.count] - blocks.base) * shape.rows * shape.cols + a.base;
        return;
    }
    const int begin = blocks.offsets[row / shape.rows] - blocks.base, inner = row % shape.rows;
    const int end = blocks.offsets[row / shape.rows + 1] - blocks.base;
    int at = begin * shape.rows * shape.cols + inner * (end - begin) * shape.cols;
    a.offsets[row] = at + a.base;
    for (int block = begin; block < end; block++)
        for (int col = 0; col < shape.cols; col++, at++) {
            a.columns[at] = (blocks.columns[block] - blocks.base) * shape.cols + col + a.base;
            if (a.values)
                copy_element(a.values, at, blocks.values,
                             (long long)block * shape.rows * shape.cols + inside(shape, inner, col), shape.size);
        }
}
__global__ void permute_kernel(void *to, const void *from, const int *order, long long count, int elements, int size)
{
    const long long at = thread_number();
    if (at < count * elements)
        copy_element(to, at, from, (long long)order[at / elements] * elements + at % elements, size);
}
} // namespace

cudaError_t vgc_sparse::count_blocks(const IndexedRows &a, BlockShape shape, const IndexedRows &blocks,
                                     cudaStream_t stream)
{
    SPARSE_LAUNCH(count_kernel, blocks.count, stream, a, shape, blocks);
}
cudaError_t vgc_sparse::fill_blocks(const IndexedRows &a, BlockShape shape, const IndexedRows &blocks,
                                    cudaStream_t stream)
{
    SPARSE_LAUNCH(fill_kernel, blocks.count, stream, a, shape, blocks);
}
cudaError_t vgc_sparse::split_blocks(const IndexedRows &blocks, BlockShape shape, const IndexedRows &a,
                                     cudaStream_t stream)
{
    SPARSE_LAUNCH(split_kernel, a.count + 1, stream, blocks, shape, a);
}
cudaError_t vgc_sparse::permute_blocks(void *to, const void *from, const int *order, long long count, int elements,
                                       int size, cudaStream_t stream)
{
    SPARSE_LAUNCH(permute_kernel, count * elements, stream, to, from, order, count, elements, size);
}
