// CUDA's words for a C++ compiler: it compiles a kernel's body as a function of one thread, as a baseline of compile
// time.
#pragma once

#include <algorithm>
#include <cmath>

#define __global__
#define __shared__ static
#define __launch_bounds__(threads)

using std::max;
using std::min;

struct dim3 {
    unsigned x, y, z;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
extern const dim3 threadIdx, blockIdx, blockDim, gridDim;

void __syncthreads();
template <class T> T atomicAdd(T *address, T value)
{
    return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}
