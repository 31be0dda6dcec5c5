/* Calls: a function by its name with its buffers in one request; over device memory if the region has no room. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

/* ---- one request ---------------------------------------------------------------------------- */

static bool reads(const struct vgc_arg *arg)
{
    return arg->direction == VGC_ARG_IN || arg->direction == VGC_ARG_INOUT;
}

static bool writes(const struct vgc_arg *arg)
{
    return arg->direction == VGC_ARG_OUT || arg->direction == VGC_ARG_INOUT;
}

static uint64_t heap_size(uint64_t size)
{
    return (size + VGC_HEAP_ALIGN - 1) / VGC_HEAP_ALIGN * VGC_HEAP_ALIGN;
}

static uint64_t staged_size(const struct vgc_device *device, const struct vgc_arg *arg)
{
    return vgc_in_region(device, arg->data, arg->size) ? 0 : heap_size(arg->size);
}

struct call {
    struct vgc_device *device;
    const struct vgc_arg *args;
    uint32_t num_args;
    uint32_t num_outputs; /* staged ones */
    uint64_t value_bytes;
    bool values_staged; /* more than a slot has room for */
    uint64_t staging_bytes;
    uint8_t *staging;
    uint64_t staged; /* bytes of staging handed out */
    struct vgc_copy_back *copies;
    bool has_no_room; /* the region has none for its buffers */
};

static int check_args(struct call *call)
{
    if (call->num_args > VGC_MAX_CALL_ARGS)
        return vgc_fail(VGC_INVALID_ARGUMENT, "%u arguments; allowed: %d", call->num_args, VGC_MAX_CALL_ARGS);
    for (uint32_t i = 0; i < call->num_args; i++) {
        const struct vgc_arg *arg = &call->args[i];
        if (arg->direction > VGC_ARG_INOUT || (arg->data == NULL && arg->size > 0))
            return vgc_fail(VGC_INVALID_ARGUMENT, "argument %u: direction %u, data %p", i, arg->direction, arg->data);
        call->has_no_room = arg->size > call->device->transport->region_bytes;
        if (call->has_no_room)
            return vgc_fail(VGC_RESOURCES_EXHAUSTED,
                            "resources exhausted: argument %u has %llu bytes, the shared region %llu", i,
                            (unsigned long long)arg->size, (unsigned long long)call->device->transport->region_bytes);
        if (arg->direction == VGC_ARG_VALUE) {
            call->value_bytes += arg->size;
            continue;
        }
        uint64_t staged = staged_size(call->device, arg);
        call->staging_bytes += staged * (reads(arg) ? 1 : 0) + staged * (writes(arg) ? 1 : 0);
        call->num_outputs += staged > 0 && writes(arg) ? 1 : 0;
    }
    if (call->value_bytes > VGC_MAX_PARAM_BYTES)
        return vgc_fail(VGC_INVALID_ARGUMENT, "%llu bytes of values; allowed: %d",
                        (unsigned long long)call->value_bytes, VGC_MAX_PARAM_BYTES);
    call->values_staged = call->value_bytes > VGC_PARAMS_IN_SLOT;
    call->staging_bytes += call->values_staged ? heap_size(call->value_bytes) : 0;
    return VGC_OK;
}

