// Rule: an instantiated graph takes new parameters node by node, or those of another graph of the same shape.
// needs: CUDA 12
#include "check.h"

__global__ void put(int *out, int value)
{
    *out = value;
}

__global__ void twice(int *out)
{
    *out *= 2;
}

static cudaGraph_t captured(cudaStream_t stream, int *device, int value, bool doubled)
{
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    put<<<1, 1, 0, stream>>>(device, value);
    if (doubled)
        twice<<<1, 1, 0, stream>>>(device);
    CHECK(cudaStreamEndCapture(stream, &graph));
    return graph;
}

static int run(cudaGraphExec_t exec, cudaStream_t stream, int *device)
{
    int value;
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaMemcpyAsync(&value, device, sizeof value, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    return value;
}

int main()
{
    cudaStream_t stream;
    cudaGraphExec_t exec;
    int *device, value = 30;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&device, sizeof value));
    cudaGraph_t graph = captured(stream, device, 10, true);
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphUpload(exec, stream));
    EXPECT_EQUAL(run(exec, stream, device), 20);

    cudaGraphNode_t nodes[2];
    size_t count = 1;
    CHECK(cudaGraphGetRootNodes(graph, nodes, &count));
    cudaKernelNodeParams parameters;
    CHECK(cudaGraphKernelNodeGetParams(nodes[0], &parameters));
    EXPECT(parameters.func == (void *)put && parameters.blockDim.x == 1);
    void *arguments[] = {&device, &value};
    parameters.kernelParams = arguments;
    CHECK(cudaGraphExecKernelNodeSetParams(exec, nodes[0], &parameters));
    EXPECT_EQUAL(run(exec, stream, device), 60);

    cudaGraph_t similar = captured(stream, device, 50, true), shorter = captured(stream, device, 50, false);
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(exec, similar, &info));
    EXPECT_EQUAL(info.result, cudaGraphExecUpdateSuccess);
    EXPECT_EQUAL(run(exec, stream, device), 100);
    EXPECT_ERROR(cudaGraphExecUpdate(exec, shorter, &info), cudaErrorGraphExecUpdateFailure);
    EXPECT(info.result != cudaGraphExecUpdateSuccess);
    EXPECT_EQUAL(run(exec, stream, device), 100);
    CHECK(cudaGraphExecDestroy(exec));
    return finish();
}
