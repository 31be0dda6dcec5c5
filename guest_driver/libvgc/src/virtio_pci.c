/* The transport of a real guest: a virtio PCI function [virtio 1.3 §4.1] driven through UIO. Its region
 * is in virtio_region.c. */
#include <stdio.h>
#include <string.h>

#include "virtio.h"

#define VENDOR_REDHAT 0x1af4
#define DEVICE_IVSHMEM 0x1110
#define DEVICE_OURS (0x1040 + VGC_VIRTIO_ID)

enum { MAX_FUNCTIONS = 32, MAX_LOOKED_AT = 256 };

/* ---- finding -------------------------------------------------------------------------------- */

/* The functions of our virtio id whose configuration begins with our magic, in address order. */
static int find_ours(const char *state_dir, struct vgc_pci_id *ids, size_t *count)
{
    struct vgc_pci_id all[MAX_FUNCTIONS];
    size_t num_all;
    *count = 0;
    int result = vgc_pci_find(VENDOR_REDHAT, DEVICE_OURS, all, MAX_FUNCTIONS, &num_all);
    for (size_t i = 0; i < num_all && result == VGC_OK; i++) {
        struct virtio_pci *pci;
        result = vgc_virtio_open_function(all[i].address, state_dir, &pci);
        if (result == VGC_NO_DEVICE) {
            result = VGC_OK;
            continue;
        }
        if (result != VGC_OK)
            return result;
        ids[(*count)++] = all[i];
        vgc_virtio_close(&pci->base);
    }
    return result;
}

static bool is_function(const char *address, uint16_t device)
{
    struct vgc_pci_id found[MAX_LOOKED_AT];
    size_t count;
    if (vgc_pci_find(VENDOR_REDHAT, device, found, MAX_LOOKED_AT, &count) != VGC_OK)
        return false;
    for (size_t i = 0; i < count; i++)
        if (strcmp(found[i].address, address) == 0)
            return true;
    return false;
}

static int region_size_of(const char *address, const char *state_dir, uint64_t *bytes)
{
    struct virtio_pci *pci;
    struct vgc_config config;
    int result = vgc_virtio_open_function(address, state_dir, &pci);
    if (result != VGC_OK)
        return result;
    result = vgc_virtio_read_config(&pci->base, &config);
    *bytes = config.region_size;
    vgc_virtio_close(&pci->base);
    return result;
}

/* Do processes use one of these devices, other than `address`, with this region? */
static bool is_taken(const char *state_dir, const struct vgc_pci_id *ours, size_t count, const char *address,
                     const char *region_address)
{
    char used[VGC_PCI_ADDRESS_LEN];
    for (size_t i = 0; i < count; i++)
        if (strcmp(ours[i].address, address) != 0 && vgc_state_region(state_dir, ours[i].address, used) &&
            strcmp(used, region_address) == 0)
            return true;
    return false;
}

/* Ranks of devices with regions of one size: how many come before `address`, and how many there are. One after it that
 * cannot be opened counts, too. */
static int count_peers(const struct vgc_pci_id *ours, size_t num_ours, const char *address, const char *state_dir,
                       uint64_t bytes, size_t *rank, size_t *peers)
{
    bool is_before = true;
    *rank = *peers = 0;
    for (size_t i = 0; i < num_ours; i++) {
        uint64_t other = bytes;
        bool is_self = strcmp(ours[i].address, address) == 0;
        is_before = is_before && !is_self;
        int result = is_self ? VGC_OK : region_size_of(ours[i].address, state_dir, &other);
        if (result != VGC_OK && is_before)
            return result;
        *rank += is_before && other == bytes ? 1 : 0;
        *peers += other == bytes ? 1 : 0;
    }
    return VGC_OK;
}

/* Keeps the ivshmem functions of a region's size. If there are more of them than devices, some have other uses: then
 * only those that hold a region or zeroes. */
static size_t keep_fitting(struct vgc_pci_id *shared, size_t num_shared, uint64_t bytes, size_t peers)
{
    size_t fitting = 0, kept = 0;
    for (size_t i = 0; i < num_shared; i++)
        if (vgc_virtio_region_fits(shared[i].address, bytes))
            shared[fitting++] = shared[i];
    if (fitting <= peers)
        return fitting;
    for (size_t i = 0; i < fitting; i++)
        if (vgc_virtio_begins_as_region(shared[i].address))
            shared[kept++] = shared[i];
    return kept;
}

/* Devices and ivshmem functions of one size belong together in address order, the n-th to the n-th, unless that one is
 * in use by another device. */
