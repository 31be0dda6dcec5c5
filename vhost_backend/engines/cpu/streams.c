/* Operations and streams.
 *
 * A stream is a list of operations whose head runs. A short operation is done at once by the thread that makes it the
 * head; copies are done in slices by the data-plane thread (poll), launches by the processing elements (pe.c). */
#include "cpu_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cpu_stream *stream_of(struct cpu_engine *engine, const struct vgc_op *op)
{
    return &engine->streams[op->context][op->stream];
}

/* ---- copies and fills --------------------------------------------------------------------------------------- */

static uint8_t *at(uint64_t address)
{
    return (uint8_t *)(uintptr_t)address;
}

/* Copies up to `limit` bytes between device memory and the spans, from op->progress on. */
static void copy_spans(struct vgc_op *op, uint64_t limit)
{
    bool in = op->kind == VGC_OPK_COPY_IN;
    uint64_t end = op->size - op->progress < limit ? op->size : op->progress + limit;
    uint64_t span_start = 0;
    for (uint32_t i = 0; i < op->num_spans && op->progress < end; i++) {
        const struct vgc_span *span = &op->spans[i];
        uint64_t span_end = span_start + span->len;
        if (op->progress < span_end) {
            uint64_t len = (span_end < end ? span_end : end) - op->progress;
            uint8_t *guest = span->base + (op->progress - span_start);
            if (in)
                memcpy(at(op->dst + op->progress), guest, len);
            else
                memcpy(guest, at(op->src + op->progress), len);
            op->progress += len;
        }
        span_start = span_end;
    }
}

static void fill(uint64_t address, uint64_t size, uint64_t value, uint32_t unit)
{
    uint8_t *to = at(address);
    if (unit == 1) {
        memset(to, (int)(value & 0xff), size);
        return;
    }
    for (uint64_t offset = 0; offset < size; offset += unit)
        memcpy(to + offset, &value, size - offset < unit ? size - offset : unit);
}

/* Copies up to `limit` bytes device to device, from the end on which no slice overwrites what a later one reads. */
static void copy_device(struct vgc_op *op, uint64_t limit)
{
    uint64_t left = op->size - op->progress;
    uint64_t len = left < limit ? left : limit;
    uint64_t offset = op->dst > op->src ? left - len : op->progress;
    memmove(at(op->dst + offset), at(op->src + offset), len);
    op->progress += len;
}

/* Cost of a box's row in bytes of a plain copy: each may touch a page of its own. */
static uint64_t row_cost(const struct vgc_box *box)
{
    enum { LEAST = 1024 };
    return box->width > LEAST ? box->width : LEAST;
}

/* Copies rows, at least one, that cost up to about `limit` bytes. */
static void copy_box(struct vgc_op *op, uint64_t limit)
{
    const struct vgc_box *box = &op->box;
    uint64_t cost = row_cost(box);
    for (uint64_t spent = 0; spent < limit && op->progress < op->size; spent += cost) {
        uint64_t row = op->progress / box->width;
        uint64_t z = row / box->height;
        uint64_t y = row % box->height;
        memmove(at(op->dst + z * box->dst_slice + y * box->dst_pitch),
                at(op->src + z * box->src_slice + y * box->src_pitch), box->width);
        op->progress += box->width;
    }
}

static bool is_copy(const struct vgc_op *op)
{
    return op->kind == VGC_OPK_COPY_BOX || (op->kind <= VGC_OPK_FILL && op->kind != VGC_OPK_MARKER);
}

/* Bytes from op->dst to the end of what the operation writes. */
static uint64_t reach_of(const struct vgc_op *op)
{
    const struct vgc_box *box = &op->box;
    if (op->kind == VGC_OPK_COPY_OUT || op->size == 0)
        return 0;
    if (op->kind != VGC_OPK_COPY_BOX)
        return op->size;
    uint64_t rows = op->size / box->width;
    return (rows / box->height - 1) * box->dst_slice + (box->height - 1) * box->dst_pitch + box->width;
}

/* Does a slice of a copy or fill; true when it is complete. */
static bool advance_copy(struct cpu_engine *engine, struct vgc_op *op, uint64_t limit)
{
    uint64_t len;
    switch (op->kind) {
    case VGC_OPK_COPY_DEVICE:
        copy_device(op, limit);
        break;
    case VGC_OPK_COPY_BOX:
        copy_box(op, limit);
        break;
    case VGC_OPK_FILL:
        len = op->size - op->progress < limit ? op->size - op->progress : limit;
        fill(op->dst + op->progress, len, op->value, op->unit);
        op->progress += len;
        break;
    default:
        copy_spans(op, limit);
    }
    if (op->progress == op->size)
        cpu_bounds_written(&engine->bounds, op->dst, reach_of(op));
    return op->progress == op->size;
}

