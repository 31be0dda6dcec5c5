/* The region: header page, the rings of all queues, then chunks that processes take and give back. */
#include "internal.h"

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
