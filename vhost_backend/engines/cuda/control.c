/* The control system's link with the GPU: the control area in device memory, and the bytes that move there and back.
 *
 * The area that kernels see is a block of device memory of its own, so that hooks read through the GPU's caches and no
 * record crosses the bus alone; but for the links of what is said last words in, see mirror.c. The driver of the
 * control system (vhost_backend/control/driver) moves what it has changed, or wants to see, with the functions of this
 * file. They copy on a stream that is the control system's alone: nothing here waits for a kernel, and no kernel for
 * anything here.
 *
 * A look at one channel costs a trip to the GPU and back, and there may be thousands. So reads fetch what lies near,
 * too, and for a moment (WINDOW_NS) later ones are answered from that; a write makes all of it forgotten, so that what
 * is read behind it was not there before.
 *
 * Threads: everything but attach and close may be called by the control system's thread, beside the data plane's. A
 * green context can be current in one thread only, so the link is made in the device's primary context, which shares
 * its memory with green ones, and may be current in any number. [CUDA driver API: cuCtxFromGreenCtx] No driver error in
 * here ends the worker: it is the data plane's thread that finds a lost context, and says whose fault it was. */
#include "cuda_engine.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    WINDOW_BYTES = 64 << 10,
    WINDOW_NS = 1000000,
    WRITE_BYTES = 64 << 10,
    STAGING_BYTES = WRITE_BYTES + 4 * WINDOW_BYTES, /* tables, slots three times */
    SPIN_NS = 50000,
    PAUSE_NS = 20000,
};
#define COPY_DEADLINE_NS UINT64_C(2000000000)

/* ---- the context -------------------------------------------------------------------------------------------- */

static bool begin(struct cuda_engine *engine)
{
    pthread_mutex_lock(&engine->control.lock);
    if (!engine->control.broken && engine->driver.cuCtxPushCurrent_v2(engine->setup.primary) == DRV_SUCCESS)
        return true;
    pthread_mutex_unlock(&engine->control.lock);
    return false;
}

/* Is there no link any more, though the GPU may well do its work? */
static bool is_broken(struct cuda_engine *engine)
{
    pthread_mutex_lock(&engine->control.lock);
    bool broken = engine->control.broken;
    pthread_mutex_unlock(&engine->control.lock);
    return broken;
}

static int end(struct cuda_engine *engine, drv_result error)
{
    drv_context ours;
    engine->driver.cuCtxPopCurrent_v2(&ours);
    pthread_mutex_unlock(&engine->control.lock);
    return error == DRV_SUCCESS ? 0 : error == DRV_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}

/* ---- copies ------------------------------------------------------------------------------------------------- */

/* Until the link's stream is empty. Not by cuStreamSynchronize, which writes what kernels have printed to stdout: whose
 * text that is the data plane's thread knows. A copy that does not end leaves the staging memory in use: nothing is
 * copied from then on. */
