/* Arrays: their size, their life, and zeroing.
 *
 * An array takes more memory than its texels, as the GPU stores them in blocks. The driver tells the size of an array
 * without memory ("deferred mapping") of the same shape, and that is charged; drivers that make no such arrays get a
 * bound. As for other memory, nothing that the driver does is relied upon for zeroes: they are copied. */
#include "cuda_engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Blocks of texels: 64 bytes x 8 rows, of which up to 16 lie above each other, and up to 32 slices behind each other
 * [Linux: include/uapi/drm/drm_fourcc.h, DRM_FORMAT_MOD_NVIDIA_BLOCK_LINEAR_2D]. */
enum { BLOCK_BYTES = 64, BLOCK_ROWS = 8, MOST_ROWS = 128, MOST_SLICES = 32, PAGE_BYTES = 64 << 10 };

void cuda_arrays_start(struct cuda_engine *engine)
{
    int value = 0;
    drv_result error = engine->driver.cuDeviceGetAttribute(&value, DRV_DEVICE_DEFERS_ARRAYS, engine->setup.device);
    engine->defers_arrays = error == DRV_SUCCESS && value != 0;
    error = engine->driver.cuDeviceGetAttribute(&value, DRV_DEVICE_MAX_PITCH, engine->setup.device);
    engine->max_pitch = error == DRV_SUCCESS && value > 0 ? (uint64_t)value : INT32_MAX;
}

/* ---- shapes ------------------------------------------------------------------------------------------------- */

uint32_t cuda_format_of(uint32_t kind, uint32_t bits)
{
    static const uint32_t formats[][3] = {
        [VGC_CHANNEL_KIND_SIGNED] = {DRV_FORMAT_SIGNED_8, DRV_FORMAT_SIGNED_16, DRV_FORMAT_SIGNED_32},
        [VGC_CHANNEL_KIND_UNSIGNED] = {DRV_FORMAT_UNSIGNED_8, DRV_FORMAT_UNSIGNED_16, DRV_FORMAT_UNSIGNED_32},
        [VGC_CHANNEL_KIND_FLOAT] = {0, DRV_FORMAT_HALF, DRV_FORMAT_FLOAT},
    };
    return formats[kind][bits / 16];
}

static struct drv_array_shape shape_of(const struct vgc_body_array_create *shape)
{
    uint32_t flags = 0;
    flags |= (shape->flags & VGC_ARRAY_FLAG_LAYERED) != 0 ? DRV_ARRAY_LAYERED : 0;
    flags |= (shape->flags & VGC_ARRAY_FLAG_SURFACE) != 0 ? DRV_ARRAY_SURFACE : 0;
    flags |= (shape->flags & VGC_ARRAY_FLAG_CUBEMAP) != 0 ? DRV_ARRAY_CUBEMAP : 0;
    flags |= (shape->flags & VGC_ARRAY_FLAG_GATHER) != 0 ? DRV_ARRAY_GATHER : 0;
    return (struct drv_array_shape){.width = shape->width,
                                    .height = shape->height,
                                    .depth = shape->depth,
                                    .format = cuda_format_of(shape->kind, shape->bits),
                                    .channels = shape->channels,
                                    .flags = flags};
}

static uint32_t halved(uint32_t extent, uint32_t level)
{
    return extent >> level != 0 ? extent >> level : 1;
}

static bool is_flat(const struct vgc_body_array_create *shape)
{
    return (shape->flags & (VGC_ARRAY_FLAG_LAYERED | VGC_ARRAY_FLAG_CUBEMAP)) != 0;
}

/* Slices of a level, or layers. */
static uint32_t slices_of(const struct vgc_body_array_create *shape, uint32_t level)
{
    return is_flat(shape) ? shape->depth : halved(shape->depth, level);
}

static uint64_t row_bytes(const struct vgc_body_array_create *shape, uint32_t level)
{
    return (uint64_t)halved(shape->width, level) * shape->channels * shape->bits / 8;
}

/* ---- size --------------------------------------------------------------------------------------------------- */

static uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

