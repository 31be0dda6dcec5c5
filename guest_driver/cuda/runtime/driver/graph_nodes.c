/* Nodes of graphs by the driver API, which has structs of its own for their parameters. Contexts that these name say
 * nothing: a graph's device is that of the context which was current when it was made. */
#include <string.h>

#include "runtime.h"

/* ---- kernels -------------------------------------------------------------------------------- */

CUresult rt_kernel_node(const CUDA_KERNEL_NODE_PARAMS *given, struct cudaKernelNodeParams *parameters)
{
    struct rt_function *function;
    if (given == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const void *kernel = given->func != NULL ? (const void *)given->func : (const void *)given->kern;
    *parameters = (struct cudaKernelNodeParams){.func = (void *)(uintptr_t)kernel,
                                                .gridDim = {given->gridDimX, given->gridDimY, given->gridDimZ},
                                                .blockDim = {given->blockDimX, given->blockDimY, given->blockDimZ},
                                                .sharedMemBytes = given->sharedMemBytes,
                                                .kernelParams = given->kernelParams,
                                                .extra = given->extra};
    return rt_check_kernel(kernel, &function);
}

CUDA_KERNEL_NODE_PARAMS rt_newer_kernel_node(const CUDA_KERNEL_NODE_PARAMS_v1 *old)
{
    CUDA_KERNEL_NODE_PARAMS parameters = {.func = NULL};
    memcpy(&parameters, old, sizeof(*old)); /* the newer struct begins with the older one */
    return parameters;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS *given)
{
    struct cudaKernelNodeParams parameters;
    const CUresult result = rt_kernel_node(given, &parameters);
    return result == CUDA_SUCCESS ? RT_IN_CONTEXT(cudaGraphAddKernelNode(node, graph, after, count, &parameters))
                                  : result;
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *given)
{
    struct cudaKernelNodeParams parameters;
    const CUresult result = rt_kernel_node(given, &parameters);
    return result == CUDA_SUCCESS ? RT_IN_CONTEXT(cudaGraphKernelNodeSetParams(node, &parameters)) : result;
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *told)
{
    struct cudaKernelNodeParams parameters;
    if (told == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = RT_IN_CONTEXT(cudaGraphKernelNodeGetParams(node, &parameters));
    if (result == CUDA_SUCCESS)
        *told = (CUDA_KERNEL_NODE_PARAMS){.func = (CUfunction)parameters.func,
                                          .gridDimX = parameters.gridDim.x,
                                          .gridDimY = parameters.gridDim.y,
                                          .gridDimZ = parameters.gridDim.z,
                                          .blockDimX = parameters.blockDim.x,
                                          .blockDimY = parameters.blockDim.y,
                                          .blockDimZ = parameters.blockDim.z,
                                          .sharedMemBytes = parameters.sharedMemBytes,
                                          .kernelParams = parameters.kernelParams,
                                          .extra = parameters.extra};
    return result;
}

/* Before CUDA 12, the struct ended with `extra`. */
#undef cuGraphAddKernelNode
#undef cuGraphKernelNodeGetParams
#undef cuGraphKernelNodeSetParams
CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS_v1 *given);
CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS_v1 *given)
{
    if (given == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUDA_KERNEL_NODE_PARAMS newer = rt_newer_kernel_node(given);
    return cuGraphAddKernelNode_v2(node, graph, after, count, &newer);
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *given);
CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *given)
{
    if (given == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUDA_KERNEL_NODE_PARAMS newer = rt_newer_kernel_node(given);
    return cuGraphKernelNodeSetParams_v2(node, &newer);
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *told);
CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *told)
{
    CUDA_KERNEL_NODE_PARAMS newer;
    const CUresult result = told == NULL ? CUDA_ERROR_INVALID_VALUE : cuGraphKernelNodeGetParams_v2(node, &newer);
    if (result == CUDA_SUCCESS)
        memcpy(told, &newer, sizeof(*told));
    return result;
}

_Static_assert(sizeof(CUkernelNodeAttrValue) == sizeof(cudaLaunchAttributeValue), "both have the same attributes");

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute, CUkernelNodeAttrValue *value)
{
    return RT_IN_CONTEXT(
        cudaGraphKernelNodeGetAttribute(node, (cudaLaunchAttributeID)attribute, (cudaLaunchAttributeValue *)value));
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                                       const CUkernelNodeAttrValue *value)
{
    return RT_IN_CONTEXT(cudaGraphKernelNodeSetAttribute(node, (cudaLaunchAttributeID)attribute,
                                                         (const cudaLaunchAttributeValue *)value));
}

