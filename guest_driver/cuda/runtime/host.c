/* Page-locked host memory.
 *
 * It lies in the region that the VM shares with the device, where it fits: copies are then made in place, and kernels
 * use it by the address at which they see the region, usually its own (vgc_region_address()). What does not fit is
 * ordinary memory, or managed memory if kernels must see it.
 *
 * Memory of the program that is registered stays where it is. Kernels see a mirror of it in device memory, if the
 * program asks for its device address: each launch takes along what the host has changed, and each synchronisation
 * brings back what kernels have. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "managed.h"

enum place { IN_REGION, IN_PAGES, OF_PROGRAM };

struct rt_mirror {
    struct rt_mirror *next; /* of those that have a device address */
    enum place place;
    struct vgc_device *opened; /* whose region it lies in */
    uint8_t *allocation;       /* before alignment */
    uint8_t *host;
    size_t size;
    bool is_read_only;
    struct rt_device *device; /* of the mirror, as are all below */
    uint64_t address;         /* 0: none yet */
    uint8_t *snapshot;        /* what both sides last had; NULL: nothing was sent yet */
    uint8_t *buffer;
    bool in_use; /* a kernel was sent since */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rt_mirror *mirrors;
static _Atomic size_t num_mirrors;
static _Atomic size_t region_bytes; /* taken here */

/* ---- allocations ---------------------------------------------------------------------------- */

static cudaError_t add(struct rt_mirror *host, struct rt_device *device, unsigned flags)
{
    struct rt_range range = {.begin = (uint64_t)(uintptr_t)host->host,
                             .size = host->size,
                             .kind = RT_HOST_MEMORY,
                             .device = device,
                             .flags = flags,
                             .owner = host};
    return rt_add_range(&range);
}

/* At most half of the region: copies of other memory need it, too. */
static bool place_in_region(struct rt_device *device, struct rt_mirror *host, bool same_address)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t size = host->size + (host->size >= page ? page : 0);
    struct vgc_device *opened = atomic_load(&device->device);
    void *memory;
    uint64_t address;
    if (size > device->info.region_bytes / 2 || atomic_load(&region_bytes) > device->info.region_bytes / 2 - size ||
        vgc_region_alloc(opened, size, &memory) != VGC_OK)
        return false;
    if (same_address && (vgc_region_address(opened, memory, &address) != VGC_OK || address != (uintptr_t)memory)) {
        vgc_region_free(opened, memory);
        return false;
    }
    (void)atomic_fetch_add(&region_bytes, size);
    host->place = IN_REGION;
    host->opened = opened;
    host->allocation = memory;
    host->host = memory;
    if (host->size >= page)
        host->host = (uint8_t *)(((uintptr_t)memory + page - 1) & ~(uintptr_t)(page - 1));
    return true;
}

static bool place_in_pages(struct rt_mirror *host)
{
    void *memory = mmap(NULL, host->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    host->place = IN_PAGES;
    host->allocation = memory;
    host->host = memory;
    return true;
}

static void free_place(struct rt_mirror *host)
{
    if (host->place == IN_REGION) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        (void)atomic_fetch_sub(&region_bytes, host->size + (host->size >= page ? page : 0));
        vgc_region_free(host->opened, host->allocation);
    } else if (host->place == IN_PAGES) {
        (void)munmap(host->allocation, host->size);
    }
    free(host);
}

static cudaError_t allocate(struct rt_device *device, size_t size, unsigned flags, void **memory)
{
    bool is_mapped = (flags & cudaHostAllocMapped) != 0;
    struct rt_mirror *host = calloc(1, sizeof(*host));
    if (host == NULL)
        return cudaErrorMemoryAllocation;
    host->size = size;
    bool placed = place_in_region(device, host, is_mapped);
    if (!placed && is_mapped) {
        free(host);
        return rt_managed_allocate_host(device, size, flags, memory);
    }
    if (!placed && !place_in_pages(host)) {
        free(host);
        return rt_explain(cudaErrorMemoryAllocation, "%zu bytes of host memory", size);
    }
    if (host->place == IN_REGION)
        memset(host->host, 0, size); /* another process's data */
    cudaError_t error = add(host, device, flags);
    if (error != cudaSuccess)
        free_place(host);
    else
        *memory = host->host;
    return error;
}

