/* Nodes of all kinds: made from parameters, and their parameters read and set. */
#include <string.h>

#include "graph.h"

/* ---- operations from parameters ----------------------------------------------------------------- */

enum { EXTRA_END = 0, EXTRA_BUFFER = 1, EXTRA_SIZE = 2 };

/* Arguments packed in one buffer, as CU_LAUNCH_PARAM_BUFFER_POINTER describes it. */
static cudaError_t take_buffer(const struct rt_launch *launch, void **extra, void **arguments)
{
    const char *buffer = NULL;
    struct vgc_param param;
    for (; *extra != (void *)EXTRA_END; extra += 2) {
        if (extra[0] == (void *)EXTRA_BUFFER)
            buffer = extra[1];
        else if (extra[0] != (void *)EXTRA_SIZE)
            return cudaErrorInvalidValue;
    }
    for (uint32_t i = 0; i < launch->num_arguments; i++) {
        if (buffer == NULL || vgc_function_param(launch->loaded, i, &param) != VGC_OK)
            return cudaErrorInvalidValue;
        arguments[i] = (void *)(uintptr_t)(buffer + param.offset);
    }
    return cudaSuccess;
}

cudaError_t rt_kernel_operation(struct rt_device *device, const struct cudaKernelNodeParams *params,
                                struct rt_operation *operation, void **arguments)
{
    *operation = (struct rt_operation){.kind = RT_LAUNCH};
    if (params == NULL || (params->kernelParams != NULL && params->extra != NULL))
        return cudaErrorInvalidValue;
    struct rt_launch *launch = &operation->launch;
    cudaError_t error =
        rt_prepare_launch(device, params->func, params->gridDim, params->blockDim, params->sharedMemBytes, 0, launch);
    if (error != cudaSuccess)
        return error;
    launch->arguments = params->kernelParams;
    if (params->kernelParams != NULL || launch->num_arguments == 0)
        return cudaSuccess;
    if (params->extra == NULL || launch->num_arguments > RT_MAX_ARGUMENTS)
        return rt_explain(cudaErrorInvalidValue, "a kernel node lacks its arguments");
    launch->arguments = arguments;
    return take_buffer(launch, params->extra, arguments);
}

static char *begin_of(const struct cudaPitchedPtr *pointer, const struct cudaPos *position)
{
    return (char *)pointer->ptr + position->z * pointer->pitch * pointer->ysize + position->y * pointer->pitch +
           position->x;
}

