/* Streams and events of the driver API, which are the runtime's. */
#include "runtime.h"

/* ---- streams -------------------------------------------------------------------------------- */

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    CUcontext context;
    CUresult result = rt_enter_context(&context, NULL);
    if (result == CUDA_SUCCESS)
        result = RT_ASK(cudaStreamCreateWithPriority(stream, flags, priority));
    if (result == CUDA_SUCCESS && !rt_own(context, RT_OWNED_STREAM, *stream)) {
        (void)RT_ASK(cudaStreamDestroy(*stream));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return result;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy(CUstream stream)
{
    const CUresult result = rt_enter_context(NULL, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    rt_disown(RT_OWNED_STREAM, stream);
    return RT_ASK(cudaStreamDestroy(stream));
}

CUresult cuStreamQuery(CUstream stream)
{
    return RT_IN_CONTEXT(cudaStreamQuery(stream));
}

CUresult cuStreamSynchronize(CUstream stream)
{
    return RT_IN_CONTEXT(cudaStreamSynchronize(stream));
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    return RT_IN_CONTEXT(cudaStreamWaitEvent(stream, event, flags));
}

/* Both interfaces have the same handles and numbers of errors. */
CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data, unsigned int flags)
{
    return RT_IN_CONTEXT(cudaStreamAddCallback(stream, (cudaStreamCallback_t)callback, data, flags));
}

CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags)
{
    return RT_IN_CONTEXT(cudaStreamGetFlags(stream, flags));
}

CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
    return RT_IN_CONTEXT(cudaStreamGetPriority(stream, priority));
}

CUresult cuStreamGetId(CUstream stream, unsigned long long *id)
{
    return RT_IN_CONTEXT(cudaStreamGetId(stream, id));
}

CUresult cuStreamGetDevice(CUstream stream, CUdevice *device)
{
    return RT_IN_CONTEXT(cudaStreamGetDevice(stream, device));
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    CUcontext current;
    unsigned flags;
    if (context == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = rt_enter_context(&current, NULL);
    if (result == CUDA_SUCCESS)
        result = RT_ASK(cudaStreamGetFlags(stream, &flags)); /* is it one? */
    if (result != CUDA_SUCCESS)
        return result;
    CUcontext owner = rt_owner(RT_OWNED_STREAM, stream);
    *context = owner != NULL ? owner : current; /* a default stream is that of any context */
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *context, CUgreenCtx *green)
{
    const CUresult result = cuStreamGetCtx(stream, context);
    if (result == CUDA_SUCCESS && green != NULL)
        *green = NULL; /* no device has green contexts */
    return result;
}

CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx *green)
{
    CUcontext context;
    return green == NULL ? CUDA_ERROR_INVALID_VALUE : cuStreamGetCtx_v2(stream, &context, green);
}

/* ---- attributes ----------------------------------------------------------------------------- */

_Static_assert(sizeof(CUstreamAttrValue) == sizeof(cudaLaunchAttributeValue), "both have the same attributes");

CUresult cuStreamCopyAttributes(CUstream to, CUstream from)
{
    return RT_IN_CONTEXT(cudaStreamCopyAttributes(to, from));
}

CUresult cuStreamGetAttribute(CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue *value)
{
    return RT_IN_CONTEXT(
        cudaStreamGetAttribute(stream, (cudaLaunchAttributeID)attribute, (cudaLaunchAttributeValue *)value));
}

CUresult cuStreamSetAttribute(CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue *value)
{
    return RT_IN_CONTEXT(
        cudaStreamSetAttribute(stream, (cudaLaunchAttributeID)attribute, (const cudaLaunchAttributeValue *)value));
}

/* ---- events --------------------------------------------------------------------------------- */

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    CUcontext context;
    CUresult result = rt_enter_context(&context, NULL);
    if (result == CUDA_SUCCESS)
        result = RT_ASK(cudaEventCreateWithFlags(event, flags));
    if (result == CUDA_SUCCESS && !rt_own(context, RT_OWNED_EVENT, *event)) {
        (void)RT_ASK(cudaEventDestroy(*event));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return result;
}

CUresult cuEventDestroy(CUevent event)
{
    const CUresult result = rt_check_driver(); /* any context may be current */
    if (result != CUDA_SUCCESS)
        return result;
    rt_disown(RT_OWNED_EVENT, event);
    return RT_ASK(cudaEventDestroy(event));
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    return RT_IN_CONTEXT(cudaEventRecord(event, stream));
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    return RT_IN_CONTEXT(cudaEventRecordWithFlags(event, stream, flags));
}

CUresult cuEventQuery(CUevent event)
{
    return RT_IN_CONTEXT(cudaEventQuery(event));
}

CUresult cuEventSynchronize(CUevent event)
{
    return RT_IN_CONTEXT(cudaEventSynchronize(event));
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    return RT_IN_CONTEXT(cudaEventElapsedTime(milliseconds, start, end));
}
