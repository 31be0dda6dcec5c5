// What is launched for systems with three or five diagonals.
#pragma once
#include "work.h"

namespace vgc_sparse
{
// `batch` systems of m rows whose element i of system j is at i * step + j * jump; the diagonals are overwritten with
// those of U, or, where they are constant, `upper` is: row by row, as many as there are diagonals.
struct Band {
    const void *diagonals[5]; // from the lowest one
    void *x;
    void *upper;
    long long m, batch, step, jump;
};
// Systems without pivoting: coefficients of `systems` ones, each with `cols` right sides.
struct Reduction {
    const void *lower, *diagonal, *upper; // inputs, where `first`; else in `from`
    void *b;                              // right sides, and their copies
    void *buffer;
    long long m, systems, jump, cols, ld;
};
typedef cudaError_t BandLaunch(const Band &band, cudaStream_t stream);
typedef cudaError_t ReductionLaunch(const Reduction &reduction, cudaStream_t stream);
BandLaunch three_s, three_d, three_c, three_z; // a system for each thread
BandLaunch five_s, five_d, five_c, five_z;
// One system of three diagonals in chunks: the unknowns within each are eliminated, with pivots, by a thread for each
// chunk and right side; what is left are two rows per chunk, a system of five diagonals.
struct Chunks {
    const void *lower, *diagonal, *upper; // not changed
    void *b;
    void *inner; // five numbers for each row
    void *outer; // five diagonals of 2 `count` rows, then five numbers for each of these rows
    void *sides; // 2 `count` numbers for each right side
    long long m, cols, ld, count;
};
typedef cudaError_t ChunksLaunch(const Chunks &chunks, cudaStream_t stream);
ChunksLaunch chunks_s, chunks_d, chunks_c, chunks_z;
ReductionLaunch reduce_s, reduce_d, reduce_c, reduce_z;
} // namespace vgc_sparse
