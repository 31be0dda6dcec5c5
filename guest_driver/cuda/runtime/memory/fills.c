/* Memory in rows, and its fills: one row is filled, and then copied to twice as many rows with each request. */
#include <string.h>

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
    if (error == cudaSuccess)
        error = rt_check_unsafe();
    if (error != cudaSuccess || width == 0 || rows == 0)
        return error;
    if (width > INT32_MAX - PITCH_ALIGN)
        return rt_explain(cudaErrorInvalidValue, "rows of %zu bytes; allowed: up to %d", width, INT32_MAX);
    *pitch = (width + PITCH_ALIGN - 1) & ~(size_t)(PITCH_ALIGN - 1);
    if (__builtin_mul_overflow(*pitch, rows, &bytes))
        return rt_explain(cudaErrorMemoryAllocation, "%zu rows of %zu bytes", rows, *pitch);
    return rt_allocate_anywhere(device, bytes, memory);
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

static int fill_rows(struct rt_device *device, const struct rt_fill *fill, uint64_t begin, uint32_t number)
{
    int result = VGC_OK;
    for (size_t z = 0; z < fill->depth; z++)
        for (size_t y = 0; y < fill->height && result == VGC_OK; y++)
            result = vgc_fill(atomic_load(&device->device), begin + z * fill->slice + y * fill->pitch, fill->value,
                              fill->unit, fill->width, number, VGC_DETACHED);
    return result;
}

static int fill_box(struct rt_device *device, const struct rt_fill *fill, uint32_t number)
{
    struct vgc_side first = {.address = (uint64_t)(uintptr_t)fill->dst, .pitch = fill->pitch, .slice = fill->slice};
    struct cudaExtent extent = {fill->width, fill->height, fill->depth};
    uint64_t line = fill->width;
    bool is_slice = fill->height == 1 || fill->pitch == fill->width;
    if (is_slice)
        line *= fill->height;
    bool is_line = is_slice && (fill->depth == 1 || fill->slice == line);
    if (is_line)
        line *= fill->depth;
    if (!has_boxes(device) && !is_line)
        return fill_rows(device, fill, first.address, number);
    int result = vgc_fill(atomic_load(&device->device), first.address, fill->value, fill->unit, line, number,
                          is_line && fill->is_unknown ? NULL : VGC_DETACHED);
    if (result == VGC_OK && !is_slice)
        result = repeat(device, first, first.pitch, extent, fill->height, true, number);
    if (result == VGC_OK && !is_line)
        result = repeat(device, first, first.slice, extent, fill->depth, false, number);
    return result;
}

bool rt_is_of_process(const void *pointer)
{
    struct rt_range range;
    return rt_find_range(pointer, &range) && (range.kind == RT_HOST_MEMORY || range.is_spare);
}

static void fill_row_here(uint8_t *row, const struct rt_fill *fill)
{
    if (fill->unit == 1) {
        memset(row, (int)fill->value, fill->width);
        return;
    }
    for (size_t i = 0; i < fill->width; i += fill->unit)
        memcpy(row + i, &fill->value, fill->unit); /* little endian */
}

/* Fills memory of the process in the order of a stream of the device. */
static cudaError_t fill_here(struct rt_device *device, const struct rt_fill *fill, uint32_t number)
{
    cudaError_t error = rt_wait_stream(device, number);
    rt_mirrors_settle(device); /* what kernels wrote must not come later */
    for (size_t z = 0; z < fill->depth; z++)
        for (size_t y = 0; y < fill->height; y++)
            fill_row_here((uint8_t *)fill->dst + z * fill->slice + y * fill->pitch, fill);
    return error;
}

cudaError_t rt_fill(struct rt_device *device, const struct rt_fill *fill, uint32_t number)
{
    struct rt_device *owner = rt_device_of(fill->dst, device);
    if (fill->width == 0 || fill->height == 0 || fill->depth == 0)
        return cudaSuccess;
    if (rt_is_of_process(fill->dst))
        return fill_here(device, fill, number);
    cudaError_t error = owner != device ? rt_wait_stream(device, number) : cudaSuccess;
    if (error != cudaSuccess)
        return error;
    return rt_fault(owner, rt_error(fill_box(owner, fill, owner != device ? 0 : number)));
}

