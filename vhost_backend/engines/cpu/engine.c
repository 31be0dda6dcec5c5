/* The CPU engine's operations and streams.
 *
 * A stream is a list of operations whose head runs. Short work is done at once by whoever finds it at the head;
 * copies are done in slices by the data-plane thread (poll), launches by the processing elements (pe.c). */
#include "control.h"

#include <cpuid.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct cpu_stream *stream_of(struct cpu_engine *engine, const struct vgc_op *op)
{
    return &engine->streams[op->context][op->stream];
}

/* ---- copies and fills --------------------------------------------------------------------------------------- */

static uint8_t *at(uint64_t address)
{
    return (uint8_t *)(uintptr_t)address;
}

/* Copies up to `limit` bytes from op->progress on between device memory and the spans. */
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

/* Device-to-device: in slices too, unless the ranges overlap. */
static void copy_device(struct vgc_op *op, uint64_t limit)
{
    bool overlaps = op->dst < op->src + op->size && op->src < op->dst + op->size;
    uint64_t len = overlaps || op->size - op->progress < limit ? op->size - op->progress : limit;
    memmove(at(op->dst + op->progress), at(op->src + op->progress), len);
    op->progress += len;
}

static bool is_copy(const struct vgc_op *op)
{
    return op->kind <= VGC_OPK_FILL && op->kind != VGC_OPK_MARKER;
}

/* A slice of a copy or fill; true when it is complete. */
static bool advance_copy(struct vgc_op *op, uint64_t limit)
{
    uint64_t len;
    switch (op->kind) {
    case VGC_OPK_COPY_DEVICE:
        copy_device(op, limit);
        break;
    case VGC_OPK_FILL:
        len = op->size - op->progress < limit ? op->size - op->progress : limit;
        fill(op->dst + op->progress, len, op->value, op->unit);
        op->progress += len;
        break;
    default:
        copy_spans(op, limit);
    }
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
        return malloc(sizeof(*launch));
    engine->free_launches = launch->next;
    return launch;
}

/* Compiled code counts threads along an axis in 31 bits. */
static bool is_too_large(const struct vgc_op *op)
{
    for (int axis = 0; axis < 3; axis++)
        if ((uint64_t)op->grid[axis] * op->block[axis] > INT32_MAX)
            return true;
    return false;
}

/* Lock held. */
static bool start_launch(struct cpu_engine *engine, struct vgc_op *op)
{
    if (is_too_large(op)) {
        op->status = VGC_STATUS_INVALID_ARGUMENT;
        snprintf(op->error, sizeof(op->error), "more than %d threads along one axis", INT32_MAX);
        return false;
    }
    struct cpu_launch *launch = new_launch(engine);
    if (launch == NULL) {
        op->status = VGC_STATUS_RESOURCES_EXHAUSTED;
        snprintf(op->error, sizeof(op->error), "no memory for a launch");
        return false;
    }
    uint64_t blocks = (uint64_t)op->grid[0] * op->grid[1] * op->grid[2];
    uint64_t batch = blocks / (engine->base.num_pes * UINT64_C(16));
    *launch = (struct cpu_launch){
        .op = op,
        .kernel = op->kernel->engine_private,
        .num_blocks = blocks,
        .num_threads = op->block[0] * op->block[1] * op->block[2],
        .number = ++engine->launches_started,
        .batch = batch < 1     ? 1
                 : batch > 256 ? 256
                               : (uint32_t)batch,
    };
    op->engine_private = launch;
    __atomic_store_n(&op->start_ns, cpu_now_ns(), __ATOMIC_RELAXED);
    cpu_pes_offer(engine, launch);
    return true;
}

/* ---- streams ------------------------------------------------------------------------------------------------ */

/* Has the record that this wait is for come to the head of its stream? Records of one event in several streams end in
 * any order, so each is looked for by its number. */
static bool has_happened(const struct cpu_engine *engine, const struct vgc_op *wait)
{
    for (const struct vgc_op *op = engine->events[wait->value].pending; op != NULL; op = op->engine_private)
        if (op->progress == wait->progress)
            return false;
    return true;
}

/* Starts what has come to the head of its stream; true if it is finished already. Lock held. */
static bool start(struct cpu_engine *engine, struct vgc_op *op)
{
    switch (op->kind) {
    case VGC_OPK_LAUNCH:
        return !start_launch(engine, op);
    case VGC_OPK_EVENT_RECORD:
        unlink_private(&engine->events[op->value].pending, op);
        op->start_ns = op->end_ns = cpu_now_ns(); /* the moment that the guest asked for */
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

/* The head of the stream is finished: gives it back and starts what follows. Lock held. */
static void retire(struct cpu_engine *engine, struct vgc_op *op)
{
    struct cpu_stream *stream = stream_of(engine, op);
    for (;;) {
        struct vgc_op *done = stream->head;
        stream->head = done->next;
        if (stream->head == NULL)
            stream->tail = NULL;
        bool next_is_done = stream->head != NULL && start(engine, stream->head);
        if (done->start_ns != 0)
            done->end_ns = cpu_now_ns();
        vgc_engine_finish(&engine->base, done);
        if (!next_is_done)
            return;
    }
}

/* Waits whose event has come. Lock held. */
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
    op->output_bytes = engine->outputs[op->context].len + engine->outputs[op->context].lost;
    launch->next = engine->free_launches;
    engine->free_launches = launch;
    retire(engine, op);
    release_waits(engine);
}

/* A wait is for the record that was submitted last before it. */
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
    return is_copy(op) && op->size <= CPU_INLINE_COPY;
}

