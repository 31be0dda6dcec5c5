/* cuRAND: uniform, normal and log-normal numbers. */
#pragma once
#include "vgc_rand_mrg.h"
#include "vgc_rand_mtgp.h"

/* The middles of 2^32 equal parts of (0, 1], and of 2^53. */
__VGC_FN__ float _curand_uniform(unsigned int x) { return x * 0x1p-32f + 0x1p-33f; }
__VGC_FN__ float _curand_uniform(unsigned long long x) { return _curand_uniform((unsigned)(x >> 32)); }
__VGC_FN__ double _curand_uniform_double(unsigned int x) { return x * 0x1p-32 + 0x1p-32; }
__VGC_FN__ double _curand_uniform_double(unsigned long long x) { return (x >> 11) * 0x1p-53 + 0x1p-54; }
__VGC_FN__ double _curand_uniform_double_hq(unsigned int x, unsigned int y) {
    return (x ^ (unsigned long long)y << 21) * 0x1p-53 + 0x1p-54;
}

template <class State> __VGC_FN__ float curand_uniform(State *state) { return _curand_uniform(curand(state)); }
template <class State> __VGC_FN__ double curand_uniform_double(State *state) { return _curand_uniform_double(curand(state)); }
__VGC_FN__ double curand_uniform_double(curandStateXORWOW_t *state) {
    const unsigned x = curand(state);
    return _curand_uniform_double_hq(x, curand(state));
}
__VGC_FN__ float curand_uniform(curandStateMRG32k3a_t *state) { return (float)(curand_MRG32k3a(state) * MRG32K3A_NORM); }
__VGC_FN__ double curand_uniform_double(curandStateMRG32k3a_t *state) { return curand_MRG32k3a(state) * MRG32K3A_NORM; }
__VGC_FN__ float4 curand_uniform4(curandStatePhilox4_32_10_t *state) {
    const uint4 x = curand4(state);
    return make_float4(_curand_uniform(x.x), _curand_uniform(x.y), _curand_uniform(x.z), _curand_uniform(x.w));
}
__VGC_FN__ double2 curand_uniform2_double(curandStatePhilox4_32_10_t *state) {
    const uint4 x = curand4(state);
    return make_double2(_curand_uniform_double_hq(x.x, x.y), _curand_uniform_double_hq(x.z, x.w));
}
__VGC_FN__ double4 curand_uniform4_double(curandStatePhilox4_32_10_t *state) {
    const double2 a = curand_uniform2_double(state), b = curand_uniform2_double(state);
    return make_double4(a.x, a.y, b.x, b.y);
}

/* Box and Muller's pair, sine first. `turns` from 0 to 2 is once around. */
__VGC_FN__ float2 __vgc_rand_pair(float u, float angle) {
    const float radius = sqrtf(-2.0f * logf(u));
    float2 result;
    __sincosf(angle, &result.x, &result.y);
    return make_float2(result.x * radius, result.y * radius);
}
__VGC_FN__ double2 __vgc_rand_pair_double(double u, double turns) {
    const double radius = sqrt(-2.0 * log(u));
    double2 result;
    sincospi(turns, &result.x, &result.y);
    return make_double2(result.x * radius, result.y * radius);
}
__VGC_FN__ float2 _curand_box_muller(unsigned int x, unsigned int y) {
    constexpr float turn = 6.2831855f * 0x1p-32f;
    return __vgc_rand_pair(_curand_uniform(x), y * turn + turn / 2);
}
__VGC_FN__ double2 _curand_box_muller_double(unsigned int x0, unsigned int x1, unsigned int y0, unsigned int y1) {
    return __vgc_rand_pair_double(_curand_uniform_double_hq(x0, x1), (y0 ^ (unsigned long long)y1 << 21) * 0x1p-52 + 0x1p-53);
}