static int prepare_staging(struct call *call)
{
    int result = check_args(call);
    if (result != VGC_OK || call->staging_bytes == 0)
        return result;
    call->copies = calloc(VGC_MAX(call->num_outputs, 1u), sizeof(*call->copies));
    if (call->copies == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    result = vgc_alloc_or_reap(call->device, call->staging_bytes, &call->staging);
    call->has_no_room = result == VGC_RESOURCES_EXHAUSTED;
    if (result != VGC_OK)
        free(call->copies);
    return result;
}

static uint8_t *next_staging(struct call *call, uint64_t size)
{
    uint8_t *at = call->staging + call->staged;
    call->staged += size;
    return at;
}

static void put_head(const struct call *call, struct vgc_message *message, const char *name,
                     const struct vgc_geometry *geometry)
{
    struct vgc_body_call body = {.shared_bytes = geometry->shared_bytes,
                                 .name_len = (uint32_t)strlen(name),
                                 .num_args = call->num_args,
                                 .value_len = (uint32_t)call->value_bytes,
                                 .flags = geometry->flags,
                                 .grid = VGC_EXTENTS(geometry->grid),
                                 .block = VGC_EXTENTS(geometry->block)};
    (void)vgc_message_put(message, VGC_BYTES(body), sizeof(body));
    (void)vgc_message_put(message, name, body.name_len);
    for (uint32_t i = 0; i < call->num_args; i++) {
        struct vgc_call_arg arg = {.kind = call->args[i].direction, .size = call->args[i].size};
        (void)vgc_message_put(message, VGC_BYTES(arg), sizeof(arg));
    }
    for (uint32_t i = 0; i < call->num_args && !call->values_staged; i++)
        if (call->args[i].direction == VGC_ARG_VALUE)
            (void)vgc_message_put(message, call->args[i].data, call->args[i].size);
}

/* Adds values that are too large for the slot; buffers follow. */
static int add_values(struct call *call, struct vgc_message *message)
{
    uint8_t *staging = next_staging(call, heap_size(call->value_bytes));
    uint64_t offset = 0;
    for (uint32_t i = 0; i < call->num_args; i++) {
        const struct vgc_arg *arg = &call->args[i];
        if (arg->direction != VGC_ARG_VALUE || arg->size == 0)
            continue;
        memcpy(staging + offset, arg->data, arg->size);
        offset += arg->size;
    }
    return vgc_message_readable(message, staging, call->value_bytes);
}

static int add_buffers(struct call *call, struct vgc_message *message)
{
    int result = call->values_staged ? add_values(call, message) : VGC_OK;
    for (uint32_t i = 0; i < call->num_args && result == VGC_OK; i++) {
        const struct vgc_arg *arg = &call->args[i];
        if (!reads(arg))
            continue;
        const void *data = arg->data;
        uint64_t staged = staged_size(call->device, arg);
        if (staged > 0)
            data = memcpy(next_staging(call, staged), arg->data, arg->size);
        result = vgc_message_readable(message, data, arg->size);
    }
    for (uint32_t i = 0; i < call->num_args && result == VGC_OK; i++) {
        const struct vgc_arg *arg = &call->args[i];
        if (!writes(arg))
            continue;
        uint8_t *data = arg->data;
        uint64_t staged = staged_size(call->device, arg);
        if (staged > 0) {
            data = next_staging(call, staged);
            call->copies[message->job->num_copies++] = (struct vgc_copy_back){arg->data, data, arg->size};
        }
        result = vgc_message_writable(message, data, arg->size);
    }
    return result;
}

static int begin_call(struct call *call, struct vgc_message *message, const char *name,
                      const struct vgc_geometry *geometry, bool wait)
{
    int result = vgc_check_name(name);
    if (result != VGC_OK)
        return result;
    if ((call->device->config.device_features & VGC_F_CALL) == 0)
        return vgc_fail(VGC_UNSUPPORTED, "this device has no CALL: load the program and launch its function");
    result = vgc_check_geometry(call->device, geometry, VGC_MAX_BLOCK_THREADS);
    if (result == VGC_OK)
        result = vgc_check_usable(call->device);
    if (result == VGC_OK)
        result = prepare_staging(call);
    if (result != VGC_OK)
        return result;
    result = vgc_message_begin(message, call->device, VGC_OP_CALL, geometry->stream, wait);
    if (result != VGC_OK && call->staging != NULL) {
        (void)vgc_heap_free(call->device, call->staging);
        free(call->copies);
    }
    return result;
}

_Static_assert(sizeof(struct vgc_request) + sizeof(struct vgc_body_call) + VGC_MAX_NAME +
                       VGC_MAX_CALL_ARGS * sizeof(struct vgc_call_arg) + VGC_PARAMS_IN_SLOT <=
                   VGC_SLOT_REQUEST_BYTES,
               "the largest CALL head fits a slot");

/* *has_no_room: nothing was sent, because the region has no room for the buffers. */
static int call_in_region(struct vgc_device *device, const char *name, const struct vgc_geometry *geometry,
                          const struct vgc_arg *args, uint32_t num_args, struct vgc_job **job, bool *has_no_room)
{
    struct call call = {.device = device, .args = args, .num_args = num_args};
    struct vgc_message message;
    int result = begin_call(&call, &message, name, geometry, vgc_waits_for_room(job));
    *has_no_room = call.has_no_room;
    if (result != VGC_OK)
        return result;
    message.job->staging = call.staging;
    message.job->copies = call.copies;
    vgc_trace_name(message.job, name);
    put_head(&call, &message, name, geometry);
    result = add_buffers(&call, &message);
    if (result == VGC_OK) {
        vgc_message_text_room(&message);
        return vgc_job_run(&message, job);
    }
    if (call.staging != NULL)
        (void)vgc_heap_free(device, call.staging);
    message.job->staging = NULL;
    vgc_message_cancel(&message);
    return result;
}

/* ---- over device memory --------------------------------------------------------------------- */

/* Arguments of a call: buffers of this process are device memory, whose addresses are values. */
struct moved_call {
    struct vgc_arg args[VGC_MAX_CALL_ARGS];
    uint64_t addresses[VGC_MAX_CALL_ARGS]; /* 0: not moved */
};

static int move_in(struct vgc_device *device, const struct vgc_arg *arg, uint64_t *address, uint32_t stream)
{
    int result = vgc_alloc(device, arg->size, address);
    if (result != VGC_OK)
        return result;
    return reads(arg) ? vgc_copy_in(device, *address, arg->data, arg->size, stream, NULL)
                      : vgc_fill(device, *address, 0, 1, arg->size, stream, NULL);
}

static int move_buffers(struct vgc_device *device, const struct vgc_arg *args, uint32_t num_args, uint32_t stream,
                        struct moved_call *moved)
{
    int result = VGC_OK;
    for (uint32_t i = 0; i < num_args && result == VGC_OK; i++) {
        moved->args[i] = args[i];
        if (args[i].direction == VGC_ARG_VALUE || staged_size(device, &args[i]) == 0)
            continue;
        result = move_in(device, &args[i], &moved->addresses[i], stream);
        moved->args[i] = (struct vgc_arg){
            .data = &moved->addresses[i], .size = sizeof(moved->addresses[i]), .direction = VGC_ARG_VALUE};
    }
    return result;
}

static int move_out(struct vgc_device *device, const struct vgc_arg *args, uint32_t num_args, uint32_t stream,
                    const struct moved_call *moved)
{
    int result = VGC_OK;
    for (uint32_t i = 0; i < num_args && result == VGC_OK; i++)
        if (writes(&args[i]) && moved->addresses[i] != 0)
            result = vgc_copy_out(device, args[i].data, moved->addresses[i], args[i].size, stream, NULL);
    return result;
}

static int call_over_memory(struct vgc_device *device, const char *name, const struct vgc_geometry *geometry,
                            const struct vgc_arg *args, uint32_t num_args)
{
    struct moved_call moved = {0};
    bool has_no_room;
    uint32_t stream = geometry->stream;
    int result = move_buffers(device, args, num_args, stream, &moved);
    if (result == VGC_OK)
        result = call_in_region(device, name, geometry, moved.args, num_args, NULL, &has_no_room);
    if (result == VGC_OK)
        result = move_out(device, args, num_args, stream, &moved);
    char reason[2048];
    (void)snprintf(reason, sizeof(reason), "%s", result == VGC_OK ? "" : vgc_last_error());
    for (uint32_t i = 0; i < num_args; i++)
        if (moved.addresses[i] != 0)
            (void)vgc_free(device, moved.addresses[i]);
    return result == VGC_OK ? VGC_OK : vgc_fail(result, "%s", reason);
}

/* ---- public --------------------------------------------------------------------------------- */

int vgc_call(struct vgc_device *device, const char *name, const struct vgc_geometry *geometry,
             const struct vgc_arg *args, uint32_t num_args, struct vgc_job **job)
{
    bool has_no_room;
    int result = call_in_region(device, name, geometry, args, num_args, job, &has_no_room);
    if (result == VGC_RESOURCES_EXHAUSTED && has_no_room && vgc_waits_for_room(job))
        return call_over_memory(device, name, geometry, args, num_args);
    return result;
}