static int cpu_submit(struct vgc_engine *base, struct vgc_op *op)
{
    struct cpu_engine *engine = cpu_engine_of(base);
    op->progress = 0;
    op->next = NULL;
    pthread_mutex_lock(&engine->lock);
    struct cpu_stream *stream = stream_of(engine, op);
    number_event(engine, op);
    bool idle = stream->head == NULL;
    if (idle && is_short(op)) {
        pthread_mutex_unlock(&engine->lock);
        while (!advance_copy(op, op->size))
            ;
        return VGC_DONE;
    }
    if (idle && start(engine, op)) {
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

static bool cpu_poll(struct vgc_engine *base)
{
    struct cpu_engine *engine = cpu_engine_of(base);
    if (!atomic_load_explicit(&engine->has_copies, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&engine->lock);
    struct vgc_op *op = engine->copies;
    pthread_mutex_unlock(&engine->lock);
    if (op->start_ns == 0)
        op->start_ns = cpu_now_ns();
    bool complete = advance_copy(op, CPU_COPY_SLICE);
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

/* Takes everything behind the head off the stream and gives it back. Lock held. */
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

/* A launch that runs ends with its current blocks; everything else at once. Lock held. */
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

static void cpu_cancel(struct vgc_engine *base, uint32_t context)
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

/* ---- the rest ----------------------------------------------------------------------------------------------- */

static int cpu_map_region(struct vgc_engine *engine, uint8_t *host, uint64_t size, uint64_t *address)
{
    (void)engine, (void)size;
    *address = (uint64_t)(uintptr_t)host;
    return 0;
}

static void cpu_describe_op(struct vgc_engine *base, const struct vgc_op *op, char *text, uint32_t size)
{
    struct cpu_engine *engine = cpu_engine_of(base);
    snprintf(text, size, "not started");
    for (uint32_t i = 0; i < engine->started_pes; i++) {
        const struct cpu_launch *launch = atomic_load(&engine->pes[i].launch);
        if (launch != NULL && launch->op == op) {
            cpu_describe(&engine->pes[i], text, size);
            cpu_hook_fault(&engine->pes[i], VGC_CTL_FAULT_DEADLINE, text);
            return;
        }
    }
}

static void free_engine(struct cpu_engine *engine)
{
    while (engine->free_launches != NULL) {
        struct cpu_launch *next = engine->free_launches->next;
        free(engine->free_launches);
        engine->free_launches = next;
    }
    cpu_firmware_stop(engine);
    cpu_control_detach(engine);
    pthread_mutex_destroy(&engine->programs_lock);
    pthread_mutex_destroy(&engine->lock);
    pthread_cond_destroy(&engine->work);
    for (uint32_t context = 0; context <= VGC_MAX_CONTEXTS; context++)
        free(engine->outputs[context].text);
    free(engine);
}

static void cpu_close(struct vgc_engine *base)
{
    cpu_pes_stop(cpu_engine_of(base));
    free_engine(cpu_engine_of(base));
}

void vgc_cpu_engine_close(struct vgc_engine *engine)
{
    cpu_close(engine);
}

static const struct vgc_engine_ops CPU_OPS = {
    .name = "cpu",
    .kind = VGC_ENGINE_KIND_CPU,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .map_region = cpu_map_region,
    .submit = cpu_submit,
    .poll = cpu_poll,
    .describe = cpu_describe_op,
    .cancel = cpu_cancel,
    .take_output = cpu_take_output,
    .alloc_at = cpu_alloc_at,
    .save = cpu_save,
    .restore = cpu_restore,
    .put_output = cpu_put_output,
    .control_attach = cpu_control_attach,
    .control_kick = cpu_control_kick,
    .control_look = cpu_control_look,
    .control_text = cpu_control_text,
    .close = cpu_close,
};

void vgc_cpu_brand(char *brand)
{
    enum { FIRST_LEAF = 0x80000002, LEAVES = 3 };
    uint32_t words[4 * LEAVES] = {0};
    if (__get_cpuid_max(0x80000000u, NULL) >= FIRST_LEAF + LEAVES - 1)
        for (uint32_t i = 0; i < LEAVES; i++)
            __cpuid(FIRST_LEAF + i, words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
    memcpy(brand, words, sizeof(words));
    brand[sizeof(words)] = '\0';
}

struct vgc_engine *vgc_cpu_engine_new(uint32_t num_pes, char *why)
{
    struct cpu_engine *engine = calloc(1, sizeof(*engine));
    if (engine == NULL || cpu_faults_install() != 0) {
        snprintf(why, VGC_CPU_WHY, "no memory for the engine");
        free(engine);
        return NULL;
    }
    engine->base.ops = &CPU_OPS;
    engine->base.num_pes = num_pes;
    engine->base.max_shared_bytes = VGC_CPU_MAX_SHARED - CPU_ALIGN;
    engine->base.alloc_granularity = CPU_ALIGN;
    engine->base.wake_fd = -1;
    pthread_mutex_init(&engine->lock, NULL);
    pthread_mutex_init(&engine->programs_lock, NULL);
    cpu_firmware_start(engine);
    pthread_cond_init(&engine->work, NULL);
    return &engine->base;
}

int vgc_cpu_engine_start(struct vgc_engine *engine, char *why)
{
    return cpu_pes_start(cpu_engine_of(engine), why);
}

uint32_t vgc_cpu_run(struct vgc_engine *engine, struct vgc_op *op)
{
    if (engine->ops->submit(engine, op) == VGC_DONE)
        return op->status;
    while (atomic_load_explicit(&engine->finished, memory_order_acquire) == NULL)
        if (!engine->ops->poll(engine))
            __builtin_ia32_pause();
    atomic_store(&engine->finished, NULL);
    return op->status;
}
