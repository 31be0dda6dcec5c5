/* Math functions. The C library's are compiler builtins (the runtime provides those not inlined). */
#pragma once
#include "vgc_integers.h"
#include "vgc_rounding.h"
#include "vgc_simd.h"

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VAL __builtin_huge_val()
#define HUGE_VALF __builtin_huge_valf()
#define M_E 2.71828182845904523536
#define M_LOG2E 1.44269504088896340736
#define M_LOG10E 0.434294481903251827651
#define M_LN2 0.693147180559945309417
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.785398163397448309616
#define M_1_PI 0.318309886183790671538
#define M_2_PI 0.636619772367581343076
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.707106781186547524401

/* ---- the C library's ---- */

#define __VGC_1(name)                                                                                                                  \
    __VGC_FN__ float name##f(float x) { return __builtin_##name##f(x); }                                                               \
    __VGC_FN__ double name(double x) { return __builtin_##name(x); }                                                                   \
    __VGC_FN__ float name(float x) { return __builtin_##name##f(x); }
#define __VGC_2(name)                                                                                                                  \
    __VGC_FN__ float name##f(float x, float y) { return __builtin_##name##f(x, y); }                                                   \
    __VGC_FN__ double name(double x, double y) { return __builtin_##name(x, y); }                                                      \
    __VGC_FN__ float name(float x, float y) { return __builtin_##name##f(x, y); }
__VGC_1(acos) __VGC_1(acosh) __VGC_1(asin) __VGC_1(asinh) __VGC_1(atan) __VGC_1(atanh) __VGC_1(ceil) __VGC_1(cos)
__VGC_1(cosh) __VGC_1(erf) __VGC_1(erfc) __VGC_1(exp) __VGC_1(exp2) __VGC_1(expm1) __VGC_1(fabs) __VGC_1(floor)
__VGC_1(lgamma) __VGC_1(log) __VGC_1(log10) __VGC_1(log1p) __VGC_1(log2) __VGC_1(logb) __VGC_1(nearbyint) __VGC_1(rint)
__VGC_1(round) __VGC_1(sin) __VGC_1(sinh) __VGC_1(sqrt) __VGC_1(tan) __VGC_1(tanh) __VGC_1(tgamma) __VGC_1(trunc)
__VGC_2(atan2) __VGC_2(copysign) __VGC_2(fdim) __VGC_2(fmax) __VGC_2(fmin) __VGC_2(fmod) __VGC_2(hypot) __VGC_2(nextafter)
__VGC_2(pow) __VGC_2(remainder)
#undef __VGC_1
#undef __VGC_2

__VGC_FN__ float pow(float x, int n) { return __builtin_powf(x, (float)n); }
__VGC_FN__ double pow(double x, int n) { return __builtin_pow(x, (double)n); }
__VGC_FN__ float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
__VGC_FN__ double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
__VGC_FN__ float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }

#define __VGC_BOTH(result, name, extra, arg)                                                                                           \
    __VGC_FN__ result name##f(float x extra) { return __builtin_##name##f(x arg); }                                                    \
    __VGC_FN__ result name(float x extra) { return __builtin_##name##f(x arg); }                                                       \
    __VGC_FN__ result name(double x extra) { return __builtin_##name(x arg); }
#define __VGC_COMMA ,
__VGC_BOTH(int, ilogb, , )
/* what is out of range becomes the nearest value */
#define __VGC_WHOLE(result, name, rounded)                                                                                             \
    __VGC_FN__ result name##f(float x) { return (result)__builtin_##rounded##f(x); }                                                   \
    __VGC_FN__ result name(float x) { return (result)__builtin_##rounded##f(x); }                                                      \
    __VGC_FN__ result name(double x) { return (result)__builtin_##rounded(x); }
__VGC_WHOLE(long, lrint, rint)
__VGC_WHOLE(long, lround, round)
__VGC_WHOLE(long long, llrint, rint)
__VGC_WHOLE(long long, llround, round)
#undef __VGC_WHOLE
__VGC_FN__ float ldexpf(float x, int n) { return __builtin_ldexpf(x, n); }
__VGC_FN__ float ldexp(float x, int n) { return __builtin_ldexpf(x, n); }
__VGC_FN__ double ldexp(double x, int n) { return __builtin_ldexp(x, n); }
__VGC_FN__ float scalbnf(float x, int n) { return __builtin_scalbnf(x, n); }
__VGC_FN__ float scalbn(float x, int n) { return __builtin_scalbnf(x, n); }
__VGC_FN__ double scalbn(double x, int n) { return __builtin_scalbn(x, n); }
__VGC_FN__ float scalblnf(float x, long n) { return __builtin_scalblnf(x, n); }
__VGC_FN__ float scalbln(float x, long n) { return __builtin_scalblnf(x, n); }
__VGC_FN__ double scalbln(double x, long n) { return __builtin_scalbln(x, n); }
__VGC_FN__ float nanf(const char *) { return __builtin_bit_cast(float, 0x7fffffff); }
__VGC_FN__ double nan(const char *) { return __builtin_bit_cast(double, 0x7fffffffffffffffll); }
__VGC_FN__ float frexpf(float x, int *n) { return __builtin_frexpf(x, n); }
__VGC_FN__ float frexp(float x, int *n) { return __builtin_frexpf(x, n); }
__VGC_FN__ double frexp(double x, int *n) { return __builtin_frexp(x, n); }
__VGC_FN__ float modff(float x, float *whole) { return __builtin_modff(x, whole); }
__VGC_FN__ float modf(float x, float *whole) { return __builtin_modff(x, whole); }
__VGC_FN__ double modf(double x, double *whole) { return __builtin_modf(x, whole); }
__VGC_FN__ float remquof(float x, float y, int *q) { return __builtin_remquof(x, y, q); }
__VGC_FN__ float remquo(float x, float y, int *q) { return __builtin_remquof(x, y, q); }
__VGC_FN__ double remquo(double x, double y, int *q) { return __builtin_remquo(x, y, q); }
#undef __VGC_BOTH
#undef __VGC_COMMA

#define __VGC_CLASSIFY(name, builtin)                                                                                                  \
    __VGC_FN__ bool name(float x) { return builtin(x); }                                                                               \
    __VGC_FN__ bool name(double x) { return builtin(x); }
__VGC_CLASSIFY(isnan, __builtin_isnan)
__VGC_CLASSIFY(isinf, __builtin_isinf)
__VGC_CLASSIFY(isfinite, __builtin_isfinite)
__VGC_CLASSIFY(signbit, __builtin_signbit)
#undef __VGC_CLASSIFY

/* ---- CUDA's additions ---- */

#include "vgc_special.h"

/* Integers are taken as doubles, and so is a pair of a float and a double. */
template <bool condition, class T> struct __vgc_if {};
template <class T> struct __vgc_if<true, T> { typedef T type; };
template <class T, class U> struct __vgc_same { static constexpr bool value = false; };
template <class T> struct __vgc_same<T, T> { static constexpr bool value = true; };
#define __VGC_1(name)                                                                                                                  \
    template <class T> __VGC_FN__ typename __vgc_if<__is_integral(T), double>::type name(T x) { return name((double)x); }
#define __VGC_2(name)                                                                                                                  \
    template <class T, class U>                                                                                                        \
    __VGC_FN__ typename __vgc_if<__is_arithmetic(T) && __is_arithmetic(U) && !__vgc_same<T, U>::value, double>::type name(T x, U y) {   \
        return name((double)x, (double)y);                                                                                             \
    }                                                                                                                                  \
    template <class T> __VGC_FN__ typename __vgc_if<__is_integral(T), double>::type name(T x, T y) { return name((double)x, (double)y); }
__VGC_1(acos) __VGC_1(acosh) __VGC_1(asin) __VGC_1(asinh) __VGC_1(atan) __VGC_1(atanh) __VGC_1(cbrt) __VGC_1(ceil) __VGC_1(cos)
__VGC_1(cosh) __VGC_1(erf) __VGC_1(erfc) __VGC_1(exp) __VGC_1(exp2) __VGC_1(expm1) __VGC_1(fabs) __VGC_1(floor) __VGC_1(lgamma)
__VGC_1(log) __VGC_1(log10) __VGC_1(log1p) __VGC_1(log2) __VGC_1(logb) __VGC_1(nearbyint) __VGC_1(rint) __VGC_1(round) __VGC_1(sin)
__VGC_1(sinh) __VGC_1(sqrt) __VGC_1(tan) __VGC_1(tanh) __VGC_1(tgamma) __VGC_1(trunc)
__VGC_2(atan2) __VGC_2(copysign) __VGC_2(fdim) __VGC_2(fmax) __VGC_2(fmin) __VGC_2(fmod) __VGC_2(hypot) __VGC_2(nextafter)
__VGC_2(pow) __VGC_2(remainder)
#undef __VGC_1
#undef __VGC_2

/* ---- intrinsics that may be less exact ---- */

__VGC_FN__ float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
__VGC_FN__ float __sinf(float x) { return __builtin_sinf(x); }
__VGC_FN__ float __cosf(float x) { return __builtin_cosf(x); }
__VGC_FN__ float __tanf(float x) { return __builtin_tanf(x); }
__VGC_FN__ float __tanhf(float x) { return __builtin_tanhf(x); }
__VGC_FN__ float __expf(float x) { return __builtin_expf(x); }
__VGC_FN__ float __exp10f(float x) { return __builtin_exp10f(x); }
__VGC_FN__ float __logf(float x) { return __builtin_logf(x); }
__VGC_FN__ float __log2f(float x) { return __builtin_log2f(x); }
__VGC_FN__ float __log10f(float x) { return __builtin_log10f(x); }
__VGC_FN__ float __powf(float x, float y) { return __builtin_powf(x, y); }
__VGC_FN__ float __fdividef(float x, float y) { return x / y; }
__VGC_FN__ double fdivide(double x, double y) { return x / y; }
__VGC_FN__ float fdivide(float x, float y) { return x / y; }
__VGC_FN__ float fdividef(float x, float y) { return x / y; }
__VGC_FN__ void __sincosf(float x, float *sine, float *cosine) { sincosf(x, sine, cosine); }
