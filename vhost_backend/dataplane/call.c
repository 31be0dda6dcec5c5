/* CALL: copies in, launch and copies out of one function call, in one request.
 *
 * All operations are submitted to the request's stream at once, so no other operation of that stream comes between
 * them; the request ends with the last one. Buffers get one block of temporary device memory, except those that kernels
 * can use in guest memory: contiguous, aligned, in a region with a device address. */
#include "internal.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { BUFFER_ALIGN = 256, DIRECT_ALIGN = 16, READABLE = 0, WRITABLE = 1 };

int vgc_calls_init(struct vgc_dp *dp)
{
    for (uint32_t i = VGC_MAX_CALLS; i-- > 0;) {
        dp->calls[i].next = dp->free_calls;
        dp->free_calls = &dp->calls[i];
    }
    return 0;
}

/* ---- reading the request ------------------------------------------------------------------------------------ */

static bool is_in(const struct vgc_call_arg *arg)
{
    return arg->kind == VGC_ARG_KIND_IN || arg->kind == VGC_ARG_KIND_INOUT;
}

static bool is_out(const struct vgc_call_arg *arg)
{
    return arg->kind == VGC_ARG_KIND_OUT || arg->kind == VGC_ARG_KIND_INOUT;
}

static bool check_body(struct vgc_dp *dp, struct vgc_req *req)
{
    const struct vgc_body_call *body = &req->body.call;
    if (!vgc_launch_flags_check(dp, req, body->flags))
        return false;
    if (body->name_len > VGC_MAX_NAME || body->num_args > VGC_MAX_CALL_ARGS || body->value_len > VGC_MAX_PARAM_BYTES ||
        (body->function == 0) == (body->name_len == 0)) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST,
                 "function %u, name of %u bytes, %u arguments, %u value bytes; allowed: one of function and name, "
                 "at most %d, %d, %d",
                 body->function, body->name_len, body->num_args, body->value_len, VGC_MAX_NAME, VGC_MAX_CALL_ARGS,
                 VGC_MAX_PARAM_BYTES);
        return false;
    }
    uint64_t fixed = (uint64_t)body->name_len + body->num_args * sizeof(struct vgc_call_arg) + body->value_len;
    if (req->chain.readable_len - sizeof(req->request) - sizeof(*body) >= fixed)
        return true;
    vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "the request ends inside its name, arguments or values");
    return false;
}

/* Finds the function; NULL: the request was answered, or Python answers it: a name that is unknown here has reasons. */
static struct vgc_function *find_function(struct vgc_dp *dp, struct vgc_req *req, uint64_t *offset)
{
    const struct vgc_body_call *body = &req->body.call;
    uint32_t context = vgc_context_number(dp, req->context);
    char name[VGC_MAX_NAME + 1];
    vgc_gather(req->chain.spans, *offset, name, body->name_len);
    atomic_signal_fence(memory_order_seq_cst);
    name[body->name_len] = '\0';
    *offset += body->name_len;
    struct vgc_function *function = body->function != 0 ? vgc_function_find(dp, body->function, context)
                                                        : vgc_function_named(dp, context, name, body->name_len);
    if (function == NULL && body->function == 0)
        vgc_serve_cold(dp, req);
    else if (function == NULL)
        vgc_fail(dp, req, VGC_STATUS_NOT_FOUND, "context %u has no function %u", req->request.context, body->function);
    return function;
}

static bool check_arg(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_call_arg *arg,
                      const struct vgc_param_entry *param, uint32_t index)
{
    if (arg->kind > VGC_ARG_KIND_INOUT || arg->reserved != 0) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "argument %u: kind %u, reserved %u; allowed: kinds 0..3, 0", index,
                 arg->kind, arg->reserved);
        return false;
    }
    uint64_t size = arg->kind == VGC_ARG_KIND_VALUE ? arg->size : sizeof(uint64_t);
    if (size == param->size)
        return true;
    vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "argument %u is %s of %lu bytes; the function takes %u bytes there",
             index, arg->kind == VGC_ARG_KIND_VALUE ? "a value" : "a pointer", (unsigned long)size, param->size);
    return false;
}

