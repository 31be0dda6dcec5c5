// Work on indices and on elements of any type: scans, sorting, formats, copies between dense and sparse.
#pragma once
#include "work.h"

namespace vgc_sparse
{
struct DenseElements {
    void *data;
    long long rows, cols, row, col; // sizes, strides
    int size, kind;
};

// data[i + 1] is a count on entry; on return data[i] is where outer number i begins.
cudaError_t scan(Indices counts, long long count, cudaStream_t stream);
// Writes the outer number of each entry, or where each outer number begins among sorted ones.
cudaError_t expand(Indices offsets, Indices outer, long long count, cudaStream_t stream);
cudaError_t compress(Indices outer, long long nnz, Indices offsets, long long count, cudaStream_t stream);
cudaError_t identity(int *numbers, long long count, cudaStream_t stream);
// to[i] = from[order[i]], of elements of 1, 2, 4, 8 or 16 bytes.
cudaError_t permute(void *to, const void *from, const int *order, long long count, int size, cudaStream_t stream);
// The sum of counts[0] to counts[count - 1], on the device.
cudaError_t total(const int *counts, long long count, int *sum, cudaStream_t stream);

// A stable sort of pairs of indices: keys are (major, minor), order says where each came from.
struct Sorting {
    unsigned long long *keys[2];
    int *order[2];
    static size_t bytes(long long count);
    Sorting(void *buffer, long long count);
    // By rows (or columns) in `major`, expanded already.
    cudaError_t of_pairs(Indices major, Indices minor, long long count, cudaStream_t stream);
    // By rows that `offsets` tell of, or (swapped) by column, then by row.
    cudaError_t of_rows(Indices offsets, long long outer, Indices minor, long long count, bool swapped,
                        cudaStream_t stream);
    // Writes the sorted halves of the keys, if asked for.
    cudaError_t put(const Indices *major, const Indices *minor, long long count, cudaStream_t stream) const;
    cudaError_t sort(long long count, cudaStream_t stream); // keys[0], order[0], also the result's place
};

// Dense matrices, whose outer dimension is the rows or (by_column) the columns.
cudaError_t count_nonzeros(DenseElements dense, bool by_column, Indices counts, long long first, cudaStream_t stream);
cudaError_t pick_nonzeros(DenseElements dense, bool by_column, Indices offsets, Indices outer, Indices inner,
                          void *values, cudaStream_t stream);
cudaError_t clear(DenseElements dense, cudaStream_t stream);
cudaError_t spread(DenseElements dense, bool by_column, const Sparse &a, cudaStream_t stream);
cudaError_t pick_blocks(DenseElements dense, const Sparse &a, void *values, cudaStream_t stream);
// Sparse vectors: elements of `to` and `from` where only one of the two is indexed.
cudaError_t gather_elements(void *to, const void *from, Indices indices, long long count, int size,
                            cudaStream_t stream);
cudaError_t scatter_elements(void *to, const void *from, Indices indices, long long count, int size,
                             cudaStream_t stream);
} // namespace vgc_sparse