/* Rounds up to blocks, whose size is a power of two of `least` to `most`. */
static uint64_t in_blocks(uint64_t value, uint64_t least, uint64_t most)
{
    uint64_t block = least;
    while (block < value && block < most)
        block *= 2;
    return round_up(value, block);
}

static uint64_t bound_of(const struct vgc_body_array_create *shape)
{
    uint64_t bytes = 0;
    for (uint32_t level = 0; level < shape->levels; level++) {
        uint64_t slices = slices_of(shape, level);
        bytes += round_up(row_bytes(shape, level), BLOCK_BYTES) *
                 in_blocks(halved(shape->height, level), BLOCK_ROWS, MOST_ROWS) *
                 (is_flat(shape) ? slices : in_blocks(slices, 1, MOST_SLICES));
    }
    return round_up(bytes, PAGE_BYTES);
}

/* Asks for the size of an array without memory. */
static drv_result measure(const struct cuda_engine *engine, const struct vgc_body_array_create *shape, uint64_t *bytes)
{
    const struct cuda_driver *driver = &engine->driver;
    struct drv_array_shape twin = shape_of(shape);
    struct drv_array_needs needs = {0};
    drv_array array = NULL;
    drv_mipmap mipmap = NULL;
    const struct CUDA_ARRAY3D_DESCRIPTOR_st *theirs = (const void *)&twin;
    twin.flags |= DRV_ARRAY_DEFERRED;
    drv_result error = shape->levels == 1 ? driver->cuArray3DCreate_v2(&array, theirs)
                                          : driver->cuMipmappedArrayCreate(&mipmap, theirs, shape->levels);
    if (error != DRV_SUCCESS)
        return error;
    if (shape->levels == 1) {
        error = driver->cuArrayGetMemoryRequirements((void *)&needs, array, engine->setup.device);
        driver->cuArrayDestroy(array);
    } else {
        error = driver->cuMipmappedArrayGetMemoryRequirements((void *)&needs, mipmap, engine->setup.device);
        driver->cuMipmappedArrayDestroy(mipmap);
    }
    *bytes = needs.size;
    return error;
}

int cuda_array_bytes(struct vgc_engine *base, const struct vgc_body_array_create *shape, uint64_t *bytes, char *why)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    uint64_t bound = bound_of(shape);
    (void)why;
    *bytes = bound;
    if (!engine->defers_arrays || bound > engine->setup.memory_bytes)
        return 0;
    uint64_t told = 0;
    drv_result error = measure(engine, shape, &told);
    cuda_check(engine, error);
    if (error == DRV_SUCCESS && told != 0)
        *bytes = told;
    return 0;
}

/* ---- zeroing ------------------------------------------------------------------------------------------------ */

/* Copies zeroes to as much of a level as there are: to `*rows` rows of `*slices` slices, from row y of slice z on. */
static drv_result zero_part(struct cuda_engine *engine, const struct cuda_array *array, uint32_t level, uint32_t y,
                            uint32_t z, uint32_t *rows, uint32_t *slices)
{
    uint64_t row = row_bytes(&array->shape, level);
    uint32_t height = halved(array->shape.height, level);
    uint32_t room = (uint32_t)(CUDA_ZEROS / row);
    *rows = height - y < room ? height - y : room;
    *slices = slices_of(&array->shape, level) - z;
    *slices = *rows < height ? 1 : *slices < room / height ? *slices : room / height;
    struct drv_copy_box box = {
        .from = {.type = DRV_MEMORY_DEVICE, .address = engine->zeros, .pitch = row, .height = *rows},
        .to = {.type = DRV_MEMORY_ARRAY, .array = array->levels[level], .y = y, .z = z},
        .width = row,
        .height = *rows,
        .depth = *slices,
    };
    drv_result error = cuda_zero_make_room(engine);
    if (error == DRV_SUCCESS)
        error = engine->driver.cuMemcpy3DAsync_v2((const void *)&box, engine->alloc_stream);
    if (error == DRV_SUCCESS)
        cuda_zero_note(engine, 1);
    return error;
}

