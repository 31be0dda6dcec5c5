// Rule: what a capture cannot hold ends with its own error and makes the capture invalid, which its end says.
#include "check.h"

__global__ void put(int *out)
{
    *out = 1;
}

static cudaStream_t stream, other;

static void expect_invalid()
{
    cudaStreamCaptureStatus status;
    cudaGraph_t graph = NULL;
    CHECK(cudaStreamIsCapturing(stream, &status));
    EXPECT_EQUAL(status, cudaStreamCaptureStatusInvalidated);
    EXPECT_ERROR(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT(graph == NULL);
}

int main()
{
    int *device, *more, value;
    cudaEvent_t event, outside;
    cudaGraph_t graph = NULL;
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&event));
    CHECK(cudaEventCreate(&outside));
    CHECK(cudaMalloc(&device, 4));
    CHECK(cudaEventRecord(outside, other));
    EXPECT_ERROR(cudaStreamEndCapture(stream, &graph), cudaErrorIllegalState);
    EXPECT_ERROR(cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    EXPECT_ERROR(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
    EXPECT_ERROR(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    put<<<1, 1, 0, stream>>>(device);
    EXPECT_EQUAL(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
    expect_invalid();

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    EXPECT_ERROR(cudaMalloc(&more, 4), cudaErrorStreamCaptureUnsupported);
    expect_invalid();

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    CHECK(cudaMalloc(&more, 4));
    CHECK(cudaFree(more));
    EXPECT_ERROR(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
    expect_invalid();

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    EXPECT_ERROR(cudaMemcpyAsync(&value, device, 4, cudaMemcpyDeviceToHost, 0), cudaErrorStreamCaptureImplicit);
    expect_invalid();

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    EXPECT_ERROR(cudaStreamWaitEvent(stream, outside, 0), cudaErrorStreamCaptureIsolation);
    expect_invalid();

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamWaitEvent(other, event, 0));
    put<<<1, 1, 0, other>>>(device);
    EXPECT_ERROR(cudaStreamEndCapture(other, &graph), cudaErrorStreamCaptureUnmatched);
    expect_invalid();

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamWaitEvent(other, event, 0));
    put<<<1, 1, 0, other>>>(device);
    EXPECT_ERROR(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnjoined);
    CHECK(cudaStreamIsCapturing(other, &status));
    EXPECT_EQUAL(status, cudaStreamCaptureStatusNone);
    EXPECT_ERROR(cudaStreamWaitEvent(other, event, 0), cudaErrorCapturedEvent);
    put<<<1, 1, 0, stream>>>(device);
    CHECK(cudaDeviceSynchronize());
    return finish();
}
