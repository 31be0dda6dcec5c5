/* Device memory, and copies and fills of one dimension. */
#include <string.h>

#include "runtime.h"

enum { ADDRESS_TRIES = 8 };

/* ---- allocations ---------------------------------------------------------------------------- */

/* Asks for memory until its addresses are free in this process, too; what was refused is given back in the end. */
static int allocate_apart(struct vgc_device *device, size_t size, uint64_t *address, bool *is_reserved)
{
    uint64_t refused[ADDRESS_TRIES];
    int num_refused = 0;
    int result;
    for (;;) {
        result = vgc_alloc(device, size, address);
        *is_reserved = result == VGC_OK && rt_reserve(*address, size);
        if (result != VGC_OK || *is_reserved || num_refused == ADDRESS_TRIES)
            break;
        refused[num_refused++] = *address;
    }
    if (result != VGC_OK && num_refused > 0) { /* no room for another: this one will do */
        *address = refused[--num_refused];
        result = VGC_OK;
    }
    while (num_refused > 0)
        (void)vgc_free(device, refused[--num_refused]);
    return result;
}

static cudaError_t allocate(struct rt_device *device, size_t size, void **pointer)
{
    struct rt_range range = {.size = size, .kind = RT_DEVICE_MEMORY, .device = device};
    struct vgc_device *opened = atomic_load(&device->device);
    int result = allocate_apart(opened, size, &range.begin, &range.is_reserved);
    if (result != VGC_OK) {
        cudaError_t error = rt_error(result);
        return error == cudaErrorLaunchOutOfResources ? cudaErrorMemoryAllocation : rt_fault(device, error);
    }
    cudaError_t error = rt_add_range(&range);
    if (error != cudaSuccess) {
        (void)vgc_free(opened, range.begin);
        return error;
    }
    *pointer = (void *)(uintptr_t)range.begin;
    return cudaSuccess;
}

cudaError_t rt_allocate(struct rt_device *device, size_t size, void **pointer)
{
    cudaError_t error = cudaErrorDevicesUnavailable;
    uint32_t contexts = device->contexts;
    for (int tries = 0; error == cudaErrorDevicesUnavailable; tries++) {
        if (tries > 0 && (tries > 1 || !rt_go_on(device, contexts)))
            break;
        error = rt_adopted_release(device);
        if (error == cudaSuccess)
            error = allocate(device, size, pointer);
    }
    return error;
}

cudaError_t rt_free(const struct rt_range *range)
{
    struct rt_device *device = range->device;
    uint32_t contexts = device->contexts;
    if (range->is_kept) {
        rt_free_kept(range);
        return cudaSuccess;
    }
    if (range->is_spare) {
        rt_spare_unmap((void *)(uintptr_t)range->begin, range->size);
        return cudaSuccess;
    }
    cudaError_t error = rt_adopted_release(device);
    bool is_released = error == cudaSuccess;
    if (is_released && range->is_reserved)
        rt_release(range->begin, range->size);
    if (is_released)
        error = rt_error(vgc_free(atomic_load(&device->device), range->begin));
    return error == cudaErrorDevicesUnavailable && rt_go_on(device, contexts) ? cudaSuccess : error; /* it is gone */
}

RT_API cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    struct rt_device *device;
    if (memory == NULL)
        return rt_return(cudaErrorInvalidValue);
    *memory = NULL;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess)
        error = rt_check_unsafe();
    if (error == cudaSuccess && bytes > 0)
        error = rt_allocate_anywhere(device, bytes, memory);
    return rt_return(error);
}

RT_API cudaError_t cudaFree(void *memory)
{
    struct rt_device *device;
    struct rt_range range;
    cudaError_t error = rt_current(&device);
    if (error != cudaSuccess || memory == NULL)
        return rt_return(error);
    if (!rt_find_range(memory, &range) || range.begin != (uint64_t)(uintptr_t)memory || range.kind == RT_HOST_MEMORY ||
        range.kind == RT_VARIABLE_MEMORY || rt_managed_is_variable(&range))
        return rt_return(rt_explain(cudaErrorInvalidValue, "cudaFree(%p): no allocation begins there", memory));
    if (range.opened > 0)
        return rt_return(
            rt_explain(cudaErrorInvalidValue, "cudaFree(%p): cudaIpcCloseMemHandle() gives it up", memory));
    error = rt_check_unsafe();
    if (error == cudaSuccess)
        error = rt_synchronize(range.device);
    if (error != cudaSuccess || rt_free_graph_memory(memory) || rt_pools_take_back(range.begin, &error))
        return rt_return(error);
    if (!rt_remove_range(range.begin, &range)) /* another thread has freed it meanwhile */
        return rt_return(rt_explain(cudaErrorInvalidValue, "cudaFree(%p): it was freed already", memory));
    return rt_return(range.kind == RT_MANAGED_MEMORY ? rt_managed_free(&range) : rt_free(&range));
}

