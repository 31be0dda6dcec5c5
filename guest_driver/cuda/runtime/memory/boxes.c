/* Copies of rows and slices: between memory of the host, memory of devices, and arrays. */
#include <string.h>

#include "runtime.h"

enum { MAX_PITCH = INT32_MAX };

struct side {
    cudaArray_const_t array; /* NULL: memory, of any kind */
    void *pointer;           /* the box's first byte, as pitch and slice of memory */
    size_t pitch;
    size_t slice;
    size_t x; /* bytes; as y and z of an array */
    size_t y;
    size_t z;
};

struct box {
    struct side dst;
    struct side src;
    size_t width; /* bytes */
    size_t height;
    size_t depth;
    enum cudaMemcpyKind kind;
};

/* ---- checks --------------------------------------------------------------------------------- */

static cudaError_t check_array_side(const struct side *side, const struct box *box)
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

static cudaError_t check_memory_side(const struct side *side, const struct box *box)
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

static cudaError_t check_side(const struct side *side, const struct box *box)
{
    return side->array != NULL ? check_array_side(side, box) : check_memory_side(side, box);
}

/* Is the side in the host's memory? The direction says so for memory that this runtime does not know. */
static bool is_host(const struct side *side, bool direction_says)
{
    return side->array == NULL && !rt_is_device_pointer(side->pointer, !direction_says);
}

/* Managed memory is on either side. */
static bool contradicts(const struct side *side, bool on_host, bool direction_says)
{
    struct rt_range range;
    bool is_managed = side->array == NULL && rt_find_range(side->pointer, &range) && range.kind == RT_MANAGED_MEMORY;
    return on_host != direction_says && !is_managed;
}

static cudaError_t find_hosts(const struct box *box, bool *to_host, bool *from_host)
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

static struct vgc_side side_of(const struct side *side, bool on_host)
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

static struct rt_device *device_of(const struct side *side, struct rt_device *otherwise)
{
    return side->array != NULL ? side->array->texels->device : rt_device_of(side->pointer, otherwise);
}

/* Are both sides one piece of memory each? */
static bool is_line(const struct box *box)
{
    bool rows = box->height == 1 || (box->dst.pitch == box->width && box->src.pitch == box->width);
    size_t slice = box->width * box->height;
    bool slices = box->depth == 1 || (box->dst.slice == slice && box->src.slice == slice);
    return box->dst.array == NULL && box->src.array == NULL && rows && slices;
}

static void copy_on_host(const struct box *box)
{
    for (size_t z = 0; z < box->depth; z++)
        for (size_t y = 0; y < box->height; y++)
            memmove((char *)box->dst.pointer + z * box->dst.slice + y * box->dst.pitch,
                    (const char *)box->src.pointer + z * box->src.slice + y * box->src.pitch, box->width);
}

