/* Graphs in the language of Graphviz. */
#include <inttypes.h>
#include <stdio.h>

#include "graph.h"

static const char *const TYPES[cudaGraphNodeTypeCount] = {
    [cudaGraphNodeTypeKernel] = "KERNEL",          [cudaGraphNodeTypeMemcpy] = "MEMCPY",
    [cudaGraphNodeTypeMemset] = "MEMSET",          [cudaGraphNodeTypeHost] = "HOST",
    [cudaGraphNodeTypeGraph] = "CHILD_GRAPH",      [cudaGraphNodeTypeEmpty] = "EMPTY",
    [cudaGraphNodeTypeWaitEvent] = "EVENT_WAIT",   [cudaGraphNodeTypeEventRecord] = "EVENT_RECORD",
    [cudaGraphNodeTypeMemAlloc] = "MEM_ALLOC",     [cudaGraphNodeTypeMemFree] = "MEM_FREE",
    [cudaGraphNodeTypeConditional] = "CONDITIONAL"};

static void print_node(FILE *file, const struct CUgraphNode_st *node)
{
    (void)fprintf(file, "\"%llu\" [label=\"%llu\\n%s", node->id, node->id, TYPES[node->type]);
    if (node->type == cudaGraphNodeTypeKernel) {
        const struct rt_launch *launch = &node->operation->launch;
        const uint32_t *grid = launch->geometry.grid;
        const uint32_t *block = launch->geometry.block;
        (void)fprintf(file, "\\n%s\\n<<<(%u,%u,%u),(%u,%u,%u),%u>>>", launch->function->name, grid[0], grid[1], grid[2],
                      block[0], block[1], block[2], launch->geometry.shared_bytes);
    }
    if (node->operation != NULL && node->operation->kind == RT_COPY)
        (void)fprintf(file, "\\n%zu bytes", node->operation->copy.size);
    (void)fprintf(file, "\"];\n");
    for (size_t i = 0; i < node->num_after; i++)
        (void)fprintf(file, "\"%llu\" -> \"%llu\";\n", node->after[i]->id, node->id);
}

static void print_graph(FILE *file, const struct CUgraph_st *graph)
{
    (void)fprintf(file, "subgraph cluster_%llu {\nlabel=\"graph_%llu\";\n", graph->id, graph->id);
    for (const struct CUgraphNode_st *node = graph->first; node != NULL; node = node->next)
        print_node(file, node);
    for (const struct CUgraphNode_st *node = graph->first; node != NULL; node = node->next)
        if (node->child != NULL)
            print_graph(file, node->child);
    (void)fprintf(file, "}\n");
}

RT_API cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned int flags)
{
    (void)flags; /* ask for more words */
    cudaError_t error = rt_check_graph(graph);
    if (error == cudaSuccess && path == NULL)
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return rt_return(error);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return rt_return(rt_explain(cudaErrorOperatingSystem, "%s: cannot be written", path));
    (void)fprintf(file, "digraph dot {\n");
    print_graph(file, graph);
    (void)fprintf(file, "}\n");
    return rt_return(fclose(file) == 0 ? cudaSuccess : cudaErrorOperatingSystem);
}
