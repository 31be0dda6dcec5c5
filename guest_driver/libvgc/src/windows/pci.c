/* PCI functions: that of ivshmem through the driver of virtio-win, all others through DPDK's NetUIO. */
#include "devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VENDOR_REDHAT 0x1af4
#define DEVICE_IVSHMEM 0x1110

enum { IVSHMEM_BAR = 2 };

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

static int find(const char *address, struct vgc_pnp_device *found, bool *is_ivshmem)
{
    int result = vgc_pnp_find(address, found);
    *is_ivshmem = result == VGC_OK && vgc_pnp_is(found, VENDOR_REDHAT, DEVICE_IVSHMEM);
    return result;
}

void vgc_pci_driver(const char *address, char *driver, size_t room)
{
    struct vgc_pnp_device found;
    bool is_there = vgc_pnp_find(address, &found) == VGC_OK;
    (void)snprintf(driver, room, "%s", is_there ? found.service : "");
}

/* ---- BARs ----------------------------------------------------------------------------------- */

static int no_such_bar(const char *address, uint32_t bar)
{
    return vgc_fail(VGC_NO_DEVICE, "of the ivshmem function %s only BAR 2 can be mapped, not %u", address, bar);
}

int vgc_pci_bar(const char *address, uint32_t bar, uint64_t *base, uint64_t *size)
{
    struct vgc_pnp_device found;
    bool is_ivshmem;
    int result = find(address, &found, &is_ivshmem);
    if (result != VGC_OK)
        return result;
    if (!is_ivshmem)
        return vgc_netuio_place(&found, address, bar, base, size);
    return bar == IVSHMEM_BAR ? vgc_ivshmem_place(&found, address, base, size) : no_such_bar(address, bar);
}

int vgc_pci_map(const char *address, const char *file, uint64_t size, void **pointer)
{
    struct vgc_pnp_device found;
    bool is_ivshmem;
    char *rest = NULL;
    const char *number = strncmp(file, "resource", 8) == 0 ? file + 8 : "x";
    uint32_t bar = (uint32_t)strtoul(number, &rest, 10);
    bool is_cached = strcmp(rest, "_wc") == 0;
    *pointer = NULL;
    if (rest == number || (*rest != '\0' && !is_cached))
        return vgc_fail(VGC_INVALID_ARGUMENT, "'%s' names no BAR; allowed: resourceN, resourceN_wc", file);
    int result = find(address, &found, &is_ivshmem);
    if (result != VGC_OK)
        return result;
    if (!is_ivshmem)
        return vgc_netuio_map(&found, address, bar, size, pointer);
    uint8_t mode = is_cached ? VGC_IVSHMEM_CACHED : VGC_IVSHMEM_NONCACHED;
    return bar == IVSHMEM_BAR ? vgc_ivshmem_map(&found, address, mode, size, pointer) : no_such_bar(address, bar);
}

/* ---- configuration space -------------------------------------------------------------------- */

int vgc_pci_open_config(const char *address, vgc_handle *config)
{
    struct vgc_pnp_device found;
    HANDLE handle = INVALID_HANDLE_VALUE;
    int result = vgc_pnp_find(address, &found);
    if (result == VGC_OK)
        result = vgc_netuio_open(&found, address, &handle);
    *config = (vgc_handle)handle;
    return result;
}

void vgc_pci_close_config(vgc_handle config)
{
    vgc_pnp->close((HANDLE)config);
}

bool vgc_pci_read(vgc_handle config, uint32_t at, void *bytes, size_t size)
{
    return vgc_netuio_read((HANDLE)config, at, bytes, size);
}

bool vgc_pci_write(vgc_handle config, uint32_t at, const void *bytes, size_t size)
{
    return vgc_netuio_write((HANDLE)config, at, bytes, size);
}

/* For all functions: threads wait for the first, processes for the second, as far as these may open it. */
static pthread_mutex_t thread_lock = PTHREAD_MUTEX_INITIALIZER;
static HANDLE process_lock;

static void make_process_lock(void)
{
    process_lock = CreateMutexW(NULL, FALSE, L"Global\\virtio-gpu-compute-pci");
}

void vgc_pci_lock(vgc_handle config)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)config;
    (void)pthread_once(&once, make_process_lock);
    (void)pthread_mutex_lock(&thread_lock);
    if (process_lock != NULL)
        (void)WaitForSingleObject(process_lock, INFINITE); /* also ours if its owner has died */
}

void vgc_pci_unlock(vgc_handle config)
{
    (void)config;
    if (process_lock != NULL)
        (void)ReleaseMutex(process_lock);
    (void)pthread_mutex_unlock(&thread_lock);
}

/* All processes of the machine have one folder of state, by which they know of one another. */
void vgc_pci_mark_used(vgc_handle config)
{
    (void)config;
}

bool vgc_pci_is_used(vgc_handle config)
{
    (void)config;
    return false;
}

int vgc_pci_command(const char *address, uint16_t set)
{
    struct vgc_pnp_device found;
    (void)set; /* Windows has enabled the memory of a function whose driver runs */
    return vgc_pnp_find(address, &found);
}

/* ---- drivers: a function has one, which its administrator chose ------------------------------- */

int vgc_pci_release(const char *address, bool *was_virtio)
{
    (void)address;
    *was_virtio = false;
    return VGC_OK;
}

void vgc_pci_give_back(const char *address)
{
    (void)address;
}

/* ---- interrupts, which NetUIO does not have -------------------------------------------------- */

/* An interrupt that nobody takes would never end. */
int vgc_pci_bind_uio(const char *address)
{
    enum { COMMAND = 4, INTX_DISABLE = 0x400 };
    vgc_handle config;
    uint16_t command;
    int result = vgc_pci_open_config(address, &config);
    if (result != VGC_OK)
        return result;
    bool fine = vgc_pci_read(config, COMMAND, &command, sizeof(command));
    command |= INTX_DISABLE;
    fine = fine && vgc_pci_write(config, COMMAND, &command, sizeof(command));
    result = fine ? VGC_OK : vgc_fail_errno("cannot turn off the interrupt of PCI function %s", address);
    vgc_pci_close_config(config);
    return result;
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
