/* The null engine: does nothing, in order. It is a template for engines, and the data path is tested and measured with
 * it.
 *
 * Operations are finished at once, unless a kernel's behaviour says otherwise (enum vgc_null_behaviour): a held launch
 * holds its stream, so that later operations wait in a list. */
#include "internal.h"

#include <stdlib.h>

#define LOWEST_ADDRESS (UINT64_C(1) << 32)
#define LARGEST (UINT64_C(1) << 46)

struct null_engine {
    struct vgc_engine base;
    uint64_t next_address;
    struct vgc_op *waiting; /* oldest first */
    bool released;          /* by RELEASE: all waiting operations may go on */
};

static struct null_engine *self_of(struct vgc_engine *engine)
{
    return (struct null_engine *)engine;
}

static struct vgc_null_kernel kernel_of(const struct vgc_op *op)
{
    if (op->kind != VGC_OPK_LAUNCH || op->kernel->engine_private == NULL)
        return (struct vgc_null_kernel){.behaviour = VGC_NULL_DONE};
    return *(const struct vgc_null_kernel *)op->kernel->engine_private;
}

static enum vgc_null_behaviour behaviour_of(const struct vgc_op *op)
{
    return kernel_of(op).behaviour;
}

static uint64_t null_launch_bytes(struct vgc_engine *engine, const struct vgc_op *op)
{
    (void)engine;
    return kernel_of(op).workspace_bytes;
}

static void null_put_texture(struct vgc_engine *engine, const struct vgc_texture_spec *spec, uint64_t address)
{
    (void)engine, (void)spec, (void)address;
}

/* ---- memory (addresses only) -------------------------------------------------------------------------------- */

static int null_alloc(struct vgc_engine *engine, uint64_t size, uint64_t *address)
{
    struct null_engine *self = self_of(engine);
    uint64_t granularity = engine->alloc_granularity;
    if (size > LARGEST)
        return -ENOMEM;
    *address = self->next_address;
    self->next_address +=
        ((size + granularity - 1) & ~(granularity - 1)) + granularity; /* leaves a gap behind each allocation */
    return 0;
}

static int null_free(struct vgc_engine *engine, uint64_t address, uint64_t size)
{
    (void)engine, (void)address, (void)size;
    return 0;
}

/* Accepts any address that null_alloc() could have given; later allocations lie behind it. */
static int null_alloc_at(struct vgc_engine *engine, uint64_t address, uint64_t size)
{
    struct null_engine *self = self_of(engine);
    uint64_t granularity = engine->alloc_granularity;
    if (address < LOWEST_ADDRESS || address % granularity != 0 || address > LARGEST || size > LARGEST)
        return -EINVAL;
    uint64_t end = address + ((size + granularity - 1) & ~(granularity - 1)) + granularity;
    if (end > self->next_address)
        self->next_address = end;
    return 0;
}

/* Copies nothing: the memory has no contents. */
static int64_t null_save(struct vgc_engine *engine, uint64_t address, uint64_t size, uint8_t *to)
{
    (void)engine, (void)address, (void)size, (void)to;
    return 0;
}

static int null_restore(struct vgc_engine *engine, uint64_t address, uint64_t size, const uint8_t *from)
{
    (void)engine, (void)address, (void)size, (void)from;
    return 0;
}

static int null_map_region(struct vgc_engine *engine, uint8_t *host, uint64_t size, uint64_t *address)
{
    (void)engine, (void)host, (void)size;
    *address = 0;
    return 0;
}

/* ---- operations --------------------------------------------------------------------------------------------- */

static void run(struct vgc_engine *engine, struct vgc_op *op)
{
    if (op->kind == VGC_OPK_EVENT_RECORD)
        op->start_ns = op->end_ns = vgc_now_ns();
    switch (behaviour_of(op)) {
    case VGC_NULL_ASSERT:
        op->status = VGC_STATUS_ASSERT;
        strcpy(op->error, "the null kernel's assertion failed");
        break;
    case VGC_NULL_FAULT:
        vgc_engine_fatal(engine, op, VGC_STATUS_FAULT, 11, "the null kernel faulted");
    case VGC_NULL_RELEASE:
        self_of(engine)->released = true;
        break;
    case VGC_NULL_SPOIL:
        op->workspace = 0;
        break;
    default:
        break;
    }
}

static bool is_behind(const struct null_engine *self, const struct vgc_op *op)
{
    for (const struct vgc_op *other = self->waiting; other != NULL; other = other->next)
        if (other->context == op->context && other->stream == op->stream)
            return true;
    return false;
}

static void append(struct null_engine *self, struct vgc_op *op)
{
    struct vgc_op **last = &self->waiting;
    while (*last != NULL)
        last = &(*last)->next;
    op->next = NULL;
    *last = op;
}

static bool waits(const struct vgc_op *op)
{
    enum vgc_null_behaviour behaviour = behaviour_of(op);
    return behaviour == VGC_NULL_HOLD || behaviour == VGC_NULL_LATER;
}

