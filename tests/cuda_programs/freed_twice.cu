// Rule: memory that was freed in a stream is freed: freeing it again is an error, however that is done.
#include "check.h"

int main()
{
    void *memory, *other;
    CHECK(cudaMallocAsync(&memory, 4096, 0));
    CHECK(cudaFreeAsync(memory, 0));
    EXPECT_ERROR(cudaFree(memory), cudaErrorInvalidValue); // which waits, so that the pool gives its memory back
    EXPECT_ERROR(cudaFreeAsync(memory, 0), cudaErrorInvalidValue);
    CHECK(cudaMallocAsync(&memory, 4096, 0));
    CHECK(cudaMallocAsync(&other, 4096, 0));
    CHECK(cudaFreeAsync(memory, 0));
    EXPECT_ERROR(cudaFreeAsync(memory, 0), cudaErrorInvalidValue);
    CHECK(cudaFree(other));
    EXPECT_ERROR(cudaFree(other), cudaErrorInvalidValue);
    CHECK(cudaMalloc(&memory, 4096));
    CHECK(cudaFreeAsync(memory, 0));
    EXPECT_ERROR(cudaFreeAsync(memory, 0), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaFreeAsync((char *)&memory, 0), cudaErrorInvalidValue);
    CHECK(cudaDeviceSynchronize());
    return finish();
}