RT_API cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned int flags)
{
    struct rt_device *device;
    const unsigned known = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
    if (memory == NULL || (flags & ~known) != 0)
        return rt_return(rt_explain(cudaErrorInvalidValue, "cudaHostAlloc() with flags %#x", flags));
    *memory = NULL;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess)
        error = rt_check_unsafe();
    if (error == cudaSuccess && bytes > 0)
        error = allocate(device, bytes, flags, memory);
    return rt_return(error);
}

RT_API cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}

/* ---- mirrors -------------------------------------------------------------------------------- */

/* With the lock. Host bytes that kernels have changed; what the program itself changes meanwhile stays. */
static void merge(struct rt_mirror *mirror)
{
    enum { STEP = 256 };
    for (size_t at = 0; at < mirror->size; at += STEP) {
        size_t length = RT_MIN((size_t)STEP, mirror->size - at);
        if (memcmp(mirror->buffer + at, mirror->snapshot + at, length) == 0)
            continue;
        for (size_t i = at; i < at + length; i++)
            if (mirror->buffer[i] != mirror->snapshot[i])
                mirror->host[i] = mirror->snapshot[i] = mirror->buffer[i];
    }
}

static cudaError_t bring_back(struct rt_mirror *mirror)
{
    if (!mirror->in_use || mirror->is_read_only)
        return cudaSuccess;
    int result =
        vgc_copy_out(atomic_load(&mirror->device->device), mirror->buffer, mirror->address, mirror->size, 0, NULL);
    if (result == VGC_OK)
        merge(mirror);
    return rt_error(result);
}

/* Sends all, if the host has changed anything. Kernels that may still write to the mirror are waited for. */
static cudaError_t send(struct rt_mirror *mirror, uint32_t stream)
{
    struct vgc_device *opened = atomic_load(&mirror->device->device);
    if (mirror->snapshot != NULL && memcmp(mirror->host, mirror->snapshot, mirror->size) == 0)
        return cudaSuccess;
    cudaError_t error = cudaSuccess;
    if (mirror->in_use) {
        error = rt_error(vgc_synchronize(opened));
        if (error == cudaSuccess)
            error = bring_back(mirror);
    }
    if (mirror->snapshot == NULL)
        mirror->snapshot = malloc(mirror->size);
    if (mirror->snapshot == NULL)
        return cudaErrorMemoryAllocation;
    if (error != cudaSuccess)
        return error;
    memcpy(mirror->snapshot, mirror->host, mirror->size);
    return rt_error(vgc_copy_in(opened, mirror->address, mirror->snapshot, mirror->size, stream, NULL));
}

cudaError_t rt_mirrors_enter(struct rt_device *device, uint32_t stream)
{
    cudaError_t error = cudaSuccess;
    if (atomic_load(&num_mirrors) == 0)
        return cudaSuccess;
    (void)pthread_mutex_lock(&lock);
    for (struct rt_mirror *mirror = mirrors; mirror != NULL && error == cudaSuccess; mirror = mirror->next) {
        if (mirror->device != device)
            continue;
        error = send(mirror, stream);
        mirror->in_use = true;
    }
    (void)pthread_mutex_unlock(&lock);
    return error;
}

void rt_mirrors_settle(struct rt_device *device)
{
    if (atomic_load(&num_mirrors) == 0)
        return;
    (void)pthread_mutex_lock(&lock);
    for (struct rt_mirror *mirror = mirrors; mirror != NULL; mirror = mirror->next)
        if (mirror->device == device)
            (void)bring_back(mirror);
    (void)pthread_mutex_unlock(&lock);
}

static cudaError_t make_mirror(struct rt_device *device, struct rt_mirror *mirror)
{
    void *memory;
    if (mirror->address != 0)
        return mirror->device == device
                   ? cudaSuccess
                   : rt_explain(cudaErrorNotSupported, "host memory %p is mapped by device %d already",
                                (void *)mirror->host, mirror->device->ordinal);
    mirror->buffer = malloc(mirror->size);
    if (mirror->buffer == NULL)
        return cudaErrorMemoryAllocation;
    cudaError_t error = rt_allocate(device, mirror->size, &memory);
    if (error != cudaSuccess) {
        free(mirror->buffer);
        mirror->buffer = NULL;
        return error;
    }
    mirror->device = device;
    mirror->address = (uint64_t)(uintptr_t)memory;
    mirror->next = mirrors;
    mirrors = mirror;
    (void)atomic_fetch_add(&num_mirrors, 1);
    return cudaSuccess;
}

