/* Primary contexts, one per device, with counts of their users. */
#include <stdlib.h>

#include "fake.h"

static struct fake_context *primary_new(CUdevice device)
{
    struct fake_context *context = calloc(1, sizeof *context);
    if (!context)
        abort();
    context->device = device;
    context->primary = context;
    context->sms = (unsigned int)fake.settings.devices[device].sms;
    context->flags = fake.primary_flags[device];
    context->stack_bytes = context->limits[CU_LIMIT_STACK_SIZE] = 1024;
    context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    context->handle = fake_handle_new(FAKE_CONTEXT, context);
    return context;
}

struct fake_context *fake_primary_retain(int device)
{
    if (!fake.primaries[device])
        fake.primaries[device] = primary_new(device);
    fake.primaries[device]->retained++;
    return fake.primaries[device];
}

static bool valid(CUdevice device)
{
    return device >= 0 && device < fake.settings.num_devices;
}

FAKE_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    FAKE_CALL(FAKE_INIT);
    if (!result && !valid(device))
        result = CUDA_ERROR_INVALID_DEVICE;
    if (!result)
        *context = fake_primary_retain(device)->handle;
    FAKE_LEAVE("%d", device);
}

static void end_module(void *object, void *context)
{
    struct fake_module *module = object;
    if (module->context == context)
        fake_module_end(module);
}

static void end_event(void *object, void *context)
{
    struct fake_event *event = object;
    if (event->context == context)
        fake_event_end(event);
}

void fake_context_end(struct fake_context *context)
{
    fake_streams_end(context);
    fake_handle_each(FAKE_MODULE, end_module, context);
    fake_handle_each(FAKE_EVENT, end_event, context);
    if (context->primary == context)
        fake_objects_end(context);
    fake_arrays_end(context);
    fake_memory_end_all(context);
    if (context->primary == context)
        fake_output_end(context);
    fake_handle_end(context->handle);
    free(context->connections);
    free(context);
}

void fake_primary_release(struct fake_context *primary)
{
    if (--primary->retained)
        return;
    fake.primaries[primary->device] = NULL;
    fake_context_end(primary);
}

FAKE_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    FAKE_CALL(FAKE_INIT);
    struct fake_context *primary = !result && valid(device) ? fake.primaries[device] : NULL;
    if (!result && !primary) {
        result = valid(device) ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_DEVICE;
        fake_misuse("the primary context of device %d was released more often than retained", device);
    }
    if (!result)
        fake_primary_release(primary);
    FAKE_LEAVE("%d", device);
}

FAKE_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    FAKE_CALL(FAKE_INIT);
    if (!result && !valid(device))
        result = CUDA_ERROR_INVALID_DEVICE;
    if (!result && flags > 0xff)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        fake.primary_flags[device] = flags;
        if (fake.primaries[device])
            fake.primaries[device]->flags = flags;
    }
    FAKE_LEAVE("%d, %#x", device, flags);
}

FAKE_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    FAKE_CALL(FAKE_INIT);
    if (!result && !valid(device))
        result = CUDA_ERROR_INVALID_DEVICE;
    if (!result) {
        *flags = fake.primary_flags[device];
        *active = fake.primaries[device] != NULL;
    }
    FAKE_LEAVE("%d", device);
}

static void end_green(void *object, void *unused)
{
    struct fake_context *context = object;
    (void)unused;
    if (context->green) {
        fake_handle_end(context->green_handle);
        fake_context_end(context);
    }
}

void fake_contexts_end(void)
{
    fake_handle_each(FAKE_CONTEXT, end_green, NULL);
    for (int i = 0; i < FAKE_MAX_DEVICES; i++) {
        if (fake.primaries[i])
            fake_context_end(fake.primaries[i]);
        fake.primaries[i] = NULL;
        fake.primary_flags[i] = 0;
    }
}
