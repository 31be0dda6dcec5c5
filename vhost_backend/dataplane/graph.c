/* GRAPH_*: lists of operations that the device keeps. A launch of a graph is one operation of the engine, which is one
 * node after the other (vgc_op_next_node). The nodes lie in a plan (plan.c): an update makes a new one, and launches
 * keep theirs. */
#include "internal.h"

/* ---- making, replacing, destroying -------------------------------------------------------------------------- */

/* Makes a plan of the request's nodes; NULL: the request was answered. */
static struct vgc_plan *take_plan(struct vgc_dp *dp, struct vgc_req *req)
{
    const struct vgc_body_graph_nodes *body = &req->body.graph_nodes;
    if (!dp->engine->ops->graphs) {
        vgc_fail(dp, req, VGC_STATUS_UNSUPPORTED, "the engine %s has no graphs", dp->engine->ops->name);
        return NULL;
    }
    if (body->reserved != 0 || body->num_nodes == 0 || body->num_nodes > VGC_MAX_GRAPH_NODES ||
        body->nodes_len > VGC_MAX_GRAPH_BYTES) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "%u nodes in %u bytes, reserved %u; allowed: 1..%d, 0..%d, 0",
                 body->num_nodes, body->nodes_len, body->reserved, VGC_MAX_GRAPH_NODES, VGC_MAX_GRAPH_BYTES);
        return NULL;
    }
    if (!vgc_expect_trailing(dp, req, sizeof(*body), body->nodes_len))
        return NULL;
    struct vgc_plan *plan = vgc_plan_new(dp, body->num_nodes, body->nodes_len);
    if (plan == NULL) {
        vgc_fail(dp, req, VGC_STATUS_OUT_OF_MEMORY,
                 "no memory for a graph of %u nodes in %u bytes, %lu of %lu bytes free" VGC_MAY_RAISE("memory"),
                 body->num_nodes, body->nodes_len, (unsigned long)vgc_memory_left(dp),
                 (unsigned long)dp->config.memory_bytes);
        return NULL;
    }
    vgc_gather(req->chain.spans, sizeof(req->request) + sizeof(*body), plan->bytes, body->nodes_len);
    atomic_signal_fence(memory_order_seq_cst);
    if (vgc_plan_read(dp, req, plan))
        return plan;
    vgc_plan_release(dp, plan);
    return NULL;
}

void vgc_serve_graph_create(struct vgc_dp *dp, struct vgc_req *req)
{
    uint32_t index = 0;
    if (req->body.graph_nodes.graph != 0) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "graph is %u; allowed for GRAPH_CREATE: 0",
                 req->body.graph_nodes.graph);
        return;
    }
    while (index < VGC_MAX_GRAPHS && dp->graphs[index].id != 0)
        index++;
    if (index == VGC_MAX_GRAPHS) {
        vgc_fail(dp, req, VGC_STATUS_RESOURCES_EXHAUSTED, "%d graphs exist; that is the limit", VGC_MAX_GRAPHS);
        return;
    }
    struct vgc_plan *plan = take_plan(dp, req);
    if (plan == NULL)
        return;
    uint32_t serial = dp->graphs[index].serial;
    uint32_t id = vgc_make_id(&serial, index);
    dp->graphs[index] =
        (struct vgc_graph){.id = id, .serial = serial, .context = vgc_context_number(dp, req->context), .plan = plan};
    req->response.aux = plan->charged;
    vgc_complete_value(dp, req, id);
}

/* The context's graph; NULL, and the request is answered, if there is no such graph. */
static struct vgc_graph *graph_of(struct vgc_dp *dp, struct vgc_req *req, uint32_t id)
{
    uint32_t index = vgc_index_of(id);
    if (index < VGC_MAX_GRAPHS && dp->graphs[index].id == id &&
        dp->graphs[index].context == vgc_context_number(dp, req->context))
        return &dp->graphs[index];
    vgc_fail(dp, req, VGC_STATUS_NOT_FOUND, "context %u has no graph %u", req->request.context, id);
    return NULL;
}

void vgc_serve_graph_update(struct vgc_dp *dp, struct vgc_req *req)
{
    if (req->body.graph_nodes.reserved != 0) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "reserved is %#x; allowed: 0", req->body.graph_nodes.reserved);
        return;
    }
    struct vgc_graph *graph = graph_of(dp, req, req->body.graph_nodes.graph);
    struct vgc_plan *plan = graph == NULL ? NULL : take_plan(dp, req);
    if (plan == NULL)
        return;
    vgc_plan_release(dp, graph->plan);
    graph->plan = plan;
    req->response.aux = plan->charged;
    vgc_complete(dp, req, VGC_STATUS_OK, 0);
}

