// Rule: a graph built node by node runs kernels, copies, fills, host functions and child graphs by its dependencies.
#include "check.h"
#include <string.h>

__global__ void add(int *values, int term)
{
    values[threadIdx.x] += term;
}

static void CUDART_CB note(void *data)
{
    ++*(int *)data;
}

int main()
{
    int *device, term = 5, more = 100, calls = 0;
    static int result[32];
    cudaGraph_t graph, child, copy;
    cudaGraphExec_t exec;
    cudaGraphNode_t fill, first, nested, back, call, in_child, empty;
    CHECK(cudaMalloc(&device, sizeof result));
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphCreate(&child, 0));

    cudaMemsetParams memset = {};
    memset.dst = device;
    memset.elementSize = 4;
    memset.width = 32;
    memset.height = 1;
    memset.value = 7;
    CHECK(cudaGraphAddMemsetNode(&fill, graph, NULL, 0, &memset));
    cudaKernelNodeParams kernel = {};
    void *arguments[] = {&device, &term}, *others[] = {&device, &more};
    kernel.func = (void *)add;
    kernel.gridDim = dim3(1);
    kernel.blockDim = dim3(32);
    kernel.kernelParams = arguments;
    CHECK(cudaGraphAddKernelNode(&first, graph, &fill, 1, &kernel));
    kernel.kernelParams = others;
    CHECK(cudaGraphAddKernelNode(&in_child, child, NULL, 0, &kernel));
    CHECK(cudaGraphAddChildGraphNode(&nested, graph, &first, 1, child));
    CHECK(cudaGraphAddEmptyNode(&empty, graph, &nested, 1));
    CHECK(cudaGraphAddMemcpyNode1D(&back, graph, &empty, 1, result, device, sizeof result, cudaMemcpyDeviceToHost));
    cudaHostNodeParams host = {note, &calls};
    CHECK(cudaGraphAddHostNode(&call, graph, &back, 1, &host));

    size_t count = 0;
    CHECK(cudaGraphGetNodes(graph, NULL, &count));
    EXPECT_EQUAL(count, 6);
    cudaGraphNode_t roots[6];
    count = 6;
    CHECK(cudaGraphGetRootNodes(graph, roots, &count));
    EXPECT(count == 1 && roots[0] == fill);
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(nested, &type));
    EXPECT_EQUAL(type, cudaGraphNodeTypeGraph);

    CHECK(cudaGraphInstantiate(&exec, graph, NULL, NULL, 0));
    CHECK(cudaGraphLaunch(exec, 0));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQUAL(calls, 1);
    for (int i = 0; i < 32; i++)
        EXPECT_EQUAL(result[i], 112);
    CHECK(cudaGraphExecDestroy(exec));

    CHECK(cudaGraphClone(&copy, graph));
    CHECK(cudaGraphDestroyNode(call)); /* the copy has its own */
    CHECK(cudaGraphInstantiate(&exec, copy, NULL, NULL, 0));
    CHECK(cudaGraphLaunch(exec, 0));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQUAL(calls, 2);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(copy));
    CHECK(cudaGraphDestroy(child));
    CHECK(cudaGraphDestroy(graph));
    return finish();
}
