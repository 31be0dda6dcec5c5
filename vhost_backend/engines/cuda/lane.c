/* Operations of a (context, stream), in order: pending, submitted, finished.
 *
 * Operations submitted between two markers are a group and end together. A group's time begins when it becomes the
 * oldest of its lane. Its first launch carries that time for the deadline watch, so no launch may share a group with
 * long operations: kernels have a group of their own until one of their launches was short, and no launch shares a
 * group with a wait.
 *
 * A graph is submitted in batches of nodes. Each batch is a group of its own; then the graph is pending again. */
#include "cuda_engine.h"

#include <stdio.h>

/* ---- graphs ------------------------------------------------------------------------------------------------- */

/* True if a kernel of the operation may run when it is submitted. */
static bool is_launch(const struct vgc_op *op)
{
    return op->nodes != NULL ? op->kernel != NULL : op->kind == VGC_OPK_LAUNCH;
}

/* ---- list of lanes that have operations --------------------------------------------------------------------- */

static void activate(struct cuda_engine *engine, struct cuda_lane *lane)
{
    lane->prev = NULL;
    lane->next = engine->active;
    if (lane->next != NULL)
        lane->next->prev = lane;
    engine->active = lane;
}

static void deactivate(struct cuda_engine *engine, struct cuda_lane *lane)
{
    if (lane->prev != NULL)
        lane->prev->next = lane->next;
    else
        engine->active = lane->next;
    if (lane->next != NULL)
        lane->next->prev = lane->prev;
}

void cuda_lane_append(struct cuda_engine *engine, struct cuda_lane *lane, struct vgc_op *op)
{
    op->next = NULL;
    if (lane->head == NULL) {
        activate(engine, lane);
        lane->head = op;
    } else {
        lane->tail->next = op;
    }
    lane->tail = op;
    if (lane->pending == NULL)
        lane->pending = op;
}

/* ---- submitting --------------------------------------------------------------------------------------------- */

static bool has_submitted(const struct cuda_lane *lane)
{
    return lane->head != lane->pending;
}

static bool prints(const struct vgc_op *op)
{
    return op->kind == VGC_OPK_LAUNCH && cuda_kernel_of(op)->prints;
}

/* True if the driver's queues have room for `cost` more calls. */
static bool is_within_caps(const struct cuda_engine *engine, const struct cuda_lane *lane, uint32_t cost)
{
    if (lane->commands == 0)
        return engine->commands < CUDA_COMMANDS_MAX;
    return lane->commands + cost <= CUDA_LANE_COMMANDS && engine->commands + cost <= CUDA_COMMANDS;
}

/* True if no launch of another context may print now: only then is the origin of printed text known. */
static bool may_print(const struct cuda_engine *engine, const struct vgc_op *op)
{
    return engine->printing == 0 || engine->printing_context == op->context;
}

static bool may_submit(struct cuda_engine *engine, const struct cuda_lane *lane)
{
    const struct vgc_op *op = lane->pending;
    if (op->nodes != NULL && lane->stream != NULL && lane->stream->issued - lane->stream->seen + 2 > CUDA_MARKS)
        return false; /* a batch has markers on both sides */
    if (engine->draining || lane->alone)
        return false;
    if ((cuda_in_steps(op) || prints(op)) && has_submitted(lane))
        return false;
    if (prints(op) && !may_print(engine, op))
        return false;
    if ((op->kind == VGC_OPK_EVENT_WAIT && !cuda_wait_may_go(op)) || !cuda_builtin_may_go(engine, op))
        return false;
    if (cuda_in_steps(op) && cuda_scratch_is_taken(engine, lane, op))
        return false;
    if ((lane->stream == NULL && !cuda_stream_available(engine)) || !is_within_caps(engine, lane, cuda_cost(op)))
        return false;
    return cuda_gate_is_open(&engine->gate) || cuda_gate_admits(engine, lane);
}

/* Starts the time of the group that has become the oldest. */
static void start_group(struct cuda_lane *lane, uint64_t now_ns)
{
    lane->group_start_ns = now_ns;
    for (struct vgc_op *op = lane->head; op != lane->pending && op->progress == lane->head->progress; op = op->next)
        if (is_launch(op)) {
            __atomic_store_n(&op->start_ns, now_ns, __ATOMIC_RELAXED);
            return;
        }
}

