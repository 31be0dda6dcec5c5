/* The shared memory of an ivshmem function, through the driver of virtio-win [virtio-win/kvm-guest-drivers-windows,
 * ivshmem/Public.h and Queue.c]. It maps a device once: its memory belongs to one process at a time. */
#include "devices.h"

#include <stdlib.h>
#include <winioctl.h>

#define REQUEST_SIZE CTL_CODE(FILE_DEVICE_UNKNOWN, 0x801, METHOD_BUFFERED, FILE_ANY_ACCESS)
#define REQUEST_MMAP CTL_CODE(FILE_DEVICE_UNKNOWN, 0x802, METHOD_BUFFERED, FILE_ANY_ACCESS)
#define RELEASE_MMAP CTL_CODE(FILE_DEVICE_UNKNOWN, 0x803, METHOD_BUFFERED, FILE_ANY_ACCESS)

static const GUID IVSHMEM_INTERFACE = {0xdf576976, 0x569d, 0x4672, {0x95, 0xa0, 0xf5, 0x7e, 0x4e, 0xa0, 0xb2, 0x10}};

struct mmap_config { /* IVSHMEM_MMAP_CONFIG */
    uint8_t cache_mode;
};

struct mmap_answer { /* IVSHMEM_MMAP */
    uint16_t peer_id;
    uint64_t size;
    void *pointer;
    uint16_t vectors;
};

_Static_assert(sizeof(struct mmap_config) == 1 && sizeof(struct mmap_answer) == 32, "as the driver wants them");

struct mapping { /* of a device in this process, shared by all who want it here */
    struct mapping *next;
    DWORD instance;
    HANDLE handle;
    void *pointer;
    uint64_t size;
    unsigned users;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct mapping *mappings;

static int open_device(const struct vgc_pnp_device *device, const char *address, HANDLE *handle)
{
    char path[VGC_INTERFACE_ROOM];
    if (!vgc_pnp->interface_path(device->instance, &IVSHMEM_INTERFACE, path))
        return vgc_fail(VGC_NO_DEVICE,
                        "the ivshmem function %s has no driver that lets programs map it (its driver is '%s'): install "
                        "ivshmem of virtio-win",
                        address, device->service);
    *handle = vgc_pnp->open(path);
    if (*handle != INVALID_HANDLE_VALUE)
        return VGC_OK;
    (void)vgc_failed_with(GetLastError());
    return vgc_fail_errno("cannot open the ivshmem function %s", address);
}

static int ask_size(HANDLE handle, const char *address, uint64_t *size)
{
    if (vgc_pnp_ask(handle, REQUEST_SIZE, NULL, 0, size, sizeof(*size)))
        return VGC_OK;
    (void)vgc_failed_with(GetLastError());
    return vgc_fail_errno("the driver of the ivshmem function %s does not say the size of its memory", address);
}

int vgc_ivshmem_place(const struct vgc_pnp_device *device, const char *address, uint64_t *base, uint64_t *size)
{
    HANDLE handle;
    uint64_t bytes;
    int result = open_device(device, address, &handle);
    if (result != VGC_OK)
        return result;
    result = ask_size(handle, address, size);
    vgc_pnp->close(handle);
    for (unsigned i = 0; result == VGC_OK && vgc_pnp->memory(device->instance, i, base, &bytes); i++)
        if (bytes == *size)
            return VGC_OK;
    return result != VGC_OK ? result
                            : vgc_fail(VGC_SYSTEM, "Windows has no range of %llu bytes among the resources of %s",
                                       (unsigned long long)*size, address);
}

static int ask_mapping(const struct vgc_pnp_device *device, const char *address, uint8_t cache_mode,
                       struct mapping *mapping)
{
    const struct mmap_config config = {.cache_mode = cache_mode};
    struct mmap_answer answer = {.pointer = NULL};
    int result = open_device(device, address, &mapping->handle);
    if (result != VGC_OK)
        return result;
    if (vgc_pnp_ask(mapping->handle, REQUEST_MMAP, &config, sizeof(config), &answer, sizeof(answer))) {
        mapping->pointer = answer.pointer;
        mapping->size = answer.size;
        return VGC_OK;
    }
    (void)vgc_failed_with(GetLastError());
    result = vgc_fail_errno("cannot map the memory of the ivshmem function %s; one process at a time can", address);
    vgc_pnp->close(mapping->handle);
    return result;
}

/* With the mutex held, as find() and end(). */
static int add(const struct vgc_pnp_device *device, const char *address, uint8_t cache_mode, struct mapping **out)
{
    struct mapping *mapping = calloc(1, sizeof(*mapping));
    if (mapping == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    mapping->instance = device->instance;
    int result = ask_mapping(device, address, cache_mode, mapping);
    if (result != VGC_OK) {
        free(mapping);
        return result;
    }
    mapping->next = mappings;
    mappings = mapping;
    *out = mapping;
    return VGC_OK;
}

static struct mapping *find(DWORD instance)
{
    struct mapping *mapping = mappings;
    while (mapping != NULL && mapping->instance != instance)
        mapping = mapping->next;
    return mapping;
}

static void end(struct mapping *mapping)
{
    struct mapping **at = &mappings;
    while (*at != mapping)
        at = &(*at)->next;
    *at = mapping->next;
    (void)vgc_pnp_ask(mapping->handle, RELEASE_MMAP, NULL, 0, NULL, 0);
    vgc_pnp->close(mapping->handle);
    free(mapping);
}

int vgc_ivshmem_map(const struct vgc_pnp_device *device, const char *address, uint8_t cache_mode, uint64_t size,
                    void **pointer)
{
    (void)pthread_mutex_lock(&mutex);
    struct mapping *mapping = find(device->instance);
    int result = mapping == NULL ? add(device, address, cache_mode, &mapping) : VGC_OK;
    if (result == VGC_OK && (mapping->size != size || mapping->pointer == NULL))
        result = vgc_fail(VGC_SYSTEM, "the driver of the ivshmem function %s has mapped %llu bytes instead of %llu",
                          address, (unsigned long long)mapping->size, (unsigned long long)size);
    if (result == VGC_OK) {
        mapping->users++;
        *pointer = mapping->pointer;
    } else if (mapping != NULL && mapping->users == 0) {
        end(mapping);
    }
    (void)pthread_mutex_unlock(&mutex);
    return result;
}

bool vgc_ivshmem_release(void *pointer)
{
    (void)pthread_mutex_lock(&mutex);
    struct mapping *mapping = mappings;
    while (mapping != NULL && mapping->pointer != pointer)
        mapping = mapping->next;
    if (mapping != NULL && --mapping->users == 0)
        end(mapping);
    (void)pthread_mutex_unlock(&mutex);
    return mapping != NULL;
}
