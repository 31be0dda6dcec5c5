// Rule: atomic operations on integers of 32 and 64 bits, in global and shared memory, lose no update.
#include "check.h"

struct Results {
    int sum, minimum, maximum, exchanged;
    unsigned wrapped, down, bits_or, bits_and, bits_xor;
    unsigned long long wide, wide_max;
    int bins[16];
};

__global__ void work(Results *results)
{
    __shared__ int bins[16];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < 16)
        bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&results->sum, i);
    atomicSub(&results->sum, 1);
    atomicMin(&results->minimum, -i);
    atomicMax(&results->maximum, i);
    atomicExch(&results->exchanged, 5);
    atomicInc(&results->wrapped, 9);
    atomicDec(&results->down, 9);
    atomicOr(&results->bits_or, 1u << (i % 32));
    atomicAnd(&results->bits_and, ~(1u << (i % 8)));
    atomicXor(&results->bits_xor, 1u << (i % 3));
    atomicAdd(&results->wide, 1ull << 33);
    atomicMax(&results->wide_max, (unsigned long long)i << 32);
    atomicAdd(&bins[i % 16], 1);
    __syncthreads();
    if (threadIdx.x < 16)
        atomicAdd_system(&results->bins[threadIdx.x], bins[threadIdx.x]);
}

int main()
{
    const int n = 2048;
    Results results = {}, *device;
    results.bits_and = ~0u;
    CHECK(cudaMalloc(&device, sizeof results));
    CHECK(cudaMemcpy(device, &results, sizeof results, cudaMemcpyHostToDevice));
    work<<<16, n / 16>>>(device);
    CHECK(cudaMemcpy(&results, device, sizeof results, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(results.sum, n * (n - 1) / 2 - n);
    EXPECT_EQUAL(results.minimum, 1 - n);
    EXPECT_EQUAL(results.maximum, n - 1);
    EXPECT_EQUAL(results.exchanged, 5);
    EXPECT_EQUAL(results.wrapped, n % 10);
    EXPECT_EQUAL(results.down, (10 - n % 10) % 10);
    EXPECT_EQUAL(results.bits_or, ~0u);
    EXPECT_EQUAL(results.bits_and, ~0xffu);
    unsigned odd = 0;
    for (int i = 0; i < n; i++)
        odd ^= 1u << (i % 3);
    EXPECT_EQUAL(results.bits_xor, odd);
    EXPECT_EQUAL(results.wide, (unsigned long long)n << 33);
    EXPECT_EQUAL(results.wide_max, (unsigned long long)(n - 1) << 32);
    for (int bin : results.bins)
        EXPECT_EQUAL(bin, n / 16);
    CHECK(cudaFree(device));
    return finish();
}
