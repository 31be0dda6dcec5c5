// Rule: the main program can be C, with cuda_runtime_api.h, and call a .cu file's functions.
// build: $CC -std=c99 -I$INCLUDE -c $SOURCE/parts/c_main.c -o c_main.o
// build: $NVCC -c $SOURCE/c_program.cu -o kernels.o
// build: $NVCC kernels.o c_main.o -o c_program
#include <cuda_runtime.h>

__global__ void scale_kernel(double *values, int n, double factor)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] *= factor;
}

extern "C" cudaError_t scale(double *device, int n, double factor, cudaStream_t stream)
{
    scale_kernel<<<(n + 63) / 64, 64, 0, stream>>>(device, n, factor);
    return cudaGetLastError();
}
