/* Parts of executable graphs on the device: each run of steps that the device can do by itself is a graph there, which
 * one request launches. Functions of the host, events, and copies that this process must take part in lie between. */
#include <stdlib.h>
#include <string.h>

#include "exec.h"

enum { GRAPHS = 1 << 5 /* bit of device_features [docs/device.md] */ };
enum { MOST_WIRES = 16384, MOST_BYTES = 1 << 20, MOST_ROWS = 64, WIRE_BYTES = 128, LEAST_WORKS = 2 };
#define LARGEST_COPY (UINT64_C(1) << 30)

void rt_hold_sent(struct rt_sent_graph *sent)
{
    atomic_fetch_add(&sent->users, 1);
}

void rt_drop_sent(struct rt_sent_graph *sent)
{
    if (atomic_fetch_sub(&sent->users, 1) > 1)
        return;
    (void)vgc_graph_destroy(sent->graph);
    free(sent);
}

/* ---- the device's form of steps ----------------------------------------------------------------- */

/* The segment that is being made. A wire is a node in libvgc's form. */
struct builder {
    struct CUgraphExec_st *exec;
    struct vgc_node *wires;
    uint32_t num_wires;
    uint32_t room_wires;
    uint32_t *deps; /* those of all wires, one behind the other */
    size_t num_deps;
    size_t room_deps;
    size_t bytes; /* no more than these, on their way */
    size_t num_works;
    size_t segment; /* its number, from 1 */
    size_t first;   /* step */
    bool is_changed;
};

static bool reserve_wires(struct builder *builder, size_t count)
{
    if (builder->num_wires + count <= builder->room_wires)
        return true;
    size_t room = (builder->num_wires + count) * 2;
    struct vgc_node *wires = realloc(builder->wires, room * sizeof(*wires));
    if (wires == NULL)
        return false;
    builder->wires = wires;
    builder->room_wires = (uint32_t)room;
    return true;
}

static bool reserve_deps(struct builder *builder, size_t count)
{
    if (builder->num_deps + count <= builder->room_deps)
        return true;
    size_t room = (builder->num_deps + count) * 2;
    uint32_t *deps = realloc(builder->deps, room * sizeof(*deps));
    if (deps == NULL)
        return false;
    builder->deps = deps;
    builder->room_deps = room;
    return true;
}

/* Adds a dependency: none on earlier segments, which are before this one anyhow. */
static void depend(struct builder *builder, struct vgc_node *wire, struct rt_place place)
{
    if (place.segment != builder->segment)
        return;
    builder->deps[builder->num_deps++] = place.wire;
    wire->num_deps++;
}

/* Wires that the step must follow. */
static void depend_on_edges(struct builder *builder, const struct rt_step *step, struct vgc_node *wire)
{
    const struct CUgraphNode_st *node = step->node;
    if (step->kind == RT_STEP_LEAVE) {
        depend(builder, wire, node->begin);
        for (const struct CUgraphNode_st *inner = node->child->first; inner != NULL; inner = inner->next)
            depend(builder, wire, inner->end);
        return;
    }
    for (size_t i = 0; i < node->num_after; i++)
        depend(builder, wire, node->after[i]->end);
    if (node->num_after == 0 && step->parent != NULL)
        depend(builder, wire, step->parent->begin);
}

static size_t most_deps(const struct rt_step *step)
{
    return step->kind == RT_STEP_LEAVE ? step->node->child->num_nodes + 1 : step->node->num_after + 1;
}

/* ---- what the device can do ----------------------------------------------------------------- */

/* Where the device sees memory that a copy uses. */
static bool find_address(struct rt_device *device, const void *memory, size_t size, bool on_device, uint64_t *address)
{
    struct vgc_device *opened = atomic_load(&device->device);
    uint64_t end;
    if (!on_device)
        return vgc_region_address(opened, (const char *)memory + size - 1, &end) == VGC_OK &&
               vgc_region_address(opened, memory, address) == VGC_OK;
    *address = (uint64_t)(uintptr_t)memory;
    return rt_device_of(memory, device) == device && !rt_is_spare(memory);
}

static bool place_copy(struct rt_device *device, const struct rt_copy *copy, struct vgc_node *wire)
{
    bool to_device;
    bool from_device;
    if (copy->size == 0)
        return true;
    if (copy->size > LARGEST_COPY || rt_check_copy(copy, &to_device, &from_device) != cudaSuccess ||
        !(to_device || from_device))
        return false;
    wire->kind = VGC_NODE_COPY;
    wire->size = copy->size;
    return find_address(device, copy->dst, copy->size, to_device, &wire->dst) &&
           find_address(device, copy->src, copy->size, from_device, &wire->src);
}

