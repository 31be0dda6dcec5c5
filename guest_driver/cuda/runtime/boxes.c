/* Copies of rows and slices: between memory of the host, memory of devices, and arrays. */
#include <string.h>

#include "runtime.h"

enum { MAX_PITCH = INT32_MAX };

/* ---- checks --------------------------------------------------------------------------------- */

static cudaError_t check_array_side(const struct rt_side *side, const struct rt_box *box)
{
    cudaError_t error = rt_check_array(side->array);
    if (error != cudaSuccess)
        return error;
    const struct cudaExtent *extent = &side->array->extent;
    size_t width = extent->width * rt_texel_bytes(side->array->texels);
    size_t height = RT_MAX(extent->height, (size_t)1);
    size_t depth = RT_MAX(extent->depth, (size_t)1);
    if (side->x > width || box->width > width - side->x || side->y > height || box->height > height - side->y ||
        side->z > depth || box->depth > depth - side->z)
        return rt_explain(cudaErrorInvalidValue,
                          "a box of %zu bytes x %zu x %zu at (%zu, %zu, %zu) of an array of %zu bytes x %zu x %zu",
                          box->width, box->height, box->depth, side->x, side->y, side->z, width, height, depth);
    return cudaSuccess;
}

static cudaError_t check_memory_side(const struct rt_side *side, const struct rt_box *box)
{
    if (side->pointer == NULL)
        return rt_explain(cudaErrorInvalidValue, "a copy from or to a null pointer");
    bool has_rows = box->height > 1 || box->depth > 1;
    if (side->pitch > MAX_PITCH || (has_rows && side->pitch < box->width))
        return rt_explain(cudaErrorInvalidPitchValue, "rows of %zu bytes at a pitch of %zu; allowed: up to %d",
                          box->width, side->pitch, MAX_PITCH);
    if (box->depth > 1 && side->slice / box->height < side->pitch)
        return rt_explain(cudaErrorInvalidValue, "slices of %zu rows at a distance of %zu", box->height,
                          side->pitch == 0 ? 0 : side->slice / side->pitch);
    return cudaSuccess;
}

static cudaError_t check_side(const struct rt_side *side, const struct rt_box *box)
{
    return side->array != NULL ? check_array_side(side, box) : check_memory_side(side, box);
}

/* Is the side in the host's memory? The direction says so for memory that this runtime does not know. */
static bool is_host(const struct rt_side *side, bool direction_says)
{
    return side->array == NULL && !rt_is_device_pointer(side->pointer, !direction_says);
}

/* Managed memory is on either side. */
static bool contradicts(const struct rt_side *side, bool on_host, bool direction_says)
{
    struct rt_range range;
    bool is_managed = side->array == NULL && rt_find_range(side->pointer, &range) && range.kind == RT_MANAGED_MEMORY;
    return on_host != direction_says && !is_managed;
}

static cudaError_t find_hosts(const struct rt_box *box, bool *to_host, bool *from_host)
{
    if ((unsigned)box->kind > cudaMemcpyDefault)
        return rt_explain(cudaErrorInvalidMemcpyDirection, "copy of kind %d; allowed: 0 to 4", (int)box->kind);
    bool kind_to_host = box->kind == cudaMemcpyHostToHost || box->kind == cudaMemcpyDeviceToHost;
    bool kind_from_host = box->kind == cudaMemcpyHostToHost || box->kind == cudaMemcpyHostToDevice;
    bool is_default = box->kind == cudaMemcpyDefault;
    if ((box->dst.array != NULL && kind_to_host) || (box->src.array != NULL && kind_from_host))
        return rt_explain(cudaErrorInvalidMemcpyDirection, "copy of kind %d, but the array is on the device",
                          (int)box->kind);
    *to_host = is_host(&box->dst, is_default || kind_to_host);
    *from_host = is_host(&box->src, is_default || kind_from_host);
    if (!is_default &&
        (contradicts(&box->dst, *to_host, kind_to_host) || contradicts(&box->src, *from_host, kind_from_host)))
        return rt_explain(cudaErrorInvalidValue, "copy from %p to %p: the direction is not that of the pointers",
                          box->src.pointer, box->dst.pointer);
    return cudaSuccess;
}

/* ---- copying -------------------------------------------------------------------------------- */

static struct vgc_side side_of(const struct rt_side *side, bool on_host)
{
    if (side->array != NULL)
        return (struct vgc_side){.array = side->array->texels->array,
                                 .level = side->array->level,
                                 .x = (uint32_t)side->x,
                                 .y = (uint32_t)side->y,
                                 .z = (uint32_t)side->z};
    return (struct vgc_side){.address = on_host ? 0 : (uint64_t)(uintptr_t)side->pointer,
                             .host = on_host ? side->pointer : NULL,
                             .pitch = side->pitch,
                             .slice = side->slice};
}

static struct rt_device *device_of(const struct rt_side *side, struct rt_device *otherwise)
{
    return side->array != NULL ? side->array->texels->device : rt_device_of(side->pointer, otherwise);
}

