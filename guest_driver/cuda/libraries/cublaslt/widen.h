/* Matrices of 8-bit floating point in half precision, which has all of their numbers. */
#pragma once
#include "descriptors.h"

namespace lt
{

struct wide {
    void *numbers = nullptr; /* of the stream's memory; the caller frees them */
    layout of{};
};
static inline bool is_eight_bits(uint32_t type)
{
    return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}
cublasStatus_t to_half(const void *from, const layout &of, cudaStream_t stream, wide &to);

} // namespace lt
