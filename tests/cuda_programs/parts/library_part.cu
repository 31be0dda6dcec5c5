/* Library of libraries.cu and opened_library.cu: NAME() multiplies by FACTOR, and returns how often it was called. */
#include <cuda_runtime.h>

static __device__ int calls;

static __global__ void work(int *value)
{
    *value *= FACTOR;
    calls++;
}

extern "C" int NAME(int *device)
{
    int count = -1;
    work<<<1, 1>>>(device);
    return cudaMemcpyFromSymbol(&count, calls, sizeof count) == cudaSuccess ? count : -1;
}
