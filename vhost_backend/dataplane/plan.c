/* Plans: the nodes of graphs, read from what the driver wrote.
 *
 * A plan names functions, memory and arrays, which may go: so they are looked for again before a launch, if anything
 * has gone since. Nodes are in an order in which they can be carried out, so their dependencies are checked and then of
 * no more use. */
#include "internal.h"

/* ---- reading nodes ------------------------------------------------------------------------------------------ */

struct reader {
    const struct vgc_plan *plan;
    uint32_t at; /* in plan->bytes */
    uint32_t params_at;
};

static bool take(struct reader *reader, void *to, uint64_t size)
{
    if (size > reader->plan->nodes_len - reader->at)
        return false;
    memcpy(to, reader->plan->bytes + reader->at, size);
    reader->at += (uint32_t)size;
    return true;
}

/* Size of the body of a node; -1: no graph has such nodes. */
static int body_bytes(uint32_t opcode)
{
    switch (opcode) {
    case VGC_OP_NOP:
        return 0;
    case VGC_OP_COPY_DEVICE:
        return sizeof(struct vgc_body_copy);
    case VGC_OP_FILL:
        return sizeof(struct vgc_body_fill);
    case VGC_OP_LAUNCH:
        return sizeof(struct vgc_body_launch);
    case VGC_OP_COPY_BOX:
        return sizeof(struct vgc_body_copy_box);
    default:
        return -1;
    }
}

/* Initialises req->op for a body and checks it, like the request of the same opcode. False: the request was answered.
 */
static bool prepare(struct vgc_dp *dp, struct vgc_req *req, uint32_t opcode, const union vgc_body *body)
{
    struct vgc_op *op = &req->op;
    switch (opcode) {
    case VGC_OP_COPY_DEVICE:
        vgc_op_init(req, op, VGC_OPK_COPY_DEVICE);
        return vgc_prepare_copy_device(dp, req, &body->copy, op);
    case VGC_OP_FILL:
        vgc_op_init(req, op, VGC_OPK_FILL);
        return vgc_prepare_fill(dp, req, &body->fill, op);
    case VGC_OP_LAUNCH:
        vgc_op_init(req, op, VGC_OPK_LAUNCH);
        return vgc_prepare_launch(dp, req, &body->launch, op) != NULL;
    case VGC_OP_COPY_BOX:
        vgc_op_init(req, op, VGC_OPK_COPY_BOX);
        return vgc_prepare_copy_box(dp, req, &body->copy_box, op);
    default:
        vgc_op_init(req, op, VGC_OPK_MARKER);
        return true;
    }
}

static bool cut_short(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_plan *plan)
{
    vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "the nodes' %u bytes end inside of it", plan->nodes_len);
    return false;
}

static bool check_deps(struct vgc_dp *dp, struct vgc_req *req, struct reader *reader, uint32_t num_deps, uint32_t index)
{
    for (uint32_t i = 0; i < num_deps; i++) {
        uint32_t dep;
        if (!take(reader, &dep, sizeof(dep)))
            return cut_short(dp, req, reader->plan);
        if (dep >= index) {
            vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "it depends on node %u; allowed: nodes before it", dep);
            return false;
        }
    }
    return true;
}

static void set_node(struct vgc_node *node, const struct vgc_op *op)
{
    *node = (struct vgc_node){.kind = op->kind};
    if (op->kind == VGC_OPK_MARKER)
        return;
    if (op->kind != VGC_OPK_LAUNCH) {
        node->dst = op->dst;
        node->src = op->src;
        node->size = op->size;
        node->value = op->value;
        node->unit = op->unit;
        node->box = op->box;
        return;
    }
    node->kernel = op->kernel;
    memcpy(node->grid, op->grid, sizeof(node->grid));
    memcpy(node->block, op->block, sizeof(node->block));
    node->shared_bytes = op->shared_bytes;
    node->param_len = op->param_len;
    node->params = op->params;
    node->flags = op->flags;
}

/* Takes and checks a LAUNCH's parameters, and notes what it needs. False: the request was answered. */
static bool take_params(struct vgc_dp *dp, struct vgc_req *req, struct reader *reader, struct vgc_plan *plan,
                        uint32_t index)
{
    struct vgc_op *op = &req->op;
    uint8_t *params = plan->params + reader->params_at;
    if (!take(reader, params, op->param_len))
        return cut_short(dp, req, plan);
    reader->params_at += (op->param_len + VGC_PLAN_ALIGN - 1) & ~(uint32_t)(VGC_PLAN_ALIGN - 1);
    op->params = params;
    if (!vgc_builtin_check_params(dp, req, op->kernel, params, NULL))
        return false;
    uint64_t needed = dp->engine->ops->launch_bytes == NULL ? 0 : dp->engine->ops->launch_bytes(dp->engine, op);
    if (needed > plan->workspace_bytes) {
        plan->workspace_bytes = needed;
        plan->workspace_node = index;
    }
    if (plan->kernel == NULL)
        plan->kernel = op->kernel;
    return true;
}

