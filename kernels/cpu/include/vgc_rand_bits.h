/* cuRAND: states, and the integers of each generator. The sequences are those of NVIDIA's library. */
#pragma once
#include <cuda_runtime.h>
#include "curand.h"
#ifdef __CUDACC__
#ifndef __VGC_FN__ /* NVIDIA's compilers, on hosts without cuRAND's own headers */
#define __VGC_FN__ static __device__ __forceinline__
#endif
#include "vgc_rand_jump.h"
#endif

#define EXTRA_FLAG_NORMAL 1
#define EXTRA_FLAG_LOG_NORMAL 2

struct curandStateXORWOW {
    unsigned int d, v[5];
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
};
struct curandStatePhilox4_32_10 {
    uint4 ctr, output;
    uint2 key;
    unsigned int STATE;
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
};
struct curandStateMRG32k3a {
    unsigned int s1[3], s2[3];
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
};
struct curandStateSobol32 {
    unsigned int i, x, c, direction_vectors[32];
};
struct curandStateScrambledSobol32 {
    unsigned int i, x, c, direction_vectors[32];
};
struct curandStateSobol64 {
    unsigned long long i, x, c, direction_vectors[64];
};
struct curandStateScrambledSobol64 {
    unsigned long long i, x, c, direction_vectors[64];
};
typedef curandStateXORWOW curandStateXORWOW_t, curandState_t, curandState;
typedef curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;
typedef curandStateMRG32k3a curandStateMRG32k3a_t;
typedef curandStateSobol32 curandStateSobol32_t;
typedef curandStateScrambledSobol32 curandStateScrambledSobol32_t;
typedef curandStateSobol64 curandStateSobol64_t;
typedef curandStateScrambledSobol64 curandStateScrambledSobol64_t;

#ifdef __CUDACC__ /* other files have no use but for the types */
/* The second value of a Box-Muller pair waits in the state. */
template <class State> __VGC_FN__ void __vgc_rand_forget(State *state) {
    state->boxmuller_flag = state->boxmuller_flag_double = 0;
    state->boxmuller_extra = 0;
    state->boxmuller_extra_double = 0;
}

/* XORWOW: Marsaglia, "Xorshift RNGs", 2003, page 5. Sequences lie 2^67 steps apart. */
__VGC_FN__ unsigned __vgc_xorwow_step(unsigned *v) {
    const unsigned t = v[0] ^ v[0] >> 2;
    for (int i = 0; i < 4; i++)
        v[i] = v[i + 1];
    return v[4] = v[4] ^ v[4] << 4 ^ t ^ t << 1;
}
/* Goes n times 2^k steps, where `jumps` begins with x^(2^k). */
static __device__ inline void __vgc_xorwow_jump(unsigned *v, const unsigned (*jumps)[5], unsigned long long n) {
    for (; n; n >>= 1, jumps++) {
        if (!(n & 1))
            continue;
        unsigned sum[5] = {};
        for (int word = 0; word < 5; word++)
            for (int bit = 0; bit < 32; bit++) {
                const unsigned chosen = -(jumps[0][word] >> bit & 1);
                for (int i = 0; i < 5; i++)
                    sum[i] ^= v[i] & chosen;
                __vgc_xorwow_step(v);
            }
        for (int i = 0; i < 5; i++)
            v[i] = sum[i];
    }
}
__VGC_FN__ unsigned int curand(curandStateXORWOW_t *state) {
    state->d += 362437;
    return __vgc_xorwow_step(state->v) + state->d;
}
__VGC_FN__ void skipahead(unsigned long long n, curandStateXORWOW_t *state) {
    __vgc_xorwow_jump(state->v, __vgc_xorwow_jumps[0], n);
    state->d += 362437 * (unsigned)n;
}
__VGC_FN__ void skipahead_sequence(unsigned long long n, curandStateXORWOW_t *state) {
    __vgc_xorwow_jump(state->v, __vgc_xorwow_jumps[1], n);
}
__VGC_FN__ void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                            curandStateXORWOW_t *state) {
    const unsigned low = ((unsigned)seed ^ 0xaad26b49u) * 1099087573u;
    const unsigned high = ((unsigned)(seed >> 32) ^ 0xf7dcefddu) * 2591861531u;
    state->d = 6615241 + high + low;
    state->v[0] = 123456789 + low;
    state->v[1] = 362436069 ^ low;
    state->v[2] = 521288629 + high;
    state->v[3] = 88675123 ^ high;
    state->v[4] = 5783321 + low;
    skipahead_sequence(subsequence, state);
    skipahead(offset, state);
    __vgc_rand_forget(state);
}

/* Philox4x32-10: Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", 2011. The counter's low half counts
   blocks of four, the high half sequences. */
