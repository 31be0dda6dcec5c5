/* The CUDA engine: operations, creation and end. */
#include "cuda_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { LANES = (VGC_MAX_CONTEXTS + 1) * VGC_MAX_STREAMS };
#define STUCK_NS UINT64_C(10000000000)

/* ---- operations --------------------------------------------------------------------------------------------- */

/* True if the operation does nothing and no earlier one is in its lane. */
static bool is_void(const struct cuda_lane *lane, const struct vgc_op *op)
{
    bool waits_for_nothing = op->kind == VGC_OPK_EVENT_WAIT && op->engine_private == NULL;
    return lane->head == NULL && op->nodes == NULL && (op->kind == VGC_OPK_MARKER || waits_for_nothing);
}

static int submit(struct vgc_engine *base, struct vgc_op *op)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    struct cuda_lane *lane = cuda_lane_of(engine, op->context, op->stream);
    op->engine_private = NULL;
    cuda_event_arrive(engine, op);
    cuda_note_steps(engine, op);
    cuda_builtin_arrive(engine, op);
    if (is_void(lane, op))
        return VGC_DONE;
    cuda_lane_append(engine, lane, op);
    cuda_lane_advance(engine, lane);
    return VGC_QUEUED;
}

static const struct cuda_lane *first_on_gpu(const struct cuda_lane *lane)
{
    while (lane != NULL && lane->stream == NULL)
        lane = lane->next;
    return lane;
}

/* Checks whether nothing finishes because the context is lost. Lanes take turns, as possibly only the stream of the
 * faulting kernel reports the error. */
static void look_for_errors(struct cuda_engine *engine, uint64_t now_ns)
{
    const struct cuda_lane *first = first_on_gpu(engine->active);
    if (first == NULL || now_ns - engine->looked_ns < CUDA_ERROR_LOOK_NS)
        return;
    engine->looked_ns = now_ns;
    const struct cuda_lane *lane = first;
    for (uint32_t i = 0; i < engine->look_turn && lane != NULL; i++)
        lane = first_on_gpu(lane->next);
    engine->look_turn = lane != NULL ? engine->look_turn + 1 : 1;
    lane = lane != NULL ? lane : first;
    drv_result error = engine->driver.cuStreamQuery(lane->stream->handle);
    if (error != DRV_SUCCESS && error != DRV_ERROR_NOT_READY)
        cuda_lost(engine, lane->head, error);
}

/* Lets the lanes from one to another (NULL: to the last) submit operations; true if any did. */
static bool advance_lanes(struct cuda_engine *engine, struct cuda_lane *from, const struct cuda_lane *to)
{
    struct cuda_lane *next;
    bool any = false;
    for (struct cuda_lane *lane = from; lane != NULL && lane != to; lane = next) {
        next = lane->next;
        any |= cuda_lane_advance(engine, lane);
        cuda_lane_mark(engine, lane);
    }
    return any;
}

bool cuda_poll(struct vgc_engine *base)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    struct cuda_lane *next;
    bool any = false;
    if (CUDA_UNLIKELY(engine->entered != DRV_SUCCESS))
        cuda_lost(engine, NULL, engine->entered);
    for (struct cuda_lane *lane = engine->active; lane != NULL; lane = next) {
        next = lane->next;
        any |= cuda_lane_collect(engine, lane);
    }
    struct cuda_lane *first = cuda_gate_begin_round(engine);
    any |= advance_lanes(engine, first, NULL);
    any |= advance_lanes(engine, engine->active, first);
    cuda_gate_end_round(engine);
    if (!any && engine->active != NULL) {
        uint64_t now_ns = cuda_now_ns();
        look_for_errors(engine, now_ns);
        cuda_timer_turn(engine, now_ns);
    }
    return any;
}

/* Longest nap, a fraction of the time that the most recent work has taken, so that its end is detected early. */
uint64_t cuda_nap_ns(struct vgc_engine *base, uint64_t now_ns)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    uint64_t nap_ns = CUDA_MAX_NAP_NS;
    if (engine->active == NULL)
        return UINT64_MAX;
    for (const struct cuda_lane *lane = engine->active; lane != NULL; lane = lane->next) {
        if (lane->stream == NULL)
            continue;
        uint64_t took_ns = now_ns > lane->group_start_ns ? now_ns - lane->group_start_ns : 0;
        nap_ns = took_ns / CUDA_NAP_SHARE < nap_ns ? took_ns / CUDA_NAP_SHARE : nap_ns;
    }
    uint64_t held_ns = cuda_gate_nap_ns(engine, now_ns);
    nap_ns = held_ns < nap_ns ? held_ns : nap_ns;
    return nap_ns > CUDA_MIN_NAP_NS ? nap_ns : CUDA_MIN_NAP_NS;
}

static void cancel(struct vgc_engine *base, uint32_t context)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    for (uint32_t stream = 0; stream < VGC_MAX_STREAMS; stream++)
        cuda_lane_cancel(engine, cuda_lane_of(engine, context, stream));
}

static void enter(struct vgc_engine *base)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    engine->entered = engine->driver.cuCtxSetCurrent(engine->setup.context);
    if (CUDA_UNLIKELY(engine->entered !=
                      DRV_SUCCESS)) /* once more: a lack of memory may have passed, other errors stay */
        engine->entered = engine->driver.cuCtxSetCurrent(engine->setup.context);
}