static bool read_node(struct vgc_dp *dp, struct vgc_req *req, struct reader *reader, struct vgc_plan *plan,
                      uint32_t index)
{
    struct vgc_graph_node head;
    union vgc_body body;
    if (!take(reader, &head, sizeof(head)))
        return cut_short(dp, req, plan);
    int size = body_bytes(head.opcode);
    if (size < 0) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST,
                 "opcode %#x; allowed in a graph: NOP, COPY_DEVICE, FILL, LAUNCH, COPY_BOX", head.opcode);
        return false;
    }
    if (!check_deps(dp, req, reader, head.num_deps, index))
        return false;
    plan->bodies[index] = reader->at;
    if (!take(reader, &body, (uint32_t)size))
        return cut_short(dp, req, plan);
    if (!prepare(dp, req, head.opcode, &body))
        return false;
    if (req->op.kind == VGC_OPK_LAUNCH && !take_params(dp, req, reader, plan, index))
        return false;
    set_node(&plan->nodes[index], &req->op);
    return true;
}

bool vgc_plan_read(struct vgc_dp *dp, struct vgc_req *req, struct vgc_plan *plan)
{
    struct reader reader = {.plan = plan};
    plan->workspace_bytes = 0;
    plan->kernel = NULL;
    for (uint32_t i = 0; i < plan->num_nodes; i++) {
        req->node_checked = i + 1;
        if (!read_node(dp, req, &reader, plan, i))
            return false;
    }
    req->node_checked = 0;
    plan->checked = dp->removals;
    plan->is_raw = reader.at != plan->nodes_len;
    if (!plan->is_raw)
        return true;
    vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "%u bytes follow the last of %u nodes", plan->nodes_len - reader.at,
             plan->num_nodes);
    return false;
}

/* ---- before launches ---------------------------------------------------------------------------------------- */

/* True if a node that was checked anew is for the same function or memory. Ids are used again after a long time. */
static bool is_same(const struct vgc_node *node, const struct vgc_op *op)
{
    if (node->kind == VGC_OPK_LAUNCH)
        return op->kernel == node->kernel;
    bool same_box = node->kind != VGC_OPK_COPY_BOX ||
                    (op->box.to.array == node->box.to.array && op->box.from.array == node->box.from.array &&
                     op->box.dst_pitch == node->box.dst_pitch && op->box.dst_slice == node->box.dst_slice &&
                     op->box.src_pitch == node->box.src_pitch && op->box.src_slice == node->box.src_slice);
    return op->dst == node->dst && (node->kind == VGC_OPK_FILL || op->src == node->src) && same_box;
}

/* True if everything that a node names is still what it was when the plan was made. */
static bool check_node(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_plan *plan, uint32_t index)
{
    const struct vgc_node *node = &plan->nodes[index];
    static const uint16_t opcodes[] = {[VGC_OPK_COPY_DEVICE] = VGC_OP_COPY_DEVICE,
                                       [VGC_OPK_FILL] = VGC_OP_FILL,
                                       [VGC_OPK_LAUNCH] = VGC_OP_LAUNCH,
                                       [VGC_OPK_COPY_BOX] = VGC_OP_COPY_BOX};
    union vgc_body body;
    if (node->kind == VGC_OPK_MARKER)
        return true;
    uint32_t opcode = opcodes[node->kind];
    memcpy(&body, plan->bytes + plan->bodies[index], (size_t)body_bytes(opcode));
    req->node_checked = index + 1;
    if (!prepare(dp, req, opcode, &body))
        return false;
    if (is_same(node, &req->op))
        return node->kind != VGC_OPK_LAUNCH || vgc_builtin_check_params(dp, req, node->kernel, node->params, NULL);
    vgc_fail(dp, req, VGC_STATUS_NOT_FOUND, "what it names is another object now");
    return false;
}

bool vgc_plan_check(struct vgc_dp *dp, struct vgc_req *req, struct vgc_plan *plan)
{
    if (VGC_UNLIKELY(plan->is_raw))
        return vgc_plan_read(dp, req, plan);
    if (VGC_LIKELY(plan->checked == dp->removals))
        return true;
    for (uint32_t i = 0; i < plan->num_nodes; i++)
        if (!check_node(dp, req, plan, i))
            return false;
    req->node_checked = 0;
    plan->checked = dp->removals;
    return true;
}
