/* Graphs as the program builds them: nodes, walks, copies. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

#define GRAPH_MAGIC UINT64_C(0x4850415247434756)
#define NODE_MAGIC UINT64_C(0x45444f4e47434756)

static _Atomic unsigned long long next_id = 1;
static _Atomic size_t last_mark;

cudaError_t rt_check_graph(const struct CUgraph_st *graph)
{
    if (rt_is_forked)
        return cudaErrorInitializationError;
    if ((uintptr_t)graph < 4096 || graph->magic != GRAPH_MAGIC)
        return rt_explain(cudaErrorInvalidValue, "%p is not a graph", (const void *)graph);
    return cudaSuccess;
}

cudaError_t rt_check_node(const struct CUgraphNode_st *node)
{
    if (rt_is_forked)
        return cudaErrorInitializationError;
    if ((uintptr_t)node < 4096 || node->magic != NODE_MAGIC)
        return rt_explain(cudaErrorInvalidValue, "%p is not a node of a graph", (const void *)node);
    return cudaSuccess;
}

size_t rt_new_mark(void)
{
    return atomic_fetch_add(&last_mark, 1) + 1;
}

/* ---- making and freeing --------------------------------------------------------------------- */

struct CUgraph_st *rt_make_graph(struct rt_device *device)
{
    struct CUgraph_st *graph = rt_handle_new(sizeof(*graph));
    if (graph == NULL)
        return NULL;
    graph->magic = GRAPH_MAGIC;
    graph->device = device;
    graph->last = &graph->first;
    graph->id = atomic_fetch_add(&next_id, 1);
    return graph;
}

static bool has_event(const struct rt_operation *operation)
{
    return operation != NULL && (operation->kind == RT_EVENT_RECORD || operation->kind == RT_EVENT_WAIT);
}

static void drop_operation(struct CUgraphNode_st *node)
{
    if (has_event(node->operation))
        rt_drop_event(node->operation->event.event);
    free(node->operation);
    node->operation = NULL;
}

static void free_node(struct CUgraphNode_st *node)
{
    drop_operation(node);
    if (node->child != NULL)
        rt_free_graph(node->child);
    if (node->conditional != NULL)
        rt_free_conditional(node->conditional);
    if (node->memory != NULL)
        rt_drop_memory(node->memory);
    free(node->after);
    rt_handle_free(node, sizeof(*node));
}

void rt_free_graph(struct CUgraph_st *graph)
{
    while (graph->first != NULL) {
        struct CUgraphNode_st *node = graph->first;
        graph->first = node->next;
        free_node(node);
    }
    rt_drop_user_objects(graph);
    rt_drop_conditions_of(graph);
    rt_handle_free(graph, sizeof(*graph));
}

cudaError_t rt_replace_operation(struct CUgraphNode_st *node, const struct rt_operation *operation)
{
    struct rt_operation *kept = rt_keep(operation);
    if (kept == NULL)
        return cudaErrorMemoryAllocation;
    if (has_event(kept))
        rt_hold_event(kept->event.event);
    drop_operation(node);
    node->operation = kept;
    return cudaSuccess;
}

static cudaError_t check_dependencies(const struct CUgraph_st *graph, const cudaGraphNode_t *after, size_t count)
{
    if (count > 0 && after == NULL)
        return cudaErrorInvalidValue;
    for (size_t i = 0; i < count; i++) {
        cudaError_t error = rt_check_node(after[i]);
        if (error == cudaSuccess && after[i]->graph != graph)
            error = rt_explain(cudaErrorInvalidValue, "a node depends on one of another graph");
        for (size_t j = 0; j < i && error == cudaSuccess; j++)
            if (after[j] == after[i])
                error = rt_explain(cudaErrorInvalidValue, "a node is named twice among the dependencies");
        if (error != cudaSuccess)
            return error;
    }
    return cudaSuccess;
}