/* Work of another device than the stream's, and that of two devices, begins when the stream is done. */
static cudaError_t copy_elsewhere(const struct box *box, struct rt_device *device, uint32_t number, bool to_host,
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

/* Shows `vgc shadow` what has come to the host. */
static void show(const struct box *box)
{
    for (size_t z = 0; z < box->depth; z++)
        for (size_t y = 0; y < box->height; y++)
            rt_shadow_copied((char *)box->dst.pointer + z * box->dst.slice + y * box->dst.pitch, box->width);
}

static cudaError_t copy_here(const struct box *box, struct rt_device *device, uint32_t number, bool to_host,
                             bool from_host, bool detached)
{
    struct vgc_side dst = side_of(&box->dst, to_host);
    struct vgc_side src = side_of(&box->src, from_host);
    bool is_shown = to_host && rt_is_shadowed();
    detached = detached && !is_shown;
    int result = vgc_copy_box(atomic_load(&device->device), &dst, &src, (uint32_t)box->width, (uint32_t)box->height,
                              (uint32_t)box->depth, number, detached ? VGC_DETACHED : NULL);
    cudaError_t error = rt_fault(device, rt_error(result));
    if (is_shown && error == cudaSuccess)
        show(box);
    if (detached)
        return error;
    cudaError_t earlier = rt_settle(device);
    return earlier != cudaSuccess ? earlier : error;
}

static bool is_empty(const struct box *box)
{
    return box->width == 0 || box->height == 0 || box->depth == 0;
}

static cudaError_t check(const struct box *box, bool *to_host, bool *from_host)
{
    if ((unsigned)box->kind > cudaMemcpyDefault)
        return rt_explain(cudaErrorInvalidMemcpyDirection, "copy of kind %d; allowed: 0 to 4", (int)box->kind);
    if (is_empty(box))
        return cudaSuccess;
    size_t bytes;
    if (__builtin_mul_overflow(box->width, box->height, &bytes) || __builtin_mul_overflow(bytes, box->depth, &bytes))
        return rt_explain(cudaErrorInvalidValue, "a box of %zu bytes x %zu x %zu", box->width, box->height, box->depth);
    cudaError_t error = check_side(&box->dst, box);
    if (error == cudaSuccess)
        error = check_side(&box->src, box);
    return error == cudaSuccess ? find_hosts(box, to_host, from_host) : error;
}

/* ---- cudaMemcpy3D --------------------------------------------------------------------------- */

static struct side side_3d(cudaArray_t array, const struct cudaPos *pos, const struct cudaPitchedPtr *memory)
{
    if (array != NULL)
        return (struct side){.array = array, .x = pos->x * rt_texel_bytes(array->texels), .y = pos->y, .z = pos->z};
    size_t slice = memory->pitch * memory->ysize;
    uintptr_t first = (uintptr_t)memory->ptr;
    uintptr_t offset = pos->z * slice + pos->y * memory->pitch + pos->x;
    return (struct side){.pointer = (void *)(first == 0 ? 0 : first + offset), .pitch = memory->pitch, .slice = slice};
}

static cudaError_t box_of(const struct cudaMemcpy3DParms *copy, struct box *box)
{
    size_t texel = 0;
    if ((copy->srcArray != NULL && copy->srcPtr.ptr != NULL) || (copy->dstArray != NULL && copy->dstPtr.ptr != NULL))
        return rt_explain(cudaErrorInvalidValue, "a side of the copy is both an array and memory");
    const cudaArray_t arrays[] = {copy->dstArray, copy->srcArray};
    for (int i = 0; i < 2; i++) {
        cudaError_t error = arrays[i] != NULL ? rt_check_array(arrays[i]) : cudaSuccess;
        if (error != cudaSuccess)
            return error;
        size_t size = arrays[i] != NULL ? rt_texel_bytes(arrays[i]->texels) : texel;
        if (texel != 0 && size != texel)
            return rt_explain(cudaErrorInvalidValue, "texels of %zu and of %zu bytes", texel, size);
        texel = size;
    }
    const size_t most = SIZE_MAX / RT_MAX(texel, (size_t)1);
    if (copy->extent.width > most || copy->srcPos.x > most || copy->dstPos.x > most)
        return rt_explain(cudaErrorInvalidValue, "rows of %zu texels of %zu bytes", copy->extent.width, texel);
    *box = (struct box){.dst = side_3d(copy->dstArray, &copy->dstPos, &copy->dstPtr),
                        .src = side_3d(copy->srcArray, &copy->srcPos, &copy->srcPtr),
                        .width = copy->extent.width * RT_MAX(texel, (size_t)1),
                        .height = copy->extent.height,
                        .depth = copy->extent.depth,
                        .kind = copy->kind};
    return cudaSuccess;
}

cudaError_t rt_issue_copy_3d(struct rt_device *device, const struct cudaMemcpy3DParms *copy, uint32_t number,
                             bool detached)
{
    struct box box;
    bool to_host = false;
    bool from_host = false;
    cudaError_t error = box_of(copy, &box);
    if (error == cudaSuccess)
        error = check(&box, &to_host, &from_host);
    if (error != cudaSuccess || is_empty(&box))
        return error;
    if (box.width > UINT32_MAX || box.height > UINT32_MAX || box.depth > UINT32_MAX)
        return rt_explain(cudaErrorInvalidValue, "a box of %zu bytes x %zu x %zu", box.width, box.height, box.depth);
    to_host |= box.dst.array == NULL && rt_is_spare(box.dst.pointer);
    from_host |= box.src.array == NULL && rt_is_spare(box.src.pointer);
    if (to_host && from_host) {
        error = rt_wait_stream(device, number);
        copy_on_host(&box);
        return error;
    }
    bool is_here =
        (to_host || device_of(&box.dst, device) == device) && (from_host || device_of(&box.src, device) == device);
    return is_here ? copy_here(&box, device, number, to_host, from_host, detached)
                   : copy_elsewhere(&box, device, number, to_host, from_host);
}

cudaError_t rt_copy_3d(const struct cudaMemcpy3DParms *copy, cudaStream_t stream, bool waits)
{
    struct rt_device *device;
    struct box box;
    struct rt_operation operation = {.kind = RT_COPY_3D, .waits = waits, .copy_3d = copy};
    bool to_host;
    bool from_host;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess)
        error = box_of(copy, &box);
    if (error == cudaSuccess)
        error = check(&box, &to_host, &from_host);
    if (error != cudaSuccess || is_empty(&box))
        return error;
    if (is_line(&box)) {
        operation.kind = RT_COPY;
        operation.copy =
            (struct rt_copy){box.dst.pointer, box.src.pointer, box.width * box.height * box.depth, box.kind};
    }
    return rt_submit(device, stream, &operation);
}

