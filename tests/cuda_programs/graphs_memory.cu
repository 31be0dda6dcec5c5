// Rule: memory that a graph allocates has its address when the node is made, and holds what the graph wrote until it is
// freed, also if the graphs are gone; it counts among the graphs' memory until then.
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

    // What a launch has allocated and nothing has freed outlives the graphs.
    for (int freed_async = 0; freed_async < 2; freed_async++) {
        CHECK(cudaGraphCreate(&graph, 0));
        CHECK(cudaGraphAddMemAllocNode(&made, graph, NULL, 0, &params));
        memory = (int *)params.dptr;
        value = 40 + freed_async;
        CHECK(cudaGraphAddKernelNode(&put_node, graph, &made, 1, &kernel));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaGraphLaunch(exec, 0));
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
        CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
        EXPECT_EQUAL(used, 4096);
        CHECK(cudaMemcpy(&result, memory, 4, cudaMemcpyDeviceToHost));
        EXPECT_EQUAL(result, value);
        CHECK(freed_async ? cudaFreeAsync(memory, 0) : cudaFree(memory));
        CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
        EXPECT_EQUAL(used, 0);
        EXPECT_ERROR(cudaFree(memory), cudaErrorInvalidValue);
    }

    // Another graph may free it.
    cudaGraph_t freeing;
    cudaGraphExec_t frees;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphCreate(&freeing, 0));
    CHECK(cudaGraphAddMemAllocNode(&made, graph, NULL, 0, &params));
    CHECK(cudaGraphAddMemFreeNode(&gone, freeing, NULL, 0, params.dptr));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphInstantiate(&frees, freeing, 0));
    CHECK(cudaGraphLaunch(exec, 0));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphLaunch(frees, 0));
    CHECK(cudaGraphExecDestroy(frees));
    CHECK(cudaGraphDestroy(freeing));
    CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
    EXPECT_EQUAL(used, 0);

    // A reset takes all with it.
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemAllocNode(&made, graph, NULL, 0, &params));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, 0));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaDeviceReset());
    CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
    EXPECT_EQUAL(used, 0);
    return finish();
}