static void append_private(struct vgc_op **list, struct vgc_op *op)
{
    while (*list != NULL)
        list = (struct vgc_op **)&(*list)->engine_private;
    op->engine_private = NULL;
    *list = op;
}

static void unlink_private(struct vgc_op **list, const struct vgc_op *op)
{
    for (; *list != NULL; list = (struct vgc_op **)&(*list)->engine_private)
        if (*list == op) {
            *list = op->engine_private;
            return;
        }
}

/* ---- launches ----------------------------------------------------------------------------------------------- */

static struct cpu_launch *new_launch(struct cpu_engine *engine)
{
    struct cpu_launch *launch = engine->free_launches;
    if (launch == NULL)
        return aligned_alloc(CPU_CACHE_LINE, sizeof(*launch));
    engine->free_launches = launch->next;
    return launch;
}

/* Makes a launch known to the PEs. Lock held. */
static void offer(struct cpu_engine *engine, struct cpu_launch *launch)
{
    struct cpu_launch **last = &engine->launches;
    while (*last != NULL)
        last = &(*last)->next;
    launch->next = NULL;
    *last = launch;
    cpu_call_pes(engine, launch->num_blocks);
}

/* True if a launch has more threads along an axis than compiled code can count: 31 bits. */
static bool is_too_large(const struct vgc_op *op)
{
    for (int axis = 0; axis < 3; axis++)
        if ((uint64_t)op->grid[axis] * op->block[axis] > INT32_MAX)
            return true;
    return false;
}

/* True if the kernel's clusters fill the grid. */
static bool has_whole_clusters(const struct vgc_cpu_kernel_desc *kernel, const struct vgc_op *op)
{
    for (int axis = 0; axis < 3; axis++)
        if (op->grid[axis] % kernel->cluster[axis] != 0)
            return false;
    return true;
}

/* True if the kernel takes blocks of any size, or just this one. */
static bool takes_block(const struct vgc_cpu_kernel_desc *kernel, const struct vgc_op *op)
{
    return kernel->block[0] == 0 || memcmp(kernel->block, op->block, sizeof(kernel->block)) == 0;
}

/* Prepares the workspace of a launch, whose blocks have slots of `slot_bytes` if they wait for each other. */
static bool prepare_workspace(struct cpu_engine *engine, const struct vgc_op *op, size_t slot_bytes)
{
    uint64_t blocks = (uint64_t)op->grid[0] * op->grid[1] * op->grid[2];
    if (op->kernel->builtin != NULL)
        return cpu_builtin_is_ready(engine, op);
    return slot_bytes == 0 || cpu_enter_workspace(op, blocks * slot_bytes);
}

/* Lock held. */
static bool start_launch(struct cpu_engine *engine, struct vgc_op *op)
{
    if (is_too_large(op)) {
        op->status = VGC_STATUS_INVALID_ARGUMENT;
        snprintf(op->error, sizeof(op->error), "more than %d threads along one axis", INT32_MAX);
        return false;
    }
    const struct vgc_cpu_kernel_desc *kernel = op->kernel->engine_private;
    if (!has_whole_clusters(kernel, op)) {
        op->status = VGC_STATUS_INVALID_ARGUMENT;
        snprintf(op->error, sizeof(op->error),
                 "kernel '%s' has clusters of %u x %u x %u blocks, of which a grid of %u x %u x %u is no multiple",
                 kernel->name, kernel->cluster[0], kernel->cluster[1], kernel->cluster[2], op->grid[0], op->grid[1],
                 op->grid[2]);
        return false;
    }
    if (!takes_block(kernel, op)) {
        op->status = VGC_STATUS_INVALID_ARGUMENT;
        snprintf(op->error, sizeof(op->error),
                 "kernel '%s' takes blocks of just %u x %u x %u threads (.reqntid), not of %u x %u x %u", kernel->name,
                 kernel->block[0], kernel->block[1], kernel->block[2], op->block[0], op->block[1], op->block[2]);
        return false;
    }
    uint32_t num_threads = op->block[0] * op->block[1] * op->block[2];
    size_t slot_bytes = cpu_slot_bytes(kernel, num_threads, op->shared_bytes);
    if (!prepare_workspace(engine, op, slot_bytes)) {
        op->status = VGC_STATUS_RESOURCES_EXHAUSTED;
        snprintf(op->error, sizeof(op->error), "no memory %s",
                 slot_bytes != 0 ? "to run all blocks at once" : "for what the function needs while it runs");
        return false;
    }
    struct cpu_launch *launch = new_launch(engine);
    if (launch == NULL) {
        op->status = VGC_STATUS_RESOURCES_EXHAUSTED;
        snprintf(op->error, sizeof(op->error), "no memory for a launch");
        return false;
    }
    struct cpu_grid what = {.kernel = kernel, .shared_bytes = op->shared_bytes, .params = op->params};
    memcpy(what.grid, op->grid, sizeof(what.grid));
    memcpy(what.block, op->block, sizeof(what.block));
    *launch = (struct cpu_launch){.op = op, .slot_bytes = slot_bytes, .number = ++engine->launches_started};
    launch->root = launch;
    cpu_launch_set(launch, &what, engine->base.num_pes);
    op->engine_private = launch;
    if ((kernel->flags & VGC_CPU_KERNEL_INITCHECK) == 0)
        cpu_bounds_all_written(&engine->bounds), cpu_bounds_all_written(&engine->blocks);
    __atomic_store_n(&op->start_ns, cpu_now_ns(), __ATOMIC_RELAXED);
    offer(engine, launch);
    return true;
}

