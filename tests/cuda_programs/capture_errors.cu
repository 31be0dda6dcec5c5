// Rule: what cannot be captured fails, and spoils the capture; an unjoined fork does, too.
#include "check.h"

__global__ void put(int *out)
{
    *out = 1;
}

int main()
{
    cudaStream_t stream, other;
    cudaGraph_t graph = NULL;
    cudaEvent_t event;
    cudaStreamCaptureStatus status;
    int *device;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamCreate(&other));
    CHECK(cudaEventCreate(&event));
    CHECK(cudaMalloc(&device, sizeof *device));
    EXPECT_ERROR(cudaStreamEndCapture(stream, &graph), cudaErrorIllegalState);
    EXPECT_ERROR(cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    put<<<1, 1, 0, stream>>>(device);
    EXPECT_ERROR(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamIsCapturing(stream, &status));
    EXPECT_EQUAL(status, cudaStreamCaptureStatusInvalidated);
    EXPECT_ERROR(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT(graph == NULL);

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamWaitEvent(other, event, 0));
    put<<<1, 1, 0, other>>>(device);
    EXPECT_ERROR(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnjoined);
    CHECK(cudaStreamSynchronize(stream));
    put<<<1, 1, 0, stream>>>(device);
    CHECK(cudaStreamSynchronize(stream));
    return finish();
}
