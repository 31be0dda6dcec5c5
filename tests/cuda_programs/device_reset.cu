// Rule: cudaDeviceReset() frees all that the process has on the device; later calls start afresh.
#include "check.h"

__device__ int counter = 1;
__managed__ int managed = 5;

__global__ void count(int *out)
{
    counter += 1;
    *out = counter;
    managed += 1;
}

int main()
{
    int *device, value = 0;
    size_t before, after, total;
    cudaStream_t stream;
    CHECK(cudaMemGetInfo(&before, &total));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&device, 8 << 20));
    count<<<1, 1, 0, stream>>>(device);
    CHECK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(value, 2);
    CHECK(cudaDeviceReset());
    CHECK(cudaMemGetInfo(&after, &total));
    EXPECT(after + (4 << 20) >= before);
    CHECK(cudaMalloc(&device, sizeof value));
    count<<<1, 1>>>(device);
    CHECK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(value, 2);                   /* variables have their initial values again */
    for (int round = 0; round < 5; round++) { /* the program comes where it has been, with all its variables */
        CHECK(cudaDeviceReset());
        managed = round;
        CHECK(cudaMalloc(&device, sizeof value));
        count<<<1, 1>>>(device);
        CHECK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
        EXPECT_EQUAL(value, 2);
        EXPECT_EQUAL(managed, round + 1);
    }
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    count<<<1, 1, 0, stream>>>(device);
    CHECK(cudaDeviceReset());
    CHECK(cudaMalloc(&device, sizeof value)); /* no capture is there any more that would forbid it */
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaDeviceReset());
    CHECK(cudaDeviceReset());
    return finish();
}
