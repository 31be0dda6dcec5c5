/* Formats of 4, 6 and 8 bits. */
#pragma once
#include "cuda_bf16.h"

/* `mantissa` bits below the exponent, `bias` of the exponent, `largest` finite number, `nan`, `overflow` without saturation,
 * `bits` of a number; numbers without sign where not said otherwise. */
template <int mantissa_, int bias_, unsigned largest_, unsigned nan_, unsigned overflow_, int bits_> struct __vgc_tiny {
    static constexpr int mantissa = mantissa_, bias = bias_, bits = bits_;
    static constexpr unsigned largest = largest_, nan = nan_, overflow = overflow_, sign = 1u << (bits_ - 1);
};
typedef __vgc_tiny<3, 7, 0x7e, 0x7f, 0x7f, 8> __vgc_e4m3;
typedef __vgc_tiny<2, 15, 0x7b, 0x7f, 0x7c, 8> __vgc_e5m2;
typedef __vgc_tiny<3, 1, 0x1f, 0x1f, 0x1f, 6> __vgc_e2m3;
typedef __vgc_tiny<2, 3, 0x1f, 0x1f, 0x1f, 6> __vgc_e3m2;
typedef __vgc_tiny<1, 1, 0x7, 0x7, 0x7, 4> __vgc_e2m1;

/* Rounded to nearest. */
template <class Format> __VGC_HD__ unsigned char __vgc_encode(float x, bool saturate) {
    const unsigned all = __builtin_bit_cast(unsigned, x), magnitude = all & 0x7fffffff;
    const int shift = 23 - Format::mantissa;
    const unsigned near = (magnitude + (1u << (shift - 1)) - 1 + (magnitude >> shift & 1)) >> shift;
    const unsigned normal = near - ((127 - Format::bias) << Format::mantissa);
    /* In this sum, the last bit of a float is the step of the format's denormals. */
    const unsigned magic = (127u + 24 - Format::bias - Format::mantissa) << 23;
    const float sum = __builtin_bit_cast(float, magnitude) + __builtin_bit_cast(float, magic);
    const unsigned denormal = __builtin_bit_cast(unsigned, sum) - magic;
    const bool small = magnitude < (unsigned)(128 - Format::bias) << 23;
    unsigned result = small ? denormal : normal;
    result = !small && (int)normal > (int)Format::largest ? (saturate ? Format::largest : Format::overflow) : result;
    result |= all >> 31 != 0 ? Format::sign : 0;
    return (unsigned char)(x == x ? result : Format::nan);
}
template <class Format> __VGC_HD__ unsigned char __vgc_encode(double x, bool saturate) {
    return __vgc_encode<Format>(__vgc_odd(x), saturate);
}
template <class Format> __VGC_HD__ float __vgc_decode_float(unsigned char x) {
    const unsigned magnitude = x & (Format::sign - 1);
    /* As a half with the same mantissa, which is exact, then with its own bias. */
    const unsigned short half = (unsigned short)(magnitude << (10 - Format::mantissa) | ((x & Format::sign) != 0 ? 0x8000 : 0));
    const bool special = Format::bits == 8 && magnitude > Format::largest;
    const bool infinite = magnitude == Format::overflow && Format::overflow != Format::nan;
    const unsigned short bits = special ? (unsigned short)(infinite ? 0x7c00 | (half & 0x8000) : 0x7fff) : half;
    return __vgc_binary16::widen(bits) * (float)(1 << (15 - Format::bias));
}
template <class Format> __VGC_HD__ __half_raw __vgc_decode(unsigned char x) {
    return {__vgc_binary16::narrow(__vgc_decode_float<Format>(x))};
}

