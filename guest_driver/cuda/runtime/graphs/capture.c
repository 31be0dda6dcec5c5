/* Capture: work given to a stream becomes nodes of a graph. Streams join a capture by waiting for an event that was
 * recorded in it, and must have been joined themselves when it ends. */
#include <stdlib.h>
#include <string.h>

#include "capture.h"

/* Guard of captures, and of what streams and events know of them. */
pthread_mutex_t rt_captures_lock = PTHREAD_MUTEX_INITIALIZER;
struct rt_capture *rt_captures;
static _Thread_local enum cudaStreamCaptureMode thread_mode;

/* ---- sets of nodes -------------------------------------------------------------------------- */

bool rt_add_tail(struct rt_tail *tail, struct CUgraphNode_st *node)
{
    for (size_t i = 0; i < tail->count; i++)
        if (tail->nodes[i] == node)
            return true;
    struct CUgraphNode_st **more = realloc(tail->nodes, (tail->count + 1) * sizeof(*more));
    if (more == NULL)
        return false;
    tail->nodes = more;
    cudaGraphEdgeData *data = realloc(tail->data, (tail->count + 1) * sizeof(*data));
    if (data == NULL)
        return false;
    tail->data = data;
    memset(&data[tail->count], 0, sizeof(*data));
    tail->nodes[tail->count++] = node;
    return true;
}

static void clear_tail(struct rt_tail *tail)
{
    free(tail->nodes);
    free(tail->data);
    *tail = (struct rt_tail){0};
}

static bool add_all(struct rt_tail *to, const struct rt_tail *from)
{
    bool added = true;
    for (size_t i = 0; i < from->count; i++)
        added = rt_add_tail(to, from->nodes[i]) && added;
    return added;
}

/* ---- ending --------------------------------------------------------------------------------- */

static struct rt_capture *find(unsigned long long id)
{
    struct rt_capture *capture = rt_captures;
    while (capture != NULL && capture->id != id)
        capture = capture->next;
    return capture;
}

struct rt_capture *rt_capture_of(const struct CUstream_st *stream)
{
    return stream != NULL && stream->capture != 0 ? find(stream->capture) : NULL;
}

/* With the lock. */
void rt_finish_capture(struct rt_capture *capture)
{
    struct rt_device *device = capture->origin->device;
    (void)pthread_mutex_lock(&device->mutex);
    for (struct CUstream_st *stream = device->streams; stream != NULL; stream = stream->next) {
        if (stream->capture == capture->id) {
            stream->capture = 0;
            clear_tail(&stream->tail);
        }
    }
    (void)pthread_mutex_unlock(&device->mutex);
    for (struct rt_capture **at = &rt_captures; *at != NULL; at = &(*at)->next) {
        if (*at == capture) {
            *at = capture->next;
            break;
        }
    }
    clear_tail(&capture->left);
    free(capture);
    atomic_fetch_sub(&rt_num_special, 1);
}

cudaError_t rt_spoil_capture(struct rt_capture *capture, cudaError_t error, const char *why)
{
    capture->is_broken = true;
    return rt_explain(error, "%s; the capture is invalid now", why);
}

/* Ends a capture that nobody will get the graph of. */
static void abandon(struct rt_capture *capture)
{
    struct CUgraph_st *graph = capture->owns_graph ? capture->graph : NULL;
    rt_finish_capture(capture);
    if (graph != NULL)
        rt_free_graph(graph);
}

void rt_end_captures_of(struct CUstream_st *stream)
{
    (void)pthread_mutex_lock(&rt_captures_lock);
    struct rt_capture *capture = rt_capture_of(stream);
    if (capture != NULL && capture->origin == stream) {
        abandon(capture);
    } else if (capture != NULL && !add_all(&capture->left, &stream->tail)) {
        (void)rt_spoil_capture(capture, cudaErrorMemoryAllocation,
                               "no memory to keep what a destroyed stream has done");
    }
    clear_tail(&stream->tail);
    (void)pthread_mutex_unlock(&rt_captures_lock);
}

void rt_captures_forget(const struct rt_device *device)
{
    (void)pthread_mutex_lock(&rt_captures_lock);
    for (struct rt_capture *capture = rt_captures, *next; capture != NULL; capture = next) {
        next = capture->next;
        if (capture->origin->device == device)
            abandon(capture);
    }
    (void)pthread_mutex_unlock(&rt_captures_lock);
}

/* ---- work ----------------------------------------------------------------------------------- */

