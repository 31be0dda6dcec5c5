// cuFFT's kernel in double precision: a unit of its own, since a program compiles what it uses.
#include "line.h"

__global__ void vgc_fft_lines_double(vgc_fft_pass pass)
{
    extern __shared__ __align__(16) unsigned char shared[];
    Line<double2, double, double>::run(pass, (double2 *)shared);
}

cudaError_t vgc_fft_launch_double(const vgc_fft_pass &pass, unsigned blocks, dim3 threads, size_t shared_bytes,
                                  cudaStream_t stream)
{
    vgc_fft_lines_double<<<blocks, threads, shared_bytes, stream>>>(pass);
    return cudaGetLastError();
}
