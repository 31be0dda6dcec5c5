/* PCI functions: the ivshmem function through its driver, and the virtio function as far as Windows shows it without
 * one. A driver that offers its BARs, its configuration space and its interrupt to programs is yet to be written
 * (docs/windows.md). */
#include "ivshmem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VENDOR_REDHAT 0x1af4
#define DEVICE_IVSHMEM 0x1110

enum { IVSHMEM_BAR = 2 };

static int no_driver(const char *address)
{
    return vgc_fail(VGC_UNSUPPORTED,
                    "Windows has no driver through which programs can use the PCI function %s; docs/windows.md says "
                    "what it would have to offer",
                    address);
}

static int by_address(const void *a, const void *b)
{
    return strcmp(((const struct vgc_pci_id *)a)->address, ((const struct vgc_pci_id *)b)->address);
}

int vgc_pci_find(uint16_t vendor, uint16_t device, struct vgc_pci_id *ids, size_t room, size_t *count)
{
    struct vgc_pnp_device found;
    *count = 0;
    for (unsigned i = 0; *count < room && vgc_pnp->device(i, &found); i++) {
        if (!vgc_pnp_is(&found, vendor, device))
            continue;
        struct vgc_pci_id *id = &ids[(*count)++];
        *id = (struct vgc_pci_id){.vendor = vendor, .device = device};
        vgc_pnp_address(&found, id->address);
    }
    qsort(ids, *count, sizeof(*ids), by_address);
    return VGC_OK;
}

static int find_ivshmem(const char *address, struct vgc_pnp_device *found)
{
    int result = vgc_pnp_find(address, found);
    if (result != VGC_OK)
        return result;
    return vgc_pnp_is(found, VENDOR_REDHAT, DEVICE_IVSHMEM) ? VGC_OK : no_driver(address);
}

int vgc_pci_bar(const char *address, uint32_t bar, uint64_t *base, uint64_t *size)
{
    struct vgc_pnp_device found;
    int result = find_ivshmem(address, &found);
    if (result == VGC_OK && bar != IVSHMEM_BAR)
        result = vgc_fail(VGC_NO_DEVICE, "of the ivshmem function %s only BAR 2 can be mapped, not %u", address, bar);
    return result == VGC_OK ? vgc_ivshmem_place(&found, address, base, size) : result;
}

int vgc_pci_map(const char *address, const char *file, uint64_t size, void **pointer)
{
    struct vgc_pnp_device found;
    bool is_cached = strcmp(file, "resource2_wc") == 0;
    int result = find_ivshmem(address, &found);
    *pointer = NULL;
    if (result == VGC_OK && !is_cached && strcmp(file, "resource2") != 0)
        result = vgc_fail(VGC_NO_DEVICE, "of the ivshmem function %s only BAR 2 can be mapped, not %s", address, file);
    if (result != VGC_OK)
        return result;
    uint8_t mode = is_cached ? VGC_IVSHMEM_CACHED : VGC_IVSHMEM_NONCACHED;
    return vgc_ivshmem_map(&found, address, mode, size, pointer);
}

int vgc_pci_command(const char *address, uint16_t set)
{
    struct vgc_pnp_device found;
    (void)set; /* Windows has enabled a function whose driver runs */
    return find_ivshmem(address, &found);
}

void vgc_pci_driver(const char *address, char *driver, size_t room)
{
    struct vgc_pnp_device found;
    bool is_there = vgc_pnp_find(address, &found) == VGC_OK;
    (void)snprintf(driver, room, "%s", is_there ? found.service : "");
}

/* ---- what the virtio function's driver would do --------------------------------------------- */

int vgc_pci_bind_uio(const char *address)
{
    return no_driver(address);
}

int vgc_pci_open_config(const char *address, vgc_handle *config)
{
    struct vgc_pnp_device found;
    int result = vgc_pnp_find(address, &found);
    *config = VGC_NO_HANDLE;
    return result == VGC_OK ? no_driver(address) : result;
}

bool vgc_pci_read(vgc_handle config, uint32_t at, void *bytes, size_t size)
{
    (void)config, (void)at, (void)bytes, (void)size;
    return vgc_failed_with(ERROR_NOT_SUPPORTED);
}

bool vgc_pci_write(vgc_handle config, uint32_t at, const void *bytes, size_t size)
{
    (void)config, (void)at, (void)bytes, (void)size;
    return vgc_failed_with(ERROR_NOT_SUPPORTED);
}

void vgc_pci_lock(vgc_handle config)
{
    (void)config;
}

void vgc_pci_unlock(vgc_handle config)
{
    (void)config;
}

bool vgc_pci_uio(const char *address, char *node, size_t room)
{
    (void)address, (void)room;
    node[0] = '\0';
    return false;
}

vgc_handle vgc_pci_open_interrupt(const char *node)
{
    (void)node;
    (void)vgc_failed_with(ERROR_NOT_SUPPORTED);
    return VGC_NO_HANDLE;
}

enum vgc_wakeup vgc_pci_wait_interrupt(vgc_handle interrupt, uint64_t timeout_ns)
{
    (void)interrupt, (void)timeout_ns;
    return VGC_WAKEUP_BROKEN;
}