static cudaError_t add_work(struct rt_capture *capture, struct CUstream_st *stream,
                            const struct rt_operation *operation)
{
    struct CUgraphNode_st *node;
    if (operation->waits)
        return rt_spoil_capture(capture, cudaErrorStreamCaptureUnsupported,
                                "work that the caller waits for in a captured stream");
    if (operation->kind == RT_CALL || operation->kind == RT_GRAPH ||
        (operation->kind == RT_HOST_FUNCTION && operation->host.callback != NULL))
        return rt_spoil_capture(capture, cudaErrorStreamCaptureUnsupported, "a call that graphs cannot hold");
    cudaError_t error =
        rt_add_node(capture->graph, stream->tail.nodes, stream->tail.count, rt_node_type(operation), operation, &node);
    if (error != cudaSuccess)
        return error;
    stream->tail.count = 0;
    return rt_add_tail(&stream->tail, node) ? cudaSuccess : cudaErrorMemoryAllocation;
}

static cudaError_t record_event(struct rt_capture *capture, struct CUstream_st *stream,
                                const struct rt_operation *operation)
{
    cudaEvent_t event = operation->event.event;
    if ((operation->event.flags & cudaEventRecordExternal) != 0)
        return add_work(capture, stream, operation);
    event->capture = capture->id;
    event->tail.count = 0;
    return add_all(&event->tail, &stream->tail) ? cudaSuccess : cudaErrorMemoryAllocation;
}

static cudaError_t wait_event(struct rt_capture *capture, struct CUstream_st *stream,
                              const struct rt_operation *operation)
{
    cudaEvent_t event = operation->event.event;
    struct rt_capture *other = find(event->capture);
    if (capture != NULL && (operation->event.flags & cudaEventWaitExternal) != 0)
        return add_work(capture, stream, operation);
    if (capture != NULL && event->capture == 0)
        return rt_spoil_capture(capture, cudaErrorStreamCaptureIsolation,
                                "a captured stream waits for work outside of the capture");
    if (other == NULL)
        return rt_explain(cudaErrorCapturedEvent, "the event was recorded in a capture that has ended");
    if (other->is_broken)
        return cudaErrorStreamCaptureInvalidated;
    if (capture != NULL && other != capture) {
        other->is_broken = true;
        return rt_spoil_capture(capture, cudaErrorStreamCaptureMerge, "a stream joins two rt_captures");
    }
    if (stream == NULL)
        return rt_spoil_capture(other, cudaErrorStreamCaptureImplicit, "the legacy default stream joins a capture");
    stream->capture = other->id;
    return add_all(&stream->tail, &event->tail) ? cudaSuccess : cudaErrorMemoryAllocation;
}

/* The legacy default stream would have to wait for blocking streams that are captured. */
cudaError_t rt_check_legacy_capture(struct rt_device *device)
{
    struct rt_capture *capture = NULL;
    (void)pthread_mutex_lock(&device->mutex);
    for (struct CUstream_st *at = device->streams; at != NULL && capture == NULL; at = at->next)
        if ((at->flags & cudaStreamNonBlocking) == 0)
            capture = rt_capture_of(at);
    (void)pthread_mutex_unlock(&device->mutex);
    return capture == NULL ? cudaSuccess
                           : rt_spoil_capture(capture, cudaErrorStreamCaptureImplicit,
                                              "the legacy default stream is used during a capture");
}

cudaError_t rt_capture(struct rt_device *device, struct CUstream_st *stream, const struct rt_operation *operation,
                       bool *is_captured)
{
    cudaError_t error = cudaSuccess;
    (void)pthread_mutex_lock(&rt_captures_lock);
    struct rt_capture *capture = rt_capture_of(stream);
    bool joins = operation->kind == RT_EVENT_WAIT && operation->event.event->capture != 0;
    *is_captured = capture != NULL || joins;
    if (capture != NULL && capture->is_broken)
        error = cudaErrorStreamCaptureInvalidated;
    else if (operation->kind == RT_EVENT_WAIT && *is_captured)
        error = wait_event(capture, stream, operation);
    else if (capture != NULL && operation->kind == RT_EVENT_RECORD)
        error = record_event(capture, stream, operation);
    else if (capture != NULL)
        error = add_work(capture, stream, operation);
    else if (stream == NULL && rt_captures != NULL)
        error = rt_check_legacy_capture(device);
    if (!*is_captured && error == cudaSuccess && operation->kind == RT_EVENT_RECORD) {
        operation->event.event->capture = 0;
        clear_tail(&operation->event.event->tail);
    }
    (void)pthread_mutex_unlock(&rt_captures_lock);
    return error;
}

typedef cudaError_t add_function(struct rt_capture *capture, const struct rt_tail *after, void *what,
                                 cudaGraphNode_t *node);

