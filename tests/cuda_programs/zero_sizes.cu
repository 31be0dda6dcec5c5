// Rule: allocations, copies and fills of no bytes succeed and do nothing; so does freeing the null pointer.
#include "check.h"

int main()
{
    int value = 7, *device, *none = (int *)0x10;
    CHECK(cudaMalloc(&device, sizeof value));
    CHECK(cudaMalloc(&none, 0));
    EXPECT(none == NULL);
    CHECK(cudaMemcpy(device, &value, sizeof value, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device, &value, 0, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyAsync(&value, device, 0, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(NULL, NULL, 0, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(device, 0xff, 0));
    CHECK(cudaMemcpy2D(device, 4, &value, 4, 0, 1, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2D(device, 4, &value, 4, 4, 0, cudaMemcpyHostToDevice));
    value = 0;
    CHECK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(value, 7);
    CHECK(cudaFree(NULL));
    CHECK(cudaFreeHost(NULL));
    CHECK(cudaFree(device));
    return finish();
}
