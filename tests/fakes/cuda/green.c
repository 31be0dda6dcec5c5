/* Green contexts: contexts with a part of a device's multiprocessors.
 *
 * On sm_9x a loaded module with dynamic parallelism lets kernels of green contexts use 2 more multiprocessors. The fake
 * does not model that; cuGreenCtxGetDevResource does not count them either. */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static struct fake_context *green_new(struct fake_context *primary, unsigned int sms)
{
    struct fake_context *context = calloc(1, sizeof *context);
    if (!context)
        abort();
    context->device = primary->device;
    context->primary = primary;
    context->green = 1;
    context->sms = sms;
    context->flags = primary->flags;
    context->handle = fake_handle_new(FAKE_CONTEXT, context);
    context->green_handle = fake_handle_new(FAKE_GREEN, context);
    return context;
}

/* Drivers after CUDA 13.0 know flags without a default stream. Makes the primary context if it does not exist; as that
 * takes long, "it is advised to have the primary context active". */
FAKE_API CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc desc, CUdevice device, unsigned int flags)
{
    FAKE_CALL(FAKE_INIT);
    unsigned int sms = 0;
    if (!result && (device < 0 || device >= fake.settings.num_devices))
        result = CUDA_ERROR_INVALID_DEVICE;
    if (!result)
        result = fake_resource_get(desc, device, &sms);
    if (!result && flags != CU_GREEN_CTX_DEFAULT_STREAM && (flags || fake.settings.driver_version <= 13000))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && fake.primaries[device])
        result = fake_sticky(fake.primaries[device]);
    if (!result)
        *green = green_new(fake_primary_retain(device), sms)->green_handle;
    FAKE_LEAVE("sms=%u, %d, %u", sms, device, flags);
}

FAKE_API CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
    FAKE_CALL(FAKE_INIT);
    struct fake_context *context = result ? NULL : fake_handle_get(green, FAKE_GREEN);
    if (!result && !context)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (!result && context->current_in)
        fake_misuse("a green context was destroyed while it was current in %u threads", context->current_in);
    if (!result) {
        struct fake_context *primary = context->primary;
        fake_streams_detach(context);
        fake_handle_end(green);
        fake_context_end(context);
        fake_primary_release(primary);
    }
    FAKE_LEAVE("%p", (void *)green);
}

FAKE_API CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green)
{
    FAKE_CALL(FAKE_INIT);
    struct fake_context *of = result ? NULL : fake_handle_get(green, FAKE_GREEN);
    if (!result && !of)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (!result)
        *context = of->handle;
    FAKE_LEAVE("%p", (void *)green);
}

FAKE_API CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned int flags, int priority)
{
    FAKE_CALL(FAKE_INIT);
    struct fake_context *context = result ? NULL : fake_handle_get(green, FAKE_GREEN);
    if (!result && !context)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (!result && flags != CU_STREAM_NON_BLOCKING)
        result = CUDA_ERROR_INVALID_VALUE; /* the only kind of stream in a green context */
    if (!result)
        result = fake_sticky(context);
    if (!result)
        *stream = fake_stream_new(context, flags, priority)->handle;
    FAKE_LEAVE("%p, %u, %d", (void *)green, flags, priority);
}

FAKE_API CUresult cuStreamGetGreenCtx(CUstream handle, CUgreenCtx *green)
{
    FAKE_CALL(FAKE_CURRENT);
    const struct fake_stream *stream = fake_stream_get(handle, call.context, &result);
    if (stream)
        *green = stream->context->green ? stream->context->green_handle : NULL;
    FAKE_LEAVE("%p", (void *)handle);
}

/* Primary contexts end with their release, green ones with their CUgreenCtx: "Destroying pContext via cuCtxDestroy
 * is undefined behavior." [cuda.h, cuCtxFromGreenCtx] */
FAKE_API CUresult cuCtxDestroy_v2(CUcontext handle)
{
    FAKE_CALL(FAKE_INIT);
    const struct fake_context *context = result ? NULL : fake_handle_get(handle, FAKE_CONTEXT);
    if (!result && context)
        fake_misuse("cuCtxDestroy of a %s context", context->green ? "green" : "primary");
    if (!result)
        result = CUDA_ERROR_INVALID_CONTEXT;
    FAKE_LEAVE("%p", (void *)handle);
}
