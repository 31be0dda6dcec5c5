/* The control area: mapping, layout, access. Only this file knows host addresses. */
#define _GNU_SOURCE
#include "internal.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

enum { HEAD_BYTES = 4096 };
/* Device address of the area without a device (tests, salvage). */
static const uint64_t NO_DEVICE = UINT64_C(0x7C00) << 32;

_Static_assert(sizeof(struct vgc_ctl_pe) == 1024, "an element's row");
_Static_assert(sizeof(struct vgc_ctl_channel) == 256, "a channel");
_Static_assert(sizeof(struct vgc_ctl_record) == VGC_CTL_SLOT_BYTES, "a slot");
_Static_assert(sizeof(struct vgc_ctl_more) == VGC_CTL_SLOT_BYTES, "a slot");
_Static_assert(sizeof(struct vgc_ctl_area) <= HEAD_BYTES, "the area's head");

void vgc_control_say(char *why, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (why != NULL)
        vsnprintf(why, VGC_CONTROL_WHY, format, arguments);
    va_end(arguments);
}

uint64_t vgc_control_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- layout --------------------------------------------------------------------------------------------------- */

static int lay_out(struct vgc_control_area *area, char *why)
{
    if (area->num_pes == 0 || area->num_pes > VGC_CTL_MAX_PES) {
        vgc_control_say(why, "%u processing elements; allowed: 1..%d", area->num_pes, VGC_CTL_MAX_PES);
        return -EINVAL;
    }
    if (area->num_channels == 0 || area->num_channels >= VGC_CTL_MAX_CHANNELS) {
        vgc_control_say(why, "%u channels; allowed: 1..%d", area->num_channels, VGC_CTL_MAX_CHANNELS - 1);
        return -EINVAL;
    }
    area->pes = HEAD_BYTES;
    area->channels = area->pes + (uint64_t)area->num_pes * sizeof(struct vgc_ctl_pe);
    uint64_t tables = area->channels + ((uint64_t)area->num_channels + 1) * sizeof(struct vgc_ctl_channel);
    area->links = (tables + HEAD_BYTES - 1) & ~(uint64_t)(HEAD_BYTES - 1);
    if (area->size < area->links + VGC_CONTROL_UNIT || area->size > UINT64_C(1) << 40 || area->size % 8 != 0) {
        vgc_control_say(why, "a control area of %llu bytes; allowed: at least %llu for %u elements and %u channels",
                        (unsigned long long)area->size, (unsigned long long)area->links + VGC_CONTROL_UNIT,
                        area->num_pes, area->num_channels);
        return -EINVAL;
    }
    return 0;
}

static int check_file(int fd, uint64_t size, char *why)
{
    struct stat about;
    if (fstat(fd, &about) != 0 || (uint64_t)about.st_size < size) {
        vgc_control_say(why, "the control area's file is shorter than %llu bytes", (unsigned long long)size);
        return -EINVAL;
    }
    return 0;
}

