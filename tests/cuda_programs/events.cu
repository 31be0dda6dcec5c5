// Rule: events mark places in streams: they are waited for, asked, made other streams wait, and measure times.
#include "check.h"

__global__ void spin(volatile int *out, int turns, int value)
{
    int waste = 0;
    for (int i = 0; i < turns; i++)
        waste += out[1];
    *out = value + (waste & 0);
}

int main()
{
    cudaEvent_t start, stop, untimed, fresh;
    cudaStream_t one, two;
    int *device, value;
    float elapsed = -1;
    CHECK(cudaMalloc(&device, 4 * sizeof(int)));
    CHECK(cudaMemset(device, 0, 4 * sizeof(int)));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreateWithFlags(&stop, cudaEventBlockingSync));
    CHECK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    CHECK(cudaEventCreate(&fresh));
    EXPECT_EQUAL(cudaEventQuery(fresh), cudaSuccess); /* no work to wait for */
    CHECK(cudaEventRecord(start));
    spin<<<1, 1>>>(device, 100000, 1);
    CHECK(cudaEventRecord(stop, 0));
    CHECK(cudaEventSynchronize(stop));
    EXPECT_EQUAL(cudaEventQuery(stop), cudaSuccess);
    CHECK(cudaEventElapsedTime(&elapsed, start, stop));
    EXPECT(elapsed > 0 && elapsed < 60000);
    CHECK(cudaEventElapsedTime(&elapsed, start, start));
    EXPECT_EQUAL(elapsed, 0);
    EXPECT_ERROR(cudaEventElapsedTime(&elapsed, start, fresh), cudaErrorInvalidResourceHandle);
    CHECK(cudaEventRecord(untimed));
    CHECK(cudaEventSynchronize(untimed));
    EXPECT_ERROR(cudaEventElapsedTime(&elapsed, start, untimed), cudaErrorInvalidResourceHandle);

    CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    spin<<<1, 1, 0, one>>>(device, 200000, 2);
    CHECK(cudaEventRecord(untimed, one));
    CHECK(cudaStreamWaitEvent(two, untimed, 0));
    CHECK(cudaMemcpyAsync(device + 2, device, sizeof(int), cudaMemcpyDeviceToDevice, two));
    CHECK(cudaStreamSynchronize(two));
    CHECK(cudaMemcpy(&value, device + 2, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(value, 2);
    CHECK(cudaEventRecordWithFlags(stop, two, cudaEventRecordDefault));
    CHECK(cudaEventDestroy(stop));
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(untimed));
    CHECK(cudaEventDestroy(fresh));
    CHECK(cudaStreamDestroy(one));
    CHECK(cudaStreamDestroy(two));
    return finish();
}