/* Adds the oldest pending operation to the open group. */
static void join_group(struct cuda_engine *engine, struct cuda_lane *lane, struct vgc_op *op)
{
    lane->pending = op->next;
    op->progress = (uint32_t)(lane->stream->issued + 1);
    lane->commands += cuda_cost(op);
    engine->commands += cuda_cost(op);
    lane->open_ops++;
    lane->open_waits |= op->kind == VGC_OPK_EVENT_WAIT;
    bool is_first_launch = is_launch(op) && lane->open_launches++ == 0;
    if (op == lane->head)
        lane->group_start_ns = cuda_now_ns();
    if (is_first_launch && op->progress == lane->head->progress)
        __atomic_store_n(&op->start_ns, op == lane->head ? lane->group_start_ns : cuda_now_ns(), __ATOMIC_RELAXED);
    if (prints(op)) {
        engine->printing++;
        engine->printing_context = op->context;
    }
}

void cuda_lane_mark(struct cuda_engine *engine, struct cuda_lane *lane)
{
    if (lane->open_ops == 0 || lane->stream->issued - lane->stream->seen == CUDA_MARKS)
        return;
    drv_result error = cuda_stream_mark(engine, lane->stream);
    if (CUDA_UNLIKELY(error != DRV_SUCCESS))
        cuda_lost(engine, lane->head, error); /* the end of the group could not be detected */
    lane->open_ops = lane->open_launches = 0;
    lane->open_waits = false;
}

static void take_step(struct cuda_engine *engine, struct cuda_lane *lane)
{
    struct vgc_op *op = lane->head;
    bool submitted = false;
    drv_result error = cuda_step(engine, lane, op, &submitted);
    if (error != DRV_SUCCESS)
        cuda_op_failed(engine, op, "a copy", error);
    op->progress = (uint32_t)(lane->stream->issued + submitted);
    lane->open_ops = submitted;
}

/* Starts the pending operation, which is done in steps. */
static void start_steps(struct cuda_engine *engine, struct cuda_lane *lane)
{
    lane->stepping = true;
    lane->moved = 0;
    take_step(engine, lane);
}

static const char *what_it_is(const struct vgc_op *op)
{
    switch (op->kind) {
    case VGC_OPK_LAUNCH:
        return op->kernel->name;
    case VGC_OPK_FILL:
        return "a fill";
    case VGC_OPK_EVENT_RECORD:
        return "the record of an event";
    case VGC_OPK_EVENT_WAIT:
        return "the wait for an event";
    default:
        return "a copy";
    }
}

/* Fails the pending operation, for which no stream can be made. Its lane has no submitted operations. */
static void refuse(struct cuda_engine *engine, struct cuda_lane *lane, drv_result error)
{
    struct vgc_op *op = lane->pending;
    cuda_op_failed(engine, op, "a stream", error);
    cuda_event_leave(engine, op);
    lane->head = lane->pending = op->next;
    if (lane->head == NULL)
        deactivate(engine, lane);
    vgc_engine_finish(&engine->base, op);
}

/* Makes a graph its next node if that may share a group with the nodes before it; `cost` is that of the group. */
static bool extend_batch(struct cuda_engine *engine, struct vgc_op *op, uint32_t *cost)
{
    uint64_t group = op->progress;
    uint64_t start_ns = op->start_ns;
    bool may_last = op->kind == VGC_OPK_LAUNCH && !cuda_kernel_of(op)->is_short;
    if (may_last || prints(op) || cuda_builtin_reports(op) || !vgc_op_next_node(op))
        return false;
    cuda_note_steps(engine, op);
    *cost += cuda_node_cost(op);
    bool fits = !cuda_in_steps(op) && !prints(op) && *cost <= CUDA_BATCH && cuda_builtin_may_go(engine, op);
    if (!fits) {
        vgc_op_load_node(op, op->node - 1);
        cuda_note_steps(engine, op);
    }
    op->progress = group;
    __atomic_store_n(&op->start_ns, start_ns, __ATOMIC_RELAXED);
    return fits;
}

/* Submits a graph's node and those behind it that may share its group. */
static void submit_batch(struct cuda_engine *engine, struct cuda_lane *lane, struct vgc_op *op)
{
    const struct vgc_kernel *first = op->kind == VGC_OPK_LAUNCH ? op->kernel : NULL;
    uint32_t cost = cuda_node_cost(op);
    do {
        drv_result error = cuda_submit(engine, lane->stream, op);
        if (CUDA_UNLIKELY(error != DRV_SUCCESS))
            cuda_op_failed(engine, op, what_it_is(op), error);
        if (first == NULL && op->kind == VGC_OPK_LAUNCH)
            first = op->kernel;
    } while (op->status == VGC_STATUS_OK && extend_batch(engine, op, &cost));
    if (first != NULL)
        op->kernel = first; /* to which an error of the batch is ascribed */
    lane->alone |= op->node + 1 < op->num_nodes;
    cuda_lane_mark(engine, lane);
}