/* Are both sides one piece of memory each? */
static bool is_line(const struct rt_box *box)
{
    bool rows = box->height == 1 || (box->dst.pitch == box->width && box->src.pitch == box->width);
    size_t slice = box->width * box->height;
    bool slices = box->depth == 1 || (box->dst.slice == slice && box->src.slice == slice);
    return box->dst.array == NULL && box->src.array == NULL && rows && slices;
}

static void copy_on_host(const struct rt_box *box)
{
    for (size_t z = 0; z < box->depth; z++)
        for (size_t y = 0; y < box->height; y++)
            memmove((char *)box->dst.pointer + z * box->dst.slice + y * box->dst.pitch,
                    (const char *)box->src.pointer + z * box->src.slice + y * box->src.pitch, box->width);
}

/* Work of another device than the stream's, and that of two devices, begins when the stream is done. */
static cudaError_t copy_elsewhere(const struct rt_box *box, struct rt_device *device, uint32_t number, bool to_host,
                                  bool from_host)
{
    struct vgc_side dst = side_of(&box->dst, to_host);
    struct vgc_side src = side_of(&box->src, from_host);
    struct rt_device *to = device_of(&box->dst, device);
    struct rt_device *from = device_of(&box->src, device);
    cudaError_t error = rt_wait_stream(device, number);
    if (error != cudaSuccess)
        return error;
    if (!to_host && !from_host && to != from)
        return rt_copy_peer(to, &dst, from, &src, (const size_t[3]){box->width, box->height, box->depth});
    struct rt_device *other = to_host ? from : to;
    error = rt_error(vgc_copy_box(atomic_load(&other->device), &dst, &src, (uint32_t)box->width, (uint32_t)box->height,
                                  (uint32_t)box->depth, 0, NULL));
    return rt_fault(other, error);
}

static cudaError_t copy_here(const struct rt_box *box, struct rt_device *device, uint32_t number, bool to_host,
                             bool from_host, bool detached)
{
    struct vgc_side dst = side_of(&box->dst, to_host);
    struct vgc_side src = side_of(&box->src, from_host);
    int result = vgc_copy_box(atomic_load(&device->device), &dst, &src, (uint32_t)box->width, (uint32_t)box->height,
                              (uint32_t)box->depth, number, detached ? VGC_DETACHED : NULL);
    cudaError_t error = rt_fault(device, rt_error(result));
    if (detached)
        return error;
    cudaError_t earlier = rt_settle(device);
    return earlier != cudaSuccess ? earlier : error;
}

/* Sides are checked. */
static cudaError_t copy_checked(const struct rt_box *box, struct rt_device *device, uint32_t number, bool detached)
{
    bool to_host = false;
    bool from_host = false;
    cudaError_t error = find_hosts(box, &to_host, &from_host);
    if (error != cudaSuccess)
        return error;
    if (is_line(box))
        return rt_copy(device, box->dst.pointer, box->src.pointer, box->width * box->height * box->depth, box->kind,
                       number, detached);
    if (box->width > UINT32_MAX || box->height > UINT32_MAX || box->depth > UINT32_MAX)
        return rt_explain(cudaErrorInvalidValue, "a box of %zu bytes x %zu x %zu", box->width, box->height, box->depth);
    if (to_host && from_host) {
        error = rt_wait_stream(device, number);
        copy_on_host(box);
        return error;
    }
    bool is_here =
        (to_host || device_of(&box->dst, device) == device) && (from_host || device_of(&box->src, device) == device);
    return is_here ? copy_here(box, device, number, to_host, from_host, detached)
                   : copy_elsewhere(box, device, number, to_host, from_host);
}

cudaError_t rt_copy_box(const struct rt_box *box, cudaStream_t stream, bool detached)
{
    struct rt_device *device;
    uint32_t number;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess && (unsigned)box->kind > cudaMemcpyDefault)
        error = rt_explain(cudaErrorInvalidMemcpyDirection, "copy of kind %d; allowed: 0 to 4", (int)box->kind);
    if (error != cudaSuccess || box->width == 0 || box->height == 0 || box->depth == 0)
        return error;
    error = check_side(&box->dst, box);
    if (error == cudaSuccess)
        error = check_side(&box->src, box);
    if (error == cudaSuccess)
        error = rt_enter_stream(device, stream, &number);
    return error == cudaSuccess ? copy_checked(box, device, number, detached) : error;
}

/* ---- cudaMemcpy3D --------------------------------------------------------------------------- */

static struct rt_side side_3d(cudaArray_t array, const struct cudaPos *pos, const struct cudaPitchedPtr *memory)
{
    if (array != NULL)
        return (struct rt_side){.array = array, .x = pos->x * rt_texel_bytes(array->texels), .y = pos->y, .z = pos->z};
    size_t slice = memory->pitch * memory->ysize;
    char *first = memory->ptr;
    return (struct rt_side){.pointer = first == NULL ? NULL : first + pos->z * slice + pos->y * memory->pitch + pos->x,
                            .pitch = memory->pitch,
                            .slice = slice};
}

