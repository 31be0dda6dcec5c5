/* Functions of the host in streams, and the work behind them.
 *
 * A stream whose turn is a function of the host holds back what follows: it is put off, in a queue of the stream, and
 * issued by the queue's thread when the function has returned. Other streams hold work back likewise when it must
 * follow work that is put off: because of an event, or of the order of the legacy default stream. While nothing is put
 * off anywhere, all this costs one look at rt_num_special. */
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

struct item {
    struct item *next;
    struct rt_operation *operation; /* NULL: a gate, or the stream's end */
    struct rt_queue *gate;          /* a gate: opens when `gate` is done with `ticket` */
    uint64_t ticket;                /* of the gate, or of the event of the operation */
};

/* Queue of a stream; never freed, but used again when the stream is gone: gates of others may point to it. */
struct rt_queue {
    struct rt_queue *next_free;
    struct rt_device *device;
    struct CUstream_st *stream; /* NULL: the legacy one */
    struct item *first;
    struct item **last;
    uint64_t taken; /* items ever put in */
    uint64_t done;
    struct vgc_event *event; /* for the thread to wait for work before a function */
    uint32_t contexts;       /* of `event` */
};

/* Guard of all queues, and of the counts of recordings in events. Before it nothing is taken but a device's `mutex`. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct rt_queue *free_queues;

_Atomic uint32_t rt_num_special;
_Thread_local bool rt_is_called_back;

static bool is_busy(const struct rt_queue *queue)
{
    return queue != NULL && queue->done != queue->taken;
}

static struct rt_queue **queue_of(struct rt_device *device, struct CUstream_st *stream)
{
    return stream == NULL ? &device->legacy_queue : &stream->queue;
}

/* ---- the thread of a queue ------------------------------------------------------------------ */

static cudaError_t wait_for_work(struct rt_queue *queue)
{
    struct rt_device *device = queue->device;
    uint32_t number;
    cudaError_t error = rt_enter(device, queue->stream, &number);
    int result = VGC_OK;
    if (queue->event == NULL || queue->contexts != device->contexts) {
        result = vgc_event_create(atomic_load(&device->device), &queue->event);
        queue->contexts = device->contexts;
    }
    if (error == cudaSuccess && result == VGC_OK)
        result = vgc_event_record(queue->event, number);
    if (error == cudaSuccess && result == VGC_OK)
        result = vgc_event_synchronize(queue->event);
    if (error == cudaSuccess)
        error = rt_error(result);
    cudaError_t earlier = rt_settle(device);
    return earlier != cudaSuccess ? earlier : rt_fault(device, error);
}

static cudaError_t wait_before_function(struct rt_queue *queue)
{
    uint32_t contexts = queue->device->contexts;
    cudaError_t error = wait_for_work(queue);
    if (error == cudaErrorDevicesUnavailable && rt_go_on(queue->device, contexts))
        error = wait_for_work(queue);
    if (error != cudaSuccess) /* for the program's next synchronisation, too */
        atomic_store(&queue->device->late, error);
    return error;
}

static void call_function(struct rt_queue *queue, const struct rt_host_function *host)
{
    cudaError_t error = wait_before_function(queue);
    rt_is_called_back = true;
    if (host->callback != NULL)
        host->callback(host->stream, error, host->data);
    else if (error == cudaSuccess)
        host->function(host->data);
    rt_is_called_back = false;
}

static void run(struct rt_queue *queue, const struct rt_operation *operation)
{
    if (operation->kind == RT_HOST_FUNCTION) {
        call_function(queue, &operation->host);
        return;
    }
    cudaError_t error = operation->kind == RT_TASK ? operation->task.run(queue->stream, operation->task.data)
                                                   : rt_issue_now(queue->device, queue->stream, operation);
    if (error != cudaSuccess)
        atomic_store(&queue->device->late, error);
}

static bool uses_event(const struct rt_operation *operation)
{
    return operation->kind == RT_EVENT_RECORD || operation->kind == RT_EVENT_WAIT;
}

/* With the lock. */
static bool is_ready(const struct item *item)
{
    if (item->gate != NULL)
        return item->gate->done >= item->ticket;
    if (item->operation != NULL && item->operation->kind == RT_EVENT_WAIT)
        return item->operation->event.event->issued >= item->ticket;
    return true;
}

/* With the lock. */
static void finish(struct rt_queue *queue, struct item *item)
{
    queue->first = item->next;
    if (queue->first == NULL)
        queue->last = &queue->first;
    if (item->operation != NULL && item->operation->kind == RT_EVENT_RECORD)
        item->operation->event.event->issued = RT_MAX(item->operation->event.event->issued, item->ticket);
    queue->done++;
    if (!is_busy(queue))
        atomic_fetch_sub(&rt_num_special, 1);
    (void)pthread_cond_broadcast(&changed);
}

