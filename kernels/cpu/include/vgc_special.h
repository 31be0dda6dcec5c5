/* Functions that the C library lacks. Those of floats are computed with doubles. The guest's vgc_host_math.h includes this a
 * second time, for host code. */
#if !defined(__VGC_SPECIAL__) || defined(__VGC_HOST_SPECIAL__)
#define __VGC_SPECIAL__
#include "vgc_builtins.h"

#if !__has_builtin(__builtin_exp10f) /* clang before 18, which parses this in the guest and runs none of it */
#define __builtin_exp10f(x) __builtin_powf(10.0f, x)
#endif

#define __VGC_SQRT_PI 1.7724538509055160273

/* ---- roots and norms ---- */

/* Corrects the C library's by a step of Newton's method with an exact residual. */
__VGC_FN__ double __vgc_cbrt_error(double x, double root) {
    const double square = root * root, square_rest = __builtin_fma(root, root, -square);
    const double cube = square * root, cube_rest = __builtin_fma(square, root, -cube) + square_rest * root;
    return ((x - cube) - cube_rest) / (3 * square);
}
/* Neither zero nor infinite nor not-a-number, nor so small or large that a cube loses bits. */
__VGC_FN__ bool __vgc_is_moderate(double x) { return __builtin_fabs(x) > 1e-290 && __builtin_fabs(x) < 1e300; }
__VGC_FN__ double cbrt(double x) {
    const double scale = __builtin_fabs(x) > 1 ? 0x1p-300 : 0x1p+300, back = __builtin_fabs(x) > 1 ? 0x1p+100 : 0x1p-100;
    const double scaled = __vgc_is_moderate(x) ? x : x * scale, root = __builtin_cbrt(scaled);
    const double exact = root + __vgc_cbrt_error(scaled, root);
    return x == 0 || !__builtin_isfinite(x) ? x : __vgc_is_moderate(x) ? exact : exact * back;
}
__VGC_FN__ double rcbrt(double x) {
    const double scale = __builtin_fabs(x) > 1 ? 0x1p-300 : 0x1p+300, back = __builtin_fabs(x) > 1 ? 0x1p-100 : 0x1p+100;
    const double scaled = __vgc_is_moderate(x) ? x : x * scale, root = __builtin_cbrt(scaled);
    const double near = 1 / root, lost = __builtin_fma(-near, root, 1.0) - __vgc_cbrt_error(scaled, root) / root;
    const double exact = __builtin_fma(near, lost, near);
    return x == 0 || !__builtin_isfinite(x) ? 1 / x : __vgc_is_moderate(x) ? exact : exact * back;
}
__VGC_FN__ double rsqrt(double x) { return 1 / __builtin_sqrt(x); }
__VGC_FN__ float rsqrtf(float x) { return 1 / __builtin_sqrtf(x); }
__VGC_FN__ float cbrtf(float x) { return (float)__builtin_cbrt((double)x); }
__VGC_FN__ float rcbrtf(float x) { return (float)(1 / __builtin_cbrt((double)x)); }