cudaError_t rt_memcpy_operation(const struct cudaMemcpy3DParms *params, struct rt_operation *operation)
{
    if (params == NULL || (params->srcArray == NULL) == (params->srcPtr.ptr == NULL) ||
        (params->dstArray == NULL) == (params->dstPtr.ptr == NULL))
        return rt_explain(cudaErrorInvalidValue, "a copy needs one source and one destination");
    if ((unsigned)params->kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    bool is_row =
        params->srcArray == NULL && params->dstArray == NULL && params->extent.height <= 1 && params->extent.depth <= 1;
    if (is_row)
        *operation = (struct rt_operation){
            .kind = RT_COPY,
            .copy = {begin_of(&params->dstPtr, &params->dstPos), begin_of(&params->srcPtr, &params->srcPos),
                     params->extent.height * params->extent.depth > 0 ? params->extent.width : 0, params->kind}};
    else
        *operation = (struct rt_operation){.kind = RT_COPY_3D, .copy_3d = params};
    return cudaSuccess;
}

cudaError_t rt_memset_operation(const struct cudaMemsetParams *params, struct rt_operation *operation)
{
    if (params == NULL || params->dst == NULL)
        return cudaErrorInvalidValue;
    uint32_t unit = params->elementSize;
    if ((unit != 1 && unit != 2 && unit != 4) || (params->height > 1 && params->pitch < params->width * unit))
        return rt_explain(cudaErrorInvalidValue, "a fill with elements of %u bytes, a pitch of %zu", unit,
                          params->pitch);
    *operation = (struct rt_operation){.kind = RT_FILL,
                                       .fill = {.dst = params->dst,
                                                .value = params->value,
                                                .unit = unit,
                                                .pitch = params->pitch,
                                                .width = params->width * unit,
                                                .height = params->height,
                                                .depth = 1}};
    return cudaSuccess;
}

cudaError_t rt_host_operation(const struct cudaHostNodeParams *params, struct rt_operation *operation)
{
    if (params == NULL || params->fn == NULL)
        return cudaErrorInvalidValue;
    *operation =
        (struct rt_operation){.kind = RT_HOST_FUNCTION, .host = {.function = params->fn, .data = params->userData}};
    return cudaSuccess;
}

static struct rt_operation row_operation(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    return (struct rt_operation){.kind = RT_COPY, .copy = {to, from, bytes, kind}};
}

enum cudaGraphNodeType rt_node_type(const struct rt_operation *operation)
{
    switch (operation->kind) {
    case RT_LAUNCH:
        return cudaGraphNodeTypeKernel;
    case RT_COPY:
    case RT_COPY_3D:
        return cudaGraphNodeTypeMemcpy;
    case RT_FILL:
        return cudaGraphNodeTypeMemset;
    case RT_EVENT_RECORD:
        return cudaGraphNodeTypeEventRecord;
    case RT_EVENT_WAIT:
        return cudaGraphNodeTypeWaitEvent;
    case RT_HOST_FUNCTION:
        return cudaGraphNodeTypeHost;
    case RT_CALL:
    case RT_GRAPH:
        break;
    }
    return cudaGraphNodeTypeCount;
}

/* ---- adding --------------------------------------------------------------------------------- */

static cudaError_t add(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                       const struct rt_operation *operation)
{
    cudaError_t error = rt_check_graph(graph);
    if (error == cudaSuccess && node == NULL)
        error = cudaErrorInvalidValue;
    return error == cudaSuccess ? rt_add_node(graph, after, count, rt_node_type(operation), operation, node) : error;
}

RT_API cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                          size_t count, const struct cudaKernelNodeParams *params)
{
    struct rt_operation operation;
    void *arguments[RT_MAX_ARGUMENTS];
    cudaError_t error = rt_check_graph(graph);
    if (error == cudaSuccess)
        error = rt_kernel_operation(graph->device, params, &operation, arguments);
    return rt_return(error == cudaSuccess ? add(node, graph, after, count, &operation) : error);
}

RT_API cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                          size_t count, const struct cudaMemcpy3DParms *params)
{
    struct rt_operation operation;
    cudaError_t error = rt_memcpy_operation(params, &operation);
    return rt_return(error == cudaSuccess ? add(node, graph, after, count, &operation) : error);
}

RT_API cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                            size_t count, void *to, const void *from, size_t bytes,
                                            enum cudaMemcpyKind kind)
{
    const struct rt_operation operation = row_operation(to, from, bytes, kind);
    return rt_return(add(node, graph, after, count, &operation));
}

static cudaError_t symbol_place(const void *symbol, size_t bytes, size_t offset, char **place)
{
    size_t size = 0;
    void *begin = NULL;
    cudaError_t error = cudaGetSymbolAddress(&begin, symbol);
    if (error == cudaSuccess)
        error = cudaGetSymbolSize(&size, symbol);
    if (error == cudaSuccess && (offset > size || bytes > size - offset))
        error = rt_explain(cudaErrorInvalidValue, "%zu bytes at offset %zu of a symbol of %zu", bytes, offset, size);
    *place = (char *)begin + offset;
    return error;
}

RT_API cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *node, cudaGraph_t graph,
                                                  const cudaGraphNode_t *after, size_t count, const void *symbol,
                                                  const void *from, size_t bytes, size_t offset,
                                                  enum cudaMemcpyKind kind)
{
    char *place;
    cudaError_t error = symbol_place(symbol, bytes, offset, &place);
    return error != cudaSuccess ? rt_return(error)
                                : cudaGraphAddMemcpyNode1D(node, graph, after, count, place, from, bytes, kind);
}

