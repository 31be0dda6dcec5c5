// Kernels of one family of pseudo-random generators, on the device functions of curand_kernel.h.
#pragma once
#include <curand_kernel.h>

#include "generator.h"

namespace vgc_rand
{
namespace
{

inline unsigned group_of_pairs(int shape)
{
    return shape >= NORMAL && shape <= LOG_NORMAL_DOUBLE ? 2 : 1;
}

template <class Number> __device__ void put(const Draw &draw, size_t at, Number value)
{
    if (at < draw.count)
        ((Number *)draw.output)[at] = value;
}
template <class State> __device__ void group_at(const Draw &draw, State *state, size_t at)
{
    const float mean = (float)draw.mean, deviation = (float)draw.deviation;
    if (draw.shape == BITS)
        put(draw, at, curand(state));
    else if (draw.shape == UNIFORM)
        put(draw, at, curand_uniform(state));
    else if (draw.shape == UNIFORM_DOUBLE)
        put(draw, at, curand_uniform_double(state));
    else if (draw.shape == POISSON)
        put(draw, at, curand_poisson(state, draw.mean));
    else if (draw.shape == DISCRETE)
        put(draw, at, curand_discrete(state, draw.distribution));
    else if (draw.shape == NORMAL || draw.shape == LOG_NORMAL) {
        const float2 x = curand_normal2(state);
        const float a = mean + deviation * x.x, b = mean + deviation * x.y;
        put(draw, at, draw.shape == NORMAL ? a : expf(a));
        put(draw, at + 1, draw.shape == NORMAL ? b : expf(b));
    } else {
        const double2 x = curand_normal2_double(state);
        const double a = draw.mean + draw.deviation * x.x, b = draw.mean + draw.deviation * x.y;
        put(draw, at, draw.shape == NORMAL_DOUBLE ? a : exp(a));
        put(draw, at + 1, draw.shape == NORMAL_DOUBLE ? b : exp(b));
    }
}

// Stream s is subsequence s of the seed; the first offset % streams of them are one number ahead of the others.
template <class State>
__device__ void start_stream(State *states, unsigned streams, unsigned long long seed, unsigned long long offset)
{
    const unsigned s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s < streams)
        curand_init(seed, s, offset / streams + (s < offset % streams), &states[s]);
}
template <class State> __device__ void draw_stream(State *states, unsigned streams, const Draw &draw, unsigned group)
{
    const unsigned s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= streams)
        return;
    State state = states[s];
    const unsigned turn = s >= draw.first ? s - draw.first : s + streams - draw.first;
    for (size_t at = (size_t)turn * group; at < draw.count; at += (size_t)streams * group)
        group_at(draw, &state, at);
    states[s] = state;
}
} // namespace
} // namespace vgc_rand

// Defines the kernels of a family and the family itself.
#define VGC_RAND_FAMILY(NAME, STATE, STREAMS, LEGACY, GROUP)                                                           \
    __global__ void vgc_rand_start_##NAME(STATE *states, unsigned streams, unsigned long long seed,                    \
                                          unsigned long long offset)                                                   \
    {                                                                                                                  \
        vgc_rand::start_stream(states, streams, seed, offset);                                                         \
    }                                                                                                                  \
    __global__ void vgc_rand_draw_##NAME(STATE *states, unsigned streams, vgc_rand::Draw draw, unsigned group)         \
    {                                                                                                                  \
        vgc_rand::draw_stream(states, streams, draw, group);                                                           \
    }                                                                                                                  \
    namespace vgc_rand                                                                                                 \
    {                                                                                                                  \
    static cudaError_t start_##NAME(void *states, unsigned streams, unsigned long long seed,                           \
                                    unsigned long long offset, cudaStream_t stream)                                    \
    {                                                                                                                  \
        vgc_rand_start_##NAME<<<(streams + 63) / 64, 64, 0, stream>>>((STATE *)states, streams, seed, offset);         \
        return cudaGetLastError();                                                                                     \
    }                                                                                                                  \
    static cudaError_t draw_##NAME(void *states, unsigned streams, const Draw &draw, cudaStream_t stream)              \
    {                                                                                                                  \
        vgc_rand_draw_##NAME<<<(streams + 63) / 64, 64, 0, stream>>>((STATE *)states, streams, draw,                   \
                                                                     GROUP(draw.shape));                               \
        return cudaGetLastError();                                                                                     \
    }                                                                                                                  \
    const Family *NAME()                                                                                               \
    {                                                                                                                  \
        static const Family family = {STREAMS, LEGACY, sizeof(STATE), GROUP, start_##NAME, draw_##NAME};               \
        return &family;                                                                                                \
    }                                                                                                                  \
    }
