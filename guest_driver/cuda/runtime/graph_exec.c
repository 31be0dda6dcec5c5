/* Executable graphs: a copy of the graph, its nodes in an order in which they can be done. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

#define EXEC_MAGIC UINT64_C(0x4345584547434756)

struct CUgraphExec_st {
    uint64_t magic;
    struct rt_device *device;
    uint32_t epoch;
    struct CUgraph_st *graph;      /* a clone: the nodes' `original` are those that the program knows */
    struct CUgraphNode_st **nodes; /* those of child graphs among them; in order */
    size_t num_nodes;
    unsigned long long flags;
    pthread_mutex_t mutex;  /* of launches: one after the other */
    cudaEvent_t last_event; /* behind the last launch: the next one waits for it in other streams */
    cudaStream_t last_stream;
    bool is_launched;
};

static cudaError_t check(const struct CUgraphExec_st *exec)
{
    if (rt_is_forked)
        return cudaErrorInitializationError;
    if ((uintptr_t)exec < 4096 || exec->magic != EXEC_MAGIC || exec->epoch != exec->device->epoch)
        return rt_explain(cudaErrorInvalidValue, "%p is not an executable graph", (const void *)exec);
    return cudaSuccess;
}

/* ---- making --------------------------------------------------------------------------------- */

static size_t count_nodes(const struct CUgraph_st *graph)
{
    size_t count = 0;
    for (const struct CUgraphNode_st *node = graph->first; node != NULL; node = node->next)
        count += node->child != NULL ? count_nodes(node->child) : 1;
    return count;
}

static bool flatten(struct CUgraphExec_st *exec, struct CUgraph_st *graph)
{
    struct CUgraphNode_st **sorted = rt_sort_nodes(graph);
    bool done = sorted != NULL;
    for (size_t i = 0; done && i < graph->num_nodes; i++) {
        if (sorted[i]->child != NULL)
            done = flatten(exec, sorted[i]->child);
        else
            exec->nodes[exec->num_nodes++] = sorted[i];
    }
    free(sorted);
    return done;
}

static void free_exec(struct CUgraphExec_st *exec)
{
    if (exec->graph != NULL)
        rt_free_graph(exec->graph);
    if (exec->last_event != NULL)
        (void)cudaEventDestroy(exec->last_event);
    (void)pthread_mutex_destroy(&exec->mutex);
    exec->magic = 0;
    free(exec->nodes);
    free(exec);
}

static cudaError_t instantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    cudaError_t error = rt_check_graph(graph);
    if (error == cudaSuccess && out == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess && (flags & cudaGraphInstantiateFlagDeviceLaunch) != 0)
        error = rt_unsupported("launches of graphs by kernels");
    if (error != cudaSuccess)
        return error;
    struct CUgraphExec_st *exec = calloc(1, sizeof(*exec));
    if (exec == NULL)
        return cudaErrorMemoryAllocation;
    *exec = (struct CUgraphExec_st){.magic = EXEC_MAGIC,
                                    .device = graph->device,
                                    .epoch = graph->device->epoch,
                                    .graph = rt_clone_graph(graph),
                                    .flags = flags};
    (void)pthread_mutex_init(&exec->mutex, NULL);
    exec->nodes = malloc((count_nodes(graph) + 1) * sizeof(cudaGraphNode_t));
    if (exec->graph == NULL || exec->nodes == NULL || !flatten(exec, exec->graph)) {
        free_exec(exec);
        return cudaErrorMemoryAllocation;
    }
    *out = exec;
    return cudaSuccess;
}

/* With libcudart 11's five arguments, the third is the address of a node: no bits of flags. */
RT_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    return rt_return(instantiate(exec, graph, flags <= 15 ? flags : 0));
}

RT_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    return rt_return(flags <= 15 ? instantiate(exec, graph, flags) : cudaErrorInvalidValue);
}

RT_API cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *exec, cudaGraph_t graph,
                                                  cudaGraphInstantiateParams *params)
{
    if (params == NULL || params->flags > 15)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = instantiate(exec, graph, params->flags);
    params->errNode_out = NULL;
    params->result_out = error == cudaSuccess ? cudaGraphInstantiateSuccess : cudaGraphInstantiateError;
    return rt_return(error);
}

RT_API cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long *flags)
{
    cudaError_t error = check(exec);
    if (error == cudaSuccess && flags == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *flags = exec->flags;
    return rt_return(error);
}

RT_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    cudaError_t error = check(exec);
    if (error == cudaSuccess)
        free_exec(exec); /* what is put off has copies of its operations */
    return rt_return(error);
}

/* ---- launching ------------------------------------------------------------------------------ */

