/* half and half2: IEEE 754 binary16, computed in hardware where the CPU has it, otherwise through float. */
#pragma once
#include "cuda_runtime.h"

struct __align__(2) __half {
    _Float16 bits;
    __half() = default;
    __device__ __forceinline__ __half(_Float16 x) : bits(x) {}
    __device__ __forceinline__ __half(float x) : bits((_Float16)x) {}
    __device__ __forceinline__ __half(double x) : bits((_Float16)x) {}
    __device__ __forceinline__ __half(int x) : bits((_Float16)x) {}
    __device__ __forceinline__ __half(unsigned x) : bits((_Float16)x) {}
    __device__ __forceinline__ __half(long long x) : bits((_Float16)x) {}
    __device__ __forceinline__ __half(unsigned long long x) : bits((_Float16)x) {}
    __device__ __forceinline__ operator float() const { return (float)bits; }
};
typedef __half half;
struct __align__(4) __half2 {
    __half x, y;
    __half2() = default;
    __device__ __forceinline__ __half2(__half a, __half b) : x(a), y(b) {}
};
typedef __half2 half2;
struct __half_raw { unsigned short x; };

#define __VGC_HALF_OPERATOR(op)                                                                                                        \
    __VGC_FN__ __half operator op(__half a, __half b) { return __half((_Float16)(a.bits op b.bits)); }                                 \
    __VGC_FN__ __half &operator op##=(__half & a, __half b) { return a = a op b; }                                                     \
    __VGC_FN__ __half2 operator op(__half2 a, __half2 b) { return __half2(a.x op b.x, a.y op b.y); }                                   \
    __VGC_FN__ __half2 &operator op##=(__half2 & a, __half2 b) { return a = a op b; }
__VGC_HALF_OPERATOR(+) __VGC_HALF_OPERATOR(-) __VGC_HALF_OPERATOR(*) __VGC_HALF_OPERATOR(/)
#undef __VGC_HALF_OPERATOR
__VGC_FN__ __half operator-(__half a) { return __half((_Float16)-a.bits); }
__VGC_FN__ __half2 operator-(__half2 a) { return __half2(-a.x, -a.y); }

#define __VGC_HALF_COMPARE(op, name)                                                                                                   \
    __VGC_FN__ bool operator op(__half a, __half b) { return a.bits op b.bits; }                                                       \
    __VGC_FN__ bool name(__half a, __half b) { return a.bits op b.bits; }                                                              \
    __VGC_FN__ __half2 name##2(__half2 a, __half2 b) { return __half2(__half((float)(a.x op b.x)), __half((float)(a.y op b.y))); }
__VGC_HALF_COMPARE(==, __heq) __VGC_HALF_COMPARE(!=, __hne) __VGC_HALF_COMPARE(<, __hlt) __VGC_HALF_COMPARE(<=, __hle)
__VGC_HALF_COMPARE(>, __hgt) __VGC_HALF_COMPARE(>=, __hge)
#undef __VGC_HALF_COMPARE

#define __VGC_HALF_2(name, expression)                                                                                                 \
    __VGC_FN__ __half name(__half a, __half b) { return expression; }                                                                  \
    __VGC_FN__ __half2 name##2(__half2 p, __half2 q) { return __half2(name(p.x, q.x), name(p.y, q.y)); }
__VGC_HALF_2(__hadd, a + b) __VGC_HALF_2(__hsub, a - b) __VGC_HALF_2(__hmul, a * b)
__VGC_HALF_2(__hmin, __half(fminf((float)a, (float)b))) __VGC_HALF_2(__hmax, __half(fmaxf((float)a, (float)b)))
#undef __VGC_HALF_2
__VGC_FN__ __half __hdiv(__half a, __half b) { return a / b; }
__VGC_FN__ __half2 __h2div(__half2 a, __half2 b) { return a / b; }
__VGC_FN__ __half __hneg(__half a) { return -a; }
__VGC_FN__ __half2 __hneg2(__half2 a) { return -a; }
__VGC_FN__ __half __habs(__half a) { return __half(fabsf((float)a)); }
__VGC_FN__ __half2 __habs2(__half2 a) { return __half2(__habs(a.x), __habs(a.y)); }
/* One rounding: a float holds the exact product, a double the exact sum. */
__VGC_FN__ __half __hfma(__half a, __half b, __half c) { return __half((_Float16)((double)((float)a * (float)b) + (double)(float)c)); }
__VGC_FN__ __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return __half2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }
__VGC_FN__ bool __hisnan(__half a) { return a.bits != a.bits; }
__VGC_FN__ int __hisinf(__half a) { return __builtin_isinf((float)a) ? ((float)a > 0 ? 1 : -1) : 0; }

