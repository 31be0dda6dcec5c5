// Rule: what cudaDeviceSetLimit() says before the first launch is the room of malloc() in kernels.
#include "check.h"

__global__ void take(size_t bytes, int *taken)
{
    void *memory = malloc(bytes);
    *taken = memory != nullptr;
    free(memory);
}

int main()
{
    int *taken, host[2];
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 24 << 20));
    CHECK(cudaMalloc(&taken, sizeof(host)));
    take<<<1, 1>>>(16 << 20, taken);     // more than the heap has without the limit
    take<<<1, 1>>>(32 << 20, taken + 1); // more than the limit
    CHECK(cudaMemcpy(host, taken, sizeof(host), cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(host[0], 1);
    EXPECT_EQUAL(host[1], 0);
    return finish();
}