/* Runs an operation, or the nodes of a graph up to one that waits; false: it waits. */
static bool run_on(struct vgc_engine *engine, struct vgc_op *op)
{
    do {
        if (waits(op)) {
            __atomic_store_n(&op->start_ns, vgc_now_ns(), __ATOMIC_RELAXED);
            return false;
        }
        run(engine, op);
    } while (vgc_op_next_node(op));
    return true;
}

static void begin_graph(struct vgc_op *op)
{
    if (op->nodes != NULL && op->graph_start_ns == 0)
        op->graph_start_ns = vgc_now_ns();
}

static int null_submit(struct vgc_engine *engine, struct vgc_op *op)
{
    struct null_engine *self = self_of(engine);
    if (VGC_UNLIKELY(self->waiting != NULL) && is_behind(self, op)) {
        if (waits(op))
            __atomic_store_n(&op->start_ns, vgc_now_ns(), __ATOMIC_RELAXED);
        append(self, op);
        return VGC_QUEUED;
    }
    begin_graph(op);
    if (VGC_LIKELY(run_on(engine, op))) {
        if (op->nodes != NULL)
            op->end_ns = vgc_now_ns();
        return VGC_DONE;
    }
    append(self, op);
    return VGC_QUEUED;
}

static bool may_go(const struct null_engine *self, const struct vgc_op *op, const struct vgc_op *still_waiting)
{
    for (const struct vgc_op *other = still_waiting; other != NULL; other = other->next)
        if (other->context == op->context && other->stream == op->stream)
            return false;
    return behaviour_of(op) != VGC_NULL_HOLD || self->released;
}

/* Runs an operation that need not wait any more; false: it is a graph that waits again. */
static bool finish(struct vgc_engine *engine, struct vgc_op *op)
{
    begin_graph(op);
    run(engine, op);
    if (vgc_op_next_node(op) && !run_on(engine, op))
        return false;
    if (op->start_ns != 0 || op->nodes != NULL)
        op->end_ns = vgc_now_ns();
    vgc_engine_finish(engine, op);
    return true;
}

/* Runs operations that need not wait any more. */
static bool null_poll(struct vgc_engine *engine)
{
    struct null_engine *self = self_of(engine);
    if (VGC_LIKELY(self->waiting == NULL)) {
        self->released = false;
        return false;
    }
    struct vgc_op *op = self->waiting;
    bool any = false;
    self->waiting = NULL;
    while (op != NULL) {
        struct vgc_op *next = op->next;
        bool goes = may_go(self, op, self->waiting);
        if (!goes || !finish(engine, op))
            append(self, op);
        any |= goes;
        op = next;
    }
    self->released = false;
    return any;
}

static void null_cancel(struct vgc_engine *engine, uint32_t context)
{
    struct null_engine *self = self_of(engine);
    struct vgc_op **link = &self->waiting;
    while (*link != NULL) {
        struct vgc_op *op = *link;
        if (op->context != context) {
            link = &op->next;
            continue;
        }
        *link = op->next;
        op->status = VGC_STATUS_CANCELLED;
        vgc_engine_finish(engine, op);
    }
}

static void null_describe(struct vgc_engine *engine, const struct vgc_op *op, char *text, uint32_t size)
{
    static const char where[] = "held in block (0,0,0)";
    (void)engine, (void)op;
    memcpy(text, where, size < sizeof(where) ? size : sizeof(where));
    text[size - 1] = '\0';
}

static void null_close(struct vgc_engine *engine)
{
    free(self_of(engine));
}

static const struct vgc_engine_ops NULL_OPS = {
    .name = "null",
    .kind = VGC_ENGINE_KIND_NULL,
    .alloc = null_alloc,
    .free = null_free,
    .map_region = null_map_region,
    .alloc_at = null_alloc_at,
    .save = null_save,
    .restore = null_restore,
    .put_texture = null_put_texture,
    .submit = null_submit,
    .graphs = true,
    .launch_bytes = null_launch_bytes,
    .poll = null_poll,
    .describe = null_describe,
    .cancel = null_cancel,
    .close = null_close,
};

struct vgc_engine *vgc_null_engine_new(uint32_t num_pes)
{
    struct null_engine *self = calloc(1, sizeof(*self));
    if (self == NULL)
        return NULL;
    self->base.ops = &NULL_OPS;
    self->base.num_pes = num_pes;
    self->base.max_shared_bytes = 96 << 10;
    self->base.properties = (struct vgc_device_properties){.compute_capability = 80,
                                                           .warp_threads = 32,
                                                           .pe_threads = 2048,
                                                           .pe_blocks = 32,
                                                           .block_shared_bytes = 96 << 10};
    self->base.alloc_granularity = 4096;
    self->base.texture_bytes = 128;
    self->base.wake_fd = -1;
    self->next_address = LOWEST_ADDRESS;
    return &self->base;
}