static size_t num_rows(const struct rt_fill *fill)
{
    bool is_slice = fill->height <= 1 || fill->pitch == fill->width;
    bool is_line = is_slice && (fill->depth <= 1 || fill->slice == fill->width * fill->height);
    if (fill->width == 0 || fill->height == 0 || fill->depth == 0)
        return 0;
    return is_line ? 1 : fill->height * fill->depth;
}

static bool place_fill(struct rt_device *device, const struct rt_fill *fill, struct vgc_node *wire)
{
    size_t rows = num_rows(fill);
    if (rows == 0)
        return true;
    wire->kind = VGC_NODE_FILL;
    wire->dst = (uint64_t)(uintptr_t)fill->dst;
    wire->size = rows == 1 ? fill->width * fill->height * fill->depth : fill->width;
    wire->value = fill->value;
    wire->unit = fill->unit;
    return rows <= MOST_ROWS && rt_device_of(fill->dst, device) == device && !rt_is_of_process(fill->dst);
}

static void place_launch(const struct rt_launch *launch, struct vgc_node *wire)
{
    struct vgc_function_info info;
    vgc_function_info(launch->loaded, &info);
    wire->kind = VGC_NODE_LAUNCH;
    wire->function = launch->loaded;
    wire->geometry = launch->geometry;
    wire->params = launch->arguments + info.num_params; /* rt_keep() has put them there */
    wire->param_bytes = info.param_bytes;
}

/* The step's (first) wire. False: the device cannot do it by itself. */
static bool place_step(struct rt_device *device, const struct rt_step *step, struct vgc_node *wire)
{
    const struct rt_operation *operation = step->node->operation;
    *wire = (struct vgc_node){.kind = VGC_NODE_EMPTY};
    if (step->node->conditional != NULL)
        return false;
    if (step->kind != RT_STEP_NODE || step->node->is_disabled || operation == NULL)
        return true;
    switch (operation->kind) {
    case RT_LAUNCH:
        place_launch(&operation->launch, wire);
        return true;
    case RT_COPY:
        return place_copy(device, &operation->copy, wire);
    case RT_FILL:
        return place_fill(device, &operation->fill, wire);
    default:
        return false;
    }
}

/* ---- building --------------------------------------------------------------------------------- */

static void end_step(const struct rt_step *step, struct rt_place place)
{
    if (step->kind == RT_STEP_ENTER)
        step->node->begin = place;
    else
        step->node->end = place;
}

/* Rows of a fill behind the first, each behind the one before. */
static void add_rows(struct builder *builder, const struct rt_fill *fill, size_t rows)
{
    for (size_t i = 1; i < rows; i++) {
        struct vgc_node *wire = &builder->wires[builder->num_wires];
        *wire = wire[-1];
        wire->dst = (uint64_t)(uintptr_t)fill->dst + i / fill->height * fill->slice + i % fill->height * fill->pitch;
        wire->num_deps = 1;
        builder->deps[builder->num_deps++] = builder->num_wires - 1;
        builder->num_wires++;
    }
}

/* False: no memory. */
static bool add_step(struct builder *builder, const struct rt_step *step, const struct vgc_node *form)
{
    bool is_fill = form->kind == VGC_NODE_FILL;
    size_t rows = is_fill ? num_rows(&step->node->operation->fill) : 1;
    if (!reserve_wires(builder, rows) || !reserve_deps(builder, most_deps(step) + rows))
        return false;
    struct vgc_node *wire = &builder->wires[builder->num_wires++];
    *wire = *form;
    depend_on_edges(builder, step, wire);
    if (is_fill)
        add_rows(builder, &step->node->operation->fill, rows);
    builder->num_works += form->kind != VGC_NODE_EMPTY;
    builder->is_changed |= step->node->is_changed;
    end_step(step, (struct rt_place){builder->segment, builder->num_wires - 1});
    return true;
}

/* Bytes of the step, or a little more. */
static size_t bytes_of(const struct rt_step *step, const struct vgc_node *form)
{
    size_t rows = form->kind == VGC_NODE_FILL ? num_rows(&step->node->operation->fill) : 1;
    return rows * WIRE_BYTES + most_deps(step) * sizeof(uint32_t) + form->param_bytes;
}

/* ---- sending ---------------------------------------------------------------------------------- */

/* Makes a graph of the wires, or replaces the nodes of one that no launch still waits to be sent with. NULL: the device
 * has no room, or refuses them; then the steps are submitted one by one, and say why. */
