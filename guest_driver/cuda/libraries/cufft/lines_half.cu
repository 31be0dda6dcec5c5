// cuFFT's kernel for half precision, computed in single precision: a unit of its own, since a program compiles what it
// uses.
#include <cuda_fp16.h>

#include "line.h"

__global__ void vgc_fft_lines_half(vgc_fft_pass pass)
{
    extern __shared__ __align__(16) unsigned char shared[];
    Line<float2, float, __half>::run(pass, (float2 *)shared);
}

cudaError_t vgc_fft_launch_half(const vgc_fft_pass &pass, unsigned blocks, dim3 threads, size_t shared_bytes,
                                cudaStream_t stream)
{
    vgc_fft_lines_half<<<blocks, threads, shared_bytes, stream>>>(pass);
    return cudaGetLastError();
}
