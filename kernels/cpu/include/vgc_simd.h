/* Intrinsics on the bytes or halves of a word, and on triples (DPX). */
#pragma once
#include "vgc_builtins.h"

/* `count` parts of a word, computed one by one; the optimiser makes vectors of them. */
#define __VGC_PARTS(result, name, params, count, expression)                                                                           \
    __VGC_FN__ result name params {                                                                                                    \
        const int width = 32 / count;                                                                                                  \
        const unsigned mask = 0xffffffffu >> (32 - width);                                                                             \
        unsigned all = 0;                                                                                                              \
        for (int at = 0; at < 32; at += width)                                                                                         \
            all |= ((unsigned)(expression) & mask) << at;                                                                              \
        return (result)all;                                                                                                            \
    }
#define __VGC_S(x) ((int)((x) << (32 - width - at)) >> (32 - width))
#define __VGC_U(x) ((int)((x) >> at & mask))
#define __VGC_LEAST (-(int)(mask >> 1) - 1)
#define __VGC_MOST ((int)(mask >> 1))
#define __VGC_CLAMP_S(x) __vgc_clamp(x, __VGC_LEAST, __VGC_MOST)
#define __VGC_CLAMP_U(x) __vgc_clamp(x, 0, (int)mask)
#define __VGC_A __VGC_S(a)
#define __VGC_B __VGC_S(b)
#define __VGC_UA __VGC_U(a)
#define __VGC_UB __VGC_U(b)
__VGC_FN__ int __vgc_clamp(int x, int low, int high) { return x < low ? low : x > high ? high : x; }

