// Rule: a device either gives handles for other processes, or says by its attribute and errors that it does not.
#include "check.h"

int main()
{
    int events = -1, *device;
    CHECK(cudaDeviceGetAttribute(&events, cudaDevAttrIpcEventSupport, 0));
    CHECK(cudaMalloc(&device, 1 << 16));
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t handle;
    cudaEvent_t event, ordinary;
    cudaError_t error = cudaIpcGetMemHandle(&memory, device);
    EXPECT(error == (events ? cudaSuccess : cudaErrorNotSupported));
    (void)cudaGetLastError();
    CHECK(cudaEventCreate(&ordinary));
    error = cudaIpcGetEventHandle(&handle, ordinary); /* it was not made for that */
    EXPECT(error == cudaErrorInvalidResourceHandle || (!events && error == cudaErrorNotSupported));
    (void)cudaGetLastError();
    EXPECT_ERROR(cudaEventCreateWithFlags(&event, cudaEventInterprocess), cudaErrorInvalidValue);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(device));
    return finish();
}