/* ---- streams ------------------------------------------------------------------------------------------------ */

/* True if the record that a wait waits for has reached the head of its stream. Records of an event in several streams
 * end in any order, so they are found by number. */
static bool has_happened(const struct cpu_engine *engine, const struct vgc_op *wait)
{
    for (const struct vgc_op *op = engine->events[wait->value].pending; op != NULL; op = op->engine_private)
        if (op->progress == wait->progress)
            return false;
    return true;
}

/* Starts an operation that has become the head of its stream; true if it is finished already. Lock held. */
static bool start(struct cpu_engine *engine, struct vgc_op *op)
{
    switch (op->kind) {
    case VGC_OPK_LAUNCH:
        return !start_launch(engine, op);
    case VGC_OPK_EVENT_RECORD:
        unlink_private(&engine->events[op->value].pending, op);
        op->start_ns = op->end_ns = cpu_now_ns(); /* the time that the guest reads from the event */
        return true;
    case VGC_OPK_EVENT_WAIT:
        if (has_happened(engine, op))
            return true;
        append_private(&engine->waiting, op);
        return false;
    case VGC_OPK_MARKER:
        return true;
    default:
        append_private(&engine->copies, op);
        atomic_store(&engine->has_copies, true);
        return false;
    }
}

/* Starts the head of a stream, and further nodes of a graph if their predecessors are finished at once; true if it is
 * finished already. Lock held. */
static bool start_nodes(struct cpu_engine *engine, struct vgc_op *op)
{
    if (op->nodes != NULL && op->graph_start_ns == 0)
        op->graph_start_ns = cpu_now_ns();
    do {
        if (!start(engine, op))
            return false;
    } while (vgc_op_next_node(op));
    return true;
}

/* Finishes the head of a stream and starts the operations that follow. Lock held. */
static void retire(struct cpu_engine *engine, struct vgc_op *op)
{
    struct cpu_stream *stream = stream_of(engine, op);
    for (;;) {
        struct vgc_op *done = stream->head;
        if (vgc_op_next_node(done) && !start_nodes(engine, done)) {
            if (done->kind != VGC_OPK_LAUNCH)
                vgc_engine_wake(&engine->base); /* copies and fills are done by poll */
            return;
        }
        stream->head = done->next;
        if (stream->head == NULL)
            stream->tail = NULL;
        bool next_is_done = stream->head != NULL && start_nodes(engine, stream->head);
        if (done->start_ns != 0 || done->nodes != NULL)
            done->end_ns = cpu_now_ns();
        vgc_engine_finish(&engine->base, done);
        if (!next_is_done)
            return;
    }
}

/* Finishes waits whose event has been recorded. Lock held. */
static void release_waits(struct cpu_engine *engine)
{
    struct vgc_op **link = &engine->waiting;
    while (*link != NULL) {
        struct vgc_op *op = *link;
        if (!has_happened(engine, op)) {
            link = (struct vgc_op **)&op->engine_private;
            continue;
        }
        *link = op->engine_private;
        retire(engine, op);
        link = &engine->waiting; /* retiring may have changed the list */
    }
}

void cpu_launch_finished(struct cpu_engine *engine, struct cpu_launch *launch)
{
    struct cpu_launch **link = &engine->launches;
    struct vgc_op *op = launch->op;
    while (*link != launch)
        link = &(*link)->next;
    *link = launch->next;
    cpu_leave_workspace(launch);
    cpu_drop_tails(launch);
    cpu_findings_end(launch);
    cpu_profile_print(engine, launch);
    op->output_bytes = engine->outputs[op->context].len + engine->outputs[op->context].lost;
    launch->next = engine->free_launches;
    engine->free_launches = launch;
    retire(engine, op);
    release_waits(engine);
}

