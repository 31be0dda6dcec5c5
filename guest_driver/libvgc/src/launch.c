/* Launches, and what kernels print: the device keeps it, and says with an answer that there is some. */
#include <stdlib.h>
#include <string.h>

#include "program.h"

int vgc_check_geometry(const struct vgc_device *device, const struct vgc_geometry *geometry, uint32_t max_threads)
{
    const uint32_t *grid = geometry->grid;
    const uint32_t *block = geometry->block;
    uint64_t threads = (uint64_t)block[0] * block[1];
    threads = threads > UINT32_MAX ? threads : threads * block[2];
    if (device->config.quota_pes == 0)
        return vgc_fail(VGC_RESOURCES_EXHAUSTED, "resources exhausted: this VM has no processing elements");
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || threads == 0)
        return vgc_fail(VGC_INVALID_ARGUMENT, "grid (%u, %u, %u), block (%u, %u, %u): every extent is at least 1",
                        grid[0], grid[1], grid[2], block[0], block[1], block[2]);
    if (grid[0] > INT32_MAX || grid[1] > UINT16_MAX || grid[2] > UINT16_MAX)
        return vgc_fail(VGC_INVALID_ARGUMENT, "grid (%u, %u, %u); allowed: up to (2147483647, 65535, 65535)", grid[0],
                        grid[1], grid[2]);
    if ((geometry->flags & ~(uint32_t)VGC_LAUNCH_COOPERATIVE) != 0)
        return vgc_fail(VGC_INVALID_ARGUMENT, "launch flags %#x; allowed: 0, VGC_LAUNCH_COOPERATIVE", geometry->flags);
    uint32_t limit = VGC_MIN(max_threads, (uint32_t)VGC_MAX_BLOCK_THREADS);
    if (threads > limit)
        return vgc_fail(VGC_RESOURCES_EXHAUSTED,
                        "resources exhausted: a block of (%u, %u, %u) has %llu threads; allowed: %u", block[0],
                        block[1], block[2], (unsigned long long)threads, limit);
    return VGC_OK;
}

/* ---- launches ------------------------------------------------------------------------------- */

/* Begins a launch; its parameters lie in memory of their own if they are too large for a slot. */
static int begin_launch(struct vgc_message *message, struct vgc_device *device, const struct vgc_geometry *geometry,
                        const void *params, uint32_t param_bytes, bool wait)
{
    uint8_t *staging = NULL;
    if (param_bytes > VGC_PARAMS_IN_SLOT) {
        int result = vgc_check_usable(device);
        if (result == VGC_OK)
            result = vgc_alloc_or_reap(device, param_bytes, &staging);
        if (result != VGC_OK)
            return result;
        memcpy(staging, params, param_bytes);
    }
    int result = vgc_message_begin(message, device, VGC_OP_LAUNCH, geometry->stream, wait);
    if (result == VGC_OK)
        message->job->staging = staging;
    else if (staging != NULL)
        (void)vgc_heap_free(device, staging);
    return result;
}

int vgc_launch_packed(struct vgc_function *function, const struct vgc_geometry *geometry, const void *params,
                      uint32_t param_bytes, struct vgc_job **job)
{
    struct vgc_device *device = function->program->device;
    int result = vgc_check_epoch(device, function->program->epoch, function->short_name);
    if (result == VGC_OK)
        result = vgc_check_geometry(device, geometry, function->entry->max_threads);
    if (result != VGC_OK)
        return result;
    if (param_bytes != function->entry->param_bytes)
        return vgc_fail(VGC_INVALID_ARGUMENT, "%s takes %u bytes of parameters, not %u", function->short_name,
                        function->entry->param_bytes, param_bytes);
    struct vgc_message message;
    result = begin_launch(&message, device, geometry, params, param_bytes, vgc_waits_for_room(job));
    if (result != VGC_OK)
        return result;
    vgc_trace_name(message.job, function->short_name);
    struct vgc_body_launch body = {
        .function = function->entry->id,
        .shared_bytes = geometry->shared_bytes,
        .param_len = param_bytes,
        .flags = geometry->flags,
        .grid = VGC_EXTENTS(geometry->grid),
        .block = VGC_EXTENTS(geometry->block),
    };
    (void)vgc_message_put(&message, VGC_BYTES(body), sizeof(body));
    if (message.job->staging == NULL)
        (void)vgc_message_put(&message, params, param_bytes); /* at most VGC_PARAMS_IN_SLOT: there is room */
    else
        (void)vgc_message_readable(&message, message.job->staging, param_bytes); /* one descriptor */
    return vgc_job_run(&message, job);
}

