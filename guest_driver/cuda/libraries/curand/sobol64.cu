#include "quasi.h"

__global__ void vgc_rand_draw_sobol64(vgc_rand::QuasiDraw quasi)
{
    vgc_rand::draw_points<curandStateScrambledSobol64_t, unsigned long long>(quasi);
}

cudaError_t vgc_rand::draw_sobol64(const QuasiDraw &quasi, cudaStream_t stream)
{
    vgc_rand_draw_sobol64<<<blocks_of(quasi), 64, 0, stream>>>(quasi);
    return cudaGetLastError();
}
