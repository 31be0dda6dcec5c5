/* Captures as programs begin, end and ask about them. */
#include <stdlib.h>

#include "capture.h"

static unsigned long long last_id; /* with the lock of captures */

static cudaError_t begin(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                         enum cudaStreamCaptureMode mode)
{
    struct rt_device *device;
    struct CUstream_st *checked;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess)
        error = rt_check_stream(device, stream, &checked);
    if (error == cudaSuccess && (unsigned)mode > cudaStreamCaptureModeRelaxed)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess && checked == NULL)
        error = rt_explain(cudaErrorStreamCaptureUnsupported, "the legacy default stream cannot be captured");
    if (error != cudaSuccess)
        return error;
    struct rt_capture *capture = calloc(1, sizeof(*capture));
    struct CUgraph_st *target = graph != NULL ? graph : rt_make_graph(device);
    if (capture == NULL || target == NULL) {
        free(capture);
        return cudaErrorMemoryAllocation;
    }
    (void)pthread_mutex_lock(&rt_captures_lock);
    if (checked->capture != 0) {
        error = rt_explain(cudaErrorIllegalState, "the stream is being captured already");
    } else {
        *capture = (struct rt_capture){rt_captures,    ++last_id, target, graph == NULL, false, mode,
                                       pthread_self(), checked,   {0}};
        rt_captures = capture;
        checked->capture = capture->id;
        for (size_t i = 0; i < count; i++)
            (void)rt_add_tail(&checked->tail, after[i]);
        atomic_fetch_add(&rt_num_special, 1);
    }
    (void)pthread_mutex_unlock(&rt_captures_lock);
    if (error != cudaSuccess) {
        free(capture);
        if (graph == NULL)
            rt_free_graph(target);
    }
    return error;
}

RT_API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    return rt_return(begin(stream, NULL, NULL, 0, mode));
}

RT_API cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *after,
                                                 const cudaGraphEdgeData *data, size_t count,
                                                 enum cudaStreamCaptureMode mode)
{
    (void)data; /* of programmatic launches, which are launches here */
    cudaError_t error = rt_check_graph(graph);
    if (error == cudaSuccess && count > 0 && after == NULL)
        error = cudaErrorInvalidValue;
    for (size_t i = 0; i < count && error == cudaSuccess; i++) {
        error = rt_check_node(after[i]);
        if (error == cudaSuccess && after[i]->graph != graph)
            error = cudaErrorInvalidValue;
    }
    return rt_return(error == cudaSuccess ? begin(stream, graph, after, count, mode) : error);
}

/* With the lock: have all streams that took part come back to the first one? */
static bool is_joined(const struct rt_capture *capture)
{
    struct rt_device *device = capture->origin->device;
    size_t mark = rt_new_mark();
    bool joined = true;
    for (size_t i = 0; i < capture->origin->tail.count; i++)
        rt_mark_before(capture->origin->tail.nodes[i], mark);
    for (size_t i = 0; i < capture->left.count; i++)
        joined = joined && capture->left.nodes[i]->mark == mark;
    (void)pthread_mutex_lock(&device->mutex);
    for (struct CUstream_st *stream = device->streams; stream != NULL; stream = stream->next)
        for (size_t i = 0; stream->capture == capture->id && i < stream->tail.count; i++)
            joined = joined && stream->tail.nodes[i]->mark == mark;
    (void)pthread_mutex_unlock(&device->mutex);
    return joined;
}

static cudaError_t end(struct CUstream_st *stream, cudaGraph_t *graph)
{
    struct rt_capture *capture = rt_capture_of(stream);
    if (capture == NULL)
        return rt_explain(cudaErrorIllegalState, "the stream is not being captured");
    if (graph == NULL && capture->owns_graph)
        return cudaErrorInvalidValue;
    if (capture->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(capture->thread, pthread_self()))
        return cudaErrorStreamCaptureWrongThread;
    if (capture->origin != stream)
        return rt_spoil_capture(capture, cudaErrorStreamCaptureUnmatched, "the capture was begun in another stream");
    cudaError_t error = capture->is_broken    ? cudaErrorStreamCaptureInvalidated
                        : !is_joined(capture) ? cudaErrorStreamCaptureUnjoined
                                              : cudaSuccess;
    if (error == cudaSuccess && graph != NULL)
        *graph = capture->graph;
    else if (capture->owns_graph)
        rt_free_graph(capture->graph);
    rt_finish_capture(capture);
    return error;
}

