/* From a popped chain to its handler. Request and body are copied out of shared memory once; only the copy is validated
 * and used. */
#include "internal.h"

typedef void handler(struct vgc_dp *dp, struct vgc_req *req);

enum {
    NEEDS_CONTEXT = 1,
    TRAILING = 2, /* more readable bytes may follow the body: the handler checks how many */
};

struct operation {
    handler *serve;
    uint16_t body_bytes;
    uint16_t flags;
};

static void serve_nop(struct vgc_dp *dp, struct vgc_req *req);

static const struct operation OPERATIONS[] = {
    [VGC_OP_NOP] = {serve_nop, 0, 0},
    [VGC_OP_QUERY] = {vgc_serve_query, sizeof(struct vgc_body_query), 0},
    [VGC_OP_CONTEXT_CREATE] = {vgc_serve_context_create, sizeof(struct vgc_body_context_create), 0},
    [VGC_OP_CONTEXT_DESTROY] = {vgc_serve_context_destroy, 0, 0},
    [VGC_OP_PROGRAM_LOAD] = {vgc_serve_program_load, sizeof(struct vgc_body_program_load), NEEDS_CONTEXT | TRAILING},
    [VGC_OP_PROGRAM_UNLOAD] = {vgc_serve_program_unload, sizeof(struct vgc_body_program_unload), NEEDS_CONTEXT},
    [VGC_OP_FUNCTION_LOOKUP] = {vgc_serve_cold, sizeof(struct vgc_body_lookup), NEEDS_CONTEXT | TRAILING},
    [VGC_OP_GLOBAL_LOOKUP] = {vgc_serve_cold, sizeof(struct vgc_body_lookup), NEEDS_CONTEXT | TRAILING},
    [VGC_OP_FUNCTION_LIST] = {vgc_serve_function_list, sizeof(struct vgc_body_function_list), NEEDS_CONTEXT},
    [VGC_OP_ALLOC] = {vgc_serve_alloc, sizeof(struct vgc_body_alloc), NEEDS_CONTEXT},
    [VGC_OP_FREE] = {vgc_serve_free, sizeof(struct vgc_body_free), NEEDS_CONTEXT},
    [VGC_OP_MEMORY_EXPORT] = {vgc_serve_memory_export, sizeof(struct vgc_body_memory), NEEDS_CONTEXT},
    [VGC_OP_MEMORY_OPEN] = {vgc_serve_memory_open, sizeof(struct vgc_body_key), NEEDS_CONTEXT},
    [VGC_OP_MEMORY_CLOSE] = {vgc_serve_memory_close, sizeof(struct vgc_body_memory), NEEDS_CONTEXT},
    [VGC_OP_COPY_IN] = {vgc_serve_copy_in, sizeof(struct vgc_body_copy), NEEDS_CONTEXT | TRAILING},
    [VGC_OP_COPY_OUT] = {vgc_serve_copy_out, sizeof(struct vgc_body_copy), NEEDS_CONTEXT},
    [VGC_OP_COPY_DEVICE] = {vgc_serve_copy_device, sizeof(struct vgc_body_copy), NEEDS_CONTEXT},
    [VGC_OP_FILL] = {vgc_serve_fill, sizeof(struct vgc_body_fill), NEEDS_CONTEXT},
    [VGC_OP_LAUNCH] = {vgc_serve_launch, sizeof(struct vgc_body_launch), NEEDS_CONTEXT | TRAILING},
    [VGC_OP_CALL] = {vgc_serve_call, sizeof(struct vgc_body_call), NEEDS_CONTEXT | TRAILING},
    [VGC_OP_EVENT_CREATE] = {vgc_serve_event_create, 0, NEEDS_CONTEXT},
    [VGC_OP_EVENT_DESTROY] = {vgc_serve_event_destroy, sizeof(struct vgc_body_event), NEEDS_CONTEXT},
    [VGC_OP_EVENT_RECORD] = {vgc_serve_event_record, sizeof(struct vgc_body_event), NEEDS_CONTEXT},
    [VGC_OP_EVENT_WAIT] = {vgc_serve_event_wait, sizeof(struct vgc_body_event), NEEDS_CONTEXT},
    [VGC_OP_EVENT_QUERY] = {vgc_serve_event_query, sizeof(struct vgc_body_event), NEEDS_CONTEXT},
    [VGC_OP_EVENT_SYNC] = {vgc_serve_event_sync, sizeof(struct vgc_body_event), NEEDS_CONTEXT},
    [VGC_OP_EVENT_EXPORT] = {vgc_serve_event_export, sizeof(struct vgc_body_event), NEEDS_CONTEXT},
    [VGC_OP_EVENT_OPEN] = {vgc_serve_event_open, sizeof(struct vgc_body_key), NEEDS_CONTEXT},
    [VGC_OP_ARRAY_CREATE] = {vgc_serve_array_create, sizeof(struct vgc_body_array_create), NEEDS_CONTEXT},
    [VGC_OP_ARRAY_DESTROY] = {vgc_serve_array_destroy, sizeof(struct vgc_body_array), NEEDS_CONTEXT},
    [VGC_OP_COPY_BOX] = {vgc_serve_copy_box, sizeof(struct vgc_body_copy_box), NEEDS_CONTEXT},
    [VGC_OP_TEXTURE_CREATE] = {vgc_serve_texture_create, sizeof(struct vgc_body_texture_create), NEEDS_CONTEXT},
    [VGC_OP_SURFACE_CREATE] = {vgc_serve_surface_create, sizeof(struct vgc_body_surface_create), NEEDS_CONTEXT},
    [VGC_OP_OBJECT_DESTROY] = {vgc_serve_object_destroy, sizeof(struct vgc_body_object), NEEDS_CONTEXT},
    [VGC_OP_GRAPH_CREATE] = {vgc_serve_graph_create, sizeof(struct vgc_body_graph_nodes), NEEDS_CONTEXT | TRAILING},
    [VGC_OP_GRAPH_UPDATE] = {vgc_serve_graph_update, sizeof(struct vgc_body_graph_nodes), NEEDS_CONTEXT | TRAILING},
    [VGC_OP_GRAPH_LAUNCH] = {vgc_serve_graph_launch, sizeof(struct vgc_body_graph), NEEDS_CONTEXT},
    [VGC_OP_GRAPH_DESTROY] = {vgc_serve_graph_destroy, sizeof(struct vgc_body_graph), NEEDS_CONTEXT},
    [VGC_OP_MARKS] = {vgc_serve_cold, sizeof(struct vgc_body_marks), NEEDS_CONTEXT | TRAILING},
};

