// Rule: a captured stream runs nothing, and other streams join the capture by an event; an executable graph takes over
// the parameters of one of the same shape, and refuses another.
#include "check.h"

__global__ void step(int *value, int factor, int term)
{
    *value = *value * factor + term;
}

static cudaGraph_t captured(cudaStream_t stream, cudaStream_t other, int *device, int term, bool is_longer)
{
    cudaGraph_t graph;
    cudaEvent_t fork, join;
    cudaStreamCaptureStatus status;
    CHECK(cudaEventCreate(&fork));
    CHECK(cudaEventCreate(&join));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaMemsetAsync(device, 0, 8, stream));
    CHECK(cudaEventRecord(fork, stream));
    CHECK(cudaStreamWaitEvent(other, fork, 0));
    step<<<1, 1, 0, stream>>>(device, 2, term);
    step<<<1, 1, 0, other>>>(device + 1, 3, 5);
    CHECK(cudaStreamIsCapturing(other, &status));
    EXPECT_EQUAL(status, cudaStreamCaptureStatusActive);
    EXPECT_ERROR(cudaEventQuery(fork), cudaErrorCapturedEvent);
    CHECK(cudaEventRecord(join, other));
    CHECK(cudaStreamWaitEvent(stream, join, 0));
    step<<<1, 1, 0, stream>>>(device, 10, 1);
    if (is_longer)
        step<<<1, 1, 0, stream>>>(device, 10, 1);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaStreamIsCapturing(other, &status));
    EXPECT_EQUAL(status, cudaStreamCaptureStatusNone);
    CHECK(cudaEventDestroy(fork));
    CHECK(cudaEventDestroy(join));
    return graph;
}

static void expect(cudaGraphExec_t exec, cudaStream_t stream, int *device, int first)
{
    int values[2];
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaMemcpyAsync(values, device, sizeof values, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQUAL(values[0], first);
    EXPECT_EQUAL(values[1], 5);
}

int main()
{
    int *device, values[2];
    cudaStream_t stream, other;
    cudaGraphExec_t exec;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamCreate(&other));
    CHECK(cudaMalloc(&device, sizeof values));
    CHECK(cudaMemset(device, 1, sizeof values));
    cudaGraph_t graph = captured(stream, other, device, 4, false);
    CHECK(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(values[0], 0x01010101);
    size_t count;
    CHECK(cudaGraphGetNodes(graph, NULL, &count));
    EXPECT_EQUAL(count, 4);
    CHECK(cudaGraphGetEdges(graph, NULL, NULL, &count));
    EXPECT_EQUAL(count, 4);
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    expect(exec, stream, device, 41);
    expect(exec, other, device, 41);

    cudaGraphExecUpdateResultInfo info;
    graph = captured(stream, other, device, 6, false);
    CHECK(cudaGraphExecUpdate(exec, graph, &info));
    expect(exec, stream, device, 61);
    CHECK(cudaGraphDestroy(graph));
    graph = captured(stream, other, device, 7, true);
    EXPECT_ERROR(cudaGraphExecUpdate(exec, graph, &info), cudaErrorGraphExecUpdateFailure);
    EXPECT_EQUAL(info.result, cudaGraphExecUpdateErrorTopologyChanged);
    expect(exec, stream, device, 61);

    /* A launch in a captured stream becomes a child. */
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaGraphLaunch(exec, stream));
    step<<<1, 1, 0, stream>>>(device, 2, 0);
    cudaGraph_t outer;
    cudaGraphExec_t outer_exec;
    CHECK(cudaStreamEndCapture(stream, &outer));
    CHECK(cudaGraphInstantiate(&outer_exec, outer, 0));
    expect(outer_exec, stream, device, 122);
    CHECK(cudaGraphExecDestroy(outer_exec));
    CHECK(cudaGraphExecDestroy(exec));
    return finish();
}
