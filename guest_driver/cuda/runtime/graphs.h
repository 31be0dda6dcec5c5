/* Capture, and what the rest of the runtime knows of graphs. */
#ifndef VGC_CUDART_GRAPHS_H
#define VGC_CUDART_GRAPHS_H

#include "base.h"
/* Nodes of a graph that captured work comes behind. */
struct rt_tail {
    struct CUgraphNode_st **nodes;
    cudaGraphEdgeData *data; /* of the edges that leave the nodes: as many, all plain */
    size_t count;
};

/* ---- capture.c --------------------------------------------------------------------------------------------------- */

/* Adds the operation to a graph if the stream is captured, or if it joins a capture; then *is_captured is true. */
cudaError_t rt_capture(struct rt_device *device, struct CUstream_st *stream, const struct rt_operation *operation,
                       bool *is_captured);
/* Likewise, for a launch of a graph. */
cudaError_t rt_capture_graph(struct CUstream_st *stream, const struct CUgraph_st *graph, bool *is_captured);
/* Likewise, for memory in the order of the stream. */
cudaError_t rt_capture_allocation(struct CUstream_st *stream, size_t size, void **memory, bool *is_captured);
cudaError_t rt_capture_free(struct CUstream_st *stream, void *memory, bool *is_captured);
/* To be called before a stream is waited for or asked: an error if it is captured. */
cudaError_t rt_check_capture(struct CUstream_st *stream);
/* Likewise, before the device is waited for. */
cudaError_t rt_check_synchronize(struct rt_device *device);
/* To be called by what CUDA calls unsafe during a capture, as cudaMalloc(). */
cudaError_t rt_check_unsafe(void);
bool rt_is_captured_event(cudaEvent_t event);
void rt_forget_captures(cudaEvent_t event);
/* The stream is about to go. */
void rt_end_captures_of(struct CUstream_st *stream);
/* The device is reset: its captures end, and nobody gets their graphs. To be called before streams are forgotten. */
void rt_captures_forget(const struct rt_device *device);

/* ---- segments.c -------------------------------------------------------------------------------------------------- */

void rt_hold_sent(struct rt_sent_graph *sent);
void rt_drop_sent(struct rt_sent_graph *sent);

/* ---- memory.c ---------------------------------------------------------------------------------------------------- */

/* Was the memory allocated by a graph? */
bool rt_is_graph_memory(const void *address);
/* Frees memory that a graph has allocated: it stays while a graph that uses it does. False: it is no such memory. */
bool rt_free_graph_memory(const void *address);

#endif
