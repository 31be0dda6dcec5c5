/* Rounding to 16-bit formats, in all directions. */
#pragma once
#include "cuda_runtime.h"
#include "vgc_rounding.h"

enum cudaRoundMode { cudaRoundNearest, cudaRoundZero, cudaRoundPosInf, cudaRoundMinInf };

/* Formats: the bits of a float rounded to nearest, and the float of bits. Not every host compiler knows _Float16, nor does
 * every one that does have the functions that convert it. */
#if defined(__CUDACC__) && !defined(__VGC_HOST_HALF__)
#define __VGC_FLOAT16__
#endif
struct __vgc_binary16 {
#ifdef __VGC_FLOAT16__
    static __host__ __device__ __forceinline__ unsigned short narrow(float x) {
        return x == x ? __builtin_bit_cast(unsigned short, (_Float16)x) : (unsigned short)0x7fff;
    }
    static __host__ __device__ __forceinline__ float widen(unsigned short bits) {
        return (float)__builtin_bit_cast(_Float16, bits);
    }
#else
    static __host__ __device__ __forceinline__ unsigned short narrow(float x) {
        const unsigned bits = __builtin_bit_cast(unsigned, x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
        if (size > 0x7f800000)
            return 0x7fff;
        if (size >= 0x477ff000) /* 65520 and more become infinite */
            return (unsigned short)(sign | 0x7c00);
        if (size < 0x38800000) /* the last place of 0.5 is that of the subnormal numbers */
            return (unsigned short)(sign | (__builtin_bit_cast(unsigned, __builtin_bit_cast(float, size) + 0.5f) - 0x3f000000));
        return (unsigned short)(sign | (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13);
    }
    static __host__ __device__ __forceinline__ float widen(unsigned short bits) {
        const unsigned sign = (unsigned)(bits & 0x8000) << 16, size = bits & 0x7fff;
        const float number = __builtin_bit_cast(float, size << 13) * 0x1p112f;
        return __builtin_bit_cast(float, sign | (size >= 0x7c00 ? 0x7f800000 | size << 13 : __builtin_bit_cast(unsigned, number)));
    }
#endif
    /* A double holds the exact product, and the sum with it wherever its last bits count. */
    static __host__ __device__ __forceinline__ float fma(float a, float b, float c) {
#pragma clang fp contract(off)
        return __vgc_odd((double)a * (double)b + (double)c);
    }
    static constexpr unsigned short one = 0x3c00, infinity = 0x7c00;
};
struct __vgc_bfloat16 {
    static __host__ __device__ __forceinline__ unsigned short narrow(float x) {
        const unsigned bits = __builtin_bit_cast(unsigned, x);
        const unsigned rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        return (unsigned short)(x == x ? rounded : 0x7fff);
    }
    static __host__ __device__ __forceinline__ float widen(unsigned short bits) {
        return __builtin_bit_cast(float, (unsigned)bits << 16);
    }
    /* The product is exact; the error of the sum decides about its last bit. */
    static __host__ __device__ __forceinline__ float fma(float a, float b, float c) {
#pragma clang fp contract(off)
        const double product = (double)a * (double)b, sum = product + (double)c;
        return __vgc_odd(__vgc_odd(sum, __vgc_sum_error(product, (double)c, sum)));
    }
    static constexpr unsigned short one = 0x3f80, infinity = 0x7f80;
};

template <class Format, __vgc_rounding mode> __VGC_HD__ unsigned short __vgc_narrow(float x) {
    const unsigned short near = Format::narrow(x);
    const float back = Format::widen(near);
    const bool negative = near >> 15 != 0;
    const bool above = back > x, below = back < x;
    if (mode == __VGC_RZ)
        return (unsigned short)(near - (negative ? below : above));
    if (mode == __VGC_RD)
        return (unsigned short)(above ? (negative ? near + 1 : near - 1) : near);
    if (mode == __VGC_RU)
        return (unsigned short)(below ? (negative ? near - 1 : near + 1) : near);
    return near;
}
template <class Format, __vgc_rounding mode> __VGC_HD__ unsigned short __vgc_narrow(double x) {
    return __vgc_narrow<Format, mode>(__vgc_odd(x));
}
template <class Format, __vgc_rounding mode> __VGC_HD__ unsigned short __vgc_narrow(int x) {
    return __vgc_narrow<Format, mode>((double)x);
}
template <class Format, __vgc_rounding mode> __VGC_HD__ unsigned short __vgc_narrow(unsigned x) {
    return __vgc_narrow<Format, mode>((double)x);
}
template <class Format, __vgc_rounding mode> __VGC_HD__ unsigned short __vgc_narrow(long long x) {
    return __vgc_narrow<Format, mode>(__vgc_odd(x));
}
template <class Format, __vgc_rounding mode> __VGC_HD__ unsigned short __vgc_narrow(unsigned long long x) {
    return __vgc_narrow<Format, mode>(__vgc_odd(x));
}

template <__vgc_rounding mode> __VGC_HD__ float __vgc_integral(float x) {
    return mode == __VGC_RN   ? __builtin_rintf(x)
           : mode == __VGC_RD ? __builtin_floorf(x)
           : mode == __VGC_RU ? __builtin_ceilf(x)
                              : __builtin_truncf(x);
}
/* Out of range becomes the nearest value. Not-a-number becomes 0, or the highest bit alone where `To` has 64 bits. */
template <class To, __vgc_rounding mode> __VGC_HD__ To __vgc_to_integer(float x) {
    const To value = (To)__vgc_integral<mode>(x);
    return sizeof(To) == 8 && x != x ? (To)(1ull << 63) : value;
}

/* Arithmetic of a format. */
template <class Format> struct __vgc_arithmetic {
    typedef unsigned short bits;
#define __VGC_OPERATION(name, op)                                                                                                      \
    static __host__ __device__ __forceinline__ bits name(bits a, bits b) {                                                             \
        _Pragma("clang fp contract(off)") return Format::narrow(Format::widen(a) op Format::widen(b));                                 \
    }
    __VGC_OPERATION(add, +) __VGC_OPERATION(sub, -) __VGC_OPERATION(mul, *) __VGC_OPERATION(div, /)
#undef __VGC_OPERATION
    static __host__ __device__ __forceinline__ bits fma(bits a, bits b, bits c) {
        return Format::narrow(Format::fma(Format::widen(a), Format::widen(b), Format::widen(c)));
    }
    static __host__ __device__ __forceinline__ bool nan(bits a) { return (a & 0x7fff) > Format::infinity; }
    /* Between 0 and 1, not-a-number as 0. */
    static __host__ __device__ __forceinline__ bits saturate(bits a) {
        return nan(a) || a >> 15 != 0 ? (bits)0 : a > Format::one ? Format::one : a;
    }
    static __host__ __device__ __forceinline__ bits relu(bits a) { return nan(a) ? (bits)0x7fff : a >> 15 != 0 ? (bits)0 : a; }
    /* -0 is less than +0. */
    static __host__ __device__ __forceinline__ bits lesser(bits a, bits b) {
        const float x = Format::widen(a), y = Format::widen(b);
        return x < y ? a : y < x ? b : (bits)(a | b);
    }
    static __host__ __device__ __forceinline__ bits greater(bits a, bits b) {
        const float x = Format::widen(a), y = Format::widen(b);
        return x > y ? a : y > x ? b : (bits)(a & b);
    }
    static __host__ __device__ __forceinline__ bits min(bits a, bits b) {
        return nan(a) ? (nan(b) ? (bits)0x7fff : b) : nan(b) ? a : lesser(a, b);
    }
    static __host__ __device__ __forceinline__ bits max(bits a, bits b) {
        return nan(a) ? (nan(b) ? (bits)0x7fff : b) : nan(b) ? a : greater(a, b);
    }
    static __host__ __device__ __forceinline__ bits min_nan(bits a, bits b) { return nan(a) || nan(b) ? (bits)0x7fff : lesser(a, b); }
    static __host__ __device__ __forceinline__ bits max_nan(bits a, bits b) { return nan(a) || nan(b) ? (bits)0x7fff : greater(a, b); }
};

struct __half;
struct __nv_bfloat16;
