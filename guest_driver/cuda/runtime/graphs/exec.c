/* Executable graphs: a copy of the graph, its nodes in an order in which they can be done. */
#include <stdlib.h>
#include <string.h>

#include "exec.h"

#define EXEC_MAGIC UINT64_C(0x4345584547434756)

cudaError_t rt_check_exec(const struct CUgraphExec_st *exec)
{
    if (rt_is_forked)
        return cudaErrorInitializationError;
    if ((uintptr_t)exec < 4096 || exec->magic != EXEC_MAGIC || exec->epoch != exec->device->epoch)
        return rt_explain(cudaErrorInvalidValue, "%p is not an executable graph", (const void *)exec);
    return cudaSuccess;
}

/* ---- making --------------------------------------------------------------------------------- */

static size_t count_steps(const struct CUgraph_st *graph)
{
    size_t count = 0;
    for (const struct CUgraphNode_st *node = graph->first; node != NULL; node = node->next)
        count += node->child != NULL ? count_steps(node->child) + 2 : 1;
    return count;
}

static bool flatten(struct CUgraphExec_st *exec, struct CUgraph_st *graph, const struct CUgraphNode_st *parent)
{
    struct CUgraphNode_st **sorted = rt_sort_nodes(graph);
    bool done = sorted != NULL;
    for (size_t i = 0; done && i < graph->num_nodes; i++) {
        bool has_child = sorted[i]->child != NULL;
        exec->steps[exec->num_steps++] = (struct rt_step){has_child ? RT_STEP_ENTER : RT_STEP_NODE, sorted[i], parent};
        exec->has_memory = exec->has_memory || sorted[i]->memory != NULL;
        if (!has_child)
            continue;
        done = flatten(exec, sorted[i]->child, sorted[i]);
        exec->steps[exec->num_steps++] = (struct rt_step){RT_STEP_LEAVE, sorted[i], parent};
    }
    free(sorted);
    return done;
}

void rt_free_exec(struct CUgraphExec_st *exec)
{
    rt_free_segments(exec);
    if (exec->graph != NULL && !exec->is_body)
        rt_free_graph(exec->graph);
    if (exec->last_event != NULL)
        (void)cudaEventDestroy(exec->last_event);
    (void)pthread_mutex_destroy(&exec->mutex);
    free(exec->steps);
    rt_handle_free(exec, sizeof(*exec));
}

static cudaError_t make_exec(struct CUgraph_st *own, bool is_body, cudaGraphExec_t *out);

/* Limits on nodes in bodies of conditional nodes: those of CUDA, and what the thread of a queue can do. */
static bool fits_body(const struct CUgraphNode_st *node)
{
    return node->memory == NULL && (node->operation == NULL || node->type == cudaGraphNodeTypeKernel ||
                                    node->type == cudaGraphNodeTypeMemcpy || node->type == cudaGraphNodeTypeMemset);
}

static cudaError_t make_bodies(struct CUgraphExec_st *exec)
{
    cudaError_t error = cudaSuccess;
    for (size_t i = 0; i < exec->num_steps && error == cudaSuccess; i++) {
        const struct CUgraphNode_st *node = exec->steps[i].node;
        if (exec->is_body && !fits_body(node))
            error =
                rt_explain(cudaErrorNotSupported, "a conditional node's graph has a node of type %d", (int)node->type);
        for (unsigned j = 0; node->conditional != NULL && j < node->conditional->size && error == cudaSuccess; j++)
            error = make_exec(node->conditional->bodies[j], true, &node->conditional->execs[j]);
    }
    return error;
}

/* An executable graph of a copy, which becomes part of it, also if that fails, unless a conditional node has it. */
static cudaError_t make_exec(struct CUgraph_st *own, bool is_body, cudaGraphExec_t *out)
{
    struct CUgraphExec_st *exec = rt_handle_new(sizeof(*exec));
    if (exec == NULL && !is_body)
        rt_free_graph(own);
    if (exec == NULL)
        return cudaErrorMemoryAllocation;
    *exec = (struct CUgraphExec_st){
        .magic = EXEC_MAGIC, .device = own->device, .epoch = own->device->epoch, .graph = own, .is_body = is_body};
    (void)pthread_mutex_init(&exec->mutex, NULL);
    exec->steps = malloc((count_steps(own) + 1) * sizeof(*exec->steps));
    bool made = exec->steps != NULL && flatten(exec, own, NULL) && rt_make_segments(exec);
    cudaError_t error = made ? make_bodies(exec) : cudaErrorMemoryAllocation;
    if (error == cudaSuccess)
        *out = exec;
    else
        rt_free_exec(exec);
    return error;
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
    struct CUgraph_st *own = rt_clone_graph(graph);
    error = own != NULL ? make_exec(own, false, out) : cudaErrorMemoryAllocation;
    if (error != cudaSuccess)
        return error;
    (*out)->flags = flags;
    atomic_store(&graph->device->only_there, "an executable graph");
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
    cudaError_t error = rt_check_exec(exec);
    if (error == cudaSuccess && flags == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *flags = exec->flags;
    return rt_return(error);
}

RT_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    cudaError_t error = rt_check_exec(exec);
    if (error == cudaSuccess)
        rt_await_choices(exec);
    if (error == cudaSuccess)
        rt_free_exec(exec); /* what is put off has copies of its operations */
    return rt_return(error);
}

