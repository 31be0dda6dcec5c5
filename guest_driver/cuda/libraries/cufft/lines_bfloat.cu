// cuFFT's kernel for bfloat16, computed in single precision: a unit of its own, since a program compiles what it uses.
#include <cuda_bf16.h>

#include "line.h"

__global__ void vgc_fft_lines_bfloat(vgc_fft_pass pass)
{
    extern __shared__ __align__(16) unsigned char shared[];
    Line<float2, float, __nv_bfloat16>::run(pass, (float2 *)shared);
}

cudaError_t vgc_fft_launch_bfloat(const vgc_fft_pass &pass, unsigned blocks, dim3 threads, size_t shared_bytes,
                                  cudaStream_t stream)
{
    vgc_fft_lines_bfloat<<<blocks, threads, shared_bytes, stream>>>(pass);
    return cudaGetLastError();
}
