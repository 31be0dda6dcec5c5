/* cuRAND: Poisson's numbers, and those of a discrete distribution that the host made. */
#pragma once
#include "vgc_rand_distributions.h"

struct curandHistogramM2_st {
    curandHistogramM2V_t V, host_V;
    curandHistogramM2K_t K, host_K;
    unsigned int host_gen;
};
struct curandDistributionM2Shift_st {
    curandHistogramM2_t histogram, host_histogram;
    unsigned int shift, length, host_gen;
};
struct curandDiscreteDistribution_st {
    curandDiscreteDistribution_t self_host_ptr;
    curandDistributionM2Shift_t M2, host_M2;
    double stddev, mean;
    curandMethod_t method;
    unsigned int host_gen;
};

__VGC_FN__ unsigned __vgc_rand_nearest(double lambda, double normal) { return (unsigned)(sqrt(lambda) * normal + lambda + 0.5); }

/* Below 64: Knuth's count of factors until their product has fallen below exp(-lambda). */
template <class State> static __device__ inline unsigned __vgc_poisson_product(State *state, float lambda) {
    unsigned k = 0;
    for (float p = expf(lambda) * curand_uniform(state); p > 1.0f; p *= curand_uniform(state))
        k++;
    return k;
}

/* From 64 to 4000: rejection under the derivative of an approximation of the incomplete gamma function. */
struct __vgc_poisson_gamma {
    float a, alpha, beta;

    __device__ __forceinline__ explicit __vgc_poisson_gamma(float lambda) : a(lambda) {
        alpha = 1.43248035f * rsqrtf(a - 0.124009793f) + 0.000253610749f;
        beta = 0.210967349f * rsqrtf(a - 1.97381164f) + 0.942017341f;
    }
    __device__ __forceinline__ float at(float x) const {
        const float t = 1.0f + __expf(alpha * (a - x) - beta);
        return __frcp_rn(t * t);
    }
    __device__ __forceinline__ float inverse(float y) const {
        return a - (beta + __logf(rsqrtf(y) - 1.0f)) * __frcp_rn(alpha);
    }
};
template <class State> static __device__ inline unsigned __vgc_poisson_rejection(State *state, float lambda) {
    const __vgc_poisson_gamma gamma(lambda);
    const float log_lambda = __logf(lambda);
    for (;;) {
        const float x = floorf(gamma.inverse(curand_uniform(state)));
        const float height = (gamma.at(x + 1.0f) - gamma.at(x)) * 1.3f;
        const float z = curand_uniform(state) * height;
        const float probability = __expf(x * log_lambda - lambda - (float)lgamma((double)(int)(1.0f + x)));
        if (z < probability && height >= 1e-20f)
            return (unsigned)x;
    }
}
template <class State> static __device__ inline unsigned __vgc_poisson(State *state, double lambda) {
    if (lambda < 64)
        return __vgc_poisson_product(state, (float)lambda);
    if (lambda > 4000)
        return __vgc_rand_nearest(lambda, curand_normal_double(state));
    return __vgc_poisson_rejection(state, (float)lambda);
}
__VGC_FN__ unsigned int curand_poisson(curandStateXORWOW_t *state, double lambda) { return __vgc_poisson(state, lambda); }
__VGC_FN__ unsigned int curand_poisson(curandStatePhilox4_32_10_t *state, double lambda) { return __vgc_poisson(state, lambda); }
__VGC_FN__ unsigned int curand_poisson(curandStateMRG32k3a_t *state, double lambda) { return __vgc_poisson(state, lambda); }
__VGC_FN__ uint4 curand_poisson4(curandStatePhilox4_32_10_t *state, double lambda) {
    if (lambda > 4000) {
        const double4 x = curand_normal4_double(state);
        return make_uint4(__vgc_rand_nearest(lambda, x.x), __vgc_rand_nearest(lambda, x.y), __vgc_rand_nearest(lambda, x.z),
                          __vgc_rand_nearest(lambda, x.w));
    }
    uint4 result;
    result.x = __vgc_poisson(state, lambda);
    result.y = __vgc_poisson(state, lambda);
    result.z = __vgc_poisson(state, lambda);
    result.w = __vgc_poisson(state, lambda);
    return result;
}

