// Kernels of Sobol's sequences, on the device functions of curand_kernel.h: a thread draws 64 points of a dimension.
#pragma once
#include <curand_kernel.h>

#include "generator.h"

namespace vgc_rand
{
namespace
{
constexpr unsigned RUN = 64;

template <class State> __device__ void put_point(const Draw &draw, State *state, size_t at)
{
    const float mean = (float)draw.mean, deviation = (float)draw.deviation;
    if (draw.shape == BITS || draw.shape == LONG_BITS)
        ((decltype(curand(state)) *)draw.output)[at] = curand(state);
    else if (draw.shape == UNIFORM)
        ((float *)draw.output)[at] = curand_uniform(state);
    else if (draw.shape == UNIFORM_DOUBLE)
        ((double *)draw.output)[at] = curand_uniform_double(state);
    else if (draw.shape == POISSON)
        ((unsigned *)draw.output)[at] = curand_poisson(state, draw.mean);
    else if (draw.shape == DISCRETE)
        ((unsigned *)draw.output)[at] = curand_discrete(state, draw.distribution);
    else if (draw.shape == NORMAL || draw.shape == LOG_NORMAL) {
        const float x = mean + deviation * curand_normal(state);
        ((float *)draw.output)[at] = draw.shape == NORMAL ? x : expf(x);
    } else {
        const double x = draw.mean + draw.deviation * curand_normal_double(state);
        ((double *)draw.output)[at] = draw.shape == NORMAL_DOUBLE ? x : exp(x);
    }
}
template <class State, class Word> __device__ void draw_points(const QuasiDraw &quasi)
{
    const size_t length = quasi.draw.count / quasi.dimensions, runs = (length + RUN - 1) / RUN;
    const size_t number = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= runs * quasi.dimensions)
        return;
    const size_t dimension = number / runs, begin = number % runs * RUN,
                 end = begin + RUN < length ? begin + RUN : length;
    constexpr unsigned BIT_COUNT = 8 * sizeof(Word);
    State state;
    Word directions[BIT_COUNT];
    for (unsigned k = 0; k < BIT_COUNT; k++)
        directions[k] = ((const Word *)quasi.directions)[dimension * BIT_COUNT + k];
    const Word scramble = quasi.scrambles ? ((const Word *)quasi.scrambles)[dimension] : 0;
    curand_init(directions, scramble, (Word)(quasi.offset + begin), &state);
    for (size_t i = begin; i < end; i++)
        put_point(quasi.draw, &state, dimension * length + i);
}
inline unsigned blocks_of(const QuasiDraw &quasi)
{
    const size_t length = quasi.draw.count / quasi.dimensions;
    return (unsigned)(((length + RUN - 1) / RUN * quasi.dimensions + 63) / 64);
}
} // namespace
} // namespace vgc_rand
