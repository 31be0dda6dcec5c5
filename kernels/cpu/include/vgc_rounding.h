/* Arithmetic and conversions in all rounding modes. */
#pragma once
#include "vgc_builtins.h"

enum __vgc_rounding { __VGC_RN, __VGC_RZ, __VGC_RD, __VGC_RU };

#define __VGC_HD__ static __host__ __device__ __forceinline__

/* Begins a function whose divisions stay divisions. The guest's clang may be older
 * than the words: it parses this code, and runs none of it. */
#if __clang_major__ >= 18
#define __VGC_DIVIDES _Pragma("clang fp reciprocal(off)")
#else
#define __VGC_DIVIDES
#endif

/* `near`, or if the exact value differs from it and near's last bit is 0, its neighbour on the exact value's side. Rounds
 * to every format that is at least two bits shorter as the exact value does. `error` has the sign of exact - near. */
__VGC_HD__ double __vgc_odd(double near, double error) {
    const unsigned long long bits = __builtin_bit_cast(unsigned long long, near);
    const unsigned long long step = (error > 0) == (bits >> 63 == 0) ? 1ull : -1ull;
    return (bits & 1) == 0 && (error > 0 || error < 0) ? __builtin_bit_cast(double, bits + step) : near;
}
/* A float that rounds to every format of at most 22 bits as `x` does. */
__VGC_HD__ float __vgc_odd(double x) {
    const float near = (float)x;
    const double error = x - (double)near;
    const unsigned bits = __builtin_bit_cast(unsigned, near);
    const unsigned step = (error > 0) == (bits >> 31 == 0) ? 1u : -1u;
    return (bits & 1) == 0 && (error > 0 || error < 0) ? __builtin_bit_cast(float, bits + step) : near;
}
/* A double that rounds to every format of at most 51 bits as the integer does. */
__VGC_HD__ double __vgc_odd(long long x) {
    const long long coarse = (x & ~0xfffll) | ((x & 0xfff) != 0 ? 0x800 : 0);
    return (double)(x >= -(1ll << 53) && x <= 1ll << 53 ? x : coarse);
}
__VGC_HD__ double __vgc_odd(unsigned long long x) {
    const unsigned long long coarse = (x & ~0xfffull) | ((x & 0xfff) != 0 ? 0x800 : 0);
    return (double)(x <= 1ull << 53 ? x : coarse);
}
/* The error of a sum [Knuth: TwoSum]. */
__VGC_HD__ double __vgc_sum_error(double a, double b, double sum) {
#pragma clang fp reassociate(off) contract(off)
    const double part = sum - a;
    return (a - (sum - part)) + (b - part);
}

/* A sum of two numbers that is exactly zero is -0 if it is rounded down, unless both are +0. */
template <__vgc_rounding mode> __VGC_HD__ double __vgc_signed_zero(double a, double b, double sum) {
    const unsigned long long signs = __builtin_bit_cast(unsigned long long, a) | __builtin_bit_cast(unsigned long long, b);
    return mode == __VGC_RD && sum == 0 ? __builtin_bit_cast(double, signs & 1ull << 63) : sum;
}

template <__vgc_rounding mode> __VGC_HD__ float __vgc_to_float(double x) {
    const float near = (float)x;
    const bool above = (double)near > x, below = (double)near < x, negative = __builtin_signbit(near);
    const unsigned bits = __builtin_bit_cast(unsigned, near);
    const bool toward = mode == __VGC_RZ ? (negative ? below : above) : mode == __VGC_RD ? above && !negative : mode == __VGC_RU ? below && negative : false;
    const bool away = mode == __VGC_RD ? above && negative : mode == __VGC_RU ? below && !negative : false;
    return __builtin_bit_cast(float, bits - toward + away);
}

#ifdef __CUDACC__
/* ---- floats: doubles hold products exactly, and enough of everything else to round once ---- */

