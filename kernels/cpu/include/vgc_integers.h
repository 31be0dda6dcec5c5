/* Intrinsics on integers; minimum and maximum. */
#pragma once
#include "vgc_builtins.h"
#include "vector_types.h"


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
__VGC_FN__ int __mul24(int a, int b) {
    return (int)((unsigned)((int)((unsigned)a << 8) >> 8) * (unsigned)((int)((unsigned)b << 8) >> 8));
}
__VGC_FN__ unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
__VGC_FN__ unsigned __sad(int a, int b, unsigned c) { return c + (a > b ? (unsigned)a - (unsigned)b : (unsigned)b - (unsigned)a); }
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
    for (int i = 0; i < 4; i++)
        result |= ((unsigned)(bytes >> 8 * (selector >> 4 * i & 7)) & 0xff) << 8 * i;
    return result;
}
#define __VGC_DOT(type, word, byte, half, vector4, vector2)                                                                            \
    __VGC_FN__ type __dp4a(word a, word b, type c) {                                                                                   \
        for (int i = 0; i < 4; i++)                                                                                                    \
            c += (type)((int)(byte)((unsigned)a >> 8 * i) * (int)(byte)((unsigned)b >> 8 * i));                                        \
        return c;                                                                                                                      \
    }                                                                                                                                  \
    __VGC_FN__ type __dp2a_lo(word a, word b, type c) {                                                                                \
        return (type)((unsigned)c + (unsigned)((int)(half)(unsigned)a * (int)(byte)(unsigned)b) +                                      \
                      (unsigned)((int)(half)((unsigned)a >> 16) * (int)(byte)((unsigned)b >> 8)));                                     \
    }                                                                                                                                  \
    __VGC_FN__ type __dp2a_hi(word a, word b, type c) { return __dp2a_lo(a, (word)((unsigned)b >> 16), c); }                           \
    __VGC_FN__ type __dp4a(vector4 a, vector4 b, type c) {                                                                             \
        return __dp4a(__builtin_bit_cast(word, a), __builtin_bit_cast(word, b), c);                                                    \
    }                                                                                                                                  \
    __VGC_FN__ type __dp2a_lo(vector2 a, vector4 b, type c) {                                                                          \
        return __dp2a_lo(__builtin_bit_cast(word, a), __builtin_bit_cast(word, b), c);                                                 \
    }                                                                                                                                  \
    __VGC_FN__ type __dp2a_hi(vector2 a, vector4 b, type c) {                                                                          \
        return __dp2a_hi(__builtin_bit_cast(word, a), __builtin_bit_cast(word, b), c);                                                 \
    }
__VGC_DOT(int, int, signed char, short, char4, short2)
__VGC_DOT(unsigned, unsigned, unsigned char, unsigned short, uchar4, ushort2)
#undef __VGC_DOT
/* Position of the bit that is number `offset` from `base` on, downwards if `offset` is negative; all ones beyond the last. */
__VGC_FN__ unsigned __fns(unsigned mask, unsigned base, int offset) {
    if (offset == 0)
        return mask >> (base & 31) & 1 ? base : ~0u;
    const int step = offset < 0 ? -1 : 1;
    int left = offset < 0 ? -offset : offset;
    for (int i = (int)base; i >= 0 && i < 32; i += step)
        if ((mask >> i & 1) != 0 && --left == 0)
            return (unsigned)i;
    return ~0u;
}
__VGC_FN__ int mulhi(int a, int b) { return __mulhi(a, b); }
__VGC_FN__ unsigned mulhi(unsigned a, unsigned b) { return __umulhi(a, b); }
__VGC_FN__ long long mul64hi(long long a, long long b) { return __mul64hi(a, b); }
__VGC_FN__ unsigned long long mul64hi(unsigned long long a, unsigned long long b) { return __umul64hi(a, b); }
__VGC_FN__ int mul24(int a, int b) { return __mul24(a, b); }
__VGC_FN__ unsigned umul24(unsigned a, unsigned b) { return __umul24(a, b); }

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
__VGC_MIXED(long long, unsigned long long, unsigned long long) __VGC_MIXED(long, unsigned long, unsigned long)
__VGC_MIXED(unsigned, unsigned long, unsigned long) __VGC_MIXED(unsigned, float, float)
#undef __VGC_MIXED
__VGC_FN__ unsigned umin(unsigned a, unsigned b) { return min(a, b); }
__VGC_FN__ unsigned umax(unsigned a, unsigned b) { return max(a, b); }
__VGC_FN__ long long llmin(long long a, long long b) { return min(a, b); }
__VGC_FN__ unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
__VGC_FN__ unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }
__VGC_FN__ long long llmax(long long a, long long b) { return max(a, b); }
__VGC_FN__ int abs(int x) { return x < 0 ? -x : x; }
__VGC_FN__ long abs(long x) { return x < 0 ? -x : x; }
__VGC_FN__ long long abs(long long x) { return x < 0 ? -x : x; }
__VGC_FN__ float abs(float x) { return __builtin_fabsf(x); }
__VGC_FN__ double abs(double x) { return __builtin_fabs(x); }
__VGC_FN__ long labs(long x) { return abs(x); }
__VGC_FN__ long long llabs(long long x) { return abs(x); }
