// Rule: cudaDeviceSetLimit() takes the nearest heap that the device can have, or refuses; kernels run in either case.
#include "check.h"

__global__ void take(int *taken)
{
    void *memory = malloc(100);
    *taken = memory != nullptr;
    free(memory);
}

int main()
{
    const size_t sizes[] = {0, 1, 3001, (size_t)1 << 50};
    for (size_t size : sizes) {
        int *taken, value = 0;
        size_t limit = 0;
        CHECK(cudaDeviceReset());
        cudaError_t error = cudaDeviceSetLimit(cudaLimitMallocHeapSize, size);
        EXPECT(error == cudaSuccess || (size > 3001 && error == cudaErrorMemoryAllocation));
        (void)cudaGetLastError();
        CHECK(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize));
        EXPECT(limit >= 100);
        CHECK(cudaMalloc(&taken, sizeof value));
        take<<<1, 1>>>(taken);
        CHECK(cudaMemcpy(&value, taken, sizeof value, cudaMemcpyDeviceToHost));
        EXPECT_EQUAL(value, 1);
    }
    return finish();
}
