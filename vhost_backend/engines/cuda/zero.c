/* Zeroing of new device memory, so that no VM sees the data of another, whatever the driver leaves there.
 *
 * Fills are submitted to a stream of the highest priority, which pools allocate and free in, too. An event is recorded
 * behind the fills of each allocation, and every stream waits for it on the GPU before its next operation
 * (cuda_follow_allocs). Nothing waits on the host, with these exceptions, which are bounded in time: a stream full of
 * fills, and memory to be returned to the GPU whose fill may still be running. A kernel that leaves no room on the GPU
 * can delay fills without end; calls that would have to wait for them fail then.
 *
 * A kernel that runs before the allocation is made is not ordered behind the fill. If it guesses the address, it may
 * read memory that is not zeroed yet. */
#include "cuda_engine.h"

#include <sched.h>
#include <time.h>

enum {
    LOOK_COMMANDS = 128, /* number of commands from which each allocation checks whether they have ended */
    MOST_COMMANDS = 256, /* in the stream, so that the driver's queue is never full */
    SPIN_NS = 50000,
    PAUSE_NS = 20000,
};
#define AWAIT_NS UINT64_C(2000000000)

int cuda_zero_start(struct cuda_engine *engine, char *why)
{
    drv_result error = cuda_urgent_stream(engine, &engine->alloc_stream);
    if (error == DRV_SUCCESS)
        error = engine->driver.cuEventCreate(&engine->alloc_event, DRV_EVENT_DISABLE_TIMING);
    return error == DRV_SUCCESS ? 0 : cuda_why(engine, why, "no stream for allocations", error);
}

void cuda_zero_finish(struct cuda_engine *engine)
{
    if (engine->alloc_stream != NULL)
        engine->driver.cuStreamSynchronize(engine->alloc_stream);
    engine->alloc_commands = 0;
}

void cuda_zero_close(struct cuda_engine *engine)
{
    if (engine->alloc_event != NULL)
        engine->driver.cuEventDestroy_v2(engine->alloc_event);
    if (engine->alloc_stream != NULL)
        engine->driver.cuStreamDestroy_v2(engine->alloc_stream);
    engine->alloc_event = NULL;
    engine->alloc_stream = NULL;
}

/* ---- progress ----------------------------------------------------------------------------------------------- */

void cuda_zero_note(struct cuda_engine *engine, uint32_t commands)
{
    engine->alloc_commands += commands;
    engine->alloc_is_open = true;
}

static drv_result record(struct cuda_engine *engine)
{
    drv_result error = engine->driver.cuEventRecord(engine->alloc_event, engine->alloc_stream);
    if (error != DRV_SUCCESS)
        return error;
    engine->alloc_commands++;
    engine->alloc_is_open = false;
    return DRV_SUCCESS;
}

/* SUCCESS: the stream is empty. NOT_READY: it is not. */
static drv_result look(struct cuda_engine *engine)
{
    drv_result error = DRV_SUCCESS;
    if (engine->alloc_commands == 0)
        return DRV_SUCCESS;
    if (engine->alloc_is_open)
        error = record(engine);
    if (error == DRV_SUCCESS)
        error = engine->driver.cuEventQuery(engine->alloc_event);
    if (error != DRV_SUCCESS)
        return error;
    engine->alloc_commands = 0;
    engine->alloc_is_late = false;
    return DRV_SUCCESS;
}

bool cuda_zero_is_done(struct cuda_engine *engine)
{
    drv_result error = look(engine);
    cuda_check(engine, error);
    return error == DRV_SUCCESS;
}

drv_result cuda_zero_await(struct cuda_engine *engine)
{
    uint64_t since_ns = cuda_now_ns();
    for (;;) {
        drv_result error = look(engine);
        uint64_t took_ns = cuda_now_ns() - since_ns;
        engine->alloc_is_late |= took_ns > AWAIT_NS;
        if (error != DRV_ERROR_NOT_READY || engine->alloc_is_late)
            return error;
        if (took_ns < SPIN_NS)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
}

bool cuda_zero_has_room(struct cuda_engine *engine)
{
    return engine->alloc_commands < MOST_COMMANDS || cuda_zero_is_done(engine);
}

drv_result cuda_zero_make_room(struct cuda_engine *engine)
{
    if (engine->alloc_commands < LOOK_COMMANDS)
        return DRV_SUCCESS;
    drv_result error = look(engine);
    if (error != DRV_ERROR_NOT_READY || engine->alloc_commands < MOST_COMMANDS)
        return error == DRV_ERROR_NOT_READY ? DRV_SUCCESS : error;
    return cuda_zero_await(engine);
}

/* ---- fills -------------------------------------------------------------------------------------------------- */

drv_result cuda_zero(struct cuda_engine *engine, drv_address address, uint64_t size)
{
    drv_result error = cuda_zero_make_room(engine);
    if (error != DRV_SUCCESS)
        return error;
    error = engine->driver.cuMemsetD8Async(address, 0, size, engine->alloc_stream);
    if (error == DRV_SUCCESS)
        cuda_zero_note(engine, 1);
    return error;
}

drv_result cuda_zero_publish(struct cuda_engine *engine)
{
    drv_result error = record(engine);
    if (error == DRV_SUCCESS)
        engine->allocs++;
    return error;
}
