/* Events: markers in streams, for synchronisation and times. */
#include <stdlib.h>
#include <time.h>

#include "fake.h"

void fake_marker_unref(struct fake_marker *marker)
{
    if (--marker->refs == 0)
        free(marker);
}

struct record_op {
    struct fake_op op;
    struct fake_marker *marker;
};

static CUresult run_record(struct fake_op *op)
{
    struct fake_marker *marker = ((struct record_op *)op)->marker;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&fake.lock);
    marker->time_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    marker->done = true;
    pthread_cond_broadcast(&fake.progress);
    pthread_mutex_unlock(&fake.lock);
    return CUDA_SUCCESS;
}

static void drop_record(struct fake_op *op)
{
    fake_marker_unref(((struct record_op *)op)->marker);
}

/* An event of the current context, whether or not its streams still exist. */
static struct fake_event *event_get(CUevent handle, struct fake_context *context, CUresult *result)
{
    struct fake_event *event = *result ? NULL : fake_handle_get(handle, FAKE_EVENT);
    if (!*result && !event)
        *result = CUDA_ERROR_INVALID_HANDLE;
    if (event && event->context != context) {
        fake_misuse("event %p is of a context that is not current", (void *)handle);
        *result = CUDA_ERROR_INVALID_HANDLE;
    }
    return *result ? NULL : event;
}

FAKE_API CUresult cuEventCreate(CUevent *handle, unsigned int flags)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result && flags > (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        struct fake_event *event = calloc(1, sizeof *event);
        if (!event)
            abort();
        *event = (struct fake_event){.context = call.context, .flags = flags};
        *handle = event->handle = fake_handle_new(FAKE_EVENT, event);
    }
    FAKE_LEAVE("%u -> %p", flags, result ? NULL : (void *)*handle);
}

void fake_event_end(struct fake_event *event)
{
    fake_handle_end(event->handle);
    if (event->marker)
        fake_marker_unref(event->marker);
    free(event);
}

FAKE_API CUresult cuEventDestroy_v2(CUevent handle)
{
    FAKE_CALL(FAKE_CURRENT_STICKY);
    struct fake_event *event = event_get(handle, call.context, &result);
    if (event) {
        fake_event_end(event);
        result = fake_sticky(call.context); /* reports the error and destroys the event nevertheless */
    }
    FAKE_LEAVE("%p", (void *)handle);
}

FAKE_API CUresult cuEventRecord(CUevent handle, CUstream on)
{
    FAKE_CALL(FAKE_CURRENT);
    struct fake_event *event = event_get(handle, call.context, &result);
    struct fake_stream *stream = fake_stream_get(on, call.context, &result);
    if (!result) {
        struct record_op *op = calloc(1, sizeof *op);
        struct fake_marker *marker = calloc(1, sizeof *marker);
        if (!op || !marker)
            abort();
        marker->refs = 2;
        if (event->marker)
            fake_marker_unref(event->marker);
        event->marker = op->marker = marker;
        op->op.run = run_record;
        op->op.drop = drop_record;
        result = fake_submit(stream, &op->op);
    }
    FAKE_LEAVE("%p, %p", (void *)handle, (void *)on);
}

FAKE_API CUresult cuStreamWaitEvent(CUstream by, CUevent handle, unsigned int flags)
{
    FAKE_CALL(FAKE_CURRENT);
    struct fake_event *event = event_get(handle, call.context, &result);
    struct fake_stream *stream = fake_stream_get(by, call.context, &result);
    if (!result && flags > 1)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && event->marker) { /* an event that was never recorded counts as complete */
        struct fake_op *op = calloc(1, sizeof *op);
        if (!op)
            abort();
        op->await = event->marker;
        event->marker->refs++;
        result = fake_submit(stream, op);
    }
    FAKE_LEAVE("%p, %p", (void *)by, (void *)handle);
}

FAKE_API CUresult cuEventQuery(CUevent handle)
{
    FAKE_CALL(FAKE_CURRENT);
    const struct fake_event *event = event_get(handle, call.context, &result);
    if (event && event->marker && !event->marker->done)
        result = CUDA_ERROR_NOT_READY;
    FAKE_LEAVE("%p", (void *)handle);
}

FAKE_API CUresult cuEventSynchronize(CUevent handle)
{
    FAKE_CALL(FAKE_CURRENT);
    const struct fake_event *event = event_get(handle, call.context, &result);
    struct fake_marker *marker = event ? event->marker : NULL;
    if (marker) {
        marker->refs++;
        while (!marker->done && !result) {
            fake_wait();
            result = fake_sticky(call.context);
        }
        fake_marker_unref(marker);
    }
    if (call.context)
        fake_context_report(call.context);
    FAKE_LEAVE("%p", (void *)handle);
}

static CUresult elapsed(struct fake_call *call, float *ms, CUevent from, CUevent to)
{
    CUresult result = CUDA_SUCCESS;
    const struct fake_event *begin = event_get(from, call->context, &result);
    const struct fake_event *end = event_get(to, call->context, &result);
    if (result)
        return result;
    if (!begin->marker || !end->marker || ((begin->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!begin->marker->done || !end->marker->done)
        return CUDA_ERROR_NOT_READY;
    *ms = (float)((double)(int64_t)(end->marker->time_ns - begin->marker->time_ns) / 1e6);
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = elapsed(&call, ms, from, to);
    FAKE_LEAVE("%p, %p", (void *)from, (void *)to);
}

FAKE_API CUresult cuEventElapsedTime_v2(float *ms, CUevent from, CUevent to)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = elapsed(&call, ms, from, to);
    FAKE_LEAVE("%p, %p", (void *)from, (void *)to);
}
