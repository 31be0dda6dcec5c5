/* The guest's events. Each EVENT_RECORD has a CUevent of its own, so records need no order between lanes; an EVENT_WAIT
 * is for the last record before it, and is submitted after that. A wait therefore depends only on earlier operations,
 * in any order of submission: lanes cannot deadlock.
 *
 * The time of a record is measured on the GPU, as the time since a reference event. That is replaced by a later one
 * from time to time, as the driver returns ms in a float. */
#include "cuda_engine.h"

static const float LONGEST_MS = 1000; /* a float of larger numbers is coarser than 60 ns */

/* ---- CUevents ----------------------------------------------------------------------------------------------- */

static drv_result take_event(struct cuda_engine *engine, drv_event *event)
{
    if (engine->num_free_events == 0)
        return engine->driver.cuEventCreate(event, DRV_EVENT_DEFAULT);
    *event = engine->free_events[--engine->num_free_events];
    return DRV_SUCCESS;
}

static void put_event(struct cuda_engine *engine, drv_event event)
{
    if (event == NULL)
        return;
    if (engine->num_free_events == CUDA_EVENTS)
        engine->driver.cuEventDestroy_v2(event);
    else
        engine->free_events[engine->num_free_events++] = event;
}

/* ---- records ------------------------------------------------------------------------------------------------ */

static void release(struct cuda_engine *engine, struct cuda_record *record)
{
    if (--record->refs != 0)
        return;
    record->next = engine->free_records;
    engine->free_records = record;
}

void cuda_event_arrive(struct cuda_engine *engine, struct vgc_op *op)
{
    if (op->kind == VGC_OPK_EVENT_RECORD) {
        struct cuda_record *record = engine->free_records;
        engine->free_records = record->next;
        *record = (struct cuda_record){.state = CUDA_RECORD_PENDING, .refs = 1};
        op->engine_private = engine->latest[op->value] = record;
    } else if (op->kind == VGC_OPK_EVENT_WAIT) {
        struct cuda_record *record = engine->latest[op->value];
        op->engine_private = record;
        if (record != NULL)
            record->refs++;
    }
}

static void leave_record(struct cuda_engine *engine, const struct vgc_op *op, struct cuda_record *record)
{
    record->state = CUDA_RECORD_DONE;
    put_event(engine, record->event);
    record->event = NULL;
    if (engine->latest[op->value] == record)
        engine->latest[op->value] = NULL;
}

void cuda_event_leave(struct cuda_engine *engine, struct vgc_op *op)
{
    if (op->kind != VGC_OPK_EVENT_RECORD && op->kind != VGC_OPK_EVENT_WAIT)
        return;
    struct cuda_record *record = op->engine_private;
    if (record == NULL)
        return;
    op->engine_private = NULL;
    if (op->kind == VGC_OPK_EVENT_RECORD)
        leave_record(engine, op, record);
    release(engine, record);
}

bool cuda_wait_may_go(const struct vgc_op *op)
{
    const struct cuda_record *record = op->engine_private;
    return record == NULL || record->state != CUDA_RECORD_PENDING;
}

drv_result cuda_submit_record(struct cuda_engine *engine, struct cuda_stream *stream, struct vgc_op *op)
{
    struct cuda_record *record = op->engine_private;
    drv_result error = take_event(engine, &record->event);
    record->submitted_ns = cuda_now_ns();
    if (error == DRV_SUCCESS)
        error = engine->driver.cuEventRecord(record->event, stream->handle);
    record->state = error == DRV_SUCCESS ? CUDA_RECORD_SUBMITTED : CUDA_RECORD_DONE;
    return error;
}

drv_result cuda_submit_wait(struct cuda_engine *engine, struct cuda_stream *stream, struct vgc_op *op)
{
    const struct cuda_record *record = op->engine_private;
    drv_result error = DRV_SUCCESS;
    if (record != NULL && record->state == CUDA_RECORD_SUBMITTED)
        error = engine->driver.cuStreamWaitEvent(stream->handle, record->event, DRV_EVENT_WAIT_DEFAULT);
    cuda_event_leave(engine, op);
    return error;
}

/* ---- the GPU's clock ---------------------------------------------------------------------------------------- */

/* Clamps a time to the possible range, and adjusts the reference by the difference, as clocks drift. */
static uint64_t clamp(struct cuda_engine *engine, uint64_t time_ns, uint64_t earliest_ns, uint64_t latest_ns)
{
    uint64_t possible_ns = time_ns < earliest_ns ? earliest_ns : time_ns > latest_ns ? latest_ns : time_ns;
    engine->clock_ns += possible_ns - time_ns;
    return possible_ns;
}

drv_result cuda_record_happened(struct cuda_engine *engine, struct vgc_op *op, uint64_t now_ns)
{
    struct cuda_record *record = op->engine_private;
    float ms = 0;
    drv_result error = engine->driver.cuEventElapsedTime(&ms, engine->clock, record->event);
    if (error != DRV_SUCCESS)
        return error;
    uint64_t time_ns = engine->clock_ns + (uint64_t)(int64_t)((double)ms * 1e6);
    op->start_ns = op->end_ns = clamp(engine, time_ns, record->submitted_ns, now_ns);
    if (ms > LONGEST_MS || ms < -LONGEST_MS) {
        drv_event old = engine->clock;
        engine->clock = record->event;
        engine->clock_ns = op->end_ns;
        record->event = old;
    }
    return DRV_SUCCESS;
}

/* Records the reference event, which happens at once, as nothing runs yet. */
static drv_result start_clock(struct cuda_engine *engine, drv_stream stream)
{
    drv_result error = engine->driver.cuEventCreate(&engine->clock, DRV_EVENT_DEFAULT);
    uint64_t before_ns = cuda_now_ns();
    if (error == DRV_SUCCESS)
        error = engine->driver.cuEventRecord(engine->clock, stream);
    if (error == DRV_SUCCESS)
        error = engine->driver.cuStreamSynchronize(stream);
    engine->clock_ns = before_ns + (cuda_now_ns() - before_ns) / 2;
    return error;
}

/* ---- start and end ------------------------------------------------------------------------------------------ */

int cuda_events_start(struct cuda_engine *engine, char *why)
{
    for (uint32_t i = CUDA_RECORDS; i-- > 0;) {
        engine->records[i].next = engine->free_records;
        engine->free_records = &engine->records[i];
    }
    drv_result error = start_clock(engine, engine->free_streams->handle);
    return error == DRV_SUCCESS ? 0 : cuda_why(engine, why, "the GPU's clock cannot be read", error);
}

void cuda_events_close(struct cuda_engine *engine)
{
    while (engine->num_free_events != 0)
        engine->driver.cuEventDestroy_v2(engine->free_events[--engine->num_free_events]);
    if (engine->clock != NULL)
        engine->driver.cuEventDestroy_v2(engine->clock);
    engine->clock = NULL;
}