#define __VGC_FLOATS(suffix, mode)                                                                                                     \
    __VGC_FN__ float __fadd_##suffix(float a, float b) {                                                                               \
        _Pragma("clang fp contract(off)") const double sum = (double)a + (double)b;                                                    \
        return __vgc_to_float<mode>(__vgc_signed_zero<mode>(a, b, __vgc_odd(sum, __vgc_sum_error(a, b, sum))));                        \
    }                                                                                                                                  \
    __VGC_FN__ float __fsub_##suffix(float a, float b) { return __fadd_##suffix(a, -b); }                                              \
    __VGC_FN__ float __fmul_##suffix(float a, float b) {                                                                               \
        _Pragma("clang fp contract(off)") return __vgc_to_float<mode>((double)a * (double)b);                                          \
    }                                                                                                                                  \
    __VGC_FN__ float __fdiv_##suffix(float a, float b) {                                                                               \
        _Pragma("clang fp contract(off)") __VGC_DIVIDES const double quotient = (double)a / (double)b;                                 \
        const double rest = __builtin_fma(-quotient, (double)b, (double)a);                                                            \
        return __vgc_to_float<mode>(__vgc_odd(quotient, __builtin_signbit(b) ? -rest : rest));                                         \
    }                                                                                                                                  \
    __VGC_FN__ float __fsqrt_##suffix(float a) {                                                                                       \
        const double root = __builtin_sqrt((double)a);                                                                                 \
        return __vgc_to_float<mode>(__vgc_odd(root, __builtin_fma(-root, root, (double)a)));                                           \
    }                                                                                                                                  \
    __VGC_FN__ float __frcp_##suffix(float a) { return __fdiv_##suffix(1.0f, a); }                                                     \
    __VGC_FN__ float __fmaf_##suffix(float a, float b, float c) {                                                                      \
        _Pragma("clang fp contract(off)") const double product = (double)a * (double)b, sum = product + (double)c;                     \
        const double odd = __vgc_odd(sum, __vgc_sum_error(product, (double)c, sum));                                                   \
        return __vgc_to_float<mode>(__vgc_signed_zero<mode>(product, (double)c, odd));                                                 \
    }                                                                                                                                  \
    __VGC_FN__ float __fmaf_ieee_##suffix(float a, float b, float c) { return __fmaf_##suffix(a, b, c); }
__VGC_FLOATS(rz, __VGC_RZ) __VGC_FLOATS(rd, __VGC_RD) __VGC_FLOATS(ru, __VGC_RU)
#undef __VGC_FLOATS

/* ---- to nearest: never contracted ---- */

#define __VGC_NEAR(type, prefix, s)                                                                                                    \
    __VGC_FN__ type __##prefix##add_rn(type a, type b) { _Pragma("clang fp contract(off)") return a + b; }                             \
    __VGC_FN__ type __##prefix##sub_rn(type a, type b) { _Pragma("clang fp contract(off)") return a - b; }                             \
    __VGC_FN__ type __##prefix##mul_rn(type a, type b) { _Pragma("clang fp contract(off)") return a * b; }                             \
    __VGC_FN__ type __##prefix##div_rn(type a, type b) { __VGC_DIVIDES return a / b; }                                                 \
    __VGC_FN__ type __##prefix##rcp_rn(type a) { __VGC_DIVIDES return (type)1 / a; }                                                   \
    __VGC_FN__ type __##prefix##sqrt_rn(type a) { return __builtin_sqrt##s(a); }
__VGC_NEAR(float, f, f)
__VGC_NEAR(double, d, )
#undef __VGC_NEAR
__VGC_FN__ float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__VGC_FN__ float __fmaf_ieee_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__VGC_FN__ double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
__VGC_FN__ float __frsqrt_rn(float a) { return (float)(1.0 / __builtin_sqrt((double)a)); }

/* ---- doubles: in the processor's rounding mode ---- */

/* Runs one instruction on `a` in the mode with these bits of the control register. */
#define __VGC_IN_MODE(bits, instruction, a, ...)                                                                                       \
    unsigned saved, changed;                                                                                                           \
    __asm__ volatile("stmxcsr %1\n\tmovl %1, %2\n\torl $" #bits ", %2\n\tmovl %2, %3\n\tldmxcsr %3\n\t" instruction "\n\tldmxcsr %1"   \
                     : "+x"(a), "=m"(saved), "=&r"(scratch), "=m"(changed)                                                             \
                     : __VA_ARGS__);