/* One number of a sequence, one result: below 1000 the sum of probabilities up to it, 500 of lambda at a time. */
__VGC_FN__ double __vgc_rand_below_one(unsigned int x) { return x * 0x1p-32 + 0x1p-33; }
__VGC_FN__ double __vgc_rand_below_one(unsigned long long x) { return (x >> 11) * 0x1p-53 + 0x1p-55; }
template <class Word> static __device__ inline unsigned __vgc_poisson_inverse(Word x, double lambda) {
    if (lambda >= 1000)
        return __vgc_rand_nearest(lambda, _curand_normal_icdf_double(x));
    const double u = __vgc_rand_below_one(x);
    double p = 1, sum = 1;
    unsigned k = 0;
    for (int part = 0; part == 0 || part < lambda; part += 500) {
        const double factor = exp(lambda > part + 500.0 ? -500.0 : part - lambda);
        p *= factor;
        sum *= factor;
        while (u > sum) {
            p *= lambda / ++k;
            sum += p;
        }
    }
    return k;
}
__VGC_FN__ unsigned int curand_poisson(curandStateMtgp32_t *state, double lambda) { return __vgc_poisson_inverse(curand(state), lambda); }
__VGC_FN__ unsigned int curand_poisson(curandStateSobol32_t *state, double lambda) { return __vgc_poisson_inverse(curand(state), lambda); }
__VGC_FN__ unsigned int curand_poisson(curandStateScrambledSobol32_t *state, double lambda) {
    return __vgc_poisson_inverse(curand(state), lambda);
}
__VGC_FN__ unsigned int curand_poisson(curandStateSobol64_t *state, double lambda) { return __vgc_poisson_inverse(curand(state), lambda); }
__VGC_FN__ unsigned int curand_poisson(curandStateScrambledSobol64_t *state, double lambda) {
    return __vgc_poisson_inverse(curand(state), lambda);
}

/* Marsaglia, Tsang and Wang's squared histogram ("Fast generation of discrete random variables", 2004, method II). */
template <class Word> __VGC_FN__ unsigned __vgc_rand_histogram(Word x, curandDistributionM2Shift_t distribution) {
    const double u = _curand_uniform_double(x);
    const int j = (int)(distribution->length * u);
    return distribution->shift + (u < distribution->histogram->V[j] ? (unsigned)j : distribution->histogram->K[j]);
}
__VGC_FN__ unsigned __vgc_discrete_normal(curandDiscreteDistribution_t distribution, double normal) {
    return (unsigned)(distribution->stddev * normal + distribution->mean + 0.5);
}
template <class State> __VGC_FN__ unsigned int curand_discrete(State *state, curandDiscreteDistribution_t distribution) {
    if (distribution->method == CURAND_M2)
        return __vgc_rand_histogram(curand(state), distribution->M2);
    return __vgc_discrete_normal(distribution, curand_normal_double(state));
}
__VGC_FN__ uint4 curand_discrete4(curandStatePhilox4_32_10_t *state, curandDiscreteDistribution_t distribution) {
    if (distribution->method == CURAND_M2) {
        const uint4 x = curand4(state);
        return make_uint4(__vgc_rand_histogram(x.x, distribution->M2), __vgc_rand_histogram(x.y, distribution->M2),
                          __vgc_rand_histogram(x.z, distribution->M2), __vgc_rand_histogram(x.w, distribution->M2));
    }
    const double4 x = curand_normal4_double(state);
    return make_uint4(__vgc_discrete_normal(distribution, x.x), __vgc_discrete_normal(distribution, x.y),
                      __vgc_discrete_normal(distribution, x.z), __vgc_discrete_normal(distribution, x.w));
}
