// Rule: a captured stream runs nothing; each launch of the graph made of it runs the work again, in the captured order.
#include "check.h"

__global__ void step(int *values, int factor, int term)
{
    values[threadIdx.x] = values[threadIdx.x] * factor + term;
}

int main()
{
    cudaStream_t stream, other;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t fork, join;
    cudaStreamCaptureStatus status;
    int *device, *pinned;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamCreate(&other));
    CHECK(cudaEventCreate(&fork));
    CHECK(cudaEventCreate(&join));
    CHECK(cudaMalloc(&device, 64 * sizeof(int)));
    CHECK(cudaMallocHost(&pinned, 64 * sizeof(int)));
    for (int i = 0; i < 64; i++)
        pinned[i] = i;

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemcpyAsync(device, pinned, 64 * sizeof(int), cudaMemcpyHostToDevice, stream));
    CHECK(cudaEventRecord(fork, stream));
    CHECK(cudaStreamWaitEvent(other, fork, 0));
    step<<<1, 32, 0, stream>>>(device, 2, 1);
    step<<<1, 32, 0, other>>>(device + 32, 3, 2);
    CHECK(cudaStreamIsCapturing(other, &status));
    EXPECT_EQUAL(status, cudaStreamCaptureStatusActive);
    CHECK(cudaEventRecord(join, other));
    CHECK(cudaStreamWaitEvent(stream, join, 0));
    step<<<1, 64, 0, stream>>>(device, 1, 100);
    CHECK(cudaMemcpyAsync(pinned, device, 64 * sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaStreamIsCapturing(stream, &status));
    EXPECT_EQUAL(status, cudaStreamCaptureStatusNone);
    EXPECT_EQUAL(pinned[5], 5);

    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, NULL, &nodes));
    EXPECT_EQUAL(nodes, 5);
    CHECK(cudaGraphInstantiate(&exec, graph, NULL, NULL, 0));
    CHECK(cudaGraphDestroy(graph));
    for (int round = 0; round < 3; round++)
        CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 64; i++) {
        int wanted = i;
        for (int round = 0; round < 3; round++)
            wanted = (i < 32 ? wanted * 2 + 1 : wanted * 3 + 2) + 100;
        EXPECT_EQUAL(pinned[i], wanted);
    }
    CHECK(cudaGraphExecDestroy(exec));
    return finish();
}
