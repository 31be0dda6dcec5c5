// Rule: conditional nodes run their graphs by the numbers that kernels set: if, else, while, switch, one in another.
#include "check.h"

/* CUDA's own declaration, which programs repeat. */
extern "C" __device__ __cudart_builtin__ void CUDARTAPI cudaGraphSetConditional(cudaGraphConditionalHandle handle,
                                                                                unsigned int value);

__global__ void decide(const int *number, cudaGraphConditionalHandle handle)
{
    cudaGraphSetConditional(handle, *number);
}

__global__ void add(int *number, int by)
{
    *number += by;
}

/* Counts down, and goes on until it comes to nought. */
__global__ void step(int *left, int *steps, cudaGraphConditionalHandle handle)
{
    ++*steps;
    cudaGraphSetConditional(handle, --*left > 0);
}

static cudaGraphNode_t add_kernel(cudaGraph_t graph, const cudaGraphNode_t *after, const void *kernel, void **arguments)
{
    cudaGraphNode_t node;
    cudaGraphNodeParams params = {cudaGraphNodeTypeKernel};
    params.kernel.func = (void *)kernel;
    params.kernel.gridDim = params.kernel.blockDim = dim3(1);
    params.kernel.kernelParams = arguments;
    CHECK(cudaGraphAddNode(&node, graph, after, after != NULL, &params));
    return node;
}

static cudaGraph_t *add_conditional(cudaGraph_t graph, const cudaGraphNode_t *after, cudaGraphConditionalHandle handle,
                                    cudaGraphConditionalNodeType type, unsigned size, cudaGraphNode_t *node)
{
    cudaGraphNodeParams params = {cudaGraphNodeTypeConditional};
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = size;
    CHECK(cudaGraphAddNode(node, graph, after, NULL, after != NULL, &params));
    return params.conditional.phGraph_out;
}

static void add_body(cudaGraph_t body, int *number, int by)
{
    void *arguments[] = {&number, &by};
    add_kernel(body, NULL, (void *)add, arguments);
}

/* Number that a launch leaves in `result`, when the decision was `number`. */
static int launch(cudaGraphExec_t exec, int *device, int number, cudaStream_t stream)
{
    int values[3] = {number, 0, 0};
    CHECK(cudaMemcpy(device, values, sizeof values, cudaMemcpyHostToDevice));
    CHECK(cudaGraphLaunch(exec, stream));
    add<<<1, 1, 0, stream>>>(device + 1, 1000); // behind the graph
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
    return values[1];
}

static void choose(int *device, cudaStream_t stream)
{
    int *result = device + 1;
    for (unsigned size = 1; size <= 3; size++) {
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        cudaGraphConditionalHandle handle;
        cudaGraphNode_t node;
        CHECK(cudaGraphCreate(&graph, 0));
        CHECK(cudaGraphConditionalHandleCreate(&handle, graph));
        void *arguments[] = {&device, &handle};
        cudaGraphNode_t first = add_kernel(graph, NULL, (void *)decide, arguments);
        cudaGraphConditionalNodeType type = size == 3 ? cudaGraphCondTypeSwitch : cudaGraphCondTypeIf;
        cudaGraph_t *bodies = add_conditional(graph, &first, handle, type, size, &node);
        for (unsigned i = 0; i < size; i++)
            add_body(bodies[i], result, 1 << i);
        cudaGraphNodeType found;
        CHECK(cudaGraphNodeGetType(node, &found));
        EXPECT_EQUAL(found, cudaGraphNodeTypeConditional);
        CHECK(cudaGraphInstantiate(&exec, graph));
        CHECK(cudaGraphDestroy(graph));
        int expected[4][4] = {{}, {1000, 1001, 1001, 1001}, {1002, 1001, 1001, 1001}, {1001, 1002, 1004, 1000}};
        for (int number = 0; number < 4; number++)
            EXPECT_EQUAL(launch(exec, device, number, stream), expected[size][number]);
        CHECK(cudaGraphExecDestroy(exec));
    }
}

