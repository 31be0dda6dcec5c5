/* half and half2: IEEE 754 binary16. */
#pragma once

#ifndef __cplusplus /* C knows how they are stored */
typedef struct {
    unsigned short x;
} __half_raw;
typedef struct {
    unsigned short x;
    unsigned short y;
} __half2_raw;
typedef __half_raw __half;
typedef __half2_raw __half2;
#else
#include "vgc_narrow.h"

#define __VGC_T __half
#define __VGC_T2 __half2
#define __VGC_RAW __half_raw
#define __VGC_RAW2 __half2_raw
#define __VGC_FORMAT __vgc_binary16
#define __VGC_OTHER __nv_bfloat16
#define __VGC_NAME(before, after) before##half##after
#include "vgc_narrow_functions.h"
#undef __VGC_T
#undef __VGC_T2
#undef __VGC_RAW
#undef __VGC_RAW2
#undef __VGC_FORMAT
#undef __VGC_OTHER
#undef __VGC_NAME

typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;
typedef __half_raw __nv_half_raw;
typedef __half2_raw __nv_half2_raw;
typedef __half nv_half;
typedef __half2 nv_half2;

__VGC_HD__ __half2 __half2half2(__half x) { return __half2(x, x); }
__VGC_HD__ __half2 __halves2half2(__half x, __half y) { return __half2(x, y); }

#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7c00)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7fff)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half((unsigned short)0x0001)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7bff)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half((unsigned short)0x8000)
#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0x0000)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3c00)
#endif