/* A type of one number; types of 2 and 4 numbers in a word, `step` bits each, the first in the lowest. */
#define __VGC_TINY(name, Format, storage)                                                                                             \
    struct name {                                                                                                                      \
        storage __x;                                                                                                                   \
        name() = default;                                                                                                              \
        __host__ __device__ __forceinline__ explicit name(float x) : __x(__vgc_encode<Format>(x, true)) {}                             \
        __host__ __device__ __forceinline__ explicit name(double x) : __x(__vgc_encode<Format>(x, true)) {}                            \
        __host__ __device__ __forceinline__ explicit name(__half x) : name((float)x) {}                                                \
        __host__ __device__ __forceinline__ explicit name(__nv_bfloat16 x) : name((float)x) {}                                         \
        __host__ __device__ __forceinline__ explicit name(short x) : name((float)x) {}                                                 \
        __host__ __device__ __forceinline__ explicit name(unsigned short x) : name((float)x) {}                                        \
        __host__ __device__ __forceinline__ explicit name(int x) : name((double)x) {}                                                  \
        __host__ __device__ __forceinline__ explicit name(unsigned x) : name((double)x) {}                                             \
        __host__ __device__ __forceinline__ explicit name(long x) : name(__vgc_odd((long long)x)) {}                                   \
        __host__ __device__ __forceinline__ explicit name(unsigned long x) : name(__vgc_odd((unsigned long long)x)) {}                 \
        __host__ __device__ __forceinline__ explicit name(long long x) : name(__vgc_odd(x)) {}                                         \
        __host__ __device__ __forceinline__ explicit name(unsigned long long x) : name(__vgc_odd(x)) {}                                \
        __host__ __device__ __forceinline__ explicit operator float() const { return __vgc_decode_float<Format>(__x); }                \
        __host__ __device__ __forceinline__ explicit operator double() const { return (float)*this; }                                  \
        __host__ __device__ __forceinline__ explicit operator __half() const { return __vgc_decode<Format>(__x); }                     \
        __host__ __device__ __forceinline__ explicit operator __nv_bfloat16() const { return (float)*this; }                           \
        __host__ __device__ __forceinline__ explicit operator bool() const { return (__x & (Format::sign - 1)) != 0; }                 \
        __VGC_TINY_TO(char) __VGC_TINY_TO(signed char) __VGC_TINY_TO(unsigned char) __VGC_TINY_TO(short)                               \
        __VGC_TINY_TO(unsigned short) __VGC_TINY_TO(int) __VGC_TINY_TO(unsigned) __VGC_TINY_TO(long)                                   \
        __VGC_TINY_TO(unsigned long) __VGC_TINY_TO(long long) __VGC_TINY_TO(unsigned long long)                                        \
    };
#define __VGC_TINY_TO(type)                                                                                                            \
    __host__ __device__ __forceinline__ explicit operator type() const { return __vgc_to_integer<type, __VGC_RZ>((float)*this); }
#define __VGC_TINY_2(name, Format, storage, step)                                                                                      \
    struct name {                                                                                                                      \
        storage __x;                                                                                                                   \
        name() = default;                                                                                                              \
        __host__ __device__ __forceinline__ explicit name(float2 x)                                                                    \
            : __x((storage)(__vgc_encode<Format>(x.x, true) | __vgc_encode<Format>(x.y, true) << step)) {}                             \
        __host__ __device__ __forceinline__ explicit name(double2 x)                                                                   \
            : __x((storage)(__vgc_encode<Format>(x.x, true) | __vgc_encode<Format>(x.y, true) << step)) {}                             \
        __host__ __device__ __forceinline__ explicit name(__half2 x) : name(__half22float2(x)) {}                                      \
        __host__ __device__ __forceinline__ explicit name(__nv_bfloat162 x) : name(__bfloat1622float2(x)) {}                           \
        __host__ __device__ __forceinline__ explicit operator float2() const {                                                         \
            return {__vgc_decode_float<Format>((unsigned char)__x), __vgc_decode_float<Format>((unsigned char)(__x >> step))};         \
        }                                                                                                                              \
        __host__ __device__ __forceinline__ explicit operator __half2() const { return __float22half2_rn((float2) * this); }           \
    };
#define __VGC_TINY_4(name, Format, storage, step)                                                                                      \
    struct name {                                                                                                                      \
        storage __x;                                                                                                                   \
        name() = default;                                                                                                              \
        __host__ __device__ __forceinline__ explicit name(float4 x)                                                                    \
            : __x((storage)(__vgc_encode<Format>(x.x, true) | __vgc_encode<Format>(x.y, true) << step |                                \
                            __vgc_encode<Format>(x.z, true) << 2 * step | (unsigned)__vgc_encode<Format>(x.w, true) << 3 * step)) {}   \
        __host__ __device__ __forceinline__ explicit name(double4 x)                                                                   \
            : name(float4{__vgc_odd(x.x), __vgc_odd(x.y), __vgc_odd(x.z), __vgc_odd(x.w)}) {}                                          \
        __host__ __device__ __forceinline__ explicit name(__half2 low, __half2 high)                                                   \
            : name(float4{(float)low.x, (float)low.y, (float)high.x, (float)high.y}) {}                                                \
        __host__ __device__ __forceinline__ explicit name(__nv_bfloat162 low, __nv_bfloat162 high)                                     \
            : name(float4{(float)low.x, (float)low.y, (float)high.x, (float)high.y}) {}                                                \
        __host__ __device__ __forceinline__ explicit operator float4() const {                                                         \
            return {__vgc_decode_float<Format>((unsigned char)__x), __vgc_decode_float<Format>((unsigned char)(__x >> step)),          \
                    __vgc_decode_float<Format>((unsigned char)(__x >> 2 * step)),                                                      \
                    __vgc_decode_float<Format>((unsigned char)(__x >> 3 * step))};                                                     \
        }                                                                                                                              \
    };
