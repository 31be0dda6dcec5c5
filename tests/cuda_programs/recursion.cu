// Rule: device functions call themselves, as deep as the stack goes that the host asked for.
#include "check.h"

__device__ int ackermann(int m, int n)
{
    if (m == 0)
        return n + 1;
    return ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}

__device__ int depth(volatile int *keep, int n)
{
    int local[4] = {n, n, n, n};
    return n == 0 ? *keep : local[n % 4] - n + 1 + depth(keep, n - 1);
}

__global__ void work(int *out)
{
    int i = threadIdx.x;
    out[i] = ackermann(2, i);
    if (i == 0)
        out[32] = depth(out + 33, 100);
}

int main()
{
    int *device, out[33];
    size_t size;
    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 16384));
    CHECK(cudaDeviceGetLimit(&size, cudaLimitStackSize));
    EXPECT(size >= 16384);
    CHECK(cudaMalloc(&device, 34 * sizeof(int)));
    CHECK(cudaMemset(device, 0, 34 * sizeof(int)));
    work<<<1, 32>>>(device);
    CHECK(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++)
        EXPECT_EQUAL(out[i], 2 * i + 3);
    EXPECT_EQUAL(out[32], 100);
    EXPECT_ERROR(cudaDeviceSetLimit((cudaLimit)77, 1), cudaErrorUnsupportedLimit);
    return finish();
}
