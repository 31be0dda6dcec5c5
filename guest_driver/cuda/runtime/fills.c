/* Memory in rows, and its fills: one row is filled, and then copied to twice as many rows with each request. */
#include "runtime.h"

enum { PITCH_ALIGN = 512 };

static bool has_boxes(const struct rt_device *device)
{
    return (device->info.device_features & UINT64_C(1) << 4) != 0; /* VGC_F_TEXTURES */
}

/* ---- allocations ---------------------------------------------------------------------------- */

static cudaError_t allocate_rows(void **memory, size_t *pitch, size_t width, size_t rows)
{
    struct rt_device *device;
    size_t bytes;
    *memory = NULL;
    *pitch = 0;
    cudaError_t error = rt_current(&device);
    if (error != cudaSuccess || width == 0 || rows == 0)
        return error;
    if (width > INT32_MAX - PITCH_ALIGN)
        return rt_explain(cudaErrorInvalidValue, "rows of %zu bytes; allowed: up to %d", width, INT32_MAX);
    *pitch = (width + PITCH_ALIGN - 1) & ~(size_t)(PITCH_ALIGN - 1);
    if (__builtin_mul_overflow(*pitch, rows, &bytes))
        return rt_explain(cudaErrorMemoryAllocation, "%zu rows of %zu bytes", rows, *pitch);
    return rt_allocate(device, bytes, memory);
}

RT_API cudaError_t cudaMallocPitch(void **memory, size_t *pitch, size_t width, size_t height)
{
    if (memory == NULL || pitch == NULL)
        return rt_return(cudaErrorInvalidValue);
    return rt_return(allocate_rows(memory, pitch, width, height));
}

RT_API cudaError_t cudaMalloc3D(struct cudaPitchedPtr *memory, struct cudaExtent extent)
{
    size_t rows;
    if (memory == NULL)
        return rt_return(cudaErrorInvalidValue);
    *memory = (struct cudaPitchedPtr){.xsize = extent.width, .ysize = extent.height};
    if (__builtin_mul_overflow(extent.height, extent.depth, &rows))
        return rt_return(cudaErrorMemoryAllocation);
    return rt_return(allocate_rows(&memory->ptr, &memory->pitch, extent.width, rows));
}

/* ---- fills ---------------------------------------------------------------------------------- */

/* Copies the first row, or slice, to all others of `count`. */
static int repeat(struct rt_device *device, struct vgc_side first, uint64_t distance, struct cudaExtent extent,
                  size_t count, bool rows, uint32_t number)
{
    int result = VGC_OK;
    for (size_t done = 1; done < count && result == VGC_OK; done *= 2) {
        uint32_t more = (uint32_t)RT_MIN(done, count - done);
        struct vgc_side others = first;
        others.address += done * distance;
        result = vgc_copy_box(atomic_load(&device->device), &others, &first, (uint32_t)extent.width,
                              rows ? more : (uint32_t)extent.height, rows ? 1 : more, number, VGC_DETACHED);
    }
    return result;
}

static int fill_rows(struct rt_device *device, const struct vgc_side *first, uint32_t value, uint32_t unit,
                     struct cudaExtent extent, uint32_t number)
{
    int result = VGC_OK;
    for (size_t z = 0; z < extent.depth; z++)
        for (size_t y = 0; y < extent.height && result == VGC_OK; y++)
            result = vgc_fill(atomic_load(&device->device), first->address + z * first->slice + y * first->pitch, value,
                              unit, extent.width, number, VGC_DETACHED);
    return result;
}

cudaError_t rt_fill_box(struct rt_device *device, const struct cudaPitchedPtr *memory, uint32_t value, uint32_t unit,
                        struct cudaExtent extent, uint32_t number)
{
    struct vgc_device *opened = atomic_load(&device->device);
    struct vgc_side first = {
        .address = (uint64_t)(uintptr_t)memory->ptr, .pitch = memory->pitch, .slice = memory->pitch * memory->ysize};
    uint64_t line = extent.width;
    bool is_slice = extent.height == 1 || memory->pitch == extent.width;
    if (is_slice)
        line *= extent.height;
    bool is_line = is_slice && (extent.depth == 1 || first.slice == line);
    if (is_line)
        line *= extent.depth;
    if (!has_boxes(device) && !is_line)
        return rt_fault(device, rt_error(fill_rows(device, &first, value, unit, extent, number)));
    int result = vgc_fill(opened, first.address, value, unit, line, number, VGC_DETACHED);
    if (result == VGC_OK && !is_slice)
        result = repeat(device, first, first.pitch, extent, extent.height, true, number);
    if (result == VGC_OK && !is_line)
        result = repeat(device, first, first.slice, extent, extent.depth, false, number);
    return rt_fault(device, rt_error(result));
}

