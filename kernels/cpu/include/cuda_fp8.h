/* Formats of 8 bits: e4m3 (finite, and not-a-number), e5m2 (as IEEE 754's), e8m0 (powers of two). */
#pragma once
#include "vgc_tiny.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
typedef enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;

#define __VGC_CONVERSION(name, type, expression)                                                                                       \
    __VGC_HD__ __nv_fp8_storage_t __nv_cvt_##name##_to_fp8(type x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {       \
        return kind == __NV_E4M3 ? __vgc_encode<__vgc_e4m3>(expression, saturate == __NV_SATFINITE)                                    \
                                 : __vgc_encode<__vgc_e5m2>(expression, saturate == __NV_SATFINITE);                                   \
    }
__VGC_CONVERSION(float, float, x) __VGC_CONVERSION(double, double, x)
__VGC_CONVERSION(halfraw, __half_raw, __vgc_binary16::widen(x.x)) __VGC_CONVERSION(bfloat16raw, __nv_bfloat16_raw, __vgc_bfloat16::widen(x.x))
#undef __VGC_CONVERSION
#define __VGC_CONVERSION(name, single, type, raw)                                                                                      \
    __VGC_HD__ __nv_fp8x2_storage_t __nv_cvt_##name##_to_fp8x2(type x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {   \
        return (__nv_fp8x2_storage_t)(__nv_cvt_##single##_to_fp8(raw{x.x}, saturate, kind) |                                           \
                                      __nv_cvt_##single##_to_fp8(raw{x.y}, saturate, kind) << 8);                                      \
    }
__VGC_CONVERSION(float2, float, float2, float) __VGC_CONVERSION(double2, double, double2, double)
__VGC_CONVERSION(halfraw2, halfraw, __half2_raw, __half_raw) __VGC_CONVERSION(bfloat16raw2, bfloat16raw, __nv_bfloat162_raw, __nv_bfloat16_raw)
#undef __VGC_CONVERSION
__VGC_HD__ __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
    return kind == __NV_E4M3 ? __vgc_decode<__vgc_e4m3>(x) : __vgc_decode<__vgc_e5m2>(x);
}
__VGC_HD__ __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind) {
    return {__nv_cvt_fp8_to_halfraw((unsigned char)x, kind).x, __nv_cvt_fp8_to_halfraw((unsigned char)(x >> 8), kind).x};
}

__VGC_TINY(__nv_fp8_e4m3, __vgc_e4m3, __nv_fp8_storage_t)
__VGC_TINY(__nv_fp8_e5m2, __vgc_e5m2, __nv_fp8_storage_t)
__VGC_TINY_2(__nv_fp8x2_e4m3, __vgc_e4m3, __nv_fp8x2_storage_t, 8)
__VGC_TINY_2(__nv_fp8x2_e5m2, __vgc_e5m2, __nv_fp8x2_storage_t, 8)
__VGC_TINY_4(__nv_fp8x4_e4m3, __vgc_e4m3, __nv_fp8x4_storage_t, 8)
__VGC_TINY_4(__nv_fp8x4_e5m2, __vgc_e5m2, __nv_fp8x4_storage_t, 8)

/* ---- e8m0: 2^(x - 127), 255 is not a number. The sign is left out; rounded up or down, as `mode` says ---- */

__VGC_HD__ __nv_fp8_storage_t __nv_cvt_float_to_e8m0(float x, __nv_saturation_t saturate, cudaRoundMode mode) {
    const unsigned bits = __builtin_bit_cast(unsigned, x) & 0x7fffffff;
    const unsigned up = (bits & 0x7fffff) != 0 && mode == cudaRoundPosInf ? 1 : 0;
    const unsigned denormal = bits > 0x400000 ? up : 0; /* 2^-127 is the least number */
    const unsigned power = bits >> 23 == 0 ? denormal : (bits >> 23) + up;
    const bool above = power >= 255;
    return (__nv_fp8_storage_t)(x != x ? 255 : above && saturate == __NV_SATFINITE ? 254 : above ? 255 : power);
}
__VGC_HD__ __nv_fp8_storage_t __nv_cvt_double_to_e8m0(double x, __nv_saturation_t saturate, cudaRoundMode mode) {
    return __nv_cvt_float_to_e8m0(__vgc_odd(x), saturate, mode);
}
__VGC_HD__ __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_e8m0(__nv_bfloat16_raw x, __nv_saturation_t saturate, cudaRoundMode mode) {
    return __nv_cvt_float_to_e8m0(__vgc_bfloat16::widen(x.x), saturate, mode);
}
__VGC_HD__ __nv_fp8x2_storage_t __nv_cvt_float2_to_e8m0x2(float2 x, __nv_saturation_t saturate, cudaRoundMode mode) {
    return (__nv_fp8x2_storage_t)(__nv_cvt_float_to_e8m0(x.x, saturate, mode) | __nv_cvt_float_to_e8m0(x.y, saturate, mode) << 8);
}
__VGC_HD__ __nv_bfloat16_raw __nv_cvt_e8m0_to_bf16raw(__nv_fp8_storage_t x) {
    return {(unsigned short)(x == 0 ? 0x40 : x == 255 ? 0x7fff : x << 7)};
}
__VGC_HD__ __nv_bfloat162_raw __nv_cvt_e8m0x2_to_bf162raw(__nv_fp8x2_storage_t x) {
    return {__nv_cvt_e8m0_to_bf16raw((unsigned char)x).x, __nv_cvt_e8m0_to_bf16raw((unsigned char)(x >> 8)).x};
}