/* Checks that the payloads of all arguments fit the chain's payload; otherwise answers the request. */
static bool check_totals(struct vgc_dp *dp, struct vgc_req *req, struct vgc_call *call, uint64_t in_offset)
{
    uint64_t in_bytes = 0;
    uint64_t value_bytes = 0;
    uint64_t in_room = req->chain.readable_len - in_offset;
    uint64_t out_room = req->chain.writable_len - sizeof(req->response);
    bool fits = true;
    for (uint32_t i = 0; i < req->body.call.num_args && fits; i++) {
        const struct vgc_call_arg *arg = &call->args[i];
        if (arg->kind == VGC_ARG_KIND_VALUE)
            value_bytes += arg->size;
        fits = !is_in(arg) || arg->size <= in_room - in_bytes;
        in_bytes += fits && is_in(arg) ? arg->size : 0;
        fits = fits && (!is_out(arg) || arg->size <= out_room - call->out_bytes);
        call->out_bytes += fits && is_out(arg) ? arg->size : 0;
    }
    if (fits && in_bytes == in_room && value_bytes == req->body.call.value_len)
        return true;
    vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST,
             "the arguments' sizes do not match: %lu readable payload bytes, %u value bytes, room for %lu",
             (unsigned long)in_room, req->body.call.value_len, (unsigned long)out_room);
    return false;
}

static bool read_args(struct vgc_dp *dp, struct vgc_req *req, struct vgc_call *call, uint64_t *offset)
{
    const struct vgc_body_call *body = &req->body.call;
    if (body->num_args != call->kernel->num_params) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "%u arguments; the function takes %u", body->num_args,
                 call->kernel->num_params);
        return false;
    }
    uint64_t bytes = body->num_args * sizeof(struct vgc_call_arg);
    vgc_gather(req->chain.spans, *offset, call->args, bytes);
    atomic_signal_fence(memory_order_seq_cst);
    *offset += bytes;
    for (uint32_t i = 0; i < body->num_args; i++)
        if (!check_arg(dp, req, &call->args[i], &call->kernel->params[i], i))
            return false;
    return check_totals(dp, req, call, *offset + body->value_len);
}

/* ---- placing buffers ---------------------------------------------------------------------------------------- */

static void slice(struct vgc_call *call, uint32_t arg, int side, const struct vgc_span *from, uint64_t offset)
{
    call->first_span[arg][side] = call->num_spans;
    call->num_arg_spans[arg][side] = vgc_slice(from, offset, call->args[arg].size, call->spans + call->num_spans);
    call->num_spans += call->num_arg_spans[arg][side];
}

static void slice_payloads(struct vgc_req *req, struct vgc_call *call, uint64_t in_offset)
{
    const struct vgc_span *writable = req->chain.spans + req->chain.num_readable;
    uint64_t out_offset = sizeof(req->response);
    for (uint32_t i = 0; i < req->body.call.num_args; i++) {
        const struct vgc_call_arg *arg = &call->args[i];
        if (is_in(arg)) {
            slice(call, i, READABLE, req->chain.spans, in_offset);
            in_offset += arg->size;
        }
        if (is_out(arg)) {
            slice(call, i, WRITABLE, writable, out_offset);
            out_offset += arg->size;
        }
    }
}

/* Device address of an argument in guest memory, 0 if kernels cannot use it in place. INOUT has two ranges, so it is
 * copied. */
static uint64_t direct_address(const struct vgc_dp *dp, const struct vgc_call *call, uint32_t arg)
{
    int side = call->args[arg].kind == VGC_ARG_KIND_IN ? READABLE : WRITABLE;
    if (dp->region_address == 0 || call->args[arg].kind == VGC_ARG_KIND_INOUT || call->num_arg_spans[arg][side] != 1)
        return 0;
    const struct vgc_span *span = &call->spans[call->first_span[arg][side]];
    uint64_t offset = (uint64_t)(span->base - dp->region->host);
    if (span->base < dp->region->host || offset + span->len > dp->region->size)
        return 0;
    uint64_t address = dp->region_address + offset;
    return address % DIRECT_ALIGN == 0 ? address : 0;
}