/* The power of two whose inverse brings the largest of some numbers near 1. */
__VGC_FN__ double __vgc_scale(double largest) {
    const unsigned long long power = __builtin_bit_cast(unsigned long long, largest) >> 52 & 0x7ff;
    return __builtin_bit_cast(double, (power < 2 ? 2 : power > 2044 ? 2044 : power) << 52);
}
/* The square root of a sum of squares, whose largest number is near 1 after it was multiplied with `shrink`. */
struct __vgc_squares {
    double shrink, sum, rest, infinite;
    __device__ __forceinline__ void add(double x) {
        const double scaled = x * shrink, square = scaled * scaled, total = sum + square;
        rest += __vgc_sum_error(sum, square, total) + __builtin_fma(scaled, scaled, -square);
        sum = total;
        infinite = __builtin_fmax(infinite, __builtin_fabs(x));
    }
    __device__ __forceinline__ double root() const {
        const double near = __builtin_sqrt(sum + rest);
        return near == 0 ? near : near + ((__builtin_fma(-near, near, sum)) + rest) / (2 * near);
    }
    __device__ __forceinline__ double length() const { return infinite == __builtin_inf() ? infinite : root() / shrink; }
    __device__ __forceinline__ double reciprocal() const {
        return infinite == __builtin_inf() ? 0 : infinite == 0 ? __builtin_inf() : shrink / root();
    }
};
__VGC_FN__ __vgc_squares __vgc_scaled(double largest) {
    return {1 / __vgc_scale(largest), 0, 0, 0};
}
__VGC_FN__ double __vgc_largest(double a, double b) { return __builtin_fmax(__builtin_fabs(a), __builtin_fabs(b)); }
#define __VGC_NORM(name, inverse, params, largest, ...)                                                                                \
    __VGC_FN__ double name params { __vgc_squares all = __vgc_scaled(largest); __VA_ARGS__; return all.length(); }                       \
    __VGC_FN__ double inverse params { __vgc_squares all = __vgc_scaled(largest); __VA_ARGS__; return all.reciprocal(); }
__VGC_NORM(__vgc_hypot, rhypot, (double a, double b), __vgc_largest(a, b), all.add(a); all.add(b))
__VGC_NORM(norm3d, rnorm3d, (double a, double b, double c), __vgc_largest(__vgc_largest(a, b), c), all.add(a); all.add(b); all.add(c))
__VGC_NORM(norm4d, rnorm4d, (double a, double b, double c, double d), __vgc_largest(__vgc_largest(a, b), __vgc_largest(c, d)),
           all.add(a); all.add(b); all.add(c); all.add(d))
__VGC_FN__ double __vgc_largest_of(int count, const double *x) {
    double largest = 0;
    for (int i = 0; i < count; i++)
        largest = __vgc_largest(largest, x[i]);
    return largest;
}
__VGC_NORM(norm, rnorm, (int count, const double *x), __vgc_largest_of(count, x), for (int i = 0; i < count; i++) all.add(x[i]))
#undef __VGC_NORM
/* Squares of floats, and sums of some, are far from the limits of doubles. */
__VGC_FN__ double __vgc_square(float x) { return (double)x * (double)x; }
__VGC_FN__ float __vgc_root(double sum, bool infinite) { return infinite ? __builtin_inff() : (float)__builtin_sqrt(sum); }
__VGC_FN__ float __vgc_inverse_root(double sum, bool infinite) { return infinite ? 0.0f : (float)(1 / __builtin_sqrt(sum)); }
#define __VGC_INF(x) (__builtin_fabsf(x) == __builtin_inff())
#define __VGC_NORM(name, inverse, params, sum, infinite)                                                                               \
    __VGC_FN__ float name params { return __vgc_root(sum, infinite); }                                                                 \
    __VGC_FN__ float inverse params { return __vgc_inverse_root(sum, infinite); }
__VGC_NORM(__vgc_hypotf, rhypotf, (float a, float b), __vgc_square(a) + __vgc_square(b), __VGC_INF(a) || __VGC_INF(b))
__VGC_NORM(norm3df, rnorm3df, (float a, float b, float c), __vgc_square(a) + __vgc_square(b) + __vgc_square(c),
           __VGC_INF(a) || __VGC_INF(b) || __VGC_INF(c))
__VGC_NORM(norm4df, rnorm4df, (float a, float b, float c, float d), __vgc_square(a) + __vgc_square(b) + (__vgc_square(c) + __vgc_square(d)),
           __VGC_INF(a) || __VGC_INF(b) || __VGC_INF(c) || __VGC_INF(d))
#undef __VGC_NORM
__VGC_FN__ double __vgc_sum_of_squares(int count, const float *x, bool *infinite) {
    double sum = 0;
    *infinite = false;
    for (int i = 0; i < count; i++) {
        sum += __vgc_square(x[i]);
        *infinite |= __VGC_INF(x[i]);
    }
    return sum;
}
__VGC_FN__ float normf(int count, const float *x) {
    bool infinite;
    const double sum = __vgc_sum_of_squares(count, x, &infinite);
    return __vgc_root(sum, infinite);
}
__VGC_FN__ float rnormf(int count, const float *x) {
    bool infinite;
    const double sum = __vgc_sum_of_squares(count, x, &infinite);
    return __vgc_inverse_root(sum, infinite);
}
#undef __VGC_INF