static int find_region(const char *address, const char *state_dir, uint64_t bytes, char *region_address)
{
    struct vgc_pci_id ours[MAX_FUNCTIONS], shared[MAX_FUNCTIONS];
    size_t num_ours, num_shared, rank, peers;
    int result = find_ours(state_dir, ours, &num_ours);
    if (result == VGC_OK)
        result = count_peers(ours, num_ours, address, state_dir, bytes, &rank, &peers);
    if (result == VGC_OK)
        result = vgc_pci_find(VENDOR_REDHAT, DEVICE_IVSHMEM, shared, MAX_FUNCTIONS, &num_shared);
    if (result != VGC_OK)
        return result;
    size_t fitting = keep_fitting(shared, num_shared, bytes, peers);
    size_t chosen = rank;
    for (size_t i = 0;
         i < fitting && rank < fitting && is_taken(state_dir, ours, num_ours, address, shared[chosen].address); i++)
        chosen = i;
    if (chosen < fitting) {
        memcpy(region_address, shared[chosen].address, VGC_PCI_ADDRESS_LEN);
        return VGC_OK;
    }
    return vgc_fail(
        VGC_NO_DEVICE,
        "no ivshmem-plain function (1af4:1110) with the %llu MiB that %s names and no data of others, and no NVDIMM in "
        "devdax mode: the VM needs '-device ivshmem-plain,memdev=...' with the region's file",
        (unsigned long long)bytes >> 20, address);
}

static int pick_address(const struct vgc_options *options, char *address)
{
    struct vgc_pci_id ours[MAX_FUNCTIONS];
    size_t count;
    if (options->address != NULL) {
        if (snprintf(address, VGC_PCI_ADDRESS_LEN, "%s", options->address) >= VGC_PCI_ADDRESS_LEN)
            return vgc_fail(VGC_INVALID_ARGUMENT, "'%s' is no PCI address", options->address);
        if (!is_function(address, DEVICE_OURS)) /* nor is anything of it touched */
            return vgc_fail(VGC_NO_DEVICE,
                            "no PCI function 1af4:%04x, as a virtio-gpu-compute device is, has the address %s",
                            DEVICE_OURS, address);
        return VGC_OK;
    }
    int result = find_ours(vgc_state_dir(options), ours, &count);
    if (result != VGC_OK)
        return result;
    if (options->index >= count)
        return vgc_fail(VGC_NO_DEVICE,
                        "no virtio-gpu-compute device number %u in this machine: %zu found (PCI id 1af4:%04x with "
                        "the magic VGPC)",
                        options->index, count, DEVICE_OURS);
    memcpy(address, ours[options->index].address, VGC_PCI_ADDRESS_LEN);
    return VGC_OK;
}

/* ---- opening -------------------------------------------------------------------------------- */

/* The region with which others use the device. They may be of a group that can write to the state file: what it names
 * is taken only if it could have been found, too. */
static bool find_used_region(const struct virtio_pci *pci, uint64_t bytes, char *region_address)
{
    struct vgc_pci_id ours[MAX_FUNCTIONS];
    size_t count;
    return vgc_state_region(pci->state_dir, pci->base.name, region_address) &&
           (vgc_virtio_is_dax(region_address) || is_function(region_address, DEVICE_IVSHMEM)) &&
           vgc_virtio_region_fits(region_address, bytes) && vgc_virtio_begins_as_region(region_address) &&
           vgc_pci_find(VENDOR_REDHAT, DEVICE_OURS, ours, MAX_FUNCTIONS, &count) == VGC_OK &&
           !is_taken(pci->state_dir, ours, count, pci->base.name, region_address);
}

/* The one that others use, else the devdax that was made of the region's file unless it is slow, else the ivshmem
 * function of it. */
static int choose_region(struct virtio_pci *pci, uint64_t bytes, char *region_address)
{
    char dax[VGC_PCI_ADDRESS_LEN];
    if (find_used_region(pci, bytes, region_address))
        return VGC_OK;
    int result = find_region(pci->base.name, pci->state_dir, bytes, region_address);
    if (result != VGC_OK && result != VGC_NO_DEVICE)
        return result;
    int looked = vgc_virtio_find_dax(bytes, result == VGC_OK ? region_address : NULL, dax);
    if (looked != VGC_OK)
        return looked;
    if (dax[0] == '\0')
        return result == VGC_OK ? VGC_OK : find_region(pci->base.name, pci->state_dir, bytes, region_address);
    if (result != VGC_OK || !vgc_virtio_prefers_bar(region_address, dax))
        memcpy(region_address, dax, sizeof(dax));
    return VGC_OK;
}

