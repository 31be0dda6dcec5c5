// Rule: a graph built node by node does what its nodes say in the order of its edges, at each launch, with the
// arguments that the nodes were made with; clones and children are copies.
#include "check.h"
#include <string.h>

__global__ void step(int *value, int factor, int term)
{
    *value = *value * factor + term;
}

static int calls;

static void count_up(void *data)
{
    calls += *(int *)data;
}

__device__ int symbol[4];

int main()
{
    int *device, factor = 3, term = 1, weight = 10, result[4] = {};
    cudaGraph_t graph, child, clone;
    cudaGraphNode_t fill, first, second, back, host, inner, empty, nodes[8], from[8], to[8], found;
    cudaGraphExec_t exec, cloned;
    CHECK(cudaMalloc(&device, 16));
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphCreate(&child, 0));

    cudaMemsetParams zero = {};
    zero.dst = device;
    zero.elementSize = 4;
    zero.width = 4;
    zero.height = 1;
    zero.value = 7;
    CHECK(cudaGraphAddMemsetNode(&fill, graph, NULL, 0, &zero));
    void *arguments[] = {&device, &factor, &term};
    cudaKernelNodeParams kernel = {};
    kernel.func = (void *)step;
    kernel.gridDim = kernel.blockDim = dim3(1);
    kernel.kernelParams = arguments;
    CHECK(cudaGraphAddKernelNode(&second, graph, NULL, 0, &kernel)); /* x * 3 + 1, the last */
    factor = 1;
    term = 100;
    CHECK(cudaGraphAddKernelNode(&first, graph, &fill, 1, &kernel)); /* x + 100 */
    CHECK(cudaGraphAddKernelNode(&inner, child, NULL, 0, &kernel));
    cudaGraphNode_t behind;
    CHECK(cudaGraphAddChildGraphNode(&behind, graph, &first, 1, child));
    CHECK(cudaGraphAddEmptyNode(&empty, graph, &behind, 1));
    CHECK(cudaGraphAddDependencies(graph, &empty, &second, 1));
    EXPECT_ERROR(cudaGraphAddDependencies(graph, &second, &first, 1), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaGraphAddDependencies(graph, &empty, &second, 1), cudaErrorInvalidValue);
    CHECK(cudaGraphAddMemcpyNode1D(&back, graph, &second, 1, result, device, sizeof result, cudaMemcpyDeviceToHost));
    cudaHostNodeParams call = {};
    call.fn = count_up;
    call.userData = &weight;
    CHECK(cudaGraphAddHostNode(&host, graph, &back, 1, &call));

    size_t count = 8;
    CHECK(cudaGraphGetNodes(graph, nodes, &count));
    EXPECT_EQUAL(count, 7);
    EXPECT(nodes[0] == fill && nodes[1] == second);
    count = 8;
    CHECK(cudaGraphGetRootNodes(graph, nodes, &count));
    EXPECT(count == 1 && nodes[0] == fill);
    CHECK(cudaGraphGetEdges(graph, NULL, NULL, &count));
    EXPECT_EQUAL(count, 6);
    CHECK(cudaGraphGetEdges(graph, from, to, &count));
    EXPECT(from[0] == empty && to[0] == second);
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(behind, &type));
    EXPECT_EQUAL(type, cudaGraphNodeTypeGraph);
    CHECK(cudaGraphClone(&clone, graph));
    CHECK(cudaGraphNodeFindInClone(&found, second, clone));
    EXPECT(found != second);

    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphInstantiate(&cloned, clone, 0));
    CHECK(cudaGraphDestroy(child));
    for (int round = 1; round <= 3; round++) {
        memset(result, 0, sizeof result);
        CHECK(cudaGraphLaunch(exec, 0));
        CHECK(cudaDeviceSynchronize());
        EXPECT_EQUAL(result[0], (7 + 200) * 3 + 1);
        EXPECT_EQUAL(result[3], 7);
        EXPECT_EQUAL(calls, 10 * round);
    }
    /* The executable graph takes new parameters, its graph keeps its own. */
    factor = 2;
    term = 0;
    CHECK(cudaGraphExecKernelNodeSetParams(exec, second, &kernel));
    CHECK(cudaGraphNodeSetEnabled(exec, first, 0));
    CHECK(cudaGraphLaunch(exec, 0));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQUAL(result[0], (7 + 100) * 2);
    CHECK(cudaGraphLaunch(cloned, 0));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQUAL(result[0], (7 + 200) * 3 + 1);
    CHECK(cudaGraphExecDestroy(cloned));
    CHECK(cudaGraphDestroy(clone));
    CHECK(cudaGraphDestroyNode(host));
    CHECK(cudaGraphGetNodes(graph, NULL, &count));
    EXPECT_EQUAL(count, 6);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    (void)inner;
    return finish();
}
