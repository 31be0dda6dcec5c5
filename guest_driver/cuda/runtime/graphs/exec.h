/* Executable graphs: what their files share. */
#ifndef VGC_CUDART_GRAPH_EXEC_H
#define VGC_CUDART_GRAPH_EXEC_H

#include "graph.h"

enum rt_step_kind { RT_STEP_NODE, RT_STEP_ENTER, RT_STEP_LEAVE }; /* the last two are the ends of a child graph */

struct rt_step {
    enum rt_step_kind kind;
    struct CUgraphNode_st *node;
    const struct CUgraphNode_st *parent; /* the node whose child graph this node is in, or NULL */
};

/* Steps that one request launches or, with `sent` NULL, that are submitted one by one. */
struct rt_segment {
    size_t first;
    size_t end;
    struct rt_sent_graph *sent;
};

struct CUgraphExec_st {
    uint64_t magic;
    struct rt_device *device;
    uint32_t epoch;
    struct CUgraph_st *graph; /* a clone: the nodes' `original` are those that the program knows */
    struct rt_step *steps;    /* all nodes, those of child graphs among them, in an order that the edges allow */
    size_t num_steps;
    struct rt_segment *segments; /* all steps */
    size_t num_segments;
    bool is_changed; /* since the segments were made */
    unsigned long long flags;
    pthread_mutex_t mutex;          /* of launches: one after the other */
    cudaEvent_t last_event;         /* behind the last launch: the next one waits for it in other streams */
    bool has_event;                 /* it is recorded; else all of the launch is in `last_number` */
    unsigned long long last_stream; /* its id */
    uint32_t last_number;           /* of the device's stream */
    bool is_launched;
    bool has_memory;    /* a step allocates or frees */
    bool is_body;       /* of a conditional node, which has the graph */
    size_t num_choices; /* of conditional nodes that are still to be made: conditions.c */
};

/* exec.c */
cudaError_t rt_check_exec(const struct CUgraphExec_st *exec);

void rt_free_exec(struct CUgraphExec_st *exec);

/* conditions.c */
/* Puts the node's choice behind what the stream does; the thread of the stream's queue makes it. */
cudaError_t rt_submit_choice(struct CUgraphExec_st *exec, struct CUgraphNode_st *node, cudaStream_t stream);
/* Gives conditions their values for the next launch, also those of bodies. */
cudaError_t rt_assign_conditions(const struct CUgraphExec_st *exec, cudaStream_t stream);
/* Waits until no choice of an earlier launch is still to be made. */
void rt_await_choices(struct CUgraphExec_st *exec);

/* memory.c */
/* Notes which memory of the graph's a launch leaves allocated. */
void rt_note_launch(const struct CUgraphExec_st *exec);

/* segments.c */
/* Divides the steps into segments, and sends what is new or has changed to the device. False: no memory. */
bool rt_make_segments(struct CUgraphExec_st *exec);
void rt_free_segments(struct CUgraphExec_st *exec);

#endif
