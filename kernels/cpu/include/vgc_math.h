/* Math functions and intrinsics. The C library's are compiler builtins (the runtime provides those not inlined);
 * directed rounding is computed from the exact error of the rounded result. */
#pragma once
#include "vgc_builtins.h"
#include "vector_types.h"

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
__VGC_1(acos) __VGC_1(acosh) __VGC_1(asin) __VGC_1(asinh) __VGC_1(atan) __VGC_1(atanh) __VGC_1(cbrt) __VGC_1(ceil) __VGC_1(cos)
__VGC_1(cosh) __VGC_1(erf) __VGC_1(erfc) __VGC_1(exp) __VGC_1(exp2) __VGC_1(exp10) __VGC_1(expm1) __VGC_1(fabs) __VGC_1(floor)
__VGC_1(lgamma) __VGC_1(log) __VGC_1(log10) __VGC_1(log1p) __VGC_1(log2) __VGC_1(logb) __VGC_1(nearbyint) __VGC_1(rint)
__VGC_1(round) __VGC_1(sin) __VGC_1(sinh) __VGC_1(sqrt) __VGC_1(tan) __VGC_1(tanh) __VGC_1(tgamma) __VGC_1(trunc)
__VGC_2(atan2) __VGC_2(copysign) __VGC_2(fdim) __VGC_2(fmax) __VGC_2(fmin) __VGC_2(fmod) __VGC_2(hypot) __VGC_2(nextafter)
__VGC_2(pow) __VGC_2(remainder)
#undef __VGC_1
#undef __VGC_2

__VGC_FN__ float powf(float x, int n) { return __builtin_powf(x, (float)n); }
__VGC_FN__ float pow(float x, int n) { return __builtin_powf(x, (float)n); }
__VGC_FN__ double pow(double x, int n) { return __builtin_pow(x, (double)n); }
__VGC_FN__ double pow(float x, double y) { return __builtin_pow(x, y); }
__VGC_FN__ double pow(double x, float y) { return __builtin_pow(x, y); }
__VGC_FN__ float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
__VGC_FN__ double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
__VGC_FN__ float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }

#define __VGC_BOTH(result, name, extra, arg)                                                                                           \
    __VGC_FN__ result name##f(float x extra) { return __builtin_##name##f(x arg); }                                                    \
    __VGC_FN__ result name(double x extra) { return __builtin_##name(x arg); }
#define __VGC_COMMA ,
__VGC_BOTH(int, ilogb, , )
__VGC_BOTH(long, lrint, , )
__VGC_BOTH(long, lround, , )
__VGC_BOTH(long long, llrint, , )
__VGC_BOTH(long long, llround, , )
__VGC_FN__ float ldexpf(float x, int n) { return __builtin_ldexpf(x, n); }
__VGC_FN__ double ldexp(double x, int n) { return __builtin_ldexp(x, n); }
__VGC_FN__ float scalbnf(float x, int n) { return __builtin_scalbnf(x, n); }
__VGC_FN__ double scalbn(double x, int n) { return __builtin_scalbn(x, n); }
__VGC_FN__ float frexpf(float x, int *n) { return __builtin_frexpf(x, n); }
__VGC_FN__ double frexp(double x, int *n) { return __builtin_frexp(x, n); }
__VGC_FN__ float modff(float x, float *whole) { return __builtin_modff(x, whole); }
__VGC_FN__ double modf(double x, double *whole) { return __builtin_modf(x, whole); }
__VGC_FN__ float remquof(float x, float y, int *q) { return __builtin_remquof(x, y, q); }
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

#define __VGC_TYPES(type, s)                                                                                                           \
    __VGC_FN__ type rsqrt##s(type x) { return (type)1 / __builtin_sqrt##s(x); }                                                        \
    __VGC_FN__ type rcbrt##s(type x) { return (type)1 / __builtin_cbrt##s(x); }                                                        \
    __VGC_FN__ type rhypot##s(type x, type y) { return (type)1 / __builtin_hypot##s(x, y); }                                           \
    __VGC_FN__ type norm3d##s(type x, type y, type z) { return __builtin_sqrt##s(x * x + y * y + z * z); }                             \
    __VGC_FN__ type norm4d##s(type x, type y, type z, type w) { return __builtin_sqrt##s(x * x + y * y + z * z + w * w); }             \
    __VGC_FN__ type rnorm3d##s(type x, type y, type z) { return (type)1 / norm3d##s(x, y, z); }                                        \
    __VGC_FN__ type normcdf##s(type x) { return (type)0.5 * __builtin_erfc##s(-x * (type)M_SQRT1_2); }                                 \
    __VGC_FN__ type sinpi##s(type x) { return __builtin_sin##s((type)M_PI * (x - 2 * __builtin_rint##s(x / 2))); }                     \
    __VGC_FN__ type cospi##s(type x) { return __builtin_cos##s((type)M_PI * (x - 2 * __builtin_rint##s(x / 2))); }                     \
    __VGC_FN__ void sincos##s(type x, type *sine, type *cosine) { *sine = __builtin_sin##s(x); *cosine = __builtin_cos##s(x); }        \
    __VGC_FN__ void sincospi##s(type x, type *sine, type *cosine) { *sine = sinpi##s(x); *cosine = cospi##s(x); }
__VGC_TYPES(float, f)
__VGC_TYPES(double, )
#undef __VGC_TYPES
__VGC_FN__ float rsqrt(float x) { return rsqrtf(x); }

__VGC_FN__ float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
__VGC_FN__ float __sinf(float x) { return __builtin_sinf(x); }
__VGC_FN__ float __cosf(float x) { return __builtin_cosf(x); }
__VGC_FN__ float __tanf(float x) { return __builtin_tanf(x); }
__VGC_FN__ float __expf(float x) { return __builtin_expf(x); }
__VGC_FN__ float __exp10f(float x) { return __builtin_exp10f(x); }
__VGC_FN__ float __logf(float x) { return __builtin_logf(x); }
__VGC_FN__ float __log2f(float x) { return __builtin_log2f(x); }
__VGC_FN__ float __log10f(float x) { return __builtin_log10f(x); }
__VGC_FN__ float __powf(float x, float y) { return __builtin_powf(x, y); }
__VGC_FN__ float __fdividef(float x, float y) { return x / y; }
__VGC_FN__ double fdivide(double x, double y) { return x / y; }
__VGC_FN__ float fdividef(float x, float y) { return x / y; }
__VGC_FN__ void __sincosf(float x, float *sine, float *cosine) { sincosf(x, sine, cosine); }

/* ---- directed rounding ---- */

/* `rounded` to nearest differs from the exact value, which is below it, equal or above as `error` is <, =, > 0. */
#define __VGC_DIRECT(type, s, limit)                                                                                                   \
    __VGC_FN__ type __vgc_down##s(type rounded, type error) {                                                                          \
        return error < 0 ? __builtin_nextafter##s(rounded, -(type)limit) : rounded;                                                    \
    }                                                                                                                                  \
    __VGC_FN__ type __vgc_up##s(type rounded, type error) {                                                                            \
        return error > 0 ? __builtin_nextafter##s(rounded, (type)limit) : rounded;                                                     \
    }                                                                                                                                  \
    __VGC_FN__ type __vgc_zero##s(type rounded, type error) {                                                                          \
        return rounded > 0 ? __vgc_down##s(rounded, error) : __vgc_up##s(rounded, error);                                              \
    }                                                                                                                                  \
    __VGC_FN__ type __vgc_near##s(type rounded, type) { return rounded; }
__VGC_DIRECT(float, f, __builtin_inff())
__VGC_DIRECT(double, , __builtin_inf())
#undef __VGC_DIRECT

/* The exact error of a sum [Knuth: TwoSum]. Needs no volatile, as contraction and reassociation are off here. */
template <class T> __VGC_FN__ T __vgc_sum_error(T a, T b, T sum) {
#pragma clang fp reassociate(off) contract(off)
    const T bb = sum - a;
    return (a - (sum - bb)) + (b - bb);
}

#define __VGC_ROUNDED(type, s, prefix, mode, how)                                                                                      \
    __VGC_FN__ type __##prefix##add_##mode(type a, type b) {                                                                           \
        _Pragma("clang fp contract(off)") const type sum = a + b;                                                                      \
        return __vgc_##how##s(sum, __vgc_sum_error(a, b, sum));                                                                        \
    }                                                                                                                                  \
    __VGC_FN__ type __##prefix##sub_##mode(type a, type b) { return __##prefix##add_##mode(a, -b); }                                   \
    __VGC_FN__ type __##prefix##mul_##mode(type a, type b) {                                                                           \
        _Pragma("clang fp contract(off)") const type product = a * b;                                                                  \
        return __vgc_##how##s(product, __builtin_fma##s(a, b, -product));                                                              \
    }                                                                                                                                  \
    __VGC_FN__ type __##prefix##div_##mode(type a, type b) {                                                                           \
        _Pragma("clang fp contract(off) reciprocal(off)") const type quotient = a / b;                                                 \
        const type rest = __builtin_fma##s(-quotient, b, a);                                                                           \
        return __vgc_##how##s(quotient, b > 0 ? rest : -rest);                                                                         \
    }                                                                                                                                  \
    __VGC_FN__ type __##prefix##sqrt_##mode(type a) {                                                                                  \
        const type root = __builtin_sqrt##s(a);                                                                                        \
        return __vgc_##how##s(root, __builtin_fma##s(-root, root, a));                                                                 \
    }                                                                                                                                  \
    __VGC_FN__ type __##prefix##rcp_##mode(type a) { return __##prefix##div_##mode((type)1, a); }
