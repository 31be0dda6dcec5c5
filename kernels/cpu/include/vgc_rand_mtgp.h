/* cuRAND: MTGP32, the Mersenne twister of a block (Saito and Matsumoto, "Variants of Mersenne Twister suitable for
   graphic processors", 2013). Parameters and states are made by the host. */
#pragma once
#include "vgc_rand_bits.h"

#define MTGPDC_N 351
#define MTGP32_STATE_SIZE 1024
#define MTGP32_STATE_MASK 1023
#define CURAND_NUM_MTGP32_PARAMS 200
#define TBL_SIZE 16

struct mtgp32_kernel_params {
    unsigned int pos_tbl[CURAND_NUM_MTGP32_PARAMS];
    unsigned int param_tbl[CURAND_NUM_MTGP32_PARAMS][TBL_SIZE];
    unsigned int temper_tbl[CURAND_NUM_MTGP32_PARAMS][TBL_SIZE];
    unsigned int single_temper_tbl[CURAND_NUM_MTGP32_PARAMS][TBL_SIZE];
    unsigned int sh1_tbl[CURAND_NUM_MTGP32_PARAMS];
    unsigned int sh2_tbl[CURAND_NUM_MTGP32_PARAMS];
    unsigned int mask[1];
};
typedef mtgp32_kernel_params mtgp32_kernel_params_t;
struct curandStateMtgp32 {
    unsigned int s[MTGP32_STATE_SIZE];
    int offset, pIdx;
    mtgp32_kernel_params_t *k;
};
typedef curandStateMtgp32 curandStateMtgp32_t;

/* The n threads of `index` below n draw together: the call is a barrier of the block. */
__VGC_FN__ unsigned __vgc_mtgp_next(curandStateMtgp32_t *state, unsigned index, unsigned n) {
    const mtgp32_kernel_params_t *parameters = state->k;
    const int which = state->pIdx;
    const unsigned here = index + state->offset, far = here + parameters->pos_tbl[which];
    const unsigned first = state->s[here & MTGP32_STATE_MASK], second = state->s[(here + 1) & MTGP32_STATE_MASK];
    unsigned x = (first & parameters->mask[0]) ^ second;
    x ^= x << parameters->sh1_tbl[which];
    const unsigned y = x ^ state->s[far & MTGP32_STATE_MASK] >> parameters->sh2_tbl[which];
    const unsigned fresh = y ^ parameters->param_tbl[which][y & 15];
    unsigned t = state->s[(far - 1) & MTGP32_STATE_MASK];
    t ^= t >> 16;
    t ^= t >> 8;
    const unsigned temper = parameters->temper_tbl[which][t & 15];
    state->s[(here + MTGPDC_N) & MTGP32_STATE_MASK] = fresh;
    __syncthreads();
    if (index == 0)
        state->offset = (state->offset + n) & MTGP32_STATE_MASK;
    __syncthreads();
    return fresh ^ temper;
}
__VGC_FN__ unsigned int curand(curandStateMtgp32_t *state) {
    const unsigned thread = blockDim.z * blockDim.y * threadIdx.z + blockDim.x * threadIdx.y + threadIdx.x;
    return __vgc_mtgp_next(state, thread, blockDim.x * blockDim.y * blockDim.z);
}
__VGC_FN__ unsigned int curand_mtgp32_specific(curandStateMtgp32_t *state, unsigned char index, unsigned char n) {
    return __vgc_mtgp_next(state, index, n);
}