#define __VGC_1(name, expression)                                                                                                      \
    __VGC_PARTS(unsigned, name##2, (unsigned a), 2, expression) __VGC_PARTS(unsigned, name##4, (unsigned a), 4, expression)
#define __VGC_2(name, expression)                                                                                                      \
    __VGC_PARTS(unsigned, name##2, (unsigned a, unsigned b), 2, expression)                                                            \
    __VGC_PARTS(unsigned, name##4, (unsigned a, unsigned b), 4, expression)
__VGC_1(__vabs, __VGC_A < 0 ? -__VGC_A : __VGC_A)
__VGC_1(__vabsss, __VGC_CLAMP_S(__VGC_A < 0 ? -__VGC_A : __VGC_A))
__VGC_1(__vneg, -__VGC_A)
__VGC_1(__vnegss, __VGC_CLAMP_S(-__VGC_A))
__VGC_2(__vadd, __VGC_UA + __VGC_UB)
__VGC_2(__vaddss, __VGC_CLAMP_S(__VGC_A + __VGC_B))
__VGC_2(__vaddus, __VGC_CLAMP_U(__VGC_UA + __VGC_UB))
__VGC_2(__vsub, __VGC_UA - __VGC_UB)
__VGC_2(__vsubss, __VGC_CLAMP_S(__VGC_A - __VGC_B))
__VGC_2(__vsubus, __VGC_CLAMP_U(__VGC_UA - __VGC_UB))
__VGC_2(__vabsdiffs, __VGC_A > __VGC_B ? __VGC_A - __VGC_B : __VGC_B - __VGC_A)
__VGC_2(__vabsdiffu, __VGC_UA > __VGC_UB ? __VGC_UA - __VGC_UB : __VGC_UB - __VGC_UA)
__VGC_2(__vavgs, (__VGC_A + __VGC_B + (__VGC_A + __VGC_B >= 0)) >> 1)
__VGC_2(__vavgu, (__VGC_UA + __VGC_UB + 1) >> 1)
__VGC_2(__vhaddu, (__VGC_UA + __VGC_UB) >> 1)
__VGC_2(__vmaxs, __VGC_A > __VGC_B ? __VGC_A : __VGC_B)
__VGC_2(__vmaxu, __VGC_UA > __VGC_UB ? __VGC_UA : __VGC_UB)
__VGC_2(__vmins, __VGC_A < __VGC_B ? __VGC_A : __VGC_B)
__VGC_2(__vminu, __VGC_UA < __VGC_UB ? __VGC_UA : __VGC_UB)
#define __VGC_COMPARE(name, condition) __VGC_2(__vcmp##name, (condition) ? ~0u : 0u) __VGC_2(__vset##name, (condition) ? 1u : 0u)
__VGC_COMPARE(eq, __VGC_UA == __VGC_UB) __VGC_COMPARE(ne, __VGC_UA != __VGC_UB)
__VGC_COMPARE(ges, __VGC_A >= __VGC_B) __VGC_COMPARE(gts, __VGC_A > __VGC_B) __VGC_COMPARE(les, __VGC_A <= __VGC_B)
__VGC_COMPARE(lts, __VGC_A < __VGC_B) __VGC_COMPARE(geu, __VGC_UA >= __VGC_UB) __VGC_COMPARE(gtu, __VGC_UA > __VGC_UB)
__VGC_COMPARE(leu, __VGC_UA <= __VGC_UB) __VGC_COMPARE(ltu, __VGC_UA < __VGC_UB)
#undef __VGC_COMPARE
#define __VGC_SUM(name, count, difference)                                                                                             \
    __VGC_FN__ unsigned name(unsigned a, unsigned b) {                                                                                 \
        const unsigned parts = difference(a, b), width = 32 / count;                                                                   \
        unsigned sum = 0;                                                                                                              \
        for (unsigned at = 0; at < 32; at += width)                                                                                    \
            sum += parts >> at & (0xffffffffu >> (32 - width));                                                                        \
        return sum;                                                                                                                    \
    }
__VGC_SUM(__vsads2, 2, __vabsdiffs2) __VGC_SUM(__vsads4, 4, __vabsdiffs4)
__VGC_SUM(__vsadu2, 2, __vabsdiffu2) __VGC_SUM(__vsadu4, 4, __vabsdiffu4)
#undef __VGC_SUM
#undef __VGC_1
#undef __VGC_2

/* ---- DPX: minimum and maximum of two or three, of a sum and a third, not below 0 (relu) ---- */

#define __VGC_MAX(a, b) ((a) > (b) ? (a) : (b))
#define __VGC_MIN(a, b) ((a) < (b) ? (a) : (b))
/* Sums wrap around, within a part too. */
#define __VGC_DPX(pick, PICK)                                                                                                          \
    __VGC_FN__ int __vi##pick##3_s32(int a, int b, int c) { return PICK(PICK(a, b), c); }                                              \
    __VGC_FN__ unsigned __vi##pick##3_u32(unsigned a, unsigned b, unsigned c) { return PICK(PICK(a, b), c); }                          \
    __VGC_FN__ int __vi##pick##3_s32_relu(int a, int b, int c) { return __VGC_MAX(__vi##pick##3_s32(a, b, c), 0); }                    \
    __VGC_FN__ int __vi##pick##_s32_relu(int a, int b) { return __VGC_MAX(PICK(a, b), 0); }                                            \
    __VGC_FN__ int __viadd##pick##_s32(int a, int b, int c) {                                                                          \
        const int sum = (int)((unsigned)a + (unsigned)b);                                                                              \
        return PICK(sum, c);                                                                                                           \
    }                                                                                                                                  \
    __VGC_FN__ unsigned __viadd##pick##_u32(unsigned a, unsigned b, unsigned c) { return PICK(a + b, c); }                             \
    __VGC_FN__ int __viadd##pick##_s32_relu(int a, int b, int c) { return __VGC_MAX(__viadd##pick##_s32(a, b, c), 0); }                \
    __VGC_PARTS(unsigned, __vi##pick##3_s16x2, (unsigned a, unsigned b, unsigned c), 2, PICK(PICK(__VGC_A, __VGC_B), __VGC_S(c)))      \
    __VGC_PARTS(unsigned, __vi##pick##3_u16x2, (unsigned a, unsigned b, unsigned c), 2, PICK(PICK(__VGC_UA, __VGC_UB), __VGC_U(c)))    \
    __VGC_PARTS(unsigned, __vi##pick##3_s16x2_relu, (unsigned a, unsigned b, unsigned c), 2,                                           \
                __VGC_MAX(PICK(PICK(__VGC_A, __VGC_B), __VGC_S(c)), 0))                                                                \
    __VGC_PARTS(unsigned, __vi##pick##_s16x2_relu, (unsigned a, unsigned b), 2, __VGC_MAX(PICK(__VGC_A, __VGC_B), 0))                  \
    __VGC_PARTS(unsigned, __viadd##pick##_s16x2, (unsigned a, unsigned b, unsigned c), 2,                                              \
                PICK((int)(short)(__VGC_A + __VGC_B), __VGC_S(c)))                                                                     \
    __VGC_PARTS(unsigned, __viadd##pick##_u16x2, (unsigned a, unsigned b, unsigned c), 2,                                              \
                PICK((int)(unsigned short)(__VGC_UA + __VGC_UB), __VGC_U(c)))                                                          \
    __VGC_PARTS(unsigned, __viadd##pick##_s16x2_relu, (unsigned a, unsigned b, unsigned c), 2,                                         \
                __VGC_MAX(PICK((int)(short)(__VGC_A + __VGC_B), __VGC_S(c)), 0))
__VGC_DPX(max, __VGC_MAX) __VGC_DPX(min, __VGC_MIN)
#undef __VGC_DPX
/* `first`: whether the first operand is taken. */
#define __VGC_DPX(pick, op, part)                                                                                                      \
    __VGC_FN__ int __vib##pick##_s32(int a, int b, bool *first) { return (*first = a op b) ? a : b; }                                  \
    __VGC_FN__ unsigned __vib##pick##_u32(unsigned a, unsigned b, bool *first) { return (*first = a op b) ? a : b; }                   \
    __VGC_FN__ unsigned __vib##pick##_s16x2(unsigned a, unsigned b, bool *first_high, bool *first_low) {                               \
        *first_high = (short)(a >> 16) op(short)(b >> 16);                                                                             \
        *first_low = (short)a op(short) b;                                                                                             \
        return __v##part##s2(a, b);                                                                                                    \
    }                                                                                                                                  \
    __VGC_FN__ unsigned __vib##pick##_u16x2(unsigned a, unsigned b, bool *first_high, bool *first_low) {                               \
        *first_high = (unsigned short)(a >> 16) op(unsigned short)(b >> 16);                                                           \
        *first_low = (unsigned short)a op(unsigned short) b;                                                                           \
        return __v##part##u2(a, b);                                                                                                    \
    }
__VGC_DPX(max, >=, max) __VGC_DPX(min, <=, min)
#undef __VGC_DPX
#undef __VGC_MAX
#undef __VGC_MIN
#undef __VGC_PARTS
#undef __VGC_S
#undef __VGC_U
#undef __VGC_LEAST
#undef __VGC_MOST
#undef __VGC_CLAMP_S
#undef __VGC_CLAMP_U
#undef __VGC_A
#undef __VGC_B
#undef __VGC_UA
#undef __VGC_UB
