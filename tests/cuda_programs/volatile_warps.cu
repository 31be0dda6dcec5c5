// Rule: reductions of old programs, which leave out barriers within a warp for volatile shared memory, come out right.
#include "check.h"

__device__ void warp_reduce(volatile int *scratch, int thread)
{
    scratch[thread] += scratch[thread + 32];
    scratch[thread] += scratch[thread + 16];
    scratch[thread] += scratch[thread + 8];
    scratch[thread] += scratch[thread + 4];
    scratch[thread] += scratch[thread + 2];
    scratch[thread] += scratch[thread + 1];
}

__global__ void reduce(const int *in, int *out)
{
    __shared__ int scratch[128];
    int thread = threadIdx.x;
    scratch[thread] = in[blockIdx.x * 128 + thread];
    __syncthreads();
    if (thread < 64)
        scratch[thread] += scratch[thread + 64];
    __syncthreads();
    if (thread < 32)
        warp_reduce(scratch, thread);
    if (thread == 0)
        out[blockIdx.x] = scratch[0];
}

int main()
{
    int in[512], out[4], *device, *device_out;
    for (int i = 0; i < 512; i++)
        in[i] = i;
    CHECK(cudaMalloc(&device, sizeof in));
    CHECK(cudaMalloc(&device_out, sizeof out));
    CHECK(cudaMemcpy(device, in, sizeof in, cudaMemcpyHostToDevice));
    reduce<<<4, 128>>>(device, device_out);
    CHECK(cudaMemcpy(out, device_out, sizeof out, cudaMemcpyDeviceToHost));
    for (int block = 0; block < 4; block++)
        EXPECT_EQUAL(out[block], block * 128 * 128 + 127 * 64);
    return finish();
}
