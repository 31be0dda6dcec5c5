// Rule: copies and fills beyond an allocation, or in no direction, are refused and change nothing.
#include "check.h"

int main()
{
    enum { SIZE = 1 << 20 };
    static char host[2 * SIZE];
    char *device, value = 1;
    CHECK(cudaMalloc(&device, SIZE));
    CHECK(cudaMemset(device, 7, SIZE));
    EXPECT_ERROR(cudaMemcpy(device, host, 16, (cudaMemcpyKind)9), cudaErrorInvalidMemcpyDirection);
    EXPECT_ERROR(cudaMemcpy(device, host, (size_t)1 << 40, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaMemset(device, 1, (size_t)1 << 40), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaMemcpy(device, NULL, 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaMemcpy(NULL, host, 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaMemcpy(host, host + SIZE, 16, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaMemset(host, 1, 16), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaMemset(NULL, 1, 16), cudaErrorInvalidValue);
    CHECK(cudaMemcpy(&value, device + SIZE - 1, 1, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(value, 7);
    CHECK(cudaMemcpy(&value, device, 1, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(value, 7);
    return finish();
}