cudaError_t rt_add_node(struct CUgraph_st *graph, const cudaGraphNode_t *after, size_t count,
                        enum cudaGraphNodeType type, const struct rt_operation *operation, cudaGraphNode_t *node)
{
    cudaError_t error = check_dependencies(graph, after, count);
    if (error != cudaSuccess)
        return error;
    struct CUgraphNode_st *made = rt_handle_new(sizeof(*made));
    if (made == NULL)
        return cudaErrorMemoryAllocation;
    made->magic = NODE_MAGIC;
    made->graph = graph;
    made->type = type;
    made->id = atomic_fetch_add(&next_id, 1);
    made->after = malloc((count + 1) * sizeof(cudaGraphNode_t));
    if (made->after == NULL || (operation != NULL && rt_replace_operation(made, operation) != cudaSuccess)) {
        free_node(made);
        return cudaErrorMemoryAllocation;
    }
    if (count > 0)
        memcpy(made->after, after, count * sizeof(cudaGraphNode_t));
    made->num_after = count;
    *graph->last = made;
    graph->last = &made->next;
    graph->num_nodes++;
    *node = made;
    return cudaSuccess;
}

/* ---- walks ---------------------------------------------------------------------------------- */

void rt_mark_before(struct CUgraphNode_st *node, size_t mark)
{
    size_t count = 0;
    struct CUgraphNode_st **open = malloc((node->graph->num_nodes + 1) * sizeof(cudaGraphNode_t));
    if (open == NULL)
        return;
    if (node->mark != mark)
        open[count++] = node;
    node->mark = mark;
    while (count > 0) {
        struct CUgraphNode_st *at = open[--count];
        for (size_t i = 0; i < at->num_after; i++) {
            if (at->after[i]->mark == mark)
                continue;
            at->after[i]->mark = mark;
            open[count++] = at->after[i];
        }
    }
    free(open);
}

static bool is_ready(const struct CUgraphNode_st *node, size_t mark)
{
    for (size_t i = 0; i < node->num_after; i++)
        if (node->after[i]->mark != mark)
            return false;
    return true;
}

struct CUgraphNode_st **rt_sort_nodes(struct CUgraph_st *graph)
{
    struct CUgraphNode_st **sorted = malloc((graph->num_nodes + 1) * sizeof(cudaGraphNode_t));
    size_t mark = rt_new_mark();
    size_t count = 0;
    for (bool found = true; found && sorted != NULL && count < graph->num_nodes;) {
        found = false;
        for (struct CUgraphNode_st *node = graph->first; node != NULL; node = node->next) {
            if (node->mark == mark || !is_ready(node, mark))
                continue;
            node->mark = mark;
            sorted[count++] = node;
            found = true;
        }
    }
    if (sorted != NULL && count < graph->num_nodes) {
        free(sorted);
        return NULL;
    }
    return sorted;
}

/* ---- copies --------------------------------------------------------------------------------- */

static cudaError_t clone_node(struct CUgraph_st *to, const struct CUgraphNode_st *node,
                              struct CUgraphNode_st **by_index)
{
    struct CUgraphNode_st *made;
    cudaError_t error = rt_add_node(to, NULL, 0, node->type, node->operation, &made);
    if (error != cudaSuccess)
        return error;
    free(made->after);
    made->after = malloc((node->num_after + 1) * sizeof(cudaGraphNode_t));
    made->original = node->id;
    made->is_disabled = node->is_disabled;
    made->memory = node->memory;
    if (made->memory != NULL)
        rt_hold_memory(made->memory);
    if (node->child != NULL)
        made->child = rt_clone_graph(node->child);
    if (made->child != NULL)
        made->child->is_child = true;
    if (node->conditional != NULL)
        made->conditional = rt_clone_conditional(node->conditional);
    if (made->after == NULL || (node->conditional != NULL && made->conditional == NULL) ||
        (node->child != NULL && made->child == NULL))
        return cudaErrorMemoryAllocation;
    for (size_t i = 0; i < node->num_after; i++)
        made->after[i] = by_index[node->after[i]->mark];
    made->num_after = node->num_after;
    by_index[node->mark] = made;
    return cudaSuccess;
}

