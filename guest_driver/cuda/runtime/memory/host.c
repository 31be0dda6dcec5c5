/* Page-locked host memory.
 *
 * It lies in the region that the VM shares with the device, where it fits: copies are then made in place, and kernels
 * use it by the address at which they see the region, usually its own (vgc_region_address()). What does not fit is
 * ordinary memory, or managed memory if kernels must see it.
 *
 * Memory of the program that is registered stays where it is; mirrors.c is how kernels see it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "managed.h"
#include "mirrors.h"

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
    if (host->size > device->info.region_bytes || size > device->info.region_bytes / 2 ||
        atomic_load(&region_bytes) > device->info.region_bytes / 2 - size ||
        vgc_region_alloc(opened, size, &memory) != VGC_OK)
        return false;
    if (same_address && (vgc_region_address(opened, memory, &address) != VGC_OK || address != (uintptr_t)memory)) {
        vgc_region_free(opened, memory);
        return false;
    }
    (void)atomic_fetch_add(&region_bytes, size);
    host->place = RT_IN_REGION;
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
    host->place = RT_IN_PAGES;
    host->allocation = memory;
    host->host = memory;
    return true;
}

static void free_place(struct rt_mirror *host)
{
    if (host->place == RT_IN_REGION) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        (void)atomic_fetch_sub(&region_bytes, host->size + (host->size >= page ? page : 0));
        vgc_region_free(host->opened, host->allocation);
    } else if (host->place == RT_IN_PAGES) {
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
    if (host->place == RT_IN_REGION)
        memset(host->host, 0, size); /* another process's data */
    cudaError_t error = add(host, device, flags);
    if (error != cudaSuccess) {
        free_place(host);
        return error;
    }
    if (is_mapped)
        rt_mirror_show(host);
    *memory = host->host;
    return cudaSuccess;
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

/* ---- giving back ---------------------------------------------------------------------------- */

static cudaError_t take_out(void *memory, bool is_registered, cudaError_t otherwise)
{
    struct rt_range range;
    if (!rt_find_range(memory, &range) || range.begin != (uint64_t)(uintptr_t)memory || range.kind != RT_HOST_MEMORY ||
        (((struct rt_mirror *)range.owner)->place == RT_OF_PROGRAM) != is_registered)
        return rt_explain(otherwise, "%p is not host memory that was %s", memory,
                          is_registered ? "registered" : "allocated by cudaHostAlloc()");
    cudaError_t error = rt_synchronize(range.device);
    if (!rt_remove_range(range.begin, &range))
        return otherwise;
    struct rt_mirror *host = range.owner;
    rt_mirror_end(host);
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
    if (bytes > UINTPTR_MAX - (uintptr_t)memory)
        return rt_explain(cudaErrorInvalidValue, "%zu bytes at %p", bytes, memory);
    if (rt_find_range(memory, &range) || rt_find_range((uint8_t *)memory + bytes - 1, &range))
        return rt_explain(range.kind == RT_HOST_MEMORY ? cudaErrorHostMemoryAlreadyRegistered : cudaErrorInvalidValue,
                          "%p is registered or allocated by CUDA already", memory);
    struct rt_mirror *host = calloc(1, sizeof(*host));
    if (host == NULL)
        return cudaErrorMemoryAllocation;
    host->place = RT_OF_PROGRAM;
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
    if (error == cudaSuccess)
        error = rt_check_unsafe();
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
    if (host->place == RT_IN_REGION && vgc_region_address(host->opened, host->host, address) == VGC_OK) {
        rt_mirror_show(host);
        return cudaSuccess;
    }
    return rt_mirror_make(device, host, address);
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
    if (!rt_find_range(host, &range) || range.kind == RT_DEVICE_MEMORY || range.kind == RT_VARIABLE_MEMORY)
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
        range.kind == RT_VARIABLE_MEMORY ||
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
    if (host->place == RT_IN_REGION && vgc_region_address(host->opened, host->host, &address) != VGC_OK)
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
