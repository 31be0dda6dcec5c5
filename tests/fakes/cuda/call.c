/* Begin and end of every function of the driver. */
#include <stdarg.h>

#include "fake.h"

struct fake fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .progress = PTHREAD_COND_INITIALIZER};

CUresult fake_enter(struct fake_call *call, enum fake_needs needs)
{
    pthread_mutex_lock(&fake.lock);
    CUresult injected = fake_injected(call->name);
    if (injected)
        return injected;
    if (needs != FAKE_NOTHING && !fake.initialised) {
        fake_misuse("%s was called before cuInit", call->name);
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    if ((needs & FAKE_CURRENT) != FAKE_CURRENT)
        return CUDA_SUCCESS;
    call->context = fake_current();
    if (!call->context) {
        fake_misuse("%s was called in a thread without a context", call->name);
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    return needs == FAKE_CURRENT_STICKY ? CUDA_SUCCESS : fake_sticky(call->context);
}

CUresult fake_leave(struct fake_call *call, CUresult result, const char *format, ...)
{
    char arguments[512], line[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    snprintf(line, sizeof line, "%s(%s) = %s", call->name, arguments, fake_error_name(result));
    fake_log_call(call->name, line);
    pthread_mutex_unlock(&fake.lock);
    return result;
}