static void submit_pending(struct cuda_engine *engine, struct cuda_lane *lane)
{
    struct vgc_op *op = lane->pending;
    drv_result error = lane->stream == NULL ? cuda_stream_take(engine, &lane->stream) : DRV_SUCCESS;
    if (error != DRV_SUCCESS) {
        refuse(engine, lane, error);
        return;
    }
    bool is_behind_copies = lane->open_ops > lane->open_launches && !cuda_gate_is_open(&engine->gate);
    if ((op->kind == VGC_OPK_LAUNCH && (lane->open_waits || is_behind_copies)) || op->nodes != NULL)
        cuda_lane_mark(engine, lane); /* in turns, a launch is not charged for copies before it */
    join_group(engine, lane, op);
    op->first_node = op->node;
    lane->alone = cuda_in_steps(op) || prints(op);
    if (cuda_in_steps(op)) {
        start_steps(engine, lane);
        return;
    }
    if (op->nodes != NULL) {
        submit_batch(engine, lane, op);
        cuda_gate_submitted(engine, lane, op);
        return;
    }
    error = cuda_submit(engine, lane->stream, op);
    if (CUDA_UNLIKELY(error != DRV_SUCCESS))
        cuda_op_failed(engine, op, what_it_is(op), error);
    cuda_gate_submitted(engine, lane, op);
    if (op->kind == VGC_OPK_LAUNCH && !cuda_kernel_of(op)->is_short)
        cuda_lane_mark(engine, lane);
}

bool cuda_lane_advance(struct cuda_engine *engine, struct cuda_lane *lane)
{
    bool any = false;
    while (lane->pending != NULL && may_submit(engine, lane)) {
        submit_pending(engine, lane);
        any = true;
    }
    return any;
}

/* ---- finishing ---------------------------------------------------------------------------------------------- */

static uint32_t launches_in_oldest(const struct cuda_lane *lane)
{
    uint32_t count = 0;
    for (const struct vgc_op *op = lane->head; op != lane->pending && op->progress == lane->head->progress;
         op = op->next)
        count += cuda_launches_of(op);
    return count;
}

/* Concludes a finished operation: output, record, times. Launches of a group have got equal parts of its time. */
static drv_result conclude(struct cuda_engine *engine, struct cuda_lane *lane, struct vgc_op *op, uint64_t now_ns)
{
    switch (op->kind) {
    case VGC_OPK_EVENT_RECORD:
        return op->status == VGC_STATUS_OK ? cuda_record_happened(engine, op, now_ns) : DRV_SUCCESS;
    case VGC_OPK_LAUNCH:
        cuda_builtin_end(engine, op);
        if (prints(op)) {
            engine->printing--;
            return cuda_output_collect(engine, lane->stream, op);
        }
        return DRV_SUCCESS;
    default:
        op->start_ns = lane->group_start_ns;
        op->end_ns = now_ns;
        return DRV_SUCCESS;
    }
}

static void finish_head(struct cuda_engine *engine, struct cuda_lane *lane, uint64_t now_ns)
{
    struct vgc_op *op = lane->head;
    drv_result error = conclude(engine, lane, op, now_ns);
    if (CUDA_UNLIKELY(error != DRV_SUCCESS))
        cuda_op_failed(engine, op, what_it_is(op), error);
    cuda_event_leave(engine, op);
    lane->head = op->next;
    lane->commands -= cuda_cost(op);
    engine->commands -= cuda_cost(op);
    cuda_gate_finished(engine, op);
    vgc_engine_finish(&engine->base, op);
}

/* Notes the time of a kernel's launch. */
static void learn(struct cuda_kernel *kernel, uint64_t took_ns)
{
    kernel->took_ns = took_ns != 0 ? took_ns : 1;
    kernel->is_short = took_ns < CUDA_SHORT_NS;
}

static void finish_group(struct cuda_engine *engine, struct cuda_lane *lane, uint64_t now_ns)
{
    uint64_t number = lane->head->progress;
    uint64_t start_ns = lane->group_start_ns;
    uint64_t took_ns = now_ns - start_ns;
    uint32_t launches = launches_in_oldest(lane);
    uint32_t index = 0;
    while (has_submitted(lane) && lane->head->progress == number) {
        struct vgc_op *op = lane->head;
        if (op->nodes != NULL) {
            op->end_ns = now_ns;
        } else if (op->kind == VGC_OPK_LAUNCH) {
            op->start_ns = start_ns + took_ns * index / launches;
            op->end_ns = start_ns + took_ns * ++index / launches;
            learn(cuda_kernel_of(op), took_ns / launches);
        }
        finish_head(engine, lane, now_ns);
    }
}

/* Notes how long the kernels of a batch took, which is done. */
static void learn_from_batch(const struct cuda_lane *lane, const struct vgc_op *op, uint64_t now_ns)
{
    uint32_t launches = cuda_launches_of(op);
    for (uint32_t i = op->first_node; i <= op->node; i++)
        if (op->nodes[i].kind == VGC_OPK_LAUNCH)
            learn(op->nodes[i].kernel->engine_private, (now_ns - lane->group_start_ns) / launches);
}