/* ---- sine and cosine of multiples of pi ---- */

/* For |x| <= 1/4, with the rest of pi and of the product. */
__VGC_FN__ double __vgc_times_pi(double x, double *rest) {
    const double pi = 3.14159265358979311600, product = pi * x;
    *rest = __builtin_fma(pi, x, -product) + 1.2246467991473531772e-16 * x;
    return product;
}
__VGC_FN__ void sincospi(double x, double *sine, double *cosine) {
    const double within = x - 2 * __builtin_rint(x / 2); /* -1 to 1 */
    const double halves = __builtin_rint(2 * within), part = within - halves / 2;
    double rest;
    const double angle = __vgc_times_pi(part, &rest), s = __builtin_sin(angle), c = __builtin_cos(angle);
    const double fine_s = __builtin_fma(c, rest, s), fine_c = __builtin_fma(-s, rest, c);
    const bool swap = halves == 1 || halves == -1, back = halves == 2 || halves == -2;
    const double a = swap ? fine_c : fine_s, b = swap ? fine_s : fine_c;
    const bool whole = part == 0 && !swap;
    *sine = whole ? __builtin_copysign(0.0, x) : halves == -1 || back ? -a : a;
    *cosine = part == 0 && swap ? 0.0 : halves == 1 || back ? -b : b;
}
__VGC_FN__ double sinpi(double x) {
    double sine, cosine;
    sincospi(x, &sine, &cosine);
    return sine;
}
__VGC_FN__ double cospi(double x) {
    double sine, cosine;
    sincospi(x, &sine, &cosine);
    return cosine;
}
__VGC_FN__ float sinpif(float x) { return (float)sinpi((double)x); }
__VGC_FN__ float cospif(float x) { return (float)cospi((double)x); }
__VGC_FN__ void sincospif(float x, float *sine, float *cosine) {
    double s, c;
    sincospi((double)x, &s, &c);
    *sine = (float)s;
    *cosine = (float)c;
}
__VGC_FN__ void sincosf(float x, float *sine, float *cosine) { *sine = __builtin_sinf(x); *cosine = __builtin_cosf(x); }
__VGC_FN__ void sincos(double x, double *sine, double *cosine) { *sine = __builtin_sin(x); *cosine = __builtin_cos(x); }

/* ---- exponentials ---- */

/* The C library's exp10 has errors of two units in the last place. */
__VGC_FN__ double exp10(double x) {
    const double ln10 = 2.3025850929940459011, power = x * ln10, near = __builtin_exp(power);
    const double rest = __builtin_fma(x, ln10, -power) - 2.1707562233822493508e-16 * x;
    return near == 0 || near == __builtin_inf() ? near : __builtin_fma(near, rest, near);
}
__VGC_FN__ float exp10f(float x) { return __builtin_exp10f(x); }

/* ---- the error function's relatives ---- */