RT_API cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    struct rt_device *device;
    struct vgc_device_usage usage;
    if (free == NULL || total == NULL)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = rt_current(&device);
    if (error != cudaSuccess)
        return rt_return(error);
    uint32_t contexts = device->contexts;
    error = rt_error(vgc_device_usage(atomic_load(&device->device), &usage));
    if (error == cudaErrorDevicesUnavailable && rt_go_on(device, contexts))
        error = rt_error(vgc_device_usage(atomic_load(&device->device), &usage));
    if (error != cudaSuccess)
        return rt_return(error);
    *total = usage.memory_quota_bytes;
    *free = usage.memory_quota_bytes - RT_MIN(usage.memory_used_bytes, usage.memory_quota_bytes);
    return rt_return(error);
}

/* ---- copies --------------------------------------------------------------------------------- */

bool rt_is_device_pointer(const void *pointer, bool otherwise)
{
    struct rt_range range;
    return rt_find_range(pointer, &range) ? range.kind != RT_HOST_MEMORY : otherwise;
}

static cudaError_t check_end(const struct rt_range *range, const void *pointer, size_t size)
{
    const uint64_t rest = range->size - ((uint64_t)(uintptr_t)pointer - range->begin);
    if (size <= rest)
        return cudaSuccess;
    return rt_explain(cudaErrorInvalidValue, "%zu bytes at %p; the memory there ends after %llu", size, pointer,
                      (unsigned long long)rest);
}

/* Memory that this runtime gave out ends where it said. */
static cudaError_t check_span(const void *pointer, size_t size)
{
    struct rt_range range;
    const bool has_end = rt_find_range(pointer, &range) && range.kind != RT_HOST_MEMORY;
    return has_end ? check_end(&range, pointer, size) : cudaSuccess;
}

/* Managed and page-locked memory count as either side's: the device has both at the host's address. */
static bool has_two_sides_at(const void *pointer)
{
    struct rt_range range;
    return rt_find_range(pointer, &range) && (range.kind == RT_MANAGED_MEMORY || range.kind == RT_HOST_MEMORY);
}

static bool kind_is_valid(enum cudaMemcpyKind kind)
{
    return (unsigned)kind <= cudaMemcpyDefault;
}

static int copy(struct vgc_device *device, void *dst, const void *src, size_t size, bool to_device, bool from_device,
                uint32_t stream, struct vgc_job **job)
{
    if (to_device && from_device)
        return vgc_copy_device(device, (uint64_t)(uintptr_t)dst, (uint64_t)(uintptr_t)src, size, stream, job);
    if (to_device)
        return vgc_copy_in(device, (uint64_t)(uintptr_t)dst, src, size, stream, job);
    return vgc_copy_out(device, dst, (uint64_t)(uintptr_t)src, size, stream, job);
}

cudaError_t rt_check_copy(const struct rt_copy *copy, bool *to_device, bool *from_device)
{
    enum cudaMemcpyKind kind = copy->kind;
    *to_device = *from_device = false;
    if (!kind_is_valid(kind))
        return rt_explain(cudaErrorInvalidMemcpyDirection, "copy of kind %d; allowed: 0 to 4", (int)kind);
    if (copy->size == 0)
        return cudaSuccess;
    if (copy->dst == NULL || copy->src == NULL)
        return rt_explain(cudaErrorInvalidValue, "copy of %zu bytes from %p to %p", copy->size, copy->src, copy->dst);
    *to_device = rt_is_device_pointer(copy->dst, kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice);
    *from_device = rt_is_device_pointer(copy->src, kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice);
    bool has_two_sides = has_two_sides_at(copy->dst) || has_two_sides_at(copy->src);
    if (!has_two_sides && kind != cudaMemcpyDefault &&
        kind != (enum cudaMemcpyKind)((*from_device ? 2 : 0) + (*to_device ? 1 : 0)))
        return rt_explain(cudaErrorInvalidValue, "copy from %p to %p: the direction is not that of the pointers",
                          copy->src, copy->dst);
    cudaError_t error = check_span(copy->dst, copy->size);
    return error == cudaSuccess ? check_span(copy->src, copy->size) : error;
}

