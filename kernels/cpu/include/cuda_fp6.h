/* Formats of 6 bits, e2m3 and e3m2: all of their numbers are finite. Not-a-number becomes the greatest number. */
#pragma once
#include "vgc_tiny.h"

typedef unsigned char __nv_fp6_storage_t;
typedef unsigned short __nv_fp6x2_storage_t;
typedef unsigned int __nv_fp6x4_storage_t;
typedef enum __nv_fp6_interpretation_t { __NV_E2M3, __NV_E3M2 } __nv_fp6_interpretation_t;

#define __VGC_CONVERSION(name, type, expression)                                                                                       \
    __VGC_HD__ __nv_fp6_storage_t __nv_cvt_##name##_to_fp6(type x, __nv_fp6_interpretation_t kind, cudaRoundMode) {                    \
        return kind == __NV_E2M3 ? __vgc_encode<__vgc_e2m3>(expression, true) : __vgc_encode<__vgc_e3m2>(expression, true);            \
    }
__VGC_CONVERSION(float, float, x) __VGC_CONVERSION(double, double, x)
__VGC_CONVERSION(halfraw, __half_raw, __vgc_binary16::widen(x.x)) __VGC_CONVERSION(bfloat16raw, __nv_bfloat16_raw, __vgc_bfloat16::widen(x.x))
#undef __VGC_CONVERSION
#define __VGC_CONVERSION(name, single, type, raw)                                                                                      \
    __VGC_HD__ __nv_fp6x2_storage_t __nv_cvt_##name##_to_fp6x2(type x, __nv_fp6_interpretation_t kind, cudaRoundMode mode) {           \
        return (__nv_fp6x2_storage_t)(__nv_cvt_##single##_to_fp6(raw{x.x}, kind, mode) |                                               \
                                      __nv_cvt_##single##_to_fp6(raw{x.y}, kind, mode) << 8);                                          \
    }
__VGC_CONVERSION(float2, float, float2, float) __VGC_CONVERSION(double2, double, double2, double)
__VGC_CONVERSION(halfraw2, halfraw, __half2_raw, __half_raw) __VGC_CONVERSION(bfloat16raw2, bfloat16raw, __nv_bfloat162_raw, __nv_bfloat16_raw)
#undef __VGC_CONVERSION
__VGC_HD__ __half_raw __nv_cvt_fp6_to_halfraw(__nv_fp6_storage_t x, __nv_fp6_interpretation_t kind) {
    return kind == __NV_E2M3 ? __vgc_decode<__vgc_e2m3>(x) : __vgc_decode<__vgc_e3m2>(x);
}
__VGC_HD__ __half2_raw __nv_cvt_fp6x2_to_halfraw2(__nv_fp6x2_storage_t x, __nv_fp6_interpretation_t kind) {
    return {__nv_cvt_fp6_to_halfraw((unsigned char)x, kind).x, __nv_cvt_fp6_to_halfraw((unsigned char)(x >> 8), kind).x};
}

__VGC_TINY(__nv_fp6_e2m3, __vgc_e2m3, __nv_fp6_storage_t)
__VGC_TINY(__nv_fp6_e3m2, __vgc_e3m2, __nv_fp6_storage_t)
__VGC_TINY_2(__nv_fp6x2_e2m3, __vgc_e2m3, __nv_fp6x2_storage_t, 8)
__VGC_TINY_2(__nv_fp6x2_e3m2, __vgc_e3m2, __nv_fp6x2_storage_t, 8)
__VGC_TINY_4(__nv_fp6x4_e2m3, __vgc_e2m3, __nv_fp6x4_storage_t, 8)
__VGC_TINY_4(__nv_fp6x4_e3m2, __vgc_e3m2, __nv_fp6x4_storage_t, 8)