/* The graph that a GRAPH_LAUNCH or GRAPH_DESTROY names; NULL: the request was answered. */
static struct vgc_graph *named_graph(struct vgc_dp *dp, struct vgc_req *req)
{
    if (req->body.graph.reserved == 0)
        return graph_of(dp, req, req->body.graph.graph);
    vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "reserved is %#x; allowed: 0", req->body.graph.reserved);
    return NULL;
}

static void forget(struct vgc_dp *dp, struct vgc_graph *graph)
{
    vgc_plan_release(dp, graph->plan);
    *graph = (struct vgc_graph){.serial = graph->serial};
}

void vgc_serve_graph_destroy(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_graph *graph = named_graph(dp, req);
    if (graph == NULL)
        return;
    forget(dp, graph);
    vgc_complete(dp, req, VGC_STATUS_OK, 0);
}

void vgc_graphs_drop_of(struct vgc_dp *dp, uint32_t context)
{
    for (uint32_t i = 0; i < VGC_MAX_GRAPHS; i++)
        if (dp->graphs[i].id != 0 && (context == 0 || dp->graphs[i].context == context))
            forget(dp, &dp->graphs[i]);
}

/* ---- launches ----------------------------------------------------------------------------------------------- */

void vgc_serve_graph_launch(struct vgc_dp *dp, struct vgc_req *req)
{
    const struct vgc_graph *graph = named_graph(dp, req);
    if (graph == NULL || !vgc_plan_check(dp, req, graph->plan))
        return;
    struct vgc_plan *plan = graph->plan;
    struct vgc_op *op = &req->op;
    vgc_op_init(req, op, VGC_OPK_MARKER);
    op->nodes = plan->nodes;
    op->num_nodes = plan->num_nodes;
    op->graph_start_ns = 0;
    if (plan->workspace_bytes != 0) {
        vgc_op_load_node(op, plan->workspace_node);
        if (vgc_workspace_get(dp, req, op) != 0) {
            vgc_complete(dp, req, VGC_STATUS_OUT_OF_MEMORY, 0);
            return;
        }
    }
    vgc_tally_begin(dp, req, VGC_TALLY_GRAPHS);
    op->kernel = plan->kernel;
    vgc_op_load_node(op, 0);
    plan->refs++;
    req->plan = plan;
    if (plan->kernel != NULL)
        vgc_launch_watch(dp, req, op);
    vgc_submit(dp, req, op);
}

/* ---- migration ---------------------------------------------------------------------------------------------- */

void vgc_graphs_save(const struct vgc_dp *dp, struct vgc_migration_graph *graphs)
{
    for (uint32_t i = 0; i < VGC_MAX_GRAPHS; i++) {
        const struct vgc_graph *graph = &dp->graphs[i];
        graphs[i] = (struct vgc_migration_graph){.id = graph->id, .serial = graph->serial, .context = graph->context};
        if (graph->id == 0)
            continue;
        graphs[i].num_nodes = graph->plan->num_nodes;
        graphs[i].nodes_len = graph->plan->nodes_len;
    }
}

int vgc_dp_save_graph(struct vgc_dp *dp, uint32_t index, void *nodes, uint32_t size)
{
    vgc_dp_lock(dp);
    const struct vgc_plan *plan = index < VGC_MAX_GRAPHS ? dp->graphs[index].plan : NULL;
    int error = plan == NULL ? -ENOENT : plan->nodes_len != size ? -ERANGE : 0;
    if (error == 0)
        memcpy(nodes, plan->bytes, size);
    vgc_dp_unlock(dp);
    return error;
}

/* The nodes are read at the first launch, as what they name may have gone before. */
static int load_graph(struct vgc_dp *dp, uint32_t index, const struct vgc_migration_graph *from, const void *nodes)
{
    if (index >= VGC_MAX_GRAPHS || dp->graphs[index].plan != NULL || !vgc_context_exists(dp, from->context) ||
        from->id == 0 || !vgc_is_id(from->id, from->serial, index) || from->num_nodes == 0 ||
        from->num_nodes > VGC_MAX_GRAPH_NODES || from->nodes_len > VGC_MAX_GRAPH_BYTES)
        return -EINVAL;
    struct vgc_plan *plan = vgc_plan_new(dp, from->num_nodes, from->nodes_len);
    if (plan == NULL)
        return -EDQUOT;
    memcpy(plan->bytes, nodes, from->nodes_len);
    dp->graphs[index] =
        (struct vgc_graph){.id = from->id, .serial = from->serial, .context = from->context, .plan = plan};
    return 0;
}

int vgc_dp_load_graph(struct vgc_dp *dp, uint32_t index, const struct vgc_migration_graph *graph, const void *nodes)
{
    vgc_dp_lock(dp);
    int error = load_graph(dp, index, graph, nodes);
    vgc_dp_unlock(dp);
    return error;
}