/* Ends a batch of a graph, the lane's oldest operation. True if the graph has more nodes: it is pending again. */
static bool end_batch(struct cuda_engine *engine, struct cuda_lane *lane, struct vgc_op *op, uint64_t now_ns)
{
    learn_from_batch(lane, op, now_ns);
    if (op->graph_start_ns == 0)
        op->graph_start_ns = lane->group_start_ns;
    cuda_builtin_end(engine, op);
    if (op->status != VGC_STATUS_OK || op->node + 1 == op->num_nodes)
        return false;
    if (prints(op)) {
        engine->printing--;
        drv_result error = cuda_output_collect(engine, lane->stream, op);
        if (CUDA_UNLIKELY(error != DRV_SUCCESS))
            cuda_op_failed(engine, op, what_it_is(op), error);
    }
    lane->commands -= cuda_cost(op);
    engine->commands -= cuda_cost(op);
    cuda_gate_finished(engine, op);
    lane->pending = op;
    vgc_op_next_node(op);
    cuda_note_steps(engine, op);
    return true;
}

/* Finishes the oldest group, which is done, or takes the next step of an operation in steps. */
static void settle_oldest(struct cuda_engine *engine, struct cuda_lane *lane)
{
    struct vgc_op *op = lane->head;
    if (lane->stepping && lane->moved < op->size && op->status == VGC_STATUS_OK) {
        take_step(engine, lane);
        return;
    }
    if (lane->stepping)
        cuda_steps_end(engine, lane);
    uint64_t now_ns = cuda_now_ns();
    lane->alone = lane->stepping = false;
    if (op->nodes == NULL || !end_batch(engine, lane, op, now_ns)) {
        finish_group(engine, lane, now_ns);
        if (has_submitted(lane))
            start_group(lane, now_ns);
    }
    cuda_gate_moved(engine, lane);
}

/* True if the oldest group has a marker that was reached. */
static bool is_oldest_done(const struct cuda_lane *lane)
{
    return has_submitted(lane) && cuda_is_reached(lane->stream->issued, lane->head->progress) &&
           cuda_is_reached(lane->stream->seen, lane->head->progress);
}

bool cuda_lane_collect(struct cuda_engine *engine, struct cuda_lane *lane)
{
    bool any = false;
    if (lane->stream == NULL)
        return false;
    drv_result error = cuda_stream_look(engine, lane->stream);
    if (CUDA_UNLIKELY(error != DRV_SUCCESS))
        cuda_lost(engine, lane->head, error);
    while (is_oldest_done(lane) && !(lane->stepping && (any || engine->draining))) {
        settle_oldest(engine, lane);
        any = true;
    }
    if (!has_submitted(lane)) {
        cuda_stream_put(engine, lane->stream);
        lane->stream = NULL;
    }
    if (lane->head == NULL)
        deactivate(engine, lane);
    return any;
}

/* ---- cancelling, describing --------------------------------------------------------------------------------- */

static void mark_cancelled(struct vgc_op *op)
{
    if (op->status == VGC_STATUS_OK) {
        op->status = VGC_STATUS_CANCELLED;
        snprintf(op->error, sizeof(op->error), "its context was destroyed");
    }
}

/* Cancels a lane. Submitted operations run to their end, as CUDA cannot stop them; one in steps ends with its current
 * step, a graph with its current batch. */
void cuda_lane_cancel(struct cuda_engine *engine, struct cuda_lane *lane)
{
    struct vgc_op *op = lane->pending;
    if (lane->head == NULL)
        return;
    if (lane->stepping)
        mark_cancelled(lane->head);
    lane->tail = NULL;
    for (struct vgc_op *kept = lane->head; kept != op; kept = kept->next) {
        lane->tail = kept;
        if (kept->nodes != NULL)
            mark_cancelled(kept);
    }
    if (lane->tail != NULL)
        lane->tail->next = NULL;
    lane->pending = NULL;
    if (lane->head == op) {
        lane->head = NULL;
        deactivate(engine, lane);
    }
    while (op != NULL) {
        struct vgc_op *next = op->next;
        mark_cancelled(op);
        cuda_event_leave(engine, op);
        vgc_engine_finish(&engine->base, op);
        op = next;
    }
}

const struct vgc_op *cuda_lane_running(const struct cuda_lane *lane, uint32_t *in_group)
{
    *in_group = launches_in_oldest(lane);
    for (const struct vgc_op *op = lane->head; op != lane->pending; op = op->next)
        if (cuda_launches_of(op) != 0)
            return op->progress == lane->head->progress ? op : NULL;
    return NULL;
}
