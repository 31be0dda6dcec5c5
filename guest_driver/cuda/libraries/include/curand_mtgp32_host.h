/* States of MTGP32 for kernels, made by the host (Saito and Matsumoto, "Variants of Mersenne Twister suitable for
 * graphic processors", 2013). */
#pragma once
#include <cuda_runtime.h>
#include <curand.h>
#include <curand_kernel.h>

#ifndef CURAND_MTGP32_H /* of NVIDIA's header, which has this type */
struct mtgp32_params_fast {
    int mexp, pos, sh1, sh2;
    unsigned int tbl[16], tmp_tbl[16], flt_tmp_tbl[16], mask;
    unsigned char poly_sha1[21];
};
typedef struct mtgp32_params_fast mtgp32_params_fast_t;
#endif

/* Fills a state as mtgp32_init_state() of its authors does. */
static inline void __vgc_mtgp_start(unsigned int words[], const mtgp32_params_fast_t *parameters, unsigned int seed)
{
    const int size = parameters->mexp / 32 + 1;
    const unsigned int hidden = parameters->tbl[4] ^ (parameters->tbl[8] << 16);
    unsigned int mixed = hidden + (hidden >> 16);
    mixed += mixed >> 8;
    for (int i = 0; i < size; i++)
        words[i] = (mixed & 0xff) * 0x01010101u;
    words[0] = seed;
    words[1] = hidden;
    for (int i = 1; i < size; i++)
        words[i] ^= 1812433253u * (words[i - 1] ^ (words[i - 1] >> 30)) + (unsigned int)i;
}

/* Writes the parameters, CURAND_NUM_MTGP32_PARAMS of them, to memory of the device. */
static inline curandStatus_t curandMakeMTGP32Constants(const mtgp32_params_fast_t params[], mtgp32_kernel_params_t *p)
{
    mtgp32_kernel_params_t *const table = new mtgp32_kernel_params_t;
    for (int i = 0; i < CURAND_NUM_MTGP32_PARAMS; i++) {
        table->pos_tbl[i] = (unsigned int)params[i].pos;
        table->sh1_tbl[i] = (unsigned int)params[i].sh1;
        table->sh2_tbl[i] = (unsigned int)params[i].sh2;
        for (int k = 0; k < TBL_SIZE; k++) {
            table->param_tbl[i][k] = params[i].tbl[k];
            table->temper_tbl[i][k] = params[i].tmp_tbl[k];
            table->single_temper_tbl[i][k] = params[i].flt_tmp_tbl[k];
        }
    }
    table->mask[0] = params[0].mask;
    const cudaError_t error = cudaMemcpy(p, table, sizeof *table, cudaMemcpyHostToDevice);
    delete table;
    return error == cudaSuccess ? CURAND_STATUS_SUCCESS : CURAND_STATUS_INITIALIZATION_FAILED;
}

/* Writes n states to memory of the device: state i with parameters i, begun by the seed and i. */
static inline curandStatus_t curandMakeMTGP32KernelState(curandStateMtgp32_t *s, const mtgp32_params_fast_t params[],
                                                         mtgp32_kernel_params_t *k, int n, unsigned long long seed)
{
    if (n < 0 || n > CURAND_NUM_MTGP32_PARAMS)
        return CURAND_STATUS_OUT_OF_RANGE;
    curandStateMtgp32_t *const states = new curandStateMtgp32_t[n]();
    for (int i = 0; i < n; i++) {
        __vgc_mtgp_start(states[i].s, &params[i], (unsigned int)(seed ^ seed >> 32) + (unsigned int)i + 1);
        states[i].pIdx = i;
        states[i].k = k;
    }
    const cudaError_t error = cudaMemcpy(s, states, n * sizeof *states, cudaMemcpyHostToDevice);
    delete[] states;
    return error == cudaSuccess ? CURAND_STATUS_SUCCESS : CURAND_STATUS_INITIALIZATION_FAILED;
}
