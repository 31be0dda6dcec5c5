/* cuRAND: MRG32k3a (L'Ecuyer, "Good parameters and implementations for combined multiple recursive random number
   generators", 1999). Subsequences lie 2^76 steps apart, sequences 2^127. */
#pragma once
#include "vgc_rand_bits.h"

#define MRG32K3A_NORM 2.3283065498378288e-10

/* One of the two recurrences: x(n) = a x(n-2) - b x(n-3), or a x(n-1) - b x(n-3), modulo 2^32 - `fold`. */
template <unsigned fold, unsigned a1, unsigned a2, unsigned b> struct __vgc_mrg {
    static constexpr unsigned modulus = 0u - fold;

    static __device__ __forceinline__ unsigned reduce(unsigned long long x) {
        x = (x >> 32) * fold + (unsigned)x;
        x = (x >> 32) * fold + (unsigned)x;
        return (unsigned)(x >= modulus ? x - modulus : x);
    }
    static __device__ __forceinline__ unsigned multiply(unsigned x, unsigned y) { return reduce((unsigned long long)x * y); }
    static __device__ __forceinline__ unsigned add(unsigned x, unsigned y) { return reduce((unsigned long long)x + y); }

    static __device__ __forceinline__ unsigned step(unsigned *s) {
        const unsigned next = reduce((unsigned long long)a1 * s[2] + (unsigned long long)a2 * s[1] + (unsigned long long)b * (modulus - s[0]));
        s[0] = s[1];
        s[1] = s[2];
        return s[2] = next;
    }
    /* x^3 is a1 x^2 + a2 x - b: the product of p and q, polynomials of the step, below x^3. */
    static __device__ __forceinline__ void square(unsigned *p) {
        unsigned c[5];
        c[0] = multiply(p[0], p[0]);
        c[1] = multiply(p[0], p[1]);
        c[1] = add(c[1], c[1]);
        c[2] = multiply(p[0], p[2]);
        c[2] = add(add(c[2], c[2]), multiply(p[1], p[1]));
        c[3] = multiply(p[1], p[2]);
        c[3] = add(c[3], c[3]);
        c[4] = multiply(p[2], p[2]);
        for (int i = 4; i > 2; i--) {
            c[i - 1] = add(c[i - 1], multiply(a1, c[i]));
            c[i - 2] = add(c[i - 2], multiply(a2, c[i]));
            c[i - 3] = add(c[i - 3], multiply(modulus - b, c[i]));
        }
        for (int i = 0; i < 3; i++)
            p[i] = c[i];
    }
    /* Goes n times as many steps as the polynomial p stands for. */
    static __device__ inline void jump(unsigned *s, const unsigned *unit, unsigned long long n) {
        unsigned p[3] = {unit[0], unit[1], unit[2]};
        for (; n; n >>= 1, square(p)) {
            if (!(n & 1))
                continue;
            unsigned sum[3] = {};
            for (int i = 0; i < 3; i++) {
                for (int j = 0; j < 3; j++)
                    sum[j] = add(sum[j], multiply(p[i], s[j]));
                step(s);
            }
            for (int j = 0; j < 3; j++)
                s[j] = sum[j];
        }
    }
};
typedef __vgc_mrg<209, 0, 1403580, 810728> __vgc_mrg1;
typedef __vgc_mrg<22853, 527612, 0, 1370589> __vgc_mrg2;

/* x, x^(2^76) and x^(2^127), for both recurrences. */
static __device__ const unsigned __vgc_mrg_jumps[3][2][3] = {
    {{0, 1, 0}, {0, 1, 0}},
    {{82758667, 1871391091, 4127413238}, {1511326704, 3759209742, 1610795712}},
    {{2427906178, 3580155704, 949770784}, {1464411153, 277697599, 1610723613}},
};

/* The integers 1 to 2^32 - 209, as a double. */
__VGC_FN__ double curand_MRG32k3a(curandStateMRG32k3a_t *state) {
    const unsigned first = __vgc_mrg1::step(state->s1), second = __vgc_mrg2::step(state->s2);
    return first - second + (first <= second ? __vgc_mrg1::modulus : 0);
}
/* Stretched to all of 32 bits by a factor a little above 1. */
__VGC_FN__ unsigned int curand(curandStateMRG32k3a_t *state) { return (unsigned)(curand_MRG32k3a(state) * 1.000000048662); }

__VGC_FN__ void __vgc_mrg_jump(unsigned long long n, int unit, curandStateMRG32k3a_t *state) {
    __vgc_mrg1::jump(state->s1, __vgc_mrg_jumps[unit][0], n);
    __vgc_mrg2::jump(state->s2, __vgc_mrg_jumps[unit][1], n);
}
__VGC_FN__ void skipahead(unsigned long long n, curandStateMRG32k3a_t *state) { __vgc_mrg_jump(n, 0, state); }
__VGC_FN__ void skipahead_subsequence(unsigned long long n, curandStateMRG32k3a_t *state) { __vgc_mrg_jump(n, 1, state); }
__VGC_FN__ void skipahead_sequence(unsigned long long n, curandStateMRG32k3a_t *state) { __vgc_mrg_jump(n, 2, state); }
__VGC_FN__ void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                            curandStateMRG32k3a_t *state) {
    const unsigned low = seed ? (unsigned)seed ^ 0x55555555u : 1, high = seed ? (unsigned)(seed >> 32) ^ 0xAAAAAAAAu : 1;
    for (int i = 0; i < 3; i++) {
        state->s1[i] = __vgc_mrg1::multiply(i == 1 ? high : low, 12345);
        state->s2[i] = __vgc_mrg2::multiply(i == 1 ? low : high, 12345);
    }
    skipahead_subsequence(subsequence, state);
    skipahead(offset, state);
    __vgc_rand_forget(state);
}
