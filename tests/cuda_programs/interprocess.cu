// Rule: a device either gives handles for other processes, or says by its attribute and errors that it does not;
// handles are of memory of cudaMalloc() and of events that were made for that.
#include "check.h"

int main()
{
    int events = -1, *device, *managed, *pinned, *ordered;
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
    if (events) {
        CHECK(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
        CHECK(cudaIpcGetEventHandle(&handle, event));
        CHECK(cudaEventRecord(event));
        CHECK(cudaEventSynchronize(event));
        CHECK(cudaEventQuery(event));
        CHECK(cudaEventDestroy(event));
        CHECK(cudaMallocManaged(&managed, 1 << 16));
        CHECK(cudaMallocHost(&pinned, 1 << 16));
        CHECK(cudaMallocAsync(&ordered, 1 << 16, 0));
        EXPECT_ERROR(cudaIpcGetMemHandle(&memory, managed), cudaErrorInvalidValue);
        EXPECT_ERROR(cudaIpcGetMemHandle(&memory, pinned), cudaErrorInvalidValue);
        EXPECT_ERROR(cudaIpcGetMemHandle(&memory, ordered), cudaErrorInvalidValue);
        EXPECT_ERROR(cudaIpcGetMemHandle(&memory, &memory), cudaErrorInvalidValue);
        EXPECT_ERROR(cudaIpcCloseMemHandle(device), cudaErrorInvalidValue);
        CHECK(cudaFreeAsync(ordered, 0));
        CHECK(cudaFreeHost(pinned));
        CHECK(cudaFree(managed));
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(device));
    return finish();
}
