/* The control area's file, beside the GPU's copy of the area. It outlives an error of the context, and this process.
 *
 * The file has the tables as the host wrote or read them last. Its first links are *urgent*: the GPU writes them into
 * the file's memory, which is registered with the driver. Records that a kernel makes there before a trap or a failed
 * assertion are in the file when the context is lost, and the daemon reads them when this worker has ended
 * (vhost_backend/channels/salvage.c).
 *
 * Where such memory cannot be registered, no link is urgent; the control system works without. */
#include "cuda_engine.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PAGE = 4096,
    SHARE = 8,            /* divisor: this part of the links is urgent */
    MOST_BYTES = 8 << 20, /* most pinned memory of the host per VM */
};

static uint64_t urgent_bytes(const struct vgc_ctl_area *header, uint64_t size)
{
    uint64_t bytes = (size - header->links) / SHARE;
    if (header->links % PAGE != 0)
        return 0;
    return bytes < MOST_BYTES ? bytes & ~(uint64_t)(PAGE - 1) : MOST_BYTES;
}

/* Registers the urgent links with the driver and finds their device address. */
static drv_result show(const struct cuda_engine *engine, struct cuda_mirror *mirror, uint64_t bytes)
{
    const struct cuda_driver *driver = &engine->driver;
    uint8_t *from = mirror->host + mirror->links;
    drv_result error =
        driver->cuMemHostRegister_v2(from, bytes, DRV_HOST_REGISTER_PORTABLE | DRV_HOST_REGISTER_DEVICE_MAP);
    if (error != DRV_SUCCESS)
        return error;
    error = driver->cuMemHostGetDevicePointer_v2(&mirror->urgent, from, 0);
    if (error != DRV_SUCCESS)
        driver->cuMemHostUnregister(from);
    else
        mirror->urgent_bytes = bytes;
    return error;
}

void cuda_mirror_open(struct cuda_engine *engine, int fd, const struct vgc_ctl_area *header, uint64_t size)
{
    struct cuda_mirror *mirror = &engine->control.mirror;
    uint64_t bytes = urgent_bytes(header, size);
    void *host = mmap(NULL, header->links + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (host == MAP_FAILED)
        return;
    *mirror = (struct cuda_mirror){.host = host, .size = header->links + bytes, .links = header->links};
    if (bytes != 0)
        (void)show(engine, mirror, bytes); /* without urgent links; a lost context is detected elsewhere */
}

void cuda_mirror_close(struct cuda_engine *engine)
{
    struct cuda_mirror *mirror = &engine->control.mirror;
    if (mirror->urgent_bytes != 0)
        engine->driver.cuMemHostUnregister(mirror->host + mirror->links);
    if (mirror->host != NULL)
        munmap(mirror->host, mirror->size);
    *mirror = (struct cuda_mirror){0};
}

bool cuda_mirror_is_urgent(const struct cuda_mirror *mirror, uint64_t offset)
{
    return offset >= mirror->links && offset - mirror->links < mirror->urgent_bytes;
}

/* Reads word by word, since the GPU may be writing: no word is torn. */
bool cuda_mirror_read(const struct cuda_mirror *mirror, uint64_t offset, void *to, uint64_t size)
{
    const uint8_t *from = mirror->host + offset;
    if (mirror->host == NULL || offset + size > mirror->size)
        return false;
    uint64_t done = 0;
    for (; offset % sizeof(uint64_t) == 0 && size - done >= sizeof(uint64_t); done += sizeof(uint64_t)) {
        uint64_t word = __atomic_load_n((const uint64_t *)(const void *)(from + done), __ATOMIC_RELAXED);
        memcpy((uint8_t *)to + done, &word, sizeof(word));
    }
    memcpy((uint8_t *)to + done, from + done, size - done);
    atomic_thread_fence(memory_order_acquire);
    return true;
}

void cuda_mirror_clock(const struct cuda_mirror *mirror, int64_t clock_ns)
{
    struct vgc_ctl_area *header = (struct vgc_ctl_area *)(void *)mirror->host;
    if (header != NULL)
        __atomic_store_n(&header->clock_ns, clock_ns, __ATOMIC_RELAXED);
}

void cuda_mirror_note(struct cuda_mirror *mirror, uint64_t offset, const void *from, uint64_t size)
{
    if (mirror->host != NULL && offset < mirror->links)
        memcpy(mirror->host + offset, from, size < mirror->links - offset ? size : mirror->links - offset);
}