/* Only cooperative launches are a matter of the attributes of nodes; the others are hints. */
CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from)
{
    CUkernelNodeAttrValue value;
    const CUresult result = cuGraphKernelNodeGetAttribute(from, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value);
    return result == CUDA_SUCCESS ? cuGraphKernelNodeSetAttribute(to, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value) : result;
}

/* ---- copies --------------------------------------------------------------------------------- */

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                              const CUDA_MEMCPY3D *copy, CUcontext context)
{
    struct cudaMemcpy3DParms box;
    (void)context;
    const CUresult result = rt_box_of(copy, &box);
    return result == CUDA_SUCCESS ? RT_IN_CONTEXT(cudaGraphAddMemcpyNode(node, graph, after, count, &box)) : result;
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *copy)
{
    struct cudaMemcpy3DParms box;
    const CUresult result = rt_box_of(copy, &box);
    return result == CUDA_SUCCESS ? RT_IN_CONTEXT(cudaGraphMemcpyNodeSetParams(node, &box)) : result;
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *copy)
{
    struct cudaMemcpy3DParms box;
    if (copy == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = RT_IN_CONTEXT(cudaGraphMemcpyNodeGetParams(node, &box));
    return result == CUDA_SUCCESS ? rt_tell_box(&box, copy) : result;
}

/* ---- fills ---------------------------------------------------------------------------------- */

static struct cudaMemsetParams fill_of(const CUDA_MEMSET_NODE_PARAMS *given)
{
    return (struct cudaMemsetParams){.dst = (void *)(uintptr_t)given->dst,
                                     .pitch = given->pitch,
                                     .value = given->value,
                                     .elementSize = given->elementSize,
                                     .width = given->width,
                                     .height = given->height};
}

CUresult rt_fill_node(const CUDA_MEMSET_NODE_PARAMS *given, struct cudaMemsetParams *parameters)
{
    if (given == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *parameters = fill_of(given);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS *given, CUcontext context)
{
    struct cudaMemsetParams parameters;
    (void)context;
    const CUresult result = rt_fill_node(given, &parameters);
    return result == CUDA_SUCCESS ? RT_IN_CONTEXT(cudaGraphAddMemsetNode(node, graph, after, count, &parameters))
                                  : result;
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *given)
{
    struct cudaMemsetParams parameters;
    const CUresult result = rt_fill_node(given, &parameters);
    return result == CUDA_SUCCESS ? RT_IN_CONTEXT(cudaGraphMemsetNodeSetParams(node, &parameters)) : result;
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *told)
{
    struct cudaMemsetParams parameters;
    if (told == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = RT_IN_CONTEXT(cudaGraphMemsetNodeGetParams(node, &parameters));
    if (result == CUDA_SUCCESS)
        *told = (CUDA_MEMSET_NODE_PARAMS){.dst = (CUdeviceptr)(uintptr_t)parameters.dst,
                                          .pitch = parameters.pitch,
                                          .value = parameters.value,
                                          .elementSize = parameters.elementSize,
                                          .width = parameters.width,
                                          .height = parameters.height};
    return result;
}

/* ---- functions of the host, other graphs, events -------------------------------------------- */

_Static_assert(sizeof(CUDA_HOST_NODE_PARAMS) == sizeof(struct cudaHostNodeParams), "both interfaces have the same");

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                            const CUDA_HOST_NODE_PARAMS *parameters)
{
    return RT_IN_CONTEXT(
        cudaGraphAddHostNode(node, graph, after, count, (const struct cudaHostNodeParams *)parameters));
}

CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *parameters)
{
    return RT_IN_CONTEXT(cudaGraphHostNodeGetParams(node, (struct cudaHostNodeParams *)parameters));
}

CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *parameters)
{
    return RT_IN_CONTEXT(cudaGraphHostNodeSetParams(node, (const struct cudaHostNodeParams *)parameters));
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                  CUgraph child)
{
    return RT_IN_CONTEXT(cudaGraphAddChildGraphNode(node, graph, after, count, child));
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph)
{
    return RT_IN_CONTEXT(cudaGraphChildGraphNodeGetGraph(node, graph));
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count)
{
    return RT_IN_CONTEXT(cudaGraphAddEmptyNode(node, graph, after, count));
}

