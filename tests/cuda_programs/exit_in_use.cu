// Rule: destructors of static objects may use CUDA, also behind those of the object's own file, and a thread that still
// uses it does not disturb the end of the process.
// expect: stdout: freed 9
#include "check.h"
#include <pthread.h>
#include <unistd.h>

__device__ int addend = 4;

__global__ void add(int *out, int value)
{
    *out = value + addend;
}

struct Owner {
    int *device = NULL;

    ~Owner()
    {
        int value = 0;
        add<<<1, 1>>>(device, 5);
        if (cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost) != cudaSuccess ||
            cudaFree(device) != cudaSuccess)
            _exit(2);
        printf("freed %d\n", value);
        fflush(stdout);
    }
};

static Owner owner;
static volatile bool is_at_work;

static void *work(void *memory)
{
    for (;;) {
        for (int i = 0; i < 20; i++)
            add<<<1, 1>>>((int *)memory, i);
        if (cudaDeviceSynchronize() != cudaSuccess)
            pause();
        is_at_work = true;
    }
}

int main()
{
    void *memory;
    pthread_t thread;
    CHECK(cudaMalloc(&owner.device, sizeof(int)));
    CHECK(cudaMalloc(&memory, sizeof(int)));
    if (pthread_create(&thread, NULL, work, memory) != 0)
        return 1;
    while (!is_at_work)
        usleep(1000);
    return finish();
}
