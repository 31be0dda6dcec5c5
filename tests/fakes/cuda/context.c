/* Contexts: the primary one of each device, and which one is current in which thread. */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static _Thread_local struct {
    CUcontext contexts[FAKE_MAX_STACK]; /* handles: a context may end while it is current */
    int depth;
} stack;

struct fake_context *fake_current(void)
{
    CUcontext top = stack.depth ? stack.contexts[stack.depth - 1] : NULL;
    return top ? fake_handle_get(top, FAKE_CONTEXT) : NULL;
}

CUresult fake_sticky(const struct fake_context *context)
{
    return context->primary->sticky;
}

void fake_poison(struct fake_context *context, CUresult error)
{
    if (!context->primary->sticky)
        context->primary->sticky = error;
    pthread_cond_broadcast(&fake.progress);
}

/* Of a context that this thread is about to have on top, or no longer has there. */
static CUresult count_current(CUcontext handle, int step)
{
    struct fake_context *context = fake_handle_peek(handle, FAKE_CONTEXT);
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (step > 0 && context->green && context->current_in > 0) {
        fake_misuse("green context %p is current in another thread already", (void *)handle);
        return CUDA_ERROR_CONTEXT_ALREADY_IN_USE;
    }
    context->current_in += (unsigned int)step;
    return CUDA_SUCCESS;
}

static bool in_stack(CUcontext handle)
{
    for (int i = 0; i < stack.depth; i++)
        if (stack.contexts[i] == handle)
            return true;
    return false;
}

static CUcontext pop(void)
{
    CUcontext top = stack.contexts[--stack.depth];
    if (!in_stack(top))
        count_current(top, -1);
    return top;
}

void fake_current_forget(void)
{
    stack.depth = 0;
}

static pthread_key_t at_exit; /* of a thread */

/* A thread that ends has nothing current any more. */
static void leave_thread(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&fake.lock);
    while (stack.depth)
        pop();
    pthread_mutex_unlock(&fake.lock);
}

__attribute__((constructor)) static void watch_threads(void)
{
    if (pthread_key_create(&at_exit, leave_thread))
        abort();
}

static CUresult push(CUcontext handle)
{
    if (stack.depth == FAKE_MAX_STACK)
        return CUDA_ERROR_UNKNOWN;
    if (!fake_handle_get(handle, FAKE_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult result = in_stack(handle) ? CUDA_SUCCESS : count_current(handle, 1);
    if (!result)
        stack.contexts[stack.depth++] = handle;
    pthread_setspecific(at_exit, &fake);
    return result;
}

FAKE_API CUresult cuCtxSetCurrent(CUcontext context)
{
    FAKE_CALL(FAKE_INIT);
    if (!result) {
        CUcontext former = stack.depth ? pop() : NULL;
        result = context ? push(context) : CUDA_SUCCESS;
        if (result && former)
            push(former);
    }
    FAKE_LEAVE("%p", (void *)context);
}

FAKE_API CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    FAKE_CALL(FAKE_INIT);
    if (!result)
        result = context ? push(context) : CUDA_ERROR_INVALID_VALUE;
    FAKE_LEAVE("%p", (void *)context);
}

FAKE_API CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    FAKE_CALL(FAKE_INIT);
    if (!result && !stack.depth)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (!result) {
        CUcontext top = pop();
        if (context)
            *context = top;
    }
    FAKE_LEAVE("%s", "");
}

FAKE_API CUresult cuCtxGetCurrent(CUcontext *context)
{
    FAKE_CALL(FAKE_INIT);
    if (!result)
        *context = stack.depth ? stack.contexts[stack.depth - 1] : NULL;
    FAKE_LEAVE("%s", "");
}

FAKE_API CUresult cuCtxGetDevice(CUdevice *device)
{
    FAKE_CALL(FAKE_ANYHOW);
    if (!result)
        *device = call.context->device;
    FAKE_LEAVE("%s", "");
}

FAKE_API CUresult cuCtxGetFlags(unsigned int *flags)
{
    FAKE_CALL(FAKE_ANYHOW);
    if (!result)
        *flags = call.context->flags;
    FAKE_LEAVE("%s", "");
}

FAKE_API CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result && (unsigned int)limit > CU_LIMIT_MALLOC_HEAP_SIZE)
        result = CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (!result)
        call.context->primary->limits[limit] = value;
    FAKE_LEAVE("%d, %zu", (int)limit, value);
}

FAKE_API CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result && (unsigned int)limit > CU_LIMIT_MALLOC_HEAP_SIZE)
        result = CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (!result)
        *value = call.context->primary->limits[limit];
    FAKE_LEAVE("%d", (int)limit);
}

struct sync {
    struct fake_context *context;
    struct fake_stream *busy;
};

static void find_busy(void *object, void *data)
{
    struct fake_stream *stream = object;
    struct sync *sync = data;
    if (stream->context == sync->context && stream->depth)
        sync->busy = stream;
}

FAKE_API CUresult cuCtxSynchronize(void)
{
    FAKE_CALL(FAKE_CURRENT);
    while (!result) {
        struct sync sync = {.context = call.context};
        fake_handle_each(FAKE_STREAM, find_busy, &sync);
        if (!sync.busy)
            break;
        fake_wait();
        result = fake_sticky(call.context);
    }
    if (!result)
        result = fake_context_flush(call.context);
    FAKE_LEAVE("%s", "");
}

void fake_context_print(struct fake_context *context, const char *text)
{
    struct fake_context *primary = context->primary;
    size_t len = strlen(text), room = primary->limits[CU_LIMIT_PRINTF_FIFO_SIZE];
    if (len > room)
        return;
    char *fifo = realloc(primary->fifo, primary->fifo_len + len + 1);
    if (!fifo)
        abort();
    memcpy(fifo + primary->fifo_len, text, len);
    primary->fifo = fifo;
    primary->fifo_len += len;
    if (primary->fifo_len > room) { /* the oldest is lost */
        memmove(fifo, fifo + primary->fifo_len - room, room);
        primary->fifo_len = room;
    }
}

void fake_context_tell_assertion(struct fake_context *context)
{
    if (context->primary->assertion)
        fputs(context->primary->assertion, stderr);
    context->primary->assertion = NULL;
}

CUresult fake_context_flush(struct fake_context *context)
{
    struct fake_context *primary = context->primary;
    if (primary->fifo_len)
        fwrite(primary->fifo, 1, primary->fifo_len, stdout);
    primary->fifo_len = 0;
    return CUDA_SUCCESS;
}