/* ---- launching ------------------------------------------------------------------------------ */

static unsigned long long id_of(const struct CUstream_st *stream)
{
    return stream == NULL ? 0 : stream->id;
}

/* Waiting for the last launch in other streams needs an event; most graphs stay in one. */
static cudaError_t make_event(struct CUgraphExec_st *exec)
{
    return exec->last_event != NULL ? cudaSuccess : cudaEventCreateWithFlags(&exec->last_event, cudaEventDisableTiming);
}

/* A graph is launched again when its last launch has ended, whatever the streams. With the mutex. */
static cudaError_t follow_last(struct CUgraphExec_st *exec, cudaStream_t stream, const struct CUstream_st *checked)
{
    struct rt_operation operation = {.kind = RT_EVENT_WAIT};
    if (!exec->is_launched || exec->last_stream == id_of(checked))
        return cudaSuccess;
    cudaError_t error = make_event(exec);
    if (error == cudaSuccess && !exec->has_event)
        error = rt_issue_event_record(exec->last_event, exec->last_number);
    exec->has_event = true;
    operation.event.event = exec->last_event;
    return error == cudaSuccess ? rt_submit(exec->device, stream, &operation) : error;
}

/* An event takes a request: unless some of the launch is put off, it is recorded when another stream asks for it. */
static cudaError_t note_last(struct CUgraphExec_st *exec, cudaStream_t stream, struct CUstream_st *checked)
{
    struct rt_operation operation = {.kind = RT_EVENT_RECORD};
    exec->last_stream = id_of(checked);
    exec->last_number = checked == NULL ? 0 : checked->number;
    exec->is_launched = true;
    exec->has_event = rt_is_put_off(exec->device, checked);
    cudaError_t error = exec->has_event ? make_event(exec) : cudaSuccess;
    operation.event.event = exec->last_event;
    return exec->has_event && error == cudaSuccess ? rt_submit(exec->device, stream, &operation) : error;
}

static bool remake_segments(struct CUgraphExec_st *exec)
{
    bool made = rt_make_segments(exec);
    for (size_t i = 0; i < exec->num_steps && made; i++) {
        const struct rt_conditional *conditional = exec->steps[i].node->conditional;
        for (unsigned body = 0; conditional != NULL && body < conditional->size && made; body++)
            made = remake_segments(conditional->execs[body]);
    }
    return made;
}

static cudaError_t launch_steps(struct CUgraphExec_st *exec, const struct rt_segment *segment, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
    for (size_t i = segment->first; i < segment->end && error == cudaSuccess; i++) {
        struct CUgraphNode_st *node = exec->steps[i].node;
        if (node->conditional != NULL)
            error = rt_submit_choice(exec, node, stream);
        else if (!node->is_disabled && node->operation != NULL)
            error = rt_submit(exec->device, stream, node->operation);
    }
    return error;
}

static cudaError_t launch(struct CUgraphExec_st *exec, cudaStream_t stream, struct CUstream_st *checked)
{
    cudaError_t error = cudaSuccess;
    if (exec->is_changed && !remake_segments(exec))
        error = cudaErrorMemoryAllocation;
    if (error == cudaSuccess)
        error = follow_last(exec, stream, checked);
    if (error == cudaSuccess)
        error = rt_assign_conditions(exec, stream);
    for (size_t i = 0; i < exec->num_segments && error == cudaSuccess; i++) {
        const struct rt_segment *segment = &exec->segments[i];
        const struct rt_operation operation = {.kind = RT_GRAPH, .graph = segment->sent};
        error =
            segment->sent != NULL ? rt_submit(exec->device, stream, &operation) : launch_steps(exec, segment, stream);
    }
    if (error == cudaSuccess && exec->has_memory)
        rt_note_launch(exec);
    return error == cudaSuccess ? note_last(exec, stream, checked) : error;
}

RT_API cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    struct rt_device *device;
    struct CUstream_st *checked;
    bool is_captured = false;
    cudaError_t error = rt_check_exec(exec);
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
    error = launch(exec, stream, checked);
    (void)pthread_mutex_unlock(&exec->mutex);
    return rt_return(error);
}

RT_API cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    struct CUstream_st *checked;
    cudaError_t error = rt_check_exec(exec);
    if (error == cudaSuccess)
        error = rt_check_stream(exec->device, stream, &checked);
    return rt_return(error);
}