static drv_result await(struct cuda_engine *engine)
{
    struct cuda_control *control = &engine->control;
    uint64_t since_ns = cuda_now_ns();
    for (;;) {
        drv_result error = engine->driver.cuStreamQuery(control->stream);
        uint64_t took_ns = cuda_now_ns() - since_ns;
        if (error != DRV_ERROR_NOT_READY)
            return error;
        if (took_ns > COPY_DEADLINE_NS) {
            control->broken = true;
            return DRV_ERROR_LAUNCH_TIMEOUT;
        }
        if (took_ns < SPIN_NS)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
}

/* In one store, where the driver can; what a copy engine does with 8 aligned bytes is nowhere promised. */
static drv_result write_word(struct cuda_engine *engine, drv_address to, const void *from)
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

static drv_result write_bytes(struct cuda_engine *engine, drv_address to, const uint8_t *from, uint64_t size)
{
    struct cuda_control *control = &engine->control;
    drv_result error = DRV_SUCCESS;
    if (size == sizeof(uint64_t) && to % sizeof(uint64_t) == 0) {
        error = write_word(engine, to, from);
        return error == DRV_SUCCESS ? await(engine) : error;
    }
    for (uint64_t done = 0; done < size && error == DRV_SUCCESS;) {
        uint64_t part = size - done < WRITE_BYTES ? size - done : WRITE_BYTES;
        memcpy(control->staging, from + done, part);
        error = engine->driver.cuMemcpyHtoDAsync_v2(to + done, control->staging, part, control->stream);
        if (error == DRV_SUCCESS)
            error = await(engine);
        done += part;
    }
    return error;
}

/* ---- what was read lately ----------------------------------------------------------------------------------- */

static drv_result copy_out(struct cuda_engine *engine, uint8_t *to, uint64_t offset, uint64_t size)
{
    return engine->driver.cuMemcpyDtoHAsync_v2(to, engine->control.area + offset, size, engine->control.stream);
}

/* A copy of slots can have been made while they were written, one part before and another one after. So they are copied
 * three times: what has the same commit in the first copy and in the last was whole in the one between. Of any other
 * slot this says that it is not there (yet, or any more). */
static void settle_slots(uint8_t *middle, const uint8_t *first, const uint8_t *last, uint64_t size)
{
    for (uint64_t at = 0; at < size; at += VGC_CTL_SLOT_BYTES) {
        uint64_t before;
        uint64_t after;
        memcpy(&before, first + at, sizeof(before));
        memcpy(&after, last + at, sizeof(after));
        if (before != after)
            before = 0;
        memcpy(middle + at, &before, sizeof(before));
    }
}

static drv_result fetch_slots(struct cuda_engine *engine, struct cuda_window *window)
{
    uint8_t *first = window->bytes + WINDOW_BYTES;
    uint8_t *last = first + WINDOW_BYTES;
    drv_result error = copy_out(engine, first, window->offset, window->size);
    if (error == DRV_SUCCESS)
        error = copy_out(engine, window->bytes, window->offset, window->size);
    if (error == DRV_SUCCESS)
        error = copy_out(engine, last, window->offset, window->size);
    if (error == DRV_SUCCESS)
        error = await(engine);
    if (error == DRV_SUCCESS)
        settle_slots(window->bytes, first, last, window->size);
    return error;
}

/* Makes the window hold at least a part of what begins at `offset`. */
static drv_result look(struct cuda_engine *engine, struct cuda_window *window, uint64_t offset)
{
    const struct cuda_control *control = &engine->control;
    uint64_t now_ns = cuda_now_ns();
    if (window->size != 0 && now_ns - window->read_ns < WINDOW_NS && offset - window->offset < window->size)
        return DRV_SUCCESS;
    bool is_links = window == &engine->control.links_window;
    uint64_t end = is_links ? control->size : control->links;
    window->offset = offset & ~(uint64_t)(VGC_CTL_SLOT_BYTES - 1);
    window->size = end - window->offset < WINDOW_BYTES ? end - window->offset : WINDOW_BYTES;
    window->read_ns = now_ns;
    drv_result error =
        is_links ? fetch_slots(engine, window) : copy_out(engine, window->bytes, window->offset, window->size);
    if (error == DRV_SUCCESS && !is_links)
        error = await(engine);
    if (error != DRV_SUCCESS)
        window->size = 0;
    else if (!is_links)
        cuda_mirror_note(&engine->control.mirror, window->offset, window->bytes, window->size);
    return error;
}

static void forget_windows(struct cuda_engine *engine)
{
    engine->control.tables_window.size = 0;
    engine->control.links_window.size = 0;
}

static drv_result read_bytes(struct cuda_engine *engine, uint8_t *to, uint64_t offset, uint64_t size)
{
    struct cuda_control *control = &engine->control;
    drv_result error = DRV_SUCCESS;
    for (uint64_t done = 0; done < size && error == DRV_SUCCESS;) {
        uint64_t at = offset + done;
        struct cuda_window *window = at < control->links ? &control->tables_window : &control->links_window;
        error = look(engine, window, at);
        if (error != DRV_SUCCESS)
            break;
        uint64_t there = window->offset + window->size - at;
        uint64_t part = size - done < there ? size - done : there;
        memcpy(to + done, window->bytes + (at - window->offset), part);
        done += part;
    }
    return error;
}

static bool is_inside(const struct cuda_engine *engine, uint64_t offset, uint64_t size)
{
    return engine->control.area != 0 && offset <= engine->control.size && size <= engine->control.size - offset;
}

int cuda_control_write(struct vgc_engine *base, uint64_t offset, const void *from, uint64_t size)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    if (!is_inside(engine, offset, size))
        return -EINVAL;
    if (!begin(engine))
        return -EIO;
    forget_windows(engine);
    drv_result error = write_bytes(engine, engine->control.area + offset, from, size);
    if (error == DRV_SUCCESS)
        cuda_mirror_note(&engine->control.mirror, offset, from, size);
    return end(engine, error);
}

int cuda_control_read(struct vgc_engine *base, uint64_t offset, void *to, uint64_t size)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    const struct cuda_mirror *mirror = &engine->control.mirror;
    if (!is_inside(engine, offset, size))
        return -EINVAL;
    if (cuda_mirror_is_urgent(mirror, offset))
        return cuda_mirror_read(mirror, offset, to, size) ? 0 : -EINVAL;
    int result = begin(engine) ? end(engine, read_bytes(engine, to, offset, size)) : -EIO;
    bool is_table = offset + size <= engine->control.links;
    return result != 0 && is_table && cuda_mirror_read(mirror, offset, to, size) ? 0 : result;
}

