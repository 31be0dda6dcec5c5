// What is launched for sampled products.
#pragma once
#include "structure.h"

namespace vgc_sparse
{
struct Sampled {
    Dense a, b;
    Sparse c;
    void *values; // of c
    long long inner, batches;
    int conjugates_a, conjugates_b;
    Scalar alpha, beta;
};
typedef cudaError_t SampledLaunch(const Sampled &work, cudaStream_t stream);
SampledLaunch sampled_s, sampled_d, sampled_c, sampled_z, sampled_half, sampled_half_float, sampled_bfloat,
    sampled_bfloat_float;
} // namespace vgc_sparse
