/* Bringing a virtio device up: reset, features, queues [virtio 1.3 §3.1], and telling that this was done before.
 *
 * Processes that use the device mark its configuration space as used. Those of one folder of state know
 * one another by that; the mark is for processes of containers that have a folder of their own, which would reset the
 * device under the others. */
#include "virtio.h"

enum { NO_VECTOR = 0xffff };

/* False: a queue's place lies outside of the area for notifications, or is not aligned. */
static bool read_notify_offsets(struct virtio_pci *pci, uint32_t num_queues)
{
    for (uint32_t i = 0; i < num_queues; i++) {
        pci->common->queue_select = (uint16_t)i;
        pci->notify_offsets[i] = pci->common->queue_notify_off;
        uint64_t place = (uint64_t)pci->notify_offsets[i] * pci->notify_multiplier;
        if (place % sizeof(uint16_t) != 0 || place + sizeof(uint16_t) > pci->notify_bytes)
            return false;
    }
    return true;
}

/* Waits for processes that are about to close it. */
int vgc_virtio_check_unused(struct vgc_transport *transport, uint64_t deadline_ns)
{
    uint64_t step_ns = 20000;
    while (vgc_pci_is_used(vgc_virtio_of(transport)->config))
        if (!vgc_backoff(&step_ns, deadline_ns))
            return vgc_fail(
                VGC_NO_ANSWER,
                "%s is used by processes with another folder of state: all processes of a machine, those in "
                "containers included, need the same one, as a rule /run/vgc",
                transport->name);
    return VGC_OK;
}

bool vgc_virtio_is_running(struct vgc_transport *transport, const struct vgc_layout *layout)
{
    struct virtio_pci *pci = vgc_virtio_of(transport);
    volatile struct common_config *common = pci->common;
    uint8_t status = common->device_status;
    if ((status & (STATUS_NEEDS_RESET | STATUS_FAILED)) != 0 || (status & STATUS_FEATURES_OK) == 0)
        return false;
    vgc_virtio_lock(pci);
    common->queue_select = 0;
    uint64_t desc = common->queue_desc.low | (uint64_t)common->queue_desc.high << 32;
    bool ours = common->queue_enable == 1 && desc == transport->region_gpa + vgc_layout_ring_offset(layout, 0);
    common->driver_feature_select = 0;
    uint64_t features = common->driver_feature;
    common->driver_feature_select = 1;
    transport->features = features | (uint64_t)common->driver_feature << 32;
    bool can_kick = read_notify_offsets(pci, layout->num_queues);
    vgc_virtio_unlock(pci);
    if (!ours || !can_kick)
        return false;
    vgc_pci_mark_used(pci->config);
    return true;
}

static int negotiate(struct virtio_pci *pci)
{
    volatile struct common_config *common = pci->common;
    const uint64_t wanted = 1ull << VGC_F_RING_INDIRECT_DESC | 1ull << VGC_F_RING_EVENT_IDX | 1ull << VGC_F_VERSION_1;
    common->device_feature_select = 0;
    uint64_t offered = common->device_feature;
    common->device_feature_select = 1;
    offered |= (uint64_t)common->device_feature << 32;
    if ((offered >> VGC_F_VERSION_1 & 1) == 0)
        return vgc_fail(VGC_INCOMPATIBLE, "%s does not offer VIRTIO_F_VERSION_1", pci->base.name);
    uint64_t acked = offered & wanted;
    common->driver_feature_select = 0;
    common->driver_feature = (uint32_t)acked;
    common->driver_feature_select = 1;
    common->driver_feature = (uint32_t)(acked >> 32);
    common->device_status = STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK;
    if ((common->device_status & STATUS_FEATURES_OK) == 0)
        return vgc_fail(VGC_INCOMPATIBLE, "%s refused the features 0x%llx", pci->base.name, (unsigned long long)acked);
    pci->base.features = acked;
    return VGC_OK;
}

static void write_address(volatile struct address_registers *registers, uint64_t gpa)
{
    registers->low = (uint32_t)gpa;
    registers->high = (uint32_t)(gpa >> 32);
}

static void setup_queues(struct virtio_pci *pci, const struct vgc_layout *layout)
{
    volatile struct common_config *common = pci->common;
    for (uint32_t i = 0; i < layout->num_queues; i++) {
        uint64_t gpa = pci->base.region_gpa + vgc_layout_ring_offset(layout, i);
        common->queue_select = (uint16_t)i;
        common->queue_size = (uint16_t)layout->ring_size;
        common->queue_msix_vector = NO_VECTOR;
        write_address(&common->queue_desc, gpa);
        write_address(&common->queue_driver, gpa + layout->avail_offset);
        write_address(&common->queue_device, gpa + layout->used_offset);
        common->queue_enable = 1;
    }
}

int vgc_virtio_start(struct vgc_transport *transport, const struct vgc_layout *layout, uint64_t deadline_ns)
{
    struct virtio_pci *pci = vgc_virtio_of(transport);
    uint64_t step_ns = 20000;
    vgc_virtio_barrier(); /* rings are zeroed */
    vgc_virtio_set_command(pci, COMMAND_MEMORY | COMMAND_MASTER, 0);
    pci->common->device_status = 0;
    while (pci->common->device_status != 0)
        if (!vgc_backoff(&step_ns, deadline_ns))
            return vgc_fail(VGC_NO_ANSWER, "%s does not come out of reset", transport->name);
    vgc_virtio_lock(pci);
    pci->common->device_status = STATUS_ACKNOWLEDGE;
    pci->common->device_status = STATUS_ACKNOWLEDGE | STATUS_DRIVER;
    int result = negotiate(pci);
    if (result == VGC_OK) {
        setup_queues(pci, layout);
        if (!read_notify_offsets(pci, layout->num_queues))
            result = vgc_fail(VGC_INCOMPATIBLE,
                              "%s has a queue that is notified outside of its %u bytes for that, or at an odd address",
                              transport->name, pci->notify_bytes);
    }
    vgc_virtio_unlock(pci);
    if (result == VGC_OK)
        vgc_pci_mark_used(pci->config);
    pci->common->device_status =
        result == VGC_OK ? STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK | STATUS_DRIVER_OK : STATUS_FAILED;
    return result;
}
