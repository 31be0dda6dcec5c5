/* Contexts: a table of ids (see vgc_make_id in internal.h). */
#include "internal.h"

struct vgc_context *vgc_context_find(struct vgc_dp *dp, uint32_t id)
{
    uint32_t index = vgc_index_of(id);
    if (index >= VGC_MAX_CONTEXTS || dp->contexts[index].id != id || dp->contexts[index].dying)
        return NULL;
    return &dp->contexts[index];
}

/* Serial before the first of a worker's contexts in a slot. A process that has yet to hear that the worker was replaced
 * still names contexts of the one before: they must not be those of other processes. By the golden ratio, serials of
 * workers that follow each other are as far apart as can be. */
static uint32_t first_serial(const struct vgc_dp *dp)
{
    return dp->config.generation * 20251 & 0x7fff;
}

void vgc_serve_context_create(struct vgc_dp *dp, struct vgc_req *req)
{
    uint32_t index = 0;
    uint64_t fingerprint = req->body.context_create.fingerprint;
    if (fingerprint == __builtin_bswap64(VGC_WIRE_FINGERPRINT)) {
        vgc_fail(
            dp, req, VGC_STATUS_UNSUPPORTED,
            "driver and device differ in byte order: the driver has fingerprint %016lx, which is this device's with "
            "its bytes swapped; requests are little-endian on all machines",
            (unsigned long)fingerprint);
        return;
    }
    if (fingerprint != VGC_WIRE_FINGERPRINT) {
        vgc_fail(dp, req, VGC_STATUS_UNSUPPORTED,
                 "driver and device differ in their wire format: the driver has fingerprint %016lx, this device %016lx",
                 (unsigned long)fingerprint, (unsigned long)VGC_WIRE_FINGERPRINT);
        return;
    }
    if (req->request.context != 0) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "context is %u; allowed for CONTEXT_CREATE: 0", req->request.context);
        return;
    }
    if (dp->num_contexts >= dp->config.max_contexts) {
        vgc_fail(dp, req, VGC_STATUS_RESOURCES_EXHAUSTED,
                 "%u contexts exist; this VM's quota is %u" VGC_MAY_RAISE("contexts"), dp->num_contexts,
                 dp->config.max_contexts);
        return;
    }
    while (dp->contexts[index].id != 0)
        index++;
    struct vgc_context *context = &dp->contexts[index];
    uint32_t serial = context->serial != 0 ? context->serial : first_serial(dp);
    uint32_t id = vgc_make_id(&serial, index);
    *context = (struct vgc_context){.id = id, .serial = serial};
    dp->num_contexts++;
    vgc_complete_value(dp, req, id);
}

/* Python unloads the programs, once no request uses them any more. */
void vgc_serve_context_destroy(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_context *context = vgc_context_find(dp, req->request.context);
    if (context == NULL) {
        vgc_fail(dp, req, VGC_STATUS_NO_CONTEXT, "context %u does not exist", req->request.context);
        return;
    }
    context->dying = true;
    if (context->in_flight == 0) {
        vgc_serve_cold(dp, req);
        return;
    }
    context->destroy = req;
    dp->engine->ops->cancel(dp->engine, vgc_context_number(dp, context));
    vgc_waiters_cancel(dp, context);
}

void vgc_context_release(struct vgc_dp *dp, struct vgc_context *context)
{
    context->in_flight--;
    if (context->in_flight == 0 && context->destroy != NULL) {
        struct vgc_req *destroy = context->destroy;
        context->destroy = NULL;
        vgc_serve_cold(dp, destroy);
    }
}

static void drop_output(struct vgc_dp *dp, uint32_t number)
{
    uint32_t left;
    uint64_t lost;
    if (dp->engine->ops->take_output != NULL)
        (void)dp->engine->ops->take_output(dp->engine, number, NULL, 0, &left, &lost);
}

int vgc_dp_context_free(struct vgc_dp *dp, uint32_t number)
{
    if (number == 0 || number > VGC_MAX_CONTEXTS)
        return -EINVAL;
    vgc_dp_lock(dp);
    struct vgc_context *context = &dp->contexts[number - 1];
    int error = context->id == 0 || !context->dying || context->in_flight != 0 ? -EBUSY : 0;
    if (error == 0) {
        vgc_alloc_drop_of(dp, number, UINT32_MAX);
        vgc_arrays_drop_of(dp, number);
        vgc_graphs_drop_of(dp, number);
        vgc_events_drop_of(dp, number);
        drop_output(dp, number);
        *context = (struct vgc_context){.serial = context->serial};
        dp->num_contexts--;
    }
    vgc_dp_unlock(dp);
    return error;
}
