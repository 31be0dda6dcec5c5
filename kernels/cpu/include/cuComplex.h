/* Complex numbers as pairs of floats or doubles. For C, too. */
#pragma once
#include "cuda_runtime.h"

#define __VGC_COMPLEX(pair, real, f, name, largest)                                                                                    \
    typedef pair name;                                                                                                                 \
    static __host__ __device__ __forceinline__ real cuCreal##f(name x) { return x.x; }                                                 \
    static __host__ __device__ __forceinline__ real cuCimag##f(name x) { return x.y; }                                                 \
    static __host__ __device__ __forceinline__ name make_##name(real x, real y) {                                                      \
        const name made = {x, y};                                                                                                      \
        return made;                                                                                                                   \
    }                                                                                                                                  \
    static __host__ __device__ __forceinline__ name cuConj##f(name x) { return make_##name(x.x, -x.y); }                               \
    static __host__ __device__ __forceinline__ name cuCadd##f(name x, name y) { return make_##name(x.x + y.x, x.y + y.y); }            \
    static __host__ __device__ __forceinline__ name cuCsub##f(name x, name y) { return make_##name(x.x - y.x, x.y - y.y); }            \
    static __host__ __device__ __forceinline__ name cuCmul##f(name x, name y) {                                                        \
        return make_##name(x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x);                                                              \
    }                                                                                                                                  \
    /* Scaled by the divisor, so that its square neither overflows nor underflows. */                                                  \
    static __host__ __device__ __forceinline__ name cuCdiv##f(name x, name y) {                                                        \
        const real scale = 1 / (__builtin_fabs##f(y.x) + __builtin_fabs##f(y.y));                                                      \
        const real a = x.x * scale, b = x.y * scale, c = y.x * scale, d = y.y * scale;                                                 \
        const real inverse = 1 / (c * c + d * d);                                                                                      \
        return make_##name((a * c + b * d) * inverse, (b * c - a * d) * inverse);                                                      \
    }                                                                                                                                  \
    static __host__ __device__ __forceinline__ real cuCabs##f(name x) {                                                                \
        const real a = __builtin_fabs##f(x.x), b = __builtin_fabs##f(x.y), high = a > b ? a : b, low = a > b ? b : a;                  \
        const real ratio = low / high, root = high * __builtin_sqrt##f(1 + ratio * ratio);                                             \
        return high == 0 || high > largest || low > largest ? a + b : root;                                                            \
    }                                                                                                                                  \
    static __host__ __device__ __forceinline__ name cuCfma##f(name x, name y, name z) {                                                \
        return make_##name(__builtin_fma##f(-x.y, y.y, __builtin_fma##f(x.x, y.x, z.x)),                                               \
                           __builtin_fma##f(x.y, y.x, __builtin_fma##f(x.x, y.y, z.y)));                                               \
    }
__VGC_COMPLEX(float2, float, f, cuFloatComplex, 3.402823466e38f)
__VGC_COMPLEX(double2, double, , cuDoubleComplex, 1.79769313486231570e+308)
#undef __VGC_COMPLEX

typedef cuFloatComplex cuComplex;
static __host__ __device__ __forceinline__ cuComplex make_cuComplex(float x, float y) { return make_cuFloatComplex(x, y); }
static __host__ __device__ __forceinline__ cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex x) { return make_cuDoubleComplex(x.x, x.y); }
static __host__ __device__ __forceinline__ cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex x) {
    return make_cuFloatComplex((float)x.x, (float)x.y);
}