/* Decides on the device address of each buffer; 0 or -ENOMEM. Buffers of 0 bytes are null pointers. */
static int place_buffers(struct vgc_dp *dp, struct vgc_req *req, struct vgc_call *call)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < req->body.call.num_args; i++) {
        const struct vgc_call_arg *arg = &call->args[i];
        call->direct[i] = false;
        call->addresses[i] = 0;
        if (arg->kind == VGC_ARG_KIND_VALUE || arg->size == 0)
            continue;
        call->addresses[i] = direct_address(dp, call, i);
        call->direct[i] = call->addresses[i] != 0;
        if (call->direct[i])
            continue;
        call->addresses[i] = total;
        total += (arg->size + BUFFER_ALIGN - 1) & ~(uint64_t)(BUFFER_ALIGN - 1);
    }
    call->temp_size = total;
    if (total == 0)
        return 0;
    int error = vgc_temp_get(dp, &call->temp_size, &call->temp_address);
    if (error != 0)
        return error;
    for (uint32_t i = 0; i < req->body.call.num_args; i++)
        if (call->args[i].kind != VGC_ARG_KIND_VALUE && call->args[i].size != 0 && !call->direct[i])
            call->addresses[i] += call->temp_address;
    return 0;
}

static void fill_params(struct vgc_req *req, const struct vgc_call *call, uint64_t value_offset)
{
    memset(req->params, 0, call->kernel->param_bytes);
    for (uint32_t i = 0; i < req->body.call.num_args; i++) {
        uint8_t *to = req->params + call->kernel->params[i].offset;
        if (call->args[i].kind != VGC_ARG_KIND_VALUE) {
            memcpy(to, &call->addresses[i], sizeof(call->addresses[i]));
            continue;
        }
        vgc_gather(req->chain.spans, value_offset, to, call->args[i].size);
        value_offset += call->args[i].size;
    }
}

/* ---- operations --------------------------------------------------------------------------------------------- */

static struct vgc_op *add_op(struct vgc_req *req, enum vgc_op_kind kind)
{
    struct vgc_op *op = &req->call->ops[req->call->num_ops++];
    vgc_op_init(req, op, kind);
    return op;
}

static void add_copy(struct vgc_req *req, uint32_t arg, enum vgc_op_kind kind, int side)
{
    struct vgc_call *call = req->call;
    struct vgc_op *op = add_op(req, kind);
    op->dst = op->src = call->addresses[arg];
    op->size = call->args[arg].size;
    op->spans = call->spans + call->first_span[arg][side];
    op->num_spans = call->num_arg_spans[arg][side];
}

static void add_zeroes(struct vgc_req *req, uint32_t arg)
{
    struct vgc_op *op = add_op(req, VGC_OPK_FILL);
    op->dst = req->call->addresses[arg];
    op->size = req->call->args[arg].size;
    op->value = 0;
    op->unit = 1;
}

static void add_launch(struct vgc_req *req)
{
    const struct vgc_body_call *body = &req->body.call;
    struct vgc_op *op = add_op(req, VGC_OPK_LAUNCH);
    op->kernel = req->call->kernel;
    memcpy(op->grid, body->grid, sizeof(op->grid));
    memcpy(op->block, body->block, sizeof(op->block));
    op->shared_bytes = body->shared_bytes;
    op->flags = body->flags;
    op->param_len = req->call->kernel->param_bytes;
    op->params = req->params;
    req->call->launch = op;
}

static void add_ops(struct vgc_req *req)
{
    const struct vgc_call *call = req->call;
    for (uint32_t i = 0; i < req->body.call.num_args; i++) {
        const struct vgc_call_arg *arg = &call->args[i];
        if (arg->kind == VGC_ARG_KIND_OUT && arg->size != 0)
            add_zeroes(req, i);
        else if (is_in(arg) && arg->size != 0 && !call->direct[i])
            add_copy(req, i, VGC_OPK_COPY_IN, READABLE);
    }
    add_launch(req);
    for (uint32_t i = 0; i < req->body.call.num_args; i++)
        if (is_out(&call->args[i]) && call->args[i].size != 0 && !call->direct[i])
            add_copy(req, i, VGC_OPK_COPY_OUT, WRITABLE);
}