/* With the lock. */
static void end_mirror(struct rt_mirror *mirror)
{
    struct rt_range range;
    if (mirror->address == 0)
        return;
    for (struct rt_mirror **at = &mirrors; *at != NULL; at = &(*at)->next) {
        if (*at == mirror) {
            *at = mirror->next;
            (void)atomic_fetch_sub(&num_mirrors, 1);
            break;
        }
    }
    if (rt_remove_range(mirror->address, &range))
        (void)rt_free(&range);
    free(mirror->snapshot);
    free(mirror->buffer);
    mirror->snapshot = mirror->buffer = NULL;
    mirror->address = 0;
}

/* The mirrors' device memory is gone. */
void rt_host_forget(struct rt_device *device)
{
    (void)pthread_mutex_lock(&lock);
    for (struct rt_mirror *mirror = mirrors, *next; mirror != NULL; mirror = next) {
        next = mirror->next;
        if (mirror->device == device)
            end_mirror(mirror);
    }
    (void)pthread_mutex_unlock(&lock);
}

/* ---- giving back ---------------------------------------------------------------------------- */

static cudaError_t take_out(void *memory, bool is_registered, cudaError_t otherwise)
{
    struct rt_range range;
    if (!rt_find_range(memory, &range) || range.begin != (uint64_t)(uintptr_t)memory || range.kind != RT_HOST_MEMORY ||
        (((struct rt_mirror *)range.owner)->place == OF_PROGRAM) != is_registered)
        return rt_explain(otherwise, "%p is not host memory that was %s", memory,
                          is_registered ? "registered" : "allocated by cudaHostAlloc()");
    cudaError_t error = rt_synchronize(range.device);
    if (!rt_remove_range(range.begin, &range))
        return otherwise;
    struct rt_mirror *host = range.owner;
    (void)pthread_mutex_lock(&lock);
    end_mirror(host);
    (void)pthread_mutex_unlock(&lock);
    free_place(host);
    return error;
}

RT_API cudaError_t cudaFreeHost(void *memory)
{
    struct rt_device *device;
    struct rt_range range;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess && memory != NULL)
        error = rt_check_unsafe();
    if (error != cudaSuccess || memory == NULL)
        return rt_return(error);
    if (rt_find_range(memory, &range) && range.begin == (uint64_t)(uintptr_t)memory &&
        range.kind == RT_MANAGED_MEMORY && ((struct rt_block *)range.owner)->is_host) {
        error = rt_synchronize(range.device);
        cudaError_t freed = rt_remove_range(range.begin, &range) ? rt_managed_free(&range) : cudaErrorInvalidValue;
        return rt_return(error != cudaSuccess ? error : freed);
    }
    return rt_return(take_out(memory, false, cudaErrorInvalidValue));
}

RT_API cudaError_t cudaHostUnregister(void *memory)
{
    struct rt_device *device;
    cudaError_t error = rt_current(&device);
    return rt_return(error != cudaSuccess ? error : take_out(memory, true, cudaErrorHostMemoryNotRegistered));
}

/* ---- registering ---------------------------------------------------------------------------- */

static cudaError_t enter(struct rt_device *device, void *memory, size_t bytes, unsigned flags)
{
    struct rt_range range;
    if (rt_find_range(memory, &range) || rt_find_range((uint8_t *)memory + bytes - 1, &range))
        return rt_explain(range.kind == RT_HOST_MEMORY ? cudaErrorHostMemoryAlreadyRegistered : cudaErrorInvalidValue,
                          "%p is registered or allocated by CUDA already", memory);
    struct rt_mirror *host = calloc(1, sizeof(*host));
    if (host == NULL)
        return cudaErrorMemoryAllocation;
    host->place = OF_PROGRAM;
    host->host = memory;
    host->size = bytes;
    host->is_read_only = (flags & cudaHostRegisterReadOnly) != 0;
    cudaError_t error = add(host, device, flags);
    if (error != cudaSuccess)
        free(host);
    return error;
}

