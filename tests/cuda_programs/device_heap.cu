// Rule: kernels take memory with malloc() and new, keep it between launches, and free it; the heap has a limit.
#include "check.h"

struct Item {
    int value;
    Item *next;
    __device__ Item(int value, Item *next) : value(value), next(next)
    {
    }
    __device__ ~Item()
    {
        value = -1;
    }
};

__device__ Item *lists[64];

__global__ void build(int length)
{
    Item *head = nullptr;
    for (int i = 0; i < length; i++)
        head = new Item(threadIdx.x * 100 + i, head);
    lists[threadIdx.x] = head;
}

__global__ void sum(int *out)
{
    int *partial = (int *)malloc(4 * sizeof(int)), total = 0;
    for (int i = 0; i < 4; i++)
        partial[i] = 0;
    int count = 0;
    for (Item *item = lists[threadIdx.x]; item;) {
        partial[count++ % 4] += item->value;
        Item *next = item->next;
        delete item;
        item = next;
    }
    for (int i = 0; i < 4; i++)
        total += partial[i];
    free(partial);
    out[threadIdx.x] = total;
}

int main()
{
    int *device, sums[64];
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 8 << 20));
    size_t limit = 0;
    CHECK(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize));
    EXPECT(limit >= 8 << 20);
    CHECK(cudaMalloc(&device, sizeof sums));
    for (int length = 1; length < 10; length += 4) {
        build<<<1, 64>>>(length);
        sum<<<1, 64>>>(device);
        CHECK(cudaMemcpy(sums, device, sizeof sums, cudaMemcpyDeviceToHost));
        for (int i = 0; i < 64; i++)
            EXPECT_EQUAL(sums[i], i * 100 * length + length * (length - 1) / 2);
    }
    return finish();
}