cudaError_t rt_copy(struct rt_device *device, void *dst, const void *src, size_t size, enum cudaMemcpyKind kind,
                    uint32_t stream, bool detached)
{
    struct vgc_device *opened = atomic_load(&device->device);
    const struct rt_copy sides = {dst, src, size, kind};
    bool to_device;
    bool from_device;
    cudaError_t error = rt_check_copy(&sides, &to_device, &from_device);
    if (error != cudaSuccess || size == 0)
        return error;
    if (rt_has_spare()) {
        to_device = to_device && !rt_is_spare(dst);
        from_device = from_device && !rt_is_spare(src);
        detached = false; /* the next work may be the CPU's */
    }
    if (!to_device && !from_device) {
        error = rt_error(vgc_stream_synchronize(opened, stream));
        rt_mirrors_settle(device); /* registered memory may have what kernels wrote */
        memmove(dst, src, size);
        return error;
    }
    if ((to_device && rt_device_of(dst, device) != device) || (from_device && rt_device_of(src, device) != device))
        return rt_copy_apart(device, dst, src, size, kind, stream, to_device, from_device);
    bool is_shown = !to_device && rt_is_shadowed();
    detached = detached && !is_shown;
    error = rt_managed_enter_span(device, dst, size, true, stream);
    cudaError_t moved = rt_managed_enter_span(device, src, size, false, stream);
    error = error != cudaSuccess ? error : moved;
    if (error == cudaSuccess)
        error = rt_error(copy(opened, dst, src, size, to_device, from_device, stream, detached ? VGC_DETACHED : NULL));
    rt_managed_leave();
    rt_managed_leave();
    if (is_shown && error == cudaSuccess)
        rt_shadow_copied(dst, size);
    if (detached)
        return error;
    cudaError_t earlier = rt_settle(device);
    rt_mirrors_settle(device);
    return earlier != cudaSuccess ? earlier : rt_fault(device, error);
}

static cudaError_t copy_in_stream(void *dst, const void *src, size_t size, enum cudaMemcpyKind kind,
                                  cudaStream_t stream, bool waits)
{
    struct rt_device *device;
    struct rt_operation operation = {.kind = RT_COPY, .waits = waits, .copy = {dst, src, size, kind}};
    cudaError_t error = rt_current(&device);
    operation.copy.dst = (void *)(uintptr_t)rt_managed_variable_now(dst);
    operation.copy.src = rt_managed_variable_now(src);
    return error == cudaSuccess ? rt_submit(device, stream, &operation) : error;
}

RT_API cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    return rt_return(copy_in_stream(to, from, bytes, kind, NULL, true));
}

RT_API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                   cudaStream_t stream)
{
    return rt_return(copy_in_stream(to, from, bytes, kind, stream, false));
}

/* ---- fills ---------------------------------------------------------------------------------- */

static cudaError_t fill(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    struct rt_device *device;
    struct rt_range range;
    struct rt_operation operation = {
        .kind = RT_FILL,
        .fill = {.dst = memory, .value = (uint8_t)value, .unit = 1, .width = bytes, .height = 1, .depth = 1}};
    cudaError_t error = rt_current(&device);
    if (error != cudaSuccess || bytes == 0)
        return error;
    operation.fill.dst = (void *)(uintptr_t)rt_managed_variable_now(memory);
    if (memory == NULL)
        return rt_explain(cudaErrorInvalidValue, "cudaMemset() of no memory");
    operation.fill.is_unknown = !rt_find_range(operation.fill.dst, &range);
    if (!operation.fill.is_unknown)
        error = check_end(&range, operation.fill.dst, bytes);
    return error == cudaSuccess ? rt_submit(device, stream, &operation) : error;
}

RT_API cudaError_t cudaMemset(void *memory, int value, size_t bytes)
{
    return rt_return(fill(memory, value, bytes, NULL));
}

RT_API cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    return rt_return(fill(memory, value, bytes, stream));
}
