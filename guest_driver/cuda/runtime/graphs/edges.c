/* Edges of graphs, and questions about nodes and edges. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

size_t rt_find_edge(const struct CUgraphNode_st *from, const struct CUgraphNode_st *to)
{
    size_t i = 0;
    while (i < to->num_after && to->after[i] != from)
        i++;
    return i;
}

static cudaError_t check_edges(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t count)
{
    cudaError_t error = rt_check_graph(graph);
    if (error == cudaSuccess && count > 0 && (from == NULL || to == NULL))
        error = cudaErrorInvalidValue;
    for (size_t i = 0; i < count && error == cudaSuccess; i++) {
        error = rt_check_node(from[i]);
        if (error == cudaSuccess)
            error = rt_check_node(to[i]);
        if (error == cudaSuccess && (from[i]->graph != graph || to[i]->graph != graph))
            error = rt_explain(cudaErrorInvalidValue, "an edge joins nodes of other graphs");
    }
    return error;
}

static cudaError_t add_edge(cudaGraphNode_t from, cudaGraphNode_t to)
{
    size_t mark = rt_new_mark();
    if (rt_find_edge(from, to) < to->num_after)
        return rt_explain(cudaErrorInvalidValue, "there is such an edge already");
    rt_mark_before(from, mark);
    if (to->mark == mark)
        return rt_explain(cudaErrorInvalidValue, "the edge closes a circle");
    cudaGraphNode_t *more = realloc(to->after, (to->num_after + 2) * sizeof(*more));
    if (more == NULL)
        return cudaErrorMemoryAllocation;
    to->after = more;
    to->after[to->num_after++] = from;
    return cudaSuccess;
}

RT_API cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                            size_t count)
{
    cudaError_t error = check_edges(graph, from, to, count);
    for (size_t i = 0; i < count && error == cudaSuccess; i++)
        error = add_edge(from[i], to[i]);
    return rt_return(error);
}

RT_API cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                               const cudaGraphNode_t *to, size_t count)
{
    cudaError_t error = check_edges(graph, from, to, count);
    for (size_t i = 0; i < count && error == cudaSuccess; i++) {
        size_t at = rt_find_edge(from[i], to[i]);
        if (at == to[i]->num_after)
            return rt_return(rt_explain(cudaErrorInvalidValue, "there is no such edge"));
        memmove(&to[i]->after[at], &to[i]->after[at + 1], (--to[i]->num_after - at) * sizeof(cudaGraphNode_t));
    }
    return rt_return(error);
}

/* Gives the entries that fit, and the number: of those if there is an array, else of all. */
struct answer {
    cudaGraphNode_t *first;
    cudaGraphNode_t *second;
    size_t room;
    size_t count;
};

static void give(struct answer *answer, cudaGraphNode_t first, cudaGraphNode_t second)
{
    if (answer->count < answer->room && answer->first != NULL)
        answer->first[answer->count] = first;
    if (answer->count < answer->room && answer->second != NULL)
        answer->second[answer->count] = second;
    answer->count++;
}

static cudaError_t end_answer(struct answer *answer, size_t *count)
{
    if (answer->first == NULL) {
        *count = answer->count;
        return cudaSuccess;
    }
    for (size_t i = answer->count; i < answer->room; i++) {
        answer->first[i] = NULL;
        if (answer->second != NULL)
            answer->second[i] = NULL;
    }
    *count = RT_MIN(answer->count, answer->room);
    return cudaSuccess;
}

RT_API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    cudaError_t error = rt_check_graph(graph);
    if (error != cudaSuccess || count == NULL)
        return rt_return(error != cudaSuccess ? error : cudaErrorInvalidValue);
    struct answer answer = {.first = nodes, .room = *count};
    for (struct CUgraphNode_st *node = graph->first; node != NULL; node = node->next)
        give(&answer, node, NULL);
    return rt_return(end_answer(&answer, count));
}

RT_API cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    cudaError_t error = rt_check_graph(graph);
    if (error != cudaSuccess || count == NULL)
        return rt_return(error != cudaSuccess ? error : cudaErrorInvalidValue);
    struct answer answer = {.first = nodes, .room = *count};
    for (struct CUgraphNode_st *node = graph->first; node != NULL; node = node->next)
        if (node->num_after == 0)
            give(&answer, node, NULL);
    return rt_return(end_answer(&answer, count));
}

RT_API cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count)
{
    cudaError_t error = rt_check_graph(graph);
    if (error == cudaSuccess && (count == NULL || (from == NULL) != (to == NULL)))
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return rt_return(error);
    struct answer answer = {.first = from, .second = to, .room = *count};
    for (struct CUgraphNode_st *node = graph->first; node != NULL; node = node->next)
        for (size_t i = 0; i < node->num_after; i++)
            give(&answer, node->after[i], node);
    return rt_return(end_answer(&answer, count));
}

RT_API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *before, size_t *count)
{
    cudaError_t error = rt_check_node(node);
    if (error != cudaSuccess || count == NULL)
        return rt_return(error != cudaSuccess ? error : cudaErrorInvalidValue);
    struct answer answer = {.first = before, .room = *count};
    for (size_t i = 0; i < node->num_after; i++)
        give(&answer, node->after[i], NULL);
    return rt_return(end_answer(&answer, count));
}

RT_API cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *behind, size_t *count)
{
    cudaError_t error = rt_check_node(node);
    if (error != cudaSuccess || count == NULL)
        return rt_return(error != cudaSuccess ? error : cudaErrorInvalidValue);
    struct answer answer = {.first = behind, .room = *count};
    for (struct CUgraphNode_st *at = node->graph->first; at != NULL; at = at->next)
        if (rt_find_edge(node, at) < at->num_after)
            give(&answer, at, NULL);
    return rt_return(end_answer(&answer, count));
}
