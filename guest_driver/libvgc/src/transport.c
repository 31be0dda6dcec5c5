/* What transports have in common: how fast the region reads, and whether a device's configuration is one to talk to. */
#include "internal.h"

int vgc_check_config(const struct vgc_config *config)
{
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

void vgc_transport_measure(struct vgc_transport *transport)
{
    enum { BYTES = 64 << 10, TRIES = 3 };
    static const double CACHED_ABOVE = 400e6; /* uncached reads give well under 200 MB/s, emulation over 1 GB/s */
    uint64_t bytes = VGC_MIN((uint64_t)BYTES, transport->region_bytes);
    const volatile uint64_t *words = (const volatile uint64_t *)(transport->region + transport->region_bytes - bytes);
    uint64_t best_ns = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t start = vgc_now_ns();
        for (uint64_t at = 0; at < bytes / sizeof(*words); at++)
            (void)words[at];
        best_ns = VGC_MIN(best_ns, VGC_MAX(vgc_now_ns() - start, 1));
    }
    transport->read_bytes_per_s = (double)bytes * (double)VGC_NS_PER_S / (double)best_ns;
    transport->region_cached = transport->read_bytes_per_s >= CACHED_ABOVE;
}
