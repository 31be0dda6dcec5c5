/* The quota, which the host may change while requests are served.
 *
 * Each answer of the device bears the number of its latest quota. The process that hears of a new one first notes its
 * number in the state file, and every process reads the configuration again before its next request. */
#include "internal.h"

static const uint64_t GRACE_NS = 10 * VGC_NS_PER_S; /* beyond the launch deadline, for everything around it */

/* Numbers may wrap. */
static bool is_later(uint32_t allotment, uint32_t than)
{
    return (int32_t)(allotment - than) > 0;
}

/* A time-out never shrinks: launches under way keep their deadline. */
static void follow_deadline(struct vgc_device *device, uint64_t deadline_ns)
{
    uint64_t timeout_ns = VGC_MIN(deadline_ns, UINT64_MAX - GRACE_NS - 1) + GRACE_NS;
    if (!device->is_own_timeout && timeout_ns > atomic_load(&device->request_timeout_ns))
        atomic_store(&device->request_timeout_ns, timeout_ns);
}

void vgc_limits_take(struct vgc_device *device, const struct vgc_config *config)
{
    struct vgc_limits *limits = &device->limits;
    pthread_mutex_lock(&device->limits_mutex);
    if (!is_later(atomic_load(&limits->allotment), config->allotment)) { /* else another thread was faster */
        atomic_store(&limits->queue_depth, config->queue_depth);
        atomic_store(&limits->max_streams, config->max_streams);
        atomic_store(&limits->memory_bytes, config->quota_memory_bytes);
        atomic_store(&limits->allotment, config->allotment);
        follow_deadline(device, config->deadline_ns);
    }
    pthread_mutex_unlock(&device->limits_mutex);
}

void vgc_limits_acknowledge(struct vgc_device *device, const struct vgc_config *config)
{
    vgc_limits_take(device, config);
    vgc_limits_hear(device, config->allotment);
    device->transport->ops->write_ack(device->transport, config->allotment);
}

void vgc_limits_hear(struct vgc_device *device, uint32_t allotment)
{
    uint32_t latest = atomic_load_explicit(&device->state->allotment, memory_order_relaxed);
    while (allotment != 0 && is_later(allotment, latest))
        if (atomic_compare_exchange_weak(&device->state->allotment, &latest, allotment))
            return;
}

/* A configuration that cannot be read, or makes no sense, changes nothing. Another process may have acknowledged a
 * later one between our reading and our writing; then we do so, too, so that the last word is not an earlier one. */
static void read_anew(struct vgc_device *device)
{
    struct vgc_config config;
    for (int tries = 0; tries < 2; tries++) {
        if (device->transport->ops->read_config(device->transport, &config) != VGC_OK ||
            vgc_check_config(&config) != VGC_OK)
            return;
        vgc_limits_acknowledge(device, &config);
        if (!is_later(atomic_load(&device->state->allotment), config.allotment))
            return;
    }
}

void vgc_limits_follow(struct vgc_device *device)
{
    uint32_t latest = atomic_load_explicit(&device->state->allotment, memory_order_relaxed);
    uint32_t heard = atomic_load_explicit(&device->limits.heard, memory_order_relaxed);
    if (latest == heard)
        return;
    atomic_store(&device->limits.heard, latest); /* other threads go on with what they know */
    if (is_later(latest, atomic_load(&device->limits.allotment)))
        read_anew(device);
    if (is_later(latest, atomic_load(&device->limits.allotment)))
        atomic_store(&device->limits.heard, heard); /* the answer was faster than the configuration: once more, soon */
}

bool vgc_limits_changed(struct vgc_device *device)
{
    uint32_t before = atomic_load(&device->limits.allotment);
    if (device->transport->ops->read_allotment(device->transport) != before)
        read_anew(device);
    return atomic_load(&device->limits.allotment) != before;
}