static struct rt_sent_graph *send(const struct builder *builder, struct rt_sent_graph *old)
{
    const uint32_t *deps = builder->deps;
    for (uint32_t i = 0; i < builder->num_wires; i++) {
        builder->wires[i].deps = deps;
        deps += builder->wires[i].num_deps;
    }
    if (old != NULL && atomic_load(&old->users) == 1 &&
        vgc_graph_update(old->graph, builder->wires, builder->num_wires) == VGC_OK)
        return old;
    if (old != NULL)
        rt_drop_sent(old);
    struct rt_sent_graph *sent = calloc(1, sizeof(*sent));
    struct vgc_device *opened = atomic_load(&builder->exec->device->device);
    if (sent != NULL && vgc_graph_create(opened, builder->wires, builder->num_wires, &sent->graph) != VGC_OK) {
        free(sent);
        return NULL;
    }
    if (sent != NULL)
        atomic_store(&sent->users, 1);
    return sent;
}

/* Graphs of the segments before, to be used again: `*old` is the first that is left. */
static struct rt_segment take_old(struct rt_segment **old, const struct rt_segment *end)
{
    while (*old < end && (*old)->sent == NULL)
        (*old)++;
    return *old < end ? *(*old)++ : (struct rt_segment){0};
}

/* Ends the segment that goes up to the step `end`. */
static void end_segment(struct builder *builder, size_t end, struct rt_segment **old, const struct rt_segment *old_end)
{
    struct CUgraphExec_st *exec = builder->exec;
    struct rt_segment *made = &exec->segments[exec->num_segments];
    if (end == builder->first)
        return;
    *made = (struct rt_segment){.first = builder->first, .end = end};
    if (builder->num_works >= LEAST_WORKS) {
        struct rt_segment before = take_old(old, old_end);
        bool is_same = before.sent != NULL && before.first == made->first && before.end == made->end;
        made->sent = is_same && !builder->is_changed ? before.sent : send(builder, before.sent);
    }
    exec->num_segments++;
    builder->first = end;
    builder->segment++;
    builder->num_wires = 0;
    builder->num_deps = builder->num_works = builder->bytes = 0;
    builder->is_changed = false;
}

static bool divide(struct builder *builder, struct rt_segment **old, const struct rt_segment *old_end)
{
    struct CUgraphExec_st *exec = builder->exec;
    struct vgc_node form;
    bool has_graphs = (exec->device->info.device_features & GRAPHS) != 0 && !rt_is_shadowed();
    for (size_t i = 0; i < exec->num_steps; i++) {
        const struct rt_step *step = &exec->steps[i];
        bool fits = has_graphs && place_step(exec->device, step, &form);
        size_t bytes = fits ? bytes_of(step, &form) : 0;
        if (!fits || builder->bytes + bytes > MOST_BYTES || builder->num_wires + MOST_ROWS > MOST_WIRES)
            end_segment(builder, i, old, old_end);
        builder->bytes += bytes;
        if (fits && bytes <= MOST_BYTES) {
            if (!add_step(builder, step, &form))
                return false;
            continue;
        }
        end_step(step, (struct rt_place){0});
        end_segment(builder, i + 1, old, old_end);
    }
    end_segment(builder, exec->num_steps, old, old_end);
    return true;
}

bool rt_make_segments(struct CUgraphExec_st *exec)
{
    struct rt_segment *before = exec->segments;
    struct rt_segment *old = before;
    const struct rt_segment *old_end = before + exec->num_segments;
    struct rt_segment *made = malloc((2 * exec->num_steps + 1) * sizeof(*made));
    if (made == NULL)
        return false;
    exec->segments = made;
    exec->num_segments = 0;
    struct builder builder = {.exec = exec, .segment = 1};
    exec->is_changed = !divide(&builder, &old, old_end);
    for (; old < old_end; old++)
        if (old->sent != NULL)
            rt_drop_sent(old->sent);
    for (size_t i = 0; i < exec->num_steps && !exec->is_changed; i++)
        exec->steps[i].node->is_changed = false;
    free(before);
    free(builder.wires);
    free(builder.deps);
    return !exec->is_changed;
}

void rt_free_segments(struct CUgraphExec_st *exec)
{
    for (size_t i = 0; i < exec->num_segments; i++)
        if (exec->segments[i].sent != NULL)
            rt_drop_sent(exec->segments[i].sent);
    free(exec->segments);
    exec->segments = NULL;
    exec->num_segments = 0;
}