static drv_result zero_level(struct cuda_engine *engine, const struct cuda_array *array, uint32_t level)
{
    drv_result error = DRV_SUCCESS;
    uint32_t height = halved(array->shape.height, level);
    uint32_t depth = slices_of(&array->shape, level);
    for (uint32_t y = 0, z = 0, rows = 0, slices = 0; z < depth && error == DRV_SUCCESS;) {
        error = zero_part(engine, array, level, y, z, &rows, &slices);
        y += rows;
        z += y == height ? slices : 0;
        y = y == height ? 0 : y;
    }
    return error;
}

static drv_result zero_array(struct cuda_engine *engine, const struct cuda_array *array)
{
    drv_result error = engine->zeros != 0 ? DRV_SUCCESS : engine->memory->take(engine, CUDA_ZEROS, &engine->zeros);
    for (uint32_t level = 0; level < array->shape.levels && error == DRV_SUCCESS; level++)
        error = zero_level(engine, array, level);
    return error == DRV_SUCCESS ? cuda_zero_publish(engine) : error;
}

/* ---- life --------------------------------------------------------------------------------------------------- */

static drv_result create(const struct cuda_engine *engine, struct cuda_array *array)
{
    const struct cuda_driver *driver = &engine->driver;
    struct drv_array_shape shape = shape_of(&array->shape);
    if (array->shape.levels == 1)
        return driver->cuArray3DCreate_v2(&array->levels[0], (const void *)&shape);
    drv_result error = driver->cuMipmappedArrayCreate(&array->mipmap, (const void *)&shape, array->shape.levels);
    for (uint32_t i = 0; i < array->shape.levels && error == DRV_SUCCESS; i++)
        error = driver->cuMipmappedArrayGetLevel(&array->levels[i], array->mipmap, i);
    return error;
}

static drv_result destroy(const struct cuda_engine *engine, const struct cuda_array *array)
{
    if (array->mipmap != NULL)
        return engine->driver.cuMipmappedArrayDestroy(array->mipmap);
    return array->levels[0] != NULL ? engine->driver.cuArrayDestroy(array->levels[0]) : DRV_SUCCESS;
}

/* Frees an array once its fills have ended, for which it waits: they are behind kernels only if these leave no room on
 * the GPU. */
static void end(struct cuda_engine *engine, struct cuda_array *array)
{
    if (cuda_zero_await(engine) == DRV_ERROR_NOT_READY)
        cuda_zero_finish(engine);
    cuda_check(engine, destroy(engine, array));
    engine->memory_of_arrays -= array->bytes;
    cuda_check(engine, cuda_share_memory(engine));
    free(array);
}

int cuda_array_make(struct vgc_engine *base, const struct vgc_body_array_create *shape, uint64_t bytes, void **array,
                    char *why)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    struct cuda_array *made = calloc(1, sizeof(*made));
    char text[160];
    if (made == NULL) {
        snprintf(why, VGC_ENGINE_WHY, "out of memory for the table of an array");
        return -ENOMEM;
    }
    made->shape = *shape;
    made->bytes = bytes;
    engine->memory_of_arrays += bytes; /* allocations keep none of it from now on */
    drv_result error = cuda_share_memory(engine);
    if (error == DRV_SUCCESS)
        error = create(engine, made);
    if (error == DRV_SUCCESS)
        error = zero_array(engine, made);
    cuda_check(engine, error);
    *array = made;
    if (error == DRV_SUCCESS)
        return 0;
    end(engine, made);
    cuda_error_text(engine, error, text, sizeof(text));
    snprintf(why, VGC_ENGINE_WHY, "no array of %u x %u x %u texels, %u levels, flags %#x: %s", shape->width,
             shape->height, shape->depth, shape->levels, shape->flags, text);
    return error == DRV_ERROR_OUT_OF_MEMORY || error == DRV_ERROR_NOT_READY ? -ENOMEM
           : error == DRV_ERROR_INVALID_VALUE                               ? -EINVAL
                                                                            : -EIO;
}

void cuda_array_end(struct vgc_engine *base, void *array)
{
    end(cuda_engine_of(base), array);
}
