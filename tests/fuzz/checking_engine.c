#include "checking_engine.h"

#include <errno.h>

#include "input.h"

#pragma clang attribute push(__attribute__((no_sanitize("coverage"))),                                                 \
                             apply_to = function) /* of the data plane alone */

enum { GRANULARITY = 4096 };
static const uint64_t REGION_ADDRESS = UINT64_C(1) << 44, LARGEST_ALLOC = UINT64_C(1) << 40;

static const struct vgc_param_entry PARAMS[] = {
    {0, 8, VGC_PARAM_KIND_POINTER, 0}, {8, 4, VGC_PARAM_KIND_FLOAT, 0}, {16, 8, VGC_PARAM_KIND_UNKNOWN, 0}};

const struct vgc_kernel CHECKING_KERNELS[2] = {
    {.name = "k", .param_bytes = 24, .shared_bytes = 1024, .max_threads = 256, .num_params = 3, .params = PARAMS},
    {.name = "nop", .max_threads = 1024},
};

static struct checking_engine *self_of(struct vgc_engine *engine)
{
    return (struct checking_engine *)engine;
}

static uint64_t charge_of(uint64_t size)
{
    return (size + GRANULARITY - 1) & ~(uint64_t)(GRANULARITY - 1);
}

uint64_t checking_engine_charged(const struct checking_engine *engine)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < engine->num_allocs; i++)
        total += charge_of(engine->allocs[i].size);
    return total;
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

static int checking_alloc(struct vgc_engine *engine, uint64_t size, uint64_t *address)
{
    struct checking_engine *self = self_of(engine);
    PROMISE(size > 0);
    if (size > LARGEST_ALLOC || self->num_allocs == CHECKING_MAX_ALLOCS)
        return -ENOMEM;
    *address = self->next_address;
    self->next_address += charge_of(size); /* no gaps: a range over two of them must be noticed */
    self->allocs[self->num_allocs++] = (struct checking_alloc){*address, size};
    return 0;
}

static int checking_free(struct vgc_engine *engine, uint64_t address, uint64_t size)
{
    struct checking_engine *self = self_of(engine);
    for (uint32_t i = 0; i < self->num_allocs; i++) {
        if (self->allocs[i].address != address)
            continue;
        PROMISE(self->allocs[i].size == size);
        self->allocs[i] = self->allocs[--self->num_allocs];
        return 0;
    }
    PROMISE(!"only what was allocated is freed");
    return -EINVAL;
}

static int checking_map_region(struct vgc_engine *engine, uint8_t *host, uint64_t size, uint64_t *address)
{
    struct checking_engine *self = self_of(engine);
    self->region = host;
    self->region_size = host != NULL ? size : 0;
    *address = host != NULL && self->region_visible ? REGION_ADDRESS : 0;
    return 0;
}

/* ---- what operations must be ------------------------------------------------------------------------------------ */

static bool inside(uint64_t base, uint64_t room, uint64_t address, uint64_t size)
{
    return address >= base && address - base <= room && size <= room - (address - base);
}

static void check_range(const struct checking_engine *self, uint64_t address, uint64_t size)
{
    bool found = inside(CHECKING_GLOBAL, CHECKING_GLOBAL_BYTES, address, size) ||
                 (self->region_visible && inside(REGION_ADDRESS, self->region_size, address, size));
    for (uint32_t i = 0; i < self->num_allocs && !found; i++)
        found = inside(self->allocs[i].address, self->allocs[i].size, address, size);
    PROMISE(found);
}

static void checking_put_texture(struct vgc_engine *engine, const struct vgc_texture_spec *spec, uint64_t address)
{
    const struct checking_engine *self = self_of(engine);
    uint64_t rows =
        (spec->height - UINT64_C(1)) * spec->pitch + (uint64_t)spec->width * spec->channels * spec->bits / 8;
    PROMISE(spec->width > 0 && spec->height > 0 && spec->depth > 0 && spec->layers > 0 && spec->levels > 0);
    check_range(self, address, engine->texture_bytes);
    check_range(self, spec->data, (spec->depth * (uint64_t)spec->layers - 1) * spec->slice + rows);
}

static void check_spans(const struct checking_engine *self, const struct vgc_op *op)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < op->num_spans; i++) {
        const struct vgc_span *span = &op->spans[i];
        PROMISE(span->base >= self->region && span->base + span->len <= self->region + self->region_size);
        total += span->len;
    }
    PROMISE(total == op->size);
}

static void check_launch(const struct vgc_op *op)
{
    const struct vgc_kernel *kernel = op->kernel;
    uint64_t threads = 1;
    PROMISE(kernel == &CHECKING_KERNELS[0] || kernel == &CHECKING_KERNELS[1]);
    PROMISE(op->param_len == kernel->param_bytes && (uintptr_t)op->params % 16 == 0);
    for (int i = 0; i < 3; i++) {
        PROMISE(op->grid[i] >= 1 && op->grid[i] < (i == 0 ? UINT32_C(1) << 31 : 65536));
        PROMISE(op->block[i] >= 1 && op->block[i] <= VGC_MAX_BLOCK_THREADS);
        threads *= op->block[i];
    }
    PROMISE(threads <= kernel->max_threads);
    PROMISE((uint64_t)op->shared_bytes + kernel->shared_bytes <= 96 << 10);
}

/* Distance from the first byte of a box to the byte behind its last one. */
static uint64_t box_bytes(const struct vgc_box *box, uint64_t pitch, uint64_t slice)
{
    return (box->depth - UINT64_C(1)) * slice + (box->height - UINT64_C(1)) * pitch + box->width;
}

