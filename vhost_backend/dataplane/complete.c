/* Completion of a request: operation done, response written, chain returned. Exactly once each. */
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- return to the driver ----------------------------------------------------------------------------------- */

static uint32_t write_error_text(struct vgc_req *req)
{
    uint64_t room = req->chain.writable_len - sizeof(struct vgc_response);
    uint64_t len = strnlen(req->op.error, sizeof(req->op.error) - 1);
    len = len < room ? len : room;
    vgc_scatter(req->chain.spans + req->chain.num_readable, sizeof(struct vgc_response), req->op.error, len);
    return (uint32_t)len;
}

/* Returns the bytes written. */
static uint32_t write_response(const struct vgc_dp *dp, struct vgc_req *req)
{
    const struct vgc_span *writable = req->chain.spans + req->chain.num_readable;
    req->response.allotment = dp->config.allotment;
    if (VGC_UNLIKELY(req->response.status != VGC_STATUS_OK && req->op.error[0] != '\0'))
        req->response.payload_len = write_error_text(req);
    if (VGC_LIKELY(writable->len >= sizeof(req->response)))
        memcpy(writable->base, &req->response, sizeof(req->response));
    else
        vgc_scatter(writable, 0, &req->response, sizeof(req->response));
    return (uint32_t)sizeof(req->response) + req->response.payload_len;
}

void vgc_deliver(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_queue *queue = req->queue;
    uint32_t len = req->answerable ? write_response(dp, req) : 0;
    vgc_inflight_push(queue, req->chain.head, len);
    *(volatile uint64_t *)&dp->shared->progress += 1;
    queue->dirty = true;
    queue->in_flight--;
    dp->in_flight--;
    vgc_req_put(dp, req);
    if (VGC_UNLIKELY(dp->holding) && dp->in_flight == 0)
        vgc_notify(dp); /* as vgc_dp_hold() promises */
}

void vgc_flush_call(struct vgc_queue *queue)
{
    if (!queue->dirty)
        return;
    queue->dirty = false;
    if (vgc_vq_should_call(&queue->vq) && queue->call_fd >= 0)
        vgc_signal_frontend(queue->call_fd, queue->call_may_block);
}

/* Keeps a finished request of a ring that does not run: a stopped ring gets it when it starts again, a broken one
 * never. */
static void park(struct vgc_req *req)
{
    req->next = req->queue->parked;
    req->queue->parked = req;
}

static void let_go(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_context *context = req->context;
    vgc_line_leave(dp, req);
    req->context = NULL;
    if (req->event != NULL)
        vgc_event_release(dp, req);
    if (VGC_UNLIKELY(req->plan != NULL)) {
        vgc_plan_release(dp, req->plan);
        req->plan = NULL;
    }
    if (context != NULL)
        vgc_context_release(dp, context);
}

void vgc_complete(struct vgc_dp *dp, struct vgc_req *req, uint32_t status, uint32_t payload_len)
{
    req->response.status = status;
    req->response.payload_len = payload_len;
    dp->requests_done++;
    if (VGC_UNLIKELY(status != VGC_STATUS_OK)) {
        dp->requests_failed++;
        vgc_count_failure(dp, status);
    }
    let_go(dp, req);
    if (VGC_LIKELY(vgc_queue_can_push(req->queue)))
        vgc_deliver(dp, req);
    else
        park(req);
}

void vgc_complete_value(struct vgc_dp *dp, struct vgc_req *req, uint64_t value)
{
    req->response.value = value;
    vgc_complete(dp, req, VGC_STATUS_OK, 0);
}

void vgc_fail(struct vgc_dp *dp, struct vgc_req *req, enum vgc_status status, const char *format, ...)
{
    va_list args;
    int used = 0;
    if (req->node_checked != 0)
        used = snprintf(req->op.error, sizeof(req->op.error), "node %u: ", req->node_checked - 1);
    va_start(args, format);
    vsnprintf(req->op.error + used, sizeof(req->op.error) - (size_t)used, format, args);
    va_end(args);
    vgc_complete(dp, req, status, 0);
}

bool vgc_expect_trailing(struct vgc_dp *dp, struct vgc_req *req, uint64_t body_bytes, uint64_t extra)
{
    uint64_t have = req->chain.readable_len - sizeof(struct vgc_request) - body_bytes;
    if (VGC_LIKELY(have == extra))
        return true;
    vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "%lu bytes follow the request's body; it announces %lu",
             (unsigned long)have, (unsigned long)extra);
    return false;
}

/* ---- operations --------------------------------------------------------------------------------------------- */