static cudaError_t check(const struct cudaPitchedPtr *memory, struct cudaExtent extent, bool *is_known)
{
    struct rt_range range = {.size = 0};
    bool has_rows = extent.height > 1 || extent.depth > 1;
    *is_known = rt_find_range(memory->ptr, &range);
    if (memory->ptr == NULL || (*is_known && range.kind == RT_HOST_MEMORY))
        return rt_explain(cudaErrorInvalidValue, "a fill of host memory at %p", memory->ptr);
    if ((has_rows && memory->pitch < extent.width) || (extent.depth > 1 && memory->ysize < extent.height) ||
        memory->pitch > INT32_MAX)
        return rt_explain(cudaErrorInvalidValue, "%zu rows of %zu bytes at a pitch of %zu, %zu rows to a slice",
                          extent.height, extent.width, memory->pitch, memory->ysize);
    size_t rows = (extent.depth - 1) * memory->ysize + extent.height - 1;
    uint64_t rest = range.size - ((uint64_t)(uintptr_t)memory->ptr - range.begin);
    if (*is_known && (extent.width > rest || (rows > 0 && rows > (rest - extent.width) / memory->pitch)))
        return rt_explain(cudaErrorInvalidValue, "a fill of %zu bytes x %zu x %zu; %llu bytes are left there",
                          extent.width, extent.height, extent.depth, (unsigned long long)rest);
    return cudaSuccess;
}

static cudaError_t fill(const struct cudaPitchedPtr *memory, int value, struct cudaExtent extent, cudaStream_t stream)
{
    struct rt_device *device;
    uint32_t number;
    bool is_known = false;
    cudaError_t error = rt_current(&device);
    if (error != cudaSuccess || extent.width == 0 || extent.height == 0 || extent.depth == 0)
        return error;
    error = check(memory, extent, &is_known);
    if (error == cudaSuccess)
        error = rt_enter_stream(device, stream, &number);
    if (error != cudaSuccess)
        return error;
    struct rt_device *owner = rt_device_of(memory->ptr, device);
    if (owner != device) {
        error = rt_wait_stream(device, number);
        number = 0;
    }
    if (error == cudaSuccess)
        error = rt_fill_box(owner, memory, (uint8_t)value, 1, extent, number);
    return error == cudaSuccess && !is_known ? rt_wait_stream(owner, number) : error; /* the host knows */
}

static cudaError_t fill_2d(void *pointer, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
    struct cudaPitchedPtr memory = {pointer, pitch, width, height};
    if (pitch < width && height > 0)
        return rt_explain(cudaErrorInvalidValue, "rows of %zu bytes at a pitch of %zu", width, pitch);
    return fill(&memory, value, (struct cudaExtent){width, height, 1}, stream);
}

RT_API cudaError_t cudaMemset2D(void *memory, size_t pitch, int value, size_t width, size_t height)
{
    return rt_return(fill_2d(memory, pitch, value, width, height, NULL));
}

RT_API cudaError_t cudaMemset2DAsync(void *memory, size_t pitch, int value, size_t width, size_t height,
                                     cudaStream_t stream)
{
    return rt_return(fill_2d(memory, pitch, value, width, height, stream));
}

RT_API cudaError_t cudaMemset3D(struct cudaPitchedPtr memory, int value, struct cudaExtent extent)
{
    return rt_return(fill(&memory, value, extent, NULL));
}

RT_API cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr memory, int value, struct cudaExtent extent,
                                     cudaStream_t stream)
{
    return rt_return(fill(&memory, value, extent, stream));
}
