// Rule: memory that a graph allocates has its address when the node is made, and holds what the graph wrote until it is
// freed; it counts among the graphs' memory until the graphs are gone.
#include "check.h"

__global__ void put(int *out, int value)
{
    *out = value;
}

static int destroyed;

static void note(void *)
{
    destroyed++;
}

int main()
{
    cudaGraph_t graph;
    cudaGraphNode_t made, put_node, gone;
    cudaGraphExec_t exec;
    int value = 31, result = 0;
    unsigned long long used = 0;
    cudaMemAllocNodeParams params = {};
    params.poolProps.allocType = cudaMemAllocationTypePinned;
    params.poolProps.location.type = cudaMemLocationTypeDevice;
    params.bytesize = 4096;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemAllocNode(&made, graph, NULL, 0, &params));
    int *memory = (int *)params.dptr;
    EXPECT(memory != NULL);
    void *arguments[] = {&memory, &value};
    cudaKernelNodeParams kernel = {};
    kernel.func = (void *)put;
    kernel.gridDim = kernel.blockDim = dim3(1);
    kernel.kernelParams = arguments;
    CHECK(cudaGraphAddKernelNode(&put_node, graph, &made, 1, &kernel));
    CHECK(cudaGraphAddMemcpyNode1D(&gone, graph, &put_node, 1, &result, memory, 4, cudaMemcpyDeviceToHost));
    CHECK(cudaGraphAddMemFreeNode(&gone, graph, &gone, 1, memory));
    cudaUserObject_t object;
    CHECK(cudaUserObjectCreate(&object, NULL, note, 1, cudaUserObjectNoDestructorSync));
    CHECK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    EXPECT_EQUAL(destroyed, 0);
    for (int round = 0; round < 2; round++) {
        result = 0;
        CHECK(cudaGraphLaunch(exec, 0));
        CHECK(cudaDeviceSynchronize());
        EXPECT_EQUAL(result, 31);
    }
    CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
    EXPECT_EQUAL(used, 4096);
    CHECK(cudaGraphExecDestroy(exec));
    EXPECT_EQUAL(destroyed, 1);
    CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
    EXPECT_EQUAL(used, 0);
    CHECK(cudaDeviceGraphMemTrim(0));
    return finish();
}
