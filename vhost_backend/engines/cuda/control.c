/* The control area in device memory, and copies between it and the host.
 *
 * The area is a block of device memory, so that hooks read through the GPU's caches and records do not cross the bus
 * one by one; except for urgent links, see mirror.c. The control system's driver (vhost_backend/channels) copies bytes
 * that it has changed or wants to read with the functions of this file. They use a stream of the control system: no
 * copy waits for a kernel, and no kernel for a copy.
 *
 * A read costs a round trip to the GPU, and there may be thousands of channels. Reads therefore fetch a larger window,
 * and for a short time (WINDOW_NS) later reads are answered from it. A write drops all windows, so that bytes read
 * after it were read from the GPU after it.
 *
 * Where copies wait for the GPU for too long (link.c), writes are kept, and reads are answered from the mirror.
 *
 * Threads: all functions but attach and close may be called by the control system's thread, beside the data plane's. A
 * green context can be current in only one thread, so the link uses the device's primary context, which shares its
 * memory with green ones and can be current in any number of threads. [CUDA driver API: cuCtxFromGreenCtx] No driver
 * error in here ends the worker: the data plane's thread finds a lost context, and decides whom to blame. */
#include "cuda_engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    WINDOW_BYTES = 64 << 10,
    WINDOW_NS = 1000000,
    STAGING_BYTES = CUDA_LINK_BYTES + 4 * WINDOW_BYTES, /* one window of tables, and slots three times */
};

/* ---- windows ------------------------------------------------------------------------------------------------ */

static drv_result copy_out(struct cuda_engine *engine, uint8_t *to, uint64_t offset, uint64_t size)
{
    return engine->driver.cuMemcpyDtoHAsync_v2(to, engine->control.area + offset, size, engine->control.stream);
}

/* Checks a copy of slots, which may have been written during the copy. They are copied three times: a slot with the
 * same commit in the first and the last copy is whole in the one between. Other slots get commit 0: not there (any
 * more). */
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
        error = cuda_link_await(engine);
    if (error == DRV_SUCCESS)
        settle_slots(window->bytes, first, last, window->size);
    return error;
}

/* Makes the window hold the bytes at `offset` and some behind them. */
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
        error = cuda_link_await(engine);
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
    if (cuda_link_begin(engine) == -EIO)
        return -EIO;
    forget_windows(engine);
    drv_result error = cuda_link_write(engine, engine->control.area + offset, from, size);
    if (error == DRV_SUCCESS)
        cuda_mirror_note(&engine->control.mirror, offset, from, size);
    return cuda_link_end(engine, error);
}

/* Reads from the mirror's tables; false, with `to` zeroed, if it does not have the bytes. */
static bool read_as_seen_last(const struct cuda_engine *engine, uint64_t offset, void *to, uint64_t size)
{
    bool is_table = offset + size <= engine->control.links;
    if (is_table && cuda_mirror_read(&engine->control.mirror, offset, to, size))
        return true;
    memset(to, 0, size);
    return false;
}

int cuda_control_read(struct vgc_engine *base, uint64_t offset, void *to, uint64_t size)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    const struct cuda_mirror *mirror = &engine->control.mirror;
    if (!is_inside(engine, offset, size))
        return -EINVAL;
    if (cuda_mirror_is_urgent(mirror, offset))
        return cuda_mirror_read(mirror, offset, to, size) ? 0 : -EINVAL;
    int result = cuda_link_begin(engine);
    if (result == 0)
        result = cuda_link_end(engine, read_bytes(engine, to, offset, size));
    else if (result == -EAGAIN)
        cuda_link_end(engine, DRV_SUCCESS);
    if (result == 0)
        return 0;
    return read_as_seen_last(engine, offset, to, size) && result == -EIO ? 0 : result;
}

int cuda_control_set(struct cuda_engine *engine, drv_address to, const void *from, uint64_t size)
{
    if (cuda_link_begin(engine) == -EIO)
        return cuda_link_is_broken(engine) ? 0 : -EIO;
    return cuda_link_end(engine, cuda_link_write(engine, to, from, size));
}

/* ---- attaching ---------------------------------------------------------------------------------------------- */

static drv_result open_link(struct cuda_engine *engine, uint64_t size)
{
    const struct cuda_driver *driver = &engine->driver;
    struct cuda_control *control = &engine->control;
    void *staging = NULL;
    forget_windows(engine);
    drv_result error = cuda_urgent_stream(engine, &control->stream);
    if (error == DRV_SUCCESS)
        error = driver->cuMemHostAlloc(&staging, STAGING_BYTES, DRV_HOST_ALLOC_PORTABLE);
    control->staging = staging;
    control->tables_window.bytes = control->staging + CUDA_LINK_BYTES;
    control->links_window.bytes = control->tables_window.bytes + WINDOW_BYTES;
    if (error == DRV_SUCCESS)
        error = driver->cuMemAlloc_v2(&control->area, size);
    if (error == DRV_SUCCESS)
        error = driver->cuMemsetD8Async(control->area, 0, size, control->stream);
    return error == DRV_SUCCESS ? cuda_link_await(engine) : error;
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

/* Device pointer, not valid in this process. */
static void *at_gpu(drv_address address)
{
    return (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
}

/* Describes the area by its header, with device addresses; false: the header is invalid. */
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

/* Clock offset before the first reading (timer.c), as if the GPU's timer were CLOCK_REALTIME: ns since 1970. */
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
    if (cuda_link_begin(engine) != 0)
        return -EIO;
    drv_result error = open_link(engine, size);
    if (error == DRV_SUCCESS)
        error = cuda_link_write(engine, control->area, (const uint8_t *)&header, sizeof(header));
    if (error != DRV_SUCCESS)
        close_link(engine);
    control->size = size;
    control->links = header.links;
    describe(&header, size, control->area, &control->link);
    if (error == DRV_SUCCESS)
        cuda_mirror_open(engine, fd, &header, size);
    control->link.place.urgent = base->control_urgent = control->mirror.urgent;
    control->link.place.urgent_size = base->control_urgent_bytes = control->mirror.urgent_bytes;
    atomic_store(&base->control_clock_ns, clock_difference());
    atomic_store(&base->control_clock_error_ns, VGC_CLOCK_UNKNOWN);
    *device = control->area;
    return cuda_link_end(engine, error);
}

void cuda_control_close(struct cuda_engine *engine)
{
    int link = engine->control.area != 0 ? cuda_link_begin(engine) : -EIO;
    if (link != -EIO) {
        if (link == -EAGAIN)
            (void)cuda_link_await(engine); /* a late copy uses memory that is freed now */
        cuda_mirror_close(engine);
        close_link(engine);
        cuda_link_end(engine, DRV_SUCCESS);
    }
    free(engine->control.backlog);
    pthread_mutex_destroy(&engine->control.lock);
}
