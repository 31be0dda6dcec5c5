/* Streams, and the order that the legacy default stream has with the others.
 *
 * A stream of the device is a number; the legacy default stream is 0. If a program has more streams than the device,
 * some share a number: that is an order that CUDA allows. Work in the legacy stream begins when all earlier work in
 * blocking streams has ended, and holds back what is sent to them later. While a program uses only one of both, that
 * costs nothing; else an event and a wait for each turn from one to the other. */
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

#define STREAM_MAGIC UINT64_C(0x4d41455254534756)

enum { LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5 };

static _Atomic unsigned long long next_id = 2; /* 1 is the legacy stream's */

/* ---- numbers of the device's streams ---------------------------------------------------------- */

/* With the device's mutex. Numbers are kept: giving one back to libvgc would wait until the stream is done. */
static uint32_t take_number(struct rt_device *device)
{
    uint32_t number;
    if (vgc_stream_create(atomic_load(&device->device), &number) != VGC_OK) {
        number = RT_MIN(1u, device->info.max_streams - 1);
        for (uint32_t i = 1; i < RT_MIN(device->info.max_streams, (uint32_t)RT_MAX_STREAMS); i++)
            if (device->users[i] < device->users[number])
                number = i;
    }
    device->users[number]++;
    return number;
}

/* ---- creating ------------------------------------------------------------------------------- */

/* With the device's mutex. */
static struct CUstream_st *create(struct rt_device *device, unsigned flags, int priority)
{
    struct CUstream_st *stream = rt_handle_new(sizeof(*stream));
    if (stream == NULL)
        return NULL;
    *stream = (struct CUstream_st){.magic = STREAM_MAGIC,
                                   .next = device->streams,
                                   .device = device,
                                   .epoch = device->epoch,
                                   .number = take_number(device),
                                   .flags = flags,
                                   .priority = priority,
                                   .id = atomic_fetch_add(&next_id, 1),
                                   .legacy_turn = device->legacy_turn};
    device->streams = stream;
    atomic_fetch_add(&device->num_streams, 1);
    if (atomic_load(&device->legacy_state.work) > 0) { /* the new stream is behind what the legacy one was given */
        stream->legacy_turn--;
        device->legacy_recorded = false;
    }
    return stream;
}

static cudaError_t record(struct rt_device *device, struct vgc_event **event, uint32_t number)
{
    int result = *event != NULL ? VGC_OK : vgc_event_create(atomic_load(&device->device), event);
    return rt_error(result == VGC_OK ? vgc_event_record(*event, number) : result);
}

void rt_close_stream(struct CUstream_st *stream)
{
    struct rt_device *device = stream->device;
    if (stream->epoch != device->epoch)
        return; /* rt_streams_forget() was here */
    (void)pthread_mutex_lock(&device->mutex);
    if (stream->dirty && (stream->flags & cudaStreamNonBlocking) == 0 && /* the legacy stream waits for it, still */
        record(device, &stream->event, stream->number) == cudaSuccess)
        (void)vgc_stream_wait_event(stream->event, 0);
    for (struct CUstream_st **at = &device->streams; *at != NULL; at = &(*at)->next) {
        if (*at == stream) {
            *at = stream->next;
            break;
        }
    }
    device->users[stream->number]--;
    atomic_fetch_sub(&device->num_streams, 1);
    (void)pthread_mutex_unlock(&device->mutex);
    (void)vgc_event_destroy(stream->event);
    (void)vgc_event_destroy(stream->state.event);
    rt_handle_free(stream, sizeof(*stream));
}

static void destroy(struct CUstream_st *stream)
{
    rt_end_captures_of(stream);
    if (!rt_close_later(stream))
        rt_close_stream(stream);
}

static pthread_key_t per_thread_key;
static pthread_once_t per_thread_once = PTHREAD_ONCE_INIT;
_Thread_local bool rt_default_is_per_thread;

/* At a thread's end. */
static void end_per_thread(void *streams)
{
    struct CUstream_st **own = streams;
    for (int i = 0; i < RT_MAX_DEVICES && !rt_is_forked; i++)
        if (own[i] != NULL && own[i]->epoch == own[i]->device->epoch && rt_handle_end(&own[i]->magic))
            destroy(own[i]);
    free(streams);
}

static void make_per_thread_key(void)
{
    (void)pthread_key_create(&per_thread_key, end_per_thread);
}

/* The calling thread's own default stream. */
static struct CUstream_st *per_thread(struct rt_device *device)
{
    static _Thread_local struct CUstream_st **own;
    if (own != NULL && own[device->ordinal] != NULL && own[device->ordinal]->epoch == device->epoch)
        return own[device->ordinal];
    (void)pthread_once(&per_thread_once, make_per_thread_key);
    if (own == NULL) {
        own = calloc(RT_MAX_DEVICES, sizeof(*own));
        if (own == NULL || pthread_setspecific(per_thread_key, own) != 0)
            return NULL;
    }
    (void)pthread_mutex_lock(&device->mutex);
    own[device->ordinal] = create(device, cudaStreamDefault, 0);
    (void)pthread_mutex_unlock(&device->mutex);
    return own[device->ordinal];
}