/* exp(x * x) with the rest of the square. */
__VGC_FN__ double __vgc_exp_square(double x) {
    const double square = x * x, rest = __builtin_fma(x, x, -square), power = __builtin_exp(square);
    return power == __builtin_inf() ? power : __builtin_fma(power, rest, power);
}
__VGC_FN__ double erfcx(double x) {
    if (x < 2) /* the product has the errors of both factors */
        return x < -27 ? __builtin_inf() : __vgc_exp_square(x) * __builtin_erfc(x);
    if (x > 1e8)
        return 1 / (__VGC_SQRT_PI * x);
    double below = 0; /* a continued fraction [Laplace] */
    for (int k = x < 10 ? 60 : 10; k > 0; k--)
        below = 0.5 * k / (x + below);
    return 1 / (__VGC_SQRT_PI * (x + below));
}
__VGC_FN__ double normcdf(double x) {
    if (x < -39 || x > 39)
        return x < 0 ? 0 : 1;
    const double root = 0.70710678118654757274, at = -x * root;
    const double rest = __builtin_fma(-x, root, -at) + x * 4.8336466567264567e-17;
    const double near = __builtin_erfc(at), slope = 2 / __VGC_SQRT_PI * __builtin_exp(-at * at);
    return 0.5 * (slope > 0 ? near - slope * rest : near);
}
/* Near the inverse of erf [Giles, Approximating the erfinv function]; `w` is -log((1 - x) * (1 + x)) */
__VGC_FN__ double __vgc_near_erfinv(double x, double w) {
    if (w < 5) {
        w -= 2.5;
        return x * (1.50140941 + w * (0.246640727 + w * (-0.00417768164 + w * (-0.00125372503 + w * (0.00021858087 +
               w * (-4.39150654e-06 + w * (-3.5233877e-06 + w * (3.43273939e-07 + w * 2.81022636e-08))))))));
    }
    w = __builtin_sqrt(w) - 3;
    return x * (2.83297682 + w * (1.00167406 + w * (0.00943887047 + w * (-0.0076224613 + w * (0.00573950773 +
           w * (-0.00367342844 + w * (0.00134934322 + w * (0.000100950558 + w * -0.000200214257))))))));
}
__VGC_FN__ double erfcinv(double y) {
    if (!(y > 0 && y < 2))
        return y == 0 ? __builtin_inf() : y == 2 ? -__builtin_inf() : __builtin_nan("");
    const bool negative = y > 1;
    const double q = negative ? 2 - y : y;
    double x;
    if (q < 0.125) { /* the logarithm of erfc: x > 1 */
        const double log_q = __builtin_log(q);
        x = q > 1e-6 ? __vgc_near_erfinv(1, -log_q - 0.6931471805599453) : __builtin_sqrt(-log_q - 0.5 * __builtin_log(-3.14159265358979 * log_q));
        for (int i = 0; i < 4; i++) {
            const double scaled = erfcx(x), square = x * x, rest = __builtin_fma(x, x, -square);
            const double error = ((-square - log_q) + __builtin_log(scaled)) - rest;
            const double step = error * 0.5 * __VGC_SQRT_PI * scaled;
            x += step / (1 + step * (x - 1 / (__VGC_SQRT_PI * scaled)));
        }
    } else {
        x = __vgc_near_erfinv(1 - q, -__builtin_log(q * (2 - q)));
        for (int i = 0; i < 2; i++) {
            const double error = q < 0.5 ? __builtin_erfc(x) - q : (1 - q) - __builtin_erf(x);
            const double step = error * 0.5 * __VGC_SQRT_PI * __vgc_exp_square(x);
            x += step / (1 - step * x);
        }
    }
    return negative ? -x : x;
}
__VGC_FN__ double erfinv(double y) {
    const double size = __builtin_fabs(y);
    if (size >= 0.5 || y != y)
        return __builtin_copysign(size <= 1 ? erfcinv(1 - size) : __builtin_nan(""), y);
    if (size < 1e-9)
        return y * (0.5 * __VGC_SQRT_PI);
    double x = __vgc_near_erfinv(y, -__builtin_log((1 - y) * (1 + y)));
    for (int i = 0; i < 2; i++) {
        const double step = (y - __builtin_erf(x)) * 0.5 * __VGC_SQRT_PI * __vgc_exp_square(x);
        x += step / (1 - step * x);
    }
    return x;
}
__VGC_FN__ double normcdfinv(double y) { return -1.4142135623730951455 * erfcinv(2 * y); }
__VGC_FN__ float erfcxf(float x) { return (float)erfcx((double)x); }
__VGC_FN__ float normcdff(float x) { return (float)normcdf((double)x); }
__VGC_FN__ float erfinvf(float x) { return (float)erfinv((double)x); }
__VGC_FN__ float erfcinvf(float x) { return (float)erfcinv((double)x); }
__VGC_FN__ float normcdfinvf(float x) { return (float)normcdfinv((double)x); }