/* ---- start and end ------------------------------------------------------------------------------------------ */

static void put_call(struct vgc_dp *dp, struct vgc_call *call)
{
    if (call->temp_address != 0)
        vgc_temp_put(dp, call->temp_address, call->temp_size);
    call->next = dp->free_calls;
    dp->free_calls = call;
}

static void drop_pending(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_call *call = req->call;
    if (--call->pending != 0)
        return;
    uint32_t payload_len = req->response.status == VGC_STATUS_OK ? (uint32_t)call->out_bytes : 0;
    req->call = NULL;
    put_call(dp, call);
    vgc_complete(dp, req, req->response.status, payload_len);
}

/* Notes the end of an operation. The first failed one gives the request its status. */
void vgc_call_op_done(struct vgc_dp *dp, struct vgc_req *req, struct vgc_op *op)
{
    if (op->status != VGC_STATUS_OK && req->response.status == VGC_STATUS_OK) {
        req->response.status = op->status;
        req->response.detail = op->detail;
        memcpy(req->op.error, op->error, sizeof(op->error));
    }
    drop_pending(dp, req);
}

static void submit_all(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_call *call = req->call;
    uint32_t num_ops = call->num_ops;
    call->pending = num_ops + 1; /* + 1 keeps the request alive until all are submitted */
    vgc_launch_watch(dp, req, call->launch);
    for (uint32_t i = 0; i < num_ops; i++)
        vgc_submit(dp, req, &call->ops[i]);
    drop_pending(dp, req);
}

static struct vgc_call *get_call(struct vgc_dp *dp, const struct vgc_kernel *kernel)
{
    struct vgc_call *call = dp->free_calls;
    dp->free_calls = call->next;
    call->num_ops = call->num_spans = 0;
    call->temp_address = call->temp_size = call->out_bytes = 0;
    call->kernel = kernel;
    return call;
}

/* Reads and checks the request, and places buffers. False: the request was answered. */
static bool prepare(struct vgc_dp *dp, struct vgc_req *req, struct vgc_call *call, uint64_t offset)
{
    if (!read_args(dp, req, call, &offset))
        return false;
    slice_payloads(req, call, offset + req->body.call.value_len);
    if (place_buffers(dp, req, call) != 0) {
        vgc_fail(dp, req, VGC_STATUS_OUT_OF_MEMORY,
                 "the call's buffers need %lu bytes, %lu of %lu bytes free" VGC_MAY_RAISE("memory"),
                 (unsigned long)call->temp_size, (unsigned long)vgc_memory_left(dp),
                 (unsigned long)dp->config.memory_bytes);
        return false;
    }
    fill_params(req, call, offset);
    return vgc_builtin_check_params(dp, req, call->kernel, req->params, call);
}

void vgc_serve_call(struct vgc_dp *dp, struct vgc_req *req)
{
    const struct vgc_body_call *body = &req->body.call;
    uint64_t offset = sizeof(req->request) + sizeof(*body);
    if (!check_body(dp, req))
        return;
    struct vgc_function *function = find_function(dp, req, &offset);
    if (function == NULL)
        return;
    const struct vgc_kernel *kernel = vgc_launch_check(dp, req, function, body->grid, body->block, body->shared_bytes);
    if (kernel == NULL)
        return;
    if (dp->free_calls == NULL) {
        vgc_fail(dp, req, VGC_STATUS_RESOURCES_EXHAUSTED, "%d calls are in flight; that is the limit", VGC_MAX_CALLS);
        return;
    }
    struct vgc_call *call = get_call(dp, kernel);
    if (!prepare(dp, req, call, offset)) {
        put_call(dp, call);
        return;
    }
    req->call = call;
    add_ops(req);
    if (vgc_workspace_get(dp, req, call->launch) != 0) {
        memcpy(req->op.error, call->launch->error, sizeof(req->op.error));
        req->call = NULL;
        put_call(dp, call);
        vgc_complete(dp, req, VGC_STATUS_OUT_OF_MEMORY, 0);
        return;
    }
    vgc_tally_launch(dp, req, function);
    submit_all(dp, req);
}