__VGC_FN__ uint4 curand_Philox4x32_10(uint4 counter, uint2 key) {
    for (int round = 0; round < 10; round++) {
        const unsigned long long a = 0xD2511F53ull * counter.x, b = 0xCD9E8D57ull * counter.z;
        counter = make_uint4((unsigned)(b >> 32) ^ counter.y ^ key.x, (unsigned)b, (unsigned)(a >> 32) ^ counter.w ^ key.y,
                             (unsigned)a);
        key.x += 0x9E3779B9u;
        key.y += 0xBB67AE85u;
    }
    return counter;
}
__VGC_FN__ void __vgc_philox_next(curandStatePhilox4_32_10_t *state) {
    if (++state->ctr.x == 0 && ++state->ctr.y == 0 && ++state->ctr.z == 0)
        ++state->ctr.w;
    state->output = curand_Philox4x32_10(state->ctr, state->key);
}
__VGC_FN__ unsigned __vgc_philox_pick(uint4 block, unsigned place) {
    return place == 0 ? block.x : place == 1 ? block.y : place == 2 ? block.z : block.w;
}
__VGC_FN__ unsigned int curand(curandStatePhilox4_32_10_t *state) {
    const unsigned result = __vgc_philox_pick(state->output, state->STATE++);
    if (state->STATE == 4) {
        __vgc_philox_next(state);
        state->STATE = 0;
    }
    return result;
}
__VGC_FN__ uint4 curand4(curandStatePhilox4_32_10_t *state) {
    const uint4 old = state->output;
    __vgc_philox_next(state);
    const uint4 next = state->output;
    switch (state->STATE) {
    case 1:
        return make_uint4(old.y, old.z, old.w, next.x);
    case 2:
        return make_uint4(old.z, old.w, next.x, next.y);
    case 3:
        return make_uint4(old.w, next.x, next.y, next.z);
    default:
        return old;
    }
}
__VGC_FN__ void skipahead(unsigned long long n, curandStatePhilox4_32_10_t *state) {
    const unsigned place = state->STATE + (unsigned)(n & 3);
    const unsigned long long blocks = n / 4 + place / 4;
    state->STATE = place % 4;
    const unsigned long long low = ((unsigned long long)state->ctr.y << 32 | state->ctr.x) + blocks;
    state->ctr.x = (unsigned)low;
    state->ctr.y = (unsigned)(low >> 32);
    if (low < blocks && ++state->ctr.z == 0)
        ++state->ctr.w;
    state->output = curand_Philox4x32_10(state->ctr, state->key);
}
__VGC_FN__ void skipahead_sequence(unsigned long long n, curandStatePhilox4_32_10_t *state) {
    const unsigned long long high = ((unsigned long long)state->ctr.w << 32 | state->ctr.z) + n;
    state->ctr.z = (unsigned)high;
    state->ctr.w = (unsigned)(high >> 32);
    state->output = curand_Philox4x32_10(state->ctr, state->key);
}
__VGC_FN__ void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                            curandStatePhilox4_32_10_t *state) {
    state->ctr = make_uint4(0, 0, (unsigned)subsequence, (unsigned)(subsequence >> 32));
    state->key = make_uint2((unsigned)seed, (unsigned)(seed >> 32));
    state->STATE = 0;
    skipahead(offset, state);
    __vgc_rand_forget(state);
}

/* Sobol: bit by bit in Gray code's order. The directions are the caller's. */
template <class State, class Word> __VGC_FN__ void __vgc_sobol_skip(Word n, State *state) {
    state->i += n;
    state->x = state->c;
    const Word gray = state->i ^ state->i >> 1;
    for (unsigned k = 0; k < 8 * sizeof(Word); k++)
        state->x ^= gray >> k & 1 ? state->direction_vectors[k] : 0;
}
template <class State, class Word> __VGC_FN__ void __vgc_sobol_start(const Word *directions, Word scramble, Word offset, State *state) {
    for (unsigned k = 0; k < 8 * sizeof(Word); k++)
        state->direction_vectors[k] = directions[k];
    state->i = 0;
    state->c = scramble;
    __vgc_sobol_skip(offset, state);
}
template <class State> __VGC_FN__ auto __vgc_sobol_next(State *state) -> decltype(state->x) {
    const auto result = state->x;
    const int zeros = __ffsll(~(unsigned long long)state->i) - 1, last = 8 * sizeof state->i - 1;
    state->x ^= state->direction_vectors[zeros < 0 || zeros > last ? last : zeros];
    state->i++;
    return result;
}
#define __VGC_SOBOL(State, Word)                                                                                                       \
    __VGC_FN__ Word curand(State *state) { return __vgc_sobol_next(state); }                                                           \
    __VGC_FN__ void skipahead(Word n, State *state) { __vgc_sobol_skip(n, state); }
__VGC_SOBOL(curandStateSobol32_t, unsigned int)
__VGC_SOBOL(curandStateScrambledSobol32_t, unsigned int)
__VGC_SOBOL(curandStateSobol64_t, unsigned long long)
__VGC_SOBOL(curandStateScrambledSobol64_t, unsigned long long)
#undef __VGC_SOBOL
__VGC_FN__ void curand_init(curandDirectionVectors32_t directions, unsigned int offset, curandStateSobol32_t *state) {
    __vgc_sobol_start(directions, 0u, offset, state);
}
__VGC_FN__ void curand_init(curandDirectionVectors32_t directions, unsigned int scramble, unsigned int offset,
                            curandStateScrambledSobol32_t *state) {
    __vgc_sobol_start(directions, scramble, offset, state);
}
__VGC_FN__ void curand_init(curandDirectionVectors64_t directions, unsigned long long offset, curandStateSobol64_t *state) {
    __vgc_sobol_start(directions, 0ull, offset, state);
}
__VGC_FN__ void curand_init(curandDirectionVectors64_t directions, unsigned long long scramble, unsigned long long offset,
                            curandStateScrambledSobol64_t *state) {
    __vgc_sobol_start(directions, scramble, offset, state);
}
#endif