#define __VGC_MODES(type, s, prefix)                                                                                                   \
    __VGC_ROUNDED(type, s, prefix, rn, near)                                                                                           \
    __VGC_ROUNDED(type, s, prefix, rd, down)                                                                                           \
    __VGC_ROUNDED(type, s, prefix, ru, up)                                                                                             \
    __VGC_ROUNDED(type, s, prefix, rz, zero)
__VGC_MODES(float, f, f)
__VGC_MODES(double, , d)
#undef __VGC_MODES
#undef __VGC_ROUNDED
__VGC_FN__ float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__VGC_FN__ double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
__VGC_FN__ float __frsqrt_rn(float x) { return 1.0f / __builtin_sqrtf(x); }

/* A product of floats is exact in double, so only the sum's error counts. */
#define __VGC_FMA(mode, how)                                                                                                           \
    __VGC_FN__ float __fmaf_##mode(float a, float b, float c) {                                                                        \
        _Pragma("clang fp contract(off)") const double product = (double)a * b;                                                        \
        const double sum = product + c;                                                                                                \
        const double lost = __vgc_sum_error(product, (double)c, sum);                                                                  \
        const float rounded = (float)sum;                                                                                              \
        const double error = sum - rounded;                                                                                            \
        return __vgc_##how##f(rounded, error != 0 ? (float)(error > 0 ? 1 : -1) : (float)(lost > 0 ? 1 : lost < 0 ? -1 : 0));          \
    }
__VGC_FMA(rd, down) __VGC_FMA(ru, up) __VGC_FMA(rz, zero)
#undef __VGC_FMA

/* ---- integers ---- */

__VGC_FN__ int __popc(unsigned x) { return __builtin_popcount(x); }
__VGC_FN__ int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
__VGC_FN__ int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
__VGC_FN__ int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
__VGC_FN__ int __ffs(int x) { return __builtin_ffs(x); }
__VGC_FN__ int __ffsll(long long x) { return __builtin_ffsll(x); }
__VGC_FN__ unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
__VGC_FN__ unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
__VGC_FN__ int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
__VGC_FN__ unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
__VGC_FN__ long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
__VGC_FN__ unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
__VGC_FN__ int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
__VGC_FN__ unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
__VGC_FN__ unsigned __sad(int a, int b, unsigned c) { return c + (unsigned)(a > b ? a - b : b - a); }
__VGC_FN__ unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a > b ? a - b : b - a); }
__VGC_FN__ int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
__VGC_FN__ int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
__VGC_FN__ unsigned __uhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b) >> 1); }
__VGC_FN__ unsigned __urhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b + 1) >> 1); }
__VGC_FN__ unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
    return (unsigned)((((unsigned long long)hi << 32 | lo) << (shift & 31)) >> 32);
}
__VGC_FN__ unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
    return (unsigned)(((unsigned long long)hi << 32 | lo) >> (shift & 31));
}
__VGC_FN__ unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned shift) {
    return shift >= 32 ? lo : (unsigned)((((unsigned long long)hi << 32 | lo) << shift) >> 32);
}
__VGC_FN__ unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned shift) {
    return shift >= 32 ? hi : (unsigned)(((unsigned long long)hi << 32 | lo) >> shift);
}
__VGC_FN__ unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned which = selector >> 4 * i & 0xf;
        unsigned byte = (unsigned)(bytes >> 8 * (which & 7)) & 0xff;
        if (which & 8)
            byte = byte & 0x80 ? 0xff : 0;
        result |= byte << 8 * i;
    }
    return result;
}
__VGC_FN__ int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++)
        c += (int)(signed char)(a >> 8 * i) * (signed char)(b >> 8 * i);
    return c;
}
__VGC_FN__ unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; i++)
        c += (a >> 8 * i & 0xff) * (b >> 8 * i & 0xff);
    return c;
}

/* ---- min, max, abs ---- */

#define __VGC_MIN_MAX(type)                                                                                                            \
    __VGC_FN__ type min(type a, type b) { return b < a ? b : a; }                                                                      \
    __VGC_FN__ type max(type a, type b) { return a < b ? b : a; }
