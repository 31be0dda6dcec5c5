/* EVENT_*: a table of ids (see vgc_make_id in internal.h).
 *
 * An event that EVENT_OPEN makes stands for one of another context, its origin, which it keeps while it exists.
 * Requests that wait for an event themselves (EVENT_SYNC) are kept here, and end with the record that they wait for. */
#include "internal.h"

static struct vgc_event *origin_of(struct vgc_dp *dp, struct vgc_event *event)
{
    return event->origin == 0 ? event : &dp->events[event->origin - 1];
}

/* ---- life --------------------------------------------------------------------------------------------------- */

/* Takes a free entry, with its new id. NULL: the request was answered. */
static struct vgc_event *take_entry(struct vgc_dp *dp, struct vgc_req *req)
{
    uint32_t index = 0;
    while (index < VGC_MAX_EVENTS && dp->events[index].id != 0)
        index++;
    if (index == VGC_MAX_EVENTS) {
        vgc_fail(dp, req, VGC_STATUS_RESOURCES_EXHAUSTED, "%d events exist; that is the limit", VGC_MAX_EVENTS);
        return NULL;
    }
    struct vgc_event *event = &dp->events[index];
    uint32_t serial = event->serial;
    uint32_t id = vgc_make_id(&serial, index);
    *event = (struct vgc_event){.id = id, .serial = serial, .context = vgc_context_number(dp, req->context)};
    return event;
}

void vgc_serve_event_create(struct vgc_dp *dp, struct vgc_req *req)
{
    const struct vgc_event *event = take_entry(dp, req);
    if (event != NULL)
        vgc_complete_value(dp, req, event->id);
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
    if (index >= VGC_MAX_EVENTS || dp->events[index].id != id ||
        dp->events[index].context != vgc_context_number(dp, req->context)) {
        vgc_fail(dp, req, VGC_STATUS_NOT_FOUND, "context %u has no event %u", req->request.context, id);
        return NULL;
    }
    return &dp->events[index];
}

/* Frees the entry of an event that is nobody's and that nothing uses any more. */
static void forget_unused(struct vgc_event *event)
{
    if (event->context == 0 && event->in_flight == 0 && event->openers == 0)
        *event = (struct vgc_event){.serial = event->serial};
}

/* Likewise; an event that was opened gives up its origin. */
static void forget_if_unused(struct vgc_dp *dp, struct vgc_event *event)
{
    uint32_t origin = event->origin;
    forget_unused(event);
    if (origin == 0 || event->id != 0)
        return;
    dp->events[origin - 1].openers--;
    forget_unused(&dp->events[origin - 1]);
}

/* Takes the event from its context; nobody can open it any more, but those that have it open use it on. */
static void end_event(struct vgc_dp *dp, struct vgc_event *event)
{
    event->context = 0;
    if (event->share != 0)
        vgc_share_end(dp, &dp->shares[event->share - 1]);
    event->share = 0;
    forget_if_unused(dp, event);
}

void vgc_serve_event_destroy(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_event *event = event_of(dp, req);
    if (event == NULL)
        return;
    end_event(dp, event);
    vgc_complete(dp, req, VGC_STATUS_OK, 0);
}

void vgc_events_drop_of(struct vgc_dp *dp, uint32_t context)
{
    for (uint32_t i = 0; i < VGC_MAX_EVENTS; i++)
        if (dp->events[i].id != 0 && dp->events[i].context == context)
            end_event(dp, &dp->events[i]);
}

/* ---- recording and waiting ---------------------------------------------------------------------------------- */

static void use_event(struct vgc_req *req, struct vgc_event *event)
{
    req->event = event;
    event->in_flight++;
}

static void submit_event(struct vgc_dp *dp, struct vgc_req *req, struct vgc_event *event, enum vgc_op_kind kind)
{
    use_event(req, event);
    vgc_op_init(req, &req->op, kind);
    req->op.value = (uint64_t)(origin_of(dp, event) - dp->events) + 1;
    vgc_submit(dp, req, &req->op);
}

void vgc_serve_event_record(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_event *event = event_of(dp, req);
    if (event == NULL)
        return;
    origin_of(dp, event)->latest = req;
    submit_event(dp, req, event, VGC_OPK_EVENT_RECORD);
}

void vgc_serve_event_wait(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_event *event = event_of(dp, req);
    if (event != NULL)
        submit_event(dp, req, event, VGC_OPK_EVENT_WAIT);
}

void vgc_serve_event_query(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_event *event = event_of(dp, req);
    if (event != NULL)
        vgc_complete_value(dp, req, origin_of(dp, event)->latest == NULL);
}

void vgc_serve_event_sync(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_event *event = event_of(dp, req);
    if (event == NULL)
        return;
    req->awaited = origin_of(dp, event)->latest;
    if (req->awaited == NULL) {
        vgc_complete(dp, req, VGC_STATUS_OK, 0);
        return;
    }
    use_event(req, event);
    req->next = dp->waiters;
    dp->waiters = req;
}

/* Takes the requests out that wait for a record, or those of a context if `record` is NULL; linked by `next`. */
static struct vgc_req *take_waiters(struct vgc_dp *dp, const struct vgc_req *record, const struct vgc_context *context)
{
    struct vgc_req *taken = NULL;
    for (struct vgc_req **link = &dp->waiters; *link != NULL;) {
        struct vgc_req *req = *link;
        if (record != NULL ? req->awaited != record : req->context != context) {
            link = &req->next;
            continue;
        }
        *link = req->next;
        req->next = taken;
        taken = req;
    }
    return taken;
}

