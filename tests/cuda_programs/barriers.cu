// Rule: cuda::barrier splits arriving and waiting, and cuda::memcpy_async completes on it.
// flags: -std=c++17 -arch=sm_80
// needs: cccl
#include "check.h"
#include <cuda/barrier>

__global__ void shift(const int *in, int *out)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ int tile[64];
    if (threadIdx.x == 0)
        init(&barrier, blockDim.x);
    __syncthreads();
    cuda::memcpy_async(tile + threadIdx.x, in + threadIdx.x, sizeof(int), barrier);
    barrier.arrive_and_wait();
    int next = tile[(threadIdx.x + 1) % 64];
    auto token = barrier.arrive();
    int own = threadIdx.x * 1000;
    barrier.wait(std::move(token));
    tile[threadIdx.x] = own + next;
    barrier.arrive_and_wait();
    out[threadIdx.x] = tile[63 - threadIdx.x];
}

int main()
{
    int in[64], out[64], *device, *device_out;
    for (int i = 0; i < 64; i++)
        in[i] = i;
    CHECK(cudaMalloc(&device, sizeof in));
    CHECK(cudaMalloc(&device_out, sizeof out));
    CHECK(cudaMemcpy(device, in, sizeof in, cudaMemcpyHostToDevice));
    shift<<<1, 64>>>(device, device_out);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(out, device_out, sizeof out, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 64; i++)
        EXPECT_EQUAL(out[i], (63 - i) * 1000 + (64 - i) % 64);
    return finish();
}
