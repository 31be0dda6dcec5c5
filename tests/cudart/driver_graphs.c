/* Graphs: nodes of all kinds, captures, changes of executable graphs, objects of the program. */
#include "driver_checks.h"

static CUfunction scale;
static CUdeviceptr memory;
static unsigned called;

static void add_one(void *data)
{
    ++*(unsigned *)data;
}

static CUDA_KERNEL_NODE_PARAMS kernel_of(void **parameters)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = scale,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = COUNT,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = parameters};
}

static CUDA_MEMCPY3D to_host(unsigned *host)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = memory,
                           .dstMemoryType = CU_MEMORYTYPE_HOST,
                           .dstHost = host,
                           .WidthInBytes = COUNT * sizeof(unsigned),
                           .Height = 1,
                           .Depth = 1};
}

static void launch(CUgraphExec exec)
{
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
}

/* A grid without blocks, which the executable graph gets before it is launched, as tinygrad does it. */
static void grid_given_later(void)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode kernel;
    unsigned n = COUNT, first = 0;
    void *parameters[] = {&memory, &n};
    CUDA_KERNEL_NODE_PARAMS launching = kernel_of(parameters), told;
    OK(cuMemsetD32(memory, 4, COUNT));
    launching.gridDimX = 0;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddKernelNode(&kernel, graph, NULL, 0, &launching));
    OK(cuGraphKernelNodeGetParams(kernel, &told));
    CHECK(told.gridDimX == 0 && told.gridDimY == 1);
    OK(cuGraphInstantiate(&exec, graph, 0));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, NULL));
    launching.gridDimX = 1;
    OK(cuGraphExecKernelNodeSetParams(exec, kernel, &launching));
    launch(exec);
    OK(cuMemcpyDtoH(&first, memory, sizeof(first)));
    CHECK(first == 12);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* fill -> kernel -> copy, and a function of the host behind the copy */
static void nodes(void)
{
    CUgraph graph, clone;
    CUgraphExec exec;
    CUgraphNode fill, kernel, copy, host, list[4], from[3], to[3];
    CUgraphNodeType type;
    size_t count = 4;
    unsigned n = COUNT, back[COUNT] = {0};
    void *parameters[] = {&memory, &n};
    CUDA_MEMSET_NODE_PARAMS filling = {.dst = memory, .value = 5, .elementSize = 4, .width = COUNT, .height = 1};
    CUDA_KERNEL_NODE_PARAMS launching = kernel_of(parameters), told;
    CUDA_MEMCPY3D copying = to_host(back), box;
    CUDA_HOST_NODE_PARAMS calling = {.fn = add_one, .userData = &called};
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemsetNode(&fill, graph, NULL, 0, &filling, NULL));
    OK(cuGraphAddKernelNode(&kernel, graph, &fill, 1, &launching));
    OK(cuGraphAddMemcpyNode(&copy, graph, NULL, 0, &copying, NULL));
    OK(cuGraphAddDependencies(graph, &kernel, &copy, 1));
    OK(cuGraphAddHostNode(&host, graph, &copy, 1, &calling));
    OK(cuGraphGetNodes(graph, list, &count));
    CHECK(count == 4);
    count = 3;
    OK(cuGraphGetEdges(graph, from, to, &count));
    CHECK(count == 3);
    count = 4;
    OK(cuGraphGetRootNodes(graph, list, &count));
    CHECK(count == 1 && list[0] == fill);
    count = 4;
    OK(cuGraphNodeGetDependencies(host, list, &count));
    CHECK(count == 1 && list[0] == copy);
    OK(cuGraphNodeGetType(host, &type));
    CHECK(type == CU_GRAPH_NODE_TYPE_HOST);
    OK(cuGraphClone(&clone, graph));
    OK(cuGraphNodeFindInClone(&list[0], kernel, clone));
    CHECK(list[0] != kernel);
    OK(cuGraphDestroy(clone));

    OK(cuGraphInstantiate(&exec, graph, 0));
    launch(exec);
    CHECK(back[0] == 15 && back[COUNT - 1] == 15 && called == 1);

    /* Parameters of nodes as they were given, and new ones in the executable graph alone. */
    OK(cuGraphKernelNodeGetParams(kernel, &told));
    CHECK(told.func == scale && told.blockDimX == COUNT && *(unsigned *)told.kernelParams[1] == COUNT);
    OK(cuGraphMemcpyNodeGetParams(copy, &box));
    CHECK(box.srcMemoryType == CU_MEMORYTYPE_DEVICE && box.srcDevice == memory && box.dstHost == back);
    CHECK(box.WidthInBytes == sizeof(back) && box.Height == 1 && box.Depth == 1);
    OK(cuGraphMemsetNodeGetParams(fill, &filling));
    CHECK(filling.dst == memory && filling.value == 5 && filling.elementSize == 4 && filling.width == COUNT);
    filling.value = 7;
    n = 10;
    OK(cuGraphExecMemsetNodeSetParams(exec, fill, &filling, NULL));
    OK(cuGraphExecKernelNodeSetParams(exec, kernel, &launching));
    launch(exec);
    CHECK(back[9] == 21 && back[10] == 7 && called == 2);
    unsigned is_enabled = 1;
    OK(cuGraphNodeSetEnabled(exec, kernel, 0));
    OK(cuGraphNodeGetEnabled(exec, kernel, &is_enabled));
    launch(exec);
    CHECK(!is_enabled && back[0] == 7);
    OK(cuGraphNodeSetEnabled(exec, kernel, 1));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuGraphNodeSetEnabled(exec, host, 0)); /* kernels, copies and fills alone */

    /* The graph's own nodes change; the executable graph takes them over. */
    CUgraphExecUpdateResultInfo info;
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    any.memset.dst = memory;
    any.memset.value = 2;
    any.memset.elementSize = 4;
    any.memset.width = COUNT;
    any.memset.height = 1;
    OK(cuGraphNodeSetParams(fill, &any));
    OK(cuGraphExecUpdate(exec, graph, &info));
    CHECK(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
    launch(exec);
    CHECK(back[0] == 6 && back[COUNT - 1] == 6);
    any.memset.value = 3;
    OK(cuGraphExecNodeSetParams(exec, fill, &any));
    launch(exec);
    CHECK(back[0] == 9);
    any.type = CU_GRAPH_NODE_TYPE_HOST;
    ENDS(CUDA_ERROR_INVALID_VALUE, cuGraphNodeSetParams(fill, &any));
    OK(cuGraphDestroyNode(host));
    ENDS(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(exec, graph, &info));
    CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);

    launching.func = NULL;
    ENDS(CUDA_ERROR_INVALID_HANDLE, cuGraphAddKernelNode(&kernel, graph, NULL, 0, &launching));
    launching.kern = (CUkernel)scale;
    OK(cuGraphAddKernelNode(&kernel, graph, NULL, 0, &launching));
    launching.blockDimX = 100000;
    ENDS(CUDA_ERROR_INVALID_VALUE, cuGraphKernelNodeSetParams(kernel, &launching));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuGraphAddKernelNode(&kernel, graph, NULL, 0, NULL));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiate(&exec, graph, 1u << 20));
    OK(cuGraphExecDestroy(exec));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(graph));
}