static void check_box(const struct checking_engine *self, const struct vgc_op *op)
{
    const struct vgc_box *box = &op->box;
    PROMISE(box->width > 0 && box->height > 0 && box->depth > 0);
    PROMISE(op->size == (uint64_t)box->width * box->height * box->depth);
    check_range(self, op->dst, box_bytes(box, box->dst_pitch, box->dst_slice));
    check_range(self, op->src, box_bytes(box, box->src_pitch, box->src_slice));
}

static void check(const struct checking_engine *self, const struct vgc_op *op)
{
    PROMISE(op->nodes == NULL || (op->node < op->num_nodes && op->kind == op->nodes[op->node].kind));
    PROMISE(op->context >= 1 && op->context <= VGC_MAX_CONTEXTS && op->stream < VGC_MAX_STREAMS);
    switch (op->kind) {
    case VGC_OPK_MARKER:
        break;
    case VGC_OPK_COPY_IN:
        check_range(self, op->dst, op->size);
        check_spans(self, op);
        break;
    case VGC_OPK_COPY_OUT:
        check_range(self, op->src, op->size);
        check_spans(self, op);
        break;
    case VGC_OPK_COPY_DEVICE:
        check_range(self, op->src, op->size);
        check_range(self, op->dst, op->size);
        break;
    case VGC_OPK_FILL:
        PROMISE(op->unit == 1 || op->unit == 2 || op->unit == 4 || op->unit == 8);
        PROMISE(op->size % op->unit == 0);
        check_range(self, op->dst, op->size);
        break;
    case VGC_OPK_COPY_BOX:
        check_box(self, op);
        break;
    case VGC_OPK_LAUNCH:
        check_launch(op);
        break;
    default:
        PROMISE(op->kind == VGC_OPK_EVENT_RECORD || op->kind == VGC_OPK_EVENT_WAIT);
        PROMISE(op->value >= 1 && op->value <= VGC_MAX_EVENTS);
        break;
    }
}

/* ---- doing them ---------------------------------------------------------------------------------------------------
 */

/* Each block prints much, so that queries find more than fits. */
static void print(struct checking_engine *self, struct vgc_op *op)
{
    uint64_t printed = self->printed[op->context] + UINT64_C(1000) * op->grid[0];
    self->printed[op->context] = printed < VGC_MAX_OUTPUT_BYTES ? (uint32_t)printed : VGC_MAX_OUTPUT_BYTES;
    op->output_bytes = self->printed[op->context];
}

static void run(struct checking_engine *self, struct vgc_op *op)
{
    volatile uint8_t sink = 0;
    for (uint32_t i = 0; i < op->num_spans; i++) {
        if (op->kind == VGC_OPK_COPY_OUT)
            memset(op->spans[i].base, 0x5a, op->spans[i].len);
        else
            sink ^= op->spans[i].base[0] ^ op->spans[i].base[op->spans[i].len - 1];
    }
    if (op->kind == VGC_OPK_LAUNCH) {
        if (op->param_len > 0)
            sink ^= op->params[op->param_len - 1];
        print(self, op);
    }
    if (self->fail_next == 0)
        return;
    self->fail_next--;
    op->status = VGC_STATUS_ASSERT;
    strcpy(op->error, "told to fail");
}

/* Runs an operation, or the rest of a graph's nodes. */
static void run_all(struct checking_engine *self, struct vgc_op *op)
{
    do {
        check(self, op);
        run(self, op);
    } while (vgc_op_next_node(op));
}

static int checking_submit(struct vgc_engine *engine, struct vgc_op *op)
{
    struct checking_engine *self = self_of(engine);
    check(self, op);
    if (!self->late && self->first == NULL) {
        run_all(self, op);
        return VGC_DONE;
    }
    struct vgc_op **last = &self->first;
    while (*last != NULL)
        last = &(*last)->next;
    op->next = NULL;
    *last = op;
    return VGC_QUEUED;
}

/* One operation or node at a time, in order. */
static bool checking_poll(struct vgc_engine *engine)
{
    struct checking_engine *self = self_of(engine);
    struct vgc_op *op = self->first;
    if (op == NULL)
        return false;
    check(self, op);
    run(self, op);
    if (vgc_op_next_node(op))
        return true;
    self->first = op->next;
    vgc_engine_finish(engine, op);
    return true;
}

static void checking_cancel(struct vgc_engine *engine, uint32_t context)
{
    struct vgc_op **link = &self_of(engine)->first;
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

static uint32_t checking_take_output(struct vgc_engine *engine, uint32_t context, char *to, uint32_t size,
                                     uint32_t *left, uint64_t *lost)
{
    struct checking_engine *self = self_of(engine);
    PROMISE(context >= 1 && context <= VGC_MAX_CONTEXTS);
    uint32_t taken = to != NULL && size < self->printed[context] ? size : self->printed[context];
    if (to != NULL)
        memset(to, 'x', taken);
    *left = self->printed[context] -= taken;
    *lost = 0;
    return taken;
}

static void checking_close(struct vgc_engine *engine)
{
    (void)engine;
}

static const struct vgc_engine_ops OPS = {
    .name = "checking",
    .kind = VGC_ENGINE_KIND_NULL,
    .alloc = checking_alloc,
    .free = checking_free,
    .map_region = checking_map_region,
    .put_texture = checking_put_texture,
    .submit = checking_submit,
    .graphs = true,
    .poll = checking_poll,
    .cancel = checking_cancel,
    .take_output = checking_take_output,
    .close = checking_close,
};

void checking_engine_init(struct checking_engine *engine)
{
    *engine = (struct checking_engine){
        .base = {.ops = &OPS,
                 .num_pes = 1,
                 .max_shared_bytes = 96 << 10,
                 .alloc_granularity = GRANULARITY,
                 .texture_bytes = 128,
                 .wake_fd = -1},
        .next_address = UINT64_C(1) << 32,
    };
}

#pragma clang attribute pop