/* The inverse of the normal distribution, from the middle outwards for the sake of small numbers. */
__VGC_FN__ float _curand_normal_icdf(unsigned int x) {
    const bool upper = x > 0x80000000u;
    const float tail = erfcinvf(2.0f * _curand_uniform(upper ? ~x : x));
    return (upper ? 1.4142135f : -1.4142135f) * tail;
}
__VGC_FN__ float _curand_normal_icdf(unsigned long long x) { return _curand_normal_icdf((unsigned)(x >> 32)); }
__VGC_FN__ double _curand_normal_icdf_double(unsigned int x) {
    const bool upper = x > 0x80000000u;
    const double tail = erfcinv(2.0 * ((upper ? ~x : x) * 0x1p-32 + 0x1p-33));
    return (upper ? 1.4142135623730951 : -1.4142135623730951) * tail;
}
__VGC_FN__ double _curand_normal_icdf_double(unsigned long long x) {
    x >>= 11;
    const bool upper = x > 0x10000000000000u;
    const double tail = erfcinv(2.0 * ((upper ? 0x1fffffffffffffu - x : x) * 0x1p-53 + 0x1p-54));
    return (upper ? 1.4142135623730951 : -1.4142135623730951) * tail;
}

/* Generators that draw pairs: each pair takes two integers for floats, four for doubles. */
template <class State> __VGC_FN__ float2 curand_box_muller(State *state) {
    const unsigned x = curand(state);
    return _curand_box_muller(x, curand(state));
}
template <class State> __VGC_FN__ double2 curand_box_muller_double(State *state) {
    const unsigned x0 = curand(state), x1 = curand(state), y0 = curand(state);
    return _curand_box_muller_double(x0, x1, y0, curand(state));
}
__VGC_FN__ float2 __vgc_rand_pair(curandStateXORWOW_t *state) { return curand_box_muller(state); }
__VGC_FN__ float2 __vgc_rand_pair(curandStatePhilox4_32_10_t *state) { return curand_box_muller(state); }
__VGC_FN__ float2 __vgc_rand_pair(curandStateMRG32k3a_t *state) {
    const float u = curand_uniform(state);
    return __vgc_rand_pair(u, curand_uniform(state) * 6.2831855f);
}
__VGC_FN__ double2 __vgc_rand_pair_double(curandStateXORWOW_t *state) { return curand_box_muller_double(state); }
__VGC_FN__ double2 __vgc_rand_pair_double(curandStatePhilox4_32_10_t *state) {
    const uint4 x = curand4(state);
    return _curand_box_muller_double(x.x, x.y, x.z, x.w);
}
__VGC_FN__ double2 __vgc_rand_pair_double(curandStateMRG32k3a_t *state) {
    const double u = curand_uniform_double(state);
    return __vgc_rand_pair_double(u, curand_uniform_double(state) * 2.0);
}

/* One of a pair now, the other with the next call for the same distribution. */
template <class State, class Shape> __VGC_FN__ float __vgc_rand_half(State *state, int distribution, Shape shape) {
    if (state->boxmuller_flag == distribution) {
        state->boxmuller_flag = 0;
        return state->boxmuller_extra;
    }
    const float2 pair = __vgc_rand_pair(state);
    state->boxmuller_extra = shape(pair.y);
    state->boxmuller_flag = distribution;
    return shape(pair.x);
}
template <class State, class Shape> __VGC_FN__ double __vgc_rand_half_double(State *state, int distribution, Shape shape) {
    if (state->boxmuller_flag_double == distribution) {
        state->boxmuller_flag_double = 0;
        return state->boxmuller_extra_double;
    }
    const double2 pair = __vgc_rand_pair_double(state);
    state->boxmuller_extra_double = shape(pair.y);
    state->boxmuller_flag_double = distribution;
    return shape(pair.x);
}