void vgc_waiters_cancel(struct vgc_dp *dp, const struct vgc_context *context)
{
    struct vgc_req *next;
    for (struct vgc_req *req = take_waiters(dp, NULL, context); req != NULL; req = next) {
        next = req->next;
        vgc_fail(dp, req, VGC_STATUS_CANCELLED, "its context was destroyed");
    }
}

void vgc_event_release(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_event *event = req->event;
    struct vgc_event *origin = origin_of(dp, event);
    struct vgc_req *next;
    if (origin->latest == req)
        origin->latest = NULL;
    req->event = NULL;
    event->in_flight--;
    forget_if_unused(dp, event);
    if (VGC_LIKELY(dp->waiters == NULL))
        return;
    for (struct vgc_req *waiter = take_waiters(dp, req, NULL); waiter != NULL; waiter = next) {
        next = waiter->next;
        vgc_complete(dp, waiter, VGC_STATUS_OK, 0);
    }
}

/* ---- sharing ------------------------------------------------------------------------------------------------ */

void vgc_serve_event_export(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_event *event = event_of(dp, req);
    if (event == NULL)
        return;
    if (event->origin != 0) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "event %u was opened; allowed: those that the context has made",
                 event->id);
        return;
    }
    struct vgc_share *share = event->share != 0 ? &dp->shares[event->share - 1] : vgc_share_new(dp);
    if (share == NULL) {
        vgc_fail(dp, req, VGC_STATUS_RESOURCES_EXHAUSTED, "%d allocations and events are shared; that is the limit",
                 VGC_MAX_SHARES);
        return;
    }
    share->event = (uint32_t)(event - dp->events) + 1;
    event->share = (uint32_t)(share - dp->shares) + 1;
    req->response.aux = share->key[1];
    vgc_complete_value(dp, req, share->key[0]);
}

void vgc_serve_event_open(struct vgc_dp *dp, struct vgc_req *req)
{
    const struct vgc_share *share = vgc_share_find(dp, req->body.key.key);
    if (share == NULL || share->event == 0) {
        vgc_fail(dp, req, VGC_STATUS_NOT_FOUND, "no event has this key");
        return;
    }
    uint32_t origin = share->event;
    if (dp->events[origin - 1].context == vgc_context_number(dp, req->context)) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "the event is the context's own; allowed: another context's");
        return;
    }
    struct vgc_event *event = take_entry(dp, req);
    if (event == NULL)
        return;
    event->origin = origin;
    dp->events[origin - 1].openers++;
    vgc_complete_value(dp, req, event->id);
}

/* ---- migration ---------------------------------------------------------------------------------------------- */

void vgc_events_save(const struct vgc_dp *dp, struct vgc_migration_event *events)
{
    for (uint32_t i = 0; i < VGC_MAX_EVENTS; i++)
        events[i] = (struct vgc_migration_event){dp->events[i].id, dp->events[i].serial, dp->events[i].context,
                                                 dp->events[i].origin};
}

/* True if an event that was opened has an origin that may be its. */
static bool has_origin(const struct vgc_dp *dp, const struct vgc_event *event)
{
    if (event->origin == 0)
        return true;
    const struct vgc_event *origin = event->origin <= VGC_MAX_EVENTS ? &dp->events[event->origin - 1] : NULL;
    return event->context != 0 && origin != NULL && origin->id != 0 && origin->origin == 0 &&
           origin->context != event->context;
}

static int load_event(struct vgc_dp *dp, const struct vgc_migration_event *from, uint32_t index, char *why)
{
    if (!vgc_is_id(from->id, from->serial, index) ||
        (from->id != 0 && from->context != 0 && !vgc_context_exists(dp, from->context)))
        return vgc_why(why, -EINVAL, "event %u of context number %u at place %u", from->id, from->context, index);
    dp->events[index] = (struct vgc_event){.serial = from->serial};
    if (from->id == 0)
        return 0;
    dp->events[index] =
        (struct vgc_event){.id = from->id, .serial = from->serial, .context = from->context, .origin = from->origin};
    return 0;
}

int vgc_events_load(struct vgc_dp *dp, const struct vgc_migration_event *events, char *why)
{
    int error = 0;
    for (uint32_t i = 0; i < VGC_MAX_EVENTS && error == 0; i++)
        error = load_event(dp, &events[i], i, why);
    for (uint32_t i = 0; i < VGC_MAX_EVENTS && error == 0; i++) {
        const struct vgc_event *event = &dp->events[i];
        if (event->id != 0 && !has_origin(dp, event))
            error = vgc_why(why, -EINVAL, "event %u at place %u stands for the one at place %u", event->id, i,
                            event->origin - 1);
        else if (event->origin != 0)
            dp->events[event->origin - 1].openers++;
    }
    for (uint32_t i = 0; i < VGC_MAX_EVENTS && error == 0; i++)
        if (dp->events[i].id != 0 && dp->events[i].context == 0 && dp->events[i].openers == 0)
            error = vgc_why(why, -EINVAL, "event %u at place %u is nobody's", dp->events[i].id, i);
    return error;
}
