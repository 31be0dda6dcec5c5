/* Nodes of all kinds, made from parameters. */
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

/* Programs may add a grid without blocks, and set the true one before they launch the graph: until then that fails. */
cudaError_t rt_kernel_operation(struct rt_device *device, const struct cudaKernelNodeParams *params,
                                struct rt_operation *operation, void **arguments)
{
    *operation = (struct rt_operation){.kind = RT_LAUNCH};
    if (params == NULL || (params->kernelParams != NULL && params->extra != NULL))
        return cudaErrorInvalidValue;
    struct rt_launch *launch = &operation->launch;
    const dim3 grid = params->gridDim;
    const dim3 some = {RT_MAX(grid.x, 1u), RT_MAX(grid.y, 1u), RT_MAX(grid.z, 1u)};
    cudaError_t error =
        rt_prepare_launch(device, params->func, some, params->blockDim, params->sharedMemBytes, 0, launch);
    if (error != cudaSuccess)
        return error;
    memcpy(launch->geometry.grid, (const uint32_t[]){grid.x, grid.y, grid.z}, sizeof(launch->geometry.grid));
    launch->arguments = params->kernelParams;
    if (params->kernelParams != NULL || launch->num_arguments == 0)
        return launch->num_arguments > 0 ? rt_check_spare(launch) : cudaSuccess;
    if (params->extra == NULL || launch->num_arguments > RT_MAX_ARGUMENTS)
        return rt_explain(cudaErrorInvalidValue, "a kernel node lacks its arguments");
    launch->arguments = arguments;
    error = take_buffer(launch, params->extra, arguments);
    return error == cudaSuccess ? rt_check_spare(launch) : error;
}

static char *begin_of(const struct cudaPitchedPtr *pointer, const struct cudaPos *position)
{
    return (char *)((uintptr_t)pointer->ptr + position->z * pointer->pitch * pointer->ysize +
                    position->y * pointer->pitch + position->x);
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

struct rt_operation rt_row_operation(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
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
    case RT_TASK:
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
    const struct rt_operation operation = rt_row_operation(to, from, bytes, kind);
    return rt_return(add(node, graph, after, count, &operation));
}

cudaError_t rt_symbol_place(const void *symbol, size_t bytes, size_t offset, char **place)
{
    size_t size = 0;
    void *begin = NULL;
    cudaError_t error = cudaGetSymbolAddress(&begin, symbol);
    if (error == cudaSuccess)
        error = cudaGetSymbolSize(&size, symbol);
    if (error == cudaSuccess && (offset > size || bytes > size - offset))
        error = rt_explain(cudaErrorInvalidValue, "%zu bytes at offset %zu of a symbol of %zu", bytes, offset, size);
    *place = error == cudaSuccess ? (char *)begin + offset : NULL;
    return error;
}

RT_API cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *node, cudaGraph_t graph,
                                                  const cudaGraphNode_t *after, size_t count, const void *symbol,
                                                  const void *from, size_t bytes, size_t offset,
                                                  enum cudaMemcpyKind kind)
{
    char *place;
    cudaError_t error = rt_symbol_place(symbol, bytes, offset, &place);
    return error != cudaSuccess ? rt_return(error)
                                : cudaGraphAddMemcpyNode1D(node, graph, after, count, place, from, bytes, kind);
}

RT_API cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *node, cudaGraph_t graph,
                                                    const cudaGraphNode_t *after, size_t count, void *to,
                                                    const void *symbol, size_t bytes, size_t offset,
                                                    enum cudaMemcpyKind kind)
{
    char *place;
    cudaError_t error = rt_symbol_place(symbol, bytes, offset, &place);
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
        return rt_return(rt_add_conditional_node(graph, after, count, &params->conditional, node));
    default:
        return rt_return(rt_unsupported("nodes of graphs for semaphores of other APIs"));
    }
}
