// What is launched to keep the larger numbers of a matrix.
#pragma once
#include "structure.h"

namespace vgc_sparse
{
// A dense matrix by columns, or (offsets) one in CSR; a number is kept where its magnitude is above the threshold.
struct Selection {
    const void *values;
    const int *offsets, *columns;
    int base, rows, cols, ld;
    Scalar threshold;
    int *made_offsets, *made_columns;
    void *made_values;
    int made_base;
};
typedef cudaError_t SelectionLaunch(const Selection &selection, int *counts, cudaStream_t stream);
SelectionLaunch count_kept_s, count_kept_d, count_kept_c, count_kept_z; // to counts[row]
SelectionLaunch put_kept_s, put_kept_d, put_kept_c, put_kept_z;
SelectionLaunch rank_s, rank_d; // sorting keys of all magnitudes to (unsigned long long *)counts
} // namespace vgc_sparse
