/* Graphs: operations that the device keeps, launched by one request. */
#include <stdlib.h>
#include <string.h>

#include "program.h"

struct vgc_graph {
    struct vgc_device *device;
    uint32_t epoch;
    uint32_t id;
    uint64_t charged; /* bytes of the quota */
};

/* ---- nodes ---------------------------------------------------------------------------------- */

static const uint16_t OPCODES[] = {[VGC_NODE_EMPTY] = VGC_OP_NOP,
                                   [VGC_NODE_LAUNCH] = VGC_OP_LAUNCH,
                                   [VGC_NODE_FILL] = VGC_OP_FILL,
                                   [VGC_NODE_COPY] = VGC_OP_COPY_DEVICE};
static const uint32_t BODY_BYTES[] = {[VGC_NODE_EMPTY] = 0,
                                      [VGC_NODE_LAUNCH] = sizeof(struct vgc_body_launch),
                                      [VGC_NODE_FILL] = sizeof(struct vgc_body_fill),
                                      [VGC_NODE_COPY] = sizeof(struct vgc_body_copy)};

static int check_launch(struct vgc_device *device, const struct vgc_node *node, uint32_t index)
{
    const struct vgc_function *function = node->function;
    if (function == NULL || function->program->device != device)
        return vgc_fail(VGC_INVALID_ARGUMENT, "node %u: a function of this device must be given", index);
    int result = vgc_check_epoch(device, function->program->epoch, function->short_name);
    if (result == VGC_OK)
        result = vgc_check_geometry(device, &node->geometry, function->entry->max_threads);
    if (result != VGC_OK)
        return result;
    if (node->param_bytes != function->entry->param_bytes)
        return vgc_fail(VGC_INVALID_ARGUMENT, "node %u: %s takes %u bytes of parameters, not %u", index,
                        function->short_name, function->entry->param_bytes, node->param_bytes);
    return VGC_OK;
}

/* Checks a node, and adds its bytes on the wire to *size. */
static int check_node(struct vgc_device *device, const struct vgc_node *node, uint32_t index, uint64_t *size)
{
    if (node->kind > VGC_NODE_COPY)
        return vgc_fail(VGC_INVALID_ARGUMENT, "node %u: kind %u; allowed: VGC_NODE_*", index, node->kind);
    for (uint32_t i = 0; i < node->num_deps; i++)
        if (node->deps[i] >= index)
            return vgc_fail(VGC_INVALID_ARGUMENT, "node %u: it depends on node %u; allowed: nodes before it", index,
                            node->deps[i]);
    *size += sizeof(struct vgc_graph_node) + node->num_deps * sizeof(uint32_t) + BODY_BYTES[node->kind];
    if (node->kind != VGC_NODE_LAUNCH)
        return VGC_OK;
    *size += node->param_bytes;
    return check_launch(device, node, index);
}

static int check_nodes(struct vgc_device *device, const struct vgc_node *nodes, uint32_t num_nodes, uint64_t *size)
{
    *size = 0;
    int result = vgc_check_usable(device);
    if (result == VGC_OK && (device->config.device_features & VGC_F_GRAPHS) == 0)
        return vgc_fail(VGC_UNSUPPORTED, "this device has no graphs");
    if (result == VGC_OK && (num_nodes == 0 || num_nodes > VGC_MAX_GRAPH_NODES))
        return vgc_fail(VGC_INVALID_ARGUMENT, "a graph of %u nodes; allowed: 1 to %d", num_nodes, VGC_MAX_GRAPH_NODES);
    for (uint32_t i = 0; i < num_nodes && result == VGC_OK; i++)
        result = check_node(device, &nodes[i], i, size);
    if (result == VGC_OK && *size > VGC_MAX_GRAPH_BYTES)
        return vgc_fail(VGC_INVALID_ARGUMENT, "a graph of %llu bytes; allowed: %d", (unsigned long long)*size,
                        VGC_MAX_GRAPH_BYTES);
    if (result == VGC_OK && !vgc_quota_has(device, *size))
        return vgc_fail(VGC_OUT_OF_MEMORY,
                        "resources exhausted: a graph of %llu bytes, %llu of %llu bytes free" VGC_MAY_RAISE("memory"),
                        (unsigned long long)*size, (unsigned long long)vgc_quota_free(device),
                        (unsigned long long)atomic_load(&device->limits.memory_bytes));
    return result;
}

static uint8_t *append(uint8_t *to, const void *from, size_t size)
{
    if (size != 0)
        memcpy(to, from, size);
    return to + size;
}

static uint8_t *append_launch(uint8_t *to, const struct vgc_node *node)
{
    struct vgc_body_launch body = {.function = node->function->entry->id,
                                   .shared_bytes = node->geometry.shared_bytes,
                                   .param_len = node->param_bytes,
                                   .flags = node->geometry.flags,
                                   .grid = VGC_EXTENTS(node->geometry.grid),
                                   .block = VGC_EXTENTS(node->geometry.block)};
    to = append(to, VGC_BYTES(body), sizeof(body));
    return append(to, node->params, node->param_bytes);
}