static void captures(void)
{
    CUstream stream, other;
    CUevent event;
    CUgraph graph, seen;
    CUgraphExec exec;
    CUstreamCaptureStatus status;
    cuuint64_t id;
    const CUgraphNode *after;
    size_t count;
    unsigned n = COUNT, back[COUNT] = {0};
    void *parameters[] = {&memory, &n};
    CUDA_GRAPH_INSTANTIATE_PARAMS instantiation = {.flags = 0};
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cuMemsetD32Async(memory, 4, COUNT, stream));
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(other, event, 0)); /* `other` joins in */
    OK(cuLaunchKernel(scale, 1, 1, 1, COUNT, 1, 1, 0, other, parameters, NULL));
    OK(cuStreamIsCapturing(other, &status));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuStreamGetCaptureInfo(stream, &status, &id, &seen, &after, &count));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && count == 1);
    OK(cuEventRecord(event, other));
    OK(cuStreamWaitEvent(stream, event, 0));
    OK(cuMemcpyDtoHAsync(back, memory, sizeof(back), stream));
    ENDS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(stream));
    ENDS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));

    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemsetD32Async(memory, 4, COUNT, stream));
    OK(cuLaunchKernel(scale, 1, 1, 1, COUNT, 1, 1, 0, stream, parameters, NULL));
    OK(cuStreamGetCaptureInfo(stream, &status, &id, &seen, &after, &count));
    CUgraphNode empty;
    OK(cuGraphAddEmptyNode(&empty, seen, after, count)); /* the program adds a node of its own */
    OK(cuStreamUpdateCaptureDependencies(stream, &empty, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    OK(cuMemcpyDtoHAsync(back, memory, sizeof(back), stream));
    OK(cuStreamEndCapture(stream, &graph));
    CHECK(back[0] == 0 && graph == seen);
    count = 0;
    OK(cuGraphGetNodes(graph, NULL, &count));
    CHECK(count == 4);
    OK(cuGraphInstantiateWithParams(&exec, graph, &instantiation));
    CHECK(instantiation.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS);
    OK(cuGraphUpload(exec, stream));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    CHECK(back[0] == 12 && back[COUNT - 1] == 12);
    ENDS(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(stream, &seen));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuEventDestroy(event));
    OK(cuStreamDestroy(other));
    OK(cuStreamDestroy(stream));
}