RT_API cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *node, cudaGraph_t graph,
                                                    const cudaGraphNode_t *after, size_t count, void *to,
                                                    const void *symbol, size_t bytes, size_t offset,
                                                    enum cudaMemcpyKind kind)
{
    char *place;
    cudaError_t error = symbol_place(symbol, bytes, offset, &place);
    return error != cudaSuccess ? rt_return(error)
                                : cudaGraphAddMemcpyNode1D(node, graph, after, count, to, place, bytes, kind);
}

RT_API cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                          size_t count, const struct cudaMemsetParams *params)
{
    struct rt_operation operation;
    cudaError_t error = rt_memset_operation(params, &operation);
    return rt_return(error == cudaSuccess ? add(node, graph, after, count, &operation) : error);
}

RT_API cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                        size_t count, const struct cudaHostNodeParams *params)
{
    struct rt_operation operation;
    cudaError_t error = rt_host_operation(params, &operation);
    return rt_return(error == cudaSuccess ? add(node, graph, after, count, &operation) : error);
}

RT_API cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                               size_t count, cudaEvent_t event)
{
    const struct rt_operation operation = {.kind = RT_EVENT_RECORD, .event = {event, cudaEventRecordExternal}};
    cudaError_t error = rt_check_event(event);
    return rt_return(error == cudaSuccess ? add(node, graph, after, count, &operation) : error);
}

RT_API cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                             size_t count, cudaEvent_t event)
{
    const struct rt_operation operation = {.kind = RT_EVENT_WAIT, .event = {event, cudaEventWaitExternal}};
    cudaError_t error = rt_check_event(event);
    return rt_return(error == cudaSuccess ? add(node, graph, after, count, &operation) : error);
}

RT_API cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                         size_t count)
{
    cudaError_t error = rt_check_graph(graph);
    if (error == cudaSuccess && node == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = rt_add_node(graph, after, count, cudaGraphNodeTypeEmpty, NULL, node);
    return rt_return(error);
}

RT_API cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                              size_t count, cudaGraph_t child)
{
    cudaError_t error = rt_check_graph(graph);
    if (error == cudaSuccess)
        error = rt_check_graph(child);
    if (error == cudaSuccess && (node == NULL || child == graph))
        error = cudaErrorInvalidValue;
    for (struct CUgraphNode_st *at = error == cudaSuccess ? child->first : NULL; at != NULL; at = at->next)
        if (at->memory != NULL)
            return rt_return(rt_explain(cudaErrorNotSupported, "child graphs may not allocate or free memory"));
    struct CUgraph_st *own = error == cudaSuccess ? rt_clone_graph(child) : NULL;
    if (error == cudaSuccess && own == NULL)
        error = cudaErrorMemoryAllocation;
    if (error == cudaSuccess)
        error = rt_add_node(graph, after, count, cudaGraphNodeTypeGraph, NULL, node);
    if (error != cudaSuccess && own != NULL)
        rt_free_graph(own);
    if (error != cudaSuccess)
        return rt_return(error);
    own->is_child = true;
    (*node)->child = own;
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                    size_t count, struct cudaGraphNodeParams *params)
{
    if (params == NULL)
        return rt_return(cudaErrorInvalidValue);
    switch (params->type) {
    case cudaGraphNodeTypeKernel: /* both forms have the same fields */
        return cudaGraphAddKernelNode(node, graph, after, count, (struct cudaKernelNodeParams *)&params->kernel);
    case cudaGraphNodeTypeMemcpy:
        return cudaGraphAddMemcpyNode(node, graph, after, count, &params->memcpy.copyParams);
    case cudaGraphNodeTypeMemset:
        return cudaGraphAddMemsetNode(node, graph, after, count, (struct cudaMemsetParams *)&params->memset);
    case cudaGraphNodeTypeHost:
        return cudaGraphAddHostNode(node, graph, after, count, &params->host);
    case cudaGraphNodeTypeGraph:
        return cudaGraphAddChildGraphNode(node, graph, after, count, params->graph.graph);
    case cudaGraphNodeTypeEmpty:
        return cudaGraphAddEmptyNode(node, graph, after, count);
    case cudaGraphNodeTypeWaitEvent:
        return cudaGraphAddEventWaitNode(node, graph, after, count, params->eventWait.event);
    case cudaGraphNodeTypeEventRecord:
        return cudaGraphAddEventRecordNode(node, graph, after, count, params->eventRecord.event);
    case cudaGraphNodeTypeMemAlloc:
        return cudaGraphAddMemAllocNode(node, graph, after, count, &params->alloc);
    case cudaGraphNodeTypeMemFree:
        return cudaGraphAddMemFreeNode(node, graph, after, count, params->free.dptr);
    case cudaGraphNodeTypeConditional:
        return rt_return(rt_unsupported("conditional nodes of graphs"));
    default:
        return rt_return(rt_unsupported("nodes of graphs for semaphores of other APIs"));
    }
}