static uint8_t *append_node(uint8_t *to, const struct vgc_node *node)
{
    struct vgc_graph_node head = {OPCODES[node->kind], node->num_deps};
    struct vgc_body_fill fill = {node->dst, node->size, node->value, node->unit, 0};
    struct vgc_body_copy copy = {node->dst, node->src, node->size};
    to = append(to, VGC_BYTES(head), sizeof(head));
    for (uint32_t i = 0; i < node->num_deps; i++) {
        uint32_t dep = vgc_le32(node->deps[i]);
        to = append(to, &dep, sizeof(dep));
    }
    if (node->kind == VGC_NODE_LAUNCH)
        return append_launch(to, node);
    if (node->kind == VGC_NODE_FILL)
        return append(to, VGC_BYTES(fill), sizeof(fill));
    return node->kind == VGC_NODE_COPY ? append(to, VGC_BYTES(copy), sizeof(copy)) : to;
}

/* Sends nodes as a new graph (`id` 0) or in place of a graph's, and waits for the response. */
static int send_nodes(struct vgc_device *device, uint32_t id, const struct vgc_node *nodes, uint32_t num_nodes,
                      struct vgc_response *response)
{
    struct vgc_message message;
    uint8_t *staging;
    uint64_t size;
    int result = check_nodes(device, nodes, num_nodes, &size);
    if (result == VGC_OK)
        result = vgc_alloc_or_reap(device, size, &staging);
    if (result != VGC_OK)
        return result;
    uint8_t *to = staging;
    for (uint32_t i = 0; i < num_nodes; i++)
        to = append_node(to, &nodes[i]);
    result = vgc_message_begin(&message, device, id == 0 ? VGC_OP_GRAPH_CREATE : VGC_OP_GRAPH_UPDATE, 0, true);
    if (result != VGC_OK) {
        (void)vgc_heap_free(device, staging);
        return result;
    }
    struct vgc_body_graph_nodes body = {.graph = id, .num_nodes = num_nodes, .nodes_len = (uint32_t)size};
    message.job->staging = staging;
    (void)vgc_message_put(&message, VGC_BYTES(body), sizeof(body));
    (void)vgc_message_readable(&message, staging, size); /* one descriptor */
    return vgc_job_ask(&message, response);
}

/* ---- graphs --------------------------------------------------------------------------------- */

int vgc_graph_create(struct vgc_device *device, const struct vgc_node *nodes, uint32_t num_nodes,
                     struct vgc_graph **out)
{
    struct vgc_response response;
    *out = NULL;
    struct vgc_graph *graph = calloc(1, sizeof(*graph));
    if (graph == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    int result = send_nodes(device, 0, nodes, num_nodes, &response);
    if (result != VGC_OK) {
        free(graph);
        return result;
    }
    *graph = (struct vgc_graph){device, device->epoch, (uint32_t)response.value, response.aux};
    vgc_quota_add(device, graph->charged);
    *out = graph;
    return VGC_OK;
}

int vgc_graph_update(struct vgc_graph *graph, const struct vgc_node *nodes, uint32_t num_nodes)
{
    struct vgc_response response;
    struct vgc_device *device = graph->device;
    int result = vgc_check_epoch(device, graph->epoch, "the graph");
    if (result == VGC_OK)
        result = send_nodes(device, graph->id, nodes, num_nodes, &response);
    if (result != VGC_OK)
        return result;
    vgc_quota_give(device, graph->charged);
    graph->charged = response.aux;
    vgc_quota_add(device, graph->charged);
    return VGC_OK;
}

int vgc_graph_launch(struct vgc_graph *graph, uint32_t stream, struct vgc_job **job)
{
    struct vgc_message message;
    struct vgc_body_graph body = {.graph = graph->id};
    int result = vgc_check_epoch(graph->device, graph->epoch, "the graph");
    if (result == VGC_OK)
        result = vgc_message_begin(&message, graph->device, VGC_OP_GRAPH_LAUNCH, stream, vgc_waits_for_room(job));
    if (result != VGC_OK)
        return result;
    (void)vgc_message_put(&message, VGC_BYTES(body), sizeof(body));
    return vgc_job_run(&message, job);
}

int vgc_graph_destroy(struct vgc_graph *graph)
{
    struct vgc_message message;
    struct vgc_response response;
    int result = VGC_OK;
    if (graph == NULL)
        return VGC_OK;
    if (graph->epoch == graph->device->epoch) {
        struct vgc_body_graph body = {.graph = graph->id};
        result = vgc_message_begin(&message, graph->device, VGC_OP_GRAPH_DESTROY, 0, true);
        if (result == VGC_OK) {
            (void)vgc_message_put(&message, VGC_BYTES(body), sizeof(body));
            result = vgc_job_ask(&message, &response);
        }
        vgc_quota_give(graph->device, graph->charged);
    }
    free(graph);
    return result;
}
