/* Streams: each has a thread that runs its operations in order. */
#include <stdlib.h>

#include "fake.h"

void fake_wait(void)
{
    pthread_cond_wait(&fake.progress, &fake.lock);
}

static void op_end(struct fake_op *op)
{
    if (op->await)
        fake_marker_unref(op->await);
    if (op->drop)
        op->drop(op);
    free(op);
}

/* Waits until the operation may begin or never will. */
static void await_turn(struct fake_stream *stream, struct fake_op *op)
{
    fake.settings.hardware.behind += !fake_connection_is_first(op);
    while (!fake_sticky(stream->context) &&
           (fake.held || (op->await && !op->await->done) || !fake_connection_is_first(op)))
        fake_wait();
    fake_connection_leave(op);
}

static CUresult run(struct fake_op *op)
{
    op->since = fake.released;
    if (op->computes)
        fake_turn_begin();
    pthread_mutex_unlock(&fake.lock);
    CUresult result = op->run(op);
    pthread_mutex_lock(&fake.lock);
    if (op->computes)
        fake_turn_end();
    return result;
}

static void count_op(struct fake_stream *stream, int step)
{
    struct fake_context *context = stream->context;
    stream->depth += (unsigned int)step;
    context->in_flight += (unsigned int)step;
    if (context->primary != context)
        context->primary->in_flight += (unsigned int)step;
}

/* Runs the first operation, which remains in the queue and counts until it has finished. */
static void run_first(struct fake_stream *stream)
{
    struct fake_op *op = stream->first;
    await_turn(stream, op);
    if (!fake_sticky(stream->context) && op->run) {
        stream->busy = true;
        CUresult result = run(op);
        stream->busy = false;
        if (result)
            fake_poison(stream->context, result);
    }
    stream->first = op->next;
    if (!stream->first)
        stream->last = NULL;
    count_op(stream, -1);
    fake.finished++;
    op_end(op);
    pthread_cond_broadcast(&fake.progress);
}

static void *work(void *argument)
{
    struct fake_stream *stream = argument;
    pthread_mutex_lock(&fake.lock);
    while (stream->first || !stream->closing) {
        if (stream->first)
            run_first(stream);
        else
            pthread_cond_wait(&stream->wake, &fake.lock);
    }
    fake.running--;
    pthread_cond_destroy(&stream->wake);
    stream->context->threads--;
    free(stream);
    pthread_cond_broadcast(&fake.progress);
    pthread_mutex_unlock(&fake.lock);
    return NULL;
}

struct fake_stream *fake_stream_new(struct fake_context *context, unsigned int flags, int priority)
{
    struct fake_stream *stream = calloc(1, sizeof *stream);
    if (!stream || pthread_cond_init(&stream->wake, NULL))
        abort();
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority > 0 ? 0 : priority < FAKE_GREATEST_PRIORITY ? FAKE_GREATEST_PRIORITY : priority;
    fake_connection_assign(stream);
    stream->handle = fake_handle_new(FAKE_STREAM, stream);
    if (pthread_create(&stream->thread, NULL, work, stream))
        abort();
    pthread_detach(stream->thread);
    fake.running++;
    context->threads++;
    return stream;
}

static struct fake_stream *null_stream(struct fake_context *context)
{
    if (!context->null_stream)
        context->null_stream = fake_stream_new(context, CU_STREAM_DEFAULT, 0);
    return context->null_stream;
}

struct fake_stream *fake_stream_get(CUstream handle, struct fake_context *context, CUresult *result)
{
    if (*result)
        return NULL;
    if ((uintptr_t)handle <= 2) /* NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD */
        return null_stream(context);
    struct fake_stream *stream = fake_handle_get(handle, FAKE_STREAM);
    if (stream && stream->detached) {
        fake_misuse("stream %p is of a green context that was destroyed", (void *)handle);
        *result = CUDA_ERROR_STREAM_DETACHED;
        return NULL;
    }
    if (stream && stream->context == context)
        return stream;
    if (stream)
        fake_misuse("stream %p is of a context that is not current", (void *)handle);
    *result = stream ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_HANDLE;
    return NULL;
}

static bool full(const struct fake_stream *stream)
{
    return stream->depth >= (unsigned int)fake.settings.queue_depth && !fake_sticky(stream->context);
}

CUresult fake_submit(struct fake_stream *stream, struct fake_op *op)
{
    fake.blocked += full(stream);
    while (full(stream))
        fake_wait();
    CUresult sticky = fake_sticky(stream->context);
    if (sticky) {
        op_end(op);
        return sticky;
    }
    op->context = stream->context;
    if (stream->last)
        stream->last->next = op;
    else
        stream->first = op;
    stream->last = op;
    count_op(stream, 1);
    fake_connection_join(stream, op);
    fake.submitted++;
    pthread_cond_signal(&stream->wake);
    return CUDA_SUCCESS;
}

CUresult fake_stream_wait(struct fake_stream *stream)
{
    struct fake_context *context = stream->context;
    while (stream->depth && !fake_sticky(context))
        fake_wait();
    return fake_sticky(context);
}

void fake_stream_close(struct fake_stream *stream)
{
    fake_handle_end(stream->handle);
    if (stream->detached) {
        free(stream);
        return;
    }
    stream->closing = true;
    pthread_cond_signal(&stream->wake);
}

