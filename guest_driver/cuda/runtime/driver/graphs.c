/* Graphs by the driver API, their edges and their objects. A CUgraph is a cudaGraph_t, and nodes are the same, too. */
#include "runtime.h"

/* ---- graphs --------------------------------------------------------------------------------- */

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
    return RT_IN_CONTEXT(cudaGraphCreate(graph, flags));
}

CUresult cuGraphDestroy(CUgraph graph)
{
    return RT_IN_CONTEXT(cudaGraphDestroy(graph));
}

CUresult cuGraphClone(CUgraph *clone, CUgraph graph)
{
    return RT_IN_CONTEXT(cudaGraphClone(clone, graph));
}

CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned int flags)
{
    return RT_IN_CONTEXT(cudaGraphDebugDotPrint(graph, path, flags));
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    return RT_IN_CONTEXT(cudaGraphGetNodes(graph, nodes, count));
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    return RT_IN_CONTEXT(cudaGraphGetRootNodes(graph, nodes, count));
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    return RT_IN_CONTEXT(cudaGraphNodeGetType(node, (enum cudaGraphNodeType *)type)); /* the same numbers */
}

CUresult cuGraphNodeFindInClone(CUgraphNode *node, CUgraphNode original, CUgraph clone)
{
    return RT_IN_CONTEXT(cudaGraphNodeFindInClone(node, original, clone));
}

CUresult cuGraphDestroyNode(CUgraphNode node)
{
    return RT_IN_CONTEXT(cudaGraphDestroyNode(node));
}

/* ---- edges ---------------------------------------------------------------------------------- */

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    return RT_IN_CONTEXT(cudaGraphGetEdges(graph, from, to, count));
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *count)
{
    return RT_IN_CONTEXT(cudaGraphGetEdges_v2(graph, from, to, (cudaGraphEdgeData *)data, count));
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    return RT_IN_CONTEXT(cudaGraphAddDependencies(graph, from, to, count));
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *data, size_t count)
{
    return RT_IN_CONTEXT(cudaGraphAddDependencies_v2(graph, from, to, (const cudaGraphEdgeData *)data, count));
}

CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    return RT_IN_CONTEXT(cudaGraphRemoveDependencies(graph, from, to, count));
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                      const CUgraphEdgeData *data, size_t count)
{
    return RT_IN_CONTEXT(cudaGraphRemoveDependencies_v2(graph, from, to, (const cudaGraphEdgeData *)data, count));
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *before, size_t *count)
{
    return RT_IN_CONTEXT(cudaGraphNodeGetDependencies(node, before, count));
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *before, CUgraphEdgeData *data, size_t *count)
{
    return RT_IN_CONTEXT(cudaGraphNodeGetDependencies_v2(node, before, (cudaGraphEdgeData *)data, count));
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *behind, size_t *count)
{
    return RT_IN_CONTEXT(cudaGraphNodeGetDependentNodes(node, behind, count));
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *behind, CUgraphEdgeData *data, size_t *count)
{
    return RT_IN_CONTEXT(cudaGraphNodeGetDependentNodes_v2(node, behind, (cudaGraphEdgeData *)data, count));
}

/* ---- memory and conditions ------------------------------------------------------------------ */

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    const CUresult result = rt_check_ordinal(&device, device);
    return result == CUDA_SUCCESS ? RT_ASK(cudaDeviceGraphMemTrim(device)) : result;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    const CUresult result = rt_check_ordinal(value, device);
    if (result != CUDA_SUCCESS)
        return result;
    return RT_ASK(cudaDeviceGetGraphMemAttribute(device, (enum cudaGraphMemAttributeType)attribute, value));
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    const CUresult result = rt_check_ordinal(value, device);
    if (result != CUDA_SUCCESS)
        return result;
    return RT_ASK(cudaDeviceSetGraphMemAttribute(device, (enum cudaGraphMemAttributeType)attribute, value));
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *handle, CUgraph graph, CUcontext context,
                                        unsigned int initial, unsigned int flags)
{
    (void)context; /* the graph's device has the condition */
    return RT_IN_CONTEXT(cudaGraphConditionalHandleCreate(handle, graph, initial, flags));
}

/* ---- objects of the program ----------------------------------------------------------------- */

CUresult cuUserObjectCreate(CUuserObject *object, void *what, CUhostFn destroy, unsigned int count, unsigned int flags)
{
    const CUresult result = rt_check_driver(); /* they need no context, as those below */
    return result == CUDA_SUCCESS ? RT_ASK(cudaUserObjectCreate(object, what, destroy, count, flags)) : result;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    const CUresult result = rt_check_driver();
    return result == CUDA_SUCCESS ? RT_ASK(cudaUserObjectRetain(object, count)) : result;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    const CUresult result = rt_check_driver();
    return result == CUDA_SUCCESS ? RT_ASK(cudaUserObjectRelease(object, count)) : result;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
    return RT_IN_CONTEXT(cudaGraphRetainUserObject(graph, object, count, flags));
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
    return RT_IN_CONTEXT(cudaGraphReleaseUserObject(graph, object, count));
}