/* A capture that goes on with a graph, and edges with data. */
static void captures_into_graphs(void)
{
    CUstream stream;
    CUgraph graph, seen;
    CUgraphNode fill, from[4], to[4];
    CUgraphExec exec;
    CUgraphEdgeData data[4];
    const CUgraphEdgeData *all;
    CUstreamCaptureStatus status;
    const CUgraphNode *after;
    cuuint64_t id;
    size_t count = 4;
    unsigned n = COUNT;
    void *parameters[] = {&memory, &n};
    const CUDA_MEMSET_NODE_PARAMS filling = {.dst = memory, .value = 11, .elementSize = 4, .width = COUNT, .height = 1};
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemsetNode(&fill, graph, NULL, 0, &filling, NULL));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCaptureToGraph(stream, graph, &fill, NULL, 1, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamGetCaptureInfo_v3(stream, &status, &id, &seen, &after, &all, &count));
    CHECK(seen == graph && count == 1 && after[0] == fill);
    OK(cuLaunchKernel(scale, 1, 1, 1, COUNT, 1, 1, 0, stream, parameters, NULL));
    OK(cuStreamEndCapture(stream, &seen));
    CHECK(seen == graph);
    count = 4;
    OK(cuGraphGetEdges_v2(graph, from, to, data, &count));
    CHECK(count == 1 && from[0] == fill && data[0].type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT);
    OK(cuGraphRemoveDependencies_v2(graph, from, to, data, 1));
    OK(cuGraphAddDependencies_v2(graph, from, to, data, 1));
    count = 4;
    OK(cuGraphNodeGetDependencies_v2(to[0], from, data, &count));
    CHECK(count == 1 && from[0] == fill);
    count = 4;
    OK(cuGraphNodeGetDependentNodes(fill, to, &count));
    CHECK(count == 1);
    OK(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD));
    OK(cuGraphExecGetFlags(exec, &id));
    CHECK(id == CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
    launch(exec);
    CHECK(first_of(memory) == 33);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy(stream));
}

/* Copies of a graph into an array and out of it. */
static void arrays(void)
{
    enum { WIDTH = 6, HEIGHT = 4 };
    CUarray array;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode in, out;
    float host[HEIGHT][WIDTH], back[HEIGHT][WIDTH] = {{0}};
    const CUDA_ARRAY_DESCRIPTOR shape = {WIDTH, HEIGHT, CU_AD_FORMAT_FLOAT, 1};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = host,
                          .srcPitch = sizeof(host[0]),
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .dstXInBytes = 8,
                          .WidthInBytes = 12,
                          .Height = HEIGHT,
                          .Depth = 1};
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        (&host[0][0])[i] = (float)i;
    OK(cuArrayCreate(&array, &shape));
    copy.dstArray = array;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemcpyNode(&in, graph, NULL, 0, &copy, NULL));
    memset(&copy, 0, sizeof(copy));
    OK(cuGraphMemcpyNodeGetParams(in, &copy));
    CHECK(copy.dstArray == array && copy.dstXInBytes == 8 && copy.WidthInBytes == 12 && copy.srcHost == host);
    CHECK(copy.dstMemoryType == CU_MEMORYTYPE_ARRAY && copy.srcMemoryType == CU_MEMORYTYPE_HOST);
    copy = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                           .srcArray = array,
                           .dstMemoryType = CU_MEMORYTYPE_HOST,
                           .dstHost = back,
                           .dstPitch = sizeof(back[0]),
                           .WidthInBytes = sizeof(back[0]),
                           .Height = HEIGHT,
                           .Depth = 1};
    OK(cuGraphAddMemcpyNode(&out, graph, &in, 1, &copy, NULL));
    OK(cuGraphInstantiate(&exec, graph, 0));
    launch(exec);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            CHECK(back[y][x] == (x >= 2 && x < 5 ? host[y][x - 2] : 0));
    copy.srcXInBytes = 3;
    ENDS(CUDA_ERROR_INVALID_VALUE, cuGraphMemcpyNodeSetParams(out, &copy));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuArrayDestroy(array));
}