cudaError_t rt_box_of(const struct cudaMemcpy3DParms *copy, struct rt_box *box)
{
    size_t texel = 1;
    if ((copy->srcArray != NULL && copy->srcPtr.ptr != NULL) || (copy->dstArray != NULL && copy->dstPtr.ptr != NULL))
        return rt_explain(cudaErrorInvalidValue, "a side of the copy is both an array and memory");
    const cudaArray_t arrays[] = {copy->dstArray, copy->srcArray};
    for (int i = 0; i < 2; i++) {
        if (arrays[i] == NULL)
            continue;
        cudaError_t error = rt_check_array(arrays[i]);
        if (error != cudaSuccess)
            return error;
        size_t size = rt_texel_bytes(arrays[i]->texels);
        if (texel != 1 && size != texel && i == 1)
            return rt_explain(cudaErrorInvalidValue, "texels of %zu and of %zu bytes", texel, size);
        texel = size;
    }
    *box = (struct rt_box){.dst = side_3d(copy->dstArray, &copy->dstPos, &copy->dstPtr),
                           .src = side_3d(copy->srcArray, &copy->srcPos, &copy->srcPtr),
                           .width = copy->extent.width * texel,
                           .height = copy->extent.height,
                           .depth = copy->extent.depth,
                           .kind = copy->kind};
    return cudaSuccess;
}

static cudaError_t copy_3d(const struct cudaMemcpy3DParms *copy, cudaStream_t stream, bool detached)
{
    struct rt_box box;
    cudaError_t error = copy != NULL ? rt_box_of(copy, &box) : cudaErrorInvalidValue;
    return error == cudaSuccess ? rt_copy_box(&box, stream, detached) : error;
}

RT_API cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *copy)
{
    return rt_return(copy_3d(copy, NULL, false));
}

RT_API cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *copy, cudaStream_t stream)
{
    return rt_return(copy_3d(copy, stream, true));
}

/* ---- cudaMemcpy2D and its kin --------------------------------------------------------------- */

static cudaError_t copy_2d(struct rt_side dst, struct rt_side src, size_t width, size_t height,
                           enum cudaMemcpyKind kind, cudaStream_t stream, bool detached)
{
    bool has_bad_pitch = (dst.array == NULL && width > dst.pitch) || (src.array == NULL && width > src.pitch);
    if (has_bad_pitch && height > 0)
        return rt_explain(cudaErrorInvalidPitchValue, "rows of %zu bytes at pitches of %zu and %zu", width, dst.pitch,
                          src.pitch);
    struct rt_box box = {.dst = dst, .src = src, .width = width, .height = height, .depth = 1, .kind = kind};
    return rt_copy_box(&box, stream, detached);
}

static struct rt_side rows_at(const void *pointer, size_t pitch)
{
    return (struct rt_side){.pointer = (void *)(uintptr_t)pointer, .pitch = pitch};
}

/* An array that is NULL is an error, not memory. */
static struct rt_side place_in(cudaArray_const_t array, size_t x, size_t y)
{
    static struct cudaArray none;
    return (struct rt_side){.array = array != NULL ? array : &none, .x = x, .y = y};
}

RT_API cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                size_t height, enum cudaMemcpyKind kind)
{
    return rt_return(copy_2d(rows_at(to, to_pitch), rows_at(from, from_pitch), width, height, kind, NULL, false));
}

RT_API cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                     size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return rt_return(copy_2d(rows_at(to, to_pitch), rows_at(from, from_pitch), width, height, kind, stream, true));
}

RT_API cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width,
                                       size_t height, enum cudaMemcpyKind kind)
{
    return rt_return(copy_2d(place_in(to, x, y), rows_at(from, pitch), width, height, kind, NULL, false));
}

RT_API cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch,
                                            size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return rt_return(copy_2d(place_in(to, x, y), rows_at(from, pitch), width, height, kind, stream, true));
}

RT_API cudaError_t cudaMemcpy2DFromArray(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y,
                                         size_t width, size_t height, enum cudaMemcpyKind kind)
{
    return rt_return(copy_2d(rows_at(to, pitch), place_in(from, x, y), width, height, kind, NULL, false));
}

RT_API cudaError_t cudaMemcpy2DFromArrayAsync(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y,
                                              size_t width, size_t height, enum cudaMemcpyKind kind,
                                              cudaStream_t stream)
{
    return rt_return(copy_2d(rows_at(to, pitch), place_in(from, x, y), width, height, kind, stream, true));
}

RT_API cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from,
                                            size_t from_x, size_t from_y, size_t width, size_t height,
                                            enum cudaMemcpyKind kind)
{
    return rt_return(
        copy_2d(place_in(to, to_x, to_y), place_in(from, from_x, from_y), width, height, kind, NULL, false));
}