void vgc_op_init(struct vgc_req *req, struct vgc_op *op, enum vgc_op_kind kind)
{
    op->kind = kind;
    op->context = 0;
    op->stream = req->request.stream;
    op->request_id = req->request.request_id;
    op->num_spans = 0;
    op->workspace = op->workspace_bytes = 0;
    op->nodes = NULL;
    op->queue = (uint16_t)req->queue->index;
    op->head = req->chain.head;
    op->status = VGC_STATUS_OK;
    op->detail = 0;
    op->start_ns = op->end_ns = 0;
    op->output_bytes = 0;
    op->error[0] = '\0';
    op->owner = req;
    op->next = NULL;
    op->progress = 0;
    op->engine_private = NULL;
}

void vgc_submit(struct vgc_dp *dp, struct vgc_req *req, struct vgc_op *op)
{
    op->context = vgc_context_number(dp, req->context);
    if ((op->kind != VGC_OPK_MARKER || op->nodes != NULL) && req->popped_ns == 0)
        req->popped_ns = vgc_now_ns();
    if (dp->engine->ops->submit(dp->engine, op) == VGC_DONE) {
        vgc_op_done(dp, op);
        return;
    }
    dp->ops_queued++;
    vgc_line_join(dp, req);
}

static void count_latency(struct vgc_dp *dp, const struct vgc_req *req, uint64_t end_ns)
{
    if (req->popped_ns != 0)
        dp->latency[vgc_latency_class(end_ns > req->popped_ns ? end_ns - req->popped_ns : 0)]++;
}

static void take_times(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_op *op)
{
    if (op->start_ns == 0 || op->end_ns < op->start_ns)
        return;
    count_latency(dp, req, op->end_ns);
    req->response.queued_ns = op->start_ns > req->popped_ns ? op->start_ns - req->popped_ns : 0;
    req->response.exec_ns = op->end_ns - op->start_ns;
    if (op->kind == VGC_OPK_LAUNCH)
        dp->busy_ns += req->response.exec_ns;
}

/* Puts the number of the failed node in front of the engine's text. */
static void name_node(struct vgc_op *op)
{
    char text[sizeof(op->error)];
    if (op->status == VGC_STATUS_OK || op->status == VGC_STATUS_CANCELLED)
        return;
    memcpy(text, op->error, sizeof(text));
    snprintf(op->error, sizeof(op->error), "node %u: %.*s", op->node, (int)sizeof(text) - 32, text);
}

static void end_graph(struct vgc_dp *dp, struct vgc_req *req, struct vgc_op *op)
{
    if (req->workspace != NULL)
        vgc_workspace_put(dp, req, op);
    vgc_tally_count(dp, req, op, op->graph_start_ns);
    if (op->graph_start_ns != 0 && op->end_ns >= op->graph_start_ns) {
        uint64_t start_ns = op->graph_start_ns;
        count_latency(dp, req, op->end_ns);
        req->response.queued_ns = start_ns > req->popped_ns ? start_ns - req->popped_ns : 0;
        req->response.exec_ns = op->end_ns - start_ns;
        dp->busy_ns += req->response.exec_ns;
    }
    name_node(op);
    req->response.aux = op->output_bytes;
    req->response.detail = op->detail;
    vgc_complete(dp, req, op->status, 0);
}

void vgc_op_done(struct vgc_dp *dp, struct vgc_op *op)
{
    struct vgc_req *req = op->owner;
    if (req->launch_op == op)
        vgc_launch_unwatch(dp, req);
    if (VGC_UNLIKELY(req->plan != NULL)) {
        end_graph(dp, req, op);
        return;
    }
    if (VGC_UNLIKELY(req->workspace != NULL) && op->kind == VGC_OPK_LAUNCH)
        vgc_workspace_put(dp, req, op);
    take_times(dp, req, op);
    if (op->kind == VGC_OPK_LAUNCH) {
        vgc_tally_count(dp, req, op, op->start_ns);
        req->response.aux = op->output_bytes;
    }
    if (req->call != NULL) {
        vgc_call_op_done(dp, req, op);
        return;
    }
    uint32_t payload_len = 0;
    if (op->kind == VGC_OPK_COPY_OUT && op->status == VGC_STATUS_OK)
        payload_len = (uint32_t)op->size;
    if (op->kind == VGC_OPK_EVENT_RECORD)
        req->response.value = op->end_ns;
    req->response.detail = op->detail;
    vgc_complete(dp, req, op->status, payload_len);
}

bool vgc_reap(struct vgc_dp *dp)
{
    if (VGC_LIKELY(atomic_load_explicit(&dp->engine->finished, memory_order_relaxed) == NULL))
        return false;
    struct vgc_op *next;
    for (struct vgc_op *op = vgc_engine_take_finished(dp->engine); op != NULL; op = next) {
        next = op->next;
        dp->ops_queued--;
        vgc_op_done(dp, op);
    }
    for (uint32_t i = 0; i < dp->config.num_queues; i++)
        vgc_flush_call(&dp->queues[i]);
    return true;
}