/* Memory that a graph allocates, a graph in a graph, and a body that runs by a condition. */
static void other_nodes(void)
{
    CUgraph graph, child, body, inner;
    CUgraphExec exec;
    CUgraphNode allocate, fill, copy, release, nested, condition;
    CUDA_MEM_ALLOC_NODE_PARAMS allocation = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
        .bytesize = 400};
    unsigned back[COUNT] = {0};
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemAllocNode(&allocate, graph, NULL, 0, &allocation));
    CHECK(allocation.dptr != 0);
    CUDA_MEMSET_NODE_PARAMS filling = {
        .dst = allocation.dptr, .value = 0x77, .elementSize = 1, .width = 400, .height = 1};
    CUDA_MEMCPY3D copying = to_host(back);
    copying.srcDevice = allocation.dptr;
    OK(cuGraphAddMemsetNode(&fill, graph, &allocate, 1, &filling, NULL));
    OK(cuGraphAddMemcpyNode(&copy, graph, &fill, 1, &copying, NULL));
    OK(cuGraphAddMemFreeNode(&release, graph, &copy, 1, allocation.dptr));
    CUdeviceptr freed = 0;
    OK(cuGraphMemFreeNodeGetParams(release, &freed));
    CHECK(freed == allocation.dptr);
    OK(cuGraphInstantiate(&exec, graph, 0));
    launch(exec);
    CHECK(back[0] == 0x77777777 && back[COUNT - 1] == 0x77777777);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));

    CUgraphConditionalHandle handle;
    CUgraphNodeParams conditional = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphCreate(&child, 0));
    filling = (CUDA_MEMSET_NODE_PARAMS){.dst = memory, .value = 1, .elementSize = 4, .width = 1, .height = 1};
    OK(cuGraphAddMemsetNode(&fill, child, NULL, 0, &filling, NULL));
    OK(cuGraphAddChildGraphNode(&nested, graph, NULL, 0, child));
    OK(cuGraphChildGraphNodeGetGraph(nested, &inner));
    CHECK(inner != child);
    OK(cuGraphConditionalHandleCreate(&handle, graph, NULL, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    conditional.conditional.handle = handle;
    conditional.conditional.type = CU_GRAPH_COND_TYPE_IF;
    conditional.conditional.size = 1;
    OK(cuGraphAddNode(&condition, graph, &nested, 1, &conditional));
    body = conditional.conditional.phGraph_out[0];
    filling.dst = memory + 4;
    filling.value = 9;
    OK(cuGraphAddMemsetNode(&fill, body, NULL, 0, &filling, NULL));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuMemsetD32(memory, 0, 2));
    launch(exec);
    CHECK(first_of(memory) == 1 && first_of(memory + 4) == 9);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(child));
    OK(cuGraphDestroy(graph));
}

static void objects(void)
{
    CUuserObject object;
    CUgraph graph;
    called = 0;
    OK(cuGraphCreate(&graph, 0));
    OK(cuUserObjectCreate(&object, &called, add_one, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(cuUserObjectRetain(object, 1));
    OK(cuUserObjectRelease(object, 1));
    OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    CHECK(called == 0);
    OK(cuGraphDestroy(graph));
    CHECK(called == 1);
    ENDS(CUDA_ERROR_INVALID_VALUE, cuUserObjectCreate(&object, &called, add_one, 0, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
}

/* Functions of older programs, by the names that libcuda has for them. */
static void older_forms(void)
{
    typedef CUresult add_kernel(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                                const CUDA_KERNEL_NODE_PARAMS_v1 *);
    typedef CUresult instantiate(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
    typedef CUresult begin_capture(CUstream);
    void *function;
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUstream stream;
    unsigned n = COUNT;
    char log[8] = "?";
    void *parameters[] = {&memory, &n};
    const CUDA_KERNEL_NODE_PARAMS_v1 old = {scale, 1, 1, 1, COUNT, 1, 1, 0, parameters, NULL};
    OK(cuMemsetD32(memory, 2, 1));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGetProcAddress("cuGraphAddKernelNode", &function, 11000, 0, NULL));
    OK(((add_kernel *)function)(&node, graph, NULL, 0, &old));
    OK(cuGetProcAddress("cuGraphInstantiate", &function, 11000, 0, NULL));
    OK(((instantiate *)function)(&exec, graph, &node, log, sizeof(log)));
    CHECK(node == NULL && log[0] == '\0');
    launch(exec);
    CHECK(first_of(memory) == 6);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuGetProcAddress("cuStreamBeginCapture", &function, 10000, 0, NULL));
    OK(cuStreamCreate(&stream, 0));
    OK(((begin_capture *)function)(stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy(stream));
}

int main(void)
{
    CUcontext context = begin();
    CUmodule module;
    OK(cuModuleLoadData(&module, SCALE));
    OK(cuModuleGetFunction(&scale, module, "scale"));
    OK(cuMemAlloc(&memory, COUNT * sizeof(unsigned)));
    nodes();
    grid_given_later();
    captures();
    captures_into_graphs();
    arrays();
    other_nodes();
    objects();
    older_forms();
    OK(cuCtxDestroy(context));
    puts("PASS");
    return 0;
}
