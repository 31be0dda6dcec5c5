/* The PCI configuration space of a virtio function and the areas that its capabilities point to, in BARs
 * [virtio 1.3 §4.1.4]. */
#include <stdio.h>
#include <string.h>

#include "virtio.h"

enum { /* PCI */
       PCI_COMMAND = 4,
       PCI_CAPABILITIES = 0x34,
       CAPABILITY_VENDOR = 9,
};

enum { /* virtio_pci_cap.cfg_type [virtio 1.3 §4.1.4] */
       CAP_COMMON = 1,
       CAP_NOTIFY = 2,
       CAP_ISR = 3,
       CAP_DEVICE = 4,
};

/* ---- configuration space -------------------------------------------------------------------- */

void vgc_virtio_set_command(struct virtio_pci *pci, uint16_t set, uint16_t clear)
{
    uint16_t command;
    if (!vgc_pci_read(pci->config, PCI_COMMAND, &command, sizeof(command)))
        return; /* seen as a device that does not answer */
    uint16_t wanted = (uint16_t)((command | vgc_le16(set)) & ~vgc_le16(clear));
    if (wanted != command)
        (void)vgc_pci_write(pci->config, PCI_COMMAND, &wanted, sizeof(wanted));
}

void vgc_virtio_lock(struct virtio_pci *pci)
{
    vgc_pci_lock(pci->config);
}

void vgc_virtio_unlock(struct virtio_pci *pci)
{
    vgc_pci_unlock(pci->config);
}

int vgc_virtio_read_pci_config(struct virtio_pci *pci, uint8_t config[256])
{
    if (pci->grant == NULL && vgc_pci_read(pci->config, 0, config, 256))
        return VGC_OK;
    if (pci->grant == NULL)
        pci->grant = vgc_virtio_granted(pci);
    if (pci->grant == NULL)
        return vgc_fail(VGC_NO_PERMISSION,
                        "the whole PCI configuration space of %s is only readable with root rights, and %s has no copy "
                        "of it, as 'vgc grant GROUP' leaves there",
                        pci->base.name, pci->state_dir);
    memcpy(config, pci->grant->config, 256);
    return VGC_OK;
}

/* Calls `visit` for virtio's capabilities until one call fails. */
static int for_each_capability(struct virtio_pci *pci, int (*visit)(struct virtio_pci *, const uint8_t *, uint8_t))
{
    uint8_t config[256] = {0};
    int result = vgc_virtio_read_pci_config(pci, config);
    uint8_t at = config[PCI_CAPABILITIES];
    for (int seen = 0; result == VGC_OK && at >= 64 && at <= 256 - 20 && seen < 48; at = config[at + 1], seen++)
        if (config[at] == CAPABILITY_VENDOR)
            result = visit(pci, config, at);
    return result;
}

/* ---- mapping -------------------------------------------------------------------------------- */

static int map_bar(struct virtio_pci *pci, uint8_t bar, uint64_t offset, uint64_t len, uint8_t **at)
{
    char file[16];
    uint64_t base;
    if (bar >= NUM_BARS)
        return vgc_fail(VGC_INCOMPATIBLE, "%s has a capability in BAR %u", pci->base.name, bar);
    if (pci->bars[bar] == NULL) {
        int result = vgc_pci_bar(pci->base.name, bar, &base, &pci->bar_bytes[bar]);
        (void)snprintf(file, sizeof(file), "resource%u", bar);
        if (result == VGC_OK)
            result = vgc_pci_map(pci->base.name, file, pci->bar_bytes[bar], &pci->bars[bar]);
        if (result != VGC_OK)
            return result;
    }
    if (offset > pci->bar_bytes[bar] || len > pci->bar_bytes[bar] - offset)
        return vgc_fail(VGC_INCOMPATIBLE, "%s has a capability beyond its BAR %u", pci->base.name, bar);
    *at = (uint8_t *)pci->bars[bar] + offset;
    return VGC_OK;
}

static uint32_t read_u32(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof(value));
    return vgc_le32(value);
}

/* Areas as the driver uses them [virtio 1.3 §4.1.4]. */
static const struct {
    uint32_t bytes; /* at least */
    uint32_t align;
} AREAS[] = {
    [CAP_COMMON] = {sizeof(struct common_config), 4},
    [CAP_NOTIFY] = {sizeof(uint16_t), sizeof(uint16_t)},
    [CAP_ISR] = {1, 1},
    [CAP_DEVICE] = {sizeof(struct vgc_config), 4},
};

static int map_capability(struct virtio_pci *pci, const uint8_t *config, uint8_t at)
{
    uint8_t type = config[at + 3];
    uint8_t *area = NULL;
    if (type < CAP_COMMON || type > CAP_DEVICE)
        return VGC_OK;
    uint32_t offset = read_u32(config + at + 8), length = read_u32(config + at + 12);
    if (length < AREAS[type].bytes || offset % AREAS[type].align != 0)
        return vgc_fail(VGC_INCOMPATIBLE,
                        "%s has a capability of type %u with %u bytes at offset %#x; allowed: at least %u bytes, at a "
                        "multiple of %u",
                        pci->base.name, type, length, offset, AREAS[type].bytes, AREAS[type].align);
    int result = map_bar(pci, config[at + 4], offset, length, &area);
    if (result != VGC_OK)
        return result;
    if (type == CAP_COMMON) {
        pci->common = (volatile struct common_config *)area;
    } else if (type == CAP_NOTIFY) {
        pci->notify = area;
        pci->notify_bytes = length;
        pci->notify_multiplier = read_u32(config + at + 16);
    } else if (type == CAP_ISR) {
        pci->isr = area;
    } else {
        pci->device_config = area;
    }
    return VGC_OK;
}

void vgc_virtio_unmap_areas(struct virtio_pci *pci)
{
    for (int bar = 0; bar < NUM_BARS; bar++) {
        if (pci->bars[bar] != NULL)
            vgc_unmap(pci->bars[bar], pci->bar_bytes[bar]);
        pci->bars[bar] = NULL;
    }
}

int vgc_virtio_map_areas(struct virtio_pci *pci)
{
    int result = for_each_capability(pci, map_capability);
    if (result != VGC_OK)
        return result;
    if (pci->common == NULL || pci->notify == NULL || pci->isr == NULL || pci->device_config == NULL)
        return vgc_fail(VGC_INCOMPATIBLE, "%s lacks one of virtio's capability areas", pci->base.name);
    uint32_t magic = vgc_le32(*(volatile uint32_t *)pci->device_config);
    if (magic == VGC_CONFIG_MAGIC)
        return VGC_OK;
    if (vgc_is_swapped(magic))
        return vgc_fail_swapped(magic);
    return vgc_fail(VGC_NO_DEVICE, "%s is not a virtio-gpu-compute device: its configuration lacks the magic VGPC",
                    pci->base.name);
}
