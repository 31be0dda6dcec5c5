/* A PCI function through DPDK's NetUIO driver [dpdk-kmods, windows/netuio/netuio_interface.h]: its configuration space
 * and its BARs. The driver has no interrupts. It maps a function once, for one process. */
#include "devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winioctl.h>

#define MAP_HARDWARE CTL_CODE(FILE_DEVICE_NETWORK, 51, METHOD_BUFFERED, FILE_READ_ACCESS | FILE_WRITE_ACCESS)
#define CONFIG_IO CTL_CODE(FILE_DEVICE_NETWORK, 52, METHOD_BUFFERED, FILE_READ_ACCESS | FILE_WRITE_ACCESS)

enum { NUM_BARS = 6, CONFIG_READ = 0, CONFIG_WRITE = 1 };

static const GUID NETUIO_INTERFACE = {0x08336f60, 0x0679, 0x4c6c, {0x85, 0xd2, 0xae, 0x7c, 0xed, 0x65, 0xff, 0xf7}};

struct mapped_bar { /* struct mem_region */
    uint64_t size;
    uint64_t base;
    void *kernel;
    void *pointer;
};

struct config_io { /* struct dpdk_pci_config_io */
    uint32_t offset;
    uint8_t operation;
    uint32_t size;
    uint64_t data;
};

_Static_assert(sizeof(struct mapped_bar) == 32 && sizeof(struct config_io) == 24, "as the driver wants them");

/* A function whose BARs this process has mapped. */
struct mapped {
    struct mapped *next;
    char address[VGC_PCI_ADDRESS_LEN];
    HANDLE handle;
    unsigned users;
    struct mapped_bar bars[NUM_BARS];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct mapped *all_mapped;

/* ---- configuration space -------------------------------------------------------------------- */

int vgc_netuio_open(const struct vgc_pnp_device *device, const char *address, HANDLE *handle)
{
    char path[VGC_INTERFACE_ROOM];
    if (!vgc_pnp->interface_path(device->instance, &NETUIO_INTERFACE, path))
        return vgc_fail(VGC_UNSUPPORTED,
                        "the PCI function %s has no driver through which programs can use it (its driver is '%s'): it "
                        "takes DPDK's NetUIO, installed for its id; see docs/windows.md",
                        address, device->service);
    *handle = vgc_pnp->open(path);
    if (*handle != INVALID_HANDLE_VALUE)
        return VGC_OK;
    (void)vgc_failed_with(GetLastError());
    return vgc_fail_errno("cannot open the PCI function %s", address);
}

/* The largest access that the driver and an aligned place allow. */
static uint32_t step_at(uint32_t at, size_t left)
{
    uint32_t step = 4;
    while (step > left || at % step != 0)
        step /= 2;
    return step;
}

static bool access_config(HANDLE handle, uint8_t operation, uint32_t at, uint8_t *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        uint32_t step = step_at(at + (uint32_t)done, size - done);
        struct config_io io = {.offset = at + (uint32_t)done, .operation = operation, .size = step};
        uint64_t answer = 0;
        DWORD got = 0;
        if (operation == CONFIG_WRITE)
            memcpy(&io.data, bytes + done, step);
        if (!vgc_pnp->control(handle, CONFIG_IO, &io, sizeof(io), &answer, sizeof(answer), &got))
            return vgc_failed_with(GetLastError());
        if (got != step)
            return vgc_failed_with(ERROR_BAD_LENGTH);
        if (operation == CONFIG_READ)
            memcpy(bytes + done, &answer, step);
        done += step;
    }
    return true;
}

bool vgc_netuio_read(HANDLE handle, uint32_t at, void *bytes, size_t size)
{
    return access_config(handle, CONFIG_READ, at, bytes, size);
}

bool vgc_netuio_write(HANDLE handle, uint32_t at, const void *bytes, size_t size)
{
    return access_config(handle, CONFIG_WRITE, at, (uint8_t *)(uintptr_t)bytes, size);
}

/* ---- BARs ----------------------------------------------------------------------------------- */