RT_API cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *handle, cudaGraph_t graph,
                                                    unsigned int initial, unsigned int flags)
{
    (void)handle, (void)graph, (void)initial, (void)flags;
    return rt_return(rt_unsupported("conditional nodes of graphs"));
}

/* ---- reading and setting parameters -------------------------------------------------------------- */

static cudaError_t check_type(cudaGraphNode_t node, enum cudaGraphNodeType type, const void *params)
{
    cudaError_t error = rt_check_node(node);
    if (error == cudaSuccess && (node->type != type || params == NULL))
        error = rt_explain(cudaErrorInvalidValue, "a node of type %d; expected: %d", (int)node->type, (int)type);
    return error;
}

RT_API cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *params)
{
    cudaError_t error = check_type(node, cudaGraphNodeTypeKernel, params);
    if (error != cudaSuccess)
        return rt_return(error);
    const struct rt_launch *launch = &node->operation->launch;
    const struct vgc_geometry *geometry = &launch->geometry;
    *params = (struct cudaKernelNodeParams){.func = (void *)(uintptr_t)launch->function->host,
                                            .gridDim = {geometry->grid[0], geometry->grid[1], geometry->grid[2]},
                                            .blockDim = {geometry->block[0], geometry->block[1], geometry->block[2]},
                                            .sharedMemBytes = geometry->shared_bytes,
                                            .kernelParams = (void **)launch->arguments};
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const struct cudaKernelNodeParams *params)
{
    struct rt_operation operation;
    void *arguments[RT_MAX_ARGUMENTS];
    cudaError_t error = check_type(node, cudaGraphNodeTypeKernel, params);
    if (error == cudaSuccess)
        error = rt_kernel_operation(node->graph->device, params, &operation, arguments);
    if (error != cudaSuccess)
        return rt_return(error);
    operation.launch.geometry.flags = node->operation->launch.geometry.flags;
    return rt_return(rt_replace_operation(node, &operation));
}

RT_API cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID id,
                                                   cudaLaunchAttributeValue *value)
{
    cudaError_t error = check_type(node, cudaGraphNodeTypeKernel, value);
    if (error != cudaSuccess)
        return rt_return(error);
    memset(value, 0, sizeof(*value));
    if (id == cudaLaunchAttributeCooperative)
        value->cooperative = (node->operation->launch.geometry.flags & VGC_LAUNCH_COOPERATIVE) != 0;
    else if (id != cudaLaunchAttributePriority && id != cudaLaunchAttributeAccessPolicyWindow)
        return rt_return(rt_explain(cudaErrorInvalidValue, "kernel nodes have no attribute %d", (int)id));
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID id,
                                                   const cudaLaunchAttributeValue *value)
{
    cudaError_t error = check_type(node, cudaGraphNodeTypeKernel, value);
    if (error != cudaSuccess)
        return rt_return(error);
    uint32_t *flags = &node->operation->launch.geometry.flags;
    if (id == cudaLaunchAttributeCooperative)
        *flags = value->cooperative != 0 ? *flags | VGC_LAUNCH_COOPERATIVE : *flags & ~(uint32_t)VGC_LAUNCH_COOPERATIVE;
    else if (id != cudaLaunchAttributePriority && id != cudaLaunchAttributeAccessPolicyWindow) /* those two are hints */
        return rt_return(rt_explain(cudaErrorInvalidValue, "kernel nodes have no attribute %d", (int)id));
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, struct cudaMemcpy3DParms *params)
{
    cudaError_t error = check_type(node, cudaGraphNodeTypeMemcpy, params);
    if (error != cudaSuccess)
        return rt_return(error);
    const struct rt_copy *copy = &node->operation->copy;
    if (node->operation->kind == RT_COPY_3D)
        *params = *node->operation->copy_3d;
    else
        *params = (struct cudaMemcpy3DParms){
            .srcPtr = {.ptr = (void *)(uintptr_t)copy->src, .pitch = copy->size, .xsize = copy->size, .ysize = 1},
            .dstPtr = {.ptr = copy->dst, .pitch = copy->size, .xsize = copy->size, .ysize = 1},
            .extent = {copy->size, 1, 1},
            .kind = copy->kind};
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const struct cudaMemcpy3DParms *params)
{
    struct rt_operation operation;
    cudaError_t error = check_type(node, cudaGraphNodeTypeMemcpy, params);
    if (error == cudaSuccess)
        error = rt_memcpy_operation(params, &operation);
    return rt_return(error == cudaSuccess ? rt_replace_operation(node, &operation) : error);
}