cudaError_t rt_check_stream(struct rt_device *device, cudaStream_t stream, struct CUstream_st **checked)
{
    *checked = NULL;
    if (stream == cudaStreamLegacy || (stream == NULL && !rt_default_is_per_thread))
        return cudaSuccess;
    *checked = stream == NULL || stream == cudaStreamPerThread ? per_thread(device) : stream;
    if (*checked == NULL)
        return cudaErrorMemoryAllocation;
    if ((uintptr_t)*checked < 4096 || (*checked)->magic != STREAM_MAGIC ||
        (*checked)->epoch != (*checked)->device->epoch)
        return rt_explain(cudaErrorInvalidResourceHandle, "%p is not a stream", (void *)stream);
    if ((*checked)->device != device)
        return rt_explain(cudaErrorInvalidResourceHandle, "a stream of device %d is used with device %d",
                          (*checked)->device->ordinal, device->ordinal);
    return cudaSuccess;
}

/* ---- the legacy default stream's order -------------------------------------------------------- */

/* Work in stream 0 waits for blocking streams. */
cudaError_t rt_enter_legacy(struct rt_device *device)
{
    cudaError_t error = cudaSuccess;
    if (atomic_load_explicit(&device->num_streams, memory_order_acquire) == 0)
        return cudaSuccess;
    (void)pthread_mutex_lock(&device->mutex);
    for (struct CUstream_st *stream = device->streams; stream != NULL && error == cudaSuccess; stream = stream->next) {
        if (!stream->dirty || (stream->flags & cudaStreamNonBlocking) != 0)
            continue;
        error = record(device, &stream->event, stream->number);
        if (error == cudaSuccess)
            error = rt_error(vgc_stream_wait_event(stream->event, 0));
        stream->dirty = false;
    }
    device->legacy_turn++;
    device->legacy_recorded = false;
    (void)pthread_mutex_unlock(&device->mutex);
    return error;
}

/* Work in a blocking stream waits for stream 0. */
static cudaError_t enter_blocking(struct rt_device *device, struct CUstream_st *stream)
{
    cudaError_t error = cudaSuccess;
    if (stream->legacy_turn == device->legacy_turn && stream->dirty)
        return cudaSuccess;
    (void)pthread_mutex_lock(&device->mutex);
    if (stream->legacy_turn != device->legacy_turn) {
        if (!device->legacy_recorded)
            error = record(device, &device->legacy_event, 0);
        device->legacy_recorded = true;
        if (error == cudaSuccess)
            error = rt_error(vgc_stream_wait_event(device->legacy_event, stream->number));
        stream->legacy_turn = device->legacy_turn;
    }
    stream->dirty = true;
    (void)pthread_mutex_unlock(&device->mutex);
    return error;
}

cudaError_t rt_enter(struct rt_device *device, struct CUstream_st *stream, uint32_t *number)
{
    struct rt_state *state = stream == NULL ? &device->legacy_state : &stream->state;
    uint64_t stamp = atomic_fetch_add_explicit(&device->stamp, 1, memory_order_relaxed) + 1;
    atomic_store_explicit(&state->work, stamp, memory_order_relaxed);
    *number = stream == NULL ? 0 : stream->number;
    if (stream == NULL)
        return rt_enter_legacy(device);
    return (stream->flags & cudaStreamNonBlocking) != 0 ? cudaSuccess : enter_blocking(device, stream);
}

void rt_leave(struct rt_device *device, struct CUstream_st *stream)
{
    if (stream != NULL) {
        if (!atomic_load_explicit(&stream->dirty, memory_order_relaxed))
            atomic_store(&stream->dirty, true);
    } else if (atomic_load_explicit(&device->num_streams, memory_order_acquire) > 0) {
        (void)pthread_mutex_lock(&device->mutex);
        device->legacy_turn++;
        device->legacy_recorded = false;
        (void)pthread_mutex_unlock(&device->mutex);
    }
}

cudaError_t rt_enter_stream(struct rt_device *device, cudaStream_t stream, uint32_t *number)
{
    struct CUstream_st *checked;
    cudaError_t error = rt_check_stream(device, stream, &checked);
    if (error == cudaSuccess) /* what comes here cannot be described as an operation: no graph can hold it */
        error = rt_check_capture(checked);
    if (error == cudaSuccess && atomic_load_explicit(&rt_num_special, memory_order_acquire) > 0)
        rt_drain_stream(device, checked);
    return error == cudaSuccess ? rt_enter(device, checked, number) : error;
}

