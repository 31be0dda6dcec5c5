/* Parts shared by all transports: the layout of the region, a measurement of its reading speed, and the check of a
 * device's configuration. */
#include "internal.h"

/* ---- the region: header page, rings of all queues, chunks that processes take and give back --- */

enum { PAGE = 4096, CACHE_LINE = 64, MIN_CHUNK = 64 << 10 };

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

int vgc_layout_make(struct vgc_layout *layout, uint64_t region_bytes, uint32_t num_queues, uint32_t ring_size)
{
    uint64_t avail = round_up(VGC_DESC_BYTES(ring_size), CACHE_LINE);
    uint64_t used = round_up(avail + VGC_AVAIL_BYTES(ring_size), CACHE_LINE);
    uint64_t stride = round_up(used + VGC_USED_BYTES(ring_size), PAGE);
    uint64_t rings_end = VGC_REGION_HEADER_BYTES + stride * num_queues;
    uint64_t chunk = MIN_CHUNK;
    while (chunk * VGC_MAX_CHUNKS < region_bytes)
        chunk *= 2;
    uint64_t data = round_up(rings_end, PAGE);
    if (data + 4 * chunk > region_bytes)
        return vgc_fail(VGC_INCOMPATIBLE,
                        "the region of %llu KiB is too small for %u queues of %u entries: at least %llu KiB",
                        (unsigned long long)region_bytes >> 10, num_queues, ring_size,
                        (unsigned long long)(data + 4 * chunk) >> 10);
    *layout = (struct vgc_layout){.num_queues = num_queues,
                                  .ring_size = ring_size,
                                  .ring_stride = stride,
                                  .avail_offset = avail,
                                  .used_offset = used,
                                  .data_offset = data,
                                  .chunk_bytes = chunk,
                                  .num_chunks = (uint32_t)((region_bytes - data) / chunk)};
    return VGC_OK;
}

uint64_t vgc_layout_ring_offset(const struct vgc_layout *layout, uint32_t queue)
{
    return VGC_REGION_HEADER_BYTES + layout->ring_stride * queue;
}

struct vgc_ring vgc_layout_ring(const struct vgc_layout *layout, uint8_t *region, uint32_t queue)
{
    uint8_t *base = region + vgc_layout_ring_offset(layout, queue);
    return (struct vgc_ring){.desc = (struct vgc_desc *)base,
                             .avail = (uint16_t *)(base + layout->avail_offset),
                             .used = (uint16_t *)(base + layout->used_offset),
                             .num = (uint16_t)layout->ring_size};
}

bool vgc_region_is_ours(const struct vgc_region_header *header)
{
    return header->magic == VGC_REGION_MAGIC;
}

double vgc_read_rate(const uint8_t *memory, uint64_t memory_bytes)
{
    enum { BYTES = 64 << 10, TRIES = 3 };
    uint64_t bytes = VGC_MIN((uint64_t)BYTES, memory_bytes);
    const volatile uint64_t *words = (const volatile uint64_t *)(memory + memory_bytes - bytes);
    uint64_t best_ns = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t start = vgc_now_ns();
        for (uint64_t at = 0; at < bytes / sizeof(*words); at++)
            (void)words[at];
        best_ns = VGC_MIN(best_ns, VGC_MAX(vgc_now_ns() - start, 1));
    }
    return (double)bytes * (double)VGC_NS_PER_S / (double)best_ns;
}

void vgc_transport_measure(struct vgc_transport *transport)
{
    static const double CACHED_ABOVE = 400e6; /* uncached reads give well under 200 MB/s, emulation over 1 GB/s */
    transport->read_bytes_per_s = vgc_read_rate(transport->region, transport->region_bytes);
    transport->region_cached = transport->read_bytes_per_s >= CACHED_ABOVE;
}

/* ---- the folder of state --------------------------------------------------------------------- */

const char *vgc_state_dir(const struct vgc_options *options)
{
    const char *from_environment = vgc_variable("VGC_STATE_DIR");
    if (options->state_dir != NULL)
        return options->state_dir;
    return from_environment != NULL && from_environment[0] != '\0' ? from_environment : vgc_default_state_dir();
}

/* ---- the region's address -------------------------------------------------------------------- */

void vgc_transport_place(struct vgc_transport *transport, uint64_t address)
{
    void *wanted = (void *)(uintptr_t)address;
    if (address % PAGE == 0 && vgc_move_mapping(transport->region, transport->region_bytes, wanted))
        transport->region = wanted;
}

/* ---- the configuration ---------------------------------------------------------------------- */

int vgc_check_config(const struct vgc_config *config)
{
    if (vgc_is_swapped(config->magic))
        return vgc_fail_swapped(config->magic);
    if (config->fingerprint == __builtin_bswap64(VGC_WIRE_FINGERPRINT))
        return vgc_fail(
            VGC_INCOMPATIBLE,
            "driver and device differ in byte order: the device's fingerprint %016llx is this driver's, with "
            "its bytes swapped; all of the configuration is little-endian",
            (unsigned long long)config->fingerprint);
    if (config->magic != VGC_CONFIG_MAGIC)
        return vgc_fail(VGC_INCOMPATIBLE, "not a virtio-gpu-compute device: config magic 0x%08x, expected 0x%08x",
                        config->magic, VGC_CONFIG_MAGIC);
    if (config->version != VGC_WIRE_VERSION || config->fingerprint != VGC_WIRE_FINGERPRINT)
        return vgc_fail(VGC_INCOMPATIBLE,
                        "driver and device differ in their wire format: the device has version %u fingerprint "
                        "%016llx, this driver version %u fingerprint %016llx; install the driver that belongs to "
                        "the host's daemon",
                        config->version, (unsigned long long)config->fingerprint, VGC_WIRE_VERSION,
                        (unsigned long long)VGC_WIRE_FINGERPRINT);
    if (config->num_queues == 0 || config->num_queues > VGC_MAX_QUEUES || config->queue_depth == 0 ||
        config->max_streams == 0)
        return vgc_fail(VGC_INCOMPATIBLE,
                        "the device's configuration makes no sense: %u queues (1 to %d), queue depth %u, %u streams",
                        config->num_queues, VGC_MAX_QUEUES, config->queue_depth, config->max_streams);
    return VGC_OK;
}