static cudaError_t check(const struct cudaPitchedPtr *memory, struct cudaExtent extent, bool *is_known)
{
    struct rt_device *device;
    struct rt_range range = {.size = 0};
    size_t rows;
    bool has_rows = extent.height > 1 || extent.depth > 1;
    *is_known = rt_find_range(memory->ptr, &range);
    if (memory->ptr == NULL)
        return rt_explain(cudaErrorInvalidValue, "a fill of no memory");
    if ((has_rows && memory->pitch < extent.width) || (extent.depth > 1 && memory->ysize < extent.height) ||
        memory->pitch > INT32_MAX)
        return rt_explain(cudaErrorInvalidValue, "%zu rows of %zu bytes at a pitch of %zu, %zu rows to a slice",
                          extent.height, extent.width, memory->pitch, memory->ysize);
    cudaError_t error = rt_current(&device);
    if (error != cudaSuccess)
        return error;
    uint64_t rest =
        *is_known ? range.size - ((uint64_t)(uintptr_t)memory->ptr - range.begin) : device->info.memory_bytes;
    if (__builtin_mul_overflow(extent.depth - 1, memory->ysize, &rows) ||
        __builtin_add_overflow(rows, extent.height - 1, &rows) || extent.width > rest ||
        (rows > 0 && rows > (rest - extent.width) / memory->pitch))
        return rt_explain(cudaErrorInvalidValue, "a fill of %zu bytes x %zu x %zu; %llu bytes are left there",
                          extent.width, extent.height, extent.depth, (unsigned long long)rest);
    return cudaSuccess;
}

/* Units of `unit` bytes, which the extent's width and the pitch are multiples of. */
static cudaError_t fill(const struct cudaPitchedPtr *memory, uint32_t value, uint32_t unit, struct cudaExtent extent,
                        cudaStream_t stream, bool waits)
{
    struct rt_device *device;
    bool is_known = false;
    const struct rt_operation operation = {.kind = RT_FILL,
                                           .fill = {.dst = memory->ptr,
                                                    .value = value,
                                                    .unit = unit,
                                                    .pitch = memory->pitch,
                                                    .width = extent.width,
                                                    .height = extent.height,
                                                    .depth = extent.depth,
                                                    .slice = memory->pitch * memory->ysize}};
    cudaError_t error = rt_current(&device);
    if (error != cudaSuccess || extent.width == 0 || extent.height == 0 || extent.depth == 0)
        return error;
    error = check(memory, extent, &is_known);
    if (error == cudaSuccess)
        error = rt_submit(device, stream, &operation);
    return error == cudaSuccess && waits && !is_known ? rt_synchronize(device) : error; /* the host knows */
}

static cudaError_t fill_2d(void *pointer, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream,
                           bool waits)
{
    struct cudaPitchedPtr memory = {pointer, pitch, width, height};
    if (pitch < width && height > 0)
        return rt_explain(cudaErrorInvalidValue, "rows of %zu bytes at a pitch of %zu", width, pitch);
    return fill(&memory, (uint8_t)value, 1, (struct cudaExtent){width, height, 1}, stream, waits);
}

cudaError_t rt_fill_units(struct cudaPitchedPtr memory, uint32_t value, uint32_t unit, cudaStream_t stream, bool waits)
{
    const struct cudaExtent extent = {memory.xsize, memory.ysize, 1};
    if ((uintptr_t)memory.ptr % unit != 0 || (extent.height > 1 && memory.pitch % unit != 0))
        return rt_explain(cudaErrorInvalidValue, "a fill of units of %u bytes at %p, pitch %zu; allowed: multiples",
                          unit, memory.ptr, memory.pitch);
    if (extent.height > 1 && memory.pitch < extent.width)
        return rt_explain(cudaErrorInvalidValue, "rows of %zu bytes at a pitch of %zu", extent.width, memory.pitch);
    return fill(&memory, value, unit, extent, stream, waits);
}

RT_API cudaError_t cudaMemset2D(void *memory, size_t pitch, int value, size_t width, size_t height)
{
    return rt_return(fill_2d(memory, pitch, value, width, height, NULL, true));
}

RT_API cudaError_t cudaMemset2DAsync(void *memory, size_t pitch, int value, size_t width, size_t height,
                                     cudaStream_t stream)
{
    return rt_return(fill_2d(memory, pitch, value, width, height, stream, false));
}

RT_API cudaError_t cudaMemset3D(struct cudaPitchedPtr memory, int value, struct cudaExtent extent)
{
    return rt_return(fill(&memory, (uint8_t)value, 1, extent, NULL, true));
}

RT_API cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr memory, int value, struct cudaExtent extent,
                                     cudaStream_t stream)
{
    return rt_return(fill(&memory, (uint8_t)value, 1, extent, stream, false));
}
