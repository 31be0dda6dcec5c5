// MTGP32: 64 sequences of the first 64 parameters, a block each, which give 256 numbers in turn. Each number takes one
// word, also a double.
#include <curand_kernel.h>
#include <curand_mtgp32dc_p_11213.h>

#include "generator.h"

namespace
{
constexpr unsigned SEQUENCES = 64, AT_ONCE = 256;

struct Sequences {
    curandStateMtgp32 states[SEQUENCES];
    mtgp32_kernel_params_t parameters;
};

// The draws are barriers of the block, so that all threads make them, also for numbers that nobody wants.
__device__ double double_of(const vgc_rand::Draw &draw, curandStateMtgp32 *state)
{
    if (draw.shape == vgc_rand::UNIFORM_DOUBLE)
        return curand_uniform_double(state);
    const double x = draw.mean + draw.deviation * curand_normal_double(state);
    return draw.shape == vgc_rand::NORMAL_DOUBLE ? x : exp(x);
}
__device__ float float_of(const vgc_rand::Draw &draw, curandStateMtgp32 *state)
{
    if (draw.shape == vgc_rand::UNIFORM)
        return curand_uniform(state);
    const float x = (float)draw.mean + (float)draw.deviation * curand_normal(state);
    return draw.shape == vgc_rand::NORMAL ? x : expf(x);
}
__device__ unsigned integer_of(const vgc_rand::Draw &draw, curandStateMtgp32 *state)
{
    return draw.shape == vgc_rand::BITS      ? curand(state)
           : draw.shape == vgc_rand::POISSON ? curand_poisson(state, draw.mean)
                                             : curand_discrete(state, draw.distribution);
}
template <class Number> __device__ void put(const vgc_rand::Draw &draw, size_t at, Number value)
{
    if (at < draw.count)
        ((Number *)draw.output)[at] = value;
}
} // namespace

__global__ void vgc_rand_draw_mtgp32(Sequences *sequences, vgc_rand::Draw draw)
{
    using namespace vgc_rand;
    curandStateMtgp32 *const state = &sequences->states[blockIdx.x];
    const unsigned turn = (blockIdx.x + SEQUENCES - draw.first) % SEQUENCES;
    for (size_t first = (size_t)turn * AT_ONCE; first < draw.count; first += SEQUENCES * AT_ONCE) {
        const size_t at = first + threadIdx.x;
        if (draw.shape == UNIFORM_DOUBLE || draw.shape == NORMAL_DOUBLE || draw.shape == LOG_NORMAL_DOUBLE)
            put(draw, at, double_of(draw, state));
        else if (draw.shape == UNIFORM || draw.shape == NORMAL || draw.shape == LOG_NORMAL)
            put(draw, at, float_of(draw, state));
        else
            put(draw, at, integer_of(draw, state));
    }
}

namespace vgc_rand
{
namespace
{
unsigned group_of_block(int)
{
    return AT_ONCE;
}

cudaError_t start(void *states, unsigned, unsigned long long seed, unsigned long long, cudaStream_t stream)
{
    Sequences *const sequences = (Sequences *)states;
    if (const cudaError_t error = cudaStreamSynchronize(stream)) // draws may still use the ones before
        return error;
    if (curandMakeMTGP32Constants(mtgp32dc_params_fast_11213, &sequences->parameters) != CURAND_STATUS_SUCCESS ||
        curandMakeMTGP32KernelState(sequences->states, mtgp32dc_params_fast_11213, &sequences->parameters, SEQUENCES,
                                    seed) != CURAND_STATUS_SUCCESS)
        return cudaErrorInvalidValue;
    return cudaSuccess;
}

cudaError_t draw_numbers(void *states, unsigned, const Draw &draw, cudaStream_t stream)
{
    vgc_rand_draw_mtgp32<<<SEQUENCES, AT_ONCE, 0, stream>>>((Sequences *)states, draw);
    return cudaGetLastError();
}
} // namespace

const Family *mtgp32()
{
    static const Family family = {SEQUENCES,      SEQUENCES, (sizeof(Sequences) + SEQUENCES - 1) / SEQUENCES,
                                  group_of_block, start,     draw_numbers};
    return &family;
}
} // namespace vgc_rand