/* ---- Bessel functions: the C library's ---- */

#ifndef __VGC_HOST_SPECIAL__
#define __VGC_BESSEL(name)                                                                                                             \
    extern "C" __device__ __attribute__((const)) double __vgc_##name(double x) __asm__(#name);                                         \
    __VGC_FN__ double name(double x) { return __vgc_##name(x); }                                                                       \
    __VGC_FN__ float name##f(float x) { return (float)__vgc_##name((double)x); }                                                       \
    __VGC_FN__ float name(float x) { return name##f(x); }
#define __VGC_BESSEL_N(name)                                                                                                           \
    extern "C" __device__ __attribute__((const)) double __vgc_##name(int n, double x) __asm__(#name);                                  \
    __VGC_FN__ double name(int n, double x) { return __vgc_##name(n, x); }                                                             \
    __VGC_FN__ float name##f(int n, float x) { return (float)__vgc_##name(n, (double)x); }                                             \
    __VGC_FN__ float name(int n, float x) { return name##f(n, x); }
__VGC_BESSEL(j0) __VGC_BESSEL(j1) __VGC_BESSEL(y0) __VGC_BESSEL(y1) __VGC_BESSEL_N(jn) __VGC_BESSEL_N(yn)
#undef __VGC_BESSEL
#undef __VGC_BESSEL_N
#endif

/* ---- modified Bessel functions: their power series, and for large x the asymptotic one ---- */

__VGC_FN__ double __vgc_bessel_i(int order, double x) {
    const double size = __builtin_fabs(x);
    long double sum = 1, term = 1;
    if (size < 30) {
        const long double quarter = (long double)x * x / 4;
        for (int k = 1; k < 100 && term > sum * 1e-20L; k++) {
            term *= quarter / ((long double)k * (k + order));
            sum += term;
        }
        return (double)(order == 0 ? sum : sum * x / 2);
    }
    if (!(size < 720))
        return x != x ? x : order == 1 && x < 0 ? -__builtin_inf() : __builtin_inf();
    for (int k = 1; k < 40 && (term > 1e-20L || term < -1e-20L); k++) {
        term *= ((long double)(2 * k - 1) * (2 * k - 1) - 4 * order) / (8 * k * (long double)size);
        sum += term;
    }
    const double half = __builtin_exp(size / 2);
    const long double value = sum * half / __builtin_sqrt(6.28318530717958647693 * size) * half;
    return (double)(order == 1 && x < 0 ? -value : value);
}
__VGC_FN__ double cyl_bessel_i0(double x) { return __vgc_bessel_i(0, x); }
__VGC_FN__ double cyl_bessel_i1(double x) { return __vgc_bessel_i(1, x); }
__VGC_FN__ float cyl_bessel_i0f(float x) { return (float)__vgc_bessel_i(0, (double)x); }
__VGC_FN__ float cyl_bessel_i1f(float x) { return (float)__vgc_bessel_i(1, (double)x); }

/* ---- overloads for floats ---- */

#define __VGC_1(name)                                                                                                                  \
    __VGC_FN__ float name(float x) { return name##f(x); }
__VGC_1(exp10) __VGC_1(cbrt) __VGC_1(rcbrt) __VGC_1(rsqrt) __VGC_1(sinpi) __VGC_1(cospi) __VGC_1(erfcx) __VGC_1(normcdf) __VGC_1(erfinv)
__VGC_1(erfcinv) __VGC_1(normcdfinv) __VGC_1(cyl_bessel_i0) __VGC_1(cyl_bessel_i1)
#undef __VGC_1
__VGC_FN__ void sincospi(float x, float *sine, float *cosine) { sincospif(x, sine, cosine); }
__VGC_FN__ void sincos(float x, float *sine, float *cosine) { sincosf(x, sine, cosine); }
#undef __VGC_SQRT_PI
#endif
