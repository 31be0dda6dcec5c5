/* Events: recorded in streams, waited for, and timed by the device's clock. */
#include <stdlib.h>

#include "runtime.h"

#define EVENT_MAGIC UINT64_C(0x544e455645434756)

cudaError_t rt_check_event(cudaEvent_t event)
{
    if (rt_is_forked)
        return cudaErrorInitializationError;
    if ((uintptr_t)event < 4096 || event->magic != EVENT_MAGIC || event->epoch != event->device->epoch)
        return rt_explain(cudaErrorInvalidResourceHandle, "%p is not an event", (void *)event);
    return rt_sticky(event->device);
}

/* Is there a recording to wait for, as far as this process can know? The device knows for shared events. */
static bool may_be_recorded(cudaEvent_t event)
{
    return event->is_recorded || event->is_shared;
}

/* With the event's mutex. An event of a context that is gone was reached; when is not known any more. */
static int renew(cudaEvent_t event)
{
    if (event->contexts == event->device->contexts)
        return VGC_OK;
    struct vgc_event *made;
    uint32_t contexts = event->device->contexts;
    int result = vgc_event_create(atomic_load(&event->device->device), &made);
    if (result != VGC_OK)
        return result;
    (void)vgc_event_destroy(event->event);
    event->event = made;
    event->is_recorded = false;
    event->contexts = contexts;
    return VGC_OK;
}

cudaError_t rt_event_of(struct rt_device *device, struct vgc_event *event, unsigned flags, cudaEvent_t *made)
{
    struct CUevent_st *handle = rt_handle_new(sizeof(*handle));
    if (handle == NULL)
        return cudaErrorMemoryAllocation;
    handle->contexts = device->contexts;
    handle->event = event;
    handle->magic = EVENT_MAGIC;
    handle->users = 1;
    handle->device = device;
    handle->epoch = device->epoch;
    handle->flags = flags;
    (void)pthread_mutex_init(&handle->mutex, NULL);
    *made = handle;
    return cudaSuccess;
}

RT_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    struct rt_device *device;
    const unsigned known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
    if (event == NULL || (flags & ~known) != 0 ||
        ((flags & cudaEventInterprocess) != 0 && (flags & cudaEventDisableTiming) == 0))
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = rt_current(&device);
    if (error != cudaSuccess)
        return rt_return(error);
    struct vgc_event *made;
    uint32_t contexts = device->contexts;
    error = rt_fault(device, rt_error(vgc_event_create(atomic_load(&device->device), &made)));
    if (error == cudaErrorDevicesUnavailable && rt_go_on(device, contexts))
        error = rt_fault(device, rt_error(vgc_event_create(atomic_load(&device->device), &made)));
    if (error != cudaSuccess)
        return rt_return(error);
    error = rt_event_of(device, made, flags, event);
    if (error != cudaSuccess)
        (void)vgc_event_destroy(made);
    return rt_return(error);
}

RT_API cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

RT_API cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    cudaError_t error = rt_check_event(event);
    if (error == cudaErrorInvalidResourceHandle || rt_is_forked)
        return rt_return(error);
    if (!rt_handle_end(&event->magic))
        return rt_return(cudaErrorInvalidResourceHandle);
    rt_drop_event(event);
    return rt_return(error);
}

void rt_hold_event(cudaEvent_t event)
{
    atomic_fetch_add(&event->users, 1);
}

void rt_drop_event(cudaEvent_t event)
{
    if (atomic_fetch_sub(&event->users, 1) > 1)
        return;
    (void)vgc_event_destroy(event->event);
    rt_forget_captures(event);
    (void)pthread_mutex_destroy(&event->mutex);
    rt_handle_free(event, sizeof(*event));
}

cudaError_t rt_issue_event_record(cudaEvent_t event, uint32_t number)
{
    (void)pthread_mutex_lock(&event->mutex);
    int result = renew(event);
    if (result == VGC_OK)
        result = vgc_event_record(event->event, number);
    event->is_recorded = true;
    (void)pthread_mutex_unlock(&event->mutex);
    return rt_fault(event->device, rt_error(result));
}

cudaError_t rt_issue_event_wait(cudaEvent_t event, uint32_t number)
{
    (void)pthread_mutex_lock(&event->mutex);
    int result = renew(event);
    (void)pthread_mutex_unlock(&event->mutex);
    if (result == VGC_OK && may_be_recorded(event))
        result = vgc_stream_wait_event(event->event, number);
    return rt_error(result);
}

