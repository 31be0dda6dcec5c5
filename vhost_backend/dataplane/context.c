/* Contexts and events: tables of ids (see vgc_make_id in internal.h). */
#include "internal.h"

/* ---- contexts ----------------------------------------------------------------------------------------------- */

struct vgc_context *vgc_context_find(struct vgc_dp *dp, uint32_t id)
{
    uint32_t index = vgc_index_of(id);
    if (index >= VGC_MAX_CONTEXTS || dp->contexts[index].id != id || dp->contexts[index].dying)
        return NULL;
    return &dp->contexts[index];
}

void vgc_serve_context_create(struct vgc_dp *dp, struct vgc_req *req)
{
    uint32_t index = 0;
    if (req->body.context_create.fingerprint != VGC_WIRE_FINGERPRINT) {
        vgc_fail(dp, req, VGC_STATUS_UNSUPPORTED,
                 "driver and device differ in their wire format: the driver has fingerprint %016lx, this device %016lx",
                 (unsigned long)req->body.context_create.fingerprint, (unsigned long)VGC_WIRE_FINGERPRINT);
        return;
    }
    if (req->request.context != 0) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "context is %u; allowed for CONTEXT_CREATE: 0", req->request.context);
        return;
    }
    while (index < dp->config.max_contexts && dp->contexts[index].id != 0)
        index++;
    if (index == dp->config.max_contexts) {
        vgc_fail(dp, req, VGC_STATUS_RESOURCES_EXHAUSTED, "%u contexts exist; that is this VM's quota", index);
        return;
    }
    struct vgc_context *context = &dp->contexts[index];
    uint32_t serial = context->serial;
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

static void drop_events(struct vgc_dp *dp, uint32_t number)
{
    for (uint32_t i = 0; i < VGC_MAX_EVENTS; i++)
        if (dp->events[i].id != 0 && dp->events[i].context == number)
            dp->events[i] = (struct vgc_event){.serial = dp->events[i].serial};
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
        drop_events(dp, number);
        drop_output(dp, number);
        *context = (struct vgc_context){.serial = context->serial};
        dp->num_contexts--;
    }
    vgc_dp_unlock(dp);
    return error;
}

/* ---- events ------------------------------------------------------------------------------------------------- */

void vgc_serve_event_create(struct vgc_dp *dp, struct vgc_req *req)
{
    uint32_t index = 0;
    while (index < VGC_MAX_EVENTS && dp->events[index].id != 0)
        index++;
    if (index == VGC_MAX_EVENTS) {
        vgc_fail(dp, req, VGC_STATUS_RESOURCES_EXHAUSTED, "%d events exist; that is the limit", VGC_MAX_EVENTS);
        return;
    }
    struct vgc_event *event = &dp->events[index];
    uint32_t serial = event->serial;
    uint32_t id = vgc_make_id(&serial, index);
    *event = (struct vgc_event){.id = id, .serial = serial, .context = vgc_context_number(dp, req->context)};
    vgc_complete_value(dp, req, id);
}

/* The request's event; NULL, and the request is answered, if it is not an event of the context. */
static struct vgc_event *event_of(struct vgc_dp *dp, struct vgc_req *req)
{
    uint32_t id = req->body.event.event;
    uint32_t index = vgc_index_of(id);
    if (req->body.event.reserved != 0) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "reserved is %#x; allowed: 0", req->body.event.reserved);
        return NULL;
    }
    if (index >= VGC_MAX_EVENTS || dp->events[index].id != id || dp->events[index].dying ||
        dp->events[index].context != vgc_context_number(dp, req->context)) {
        vgc_fail(dp, req, VGC_STATUS_NOT_FOUND, "context %u has no event %u", req->request.context, id);
        return NULL;
    }
    return &dp->events[index];
}

static void forget_event(struct vgc_event *event)
{
    *event = (struct vgc_event){.serial = event->serial};
}

void vgc_event_release(struct vgc_event *event)
{
    event->in_flight--;
    if (event->dying && event->in_flight == 0)
        forget_event(event);
}

void vgc_serve_event_destroy(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_event *event = event_of(dp, req);
    if (event == NULL)
        return;
    event->dying = true;
    if (event->in_flight == 0)
        forget_event(event);
    vgc_complete(dp, req, VGC_STATUS_OK, 0);
}

static void submit_event(struct vgc_dp *dp, struct vgc_req *req, enum vgc_op_kind kind)
{
    struct vgc_event *event = event_of(dp, req);
    if (event == NULL)
        return;
    req->event = event;
    event->in_flight++;
    vgc_op_init(req, &req->op, kind);
    req->op.value = (uint64_t)(event - dp->events) + 1;
    vgc_submit(dp, req, &req->op);
}

void vgc_serve_event_record(struct vgc_dp *dp, struct vgc_req *req)
{
    submit_event(dp, req, VGC_OPK_EVENT_RECORD);
}

void vgc_serve_event_wait(struct vgc_dp *dp, struct vgc_req *req)
{
    submit_event(dp, req, VGC_OPK_EVENT_WAIT);
}
