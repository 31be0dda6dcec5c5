// Rule: streams and events that a capture has joined may be destroyed before it ends; a stream with unjoined work may
// not.
#include "check.h"

__global__ void add(int *value, int term)
{
    *value += term;
}

static cudaError_t captured(cudaStream_t stream, int *device, bool is_joined, cudaGraph_t *graph)
{
    cudaStream_t other;
    cudaEvent_t fork, join;
    CHECK(cudaStreamCreate(&other));
    CHECK(cudaEventCreate(&fork));
    CHECK(cudaEventCreate(&join));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    add<<<1, 1, 0, stream>>>(device, 1);
    CHECK(cudaEventRecord(fork, stream));
    CHECK(cudaStreamWaitEvent(other, fork, 0));
    add<<<1, 1, 0, other>>>(device, 2);
    CHECK(cudaEventRecord(join, other));
    if (is_joined)
        CHECK(cudaStreamWaitEvent(stream, join, 0));
    CHECK(cudaStreamDestroy(other));
    CHECK(cudaEventDestroy(fork));
    CHECK(cudaEventDestroy(join));
    add<<<1, 1, 0, stream>>>(device, 4);
    return cudaStreamEndCapture(stream, graph);
}

int main()
{
    int *device, value;
    cudaStream_t stream;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&device, sizeof value));
    CHECK(cudaMemset(device, 0, sizeof value));
    EXPECT_ERROR(captured(stream, device, false, &graph), cudaErrorStreamCaptureUnjoined);
    EXPECT(graph == NULL);
    CHECK(captured(stream, device, true, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(value, 7);
    CHECK(cudaGraphExecDestroy(exec));
    return finish();
}