RT_API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    struct rt_device *device;
    struct CUstream_st *checked;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess)
        error = rt_check_stream(device, stream, &checked);
    if (error != cudaSuccess)
        return rt_return(error);
    if (graph != NULL)
        *graph = NULL;
    (void)pthread_mutex_lock(&rt_captures_lock);
    error = end(checked, graph);
    (void)pthread_mutex_unlock(&rt_captures_lock);
    return rt_return(error);
}

struct info {
    enum cudaStreamCaptureStatus status;
    unsigned long long id;
    cudaGraph_t graph;
    const cudaGraphNode_t *after;
    const cudaGraphEdgeData *data;
    size_t count;
};

static cudaError_t ask(cudaStream_t stream, struct info *info)
{
    struct rt_device *device;
    struct CUstream_st *checked;
    *info = (struct info){.status = cudaStreamCaptureStatusNone};
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess)
        error = rt_check_stream(device, stream, &checked);
    if (error != cudaSuccess)
        return error;
    (void)pthread_mutex_lock(&rt_captures_lock);
    struct rt_capture *capture = rt_capture_of(checked);
    if (checked == NULL && rt_captures != NULL)
        error = rt_check_legacy_capture(device);
    if (capture != NULL)
        *info = (struct info){capture->is_broken ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive,
                              capture->id,
                              capture->graph,
                              checked->tail.nodes,
                              checked->tail.data,
                              checked->tail.count};
    (void)pthread_mutex_unlock(&rt_captures_lock);
    return error;
}

RT_API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    struct info info;
    cudaError_t error = status == NULL ? cudaErrorInvalidValue : ask(stream, &info);
    if (error == cudaSuccess)
        *status = info.status;
    return rt_return(error);
}

RT_API cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                               unsigned long long *id, cudaGraph_t *graph,
                                               const cudaGraphNode_t **after, const cudaGraphEdgeData **data,
                                               size_t *count)
{
    struct info info;
    cudaError_t error = status == NULL ? cudaErrorInvalidValue : ask(stream, &info);
    if (error != cudaSuccess)
        return rt_return(error);
    *status = info.status;
    if (id != NULL)
        *id = info.id;
    if (graph != NULL)
        *graph = info.graph;
    if (after != NULL)
        *after = info.after;
    if (data != NULL)
        *data = info.data;
    if (count != NULL)
        *count = info.count;
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                               unsigned long long *id, cudaGraph_t *graph,
                                               const cudaGraphNode_t **after, size_t *count)
{
    return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, after, NULL, count);
}

RT_API cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *after, size_t count,
                                                       unsigned int flags)
{
    struct rt_device *device;
    struct CUstream_st *checked;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess)
        error = rt_check_stream(device, stream, &checked);
    if (error == cudaSuccess && (flags > cudaStreamSetCaptureDependencies || (count > 0 && after == NULL)))
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return rt_return(error);
    (void)pthread_mutex_lock(&rt_captures_lock);
    struct rt_capture *capture = rt_capture_of(checked);
    if (capture == NULL)
        error = rt_explain(cudaErrorIllegalState, "the stream is not being captured");
    for (size_t i = 0; i < count && error == cudaSuccess; i++)
        error = rt_check_node(after[i]) != cudaSuccess || after[i]->graph != capture->graph ? cudaErrorInvalidValue
                                                                                            : cudaSuccess;
    if (error == cudaSuccess && flags == cudaStreamSetCaptureDependencies)
        checked->tail.count = 0;
    for (size_t i = 0; i < count && error == cudaSuccess; i++)
        error = rt_add_tail(&checked->tail, after[i]) ? cudaSuccess : cudaErrorMemoryAllocation;
    (void)pthread_mutex_unlock(&rt_captures_lock);
    return rt_return(error);
}
