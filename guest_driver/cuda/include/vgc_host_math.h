/* Functions of math_functions.h that CUDA adds to the C library's for host code. vgc_libc.h declares them,
 * and cuda_runtime.h includes this. */
#pragma once

#define __VGC_HOST_MIN_MAX(result, a, b)                                                                                               \
    inline result min(a x, b y) { return static_cast<result>(x) < static_cast<result>(y) ? static_cast<result>(x) : static_cast<result>(y); } \
    inline result max(a x, b y) { return static_cast<result>(x) < static_cast<result>(y) ? static_cast<result>(y) : static_cast<result>(x); }
#define __VGC_HOST_MIXED(result, other)                                                                                                \
    __VGC_HOST_MIN_MAX(result, result, other)                                                                                          \
    __VGC_HOST_MIN_MAX(result, other, result)
__VGC_HOST_MIN_MAX(int, int, int) __VGC_HOST_MIN_MAX(unsigned, unsigned, unsigned) __VGC_HOST_MIN_MAX(long, long, long)
__VGC_HOST_MIN_MAX(unsigned long, unsigned long, unsigned long) __VGC_HOST_MIN_MAX(long long, long long, long long)
__VGC_HOST_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
__VGC_HOST_MIXED(unsigned, int) __VGC_HOST_MIXED(unsigned long, long) __VGC_HOST_MIXED(unsigned long long, long long)
#undef __VGC_HOST_MIN_MAX
#undef __VGC_HOST_MIXED
/* The number, of a number and a not-a-number, as with fminf(). */
inline float min(float x, float y) { return __builtin_fminf(x, y); }
inline float max(float x, float y) { return __builtin_fmaxf(x, y); }
inline double min(double x, double y) { return __builtin_fmin(x, y); }
inline double max(double x, double y) { return __builtin_fmax(x, y); }
inline double min(double x, float y) { return __builtin_fmin(x, y); }
inline double max(double x, float y) { return __builtin_fmax(x, y); }
inline double min(float x, double y) { return __builtin_fmin(x, y); }
inline double max(float x, double y) { return __builtin_fmax(x, y); }

/* The device's own functions, compiled for host code: the same results on both sides. */
#define __VGC_HOST_SPECIAL__
#pragma push_macro("__VGC_FN__")
#pragma push_macro("__device__")
#undef __VGC_FN__
#undef __device__
#define __VGC_FN__ static inline
#define __device__
namespace __vgc_host {
#include "vgc_special.h"
}
#pragma pop_macro("__device__")
#pragma pop_macro("__VGC_FN__")
#undef __VGC_HOST_SPECIAL__

#define __VGC_HOST_1(name)                                                                                                             \
    inline double name(double x) noexcept(true) { return __vgc_host::name(x); }                                                        \
    inline float name##f(float x) noexcept(true) { return __vgc_host::name##f(x); }                                                    \
    inline float name(float x) { return __vgc_host::name##f(x); }
__VGC_HOST_1(rsqrt) __VGC_HOST_1(rcbrt) __VGC_HOST_1(sinpi) __VGC_HOST_1(cospi) __VGC_HOST_1(normcdf) __VGC_HOST_1(normcdfinv)
__VGC_HOST_1(erfinv) __VGC_HOST_1(erfcinv) __VGC_HOST_1(erfcx) __VGC_HOST_1(cyl_bessel_i0) __VGC_HOST_1(cyl_bessel_i1)
#undef __VGC_HOST_1
inline double rhypot(double x, double y) noexcept(true) { return __vgc_host::rhypot(x, y); }
inline float rhypotf(float x, float y) noexcept(true) { return __vgc_host::rhypotf(x, y); }
inline double fdivide(double x, double y) noexcept(true) { return x / y; }
inline float fdividef(float x, float y) noexcept(true) { return x / y; }
inline void sincospi(double x, double *sine, double *cosine) { __vgc_host::sincospi(x, sine, cosine); }
inline void sincospif(float x, float *sine, float *cosine) { __vgc_host::sincospif(x, sine, cosine); }
inline double norm3d(double a, double b, double c) { return __vgc_host::norm3d(a, b, c); }
inline double rnorm3d(double a, double b, double c) { return __vgc_host::rnorm3d(a, b, c); }
inline double norm4d(double a, double b, double c, double d) { return __vgc_host::norm4d(a, b, c, d); }
inline double rnorm4d(double a, double b, double c, double d) { return __vgc_host::rnorm4d(a, b, c, d); }
inline float norm3df(float a, float b, float c) { return __vgc_host::norm3df(a, b, c); }
inline float rnorm3df(float a, float b, float c) { return __vgc_host::rnorm3df(a, b, c); }
inline float norm4df(float a, float b, float c, float d) { return __vgc_host::norm4df(a, b, c, d); }
inline float rnorm4df(float a, float b, float c, float d) { return __vgc_host::rnorm4df(a, b, c, d); }
