/* Green contexts: a part of a device's multiprocessors as a context of its own. */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static void fill(CUdevResource *resource, const struct fake_device *device, unsigned int sms)
{
    memset(resource, 0, sizeof *resource);
    resource->type = CU_DEV_RESOURCE_TYPE_SM;
    resource->sm.smCount = sms;
    resource->sm.minSmPartitionSize = (unsigned int)device->min_partition;
    resource->sm.smCoscheduledAlignment = (unsigned int)device->granularity;
    memcpy(resource->_internal_padding, "fake", 4); /* only what the driver filled in is taken back */
}

static bool genuine(const CUdevResource *resource)
{
    if (memcmp(resource->_internal_padding, "fake", 4) == 0)
        return true;
    fake_misuse("a CUdevResource that the driver did not fill in");
    return false;
}

FAKE_API CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    FAKE_CALL(FAKE_INIT);
    if (!result && (device < 0 || device >= fake.settings.num_devices))
        result = CUDA_ERROR_INVALID_DEVICE;
    if (!result && type != CU_DEV_RESOURCE_TYPE_SM)
        result = CUDA_ERROR_INVALID_RESOURCE_TYPE;
    if (!result) {
        const struct fake_device *of = &fake.settings.devices[device];
        fill(resource, of, (unsigned int)of->sms);
    }
    FAKE_LEAVE("%d, %d", device, (int)type);
}

FAKE_API CUresult cuCtxGetDevResource(CUcontext handle, CUdevResource *resource, CUdevResourceType type)
{
    FAKE_CALL(FAKE_INIT);
    struct fake_context *context = result ? NULL : fake_handle_get(handle, FAKE_CONTEXT);
    if (!result && !context)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (!result && type != CU_DEV_RESOURCE_TYPE_SM)
        result = CUDA_ERROR_INVALID_RESOURCE_TYPE;
    if (!result)
        fill(resource, &fake.settings.devices[context->device], context->sms);
    FAKE_LEAVE("%p, %d", (void *)handle, (int)type);
}

FAKE_API CUresult cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource *resource, CUdevResourceType type)
{
    FAKE_CALL(FAKE_INIT);
    const struct fake_context *context = result ? NULL : fake_handle_get(handle, FAKE_GREEN);
    if (!result && !context)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result && type != CU_DEV_RESOURCE_TYPE_SM)
        result = CUDA_ERROR_INVALID_RESOURCE_TYPE;
    if (!result)
        fill(resource, &fake.settings.devices[context->device], context->sms);
    FAKE_LEAVE("%p, %d", (void *)handle, (int)type);
}

/* Groups of `wanted` multiprocessors, rounded up to what the device can part; what is left goes to `remaining`. */
static CUresult split(CUdevResource *groups, unsigned int *num_groups, const CUdevResource *input,
                      CUdevResource *remaining, unsigned int wanted)
{
    unsigned int unit = input->sm.smCoscheduledAlignment, least = input->sm.minSmPartitionSize;
    unsigned int size = wanted < least ? least : wanted;
    size = (size + unit - 1) / unit * unit;
    unsigned int possible = input->sm.smCount / size;
    if (!groups) {
        *num_groups = possible;
        return CUDA_SUCCESS;
    }
    if (!possible)
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    if (*num_groups > possible)
        *num_groups = possible;
    for (unsigned int i = 0; i < *num_groups; i++) {
        groups[i] = *input;
        groups[i].sm.smCount = size;
    }
    if (remaining) {
        *remaining = *input;
        remaining->sm.smCount = input->sm.smCount - size * *num_groups;
    }
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuDevSmResourceSplitByCount(CUdevResource *groups, unsigned int *num_groups,
                                              const CUdevResource *input, CUdevResource *remaining, unsigned int flags,
                                              unsigned int wanted)
{
    FAKE_CALL(FAKE_INIT);
    if (!result && (!num_groups || !input || flags > 3))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && input->type != CU_DEV_RESOURCE_TYPE_SM)
        result = CUDA_ERROR_INVALID_RESOURCE_TYPE;
    if (!result && !genuine(input))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = split(groups, num_groups, input, remaining, wanted);
    FAKE_LEAVE("groups=%u, wanted=%u", num_groups ? *num_groups : 0, wanted);
}

FAKE_API CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *desc, CUdevResource *resources, unsigned int count)
{
    FAKE_CALL(FAKE_INIT);
    if (!result && (!desc || count != 1 || resources->type != CU_DEV_RESOURCE_TYPE_SM || !genuine(resources)))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        unsigned int *sms = malloc(sizeof *sms);
        if (!sms)
            abort();
        *sms = resources->sm.smCount;
        *desc = fake_handle_new(FAKE_RESOURCE, sms);
    }
    FAKE_LEAVE("%u", count);
}

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
    primary->retained++;
    return context;
}

FAKE_API CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc desc, CUdevice device, unsigned int flags)
{
    FAKE_CALL(FAKE_INIT);
    const unsigned int *sms = result ? NULL : fake_handle_get(desc, FAKE_RESOURCE);
    if (!result && (!sms || flags != CU_GREEN_CTX_DEFAULT_STREAM))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && (device < 0 || device >= fake.settings.num_devices))
        result = CUDA_ERROR_INVALID_DEVICE;
    if (!result && !fake.primaries[device]) {
        fake_misuse("cuGreenCtxCreate before the primary context of device %d was retained", device);
        result = CUDA_ERROR_INVALID_CONTEXT;
    }
    if (!result)
        result = fake_sticky(fake.primaries[device]);
    if (!result)
        *green = green_new(fake.primaries[device], *sms)->green_handle;
    FAKE_LEAVE("sms=%u, %d, %u", sms ? *sms : 0, device, flags);
}

FAKE_API CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
    FAKE_CALL(FAKE_INIT);
    struct fake_context *context = result ? NULL : fake_handle_get(green, FAKE_GREEN);
    if (!result && !context)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result && context->current_in)
        fake_misuse("a green context was destroyed while it was current in %u threads", context->current_in);
    if (!result) {
        struct fake_context *primary = context->primary;
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
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result)
        *context = of->handle;
    FAKE_LEAVE("%p", (void *)green);
}

FAKE_API CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned int flags, int priority)
{
    FAKE_CALL(FAKE_INIT);
    struct fake_context *context = result ? NULL : fake_handle_get(green, FAKE_GREEN);
    if (!result && !context)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result && flags != CU_STREAM_NON_BLOCKING)
        result = CUDA_ERROR_INVALID_VALUE; /* the only kind that there is in a green context */
    if (!result)
        result = fake_sticky(context);
    if (!result)
        *stream = fake_stream_new(context, flags)->handle;
    FAKE_LEAVE("%p, %u, %d", (void *)green, flags, priority);
}