#define __VGC_DOUBLES(suffix, bits)                                                                                                    \
    __VGC_FN__ double __dadd_##suffix(double a, double b) { unsigned scratch; __VGC_IN_MODE(bits, "addsd %4, %0", a, "x"(b)) return a; } \
    __VGC_FN__ double __dsub_##suffix(double a, double b) { unsigned scratch; __VGC_IN_MODE(bits, "subsd %4, %0", a, "x"(b)) return a; } \
    __VGC_FN__ double __dmul_##suffix(double a, double b) { unsigned scratch; __VGC_IN_MODE(bits, "mulsd %4, %0", a, "x"(b)) return a; } \
    __VGC_FN__ double __ddiv_##suffix(double a, double b) { unsigned scratch; __VGC_IN_MODE(bits, "divsd %4, %0", a, "x"(b)) return a; } \
    __VGC_FN__ double __dsqrt_##suffix(double a) { unsigned scratch; __VGC_IN_MODE(bits, "sqrtsd %4, %0", a, "x"(a)) return a; }       \
    __VGC_FN__ double __drcp_##suffix(double a) { return __ddiv_##suffix(1.0, a); }                                                    \
    __VGC_FN__ double __fma_##suffix(double a, double b, double c) {                                                                   \
        unsigned scratch;                                                                                                              \
        __VGC_FMA(bits)                                                                                                                \
    }
#ifdef __FMA__
#define __VGC_FMA(bits) __VGC_IN_MODE(bits, "vfmadd231sd %5, %4, %0", c, "x"(a), "x"(b)) return c;
#else /* the C library's takes the mode into account */
#define __VGC_FMA(bits)                                                                                                                \
    unsigned saved, changed;                                                                                                           \
    __asm__ volatile("stmxcsr %0" : "=m"(saved));                                                                                      \
    changed = saved | bits, scratch = 0;                                                                                               \
    __asm__ volatile("ldmxcsr %3" : "+x"(a), "+x"(b), "+x"(c) : "m"(changed));                                                         \
    double result = __builtin_fma(a, b, c);                                                                                            \
    __asm__ volatile("ldmxcsr %1" : "+x"(result) : "m"(saved));                                                                        \
    return result;
#endif
__VGC_DOUBLES(rz, 0x6000) __VGC_DOUBLES(rd, 0x2000) __VGC_DOUBLES(ru, 0x4000)
#undef __VGC_DOUBLES
#undef __VGC_FMA
#undef __VGC_IN_MODE

/* ---- bits ---- */

__VGC_HD__ int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
__VGC_HD__ unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
__VGC_HD__ float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
__VGC_HD__ float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
__VGC_HD__ long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
__VGC_HD__ double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
__VGC_HD__ int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
__VGC_HD__ int __double2loint(double x) { return (int)__double_as_longlong(x); }
__VGC_HD__ double __hiloint2double(int hi, int lo) {
    return __longlong_as_double((long long)((unsigned long long)(unsigned)hi << 32 | (unsigned)lo));
}

/* ---- conversions: what is out of range becomes the nearest value ---- */

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
/* The upper and lower half of an integer are exact, their sum is rounded. */
#define __VGC_FROM_INTEGER(suffix, mode)                                                                                               \
    __VGC_FN__ float __double2float_##suffix(double x) { return __vgc_to_float<mode>(x); }                                             \
    __VGC_FN__ float __int2float_##suffix(int x) { return __vgc_to_float<mode>((double)x); }                                           \
    __VGC_FN__ float __uint2float_##suffix(unsigned x) { return __vgc_to_float<mode>((double)x); }                                     \
    __VGC_FN__ float __ll2float_##suffix(long long x) { return __vgc_to_float<mode>(__vgc_odd(x)); }                                   \
    __VGC_FN__ float __ull2float_##suffix(unsigned long long x) { return __vgc_to_float<mode>(__vgc_odd(x)); }                         \
    __VGC_FN__ double __ll2double_##suffix(long long x) {                                                                              \
        return __dadd_##suffix((double)(x >> 32) * 0x1p32, (double)(unsigned)x);                                                       \
    }                                                                                                                                  \
    __VGC_FN__ double __ull2double_##suffix(unsigned long long x) {                                                                    \
        return x == 0 ? 0.0 : __dadd_##suffix((double)(unsigned)(x >> 32) * 0x1p32, (double)(unsigned)x);                              \
    }
__VGC_FROM_INTEGER(rz, __VGC_RZ) __VGC_FROM_INTEGER(rd, __VGC_RD) __VGC_FROM_INTEGER(ru, __VGC_RU)
#undef __VGC_FROM_INTEGER
#endif
