// cuFFT's kernel in single precision: a unit of its own, since a program compiles what it uses.
#include "line.h"

__global__ void vgc_fft_lines_single(vgc_fft_pass pass)
{
    extern __shared__ __align__(16) unsigned char shared[];
    Line<float2, float, float>::run(pass, (float2 *)shared);
}

cudaError_t vgc_fft_launch_single(const vgc_fft_pass &pass, unsigned blocks, dim3 threads, size_t shared_bytes,
                                  cudaStream_t stream)
{
    vgc_fft_lines_single<<<blocks, threads, shared_bytes, stream>>>(pass);
    return cudaGetLastError();
}
