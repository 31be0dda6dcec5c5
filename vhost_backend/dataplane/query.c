/* QUERY requests: the VM's usage of its quota, the output that its kernels printed, properties of the device. */
#include "internal.h"

void vgc_usage_fill(const struct vgc_dp *dp, struct vgc_usage *usage)
{
    *usage = (struct vgc_usage){
        .memory_used_bytes = dp->memory_used,
        .memory_quota_bytes = dp->config.memory_bytes,
        .requests_done = dp->requests_done,
        .requests_failed = dp->requests_failed,
        .busy_ns = dp->busy_ns,
        .num_contexts = dp->num_contexts,
        .num_programs = dp->num_programs,
        .num_allocations = dp->num_user_allocs,
        .num_pes = dp->offered_pes != 0 ? dp->offered_pes : dp->engine->num_pes,
        .in_flight = dp->in_flight,
        .generation = dp->config.generation,
    };
}

static uint64_t payload_room(const struct vgc_req *req)
{
    return req->chain.writable_len - sizeof(struct vgc_response);
}

/* Answers with as much of a struct as fits. */
static void answer(struct vgc_dp *dp, struct vgc_req *req, const void *payload, uint32_t size)
{
    uint64_t room = payload_room(req);
    uint32_t len = room < size ? (uint32_t)room : size;
    vgc_scatter(req->chain.spans + req->chain.num_readable, sizeof(struct vgc_response), payload, len);
    req->response.aux = size;
    vgc_complete(dp, req, VGC_STATUS_OK, len);
}

static void query_usage(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_usage usage;
    vgc_usage_fill(dp, &usage);
    answer(dp, req, &usage, sizeof(usage));
}

/* Moves as much output as fits into the response. Through a buffer of our own: the engine's lock must not be held while
 * guest memory is accessed, which can fault and wait. */
static uint32_t move_output(struct vgc_dp *dp, struct vgc_req *req, uint32_t context, uint32_t *left, uint64_t *lost)
{
    char text[4096];
    uint32_t moved = 0;
    uint64_t room = payload_room(req);
    do {
        uint64_t lost_now = 0;
        uint32_t size = room - moved < sizeof(text) ? (uint32_t)(room - moved) : (uint32_t)sizeof(text);
        uint32_t len = dp->engine->ops->take_output(dp->engine, context, text, size, left, &lost_now);
        vgc_scatter(req->chain.spans + req->chain.num_readable, sizeof(struct vgc_response) + moved, text, len);
        moved += len;
        *lost += lost_now;
    } while (*left != 0 && moved < room && moved < VGC_MAX_OUTPUT_BYTES);
    return moved;
}

static void query_output(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_context *context = vgc_context_find(dp, req->request.context);
    uint32_t moved = 0, left = 0;
    uint64_t lost = 0;
    if (context == NULL) {
        vgc_fail(dp, req, VGC_STATUS_NO_CONTEXT, "context %u does not exist", req->request.context);
        return;
    }
    if (dp->engine->ops->take_output != NULL)
        moved = move_output(dp, req, vgc_context_number(dp, context), &left, &lost);
    req->response.value = lost;
    req->response.aux = (uint64_t)moved + left;
    vgc_complete(dp, req, VGC_STATUS_OK, moved);
}

void vgc_serve_query(struct vgc_dp *dp, struct vgc_req *req)
{
    const struct vgc_body_query *query = &req->body.query;
    if (query->reserved != 0)
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "reserved is %#x; allowed: 0", query->reserved);
    else if (query->what == VGC_QUERY_KIND_USAGE)
        query_usage(dp, req);
    else if (query->what == VGC_QUERY_KIND_OUTPUT)
        query_output(dp, req);
    else if (query->what == VGC_QUERY_KIND_DEVICE)
        answer(dp, req, &dp->engine->properties, sizeof(dp->engine->properties));
    else
        vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "query %u; allowed: %d to %d", query->what, VGC_QUERY_KIND_USAGE,
                 VGC_QUERY_KIND_DEVICE);
}