/* Numbers records, and gives a wait the number of the last record before it. */
static void number_event(struct cpu_engine *engine, struct vgc_op *op)
{
    if (op->kind == VGC_OPK_EVENT_RECORD) {
        op->progress = ++engine->events[op->value].recorded;
        op->engine_private = engine->events[op->value].pending;
        engine->events[op->value].pending = op;
    } else if (op->kind == VGC_OPK_EVENT_WAIT) {
        op->progress = engine->events[op->value].recorded;
    }
}

static bool is_short(const struct vgc_op *op)
{
    uint64_t cost = op->kind == VGC_OPK_COPY_BOX ? op->size / op->box.width * row_cost(&op->box) : op->size;
    return is_copy(op) && cost <= CPU_INLINE_COPY;
}

int cpu_submit(struct vgc_engine *base, struct vgc_op *op)
{
    struct cpu_engine *engine = cpu_engine_of(base);
    op->progress = 0;
    op->next = NULL;
    pthread_mutex_lock(&engine->lock);
    struct cpu_stream *stream = stream_of(engine, op);
    number_event(engine, op);
    bool idle = stream->head == NULL;
    if (idle && op->nodes == NULL && is_short(op)) {
        pthread_mutex_unlock(&engine->lock);
        while (!advance_copy(engine, op, op->size))
            ;
        return VGC_DONE;
    }
    if (idle && start_nodes(engine, op)) {
        if (op->nodes != NULL)
            op->end_ns = cpu_now_ns();
        release_waits(engine);
        pthread_mutex_unlock(&engine->lock);
        return VGC_DONE;
    }
    if (idle)
        stream->head = op;
    else
        stream->tail->next = op;
    stream->tail = op;
    pthread_mutex_unlock(&engine->lock);
    return VGC_QUEUED;
}

bool cpu_poll(struct vgc_engine *base)
{
    struct cpu_engine *engine = cpu_engine_of(base);
    if (!atomic_load_explicit(&engine->has_copies, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&engine->lock);
    struct vgc_op *op = engine->copies;
    pthread_mutex_unlock(&engine->lock);
    if (op->start_ns == 0 && op->nodes == NULL)
        op->start_ns = cpu_now_ns();
    bool complete = advance_copy(engine, op, CPU_COPY_SLICE);
    if (!complete)
        return true;
    pthread_mutex_lock(&engine->lock);
    engine->copies = op->engine_private;
    retire(engine, op);
    release_waits(engine);
    bool more = engine->copies != NULL;
    atomic_store(&engine->has_copies, more);
    pthread_mutex_unlock(&engine->lock);
    return more;
}

/* ---- cancel ------------------------------------------------------------------------------------------------- */

static void mark_cancelled(struct vgc_op *op)
{
    if (op->status == VGC_STATUS_OK) {
        op->status = VGC_STATUS_CANCELLED;
        snprintf(op->error, sizeof(op->error), "its context was destroyed");
    }
}

/* Cancels and finishes all operations behind the stream's head. Lock held. */
static void cancel_queued(struct cpu_engine *engine, struct cpu_stream *stream)
{
    struct vgc_op *op = stream->head->next;
    stream->head->next = NULL;
    stream->tail = stream->head;
    while (op != NULL) {
        struct vgc_op *next = op->next;
        mark_cancelled(op);
        if (op->kind == VGC_OPK_EVENT_RECORD)
            unlink_private(&engine->events[op->value].pending, op);
        vgc_engine_finish(&engine->base, op);
        op = next;
    }
}

/* Cancels the head of a stream. A running launch ends with its current blocks, other operations at once. Lock held. */
static void cancel_head(struct cpu_engine *engine, struct vgc_op *op)
{
    mark_cancelled(op);
    if (op->kind == VGC_OPK_LAUNCH) {
        struct cpu_launch *launch = op->engine_private;
        atomic_store(&launch->stop, true);
        if (launch->pes == 0)
            cpu_launch_finished(engine, launch);
        return;
    }
    unlink_private(op->kind == VGC_OPK_EVENT_WAIT ? &engine->waiting : &engine->copies, op);
    atomic_store(&engine->has_copies, engine->copies != NULL);
    retire(engine, op);
}

void cpu_cancel(struct vgc_engine *base, uint32_t context)
{
    struct cpu_engine *engine = cpu_engine_of(base);
    pthread_mutex_lock(&engine->lock);
    for (uint32_t number = 0; number < VGC_MAX_STREAMS; number++) {
        struct cpu_stream *stream = &engine->streams[context][number];
        if (stream->head == NULL)
            continue;
        cancel_queued(engine, stream);
        cancel_head(engine, stream->head);
    }
    release_waits(engine);
    pthread_mutex_unlock(&engine->lock);
}
