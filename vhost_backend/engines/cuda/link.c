/* Copies between the control system's host memory and the GPU, on a stream of their own.
 *
 * The GPU has fewer connections than there are streams: two streams can share one, and then a copy waits for a kernel
 * of the other stream. The link's stream has the highest priority, which seems to have connections of its own, but that
 * is not documented. Therefore a copy that takes too long makes the link *late*, not broken: the copy is not waited for
 * any longer, its memory is not touched, and writes meanwhile are kept in a backlog, in order. When the copy ends, the
 * backlog is written, and the link is ready again.
 *
 * All functions here hold the control system's lock. */
#include "cuda_engine.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SPIN_NS = 50000,
    PAUSE_NS = 20000,
    BACKLOG_BYTES = 1 << 20, /* a fuller backlog breaks the link */
};
#define COPY_DEADLINE_NS UINT64_C(2000000000)

/* Header of a write in the backlog; headers are aligned to 8 bytes. */
struct kept {
    drv_address to;
    uint64_t size;
};

/* ---- the backlog -------------------------------------------------------------------------------------------- */

static uint64_t room_of(uint64_t size)
{
    return sizeof(struct kept) + ((size + 7) & ~UINT64_C(7));
}

static bool keep_part(struct cuda_control *control, drv_address to, const uint8_t *from, uint64_t size)
{
    struct kept kept = {to, size};
    uint64_t end = control->backlog_bytes + room_of(size);
    uint8_t *grown = end <= BACKLOG_BYTES ? realloc(control->backlog, end) : NULL;
    if (grown == NULL)
        return false;
    control->backlog = grown;
    memcpy(grown + control->backlog_bytes, &kept, sizeof(kept));
    memcpy(grown + control->backlog_bytes + sizeof(kept), from, size);
    control->backlog_bytes = end;
    return true;
}

/* Keeps a write for later, in parts that can be submitted whole. Without room the link is broken, as host and GPU would
 * differ. */
static drv_result keep(struct cuda_control *control, drv_address to, const uint8_t *from, uint64_t size)
{
    for (uint64_t done = 0; done < size;) {
        uint64_t part = size - done < CUDA_LINK_BYTES ? size - done : CUDA_LINK_BYTES;
        if (!keep_part(control, to + done, from + done, part)) {
            control->link_state = CUDA_LINK_BROKEN;
            return DRV_ERROR_LAUNCH_TIMEOUT;
        }
        done += part;
    }
    return DRV_SUCCESS;
}

/* ---- copies ------------------------------------------------------------------------------------------------- */

/* Polls instead of calling cuStreamSynchronize, which writes text of kernels to stdout: only the data plane's thread
 * knows which context it belongs to. */