RT_API cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned int flags)
{
    struct rt_device *device;
    const unsigned known =
        cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;
    cudaError_t error = rt_current(&device);
    if (error != cudaSuccess)
        return rt_return(error);
    if (memory == NULL || bytes == 0 || (flags & ~known) != 0)
        return rt_return(
            rt_explain(cudaErrorInvalidValue, "cudaHostRegister(%p, %zu, flags %#x)", memory, bytes, flags));
    if ((flags & cudaHostRegisterIoMemory) != 0)
        return rt_return(rt_unsupported("cudaHostRegister() with cudaHostRegisterIoMemory"));
    return rt_return(enter(device, memory, bytes, flags));
}

/* ---- questions ------------------------------------------------------------------------------ */

static cudaError_t device_address(struct rt_device *device, const struct rt_range *range, uint64_t *address)
{
    struct rt_mirror *host = range->owner;
    if (range->kind == RT_MANAGED_MEMORY) {
        *address = range->begin;
        return cudaSuccess;
    }
    if (host->place == IN_REGION && vgc_region_address(host->opened, host->host, address) == VGC_OK)
        return cudaSuccess;
    (void)pthread_mutex_lock(&lock);
    cudaError_t error = make_mirror(device, host);
    *address = host->address;
    (void)pthread_mutex_unlock(&lock);
    return error;
}

RT_API cudaError_t cudaHostGetDevicePointer(void **seen, void *host, unsigned int flags)
{
    struct rt_device *device;
    struct rt_range range;
    uint64_t address;
    cudaError_t error = rt_current(&device);
    if (error != cudaSuccess)
        return rt_return(error);
    if (seen == NULL || flags != 0)
        return rt_return(cudaErrorInvalidValue);
    *seen = NULL;
    if (!rt_find_range(host, &range) || range.kind == RT_DEVICE_MEMORY)
        return rt_return(rt_explain(cudaErrorInvalidValue, "%p is not page-locked host memory", host));
    error = device_address(device, &range, &address);
    if (error == cudaSuccess)
        *seen = (void *)(uintptr_t)(address + ((uint64_t)(uintptr_t)host - range.begin));
    return rt_return(error);
}

RT_API cudaError_t cudaHostGetFlags(unsigned int *flags, void *host)
{
    struct rt_device *device;
    struct rt_range range;
    cudaError_t error = rt_current(&device);
    if (error != cudaSuccess)
        return rt_return(error);
    if (flags == NULL || !rt_find_range(host, &range) || range.kind == RT_DEVICE_MEMORY ||
        (range.kind == RT_MANAGED_MEMORY && !((struct rt_block *)range.owner)->is_host))
        return rt_return(rt_explain(cudaErrorInvalidValue, "%p is not page-locked host memory", host));
    *flags = range.flags | cudaHostAllocMapped; /* as all is, with unified addressing */
    return rt_return(cudaSuccess);
}

static void describe_host(const struct rt_range *range, const void *memory, struct cudaPointerAttributes *attributes)
{
    const struct rt_mirror *host = range->owner;
    uint64_t address = host->address;
    attributes->type = cudaMemoryTypeHost;
    attributes->hostPointer = (void *)(uintptr_t)memory;
    if (host->place == IN_REGION && vgc_region_address(host->opened, host->host, &address) != VGC_OK)
        address = host->address;
    if (address != 0)
        attributes->devicePointer = (void *)(uintptr_t)(address + ((uint64_t)(uintptr_t)memory - range->begin));
}

RT_API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *memory)
{
    struct rt_device *device;
    struct rt_range range;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess && attributes == NULL)
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return rt_return(error);
    memset(attributes, 0, sizeof(*attributes));
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    if (!rt_find_range(memory, &range))
        return rt_return(cudaSuccess);
    attributes->device = range.device->ordinal;
    if (range.kind == RT_HOST_MEMORY) {
        describe_host(&range, memory, attributes);
        return rt_return(cudaSuccess);
    }
    attributes->type = cudaMemoryTypeDevice;
    attributes->devicePointer = (void *)(uintptr_t)memory;
    if (range.kind == RT_MANAGED_MEMORY) {
        bool is_host = ((struct rt_block *)range.owner)->is_host;
        attributes->type = is_host ? cudaMemoryTypeHost : cudaMemoryTypeManaged;
        attributes->hostPointer = (void *)(uintptr_t)memory;
    }
    return rt_return(cudaSuccess);
}
