// cuRAND's host API: generators, and the launches that each family's unit offers.
#pragma once
#include <cstddef>

#include <curand.h>

namespace vgc_rand
{

enum Shape {
    BITS,
    LONG_BITS,
    UNIFORM,
    UNIFORM_DOUBLE,
    NORMAL,
    NORMAL_DOUBLE,
    LOG_NORMAL,
    LOG_NORMAL_DOUBLE,
    POISSON,
    DISCRETE
};

// One call's numbers. Groups of numbers, as a stream draws them at once, go round the streams from `first` on.
struct Draw {
    int shape;
    void *output;
    size_t count;
    double mean, deviation; // mean: lambda of POISSON
    unsigned first;
    curandDiscreteDistribution_t distribution; // of DISCRETE
};

// A family of pseudo-random generators: each unit has one, since a program compiles what it uses.
struct Family {
    unsigned streams, legacy_streams; // in the default order, and in CURAND_ORDERING_PSEUDO_LEGACY
    size_t state_bytes;
    unsigned (*group)(int shape);
    cudaError_t (*start)(void *states, unsigned streams, unsigned long long seed, unsigned long long offset,
                         cudaStream_t stream);
    cudaError_t (*draw)(void *states, unsigned streams, const Draw &draw, cudaStream_t stream);
};
const Family *xorwow();
const Family *mrg();
const Family *philox();
const Family *mt19937();
const Family *mtgp32();

// Points offset and on of `dimensions` sequences, one after another. `scrambles` may be null.
struct QuasiDraw {
    Draw draw;
    const void *directions, *scrambles;
    unsigned dimensions;
    unsigned long long offset;
};
cudaError_t draw_sobol32(const QuasiDraw &draw, cudaStream_t stream);
cudaError_t draw_sobol64(const QuasiDraw &draw, cudaStream_t stream);

// Distributions in device memory, which the caller frees.
curandStatus_t make_poisson(double lambda, curandDiscreteDistribution_t *result);
curandStatus_t make_binomial(unsigned n, double p, curandDiscreteDistribution_t *result);

constexpr unsigned MOST_DIMENSIONS = 1111;
const unsigned *directions32(bool scrambled);
const unsigned long long *directions64(bool scrambled);
const unsigned *scrambles32();
const unsigned long long *scrambles64();

} // namespace vgc_rand