/* NOP: with a context it ends in order with its stream, without one at once. */
static void serve_nop(struct vgc_dp *dp, struct vgc_req *req)
{
    if (VGC_LIKELY(req->request.context == 0)) {
        vgc_complete(dp, req, VGC_STATUS_OK, 0);
        return;
    }
    req->context = vgc_context_find(dp, req->request.context);
    if (req->context == NULL) {
        vgc_fail(dp, req, VGC_STATUS_NO_CONTEXT, "context %u does not exist", req->request.context);
        return;
    }
    req->context->in_flight++;
    vgc_op_init(req, &req->op, VGC_OPK_MARKER);
    vgc_submit(dp, req, &req->op);
}

static const struct operation *find_operation(uint16_t opcode)
{
    if (opcode >= sizeof(OPERATIONS) / sizeof(OPERATIONS[0]) || OPERATIONS[opcode].serve == NULL)
        return NULL;
    return &OPERATIONS[opcode];
}

/* Copies the body; false: the length is wrong, and the request was answered. */
static bool read_body(struct vgc_dp *dp, struct vgc_req *req, const struct operation *operation)
{
    uint64_t have = req->chain.readable_len - sizeof(struct vgc_request);
    if (have < operation->body_bytes || (have > operation->body_bytes && !(operation->flags & TRAILING))) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "%lu bytes follow the request struct; opcode %#x has %u",
                 (unsigned long)have, req->request.opcode, operation->body_bytes);
        return false;
    }
    vgc_gather(req->chain.spans, sizeof(struct vgc_request), &req->body, operation->body_bytes);
    atomic_signal_fence(memory_order_seq_cst);
    return true;
}

