// Rule: after __threadfence() the block that counts itself last sees all other blocks' results.
#include "check.h"

__device__ unsigned arrived;

__global__ void sum(const int *in, volatile int *partial, int *out, int n)
{
    __shared__ int scratch[128];
    __shared__ bool last;
    int total = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        total += __ldg(in + i);
    scratch[threadIdx.x] = total;
    __syncthreads();
    for (int half = 64; half > 0; half >>= 1) {
        if (threadIdx.x < half)
            scratch[threadIdx.x] += scratch[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = scratch[0];
        __threadfence();
        last = atomicInc(&arrived, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int all = 0;
        for (int i = 0; i < gridDim.x; i++)
            all += partial[i];
        *out = all;
        arrived = 0;
    }
}

int main()
{
    const int n = 100000, blocks = 40;
    static int in[n];
    int *device, *partial, *out, result;
    long long wanted = 0;
    for (int i = 0; i < n; i++)
        wanted += in[i] = i % 97;
    CHECK(cudaMalloc(&device, sizeof in));
    CHECK(cudaMalloc(&partial, blocks * sizeof(int)));
    CHECK(cudaMalloc(&out, sizeof result));
    CHECK(cudaMemcpy(device, in, sizeof in, cudaMemcpyHostToDevice));
    for (int round = 0; round < 2; round++) {
        CHECK(cudaMemset(out, 0, sizeof result));
        sum<<<blocks, 128>>>(device, partial, out, n);
        CHECK(cudaMemcpy(&result, out, sizeof result, cudaMemcpyDeviceToHost));
        EXPECT_EQUAL(result, wanted);
    }
    return finish();
}
