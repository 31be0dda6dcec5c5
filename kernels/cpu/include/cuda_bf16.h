/* __nv_bfloat16 and __nv_bfloat162: the upper half of a float. */
#pragma once
#include "cuda_fp16.h"

#ifndef __cplusplus /* C knows how they are stored */
typedef struct {
    unsigned short x;
} __nv_bfloat16_raw;
typedef struct {
    unsigned short x;
    unsigned short y;
} __nv_bfloat162_raw;
typedef __nv_bfloat16_raw __nv_bfloat16;
typedef __nv_bfloat162_raw __nv_bfloat162;
#else
#define __VGC_T __nv_bfloat16
#define __VGC_T2 __nv_bfloat162
#define __VGC_RAW __nv_bfloat16_raw
#define __VGC_RAW2 __nv_bfloat162_raw
#define __VGC_FORMAT __vgc_bfloat16
#define __VGC_OTHER __half
#define __VGC_NAME(before, after) before##bfloat16##after
#include "vgc_narrow_functions.h"
#undef __VGC_T
#undef __VGC_T2
#undef __VGC_RAW
#undef __VGC_RAW2
#undef __VGC_FORMAT
#undef __VGC_OTHER
#undef __VGC_NAME

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

__host__ __device__ __forceinline__ __half::__half(__nv_bfloat16 x) : __half((float)x) {}
__host__ __device__ __forceinline__ __nv_bfloat16::__nv_bfloat16(__half x) : __nv_bfloat16((float)x) {}
__VGC_HD__ __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return __nv_bfloat162(x, x); }
__VGC_HD__ __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return __nv_bfloat162(x, y); }

#define CUDART_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7f80)
#define CUDART_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7fff)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16((unsigned short)0x0001)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7f7f)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x8000)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000)
#define CUDART_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3f80)
#endif
