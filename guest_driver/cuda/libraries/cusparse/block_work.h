// What is launched for conversions between CSR and formats made of blocks, of elements of any type.
#pragma once
#include "structure.h"

namespace vgc_sparse
{
struct BlockShape {
    int rows, cols, by_column, size; // size: bytes of an element
};
// A matrix in CSR, or in blocks of the shape; `count` rows or rows of blocks.
struct IndexedRows {
    int *offsets, *columns;
    void *values;
    int base, count;
};
// Counts go to blocks.offsets[row + 1]; rows of a are sorted, and there are `a.count` of them.
cudaError_t count_blocks(const IndexedRows &a, BlockShape shape, const IndexedRows &blocks, cudaStream_t stream);
cudaError_t fill_blocks(const IndexedRows &a, BlockShape shape, const IndexedRows &blocks, cudaStream_t stream);
// Values may be null on both sides.
cudaError_t split_blocks(const IndexedRows &blocks, BlockShape shape, const IndexedRows &a, cudaStream_t stream);
cudaError_t permute_blocks(void *to, const void *from, const int *order, long long count, int elements, int size,
                           cudaStream_t stream);
} // namespace vgc_sparse