int vgc_control_area_map(struct vgc_control_area *area, int fd, uint64_t size, uint32_t num_pes, uint32_t num_channels,
                         bool writable, char *why)
{
    *area = (struct vgc_control_area){.size = size, .num_pes = num_pes, .num_channels = num_channels};
    int result = lay_out(area, why);
    if (result == 0)
        result = check_file(fd, size, why);
    if (result != 0)
        return result;
    void *host = mmap(NULL, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (host == MAP_FAILED) {
        result = -errno;
        vgc_control_say(why, "the control area cannot be mapped: %s", strerror(-result));
        return result;
    }
    area->host = host;
    area->device = NO_DEVICE;
    return 0;
}

void vgc_control_area_unmap(struct vgc_control_area *area)
{
    if (area->host != NULL)
        munmap(area->host, area->size);
    area->host = NULL;
}

int vgc_control_area_attach(struct vgc_control_area *area, struct vgc_engine *engine, int fd, char *why)
{
    struct vgc_ctl_area head = {.magic = VGC_CTL_MAGIC,
                                .version = VGC_CTL_VERSION,
                                .num_pes = area->num_pes,
                                .num_channels = area->num_channels + 1,
                                .size = area->size,
                                .pes = area->pes,
                                .channels = area->channels,
                                .links = area->links};
    memcpy(area->host, &head, sizeof(head));
    if (engine == NULL)
        return 0;
    if (engine->ops->control_attach == NULL) {
        vgc_control_say(why, "the %s engine has no control system", engine->ops->name);
        return -ENOTSUP;
    }
    int result = engine->ops->control_attach(engine, fd, area->host, area->size, &area->device);
    if (result != 0) {
        vgc_control_say(why, "the %s engine cannot see the control area: %s", engine->ops->name, strerror(-result));
        return result;
    }
    area->engine = engine;
    area->urgent_bytes = engine->control_urgent_bytes;
    head.clock_ns = (int64_t)vgc_control_clock(area);
    vgc_control_write(area, 0, &head, sizeof(head));
    return 0;
}

/* ---- access --------------------------------------------------------------------------------------------------- */

bool vgc_control_is_apart(const struct vgc_control_area *area)
{
    return area->engine != NULL && area->engine->ops->control_read != NULL;
}

void vgc_control_read(const struct vgc_control_area *area, uint64_t offset, void *to, uint64_t size)
{
    if (vgc_control_is_apart(area)) {
        int result = area->engine->ops->control_read(area->engine, offset, to, size);
        if (result != 0 && result != -EAGAIN)
            memset(to, 0, size); /* the device is gone: all links read as empty */
        return;
    }
    const uint64_t *from = (const uint64_t *)(area->host + offset);
    for (uint64_t i = 0; i < size / 8; i++) {
        uint64_t word = __atomic_load_n(from + i, __ATOMIC_RELAXED);
        memcpy((uint8_t *)to + i * 8, &word, 8);
    }
    atomic_thread_fence(memory_order_acquire);
}

void vgc_control_write(const struct vgc_control_area *area, uint64_t offset, const void *from, uint64_t size)
{
    if (area->engine != NULL && area->engine->ops->control_write != NULL) {
        (void)area->engine->ops->control_write(area->engine, offset, from, size); /* fails if the device is gone */
        return;
    }
    atomic_thread_fence(memory_order_release);
    uint64_t *to = (uint64_t *)(area->host + offset);
    for (uint64_t i = 0; i < size / 8; i++) {
        uint64_t word;
        memcpy(&word, (const uint8_t *)from + i * 8, 8);
        __atomic_store_n(to + i, word, __ATOMIC_RELAXED);
    }
}

uint64_t vgc_control_load(const struct vgc_control_area *area, uint64_t offset)
{
    uint64_t value;
    vgc_control_read(area, offset, &value, sizeof(value));
    return value;
}

void vgc_control_store(const struct vgc_control_area *area, uint64_t offset, uint64_t value)
{
    vgc_control_write(area, offset, &value, sizeof(value));
}

void vgc_control_store32(const struct vgc_control_area *area, uint64_t offset, uint32_t value)
{
    if (area->engine != NULL && area->engine->ops->control_write != NULL)
        (void)area->engine->ops->control_write(area->engine, offset, &value, sizeof(value));
    else
        __atomic_store_n((uint32_t *)(area->host + offset), value, __ATOMIC_RELEASE);
}

void vgc_control_fence(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}

bool vgc_control_is_held(const struct vgc_control_area *area, uint32_t pe)
{
    uint64_t readers = 0;
    uint64_t at = vgc_control_pe_at(area, pe) + offsetof(struct vgc_ctl_pe, readers);
    if (!vgc_control_is_apart(area))
        return vgc_control_load(area, at) != 0;
    int result = area->engine->ops->control_read(area->engine, at, &readers, sizeof(readers));
    return result == -EAGAIN || (result == 0 && readers != 0);
}

uint64_t vgc_control_device_at(const struct vgc_control_area *area, uint64_t offset)
{
    bool urgent = offset >= area->links && offset - area->links < area->urgent_bytes;
    return urgent ? area->engine->control_urgent + (offset - area->links) : area->device + offset;
}

uint64_t vgc_control_pe_at(const struct vgc_control_area *area, uint32_t pe)
{
    return area->pes + (uint64_t)pe * sizeof(struct vgc_ctl_pe);
}

uint64_t vgc_control_channel_at(const struct vgc_control_area *area, uint32_t channel)
{
    return area->channels + (uint64_t)channel * sizeof(struct vgc_ctl_channel);
}