static int map_function(const struct vgc_pnp_device *device, const char *address, struct mapped **out)
{
    struct mapped *mapped = calloc(1, sizeof(*mapped));
    if (mapped == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    (void)snprintf(mapped->address, sizeof(mapped->address), "%s", address);
    int result = vgc_netuio_open(device, address, &mapped->handle);
    if (result == VGC_OK &&
        !vgc_pnp_ask(mapped->handle, MAP_HARDWARE, NULL, 0, mapped->bars, (DWORD)sizeof(mapped->bars))) {
        (void)vgc_failed_with(GetLastError());
        result = vgc_fail_errno("cannot map the PCI function %s; one process at a time can", address);
        vgc_pnp->close(mapped->handle);
    }
    if (result != VGC_OK) {
        free(mapped);
        return result;
    }
    mapped->next = all_mapped;
    all_mapped = mapped;
    *out = mapped;
    return VGC_OK;
}

/* With the mutex held, as drop(). */
static int use(const struct vgc_pnp_device *device, const char *address, struct mapped **out)
{
    struct mapped *mapped = all_mapped;
    while (mapped != NULL && strcmp(mapped->address, address) != 0)
        mapped = mapped->next;
    int result = mapped == NULL ? map_function(device, address, &mapped) : VGC_OK;
    if (result != VGC_OK)
        return result;
    mapped->users++;
    *out = mapped;
    return VGC_OK;
}

static void drop(struct mapped *mapped)
{
    struct mapped **at = &all_mapped;
    if (--mapped->users > 0)
        return;
    while (*at != mapped)
        at = &(*at)->next;
    *at = mapped->next;
    vgc_pnp->close(mapped->handle); /* which ends the mappings */
    free(mapped);
}

static int check_bar(const struct mapped *mapped, uint32_t bar)
{
    if (bar < NUM_BARS && mapped->bars[bar].pointer != NULL && mapped->bars[bar].size > 0)
        return VGC_OK;
    return vgc_fail(VGC_NO_DEVICE, "PCI function %s has no BAR %u that its driver maps", mapped->address, bar);
}

int vgc_netuio_place(const struct vgc_pnp_device *device, const char *address, uint32_t bar, uint64_t *base,
                     uint64_t *size)
{
    struct mapped *mapped;
    (void)pthread_mutex_lock(&mutex);
    int result = use(device, address, &mapped);
    if (result == VGC_OK) {
        result = check_bar(mapped, bar);
        if (result == VGC_OK) {
            *base = mapped->bars[bar].base;
            *size = mapped->bars[bar].size;
        }
        drop(mapped);
    }
    (void)pthread_mutex_unlock(&mutex);
    return result;
}

int vgc_netuio_map(const struct vgc_pnp_device *device, const char *address, uint32_t bar, uint64_t size,
                   void **pointer)
{
    struct mapped *mapped;
    (void)pthread_mutex_lock(&mutex);
    int result = use(device, address, &mapped);
    if (result == VGC_OK) {
        result = check_bar(mapped, bar);
        if (result == VGC_OK && mapped->bars[bar].size != size)
            result = vgc_fail(VGC_SYSTEM, "BAR %u of PCI function %s has %llu bytes, not %llu", bar, address,
                              (unsigned long long)mapped->bars[bar].size, (unsigned long long)size);
        if (result == VGC_OK)
            *pointer = mapped->bars[bar].pointer;
        else
            drop(mapped);
    }
    (void)pthread_mutex_unlock(&mutex);
    return result;
}

static bool has_pointer(const struct mapped *mapped, const void *pointer)
{
    for (uint32_t bar = 0; bar < NUM_BARS; bar++)
        if (mapped->bars[bar].pointer == pointer)
            return true;
    return false;
}

bool vgc_netuio_release(void *pointer)
{
    (void)pthread_mutex_lock(&mutex);
    struct mapped *mapped = all_mapped;
    while (mapped != NULL && !has_pointer(mapped, pointer))
        mapped = mapped->next;
    if (mapped != NULL)
        drop(mapped);
    (void)pthread_mutex_unlock(&mutex);
    return mapped != NULL;
}
