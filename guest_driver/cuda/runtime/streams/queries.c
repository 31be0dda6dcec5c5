/* Questions about streams: whether their work is done, and what they were made with. */
#include <string.h>

#include "runtime.h"

enum { LEGACY_ID = 1, LEGACY_PRIORITY = 0 };

static cudaError_t find(cudaStream_t stream, struct rt_device **device, struct CUstream_st **checked)
{
    *checked = NULL;
    cudaError_t error = rt_current(device);
    return error == cudaSuccess ? rt_check_stream(*device, stream, checked) : error;
}

/* ---- cudaStreamQuery() ---------------------------------------------------------------------- */

/* Stamp of the last operation that the stream's end is behind. With the device's mutex. */
static uint64_t work_of(struct rt_device *device, struct CUstream_st *stream)
{
    if (stream != NULL)
        return atomic_load_explicit(&stream->state.work, memory_order_relaxed);
    uint64_t work = atomic_load_explicit(&device->legacy_state.work, memory_order_relaxed);
    for (struct CUstream_st *at = device->streams; at != NULL; at = at->next) {
        uint64_t other = atomic_load_explicit(&at->state.work, memory_order_relaxed);
        if ((at->flags & cudaStreamNonBlocking) == 0 && other > at->state.done)
            work = RT_MAX(work, other);
    }
    return work;
}

/* With the device's mutex. An event behind the stream's work is recorded by the first question after it, and later ones
 * look at that. */
static int query_event(struct rt_device *device, struct rt_state *state, uint32_t number, uint64_t work)
{
    int result = state->event != NULL ? vgc_event_query(state->event) : VGC_OK;
    if (result != VGC_OK || work <= state->asked)
        return result;
    if (state->event == NULL)
        result = vgc_event_create(atomic_load(&device->device), &state->event);
    if (result == VGC_OK)
        result = vgc_event_record(state->event, number);
    if (result != VGC_OK)
        return result;
    state->asked = work;
    return vgc_event_query(state->event);
}

static cudaError_t query(struct rt_device *device, struct CUstream_st *stream)
{
    struct rt_state *state = stream != NULL ? &stream->state : &device->legacy_state;
    int result = VGC_OK;
    (void)pthread_mutex_lock(&device->mutex);
    uint64_t work = work_of(device, stream);
    if (work > state->done && work > atomic_load(&device->done))
        result = query_event(device, state, stream != NULL ? stream->number : 0, work);
    (void)pthread_mutex_unlock(&device->mutex);
    return rt_error(result);
}

RT_API cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    struct rt_device *device;
    struct CUstream_st *checked;
    cudaError_t error = find(stream, &device, &checked);
    if (error == cudaSuccess)
        error = rt_check_capture(checked);
    if (error == cudaSuccess && rt_is_put_off(device, checked))
        error = cudaErrorNotReady;
    uint32_t contexts = error == cudaSuccess ? device->contexts : 0;
    if (error == cudaSuccess && checked == NULL)
        error = rt_enter_legacy(device);
    if (error == cudaSuccess)
        error = query(device, checked);
    if (error == cudaErrorNotReady)
        return rt_return(error);
    if (error == cudaSuccess)
        error = rt_settle(device);
    rt_print(device);
    error = rt_fault(device, error);
    return rt_return(error == cudaErrorDevicesUnavailable && rt_go_on(device, contexts) ? cudaSuccess : error);
}

/* ---- what a stream is ----------------------------------------------------------------------- */

RT_API cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
    struct rt_device *device;
    struct CUstream_st *checked;
    cudaError_t error = find(stream, &device, &checked);
    if (error == cudaSuccess && priority == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *priority = checked != NULL ? checked->priority : LEGACY_PRIORITY;
    return rt_return(error);
}

RT_API cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags)
{
    struct rt_device *device;
    struct CUstream_st *checked;
    cudaError_t error = find(stream, &device, &checked);
    if (error == cudaSuccess && flags == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *flags = checked != NULL ? checked->flags : cudaStreamDefault;
    return rt_return(error);
}

RT_API cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
    struct rt_device *device;
    struct CUstream_st *checked;
    cudaError_t error = find(stream, &device, &checked);
    if (error == cudaSuccess && id == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *id = checked != NULL ? checked->id : LEGACY_ID;
    return rt_return(error);
}

RT_API cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *ordinal)
{
    struct rt_device *device;
    struct CUstream_st *checked;
    cudaError_t error = find(stream, &device, &checked);
    if (error == cudaSuccess && ordinal == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *ordinal = device->ordinal;
    return rt_return(error);
}

/* ---- attributes: stored, as nothing here is faster with them ------------------------------------ */

RT_API cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaLaunchAttributeID id,
                                          cudaLaunchAttributeValue *value)
{
    struct rt_device *device;
    struct CUstream_st *checked;
    cudaError_t error = find(stream, &device, &checked);
    if (error == cudaSuccess && value == NULL)
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return rt_return(error);
    memset(value, 0, sizeof(*value));
    switch (id) {
    case cudaLaunchAttributeAccessPolicyWindow:
        if (checked != NULL)
            value->accessPolicyWindow = checked->window;
        return rt_return(cudaSuccess);
    case cudaLaunchAttributeSynchronizationPolicy:
        value->syncPolicy = checked != NULL && checked->policy != 0 ? checked->policy : cudaSyncPolicyAuto;
        return rt_return(cudaSuccess);
    case cudaLaunchAttributePriority:
        value->priority = checked != NULL ? checked->priority : LEGACY_PRIORITY;
        return rt_return(cudaSuccess);
    default:
        return rt_return(rt_explain(cudaErrorInvalidValue, "streams have no attribute %d", (int)id));
    }
}

RT_API cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaLaunchAttributeID id,
                                          const cudaLaunchAttributeValue *value)
{
    struct rt_device *device;
    struct CUstream_st *checked;
    cudaError_t error = find(stream, &device, &checked);
    if (error == cudaSuccess && (value == NULL || checked == NULL))
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return rt_return(error);
    switch (id) {
    case cudaLaunchAttributeAccessPolicyWindow:
        if (value->accessPolicyWindow.hitRatio < 0 || value->accessPolicyWindow.hitRatio > 1)
            return rt_return(cudaErrorInvalidValue);
        checked->window = value->accessPolicyWindow;
        return rt_return(cudaSuccess);
    case cudaLaunchAttributeSynchronizationPolicy:
        if (value->syncPolicy < cudaSyncPolicyAuto || value->syncPolicy > cudaSyncPolicyBlockingSync)
            return rt_return(cudaErrorInvalidValue);
        checked->policy = value->syncPolicy;
        return rt_return(cudaSuccess);
    case cudaLaunchAttributePriority:
        checked->priority = rt_clamp_priority(value->priority);
        return rt_return(cudaSuccess);
    default:
        return rt_return(rt_explain(cudaErrorInvalidValue, "streams have no attribute %d", (int)id));
    }
}

RT_API cudaError_t cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from)
{
    struct rt_device *device;
    struct CUstream_st *source;
    struct CUstream_st *target;
    cudaError_t error = find(from, &device, &source);
    if (error == cudaSuccess)
        error = rt_check_stream(device, to, &target);
    if (error == cudaSuccess && (source == NULL || target == NULL))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess) {
        target->window = source->window;
        target->policy = source->policy;
    }
    return rt_return(error);
}
