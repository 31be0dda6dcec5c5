#include "quasi.h"

__global__ void vgc_rand_draw_sobol32(vgc_rand::QuasiDraw quasi)
{
    vgc_rand::draw_points<curandStateScrambledSobol32_t, unsigned>(quasi);
}

cudaError_t vgc_rand::draw_sobol32(const QuasiDraw &quasi, cudaStream_t stream)
{
    vgc_rand_draw_sobol32<<<blocks_of(quasi), 64, 0, stream>>>(quasi);
    return cudaGetLastError();
}
