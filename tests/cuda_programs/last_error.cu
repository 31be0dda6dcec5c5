// Rule: an error stays the last one until cudaGetLastError takes it; successes and cudaPeekAtLastError leave it.
#include "check.h"

__global__ void nothing()
{
}

int main()
{
    int *device;
    EXPECT_EQUAL(cudaGetLastError(), cudaSuccess);
    EXPECT_EQUAL(cudaSetDevice(1000), cudaErrorInvalidDevice);
    EXPECT_EQUAL(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    EXPECT_EQUAL(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    EXPECT_EQUAL(cudaMalloc(&device, 16), cudaSuccess);
    EXPECT_EQUAL(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    nothing<<<1, 2000>>>();
    EXPECT_EQUAL(cudaGetLastError(), cudaErrorInvalidConfiguration);
    EXPECT_EQUAL(cudaGetLastError(), cudaSuccess);
    nothing<<<1, 1>>>();
    EXPECT_EQUAL(cudaGetLastError(), cudaSuccess);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaError_t state = cudaStreamQuery(stream);
    EXPECT(state == cudaSuccess || state == cudaErrorNotReady);
    EXPECT_EQUAL(cudaDeviceSynchronize(), cudaSuccess);
    return finish();
}
