// Rule: a program may block all signals: its threads touch managed memory all the same.
#include "check.h"
#include <pthread.h>
#include <signal.h>

enum { COUNT = 1 << 20 };

static int *numbers;

__global__ void add(int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] += i;
}

static void *sum(void *result)
{
    long long *total = (long long *)result;
    for (int i = 0; i < COUNT; i++)
        *total += numbers[i];
    return NULL;
}

int main()
{
    sigset_t all;
    pthread_t thread;
    long long total = 0;
    sigfillset(&all);
    EXPECT(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
    CHECK(cudaMallocManaged(&numbers, COUNT * sizeof(int)));
    add<<<COUNT / 256, 256>>>(numbers);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQUAL(numbers[7], 7);
    EXPECT(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
    add<<<COUNT / 256, 256>>>(numbers);
    CHECK(cudaDeviceSynchronize());
    EXPECT(pthread_create(&thread, NULL, sum, &total) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(total == (long long)COUNT * (COUNT - 1));
    return finish();
}
