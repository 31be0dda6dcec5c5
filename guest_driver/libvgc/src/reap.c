/* Reaping: what processes held that died without giving it back.
 *
 * A dead process's context is destroyed on the host first, which cancels its work; its queues and its part of the
 * region are free once the device has returned everything. That takes requests of our own, so nothing that requests
 * are made of may ask for it: vgc_open() does, and public calls that have run short of something, once, before they
 * say so. */
#include <string.h>

#include "internal.h"

static bool owns_busy_queue(struct vgc_device *device, uint32_t client)
{
    bool busy = false;
    for (uint32_t i = 0; i < device->layout.num_queues; i++) {
        if (device->state->queue_owner[i] != client + 1 || vgc_ring_is_quiet(device, i))
            continue;
        device->transport->ops->kick(device->transport, i);
        busy = true;
    }
    return busy;
}

/* A process that died between asking for a context and noting its id left the answer in its slot. */
static void resolve_intent(struct vgc_device *device, struct vgc_client *gone)
{
    uint64_t offset = gone->intent_offset;
    if (offset == 0 || offset > device->transport->region_bytes - sizeof(struct vgc_response))
        return;
    struct vgc_response response;
    memcpy(&response, device->transport->region + offset, sizeof(response));
    if (response.status == VGC_STATUS_OK && response.value <= UINT32_MAX) {
        gone->context = (uint32_t)response.value;
        gone->context_generation = device->config.generation;
    }
    gone->intent_offset = 0;
}

static bool destroy_context(struct vgc_device *device, struct vgc_client *gone)
{
    struct vgc_message message;
    struct vgc_response response;
    if (gone->context == 0 || gone->context_generation != device->config.generation)
        return true; /* went away with its worker */
    int result = vgc_message_begin_on(&message, device->shared_queue, VGC_OP_CONTEXT_DESTROY, gone->context, 0, true);
    if (result == VGC_OK)
        result = vgc_job_ask(&message, &response);
    if (result != VGC_OK && result != VGC_NO_CONTEXT && result != VGC_DEVICE_LOST)
        return false;
    gone->context = 0;
    return true;
}

static bool reap_client(struct vgc_device *device, uint32_t client)
{
    struct vgc_client *gone = &device->state->clients[client];
    bool destroyed = destroy_context(device, gone); /* first: it cancels what keeps the queues busy */
    if (owns_busy_queue(device, client))
        return false;
    if (gone->intent_offset != 0) {
        resolve_intent(device, gone);
        destroyed = destroy_context(device, gone);
    }
    if (!destroyed)
        return false;
    vgc_state_forget(device, client);
    return true;
}

bool vgc_reap(struct vgc_device *device)
{
    bool freed = false;
    if (device->shared_queue == NULL || vgc_state_lock(device) != VGC_OK)
        return false;
    for (uint32_t client = 0; client < VGC_MAX_CLIENTS; client++)
        if (device->state->clients[client].in_use != 0 && !vgc_state_is_alive(device, client))
            freed = reap_client(device, client) || freed;
    vgc_state_unlock(device);
    return freed;
}

int vgc_alloc_or_reap(struct vgc_device *device, uint64_t size, uint8_t **pointer)
{
    int result = vgc_heap_alloc(device, size, pointer);
    if (result != VGC_RESOURCES_EXHAUSTED)
        return result;
    (void)vgc_reap(device); /* tried again in any case: reaping may have left its own words as the last error */
    return vgc_heap_alloc(device, size, pointer);
}
