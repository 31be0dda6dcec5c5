// Counts the requests that launches of graphs take, as the device counts them.
#include "../cuda_programs/check.h"
#include <stdint.h>

enum { KERNELS = 20 };

__global__ void step(int *value, int factor, int term)
{
    *value = *value * factor + term;
}

extern "C" uint64_t requests_done(void); // requests.c

static void nothing(void *)
{
}

/* Requests of a launch, but for those of asking. */
static uint64_t count(cudaGraphExec_t exec, cudaStream_t stream)
{
    CHECK(cudaDeviceSynchronize());
    uint64_t asking = requests_done();
    asking = requests_done() - asking;
    uint64_t before = requests_done();
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaDeviceSynchronize());
    return requests_done() - before - asking;
}

int main()
{
    int *device, *pinned, pageable = 0;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t node, last, nodes[KERNELS];
    CHECK(cudaMalloc(&device, 256));
    CHECK(cudaMallocHost(&pinned, 256));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

    int factor = 1, term = 1;
    void *arguments[] = {&device, &factor, &term};
    cudaKernelNodeParams kernel = {};
    kernel.func = (void *)step;
    kernel.gridDim = kernel.blockDim = dim3(1);
    kernel.kernelParams = arguments;
    cudaMemsetParams zero = {};
    zero.dst = device;
    zero.elementSize = 4;
    zero.width = zero.height = 1;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemsetNode(&last, graph, NULL, 0, &zero));
    for (int i = 0; i < KERNELS; i++) {
        CHECK(cudaGraphAddKernelNode(&nodes[i], graph, &last, 1, &kernel));
        last = nodes[i];
    }
    CHECK(cudaGraphAddMemcpyNode1D(&last, graph, &last, 1, pinned, device, 4, cudaMemcpyDeviceToHost));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));

    for (int round = 0; round < 3; round++) {
        *pinned = 0;
        EXPECT_EQUAL(count(exec, round < 2 ? stream : 0), round < 2 ? 1 : 4); /* an event from stream to stream */
        EXPECT_EQUAL(*pinned, KERNELS);
    }
    EXPECT_EQUAL(count(exec, 0), 1);

    /* A change takes one request, once. */
    factor = 2;
    term = 5;
    CHECK(cudaGraphExecKernelNodeSetParams(exec, nodes[KERNELS - 1], &kernel));
    EXPECT_EQUAL(count(exec, 0), 2);
    EXPECT_EQUAL(*pinned, (KERNELS - 1) * 2 + 5);
    EXPECT_EQUAL(count(exec, 0), 1);

    /* Pageable memory and functions of the host cut it. */
    CHECK(cudaGraphAddMemcpyNode1D(&node, graph, &nodes[9], 1, &pageable, device, 4, cudaMemcpyDeviceToHost));
    CHECK(cudaGraphAddDependencies(graph, &node, &nodes[10], 1));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    EXPECT_EQUAL(count(exec, 0), 3);
    EXPECT_EQUAL(pageable, 10);
    EXPECT_EQUAL(*pinned, KERNELS);
    cudaHostNodeParams call = {nothing, NULL};
    CHECK(cudaGraphAddHostNode(&node, graph, &nodes[4], 1, &call));
    CHECK(cudaGraphAddDependencies(graph, &node, &nodes[5], 1));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    *pinned = 0;
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaGraphExecDestroy(exec)); /* what is put off goes on */
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQUAL(*pinned, KERNELS);
    CHECK(cudaGraphDestroy(graph));
    return finish();
}