drv_result cuda_link_await(struct cuda_engine *engine)
{
    struct cuda_control *control = &engine->control;
    uint64_t since_ns = cuda_now_ns();
    for (;;) {
        drv_result error = engine->driver.cuStreamQuery(control->stream);
        uint64_t took_ns = cuda_now_ns() - since_ns;
        if (error != DRV_ERROR_NOT_READY)
            return error;
        if (took_ns > COPY_DEADLINE_NS) {
            control->link_state = CUDA_LINK_LATE;
            return DRV_ERROR_NOT_READY;
        }
        if (took_ns < SPIN_NS)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
}

/* Writes 8 aligned bytes in one store, if the driver supports that; copies are not documented to be atomic. */
static drv_result submit_word(struct cuda_engine *engine, drv_address to, const void *from)
{
    uint64_t word;
    memcpy(&word, from, sizeof(word));
    drv_result error =
        engine->driver.cuStreamWriteValue64_v2(engine->control.stream, to, word, DRV_WRITE_VALUE_DEFAULT);
    if (error != DRV_ERROR_NOT_SUPPORTED)
        return error;
    memcpy(engine->control.staging, from, sizeof(word));
    return engine->driver.cuMemcpyHtoDAsync_v2(to, engine->control.staging, sizeof(word), engine->control.stream);
}

/* Submits a write of as many bytes as the staging memory holds; *part: their number. */
static drv_result submit(struct cuda_engine *engine, drv_address to, const uint8_t *from, uint64_t size, uint64_t *part)
{
    struct cuda_control *control = &engine->control;
    *part = size < CUDA_LINK_BYTES ? size : CUDA_LINK_BYTES;
    if (size == sizeof(uint64_t) && to % sizeof(uint64_t) == 0)
        return submit_word(engine, to, from);
    memcpy(control->staging, from, *part);
    return engine->driver.cuMemcpyHtoDAsync_v2(to, control->staging, *part, control->stream);
}

/* Writes bytes through a ready link; *done: bytes submitted, which will arrive even if the link becomes late. */
static drv_result write_now(struct cuda_engine *engine, drv_address to, const uint8_t *from, uint64_t size,
                            uint64_t *done)
{
    drv_result error = DRV_SUCCESS;
    for (*done = 0; *done < size && error == DRV_SUCCESS;) {
        uint64_t part;
        error = submit(engine, to + *done, from + *done, size - *done, &part);
        if (error != DRV_SUCCESS)
            return error;
        engine->control.under_way = to + *done;
        *done += part;
        error = cuda_link_await(engine);
        if (error != DRV_ERROR_NOT_READY)
            engine->control.under_way = 0;
    }
    return error;
}

drv_result cuda_link_write(struct cuda_engine *engine, drv_address to, const void *from, uint64_t size)
{
    struct cuda_control *control = &engine->control;
    uint64_t done = 0;
    if (control->link_state == CUDA_LINK_LATE)
        return keep(control, to, from, size);
    drv_result error = write_now(engine, to, from, size, &done);
    if (error != DRV_ERROR_NOT_READY)
        return error;
    return done == size ? DRV_SUCCESS : keep(control, to + done, (const uint8_t *)from + done, size - done);
}

/* ---- the link ----------------------------------------------------------------------------------------------- */

/* Writes the backlog after the late copy has ended, until another copy is late. */
static drv_result write_backlog(struct cuda_engine *engine)
{
    struct cuda_control *control = &engine->control;
    drv_result error = DRV_SUCCESS;
    uint64_t at = 0;
    while (at < control->backlog_bytes && error == DRV_SUCCESS) {
        const struct kept *kept = (const struct kept *)(const void *)(control->backlog + at);
        uint64_t done;
        if (kept->to != 0)
            error = write_now(engine, kept->to, control->backlog + at + sizeof(*kept), kept->size, &done);
        at += room_of(kept->size);
    }
    if (at != 0)
        memmove(control->backlog, control->backlog + at, control->backlog_bytes - at);
    control->backlog_bytes -= at;
    return error;
}

/* Checks whether the late copy has ended. An error means that the context is lost. */
static void look_for_end(struct cuda_engine *engine)
{
    struct cuda_control *control = &engine->control;
    drv_result error = engine->driver.cuStreamQuery(control->stream);
    if (error == DRV_ERROR_NOT_READY)
        return;
    control->link_state = CUDA_LINK_READY;
    control->under_way = 0;
    if (error == DRV_SUCCESS)
        error = write_backlog(engine);
    if (error != DRV_SUCCESS && error != DRV_ERROR_NOT_READY)
        control->link_state = CUDA_LINK_BROKEN;
}

static void forget_kept(struct cuda_control *control, drv_address to)
{
    for (uint64_t at = 0; at < control->backlog_bytes;) {
        struct kept *kept = (struct kept *)(void *)(control->backlog + at);
        at += room_of(kept->size);
        if (kept->to == to)
            kept->to = 0;
    }
}

static bool is_under_way(const struct cuda_control *control, drv_address to)
{
    return control->link_state == CUDA_LINK_LATE && control->under_way == to;
}

/* Waits for a late copy to `to`, which ends soon when no kernels run; the control system checks the link too rarely. */
bool cuda_link_forget(struct cuda_engine *engine, drv_address to)
{
    struct cuda_control *control = &engine->control;
    pthread_mutex_lock(&control->lock);
    forget_kept(control, to);
    bool goes_on = is_under_way(control, to);
    pthread_mutex_unlock(&control->lock);
    if (!goes_on || cuda_link_begin(engine) == -EIO)
        return true;
    if (is_under_way(control, to) && cuda_link_await(engine) != DRV_ERROR_NOT_READY)
        look_for_end(engine);
    goes_on = is_under_way(control, to);
    cuda_link_end(engine, DRV_SUCCESS);
    return !goes_on;
}

bool cuda_link_is_broken(struct cuda_engine *engine)
{
    pthread_mutex_lock(&engine->control.lock);
    bool is_broken = engine->control.link_state == CUDA_LINK_BROKEN;
    pthread_mutex_unlock(&engine->control.lock);
    return is_broken;
}

int cuda_link_begin(struct cuda_engine *engine)
{
    struct cuda_control *control = &engine->control;
    pthread_mutex_lock(&control->lock);
    if (control->link_state == CUDA_LINK_BROKEN ||
        engine->driver.cuCtxPushCurrent_v2(engine->setup.primary) != DRV_SUCCESS) {
        pthread_mutex_unlock(&control->lock);
        return -EIO;
    }
    if (control->link_state == CUDA_LINK_LATE)
        look_for_end(engine);
    if (control->link_state == CUDA_LINK_BROKEN) {
        cuda_link_end(engine, DRV_SUCCESS);
        return -EIO;
    }
    return control->link_state == CUDA_LINK_READY ? 0 : -EAGAIN;
}

int cuda_link_end(struct cuda_engine *engine, drv_result error)
{
    drv_context ours;
    engine->driver.cuCtxPopCurrent_v2(&ours);
    pthread_mutex_unlock(&engine->control.lock);
    switch (error) {
    case DRV_SUCCESS:
        return 0;
    case DRV_ERROR_NOT_READY:
        return -EAGAIN;
    case DRV_ERROR_OUT_OF_MEMORY:
        return -ENOMEM;
    default:
        return -EIO;
    }
}
