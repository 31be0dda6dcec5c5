/* The one way that work takes into a stream. */
#include "runtime.h"

static cudaError_t issue(struct rt_device *device, const struct rt_operation *operation, uint32_t number)
{
    const struct rt_copy *copy = &operation->copy;
    switch (operation->kind) {
    case RT_LAUNCH:
        return rt_issue_launch(device, &operation->launch, number);
    case RT_COPY:
        return rt_copy(device, copy->dst, copy->src, copy->size, copy->kind, number, !operation->waits);
    case RT_COPY_3D:
        return rt_issue_copy_3d(device, operation->copy_3d, number, !operation->waits);
    case RT_FILL:
        return rt_fill(device, &operation->fill, number);
    case RT_EVENT_RECORD:
        return rt_issue_event_record(operation->event.event, number);
    case RT_EVENT_WAIT:
        return rt_issue_event_wait(operation->event.event, number);
    case RT_TASK:
    case RT_HOST_FUNCTION: /* never issued: deferred.c calls it */
        return cudaErrorUnknown;
    case RT_CALL:
        return operation->call.call(device, operation->call.data, number);
    case RT_GRAPH:
        return rt_fault(device, rt_error(vgc_graph_launch(operation->graph->graph, number, VGC_DETACHED)));
    }
    return cudaErrorUnknown;
}

/* Work may use memory that the host has, too: what it can reach must be on the device, and not come back before the
 * work is sent. rt_copy() enters by itself. */
static cudaError_t enter_memory(struct rt_device *device, const struct rt_operation *operation, uint32_t number)
{
    const struct rt_fill *fill = &operation->fill;
    if (operation->kind == RT_FILL && fill->height <= 1 && fill->depth <= 1)
        return rt_managed_enter_span(device, fill->dst, fill->width, true, number);
    return rt_managed_enter(device, number);
}

static bool may_use_memory(const struct rt_operation *operation)
{
    return operation->kind != RT_EVENT_RECORD && operation->kind != RT_EVENT_WAIT &&
           operation->kind != RT_HOST_FUNCTION && operation->kind != RT_TASK;
}

cudaError_t rt_issue(struct rt_device *device, const struct rt_operation *operation, uint32_t number)
{
    if (!may_use_memory(operation))
        return issue(device, operation, number);
    cudaError_t error = rt_mirrors_enter(device, number);
    if (operation->kind == RT_COPY)
        return error == cudaSuccess ? issue(device, operation, number) : error;
    cudaError_t entered = enter_memory(device, operation, number);
    error = error != cudaSuccess ? error : entered;
    if (error == cudaSuccess)
        error = issue(device, operation, number);
    rt_managed_leave();
    return error;
}

static cudaError_t issue_once(struct rt_device *device, struct CUstream_st *stream,
                              const struct rt_operation *operation)
{
    uint32_t number;
    cudaError_t error = rt_enter(device, stream, &number);
    if (error != cudaSuccess)
        return error;
    uint64_t stamp = atomic_load_explicit(&device->stamp, memory_order_relaxed);
    error = rt_issue(device, operation, number);
    rt_leave(device, stream);
    if (error == cudaSuccess && operation->waits)
        rt_note_done(device, stream, stamp);
    return error;
}

cudaError_t rt_issue_now(struct rt_device *device, struct CUstream_st *stream, const struct rt_operation *operation)
{
    uint32_t contexts = device->contexts;
    cudaError_t error = issue_once(device, stream, operation);
    if (error != cudaErrorDevicesUnavailable || !rt_go_on(device, contexts))
        return error;
    struct rt_operation again = *operation;
    error = cudaSuccess;
    if (again.kind == RT_LAUNCH) {
        error = rt_load_function(device, again.launch.function, &again.launch.loaded);
        if (error == cudaSuccess)
            error = rt_check_spare(&again.launch);
    }
    return error == cudaSuccess ? issue_once(device, stream, &again) : error;
}

/* Captures, and work that is put off. */
static cudaError_t submit_special(struct rt_device *device, struct CUstream_st *stream,
                                  const struct rt_operation *operation)
{
    bool is_captured;
    cudaError_t error = rt_capture(device, stream, operation, &is_captured);
    return error != cudaSuccess || is_captured ? error : rt_issue_in_order(device, stream, operation);
}

/* Recorded in a capture that may have ended. */
static bool has_captured_event(const struct rt_operation *operation)
{
    return (operation->kind == RT_EVENT_WAIT || operation->kind == RT_EVENT_RECORD) &&
           rt_is_captured_event(operation->event.event);
}

cudaError_t rt_submit(struct rt_device *device, cudaStream_t stream, const struct rt_operation *operation)
{
    struct CUstream_st *checked;
    cudaError_t error = rt_check_stream(device, stream, &checked);
    if (error != cudaSuccess)
        return error;
    if (atomic_load_explicit(&rt_num_special, memory_order_acquire) > 0 || operation->kind == RT_HOST_FUNCTION ||
        operation->kind == RT_TASK || has_captured_event(operation))
        return submit_special(device, checked, operation);
    return rt_issue_now(device, checked, operation);
}