int cuda_control_set(struct cuda_engine *engine, drv_address to, const void *from, uint64_t size)
{
    if (!begin(engine))
        return is_broken(engine) ? 0 : -EIO;
    return end(engine, write_bytes(engine, to, from, size));
}

/* ---- attaching ---------------------------------------------------------------------------------------------- */

static drv_result open_link(struct cuda_engine *engine, uint64_t size)
{
    const struct cuda_driver *driver = &engine->driver;
    struct cuda_control *control = &engine->control;
    void *staging = NULL;
    forget_windows(engine);
    drv_result error = driver->cuStreamCreate(&control->stream, DRV_STREAM_NON_BLOCKING);
    if (error == DRV_SUCCESS)
        error = driver->cuMemHostAlloc(&staging, STAGING_BYTES, DRV_HOST_ALLOC_PORTABLE);
    control->staging = staging;
    control->tables_window.bytes = control->staging + WRITE_BYTES;
    control->links_window.bytes = control->tables_window.bytes + WINDOW_BYTES;
    if (error == DRV_SUCCESS)
        error = driver->cuMemAlloc_v2(&control->area, size);
    if (error == DRV_SUCCESS)
        error = driver->cuMemsetD8Async(control->area, 0, size, control->stream);
    return error == DRV_SUCCESS ? await(engine) : error;
}

static void close_link(struct cuda_engine *engine)
{
    const struct cuda_driver *driver = &engine->driver;
    struct cuda_control *control = &engine->control;
    if (control->stream != NULL)
        driver->cuStreamDestroy_v2(control->stream);
    if (control->area != 0)
        driver->cuMemFree_v2(control->area);
    if (control->staging != NULL)
        driver->cuMemFreeHost(control->staging);
    control->stream = NULL;
    control->area = 0;
    control->staging = NULL;
}

/* A pointer for the GPU; nothing for this process. */
static void *at_gpu(drv_address address)
{
    return (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
}

/* The area as its header has it, at the GPU's addresses; false: that is none. */
static bool describe(const struct vgc_ctl_area *header, uint64_t size, drv_address area, struct vgc_cuda_link *link)
{
    bool fits = header->magic == VGC_CTL_MAGIC && header->version == VGC_CTL_VERSION && header->size == size &&
                header->num_pes <= VGC_CTL_MAX_PES && header->num_channels <= VGC_CTL_MAX_CHANNELS &&
                header->pes <= size && header->num_pes * sizeof(struct vgc_ctl_pe) <= size - header->pes &&
                header->channels <= size &&
                header->num_channels * sizeof(struct vgc_ctl_channel) <= size - header->channels &&
                header->links <= size && (header->pes | header->channels | header->links | size) % 64 == 0;
    *link = (struct vgc_cuda_link){
        .pes = area + header->pes,
        .num_pes = header->num_pes,
        .place =
            {
                .base = at_gpu(area),
                .size = size,
                .channels = at_gpu(area + header->channels),
                .num_channels = header->num_channels,
                .num_pes = header->num_pes,
            },
    };
    return fits;
}

/* The GPU's global timer counts as CLOCK_REALTIME does, in ns since 1970. */
static int64_t clock_difference(void)
{
    struct timespec monotonic, real;
    clock_gettime(CLOCK_MONOTONIC, &monotonic);
    clock_gettime(CLOCK_REALTIME, &real);
    return (monotonic.tv_sec - real.tv_sec) * INT64_C(1000000000) + (monotonic.tv_nsec - real.tv_nsec);
}

int cuda_control_attach(struct vgc_engine *base, int fd, uint8_t *host, uint64_t size, uint64_t *device)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    struct cuda_control *control = &engine->control;
    struct vgc_ctl_area header;
    if (control->area != 0 || size < sizeof(header))
        return -EINVAL;
    memcpy(&header, host, sizeof(header));
    if (!describe(&header, size, 0, &control->link))
        return -EINVAL;
    if (!begin(engine))
        return -EIO;
    drv_result error = open_link(engine, size);
    if (error == DRV_SUCCESS)
        error = write_bytes(engine, control->area, (const uint8_t *)&header, sizeof(header));
    if (error != DRV_SUCCESS)
        close_link(engine);
    control->size = size;
    control->links = header.links;
    describe(&header, size, control->area, &control->link);
    if (error == DRV_SUCCESS)
        cuda_mirror_open(engine, fd, &header, size);
    control->link.place.urgent = base->control_urgent = control->mirror.urgent;
    control->link.place.urgent_size = base->control_urgent_bytes = control->mirror.urgent_bytes;
    base->control_clock_ns = clock_difference();
    *device = control->area;
    return end(engine, error);
}

void cuda_control_close(struct cuda_engine *engine)
{
    if (engine->control.area != 0 && begin(engine)) {
        cuda_mirror_close(engine);
        close_link(engine);
        end(engine, DRV_SUCCESS);
    }
    pthread_mutex_destroy(&engine->control.lock);
}