struct CUgraph_st *rt_clone_graph(const struct CUgraph_st *graph)
{
    struct CUgraph_st *clone = rt_make_graph(graph->device);
    struct CUgraphNode_st **by_index = malloc((graph->num_nodes + 1) * sizeof(cudaGraphNode_t));
    struct CUgraphNode_st **sorted = rt_sort_nodes((struct CUgraph_st *)graph);
    bool made = clone != NULL && by_index != NULL && sorted != NULL;
    for (size_t i = 0; made && i < graph->num_nodes; i++) {
        sorted[i]->mark = i;
        made = clone_node(clone, sorted[i], by_index) == cudaSuccess;
    }
    for (size_t i = 0; sorted != NULL && i < graph->num_nodes; i++)
        sorted[i]->mark = 0;
    free(sorted);
    free(by_index);
    if (made && rt_copy_user_objects(clone, graph) == cudaSuccess) {
        clone->original = graph->id;
        return clone;
    }
    if (clone != NULL)
        rt_free_graph(clone);
    return NULL;
}

/* ---- the API: graphs ------------------------------------------------------------------------ */

RT_API cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned int flags)
{
    struct rt_device *device;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess && (graph == NULL || flags != 0))
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return rt_return(error);
    *graph = rt_make_graph(device);
    return rt_return(*graph != NULL ? cudaSuccess : cudaErrorMemoryAllocation);
}

RT_API cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    cudaError_t error = rt_check_graph(graph);
    if (error == cudaSuccess && graph->is_child)
        error = rt_explain(cudaErrorInvalidValue, "a child graph belongs to its node");
    if (error == cudaSuccess)
        rt_free_graph(graph);
    return rt_return(error);
}

RT_API cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t graph)
{
    cudaError_t error = rt_check_graph(graph);
    if (error == cudaSuccess && clone == NULL)
        error = cudaErrorInvalidValue;
    for (struct CUgraphNode_st *node = error == cudaSuccess ? graph->first : NULL; node != NULL; node = node->next)
        if (node->memory != NULL)
            return rt_return(rt_explain(cudaErrorNotSupported, "graphs that allocate memory cannot be cloned"));
    if (error == cudaSuccess)
        *clone = rt_clone_graph(graph);
    return rt_return(error != cudaSuccess || *clone != NULL ? error : cudaErrorMemoryAllocation);
}

/* ---- the API: nodes ------------------------------------------------------------------------- */

RT_API cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
    cudaError_t error = rt_check_node(node);
    if (error == cudaSuccess && type == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *type = node->type;
    return rt_return(error);
}

RT_API cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *node, cudaGraphNode_t original, cudaGraph_t clone)
{
    cudaError_t error = rt_check_node(original);
    if (error == cudaSuccess)
        error = rt_check_graph(clone);
    if (error == cudaSuccess && node == NULL)
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return rt_return(error);
    for (struct CUgraphNode_st *at = clone->first; at != NULL; at = at->next) {
        if (at->original == original->id) {
            *node = at;
            return rt_return(cudaSuccess);
        }
    }
    return rt_return(rt_explain(cudaErrorInvalidValue, "the graph is not a clone of the node's"));
}

RT_API cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node)
{
    cudaError_t error = rt_check_node(node);
    if (error == cudaSuccess && node->memory != NULL)
        error = rt_explain(cudaErrorNotSupported, "nodes that allocate or free memory cannot be destroyed");
    if (error != cudaSuccess)
        return rt_return(error);
    struct CUgraph_st *graph = node->graph;
    graph->last = &graph->first;
    for (struct CUgraphNode_st **at = &graph->first; *at != NULL;) {
        if (*at == node) {
            *at = node->next;
            continue;
        }
        size_t edge = rt_find_edge(node, *at);
        if (edge < (*at)->num_after)
            memmove(&(*at)->after[edge], &(*at)->after[edge + 1],
                    (--(*at)->num_after - edge) * sizeof(cudaGraphNode_t));
        graph->last = at = &(*at)->next;
    }
    graph->num_nodes--;
    free_node(node);
    return rt_return(cudaSuccess);
}
