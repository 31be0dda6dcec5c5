// Rule: a graph keeps the order of its edges whatever its nodes are and however many: children, empty and disabled
// nodes, fills of rows, managed memory, functions of the host; and its launches follow each other in all streams.
#include "check.h"

enum { CHAIN = 300, STREAMS = 3 };

__global__ void step(int *value, int factor, int term)
{
    *value = (*value * factor + term) % 10007;
}

__global__ void sum(int *total, const int *parts, int count)
{
    for (int i = 0; i < count; i++)
        *total += parts[i];
}

static int calls;

static void count_up(void *)
{
    calls++;
}

static int expected(int value, int rounds)
{
    for (int i = 0; i < rounds; i++)
        value = (value * 3 + i) % 10007;
    return value;
}

static cudaGraphNode_t add_step(cudaGraph_t graph, const cudaGraphNode_t *after, int *memory, int factor, int term)
{
    cudaGraphNode_t node;
    void *arguments[] = {&memory, &factor, &term};
    cudaKernelNodeParams kernel = {};
    kernel.func = (void *)step;
    kernel.gridDim = kernel.blockDim = dim3(1);
    kernel.kernelParams = arguments;
    CHECK(cudaGraphAddKernelNode(&node, graph, after, after != NULL, &kernel));
    return node;
}

/* Branches of a child graph that all begin behind the node before it, and end before the one behind it. */
static void branches()
{
    int *parts, *total;
    cudaGraph_t graph, child;
    cudaGraphExec_t exec;
    cudaGraphNode_t fill, inner, behind, add;
    CHECK(cudaMalloc(&parts, 64));
    CHECK(cudaMallocManaged(&total, 4));
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphCreate(&child, 0));
    cudaMemsetParams two = {};
    two.dst = parts;
    two.elementSize = 4;
    two.pitch = 16;
    two.width = 2;
    two.height = 4; /* columns 0 and 1 of four rows */
    two.value = 2;
    CHECK(cudaMemset(parts, 0, 64));
    CHECK(cudaGraphAddMemsetNode(&fill, graph, NULL, 0, &two));
    for (int i = 0; i < 16; i++)
        inner = add_step(child, NULL, parts + i, 5, 1);
    CHECK(cudaGraphAddChildGraphNode(&behind, graph, &fill, 1, child));
    int count = 16;
    void *arguments[] = {&total, &parts, &count};
    cudaKernelNodeParams kernel = {};
    kernel.func = (void *)sum;
    kernel.gridDim = kernel.blockDim = dim3(1);
    kernel.kernelParams = arguments;
    CHECK(cudaGraphAddKernelNode(&add, graph, &behind, 1, &kernel));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    *total = 1000;
    CHECK(cudaGraphLaunch(exec, 0));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQUAL(*total, 1000 + 8 * 11 + 8 * 1);
    *total = 0; /* the host's again */
    CHECK(cudaMemset(parts, 0, 64));
    CHECK(cudaGraphLaunch(exec, 0));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQUAL(*total, 8 * 11 + 8 * 1);
    (void)inner;
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(child));
    CHECK(cudaGraphDestroy(graph));
}

int main()
{
    int *device, *pinned;
    cudaStream_t streams[STREAMS];
    cudaGraph_t graph;
    cudaGraphExec_t exec, again;
    cudaGraphNode_t node, first;
    CHECK(cudaMalloc(&device, 4));
    CHECK(cudaMallocHost(&pinned, 4));
    for (int i = 0; i < STREAMS; i++)
        CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));

    *pinned = 1;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemcpyNode1D(&node, graph, NULL, 0, device, pinned, 4, cudaMemcpyHostToDevice));
    for (int i = 0; i < CHAIN; i++) {
        node = add_step(graph, &node, device, 3, i);
        first = i == 0 ? node : first;
        if (i % 50 == 10)
            CHECK(cudaGraphAddEmptyNode(&node, graph, &node, 1));
    }
    CHECK(cudaGraphAddMemcpyNode1D(&node, graph, &node, 1, pinned, device, 4, cudaMemcpyDeviceToHost));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));

    /* Each launch goes on where the last one ended, in whichever stream. */
    int value = 1;
    for (int i = 0; i < 12; i++) {
        CHECK(cudaGraphLaunch(exec, streams[i % STREAMS]));
        value = expected(value, CHAIN);
    }
    CHECK(cudaStreamDestroy(streams[11 % STREAMS]));
    CHECK(cudaGraphLaunch(exec, 0));
    value = expected(value, CHAIN);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQUAL(*pinned, value);

    /* Without its first kernel, and with it again. */
    *pinned = 7;
    CHECK(cudaGraphNodeSetEnabled(exec, first, 0));
    CHECK(cudaGraphLaunch(exec, 0));
    CHECK(cudaDeviceSynchronize());
    value = 7;
    for (int i = 1; i < CHAIN; i++)
        value = (value * 3 + i) % 10007;
    EXPECT_EQUAL(*pinned, value);
    *pinned = 7;
    CHECK(cudaGraphNodeSetEnabled(exec, first, 1));
    CHECK(cudaGraphLaunch(exec, 0));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQUAL(*pinned, expected(7, CHAIN));

    /* An update from the same graph leaves it fit to be made into others. */
    cudaGraphExecUpdateResultInfo result;
    for (int i = 0; i < 5; i++) {
        CHECK(cudaGraphExecUpdate(exec, graph, &result));
        CHECK(cudaGraphInstantiate(&again, graph, 0));
        CHECK(cudaGraphExecDestroy(again));
    }
    *pinned = 2;
    CHECK(cudaGraphLaunch(exec, streams[0]));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQUAL(*pinned, expected(2, CHAIN));

    /* A function of the host holds back the rest, and a change meanwhile is not for the launch before it. */
    cudaHostNodeParams call = {count_up, NULL};
    cudaGraphNode_t host;
    CHECK(cudaGraphAddHostNode(&host, graph, NULL, 0, &call));
    CHECK(cudaGraphAddDependencies(graph, &host, &first, 1));
    CHECK(cudaGraphInstantiate(&again, graph, 0));
    *pinned = 4;
    CHECK(cudaGraphLaunch(again, streams[0]));
    CHECK(cudaGraphNodeSetEnabled(again, first, 0));
    CHECK(cudaGraphExecDestroy(again));
    CHECK(cudaStreamSynchronize(streams[0]));
    EXPECT_EQUAL(calls, 1);
    EXPECT_EQUAL(*pinned, expected(4, CHAIN));
    branches();
    return finish();
}
