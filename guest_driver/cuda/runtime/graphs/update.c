/* Changes of executable graphs: parameters of nodes, and graphs of the same shape. */
#include "exec.h"

/* The node of the copy for one that the program knows: of the graph, or of a child of it. */
static struct CUgraphNode_st *find_in(struct CUgraph_st *graph, unsigned long long original)
{
    for (struct CUgraphNode_st *node = graph->first; node != NULL; node = node->next) {
        struct CUgraphNode_st *inner = node->child != NULL ? find_in(node->child, original) : NULL;
        for (unsigned i = 0; node->conditional != NULL && i < node->conditional->size && inner == NULL; i++)
            inner = find_in(node->conditional->bodies[i], original);
        if (node->original == original || inner != NULL)
            return inner != NULL ? inner : node;
    }
    return NULL;
}

static cudaError_t find(cudaGraphExec_t exec, cudaGraphNode_t node, struct CUgraphNode_st **own)
{
    cudaError_t error = rt_check_exec(exec);
    if (error == cudaSuccess)
        error = rt_check_node(node);
    if (error != cudaSuccess)
        return error;
    *own = find_in(exec->graph, node->id);
    return *own != NULL ? cudaSuccess
                        : rt_explain(cudaErrorInvalidValue, "the executable graph was not made of the node's graph");
}

/* Likewise, for a change: the device's copy is out of date then. */
static cudaError_t find_to_change(cudaGraphExec_t exec, cudaGraphNode_t node, struct CUgraphNode_st **own)
{
    cudaError_t error = find(exec, node, own);
    if (error == cudaSuccess)
        rt_await_choices(exec);
    if (error == cudaSuccess)
        exec->is_changed = (*own)->is_changed = true;
    return error;
}

#define SET_PARAMS(function, setter, parameters)                                                                       \
    RT_API cudaError_t function(cudaGraphExec_t exec, cudaGraphNode_t node, parameters params)                         \
    {                                                                                                                  \
        struct CUgraphNode_st *own;                                                                                    \
        cudaError_t error = find_to_change(exec, node, &own);                                                          \
        return error == cudaSuccess ? setter(own, params) : rt_return(error);                                          \
    }

SET_PARAMS(cudaGraphExecKernelNodeSetParams, cudaGraphKernelNodeSetParams, const struct cudaKernelNodeParams *)
SET_PARAMS(cudaGraphExecMemcpyNodeSetParams, cudaGraphMemcpyNodeSetParams, const struct cudaMemcpy3DParms *)
SET_PARAMS(cudaGraphExecMemsetNodeSetParams, cudaGraphMemsetNodeSetParams, const struct cudaMemsetParams *)
SET_PARAMS(cudaGraphExecHostNodeSetParams, cudaGraphHostNodeSetParams, const struct cudaHostNodeParams *)
SET_PARAMS(cudaGraphExecEventRecordNodeSetEvent, cudaGraphEventRecordNodeSetEvent, cudaEvent_t)
SET_PARAMS(cudaGraphExecEventWaitNodeSetEvent, cudaGraphEventWaitNodeSetEvent, cudaEvent_t)

RT_API cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void *to,
                                                      const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    struct CUgraphNode_st *own;
    cudaError_t error = find_to_change(exec, node, &own);
    return error == cudaSuccess ? cudaGraphMemcpyNodeSetParams1D(own, to, from, bytes, kind) : rt_return(error);
}

RT_API cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int is_enabled)
{
    struct CUgraphNode_st *own;
    cudaError_t error = find_to_change(exec, node, &own);
    if (error == cudaSuccess && own->type != cudaGraphNodeTypeKernel && own->type != cudaGraphNodeTypeMemset &&
        own->type != cudaGraphNodeTypeMemcpy)
        error = rt_explain(cudaErrorInvalidValue, "only launches, copies and fills can be disabled");
    if (error == cudaSuccess)
        own->is_disabled = is_enabled == 0;
    return rt_return(error);
}