#define __VGC_RAND_PAIRS(State)                                                                                                        \
    __VGC_FN__ float curand_normal(State *state) {                                                                                     \
        return __vgc_rand_half(state, EXTRA_FLAG_NORMAL, [](float x) { return x; });                                                   \
    }                                                                                                                                  \
    __VGC_FN__ double curand_normal_double(State *state) {                                                                             \
        return __vgc_rand_half_double(state, EXTRA_FLAG_NORMAL, [](double x) { return x; });                                           \
    }                                                                                                                                  \
    __VGC_FN__ float2 curand_normal2(State *state) { return __vgc_rand_pair(state); }                                                  \
    __VGC_FN__ double2 curand_normal2_double(State *state) { return __vgc_rand_pair_double(state); }                                   \
    __VGC_FN__ float curand_log_normal(State *state, float mean, float stddev) {                                                       \
        return __vgc_rand_half(state, EXTRA_FLAG_LOG_NORMAL, [=](float x) { return expf(mean + stddev * x); });                        \
    }                                                                                                                                  \
    __VGC_FN__ double curand_log_normal_double(State *state, double mean, double stddev) {                                             \
        return __vgc_rand_half_double(state, EXTRA_FLAG_LOG_NORMAL, [=](double x) { return exp(mean + stddev * x); });                 \
    }                                                                                                                                  \
    __VGC_FN__ float2 curand_log_normal2(State *state, float mean, float stddev) {                                                     \
        const float2 x = __vgc_rand_pair(state);                                                                                       \
        return make_float2(expf(mean + stddev * x.x), expf(mean + stddev * x.y));                                                      \
    }                                                                                                                                  \
    __VGC_FN__ double2 curand_log_normal2_double(State *state, double mean, double stddev) {                                           \
        const double2 x = __vgc_rand_pair_double(state);                                                                               \
        return make_double2(exp(mean + stddev * x.x), exp(mean + stddev * x.y));                                                       \
    }
__VGC_RAND_PAIRS(curandStateXORWOW_t)
__VGC_RAND_PAIRS(curandStatePhilox4_32_10_t)
__VGC_RAND_PAIRS(curandStateMRG32k3a_t)
#undef __VGC_RAND_PAIRS

#define __VGC_RAND_INVERSE(State)                                                                                                      \
    __VGC_FN__ float curand_normal(State *state) { return _curand_normal_icdf(curand(state)); }                                        \
    __VGC_FN__ double curand_normal_double(State *state) { return _curand_normal_icdf_double(curand(state)); }                         \
    __VGC_FN__ float curand_log_normal(State *state, float mean, float stddev) { return expf(mean + stddev * curand_normal(state)); }  \
    __VGC_FN__ double curand_log_normal_double(State *state, double mean, double stddev) {                                             \
        return exp(mean + stddev * curand_normal_double(state));                                                                       \
    }
__VGC_RAND_INVERSE(curandStateMtgp32_t)
__VGC_RAND_INVERSE(curandStateSobol32_t)
__VGC_RAND_INVERSE(curandStateScrambledSobol32_t)
__VGC_RAND_INVERSE(curandStateSobol64_t)
__VGC_RAND_INVERSE(curandStateScrambledSobol64_t)
#undef __VGC_RAND_INVERSE

__VGC_FN__ float4 curand_normal4(curandStatePhilox4_32_10_t *state) {
    const uint4 x = curand4(state);
    const float2 a = _curand_box_muller(x.x, x.y), b = _curand_box_muller(x.z, x.w);
    return make_float4(a.x, a.y, b.x, b.y);
}
__VGC_FN__ double4 curand_normal4_double(curandStatePhilox4_32_10_t *state) {
    const double2 a = __vgc_rand_pair_double(state), b = __vgc_rand_pair_double(state);
    return make_double4(a.x, a.y, b.x, b.y);
}
__VGC_FN__ float4 curand_log_normal4(curandStatePhilox4_32_10_t *state, float mean, float stddev) {
    const float4 x = curand_normal4(state);
    return make_float4(expf(mean + stddev * x.x), expf(mean + stddev * x.y), expf(mean + stddev * x.z), expf(mean + stddev * x.w));
}
__VGC_FN__ double4 curand_log_normal4_double(curandStatePhilox4_32_10_t *state, double mean, double stddev) {
    const double4 x = curand_normal4_double(state);
    return make_double4(exp(mean + stddev * x.x), exp(mean + stddev * x.y), exp(mean + stddev * x.z), exp(mean + stddev * x.w));
}