/* A loop of `number` steps, which is captured, with a condition of its own in each step. */
static void repeat(int *device, cudaStream_t stream)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphConditionalHandle loop, inner;
    cudaGraphNode_t node, nested;
    int *steps = device + 2, *result = device + 1;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphConditionalHandleCreate(&loop, graph, 1, cudaGraphCondAssignDefault));
    CHECK(cudaGraphConditionalHandleCreate(&inner, graph));
    cudaGraph_t body = add_conditional(graph, NULL, loop, cudaGraphCondTypeWhile, 1, &node)[0];
    CHECK(cudaStreamBeginCaptureToGraph(stream, body, NULL, NULL, 0, cudaStreamCaptureModeGlobal));
    step<<<1, 1, 0, stream>>>(device, steps, loop);
    decide<<<1, 1, 0, stream>>>(device, inner);
    cudaStreamCaptureStatus status;
    const cudaGraphNode_t *last;
    size_t count;
    cudaGraph_t captured;
    const cudaGraphEdgeData *data, plain = {};
    CHECK(cudaStreamGetCaptureInfo(stream, &status, NULL, &captured, &last, &data, &count));
    EXPECT(captured == body && count == 1);
    EXPECT(data != NULL && memcmp(data, &plain, sizeof plain) == 0);
    cudaGraph_t deepest = add_conditional(body, last, inner, cudaGraphCondTypeIf, 1, &nested)[0];
    CHECK(cudaStreamUpdateCaptureDependencies(stream, &nested, NULL, 1, cudaStreamSetCaptureDependencies));
    add<<<1, 1, 0, stream>>>(result, 1);
    CHECK(cudaStreamEndCapture(stream, NULL));
    add_body(deepest, result, 100);
    CHECK(cudaGraphInstantiate(&exec, graph, NULL, NULL, 0));
    EXPECT_EQUAL(launch(exec, device, 1, stream), 1000 + 1);
    EXPECT_EQUAL(launch(exec, device, 5, stream), 1000 + 5 + 4 * 100);
    EXPECT_EQUAL(launch(exec, device, 3, 0), 1000 + 3 + 2 * 100);
    CHECK(cudaGraphLaunch(exec, stream)); // one step, since nothing is left
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphDestroy(graph));
}

static void CUDART_CB note(void *)
{
}

static void refuse(void)
{
    cudaGraph_t graph, other;
    cudaGraphExec_t exec;
    cudaGraphConditionalHandle handle;
    cudaGraphNode_t node, call;
    cudaGraphNodeParams params = {cudaGraphNodeTypeConditional};
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphConditionalHandleCreate(&handle, graph));
    params.conditional.handle = handle;
    params.conditional.type = cudaGraphCondTypeWhile;
    params.conditional.size = 2;
    EXPECT_ERROR(cudaGraphAddNode(&node, graph, NULL, 0, &params), cudaErrorInvalidValue);
    params.conditional.size = 1;
    params.conditional.handle = 0;
    EXPECT_ERROR(cudaGraphAddNode(&node, graph, NULL, 0, &params), cudaErrorInvalidValue);
    params.conditional.handle = handle;
    CHECK(cudaGraphCreate(&other, 0));
    EXPECT_ERROR(cudaGraphAddNode(&node, other, NULL, 0, &params), cudaErrorInvalidValue); // another graph's handle
    CHECK(cudaGraphDestroy(other));
    CHECK(cudaGraphAddNode(&node, graph, NULL, 0, &params));
    EXPECT_ERROR(cudaGraphDestroy(params.conditional.phGraph_out[0]), cudaErrorInvalidValue);
    cudaHostNodeParams host = {note, NULL};
    CHECK(cudaGraphAddHostNode(&call, params.conditional.phGraph_out[0], NULL, 0, &host));
    EXPECT_ERROR(cudaGraphInstantiate(&exec, graph), cudaErrorNotSupported);
    CHECK(cudaGraphDestroy(graph));
}

int main()
{
    int *device;
    cudaStream_t stream;
    CHECK(cudaMalloc(&device, 3 * sizeof(int)));
    CHECK(cudaStreamCreate(&stream));
    choose(device, stream);
    choose(device, 0);
    repeat(device, stream);
    refuse();
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(device));
    return finish();
}