/* Finds the request's context; false: it does not exist, and the request was answered. */
static bool enter_context(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_context *context = vgc_context_find(dp, req->request.context);
    if (context == NULL) {
        vgc_fail(dp, req, VGC_STATUS_NO_CONTEXT, "context %u does not exist", req->request.context);
        return false;
    }
    context->in_flight++;
    req->context = context;
    return true;
}

static void dispatch(struct vgc_dp *dp, struct vgc_req *req)
{
    const struct vgc_request *request = &req->request;
    if (VGC_UNLIKELY(request->flags != 0 || request->reserved != 0)) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "flags %#x and reserved %#x must be 0", request->flags,
                 request->reserved);
        return;
    }
    const struct operation *operation = find_operation(request->opcode);
    if (VGC_UNLIKELY(operation == NULL)) {
        bool is_swapped = find_operation(__builtin_bswap16(request->opcode)) != NULL;
        vgc_fail(dp, req, VGC_STATUS_UNSUPPORTED, "opcode %#x is not known%s", request->opcode,
                 is_swapped ? ", but it is with its bytes swapped: requests are little-endian on all machines" : "");
        return;
    }
    if (VGC_UNLIKELY(request->stream >= dp->config.max_streams)) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "stream %u; allowed: 0..%u" VGC_MAY_RAISE("streams"),
                 request->stream, dp->config.max_streams - 1);
        return;
    }
    if (!read_body(dp, req, operation))
        return;
    if ((operation->flags & NEEDS_CONTEXT) && !enter_context(dp, req))
        return;
    operation->serve(dp, req);
}

static void reset(struct vgc_req *req)
{
    req->cold = false;
    req->context = NULL;
    req->event = NULL;
    req->awaited = NULL;
    req->call = NULL;
    req->plan = NULL;
    req->node_checked = 0;
    req->in_line = false;
    req->at_front = NULL;
    req->launch_op = NULL;
    req->work = NULL;
    req->workspace = NULL;
    req->popped_ns = 0;
    req->response = (struct vgc_response){0};
    req->op.error[0] = '\0';
}

/* Begins a request. Every path from here ends in vgc_complete(), exactly once. */
void vgc_request_begin(struct vgc_dp *dp, struct vgc_req *req)
{
    reset(req);
    if (VGC_UNLIKELY(!req->answerable)) {
        vgc_complete(dp, req, VGC_STATUS_BAD_REQUEST, 0);
        return;
    }
    if (VGC_UNLIKELY(req->chain.readable_len < sizeof(req->request))) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "a request of %lu bytes; allowed: %zu or more",
                 (unsigned long)req->chain.readable_len, sizeof(req->request));
        return;
    }
    if (VGC_LIKELY(req->chain.spans[0].len >= sizeof(req->request)))
        memcpy(&req->request, req->chain.spans[0].base, sizeof(req->request));
    else
        vgc_gather(req->chain.spans, 0, &req->request, sizeof(req->request));
    atomic_signal_fence(memory_order_seq_cst); /* keeps the compiler from reading shared memory again */
    if (VGC_UNLIKELY(dp->in_flight > dp->config.queue_depth)) {
        vgc_fail(dp, req, VGC_STATUS_RESOURCES_EXHAUSTED,
                 "%u requests are in flight; this VM's quota is %u" VGC_MAY_RAISE("queue-depth"), dp->in_flight - 1,
                 dp->config.queue_depth);
        return;
    }
    dispatch(dp, req);
}
