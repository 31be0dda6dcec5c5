// Rule: programs from before CUDA 9 use shuffles and votes without a mask: all lanes take part.
// needs: CUDA 12
#include "check.h"

__global__ void old(int *out)
{
    int value = threadIdx.x;
    for (int offset = 16; offset > 0; offset >>= 1)
        value += __shfl_down(value, offset);
    value = __shfl(value, 0);
    out[threadIdx.x] = value + __shfl_xor((int)threadIdx.x, 1) + __shfl_up((int)threadIdx.x, 1);
    if (threadIdx.x == 0) {
        out[32] = 1;
        out[33] = 1;
    }
    int every = __all(threadIdx.x < 32), some = __any(threadIdx.x == 40);
    unsigned low = __ballot(threadIdx.x < 4);
    if (threadIdx.x == 0) {
        out[32] = every * 2 + some;
        out[33] = low;
    }
}

int main()
{
    int results[34], *device;
    CHECK(cudaMalloc(&device, sizeof results));
    old<<<1, 32>>>(device);
    CHECK(cudaMemcpy(results, device, sizeof results, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++)
        EXPECT_EQUAL(results[i], 496 + (i ^ 1) + (i ? i - 1 : 0));
    EXPECT_EQUAL(results[32], 2);
    EXPECT_EQUAL(results[33], 15);
    return finish();
}