static bool is_number(const struct vgc_param_entry *param)
{
    return param->kind == VGC_PARAM_KIND_INTEGER || param->kind == VGC_PARAM_KIND_FLOAT ||
           param->kind == VGC_PARAM_KIND_POINTER;
}

/* Puts a value of this machine into the parameter block, whose numbers are little-endian. */
static void put_value(uint8_t *block, const struct vgc_param_entry *param, const uint8_t *value)
{
    uint8_t *to = block + param->offset;
    if (!VGC_BIG_ENDIAN || !is_number(param)) {
        memcpy(to, value, param->size);
        return;
    }
    for (uint32_t i = 0; i < param->size; i++)
        to[i] = value[param->size - 1 - i];
}

static bool can_convert(const struct vgc_param_entry *param)
{
    return !VGC_BIG_ENDIAN || param->size == 1 || param->kind != VGC_PARAM_KIND_UNKNOWN;
}

int vgc_launch(struct vgc_function *function, const struct vgc_geometry *geometry, void *const *args, uint32_t num_args,
               struct vgc_job **job)
{
    uint8_t params[VGC_MAX_PARAM_BYTES];
    const struct vgc_function_entry *entry = function->entry;
    if (num_args != entry->num_params)
        return vgc_fail(VGC_INVALID_ARGUMENT, "%s takes %u arguments, not %u", function->short_name, entry->num_params,
                        num_args);
    memset(params, 0, entry->param_bytes);
    for (uint32_t i = 0; i < num_args; i++) {
        if (!can_convert(&function->params[i]))
            return vgc_fail(VGC_INVALID_ARGUMENT,
                            "parameter %u of %s is of a type that the device cannot tell, so this big-endian machine "
                            "cannot convert it; pass little-endian bytes to vgc_launch_packed()",
                            i, function->short_name);
        put_value(params, &function->params[i], args[i]);
    }
    return vgc_launch_packed(function, geometry, params, entry->param_bytes, job);
}

/* ---- what kernels print --------------------------------------------------------------------- */

bool vgc_output_waits(struct vgc_device *device)
{
    return atomic_load_explicit(&device->output_waits, memory_order_relaxed);
}

int vgc_output_read(struct vgc_device *device, char *text, uint64_t room, uint64_t *len, uint64_t *lost)
{
    struct vgc_message message;
    struct vgc_response response;
    struct vgc_body_query body = {.what = VGC_QUERY_KIND_OUTPUT};
    *len = *lost = 0;
    if (device->is_looking)
        return VGC_OK; /* it has no kernels */
    atomic_store_explicit(&device->output_waits, false, memory_order_relaxed);
    int result = vgc_message_begin(&message, device, VGC_OP_QUERY, 0, true);
    if (result != VGC_OK)
        return result;
    (void)vgc_message_put(&message, VGC_BYTES(body), sizeof(body));
    vgc_message_inline_payload(&message, text, room);
    message.response_len = (uint32_t)(sizeof(response) + message.job->inline_size); /* what is sent is taken */
    result = vgc_job_ask(&message, &response);
    if (result != VGC_OK)
        return result;
    *len = VGC_MIN(response.payload_len, VGC_MIN(room, (uint64_t)VGC_SLOT_RESPONSE_BYTES - sizeof(response)));
    *lost = response.value;
    if (response.aux > *len)
        atomic_store_explicit(&device->output_waits, true, memory_order_relaxed);
    return VGC_OK;
}