__VGC_MIN_MAX(int) __VGC_MIN_MAX(unsigned) __VGC_MIN_MAX(long) __VGC_MIN_MAX(unsigned long)
__VGC_MIN_MAX(long long) __VGC_MIN_MAX(unsigned long long)
#undef __VGC_MIN_MAX
__VGC_FN__ float min(float a, float b) { return __builtin_fminf(a, b); }
__VGC_FN__ float max(float a, float b) { return __builtin_fmaxf(a, b); }
__VGC_FN__ double min(double a, double b) { return __builtin_fmin(a, b); }
__VGC_FN__ double max(double a, double b) { return __builtin_fmax(a, b); }
#define __VGC_MIXED(a, b, type)                                                                                                        \
    __VGC_FN__ type min(a x, b y) { return min((type)x, (type)y); }                                                                    \
    __VGC_FN__ type min(b x, a y) { return min((type)x, (type)y); }                                                                    \
    __VGC_FN__ type max(a x, b y) { return max((type)x, (type)y); }                                                                    \
    __VGC_FN__ type max(b x, a y) { return max((type)x, (type)y); }
__VGC_MIXED(int, unsigned, unsigned) __VGC_MIXED(int, long long, long long) __VGC_MIXED(int, unsigned long long, unsigned long long)
__VGC_MIXED(unsigned, unsigned long long, unsigned long long) __VGC_MIXED(float, double, double) __VGC_MIXED(int, float, float)
__VGC_MIXED(int, double, double) __VGC_MIXED(int, long, long) __VGC_MIXED(int, unsigned long, unsigned long)
__VGC_MIXED(unsigned, unsigned long, unsigned long) __VGC_MIXED(unsigned, float, float)
#undef __VGC_MIXED
__VGC_FN__ unsigned umin(unsigned a, unsigned b) { return min(a, b); }
__VGC_FN__ unsigned umax(unsigned a, unsigned b) { return max(a, b); }
__VGC_FN__ long long llmin(long long a, long long b) { return min(a, b); }
__VGC_FN__ long long llmax(long long a, long long b) { return max(a, b); }
__VGC_FN__ int abs(int x) { return x < 0 ? -x : x; }
__VGC_FN__ long abs(long x) { return x < 0 ? -x : x; }
__VGC_FN__ long long abs(long long x) { return x < 0 ? -x : x; }
__VGC_FN__ float abs(float x) { return __builtin_fabsf(x); }
__VGC_FN__ double abs(double x) { return __builtin_fabs(x); }
__VGC_FN__ long labs(long x) { return abs(x); }
__VGC_FN__ long long llabs(long long x) { return abs(x); }

/* ---- conversions: out of range becomes the nearest value, not-a-number 0 ---- */

__VGC_FN__ int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
__VGC_FN__ unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
__VGC_FN__ float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
__VGC_FN__ float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
__VGC_FN__ long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
__VGC_FN__ double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
__VGC_FN__ int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
__VGC_FN__ int __double2loint(double x) { return (int)__double_as_longlong(x); }
__VGC_FN__ double __hiloint2double(int hi, int lo) {
    return __longlong_as_double((long long)((unsigned long long)(unsigned)hi << 32 | (unsigned)lo));
}
#define __VGC_TO_INTEGER(from, s, name, to)                                                                                            \
    __VGC_FN__ to name##_rn(from x) { return (to)__builtin_rint##s(x); }                                                               \
    __VGC_FN__ to name##_rz(from x) { return (to)x; }                                                                                  \
    __VGC_FN__ to name##_rd(from x) { return (to)__builtin_floor##s(x); }                                                              \
    __VGC_FN__ to name##_ru(from x) { return (to)__builtin_ceil##s(x); }
__VGC_TO_INTEGER(float, f, __float2int, int)
__VGC_TO_INTEGER(float, f, __float2uint, unsigned)
__VGC_TO_INTEGER(float, f, __float2ll, long long)
__VGC_TO_INTEGER(float, f, __float2ull, unsigned long long)
__VGC_TO_INTEGER(double, , __double2int, int)
__VGC_TO_INTEGER(double, , __double2uint, unsigned)
__VGC_TO_INTEGER(double, , __double2ll, long long)
__VGC_TO_INTEGER(double, , __double2ull, unsigned long long)
#undef __VGC_TO_INTEGER
__VGC_FN__ float __int2float_rn(int x) { return (float)x; }
__VGC_FN__ float __uint2float_rn(unsigned x) { return (float)x; }
__VGC_FN__ float __ll2float_rn(long long x) { return (float)x; }
__VGC_FN__ float __ull2float_rn(unsigned long long x) { return (float)x; }
__VGC_FN__ double __int2double_rn(int x) { return x; }
__VGC_FN__ double __uint2double_rn(unsigned x) { return x; }
__VGC_FN__ double __ll2double_rn(long long x) { return (double)x; }
__VGC_FN__ double __ull2double_rn(unsigned long long x) { return (double)x; }
__VGC_FN__ float __double2float_rn(double x) { return (float)x; }
