// Rule: an allocation of all free memory, to the granule, succeeds; one byte more of it is refused.
#include "check.h"

int main()
{
    size_t available, total, left;
    char *block, *more;
    CHECK(cudaMemGetInfo(&available, &total));
    size_t granule = 2 << 20, whole = available / granule * granule;
    cudaError_t error = cudaMalloc(&block, whole);
    while (error == cudaErrorMemoryAllocation && whole > granule) {
        whole -= granule; /* a GPU may have its memory in pieces */
        error = cudaMalloc(&block, whole);
    }
    EXPECT_EQUAL(error, cudaSuccess);
    (void)cudaGetLastError();
    EXPECT(whole + 32 * granule >= available);
    CHECK(cudaMemset(block + whole - 1, 1, 1));
    CHECK(cudaMemGetInfo(&left, &total));
    EXPECT(left <= available - whole);
    EXPECT_ERROR(cudaMalloc(&more, left + granule), cudaErrorMemoryAllocation);
    CHECK(cudaFree(block));
    CHECK(cudaMalloc(&more, granule));
    return finish();
}
