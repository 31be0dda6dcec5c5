// Elements of any size in kernels.
#pragma once
#include "work.h"

namespace vgc_sparse
{
typedef unsigned long long Key;

struct alignas(16) Wide {
    unsigned long long low, high;
};
static __device__ inline void copy_element(void *to, long long at, const void *from, long long from_at, int size)
{
    if (size == 4)
        ((unsigned *)to)[at] = ((const unsigned *)from)[from_at];
    else if (size == 8)
        ((unsigned long long *)to)[at] = ((const unsigned long long *)from)[from_at];
    else if (size == 16)
        ((Wide *)to)[at] = ((const Wide *)from)[from_at];
    else if (size == 2)
        ((unsigned short *)to)[at] = ((const unsigned short *)from)[from_at];
    else
        ((unsigned char *)to)[at] = ((const unsigned char *)from)[from_at];
}
static __device__ inline void clear_element(void *to, long long at, int size)
{
    const Wide zero = {0, 0};
    copy_element(to, at, &zero, 0, size);
}
// By its bits: -0 is zero, a NaN is not.
static __device__ inline bool is_nonzero(const void *data, long long at, int kind)
{
    switch (kind) {
    case BYTE:
        return ((const unsigned char *)data)[at];
    case HALVES:
        return ((const unsigned short *)data)[at] & 0x7fff;
    case SINGLES:
        return ((const unsigned *)data)[at] << 1;
    case DOUBLES:
        return ((const unsigned long long *)data)[at] << 1;
    case SINGLE_PAIRS:
        return ((const unsigned *)data)[2 * at] << 1 || ((const unsigned *)data)[2 * at + 1] << 1;
    default:
        return ((const unsigned long long *)data)[2 * at] << 1 || ((const unsigned long long *)data)[2 * at + 1] << 1;
    }
}
static __device__ inline long long thread_number()
{
    return (long long)blockIdx.x * blockDim.x + threadIdx.x;
}
static __device__ inline long long get(const Indices &indices, long long at)
{
    return index_at(indices.data, indices.wide, at) - indices.base;
}
static __device__ inline void put(const Indices &indices, long long at, long long value)
{
    put_index(indices.data, indices.wide, at, value + indices.base);
}
} // namespace vgc_sparse

// Launches KERNEL with a thread for each of COUNT, and ends the function.
#define SPARSE_LAUNCH(KERNEL, COUNT, STREAM, ...)                                                                      \
    do {                                                                                                               \
        if ((COUNT) > 0)                                                                                               \
            KERNEL<<<blocks_for(COUNT), 128, 0, STREAM>>>(__VA_ARGS__);                                                \
        return (COUNT) > 0 ? cudaGetLastError() : cudaSuccess;                                                         \
    } while (0)
