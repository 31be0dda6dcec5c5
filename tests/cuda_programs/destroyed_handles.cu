// Rule: what was destroyed is an error wherever it is named, also if it is destroyed twice and much is made meanwhile.
#include "check.h"

__global__ void nothing()
{
}

static void streams_and_events()
{
    cudaStream_t stream;
    cudaEvent_t event;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&event));
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaEventDestroy(event));
    for (int i = 0; i < 1000; i++)
        free(malloc(16 + i));
    EXPECT_ERROR(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
    EXPECT_ERROR(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
    EXPECT_ERROR(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
    EXPECT_ERROR(cudaMemcpyAsync(&event, &stream, 8, cudaMemcpyHostToHost, stream), cudaErrorInvalidResourceHandle);
    nothing<<<1, 1, 0, stream>>>();
    EXPECT_ERROR(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    EXPECT_ERROR(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
    EXPECT_ERROR(cudaEventRecord(event), cudaErrorInvalidResourceHandle);
    EXPECT_ERROR(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
    EXPECT_ERROR(cudaStreamWaitEvent(NULL, event, 0), cudaErrorInvalidResourceHandle);
}

static void graphs()
{
    cudaGraph_t graph, other;
    cudaGraphNode_t node;
    cudaGraphExec_t exec;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddEmptyNode(&node, graph, NULL, 0));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    EXPECT_ERROR(cudaGraphExecDestroy(exec), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaGraphLaunch(exec, NULL), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaGraphDestroy(graph), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaGraphClone(&other, graph), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaGraphDestroyNode(node), cudaErrorInvalidValue);
    CHECK(cudaGraphCreate(&graph, 0));
    EXPECT_ERROR(cudaGraphAddEmptyNode(&node, graph, &node, 1), cudaErrorInvalidValue);
    CHECK(cudaGraphDestroy(graph));
}

static int destroyed;

static void destroy(void *)
{
    destroyed++;
}

static void objects()
{
    cudaUserObject_t object;
    CHECK(cudaUserObjectCreate(&object, NULL, destroy, 1, cudaUserObjectNoDestructorSync));
    CHECK(cudaUserObjectRelease(object, 1));
    EXPECT_ERROR(cudaUserObjectRelease(object, 1), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaUserObjectRetain(object, 1), cudaErrorInvalidValue);
    EXPECT_EQUAL(destroyed, 1);
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    cudaMemPool_t pool;
    void *memory;
    CHECK(cudaMemPoolCreate(&pool, &properties));
    CHECK(cudaMemPoolDestroy(pool));
    EXPECT_ERROR(cudaMemPoolDestroy(pool), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaMallocFromPoolAsync(&memory, 64, pool, NULL), cudaErrorInvalidValue);
}

int main()
{
    for (int i = 0; i < 3; i++) {
        streams_and_events();
        graphs();
        objects();
        destroyed = 0;
    }
    CHECK(cudaDeviceSynchronize());
    return finish();
}