/* A graph is launched again when its last launch has ended, whatever the streams. With the mutex. */
static cudaError_t follow_last(struct CUgraphExec_st *exec, cudaStream_t stream)
{
    struct rt_operation operation = {.kind = RT_EVENT_WAIT};
    if (!exec->is_launched || exec->last_stream == stream)
        return cudaSuccess;
    operation.event.event = exec->last_event;
    return rt_submit(exec->device, stream, &operation);
}

static cudaError_t note_last(struct CUgraphExec_st *exec, cudaStream_t stream)
{
    struct rt_operation operation = {.kind = RT_EVENT_RECORD};
    cudaError_t error =
        exec->last_event != NULL ? cudaSuccess : cudaEventCreateWithFlags(&exec->last_event, cudaEventDisableTiming);
    if (error != cudaSuccess)
        return error;
    operation.event.event = exec->last_event;
    exec->last_stream = stream;
    exec->is_launched = true;
    return rt_submit(exec->device, stream, &operation);
}

static cudaError_t launch(struct CUgraphExec_st *exec, cudaStream_t stream)
{
    cudaError_t error = follow_last(exec, stream);
    for (size_t i = 0; i < exec->num_nodes && error == cudaSuccess; i++)
        if (!exec->nodes[i]->is_disabled && exec->nodes[i]->operation != NULL)
            error = rt_submit(exec->device, stream, exec->nodes[i]->operation);
    return error == cudaSuccess ? note_last(exec, stream) : error;
}

RT_API cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    struct rt_device *device;
    struct CUstream_st *checked;
    bool is_captured = false;
    cudaError_t error = check(exec);
    if (error == cudaSuccess)
        error = rt_device(exec->device->ordinal, &device);
    if (error == cudaSuccess)
        error = rt_check_stream(exec->device, stream, &checked);
    if (error == cudaSuccess && atomic_load(&rt_num_special) > 0)
        error = rt_capture_graph(checked, exec->graph, &is_captured);
    if (error != cudaSuccess || is_captured)
        return rt_return(error);
    if (stream == NULL && checked != NULL)
        stream = cudaStreamPerThread;
    (void)pthread_mutex_lock(&exec->mutex);
    error = launch(exec, stream);
    (void)pthread_mutex_unlock(&exec->mutex);
    return rt_return(error);
}

RT_API cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    struct CUstream_st *checked;
    cudaError_t error = check(exec);
    if (error == cudaSuccess)
        error = rt_check_stream(exec->device, stream, &checked);
    return rt_return(error);
}

/* ---- updating ------------------------------------------------------------------------------- */

/* The node of the copy for one that the program knows: of the graph, or of a child of it. */
static struct CUgraphNode_st *find_in(struct CUgraph_st *graph, unsigned long long original)
{
    for (struct CUgraphNode_st *node = graph->first; node != NULL; node = node->next) {
        struct CUgraphNode_st *inner = node->child != NULL ? find_in(node->child, original) : NULL;
        if (node->original == original || inner != NULL)
            return inner != NULL ? inner : node;
    }
    return NULL;
}

static cudaError_t find(cudaGraphExec_t exec, cudaGraphNode_t node, struct CUgraphNode_st **own)
{
    cudaError_t error = check(exec);
    if (error == cudaSuccess)
        error = rt_check_node(node);
    if (error != cudaSuccess)
        return error;
    *own = find_in(exec->graph, node->id);
    return *own != NULL ? cudaSuccess
                        : rt_explain(cudaErrorInvalidValue, "the executable graph was not made of the node's graph");
}

#define SET_PARAMS(function, setter, parameters)                                                                       \
    RT_API cudaError_t function(cudaGraphExec_t exec, cudaGraphNode_t node, parameters params)                         \
    {                                                                                                                  \
        struct CUgraphNode_st *own;                                                                                    \
        cudaError_t error = find(exec, node, &own);                                                                    \
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
    cudaError_t error = find(exec, node, &own);
    return error == cudaSuccess ? cudaGraphMemcpyNodeSetParams1D(own, to, from, bytes, kind) : rt_return(error);
}

RT_API cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int is_enabled)
{
    struct CUgraphNode_st *own;
    cudaError_t error = find(exec, node, &own);
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
        node->mark = theirs->mark = (size_t)-1;
        if (node->type != theirs->type)
            return cudaGraphExecUpdateErrorNodeTypeChanged;
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
        node->mark = theirs->mark = index++;
    theirs = other->first;
    for (struct CUgraphNode_st *node = own->first; node != NULL; node = node->next, theirs = theirs->next) {
        for (size_t i = 0; i < node->num_after; i++) {
            bool found = false;
            for (size_t j = 0; j < theirs->num_after; j++)
                found = found || theirs->after[j]->mark == node->after[i]->mark;
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
    cudaError_t error = check(exec);
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
    return rt_return(take_over(exec->graph, graph));
}

RT_API cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraph_t child)
{
    struct CUgraphNode_st *own;
    cudaGraphNode_t wrong;
    cudaError_t error = find(exec, node, &own);
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