static int set_up_function(struct virtio_pci *pci, const struct vgc_options *options)
{
    char region_address[VGC_PCI_ADDRESS_LEN];
    struct vgc_config config;
    vgc_virtio_lock(pci);
    pci->common->queue_select = 0;
    pci->base.num_queues = pci->common->num_queues;
    pci->base.ring_size = VGC_MIN(pci->common->queue_size, (uint16_t)VGC_MAX_QUEUE_SIZE);
    vgc_virtio_unlock(pci);
    int result = vgc_virtio_read_config(&pci->base, &config);
    if (result == VGC_OK)
        result = vgc_check_config(&config);
    if (result == VGC_OK && options->region_address != NULL)
        (void)snprintf(region_address, sizeof(region_address), "%s", options->region_address);
    else if (result == VGC_OK && pci->grant != NULL)
        memcpy(region_address, pci->grant->region_address, sizeof(region_address));
    else if (result == VGC_OK)
        result = choose_region(pci, config.region_size, region_address);
    if (result == VGC_OK && vgc_virtio_is_dax(region_address))
        result = vgc_virtio_map_dax(pci, region_address, config.region_size);
    else if (result == VGC_OK && !is_function(region_address, DEVICE_IVSHMEM))
        result = vgc_fail(VGC_NO_DEVICE, "%s cannot be a region: it is no ivshmem function (1af4:1110), nor a devdax",
                          region_address);
    else if (result == VGC_OK)
        result = vgc_virtio_map_bar(pci, region_address);
    pci->base.interrupts = vgc_pci_uio(pci->base.name, pci->uio, sizeof(pci->uio));
    return result;
}

int vgc_virtio_pci_other_regions(const struct vgc_options *options, const struct vgc_transport *tried,
                                 char (*addresses)[VGC_PCI_ADDRESS_LEN], size_t room, size_t *count)
{
    struct vgc_pci_id ours[MAX_FUNCTIONS], shared[MAX_FUNCTIONS];
    size_t num_ours, num_shared;
    *count = 0;
    if (options->region_address != NULL || tried->region_kind != VGC_REGION_BAR)
        return VGC_OK;
    int result = vgc_pci_find(VENDOR_REDHAT, DEVICE_OURS, ours, MAX_FUNCTIONS, &num_ours);
    if (result == VGC_OK)
        result = vgc_pci_find(VENDOR_REDHAT, DEVICE_IVSHMEM, shared, MAX_FUNCTIONS, &num_shared);
    for (size_t i = 0; result == VGC_OK && i < num_shared && *count < room; i++) {
        const char *address = shared[i].address;
        if (strcmp(address, tried->region_name) != 0 && vgc_virtio_region_fits(address, tried->region_bytes) &&
            !is_taken(vgc_state_dir(options), ours, num_ours, tried->name, address) &&
            vgc_virtio_begins_as_region(address))
            memcpy(addresses[(*count)++], address, VGC_PCI_ADDRESS_LEN);
    }
    return result;
}

int vgc_virtio_pci_open(const struct vgc_options *options, struct vgc_transport **transport)
{
    char address[VGC_PCI_ADDRESS_LEN];
    struct virtio_pci *pci;
    int result = pick_address(options, address);
    if (result == VGC_OK)
        result = vgc_virtio_open_function(address, vgc_state_dir(options), &pci);
    if (result != VGC_OK)
        return result;
    result = set_up_function(pci, options);
    if (result != VGC_OK) {
        vgc_virtio_close(&pci->base);
        return result;
    }
    *transport = &pci->base;
    return VGC_OK;
}

/* ---- listing -------------------------------------------------------------------------------- */

int vgc_list(struct vgc_found *found, size_t room, size_t *count)
{
    struct vgc_pci_id ids[MAX_FUNCTIONS], shared[MAX_FUNCTIONS];
    size_t num_shared = 0;
    int result = vgc_pci_find(VENDOR_REDHAT, DEVICE_OURS, ids, VGC_MIN(room, (size_t)MAX_FUNCTIONS), count);
    if (result == VGC_OK)
        result = vgc_pci_find(VENDOR_REDHAT, DEVICE_IVSHMEM, shared, MAX_FUNCTIONS, &num_shared);
    if (result != VGC_OK)
        return result;
    for (size_t i = 0; i < *count; i++) {
        memset(&found[i], 0, sizeof(found[i]));
        memcpy(found[i].address, ids[i].address, sizeof(found[i].address));
        vgc_pci_driver(ids[i].address, found[i].driver, sizeof(found[i].driver));
        (void)vgc_pci_uio(ids[i].address, found[i].uio, sizeof(found[i].uio));
        if (i >= num_shared)
            continue;
        uint64_t base;
        memcpy(found[i].region_address, shared[i].address, sizeof(found[i].region_address));
        (void)vgc_pci_bar(shared[i].address, 2, &base, &found[i].region_bytes);
    }
    return VGC_OK;
}