#define EVENT_NODES(kind)                                                                                              \
    CUresult cuGraphAdd##kind##Node(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,          \
                                    CUevent event)                                                                     \
    {                                                                                                                  \
        return RT_IN_CONTEXT(cudaGraphAdd##kind##Node(node, graph, after, count, event));                              \
    }                                                                                                                  \
    CUresult cuGraph##kind##NodeGetEvent(CUgraphNode node, CUevent *event)                                             \
    {                                                                                                                  \
        return RT_IN_CONTEXT(cudaGraph##kind##NodeGetEvent(node, event));                                              \
    }                                                                                                                  \
    CUresult cuGraph##kind##NodeSetEvent(CUgraphNode node, CUevent event)                                              \
    {                                                                                                                  \
        return RT_IN_CONTEXT(cudaGraph##kind##NodeSetEvent(node, event));                                              \
    }

EVENT_NODES(EventRecord)
EVENT_NODES(EventWait)

/* ---- memory --------------------------------------------------------------------------------- */

_Static_assert(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS) == sizeof(struct cudaMemAllocNodeParams) &&
                   offsetof(CUDA_MEM_ALLOC_NODE_PARAMS, dptr) == offsetof(struct cudaMemAllocNodeParams, dptr),
               "both interfaces have the same parameters of memory");

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
{
    return RT_IN_CONTEXT(
        cudaGraphAddMemAllocNode(node, graph, after, count, (struct cudaMemAllocNodeParams *)parameters));
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
{
    return RT_IN_CONTEXT(cudaGraphMemAllocNodeGetParams(node, (struct cudaMemAllocNodeParams *)parameters));
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                               CUdeviceptr memory)
{
    return RT_IN_CONTEXT(cudaGraphAddMemFreeNode(node, graph, after, count, (void *)(uintptr_t)memory));
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *memory)
{
    return RT_IN_CONTEXT(cudaGraphMemFreeNodeGetParams(node, memory));
}

/* ---- nodes of all kinds by one function ----------------------------------------------------- */

CUresult rt_node_of(const CUgraphNodeParams *given, struct cudaGraphNodeParams *parameters)
{
    struct cudaKernelNodeParams kernel;
    struct cudaMemsetParams fill;
    CUresult result = given == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        return result;
    *parameters = (struct cudaGraphNodeParams){.type = (enum cudaGraphNodeType)given->type};
    switch (given->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        result = rt_kernel_node(&given->kernel, &kernel);
        memcpy(&parameters->kernel, &kernel, sizeof(kernel)); /* both forms have the same fields */
        return result;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return rt_box_of(&given->memcpy.copyParams, &parameters->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        fill = fill_of((const CUDA_MEMSET_NODE_PARAMS *)&given->memset);
        memcpy(&parameters->memset, &fill, sizeof(fill));
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        parameters->conditional = (struct cudaConditionalNodeParams){
            given->conditional.handle, (enum cudaGraphConditionalNodeType)given->conditional.type,
            given->conditional.size, NULL};
        return CUDA_SUCCESS;
    default: /* the same fields */
        memcpy(parameters->reserved1, given->reserved1, sizeof(given->reserved1));
        return CUDA_SUCCESS;
    }
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, const CUgraphEdgeData *data,
                           size_t count, CUgraphNodeParams *given)
{
    struct cudaGraphNodeParams parameters;
    CUresult result = rt_node_of(given, &parameters);
    if (result == CUDA_SUCCESS)
        result =
            RT_IN_CONTEXT(cudaGraphAddNode_v2(node, graph, after, (const cudaGraphEdgeData *)data, count, &parameters));
    if (result != CUDA_SUCCESS)
        return result;
    if (given->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        given->alloc.dptr = (CUdeviceptr)(uintptr_t)parameters.alloc.dptr;
    if (given->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        given->conditional.phGraph_out = parameters.conditional.phGraph_out;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                        CUgraphNodeParams *given)
{
    return cuGraphAddNode_v2(node, graph, after, NULL, count, given);
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *given)
{
    CUgraphNodeType type;
    const CUresult result = given == NULL ? CUDA_ERROR_INVALID_VALUE : cuGraphNodeGetType(node, &type);
    if (result != CUDA_SUCCESS)
        return result;
    if (type != given->type)
        return RT_ASK(
            rt_explain(cudaErrorInvalidValue, "parameters of type %d for a node of %d", (int)given->type, (int)type));
    switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return cuGraphKernelNodeSetParams_v2(node, &given->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuGraphMemcpyNodeSetParams(node, &given->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return cuGraphMemsetNodeSetParams(node, (const CUDA_MEMSET_NODE_PARAMS *)&given->memset);
    case CU_GRAPH_NODE_TYPE_HOST:
        return cuGraphHostNodeSetParams(node, &given->host);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return cuGraphEventWaitNodeSetEvent(node, given->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return cuGraphEventRecordNodeSetEvent(node, given->eventRecord.event);
    default:
        return RT_ASK(rt_explain(cudaErrorInvalidValue, "nodes of type %d cannot be changed", (int)type));
    }
}