void rt_streams_forget(struct rt_device *device)
{
    (void)pthread_mutex_lock(&device->mutex);
    for (struct CUstream_st *stream = device->streams; stream != NULL; stream = stream->next) {
        (void)vgc_event_destroy(stream->event);
        (void)vgc_event_destroy(stream->state.event);
        stream->event = NULL;
        stream->state.event = NULL;
    }
    (void)vgc_event_destroy(device->legacy_state.event);
    device->legacy_state.event = NULL;
    atomic_store(&device->num_streams, 0);
    device->streams = NULL; /* their memory stays: the program may still hold them */
    (void)vgc_event_destroy(device->legacy_event);
    device->legacy_event = NULL;
    device->legacy_turn = 0;
    device->legacy_recorded = false;
    memset(device->users, 0, sizeof(device->users));
    (void)pthread_mutex_unlock(&device->mutex);
}

void rt_streams_renew(struct rt_device *device)
{
    (void)pthread_mutex_lock(&device->mutex);
    struct vgc_event **own[] = {&device->legacy_event, &device->legacy_state.event};
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        (void)vgc_event_destroy(*own[i]);
        *own[i] = NULL;
    }
    device->legacy_recorded = false;
    memset(device->users, 0, sizeof(device->users));
    for (struct CUstream_st *stream = device->streams; stream != NULL; stream = stream->next) {
        (void)vgc_event_destroy(stream->event);
        (void)vgc_event_destroy(stream->state.event);
        stream->event = stream->state.event = NULL;
        stream->dirty = false;
        stream->legacy_turn = device->legacy_turn;
        stream->number = take_number(device);
    }
    atomic_store(&device->done, atomic_load(&device->stamp));
    (void)pthread_mutex_unlock(&device->mutex);
}

void rt_note_done(struct rt_device *device, struct CUstream_st *stream, uint64_t stamp)
{
    struct rt_state *state = stream == NULL ? &device->legacy_state : &stream->state;
    (void)pthread_mutex_lock(&device->mutex);
    state->done = RT_MAX(state->done, stamp);
    (void)pthread_mutex_unlock(&device->mutex);
}

int rt_clamp_priority(int priority)
{
    return RT_MAX(GREATEST_PRIORITY, RT_MIN(priority, LEAST_PRIORITY));
}

/* ---- the API -------------------------------------------------------------------------------- */

RT_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
    struct rt_device *device;
    if (stream == NULL || (flags & ~(unsigned)cudaStreamNonBlocking) != 0)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = rt_current(&device);
    if (error != cudaSuccess)
        return rt_return(error);
    priority = rt_clamp_priority(priority);
    (void)pthread_mutex_lock(&device->mutex);
    *stream = create(device, flags, priority);
    (void)pthread_mutex_unlock(&device->mutex);
    return rt_return(*stream != NULL ? cudaSuccess : cudaErrorMemoryAllocation);
}

RT_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    return cudaStreamCreateWithPriority(stream, flags, LEAST_PRIORITY);
}

RT_API cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, LEAST_PRIORITY);
}

RT_API cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    struct CUstream_st *checked;
    if (rt_is_forked)
        return rt_return(cudaErrorInitializationError);
    if (stream == NULL || stream == cudaStreamLegacy || stream == cudaStreamPerThread)
        return rt_return(cudaErrorInvalidResourceHandle);
    struct rt_device *device = rt_device_at(rt_ordinal());
    cudaError_t error = rt_check_stream((uintptr_t)stream >= 4096 ? stream->device : device, stream, &checked);
    if (error == cudaSuccess && !rt_handle_end(&checked->magic))
        error = cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess)
        destroy(checked);
    return rt_return(error);
}

RT_API cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    struct rt_device *device;
    struct CUstream_st *checked;
    uint32_t number;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess)
        error = rt_check_stream(device, stream, &checked);
    if (error == cudaSuccess)
        error = rt_check_capture(checked);
    if (error != cudaSuccess)
        return rt_return(error);
    rt_drain_stream(device, checked);
    uint32_t contexts = device->contexts;
    uint64_t stamp = atomic_load(&device->stamp);
    uint64_t mark = rt_mark();
    number = checked == NULL ? 0 : checked->number;
    if (checked == NULL)
        error = rt_enter_legacy(device); /* the legacy stream's end is that of all blocking ones */
    if (error == cudaSuccess)
        error = rt_error(vgc_stream_synchronize(atomic_load(&device->device), number));
    if (error == cudaSuccess)
        rt_note_done(device, checked, stamp);
    cudaError_t earlier = rt_settle(device);
    rt_print(device);
    rt_pools_settle(device, (int)number, mark);
    rt_mirrors_settle(device);
    rt_managed_settle(device, (int)number, mark);
    error = earlier != cudaSuccess ? earlier : rt_fault(device, error);
    return rt_return(error == cudaErrorDevicesUnavailable && rt_go_on(device, contexts) ? cudaSuccess : error);
}

RT_API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    struct rt_device *device;
    cudaError_t error = rt_current(&device);
    if (least != NULL)
        *least = LEAST_PRIORITY;
    if (greatest != NULL)
        *greatest = GREATEST_PRIORITY;
    return rt_return(error);
}