RT_API cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int *is_enabled)
{
    struct CUgraphNode_st *own;
    cudaError_t error = find(exec, node, &own);
    if (error == cudaSuccess && is_enabled == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *is_enabled = !own->is_disabled;
    return rt_return(error);
}

/* Are the graphs of the same shape? Nodes are paired in the order of their creation. */
static enum cudaGraphExecUpdateResult compare(const struct CUgraph_st *own, const struct CUgraph_st *other,
                                              cudaGraphNode_t *wrong)
{
    struct CUgraphNode_st *theirs = other->first;
    if (own->num_nodes != other->num_nodes)
        return cudaGraphExecUpdateErrorTopologyChanged;
    for (struct CUgraphNode_st *node = own->first; node != NULL; node = node->next, theirs = theirs->next) {
        *wrong = theirs;
        if (node->type != theirs->type)
            return cudaGraphExecUpdateErrorNodeTypeChanged;
        if (node->conditional != NULL)
            return cudaGraphExecUpdateErrorNotSupported;
        if (node->num_after != theirs->num_after)
            return cudaGraphExecUpdateErrorTopologyChanged;
        if (node->memory != theirs->memory)
            return cudaGraphExecUpdateErrorParametersChanged;
        enum cudaGraphExecUpdateResult inner =
            node->child != NULL ? compare(node->child, theirs->child, wrong) : cudaGraphExecUpdateSuccess;
        if (inner != cudaGraphExecUpdateSuccess)
            return inner;
    }
    *wrong = NULL;
    return cudaGraphExecUpdateSuccess;
}

static enum cudaGraphExecUpdateResult compare_edges(struct CUgraph_st *own, struct CUgraph_st *other,
                                                    cudaGraphNode_t *wrong)
{
    size_t index = 0;
    struct CUgraphNode_st *theirs = other->first;
    for (struct CUgraphNode_st *node = own->first; node != NULL; node = node->next, theirs = theirs->next)
        node->place = theirs->place = index++;
    theirs = other->first;
    for (struct CUgraphNode_st *node = own->first; node != NULL; node = node->next, theirs = theirs->next) {
        for (size_t i = 0; i < node->num_after; i++) {
            bool found = false;
            for (size_t j = 0; j < theirs->num_after; j++)
                found = found || theirs->after[j]->place == node->after[i]->place;
            *wrong = theirs;
            if (!found)
                return cudaGraphExecUpdateErrorTopologyChanged;
        }
        enum cudaGraphExecUpdateResult inner =
            node->child != NULL ? compare_edges(node->child, theirs->child, wrong) : cudaGraphExecUpdateSuccess;
        if (inner != cudaGraphExecUpdateSuccess)
            return inner;
    }
    *wrong = NULL;
    return cudaGraphExecUpdateSuccess;
}

static cudaError_t take_over(struct CUgraph_st *own, const struct CUgraph_st *other)
{
    struct CUgraphNode_st *theirs = other->first;
    cudaError_t error = cudaSuccess;
    for (struct CUgraphNode_st *node = own->first; node != NULL && error == cudaSuccess;
         node = node->next, theirs = theirs->next) {
        node->is_changed = true;
        if (theirs->operation != NULL)
            error = rt_replace_operation(node, theirs->operation);
        if (node->child != NULL && error == cudaSuccess)
            error = take_over(node->child, theirs->child);
    }
    return error;
}

RT_API cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *result)
{
    cudaGraphNode_t wrong = NULL;
    cudaError_t error = rt_check_exec(exec);
    if (error == cudaSuccess)
        error = rt_check_graph(graph);
    if (error == cudaSuccess && result == NULL)
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return rt_return(error);
    enum cudaGraphExecUpdateResult found = compare(exec->graph, graph, &wrong);
    if (found == cudaGraphExecUpdateSuccess)
        found = compare_edges(exec->graph, graph, &wrong);
    *result = (cudaGraphExecUpdateResultInfo){.result = found, .errorNode = wrong};
    if (found != cudaGraphExecUpdateSuccess)
        return rt_return(rt_explain(cudaErrorGraphExecUpdateFailure, "the graph has another shape (%d)", (int)found));
    exec->is_changed = true;
    return rt_return(take_over(exec->graph, graph));
}

RT_API cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraph_t child)
{
    struct CUgraphNode_st *own;
    cudaGraphNode_t wrong;
    cudaError_t error = find_to_change(exec, node, &own);
    if (error == cudaSuccess)
        error = rt_check_graph(child);
    if (error == cudaSuccess &&
        (own->child == NULL || compare(own->child, child, &wrong) != cudaGraphExecUpdateSuccess ||
         compare_edges(own->child, child, &wrong) != cudaGraphExecUpdateSuccess))
        error = rt_explain(cudaErrorInvalidValue, "the child graph has another shape");
    return rt_return(error == cudaSuccess ? take_over(own->child, child) : error);
}

RT_API cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                              struct cudaGraphNodeParams *params)
{
    cudaError_t error = rt_check_node(node);
    if (error == cudaSuccess && (params == NULL || params->type != node->type))
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return rt_return(error);
    switch (params->type) {
    case cudaGraphNodeTypeKernel:
        return cudaGraphExecKernelNodeSetParams(exec, node, (struct cudaKernelNodeParams *)&params->kernel);
    case cudaGraphNodeTypeMemcpy:
        return cudaGraphExecMemcpyNodeSetParams(exec, node, &params->memcpy.copyParams);
    case cudaGraphNodeTypeMemset:
        return cudaGraphExecMemsetNodeSetParams(exec, node, (struct cudaMemsetParams *)&params->memset);
    case cudaGraphNodeTypeHost:
        return cudaGraphExecHostNodeSetParams(exec, node, &params->host);
    case cudaGraphNodeTypeGraph:
        return cudaGraphExecChildGraphNodeSetParams(exec, node, params->graph.graph);
    case cudaGraphNodeTypeWaitEvent:
        return cudaGraphExecEventWaitNodeSetEvent(exec, node, params->eventWait.event);
    case cudaGraphNodeTypeEventRecord:
        return cudaGraphExecEventRecordNodeSetEvent(exec, node, params->eventRecord.event);
    default:
        return rt_return(rt_explain(cudaErrorInvalidValue, "nodes of type %d cannot be changed", (int)params->type));
    }
}