RT_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
    const struct rt_operation operation = {.kind = RT_EVENT_RECORD, .event = {event, flags}};
    cudaError_t error = rt_check_event(event);
    if (error == cudaSuccess && flags > cudaEventRecordExternal)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = rt_submit(event->device, stream, &operation);
    if (error == cudaSuccess && event->is_shared) /* other processes find what the device has */
        rt_drain_event(event);
    return rt_return(error);
}

RT_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

/* The error of work that came before the event, which was asked for in the device's context `contexts`, if that work
 * has ended. */
static cudaError_t settled(cudaEvent_t event, int result, uint32_t contexts)
{
    cudaError_t earlier = rt_settle(event->device);
    rt_print(event->device);
    rt_mirrors_settle(event->device);
    cudaError_t error = earlier != cudaSuccess ? earlier : rt_fault(event->device, rt_error(result));
    return error == cudaErrorDevicesUnavailable && rt_go_on(event->device, contexts) ? cudaSuccess : error;
}

RT_API cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t error = rt_check_event(event);
    if (error == cudaSuccess && rt_is_captured_event(event))
        error = cudaErrorCapturedEvent;
    if (error != cudaSuccess)
        return rt_return(error);
    rt_drain_event(event);
    (void)pthread_mutex_lock(&event->mutex);
    int result = renew(event);
    uint32_t contexts = event->contexts;
    if (result == VGC_OK && may_be_recorded(event))
        result = vgc_event_synchronize(event->event);
    (void)pthread_mutex_unlock(&event->mutex);
    return rt_return(settled(event, result, contexts));
}

static int query(cudaEvent_t event)
{
    if (rt_event_is_put_off(event))
        return VGC_PENDING;
    (void)pthread_mutex_lock(&event->mutex);
    int result = renew(event);
    if (result == VGC_OK && may_be_recorded(event))
        result = vgc_event_query(event->event);
    (void)pthread_mutex_unlock(&event->mutex);
    return result;
}

RT_API cudaError_t cudaEventQuery(cudaEvent_t event)
{
    cudaError_t error = rt_check_event(event);
    if (error == cudaSuccess && rt_is_captured_event(event))
        error = cudaErrorCapturedEvent;
    if (error != cudaSuccess)
        return rt_return(error);
    int result = query(event);
    return rt_return(result == VGC_PENDING ? cudaErrorNotReady : settled(event, result, event->contexts));
}

static bool has_recording(cudaEvent_t event)
{
    return may_be_recorded(event) || rt_event_is_put_off(event);
}

RT_API cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
    int64_t elapsed_ns = 0;
    cudaError_t error = rt_check_event(start);
    if (error == cudaSuccess)
        error = rt_check_event(end);
    if (error == cudaSuccess && milliseconds == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess && (rt_is_captured_event(start) || rt_is_captured_event(end)))
        error = cudaErrorCapturedEvent;
    if (error == cudaSuccess && (start->device != end->device || !has_recording(start) || !has_recording(end) ||
                                 ((start->flags | end->flags) & cudaEventDisableTiming) != 0))
        error = rt_explain(cudaErrorInvalidResourceHandle, "both events must be recorded, with timing, on one device");
    if (error != cudaSuccess)
        return rt_return(error);
    if (query(start) == VGC_PENDING || query(end) == VGC_PENDING)
        return rt_return(cudaErrorNotReady);
    uint32_t contexts = end->contexts;
    int result =
        start->is_recorded && end->is_recorded ? vgc_event_elapsed(start->event, end->event, &elapsed_ns) : VGC_OK;
    error = settled(end, result, contexts);
    bool is_known = start->is_recorded && end->is_recorded && result == VGC_OK;
    if (error == cudaSuccess && !is_known)
        error = rt_explain(cudaErrorInvalidResourceHandle, "an event was recorded before the device was lost");
    *milliseconds = (float)((double)elapsed_ns / 1e6);
    return rt_return(error);
}

RT_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    struct rt_device *device;
    const struct rt_operation operation = {.kind = RT_EVENT_WAIT, .event = {event, flags}};
    cudaError_t error = rt_check_event(event);
    if (error == cudaSuccess && flags > cudaEventWaitExternal)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = rt_current(&device);
    if (error != cudaSuccess)
        return rt_return(error);
    if (device != event->device) /* another device's: nothing there can wait for it, so this thread does */
        return has_recording(event) ? cudaEventSynchronize(event) : rt_return(cudaSuccess);
    return rt_return(rt_submit(device, stream, &operation));
}
