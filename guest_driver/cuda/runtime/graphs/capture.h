/* Captures: what capture.c (work becomes nodes) and capture_calls.c (the API) share. */
#ifndef VGC_CUDART_CAPTURE_H
#define VGC_CUDART_CAPTURE_H

#include "graph.h"

struct rt_capture {
    struct rt_capture *next;
    unsigned long long id;
    struct CUgraph_st *graph;
    bool owns_graph; /* false: cudaStreamBeginCaptureToGraph() */
    bool is_broken;
    enum cudaStreamCaptureMode mode;
    pthread_t thread;
    struct CUstream_st *origin;
    struct rt_tail left; /* last work of streams that took part and were destroyed: must be joined, too */
};

/* Guard of captures, and of what streams and events know of them. All below is called with it. */
extern pthread_mutex_t rt_captures_lock;
extern struct rt_capture *rt_captures;

/* The capture that the stream takes part in, or NULL. */
struct rt_capture *rt_capture_of(const struct CUstream_st *stream);
/* Takes all streams out of the capture, and frees it, but not its graph. */
void rt_finish_capture(struct rt_capture *capture);
/* Makes the capture invalid. Returns `error`, explained. */
cudaError_t rt_spoil_capture(struct rt_capture *capture, cudaError_t error, const char *why);
/* An error if the legacy stream may not be used now, as a capture is under way. */
cudaError_t rt_check_legacy_capture(struct rt_device *device);
/* False: no memory. */
bool rt_add_tail(struct rt_tail *tail, struct CUgraphNode_st *node);

#endif