RT_API cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *copy)
{
    return rt_return(copy != NULL ? rt_copy_3d(copy, NULL, true) : cudaErrorInvalidValue);
}

RT_API cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *copy, cudaStream_t stream)
{
    return rt_return(copy != NULL ? rt_copy_3d(copy, stream, false) : cudaErrorInvalidValue);
}

/* ---- cudaMemcpy2D and its kin --------------------------------------------------------------- */

/* A side of a copy of rows; x is in bytes. */
struct plane {
    cudaArray_const_t array;
    const void *pointer;
    size_t pitch;
    size_t x;
    size_t y;
};

static struct plane rows_at(const void *pointer, size_t pitch)
{
    return (struct plane){.pointer = pointer, .pitch = pitch};
}

/* An array that is NULL is an error, not memory. */
static struct plane place_in(cudaArray_const_t array, size_t x, size_t y)
{
    static struct cudaArray none;
    return (struct plane){.array = array != NULL ? array : &none, .x = x, .y = y};
}

/* Bytes of a texel of the planes; 1 without an array. */
static cudaError_t unit_of(const struct plane *dst, const struct plane *src, size_t *unit)
{
    const struct plane *const planes[] = {dst, src};
    *unit = 1;
    for (int i = 0; i < 2; i++) {
        cudaError_t error = planes[i]->array != NULL ? rt_check_array(planes[i]->array) : cudaSuccess;
        if (error != cudaSuccess)
            return error;
        if (planes[i]->array != NULL)
            *unit = rt_texel_bytes(planes[i]->array->texels);
    }
    return cudaSuccess;
}

static cudaError_t copy_2d(struct plane dst, struct plane src, size_t width, size_t height, enum cudaMemcpyKind kind,
                           cudaStream_t stream, bool waits)
{
    size_t unit;
    bool has_bad_pitch = (dst.array == NULL && width > dst.pitch) || (src.array == NULL && width > src.pitch);
    if (has_bad_pitch && height > 1)
        return rt_explain(cudaErrorInvalidPitchValue, "rows of %zu bytes at pitches of %zu and %zu", width, dst.pitch,
                          src.pitch);
    cudaError_t error = unit_of(&dst, &src, &unit);
    if (error != cudaSuccess)
        return error;
    if (width % unit != 0 || dst.x % unit != 0 || src.x % unit != 0)
        return rt_explain(cudaErrorInvalidValue, "%zu bytes at %zu and %zu; texels have %zu bytes", width, src.x, dst.x,
                          unit);
    struct cudaMemcpy3DParms copy = {.srcArray = (cudaArray_t)(uintptr_t)src.array,
                                     .srcPos = {src.x / unit, src.y, 0},
                                     .srcPtr = {(void *)(uintptr_t)src.pointer, src.pitch, width, height},
                                     .dstArray = (cudaArray_t)(uintptr_t)dst.array,
                                     .dstPos = {dst.x / unit, dst.y, 0},
                                     .dstPtr = {(void *)(uintptr_t)dst.pointer, dst.pitch, width, height},
                                     .extent = {width / unit, height, 1},
                                     .kind = kind};
    return rt_copy_3d(&copy, stream, waits);
}

RT_API cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                size_t height, enum cudaMemcpyKind kind)
{
    return rt_return(copy_2d(rows_at(to, to_pitch), rows_at(from, from_pitch), width, height, kind, NULL, true));
}

RT_API cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                     size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return rt_return(copy_2d(rows_at(to, to_pitch), rows_at(from, from_pitch), width, height, kind, stream, false));
}

RT_API cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width,
                                       size_t height, enum cudaMemcpyKind kind)
{
    return rt_return(copy_2d(place_in(to, x, y), rows_at(from, pitch), width, height, kind, NULL, true));
}

RT_API cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch,
                                            size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return rt_return(copy_2d(place_in(to, x, y), rows_at(from, pitch), width, height, kind, stream, false));
}

RT_API cudaError_t cudaMemcpy2DFromArray(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y,
                                         size_t width, size_t height, enum cudaMemcpyKind kind)
{
    return rt_return(copy_2d(rows_at(to, pitch), place_in(from, x, y), width, height, kind, NULL, true));
}

RT_API cudaError_t cudaMemcpy2DFromArrayAsync(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y,
                                              size_t width, size_t height, enum cudaMemcpyKind kind,
                                              cudaStream_t stream)
{
    return rt_return(copy_2d(rows_at(to, pitch), place_in(from, x, y), width, height, kind, stream, false));
}

RT_API cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from,
                                            size_t from_x, size_t from_y, size_t width, size_t height,
                                            enum cudaMemcpyKind kind)
{
    return rt_return(
        copy_2d(place_in(to, to_x, to_y), place_in(from, from_x, from_y), width, height, kind, NULL, true));
}
