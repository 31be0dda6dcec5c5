/* Parameters of nodes, read and set. */
#include <string.h>

#include "graph.h"

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
    const struct rt_operation operation = rt_row_operation(to, from, bytes, kind);
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
