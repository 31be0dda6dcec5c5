/* Library of opened_managed.cu: counts in a managed variable. */
#include <cuda_runtime.h>

static __managed__ int calls = 40;

static __global__ void work()
{
    calls++;
}

/* -1: the launch failed. */
extern "C" int counted()
{
    work<<<1, 1>>>();
    return cudaGetLastError() == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess ? calls : -1;
}
