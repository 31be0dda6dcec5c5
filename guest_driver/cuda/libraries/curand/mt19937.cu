// MT19937 of Matsumoto and Nishimura (1998), one sequence: a block makes its words one after the other, other threads
// make numbers of them. Each number takes one word, a double two.
#include <curand_kernel.h>

#include "generator.h"

namespace
{
constexpr unsigned LENGTH = 624, MIDDLE = 397, WIDTH = LENGTH - MIDDLE;

struct Twister {
    unsigned words[LENGTH];
    unsigned at; // words that were given out
};

__device__ unsigned temper(unsigned y)
{
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}
} // namespace

// As init_genrand(), or init_by_array() with both halves of a seed of more than 32 bits.
__global__ void vgc_rand_start_mt19937(Twister *twister, unsigned long long seed)
{
    unsigned *const s = twister->words;
    const unsigned key[2] = {(unsigned)seed, (unsigned)(seed >> 32)};
    s[0] = key[1] == 0 ? key[0] : 19650218u;
    for (unsigned i = 1; i < LENGTH; i++)
        s[i] = 1812433253u * (s[i - 1] ^ s[i - 1] >> 30) + i;
    twister->at = LENGTH;
    if (key[1] == 0)
        return;
    unsigned i = 1;
    for (unsigned k = 0; k < LENGTH; k++) {
        s[i] = (s[i] ^ (s[i - 1] ^ s[i - 1] >> 30) * 1664525u) + key[k % 2] + k % 2;
        if (++i == LENGTH) {
            s[0] = s[LENGTH - 1];
            i = 1;
        }
    }
    for (unsigned k = 1; k < LENGTH; k++) {
        s[i] = (s[i] ^ (s[i - 1] ^ s[i - 1] >> 30) * 1566083941u) - i;
        if (++i == LENGTH) {
            s[0] = s[LENGTH - 1];
            i = 1;
        }
    }
    s[0] = 0x80000000u;
}

// One block of WIDTH threads at least: so many words of the next state depend on the state alone, or on words before.
__global__ void vgc_rand_words_mt19937(Twister *twister, unsigned *output, size_t count)
{
    __shared__ unsigned s[LENGTH];
    unsigned at = twister->at;
    for (unsigned i = threadIdx.x; i < LENGTH; i += blockDim.x)
        s[i] = twister->words[i];
    __syncthreads();
    for (size_t done = 0; done < count;) {
        for (unsigned base = 0; at == LENGTH && base < LENGTH; base += WIDTH) {
            const unsigned i = base + threadIdx.x;
            const bool takes_part = threadIdx.x < WIDTH && i < LENGTH;
            unsigned next = 0;
            if (takes_part) {
                const unsigned y = (s[i] & 0x80000000u) | (s[(i + 1) % LENGTH] & 0x7fffffffu);
                next = s[(i + MIDDLE) % LENGTH] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
            }
            __syncthreads();
            if (takes_part)
                s[i] = next;
            __syncthreads();
        }
        at = at == LENGTH ? 0 : at;
        const unsigned left = LENGTH - at, taken = count - done < left ? (unsigned)(count - done) : left;
        for (unsigned i = threadIdx.x; i < taken; i += blockDim.x)
            output[done + i] = temper(s[at + i]);
        __syncthreads();
        done += taken;
        at += taken;
    }
    for (unsigned i = threadIdx.x; i < LENGTH; i += blockDim.x)
        twister->words[i] = s[i];
    if (threadIdx.x == 0)
        twister->at = at;
}

__global__ void vgc_rand_numbers_mt19937(const unsigned *words, vgc_rand::Draw draw)
{
    using namespace vgc_rand;
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= draw.count)
        return;
    if (draw.shape == UNIFORM_DOUBLE || draw.shape == NORMAL_DOUBLE || draw.shape == LOG_NORMAL_DOUBLE) {
        const unsigned long long word = (unsigned long long)words[2 * i + 1] << 32 | words[2 * i];
        const double x = draw.mean + draw.deviation * _curand_normal_icdf_double(word);
        ((double *)draw.output)[i] = draw.shape == UNIFORM_DOUBLE  ? _curand_uniform_double(word)
                                     : draw.shape == NORMAL_DOUBLE ? x
                                                                   : exp(x);
    } else if (draw.shape == POISSON || draw.shape == DISCRETE) {
        ((unsigned *)draw.output)[i] = draw.shape == POISSON ? __vgc_poisson_inverse(words[i], draw.mean)
                                                             : __vgc_rand_histogram(words[i], draw.distribution->M2);
    } else {
        const float x = (float)draw.mean + (float)draw.deviation * _curand_normal_icdf(words[i]);
        ((float *)draw.output)[i] = draw.shape == UNIFORM  ? _curand_uniform(words[i])
                                    : draw.shape == NORMAL ? x
                                                           : expf(x);
    }
}

namespace vgc_rand
{
namespace
{
unsigned group_of_one(int)
{
    return 1;
}

cudaError_t start(void *states, unsigned, unsigned long long seed, unsigned long long, cudaStream_t stream)
{
    vgc_rand_start_mt19937<<<1, 1, 0, stream>>>((Twister *)states, seed);
    return cudaGetLastError();
}

cudaError_t draw_numbers(void *states, unsigned, const Draw &draw, cudaStream_t stream)
{
    if (draw.shape == BITS) {
        vgc_rand_words_mt19937<<<1, 256, 0, stream>>>((Twister *)states, (unsigned *)draw.output, draw.count);
        return cudaGetLastError();
    }
    const bool wide = draw.shape == UNIFORM_DOUBLE || draw.shape == NORMAL_DOUBLE || draw.shape == LOG_NORMAL_DOUBLE;
    const size_t count = draw.count * (wide ? 2 : 1);
    unsigned *words;
    if (const cudaError_t error = cudaMallocAsync(&words, count * sizeof *words, stream))
        return error;
    vgc_rand_words_mt19937<<<1, 256, 0, stream>>>((Twister *)states, words, count);
    vgc_rand_numbers_mt19937<<<(unsigned)((draw.count + 255) / 256), 256, 0, stream>>>(words, draw);
    const cudaError_t error = cudaGetLastError();
    cudaFreeAsync(words, stream);
    return error;
}
} // namespace

const Family *mt19937()
{
    static const Family family = {1, 1, sizeof(Twister), group_of_one, start, draw_numbers};
    return &family;
}
} // namespace vgc_rand
