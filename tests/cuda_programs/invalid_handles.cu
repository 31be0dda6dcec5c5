// Rule: a call that gets a pointer or a handle that does not exist refuses it, and has no effect.
#include "check.h"

__global__ void nothing()
{
}

int main()
{
    int local, *device;
    CHECK(cudaMalloc(&device, 256));
    EXPECT_ERROR(cudaMalloc((int **)NULL, 16), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaFree(&local), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaFree(device + 4), cudaErrorInvalidValue);
    CHECK(cudaFree(device));
    EXPECT_ERROR(cudaFree(device), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaFreeHost(&local), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaMemGetInfo(NULL, NULL), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaGetDeviceCount(NULL), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaEventRecord(NULL), cudaErrorInvalidResourceHandle);
    EXPECT_ERROR(cudaEventSynchronize(NULL), cudaErrorInvalidResourceHandle);
    EXPECT_ERROR(cudaEventDestroy(NULL), cudaErrorInvalidResourceHandle);
    EXPECT_ERROR(cudaStreamDestroy(NULL), cudaErrorInvalidResourceHandle);
    EXPECT_ERROR(cudaStreamWaitEvent(NULL, NULL, 0), cudaErrorInvalidResourceHandle);
    cudaStream_t stream;
    EXPECT_ERROR(cudaStreamCreateWithFlags(&stream, 0x80), cudaErrorInvalidValue);
    cudaEvent_t event;
    EXPECT_ERROR(cudaEventCreateWithFlags(&event, 0x80), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaLaunchKernel((const void *)&local, dim3(1), dim3(1), NULL, 0, NULL),
                 cudaErrorInvalidDeviceFunction);
    CHECK(cudaDeviceSynchronize());
    nothing<<<1, 1>>>();
    CHECK(cudaDeviceSynchronize());
    return finish();
}