static void close_of(void *object, void *context)
{
    struct fake_stream *stream = object;
    if (stream->context == context)
        fake_stream_close(stream);
}

static void detach(void *object, void *context)
{
    struct fake_stream *stream = object;
    if (stream->context != context || stream == stream->context->null_stream)
        return;
    struct fake_stream *rest = calloc(1, sizeof *rest);
    if (!rest)
        abort();
    rest->context = stream->context->primary;
    rest->handle = stream->handle;
    rest->detached = true;
    fake_stream_close(stream);
    fake_handle_replace(rest->handle, rest);
}

void fake_streams_detach(struct fake_context *context)
{
    fake_handle_each(FAKE_STREAM, detach, context);
}

/* Closes the streams of a context and waits for the end of their threads. */
void fake_streams_end(struct fake_context *context)
{
    fake_handle_each(FAKE_STREAM, close_of, context);
    while (context->threads)
        fake_wait();
}

static CUresult create(struct fake_call *call, CUstream *stream, unsigned int flags, int priority)
{
    if (flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    if (call->context->green && flags != CU_STREAM_NON_BLOCKING)
        fake_misuse("streams of a green context are CU_STREAM_NON_BLOCKING");
    *stream = fake_stream_new(call->context, flags, priority)->handle;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = create(&call, stream, flags, 0);
    FAKE_LEAVE("%u -> %p", flags, result ? NULL : (void *)*stream);
}

FAKE_API CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = create(&call, stream, flags, priority);
    FAKE_LEAVE("%u, %d -> %p", flags, priority, result ? NULL : (void *)*stream);
}

FAKE_API CUresult cuStreamGetPriority(CUstream handle, int *priority)
{
    FAKE_CALL(FAKE_CURRENT);
    const struct fake_stream *stream = fake_stream_get(handle, call.context, &result);
    if (stream)
        *priority = stream->priority;
    FAKE_LEAVE("%p", (void *)handle);
}

FAKE_API CUresult cuStreamDestroy_v2(CUstream handle)
{
    FAKE_CALL(FAKE_CURRENT_STICKY);
    struct fake_stream *detached = fake_handle_peek(handle, FAKE_STREAM);
    bool is_detached = !result && detached && detached->detached;
    struct fake_stream *stream = is_detached ? detached : fake_stream_get(handle, call.context, &result);
    if (stream && stream == call.context->null_stream)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result) {
        fake_stream_close(stream);
        result = fake_sticky(call.context); /* reports the error and destroys the stream nevertheless */
    }
    FAKE_LEAVE("%p", (void *)handle);
}

FAKE_API CUresult cuStreamQuery(CUstream handle)
{
    FAKE_CALL(FAKE_CURRENT);
    const struct fake_stream *stream = fake_stream_get(handle, call.context, &result);
    if (stream && stream->depth)
        result = CUDA_ERROR_NOT_READY;
    FAKE_LEAVE("%p", (void *)handle);
}

FAKE_API CUresult cuStreamSynchronize(CUstream handle)
{
    FAKE_CALL(FAKE_CURRENT);
    struct fake_stream *stream = fake_stream_get(handle, call.context, &result);
    if (stream)
        result = fake_stream_wait(stream);
    if (call.context)
        fake_context_report(call.context);
    FAKE_LEAVE("%p", (void *)handle);
}

struct write_op {
    struct fake_op op;
    CUdeviceptr address;
    uint64_t value;
    unsigned int size;
};

static CUresult run_write(struct fake_op *op)
{
    struct write_op *write = (struct write_op *)op;
    struct fake_memory *memory = NULL;
    char *bytes = fake_memory_pin(write->address, write->size, &memory);
    if (!bytes)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (write->size == 4)
        __atomic_store_n((uint32_t *)(void *)bytes, (uint32_t)write->value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint64_t *)(void *)bytes, write->value, __ATOMIC_RELEASE);
    fake_memory_unpin(memory);
    return CUDA_SUCCESS;
}

static CUresult write_value(struct fake_call *call, CUstream handle, CUdeviceptr address, uint64_t value,
                            unsigned int flags, unsigned int size)
{
    CUresult result = CUDA_SUCCESS;
    struct fake_stream *stream = fake_stream_get(handle, call->context, &result);
    if (result)
        return result;
    if (!fake.settings.devices[call->context->device].stream_memops)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (flags || address % size || !fake_memory_usable(call->context, address, size))
        return CUDA_ERROR_INVALID_VALUE;
    struct write_op *op = calloc(1, sizeof *op);
    if (!op)
        abort();
    *op =
        (struct write_op){.op = {.run = run_write, .computes = true}, .address = address, .value = value, .size = size};
    return fake_submit(stream, &op->op);
}

FAKE_API CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = write_value(&call, stream, address, value, flags, 4);
    FAKE_LEAVE("%p, %#llx, %u, %u", (void *)stream, address, value, flags);
}

FAKE_API CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = write_value(&call, stream, address, value, flags, 8);
    FAKE_LEAVE("%p, %#llx, %llu, %u", (void *)stream, address, (unsigned long long)value, flags);
}