static void leave(struct vgc_engine *base)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    engine->driver.cuCtxSetCurrent(NULL);
}

/* ---- life --------------------------------------------------------------------------------------------------- */

/* Reserves tables at their largest size; only used pages become resident. */
static void *reserve(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void release(void *memory, size_t size)
{
    if (memory != NULL)
        munmap(memory, size);
}

static bool reserve_tables(struct cuda_engine *engine)
{
    engine->lanes = reserve(LANES * sizeof(*engine->lanes));
    engine->streams = reserve(CUDA_STREAMS * sizeof(*engine->streams));
    engine->records = reserve(CUDA_RECORDS * sizeof(*engine->records));
    engine->latest = reserve((VGC_MAX_EVENTS + 1) * sizeof(*engine->latest));
    return engine->lanes && engine->streams && engine->records && engine->latest;
}

static void free_engine(struct cuda_engine *engine)
{
    cuda_driver_close(&engine->driver);
    release(engine->lanes, LANES * sizeof(*engine->lanes));
    release(engine->streams, CUDA_STREAMS * sizeof(*engine->streams));
    release(engine->records, CUDA_RECORDS * sizeof(*engine->records));
    release(engine->latest, (VGC_MAX_EVENTS + 1) * sizeof(*engine->latest));
    for (uint32_t context = 0; context <= VGC_MAX_CONTEXTS; context++)
        free(engine->outputs[context].text);
    free(engine);
}

static void close_engine(struct vgc_engine *base)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    cuda_control_close(engine);
    vgc_engine_enter(base);
    cuda_timer_close(engine);
    cuda_events_close(engine);
    cuda_builtins_close(engine);
    cuda_libraries_close(engine);
    cuda_memory_close(engine);
    cuda_streams_close(engine);
    vgc_engine_leave(base);
    free_engine(engine);
}

void vgc_cuda_engine_close(struct vgc_engine *engine)
{
    close_engine(engine);
}

static const struct vgc_engine_ops CUDA_OPS = {
    .name = "cuda",
    .kind = VGC_ENGINE_KIND_CUDA,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .alloc_at = cuda_alloc_at,
    .map_region = cuda_map_region,
    .submit = submit,
    .graphs = true,
    .builtin = cuda_find_builtin,
    .launch_bytes = cuda_launch_bytes,
    .array_bytes = cuda_array_bytes,
    .array_make = cuda_array_make,
    .array_end = cuda_array_end,
    .object_make = cuda_object_make,
    .object_end = cuda_object_end,
    .poll = cuda_poll,
    .nap_ns = cuda_nap_ns,
    .enter = enter,
    .leave = leave,
    .describe = cuda_describe,
    .cancel = cancel,
    .take_output = cuda_take_output,
    .control_attach = cuda_control_attach,
    .control_write = cuda_control_write,
    .control_read = cuda_control_read,
    .control_text = cuda_control_text,
    .close = close_engine,
};

struct vgc_engine *vgc_cuda_engine_new(const struct vgc_cuda_setup *setup, char *why)
{
    struct cuda_engine *engine = calloc(1, sizeof(*engine));
    if (engine == NULL || !reserve_tables(engine)) {
        snprintf(why, VGC_CUDA_WHY, "out of memory for the engine's tables");
        if (engine != NULL)
            free_engine(engine);
        return NULL;
    }
    if (cuda_driver_open(&engine->driver, setup->driver, why) != 0 || cuda_libraries_open(engine, setup, why) != 0) {
        cuda_libraries_close(engine);
        free_engine(engine);
        return NULL;
    }
    engine->setup = *setup;
    engine->setup.driver = engine->setup.cublas = engine->setup.cufft = NULL; /* belong to the caller */
    if (setup->stuck_ns == 0)
        engine->setup.stuck_ns = STUCK_NS;
    if (setup->primary == NULL)
        engine->setup.primary = setup->context;
    pthread_mutex_init(&engine->control.lock, NULL);
    engine->base.ops = &CUDA_OPS;
    engine->base.num_pes = setup->num_pes;
    engine->base.max_shared_bytes = setup->max_shared_bytes;
    engine->base.alloc_granularity = CUDA_ALIGN;
    engine->base.texture_bytes = CUDA_OBJECT_BYTES;
    engine->base.wake_fd = -1;
    engine->stack_bytes = CUDA_STACK_BYTES;
    return &engine->base;
}

int vgc_cuda_engine_start(struct vgc_engine *base, char *why)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    int error = 0;
    vgc_engine_enter(base);
    if (engine->entered != DRV_SUCCESS)
        error = cuda_why(engine, why, "the context cannot be used", engine->entered);
    if (error == 0)
        error = cuda_streams_start(engine, why);
    if (error == 0)
        error = cuda_memory_start(engine, why);
    if (error == 0)
        error = cuda_events_start(engine, why);
    if (error == 0)
        error = cuda_libraries_start(engine, why);
    if (error == 0)
        cuda_arrays_start(engine);
    vgc_engine_leave(base);
    return error;
}

uint32_t vgc_cuda_engine_completion(const struct vgc_engine *base)
{
    const struct cuda_engine *engine = (const struct cuda_engine *)base;
    return engine->uses_events ? VGC_CUDA_EVENT : VGC_CUDA_MEMORY;
}
