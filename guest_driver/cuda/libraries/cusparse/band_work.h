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
BandLaunch columns_s, columns_d, columns_c, columns_z; // one system, a right side for each thread
ReductionLaunch reduce_s, reduce_d, reduce_c, reduce_z;
} // namespace vgc_sparse