#define __VGC_HALF_MATH(name, function)                                                                                                \
    __VGC_FN__ __half h##name(__half a) { return __half(function((float)a)); }                                                         \
    __VGC_FN__ __half2 h2##name(__half2 a) { return __half2(h##name(a.x), h##name(a.y)); }
__VGC_HALF_MATH(sqrt, sqrtf) __VGC_HALF_MATH(rsqrt, rsqrtf) __VGC_HALF_MATH(exp, expf) __VGC_HALF_MATH(exp2, exp2f)
__VGC_HALF_MATH(exp10, exp10f) __VGC_HALF_MATH(log, logf) __VGC_HALF_MATH(log2, log2f) __VGC_HALF_MATH(log10, log10f)
__VGC_HALF_MATH(sin, sinf) __VGC_HALF_MATH(cos, cosf) __VGC_HALF_MATH(floor, floorf) __VGC_HALF_MATH(ceil, ceilf)
__VGC_HALF_MATH(trunc, truncf) __VGC_HALF_MATH(rint, rintf) __VGC_HALF_MATH(rcp, 1.0f /)
#undef __VGC_HALF_MATH

__VGC_FN__ __half __float2half(float x) { return __half(x); }
__VGC_FN__ __half __float2half_rn(float x) { return __half(x); }
__VGC_FN__ __half __double2half(double x) { return __half(x); }
__VGC_FN__ float __half2float(__half x) { return (float)x; }
__VGC_FN__ __half2 __float2half2_rn(float x) { return __half2(__half(x), __half(x)); }
__VGC_FN__ __half2 __floats2half2_rn(float x, float y) { return __half2(__half(x), __half(y)); }
__VGC_FN__ __half2 __float22half2_rn(float2 x) { return __half2(__half(x.x), __half(x.y)); }
__VGC_FN__ float2 __half22float2(__half2 x) { return make_float2((float)x.x, (float)x.y); }
__VGC_FN__ __half2 __half2half2(__half x) { return __half2(x, x); }
__VGC_FN__ __half2 __halves2half2(__half x, __half y) { return __half2(x, y); }
__VGC_FN__ __half2 make_half2(__half x, __half y) { return __half2(x, y); }
__VGC_FN__ __half __low2half(__half2 x) { return x.x; }
__VGC_FN__ __half __high2half(__half2 x) { return x.y; }
__VGC_FN__ float __low2float(__half2 x) { return (float)x.x; }
__VGC_FN__ float __high2float(__half2 x) { return (float)x.y; }
__VGC_FN__ __half2 __lowhigh2highlow(__half2 x) { return __half2(x.y, x.x); }
__VGC_FN__ __half __int2half_rn(int x) { return __half(x); }
__VGC_FN__ int __half2int_rn(__half x) { return __float2int_rn((float)x); }
__VGC_FN__ int __half2int_rz(__half x) { return __float2int_rz((float)x); }
__VGC_FN__ unsigned short __half_as_ushort(__half x) { return __builtin_bit_cast(unsigned short, x.bits); }
__VGC_FN__ short __half_as_short(__half x) { return __builtin_bit_cast(short, x.bits); }
__VGC_FN__ __half __ushort_as_half(unsigned short x) { return __half(__builtin_bit_cast(_Float16, x)); }
__VGC_FN__ __half __short_as_half(short x) { return __half(__builtin_bit_cast(_Float16, x)); }

__VGC_FN__ __half atomicAdd(__half *address, __half value) {
    unsigned short *cell = (unsigned short *)address;
    unsigned short old = *cell, seen;
    do {
        seen = old;
        old = atomicCAS(cell, seen, __half_as_ushort(__ushort_as_half(seen) + value));
    } while (old != seen);
    return __ushort_as_half(old);
}
__VGC_FN__ __half2 atomicAdd(__half2 *address, __half2 value) {
    return __half2(atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y));
}