RT_API cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *to, const void *from, size_t bytes,
                                                  enum cudaMemcpyKind kind)
{
    const struct rt_operation operation = row_operation(to, from, bytes, kind);
    cudaError_t error = check_type(node, cudaGraphNodeTypeMemcpy, to);
    return rt_return(error == cudaSuccess ? rt_replace_operation(node, &operation) : error);
}

RT_API cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *params)
{
    cudaError_t error = check_type(node, cudaGraphNodeTypeMemset, params);
    if (error != cudaSuccess)
        return rt_return(error);
    const struct rt_fill *fill = &node->operation->fill;
    *params = (struct cudaMemsetParams){.dst = fill->dst,
                                        .pitch = fill->pitch,
                                        .value = fill->value,
                                        .elementSize = fill->unit,
                                        .width = fill->width / fill->unit,
                                        .height = fill->height};
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const struct cudaMemsetParams *params)
{
    struct rt_operation operation;
    cudaError_t error = check_type(node, cudaGraphNodeTypeMemset, params);
    if (error == cudaSuccess)
        error = rt_memset_operation(params, &operation);
    return rt_return(error == cudaSuccess ? rt_replace_operation(node, &operation) : error);
}

RT_API cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, struct cudaHostNodeParams *params)
{
    cudaError_t error = check_type(node, cudaGraphNodeTypeHost, params);
    if (error == cudaSuccess)
        *params = (struct cudaHostNodeParams){node->operation->host.function, node->operation->host.data};
    return rt_return(error);
}

RT_API cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const struct cudaHostNodeParams *params)
{
    struct rt_operation operation;
    cudaError_t error = check_type(node, cudaGraphNodeTypeHost, params);
    if (error == cudaSuccess)
        error = rt_host_operation(params, &operation);
    return rt_return(error == cudaSuccess ? rt_replace_operation(node, &operation) : error);
}

RT_API cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *graph)
{
    cudaError_t error = check_type(node, cudaGraphNodeTypeGraph, graph);
    if (error == cudaSuccess)
        *graph = node->child;
    return rt_return(error);
}

static cudaError_t get_event(cudaGraphNode_t node, enum cudaGraphNodeType type, cudaEvent_t *event)
{
    cudaError_t error = check_type(node, type, event);
    if (error == cudaSuccess)
        *event = node->operation->event.event;
    return rt_return(error);
}

static cudaError_t set_event(cudaGraphNode_t node, enum cudaGraphNodeType type, cudaEvent_t event)
{
    cudaError_t error = check_type(node, type, event);
    if (error == cudaSuccess)
        error = rt_check_event(event);
    if (error != cudaSuccess)
        return rt_return(error);
    struct rt_operation operation = *node->operation;
    operation.event.event = event;
    return rt_return(rt_replace_operation(node, &operation));
}

RT_API cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event)
{
    return get_event(node, cudaGraphNodeTypeEventRecord, event);
}

RT_API cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event)
{
    return get_event(node, cudaGraphNodeTypeWaitEvent, event);
}

RT_API cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
    return set_event(node, cudaGraphNodeTypeEventRecord, event);
}

RT_API cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
    return set_event(node, cudaGraphNodeTypeWaitEvent, event);
}