/* Adds a node that no operation describes, if the stream is captured. */
static cudaError_t capture_other(struct CUstream_st *stream, add_function *add, void *what, bool *is_captured)
{
    cudaError_t error = cudaSuccess;
    struct CUgraphNode_st *node;
    (void)pthread_mutex_lock(&rt_captures_lock);
    struct rt_capture *capture = rt_capture_of(stream);
    *is_captured = capture != NULL;
    if (capture != NULL)
        error = capture->is_broken ? cudaErrorStreamCaptureInvalidated : add(capture, &stream->tail, what, &node);
    if (capture != NULL && error == cudaSuccess) {
        stream->tail.count = 0;
        error = rt_add_tail(&stream->tail, node) ? cudaSuccess : cudaErrorMemoryAllocation;
    }
    (void)pthread_mutex_unlock(&rt_captures_lock);
    return error;
}

static cudaError_t add_child(struct rt_capture *capture, const struct rt_tail *after, void *what, cudaGraphNode_t *node)
{
    return cudaGraphAddChildGraphNode(node, capture->graph, after->nodes, after->count, what);
}

static cudaError_t add_allocation(struct rt_capture *capture, const struct rt_tail *after, void *what,
                                  cudaGraphNode_t *node)
{
    return cudaGraphAddMemAllocNode(node, capture->graph, after->nodes, after->count, what);
}

static cudaError_t add_free(struct rt_capture *capture, const struct rt_tail *after, void *what, cudaGraphNode_t *node)
{
    return cudaGraphAddMemFreeNode(node, capture->graph, after->nodes, after->count, what);
}

cudaError_t rt_capture_graph(struct CUstream_st *stream, const struct CUgraph_st *graph, bool *is_captured)
{
    return capture_other(stream, add_child, (void *)(uintptr_t)graph, is_captured);
}

cudaError_t rt_capture_allocation(struct CUstream_st *stream, size_t size, void **memory, bool *is_captured)
{
    struct cudaMemAllocNodeParams params = {.bytesize = size};
    cudaError_t error = capture_other(stream, add_allocation, &params, is_captured);
    if (*is_captured && error == cudaSuccess)
        *memory = params.dptr;
    return error;
}

cudaError_t rt_capture_free(struct CUstream_st *stream, void *memory, bool *is_captured)
{
    return capture_other(stream, add_free, memory, is_captured);
}

/* ---- calls that captures forbid ----------------------------------------------------------------- */

cudaError_t rt_check_capture(struct CUstream_st *stream)
{
    cudaError_t error = cudaSuccess;
    if (atomic_load_explicit(&rt_num_special, memory_order_acquire) == 0)
        return cudaSuccess;
    (void)pthread_mutex_lock(&rt_captures_lock);
    struct rt_capture *capture = rt_capture_of(stream);
    if (capture != NULL)
        error =
            rt_spoil_capture(capture, cudaErrorStreamCaptureUnsupported, "a captured stream is waited for, or asked");
    else if (stream == NULL && rt_captures != NULL)
        error = rt_check_legacy_capture(rt_device_at(rt_ordinal()));
    (void)pthread_mutex_unlock(&rt_captures_lock);
    return error;
}

cudaError_t rt_check_unsafe(void)
{
    cudaError_t error = cudaSuccess;
    if (atomic_load_explicit(&rt_num_special, memory_order_acquire) == 0 || thread_mode == cudaStreamCaptureModeRelaxed)
        return cudaSuccess;
    (void)pthread_mutex_lock(&rt_captures_lock);
    for (struct rt_capture *capture = rt_captures; capture != NULL; capture = capture->next) {
        bool is_own = pthread_equal(capture->thread, pthread_self()) != 0;
        if ((is_own && capture->mode != cudaStreamCaptureModeRelaxed) ||
            (thread_mode == cudaStreamCaptureModeGlobal && capture->mode == cudaStreamCaptureModeGlobal))
            error = rt_spoil_capture(capture, cudaErrorStreamCaptureUnsupported, "an unsafe call during a capture");
    }
    (void)pthread_mutex_unlock(&rt_captures_lock);
    return error;
}

cudaError_t rt_check_synchronize(struct rt_device *device)
{
    cudaError_t error = cudaSuccess;
    if (atomic_load_explicit(&rt_num_special, memory_order_acquire) == 0)
        return cudaSuccess;
    (void)pthread_mutex_lock(&rt_captures_lock);
    for (struct rt_capture *capture = rt_captures; capture != NULL; capture = capture->next)
        if (capture->origin->device == device)
            error = rt_spoil_capture(capture, cudaErrorStreamCaptureUnsupported,
                                     "the device is waited for during a capture");
    (void)pthread_mutex_unlock(&rt_captures_lock);
    return error;
}

bool rt_is_captured_event(cudaEvent_t event)
{
    return event->capture != 0;
}

void rt_forget_captures(cudaEvent_t event)
{
    clear_tail(&event->tail);
}

/* ---- the calling thread's mode ------------------------------------------------------------ */

RT_API cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    if (mode == NULL || (unsigned)*mode > cudaStreamCaptureModeRelaxed)
        return rt_return(cudaErrorInvalidValue);
    enum cudaStreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return rt_return(cudaSuccess);
}
