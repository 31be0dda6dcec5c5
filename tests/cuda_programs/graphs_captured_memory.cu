// Rule: cudaMallocAsync() and cudaFreeAsync() in a captured stream become nodes of the graph; memory of a graph may be
// freed in a stream outside of it, and calls that CUDA names unsafe spoil a capture.
#include "check.h"

__global__ void put(int *out, int value)
{
    *out = value;
}

__global__ void add(int *out, const int *in)
{
    *out += *in;
}

int main()
{
    int *first, *kept, *device, *pool, *pinned, *managed, result = 0;
    size_t pitch, count = 0;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&device, 4));
    CHECK(cudaMallocAsync(&pool, 4, stream));
    CHECK(cudaMemset(device, 0, 4));

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMallocAsync(&first, 4, stream));
    CHECK(cudaMallocAsync(&kept, 4, stream));
    EXPECT(first != NULL && kept != NULL && first != kept);
    put<<<1, 1, 0, stream>>>(first, 30);
    add<<<1, 1, 0, stream>>>(device, first);
    put<<<1, 1, 0, stream>>>(kept, 12);
    EXPECT_ERROR(cudaFreeAsync(pool, stream), cudaErrorInvalidValue); /* not the graph's */
    CHECK(cudaFreeAsync(first, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));

    cudaGraphNode_t nodes[8];
    cudaGraphNodeType type;
    int allocations = 0, frees = 0;
    CHECK(cudaGraphGetNodes(graph, NULL, &count));
    EXPECT_EQUAL(count, 6);
    CHECK(cudaGraphGetNodes(graph, nodes, &count));
    for (size_t i = 0; i < count; i++) {
        CHECK(cudaGraphNodeGetType(nodes[i], &type));
        allocations += type == cudaGraphNodeTypeMemAlloc;
        frees += type == cudaGraphNodeTypeMemFree;
    }
    EXPECT_EQUAL(allocations, 2);
    EXPECT_EQUAL(frees, 1);

    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 1; round <= 2; round++) {
        CHECK(cudaGraphLaunch(exec, stream));
        add<<<1, 1, 0, stream>>>(device, kept);
        CHECK(cudaFreeAsync(kept, stream));
        CHECK(cudaMemcpyAsync(&result, device, 4, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        EXPECT_EQUAL(result, 42 * round);
    }
    CHECK(cudaFreeAsync(pool, stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));

    for (int call = 0; call < 3; call++) {
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        cudaError_t error = call == 0   ? cudaMallocHost(&pinned, 4)
                            : call == 1 ? cudaMallocManaged(&managed, 4)
                                        : cudaMallocPitch(&managed, &pitch, 4, 4);
        EXPECT_EQUAL(error, cudaErrorStreamCaptureUnsupported);
        EXPECT_ERROR(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    }
    return finish();
}
