// Rule: States of MTGP32 that the host makes give each block a sequence of its own, the published one, however many
// threads draw.
// flags: -lcurand
#include <cstdio>
#include <curand.h>
#include <curand_kernel.h>
#include <curand_mtgp32_host.h>
#include <curand_mtgp32dc_p_11213.h>
#include <vector>

const int BLOCKS = 3, THREADS = 256, EACH = 5, SEED = 77;

__global__ void draw(curandStateMtgp32 *states, unsigned *out)
{
    for (int i = 0; i < EACH; i++)
        out[(blockIdx.x * EACH + i) * blockDim.x + threadIdx.x] = curand(&states[blockIdx.x]);
}

// The recursion, word by word.
static std::vector<unsigned> sequence(const mtgp32_params_fast_t &p, unsigned seed, int count)
{
    const int size = 351;
    const unsigned hidden = p.tbl[4] ^ p.tbl[8] << 16;
    unsigned mixed = hidden + (hidden >> 16);
    mixed += mixed >> 8;
    std::vector<unsigned> s(size, (mixed & 255) * 0x01010101u), words;
    s[0] = seed;
    s[1] = hidden;
    for (int i = 1; i < size; i++)
        s[i] ^= 1812433253u * (s[i - 1] ^ s[i - 1] >> 30) + i;
    for (int i = 0; i < count; i++) {
        unsigned x = (s[i] & p.mask) ^ s[i + 1];
        x ^= x << p.sh1;
        const unsigned y = x ^ s[i + p.pos] >> p.sh2;
        s.push_back(y ^ p.tbl[y & 15]);
        unsigned t = s[i + p.pos - 1];
        t ^= t >> 16;
        t ^= t >> 8;
        words.push_back(s.back() ^ p.tmp_tbl[t & 15]);
    }
    return words;
}

int main()
{
    curandStateMtgp32 *states;
    mtgp32_kernel_params *parameters;
    unsigned *out;
    cudaMalloc(&states, sizeof *states * BLOCKS);
    cudaMalloc(&parameters, sizeof *parameters);
    cudaMallocManaged(&out, sizeof *out * BLOCKS * EACH * THREADS);
    bool right = true;
    for (int threads : {THREADS, 64}) {
        if (curandMakeMTGP32Constants(mtgp32dc_params_fast_11213, parameters) != CURAND_STATUS_SUCCESS ||
            curandMakeMTGP32KernelState(states, mtgp32dc_params_fast_11213, parameters, BLOCKS, SEED) !=
                CURAND_STATUS_SUCCESS)
            return 2;
        draw<<<BLOCKS, threads>>>(states, out);
        if (cudaDeviceSynchronize() != cudaSuccess)
            return 3;
        for (int block = 0; block < BLOCKS; block++) {
            const auto wanted = sequence(mtgp32dc_params_fast_11213[block], SEED + block + 1, EACH * threads);
            for (int i = 0; i < EACH * threads; i++)
                right &= out[block * EACH * threads + i] == wanted[i];
        }
    }
    right &= curandMakeMTGP32KernelState(states, mtgp32dc_params_fast_11213, parameters, 201, SEED) ==
             CURAND_STATUS_OUT_OF_RANGE;
    if (right)
        std::printf("PASS\n");
    return !right;
}
