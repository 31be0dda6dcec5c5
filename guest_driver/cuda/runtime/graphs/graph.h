/* Graphs: nodes with the operations that they do, and edges between them. */
#ifndef VGC_CUDART_GRAPH_H
#define VGC_CUDART_GRAPH_H

#include "runtime.h"

struct rt_graph_memory;
struct rt_user_use;
struct rt_condition;

/* Node of a device's graph: in segments.c. */
struct rt_place {
    size_t segment; /* 0: none */
    uint32_t wire;
};

/* Part of a conditional node. */
struct rt_conditional {
    struct rt_condition *condition;
    enum cudaGraphConditionalNodeType type;
    unsigned size;
    struct CUgraph_st **bodies;
    struct CUgraphExec_st **execs; /* of the bodies, in an executable graph */
};

struct CUgraphNode_st {
    uint64_t magic;
    struct CUgraph_st *graph;
    struct CUgraphNode_st *next; /* in the order of creation */
    unsigned long long id;
    unsigned long long original; /* id of the node that this one was copied from, or 0 */
    enum cudaGraphNodeType type;
    bool is_disabled;               /* in an executable graph */
    struct rt_operation *operation; /* of rt_keep(); NULL: empty, or a child */
    struct CUgraph_st *child;
    struct rt_conditional *conditional;
    size_t *num_choices;            /* of the executable graph that a conditional node is in */
    struct rt_graph_memory *memory; /* of nodes that allocate or free */
    struct CUgraphNode_st **after;  /* nodes that must be done before */
    size_t num_after;
    size_t mark;           /* scratch of walks */
    size_t place;          /* scratch: index in the graph */
    struct rt_place begin; /* of a child graph */
    struct rt_place end;
    bool is_changed; /* in an executable graph, since its segments were made */
};

struct CUgraph_st {
    uint64_t magic;
    struct rt_device *device;
    struct CUgraphNode_st *first;
    struct CUgraphNode_st **last;
    size_t num_nodes;
    unsigned long long id;
    unsigned long long original;
    bool is_child; /* belongs to a node */
    struct rt_user_use *objects;
};

/* graph.c */
cudaError_t rt_check_graph(const struct CUgraph_st *graph);
cudaError_t rt_check_node(const struct CUgraphNode_st *node);
struct CUgraph_st *rt_make_graph(struct rt_device *device);
/* Adds a node, whose operation is kept. On an error it is not made. */
cudaError_t rt_add_node(struct CUgraph_st *graph, const cudaGraphNode_t *after, size_t count,
                        enum cudaGraphNodeType type, const struct rt_operation *operation, cudaGraphNode_t *node);
/* Replaces what the node does. */
cudaError_t rt_replace_operation(struct CUgraphNode_st *node, const struct rt_operation *operation);
struct CUgraph_st *rt_clone_graph(const struct CUgraph_st *graph);
void rt_free_graph(struct CUgraph_st *graph);
/* Nodes in an order that their edges allow, by creation as far as possible: an array of malloc(). NULL: a circle, or no
 * memory. */
struct CUgraphNode_st **rt_sort_nodes(struct CUgraph_st *graph);
/* Marks all nodes that `node` must follow, and itself, with `mark`. */
void rt_mark_before(struct CUgraphNode_st *node, size_t mark);
size_t rt_new_mark(void);

/* edges.c: index of the edge in to->after, or to->num_after */
size_t rt_find_edge(const struct CUgraphNode_st *from, const struct CUgraphNode_st *to);

/* conditions.c */
/* A copy for a copy of the node, with bodies of its own. NULL: no memory. */
struct rt_conditional *rt_clone_conditional(const struct rt_conditional *conditional);
void rt_free_conditional(struct rt_conditional *conditional);
/* Lets go the conditions whose handles were made for the graph. */
void rt_drop_conditions_of(const struct CUgraph_st *graph);
cudaError_t rt_add_conditional_node(struct CUgraph_st *graph, const cudaGraphNode_t *after, size_t count,
                                    struct cudaConditionalNodeParams *params, cudaGraphNode_t *node);

/* nodes.c: operations from the parameters of nodes; they point into these until they are kept */
cudaError_t rt_kernel_operation(struct rt_device *device, const struct cudaKernelNodeParams *params,
                                struct rt_operation *operation, void **arguments);
cudaError_t rt_memcpy_operation(const struct cudaMemcpy3DParms *params, struct rt_operation *operation);
cudaError_t rt_memset_operation(const struct cudaMemsetParams *params, struct rt_operation *operation);
cudaError_t rt_host_operation(const struct cudaHostNodeParams *params, struct rt_operation *operation);
struct rt_operation rt_row_operation(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
/* Address of bytes of a variable, which must lie in it. */
cudaError_t rt_symbol_place(const void *symbol, size_t bytes, size_t offset, char **place);
enum cudaGraphNodeType rt_node_type(const struct rt_operation *operation);
enum { RT_MAX_ARGUMENTS = 4096 / 4 };

/* memory.c */
void rt_hold_memory(struct rt_graph_memory *memory);
void rt_drop_memory(struct rt_graph_memory *memory);
cudaError_t rt_copy_user_objects(struct CUgraph_st *to, const struct CUgraph_st *from);
void rt_drop_user_objects(struct CUgraph_st *graph);

#endif
