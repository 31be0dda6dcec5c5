/* The format of 4 bits, e2m1: all of its numbers are finite. Not-a-number becomes the greatest number. */
#pragma once
#include "vgc_tiny.h"

typedef unsigned char __nv_fp4_storage_t;
typedef unsigned char __nv_fp4x2_storage_t;
typedef unsigned short __nv_fp4x4_storage_t;
typedef enum __nv_fp4_interpretation_t { __NV_E2M1 } __nv_fp4_interpretation_t;

#define __VGC_CONVERSION(name, type, expression)                                                                                       \
    __VGC_HD__ __nv_fp4_storage_t __nv_cvt_##name##_to_fp4(type x, __nv_fp4_interpretation_t, cudaRoundMode) {                         \
        return __vgc_encode<__vgc_e2m1>(expression, true);                                                                             \
    }
__VGC_CONVERSION(float, float, x) __VGC_CONVERSION(double, double, x)
__VGC_CONVERSION(halfraw, __half_raw, __vgc_binary16::widen(x.x)) __VGC_CONVERSION(bfloat16raw, __nv_bfloat16_raw, __vgc_bfloat16::widen(x.x))
#undef __VGC_CONVERSION
#define __VGC_CONVERSION(name, single, type, raw)                                                                                      \
    __VGC_HD__ __nv_fp4x2_storage_t __nv_cvt_##name##_to_fp4x2(type x, __nv_fp4_interpretation_t kind, cudaRoundMode mode) {           \
        return (__nv_fp4x2_storage_t)(__nv_cvt_##single##_to_fp4(raw{x.x}, kind, mode) |                                               \
                                      __nv_cvt_##single##_to_fp4(raw{x.y}, kind, mode) << 4);                                          \
    }
__VGC_CONVERSION(float2, float, float2, float) __VGC_CONVERSION(double2, double, double2, double)
__VGC_CONVERSION(halfraw2, halfraw, __half2_raw, __half_raw) __VGC_CONVERSION(bfloat16raw2, bfloat16raw, __nv_bfloat162_raw, __nv_bfloat16_raw)
#undef __VGC_CONVERSION
__VGC_HD__ __half_raw __nv_cvt_fp4_to_halfraw(__nv_fp4_storage_t x, __nv_fp4_interpretation_t) { return __vgc_decode<__vgc_e2m1>(x); }
__VGC_HD__ __half2_raw __nv_cvt_fp4x2_to_halfraw2(__nv_fp4x2_storage_t x, __nv_fp4_interpretation_t kind) {
    return {__nv_cvt_fp4_to_halfraw(x, kind).x, __nv_cvt_fp4_to_halfraw((unsigned char)(x >> 4), kind).x};
}

__VGC_TINY(__nv_fp4_e2m1, __vgc_e2m1, __nv_fp4_storage_t)
__VGC_TINY_2(__nv_fp4x2_e2m1, __vgc_e2m1, __nv_fp4x2_storage_t, 4)
__VGC_TINY_4(__nv_fp4x4_e2m1, __vgc_e2m1, __nv_fp4x4_storage_t, 4)