static void end_item(struct rt_queue *queue, struct item *item)
{
    bool is_end = item->operation == NULL && item->gate == NULL;
    struct CUstream_st *stream = queue->stream;
    if (is_end)
        rt_close_stream(stream);
    (void)pthread_mutex_lock(&lock);
    finish(queue, item);
    if (is_end) {
        queue->stream = NULL;
        queue->next_free = free_queues;
        free_queues = queue;
    }
    (void)pthread_mutex_unlock(&lock);
    if (item->operation != NULL && uses_event(item->operation))
        rt_drop_event(item->operation->event.event);
    if (item->operation != NULL && item->operation->kind == RT_GRAPH)
        rt_drop_sent(item->operation->graph);
    free(item->operation);
    free(item);
}

static void *serve(void *argument)
{
    struct rt_queue *queue = argument;
    for (;;) {
        (void)pthread_mutex_lock(&lock);
        while (queue->first == NULL || !is_ready(queue->first))
            (void)pthread_cond_wait(&changed, &lock);
        struct item *item = queue->first;
        (void)pthread_mutex_unlock(&lock);
        if (item->operation != NULL)
            run(queue, item->operation);
        end_item(queue, item);
    }
    return NULL;
}

/* With the lock. */
static struct rt_queue *make_queue(struct rt_device *device, struct CUstream_st *stream)
{
    struct rt_queue **own = queue_of(device, stream);
    pthread_t thread;
    pthread_attr_t attributes;
    if (*own != NULL)
        return *own;
    struct rt_queue *queue = free_queues;
    if (queue != NULL) {
        free_queues = queue->next_free;
    } else {
        queue = calloc(1, sizeof(*queue));
        (void)pthread_attr_init(&attributes);
        (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        if (queue != NULL)
            queue->last = &queue->first;
        if (queue == NULL || pthread_create(&thread, &attributes, serve, queue) != 0) {
            free(queue);
            queue = NULL;
        }
        (void)pthread_attr_destroy(&attributes);
    }
    if (queue != NULL && queue->device != device)
        queue->contexts = device->contexts - 1; /* its event is another device's */
    if (queue != NULL) {
        queue->device = device;
        queue->stream = stream;
    }
    *own = queue;
    return queue;
}

/* ---- putting off ---------------------------------------------------------------------------- */

/* With the lock. */
static bool append(struct rt_queue *queue, struct rt_operation *operation, struct rt_queue *gate, uint64_t ticket)
{
    struct item *item = malloc(sizeof(*item));
    if (item == NULL)
        return false;
    *item = (struct item){NULL, operation, gate, ticket};
    if (!is_busy(queue))
        atomic_fetch_add(&rt_num_special, 1);
    *queue->last = item;
    queue->last = &item->next;
    queue->taken++;
    return true;
}

/* With the lock: calls `visit` for each queue that work in the stream must follow because of the legacy default
 * stream's order, until it returns true. */
static bool any_before(struct rt_device *device, struct CUstream_st *stream,
                       bool (*visit)(struct rt_queue *own, struct rt_queue *other), struct rt_queue *own)
{
    bool found = false;
    if (stream != NULL)
        return (stream->flags & cudaStreamNonBlocking) == 0 && is_busy(device->legacy_queue) &&
               visit(own, device->legacy_queue);
    (void)pthread_mutex_lock(&device->mutex);
    for (struct CUstream_st *at = device->streams; at != NULL && !found; at = at->next)
        found = (at->flags & cudaStreamNonBlocking) == 0 && is_busy(at->queue) && visit(own, at->queue);
    (void)pthread_mutex_unlock(&device->mutex);
    return found;
}

static bool is_one(struct rt_queue *own, struct rt_queue *other)
{
    (void)own, (void)other;
    return true;
}

/* True: no memory. */
static bool add_gate(struct rt_queue *own, struct rt_queue *other)
{
    return !append(own, NULL, other, other->taken);
}

/* With the lock. */
static bool must_wait(struct rt_device *device, struct CUstream_st *stream, const struct rt_operation *operation)
{
    if (is_busy(*queue_of(device, stream)) || any_before(device, stream, is_one, NULL))
        return true;
    return operation != NULL && operation->kind == RT_EVENT_WAIT &&
           operation->event.event->issued != operation->event.event->wanted;
}

/* With the lock. */
static cudaError_t put_off(struct rt_device *device, struct CUstream_st *stream, const struct rt_operation *operation)
{
    uint64_t ticket = 0;
    struct rt_queue *queue = make_queue(device, stream);
    struct rt_operation *kept = queue != NULL ? rt_keep(operation) : NULL;
    if (kept == NULL)
        return cudaErrorMemoryAllocation;
    if (operation->kind == RT_GRAPH)
        rt_hold_sent(operation->graph);
    if (uses_event(operation)) {
        rt_hold_event(operation->event.event);
        ticket = operation->event.event->wanted += operation->kind == RT_EVENT_RECORD;
    }
    if (any_before(device, stream, add_gate, queue) || !append(queue, kept, NULL, ticket)) {
        free(kept);
        return cudaErrorMemoryAllocation;
    }
    (void)pthread_cond_broadcast(&changed);
    return cudaSuccess;
}

static bool is_pageable(const void *pointer)
{
    struct rt_range range;
    return !rt_find_range(pointer, &range);
}

/* Must the caller wait its turn? It may use such memory again as soon as the call returns. */
static bool is_immediate(const struct rt_operation *operation)
{
    if (operation->waits)
        return true;
    if (operation->kind == RT_COPY_3D)
        return (operation->copy_3d->srcArray == NULL && is_pageable(operation->copy_3d->srcPtr.ptr)) ||
               (operation->copy_3d->dstArray == NULL && is_pageable(operation->copy_3d->dstPtr.ptr));
    if (operation->kind != RT_COPY || operation->copy.kind == cudaMemcpyDeviceToDevice)
        return false;
    return (operation->copy.kind != cudaMemcpyHostToDevice && is_pageable(operation->copy.dst)) ||
           (operation->copy.kind != cudaMemcpyDeviceToHost && is_pageable(operation->copy.src));
}

cudaError_t rt_issue_in_order(struct rt_device *device, struct CUstream_st *stream,
                              const struct rt_operation *operation)
{
    (void)pthread_mutex_lock(&lock);
    if (is_immediate(operation)) {
        while (must_wait(device, stream, operation))
            rt_wait(&changed, &lock);
    } else if (operation->kind == RT_HOST_FUNCTION || operation->kind == RT_TASK ||
               must_wait(device, stream, operation)) {
        cudaError_t error = put_off(device, stream, operation);
        (void)pthread_mutex_unlock(&lock);
        return error;
    }
    (void)pthread_mutex_unlock(&lock);
    return rt_issue_now(device, stream, operation);
}

/* ---- waiting for what is put off --------------------------------------------------------------- */

bool rt_is_put_off(struct rt_device *device, struct CUstream_st *stream)
{
    if (atomic_load_explicit(&rt_num_special, memory_order_acquire) == 0)
        return false;
    (void)pthread_mutex_lock(&lock);
    bool put_off_here = must_wait(device, stream, NULL);
    (void)pthread_mutex_unlock(&lock);
    return put_off_here;
}

static void wait_for(const struct rt_queue *queue)
{
    uint64_t ticket = queue != NULL ? queue->taken : 0;
    while (queue != NULL && queue->done < ticket)
        rt_wait(&changed, &lock);
}

void rt_drain_stream(struct rt_device *device, struct CUstream_st *stream)
{
    if (atomic_load_explicit(&rt_num_special, memory_order_acquire) == 0)
        return;
    (void)pthread_mutex_lock(&lock);
    wait_for(*queue_of(device, stream));
    while (stream == NULL && any_before(device, stream, is_one, NULL))
        rt_wait(&changed, &lock);
    (void)pthread_mutex_unlock(&lock);
}

static struct rt_queue *busy_queue(struct rt_device *device)
{
    struct rt_queue *busy = is_busy(device->legacy_queue) ? device->legacy_queue : NULL;
    (void)pthread_mutex_lock(&device->mutex);
    for (struct CUstream_st *at = device->streams; at != NULL && busy == NULL; at = at->next)
        busy = is_busy(at->queue) ? at->queue : NULL;
    (void)pthread_mutex_unlock(&device->mutex);
    return busy;
}

void rt_drain_device(struct rt_device *device)
{
    if (atomic_load_explicit(&rt_num_special, memory_order_acquire) == 0)
        return;
    (void)pthread_mutex_lock(&lock);
    for (const struct rt_queue *busy = busy_queue(device); busy != NULL; busy = busy_queue(device))
        wait_for(busy);
    (void)pthread_mutex_unlock(&lock);
}

bool rt_close_later(struct CUstream_st *stream)
{
    (void)pthread_mutex_lock(&lock);
    bool is_later = is_busy(stream->queue) && append(stream->queue, NULL, NULL, 0);
    if (!is_later && stream->queue != NULL) {
        stream->queue->next_free = free_queues;
        free_queues = stream->queue;
        stream->queue = NULL;
    }
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
    return is_later;
}

bool rt_event_is_put_off(cudaEvent_t event)
{
    if (atomic_load_explicit(&rt_num_special, memory_order_acquire) == 0)
        return false;
    (void)pthread_mutex_lock(&lock);
    bool is_pending = event->issued < event->wanted;
    (void)pthread_mutex_unlock(&lock);
    return is_pending;
}

void rt_drain_event(cudaEvent_t event)
{
    if (atomic_load_explicit(&rt_num_special, memory_order_acquire) == 0)
        return;
    (void)pthread_mutex_lock(&lock);
    uint64_t ticket = event->wanted;
    while (event->issued < ticket)
        rt_wait(&changed, &lock);
    (void)pthread_mutex_unlock(&lock);
}
