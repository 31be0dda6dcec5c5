// Rule: clock(), clock64() and the global timer go forward while a thread works; kernels know where they run.
#include "check.h"

__global__ void measure(long long *out, volatile float *scratch)
{
    clock_t start = clock();
    long long wide = clock64();
    unsigned long long nanoseconds, later;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    for (int i = 0; i < 20000; i++)
        scratch[threadIdx.x] = scratch[threadIdx.x] * 0.5f + 1;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(later));
    out[0] = clock() - start;
    out[1] = clock64() - wide;
    out[2] = later - nanoseconds;
    unsigned multiprocessor;
    asm("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    out[3] = multiprocessor;
}

int main()
{
    long long *device, out[4];
    float *scratch;
    int multiprocessors, rate;
    CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    CHECK(cudaDeviceGetAttribute(&rate, cudaDevAttrClockRate, 0));
    EXPECT(rate > 0);
    CHECK(cudaMalloc(&device, sizeof out));
    CHECK(cudaMalloc(&scratch, 4));
    CHECK(cudaMemset(scratch, 0, 4));
    measure<<<1, 1>>>(device, scratch);
    CHECK(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
    EXPECT(out[0] > 0 && out[1] > 0 && out[2] >= 0);
    EXPECT(out[3] >= 0 && out[3] < multiprocessors);
    return finish();
}
