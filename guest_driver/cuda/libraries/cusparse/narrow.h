// Numbers of 16 bits, which kernels compute with as floats.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "numbers.h"

namespace vgc_sparse
{
template <> struct Widening<float, __half> {
    SPARSE_BOTH float of(__half value)
    {
        return __half2float(value);
    }
};
template <> struct Widening<__half, float> {
    SPARSE_BOTH __half of(float value)
    {
        return __float2half(value);
    }
};
template <> struct Widening<float, __nv_bfloat16> {
    SPARSE_BOTH float of(__nv_bfloat16 value)
    {
        return __bfloat162float(value);
    }
};
template <> struct Widening<__nv_bfloat16, float> {
    SPARSE_BOTH __nv_bfloat16 of(float value)
    {
        return __float2bfloat16(value);
    }
};
} // namespace vgc_sparse
