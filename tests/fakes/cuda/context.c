/* Contexts, and the stack of current contexts of each thread. */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static _Thread_local struct {
    CUcontext contexts[FAKE_MAX_STACK]; /* handles, as a context may end while it is current */
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

/* Counts the threads in which a context is current; `step`: 1 or -1. */
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

static pthread_key_t at_exit; /* calls leave_thread at a thread's end */

/* Pops all contexts of a thread that ends. */
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
    FAKE_CALL(FAKE_CURRENT_STICKY);
    if (!result)
        *device = call.context->device;
    FAKE_LEAVE("%s", "");
}

FAKE_API CUresult cuCtxGetFlags(unsigned int *flags)
{
    FAKE_CALL(FAKE_CURRENT_STICKY);
    if (!result)
        *flags = call.context->flags;
    FAKE_LEAVE("%s", "");
}

FAKE_API CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result && (unsigned int)limit > CU_LIMIT_MALLOC_HEAP_SIZE)
        result = CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (!result && limit == CU_LIMIT_PRINTF_FIFO_SIZE && fake_output_is_fixed(call.context))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && limit == CU_LIMIT_STACK_SIZE)
        result = fake_stack_set(call.context, value);
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

FAKE_API CUresult cuCtxSynchronize(void)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = fake_context_wait(call.context);
    if (call.context)
        fake_context_report(call.context);
    FAKE_LEAVE("%s", "");
}

FAKE_API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result && least)
        *least = 0;
    if (!result && greatest)
        *greatest = FAKE_GREATEST_PRIORITY;
    FAKE_LEAVE("%s", "");
}
