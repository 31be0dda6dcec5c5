// Rule: with atomicCAS a kernel builds what there is no atomic function for: maxima of doubles, a lock.
#include "check.h"

__device__ double atomic_largest(double *at, double value)
{
    unsigned long long *bits = (unsigned long long *)at, old = *bits, seen;
    do {
        seen = old;
        if (__longlong_as_double(seen) >= value)
            break;
        old = atomicCAS(bits, seen, __double_as_longlong(value));
    } while (seen != old);
    return __longlong_as_double(old);
}

__global__ void largest(double *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomic_largest(out, (i * 7919) % 4096 + 0.25);
    atomicAdd(out + 1, 0.5);
}

__global__ void locked(int *lock, volatile int *counter)
{
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0)
            ;
        __threadfence();
        *counter = *counter + 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}

__global__ void halves(unsigned short *word)
{
    unsigned short old = *word, seen;
    do {
        seen = old;
        old = atomicCAS(word, seen, (unsigned short)(seen + 1));
    } while (old != seen);
}

int main()
{
    double *device, result[2];
    int *lock, count;
    CHECK(cudaMalloc(&device, sizeof result));
    CHECK(cudaMemset(device, 0, sizeof result));
    largest<<<16, 256>>>(device);
    CHECK(cudaMemcpy(result, device, sizeof result, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(result[0], 4095.25);
    EXPECT_EQUAL(result[1], 2048);
    CHECK(cudaMalloc(&lock, 3 * sizeof(int)));
    CHECK(cudaMemset(lock, 0, 3 * sizeof(int)));
    locked<<<50, 32>>>(lock, lock + 1);
    CHECK(cudaMemcpy(&count, lock + 1, sizeof count, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(count, 50);
    halves<<<4, 64>>>((unsigned short *)(lock + 2));
    CHECK(cudaMemcpy(&count, lock + 2, sizeof count, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(count, 256);
    return finish();
}
