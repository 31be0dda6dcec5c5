/* Arrays and mipmapped arrays, with the checks and limits of NVIDIA's documentation, for a GPU of compute capability 9.
 */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum { FRESH = 0xcd, PAGE = 64 << 10, MOST_LEVELS = 18 };

size_t fake_texel_bytes(int format, unsigned int channels)
{
    static const unsigned char bytes[] = {
        [CU_AD_FORMAT_UNSIGNED_INT8] = 1, [CU_AD_FORMAT_UNSIGNED_INT16] = 2, [CU_AD_FORMAT_UNSIGNED_INT32] = 4,
        [CU_AD_FORMAT_SIGNED_INT8] = 1,   [CU_AD_FORMAT_SIGNED_INT16] = 2,   [CU_AD_FORMAT_SIGNED_INT32] = 4,
        [CU_AD_FORMAT_HALF] = 2,          [CU_AD_FORMAT_FLOAT] = 4};
    bool known = format > 0 && format < (int)sizeof bytes && (channels == 1 || channels == 2 || channels == 4);
    return known ? (size_t)bytes[format] * channels : 0;
}

static size_t at_least_one(size_t value)
{
    return value ? value : 1;
}

static bool is_flat(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
    return shape->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
}

size_t fake_array_rows(const struct fake_array *array)
{
    return at_least_one(array->shape.Height);
}

size_t fake_array_slices(const struct fake_array *array)
{
    return at_least_one(array->shape.Depth);
}

static size_t row_bytes(const struct fake_array *array)
{
    return array->shape.Width * fake_texel_bytes((int)array->shape.Format, array->shape.NumChannels);
}

char *fake_array_row(const struct fake_array *array, size_t y, size_t z)
{
    return array->texels + (z * fake_array_rows(array) + y) * row_bytes(array);
}

void fake_array_pin(struct fake_array *array, int change)
{
    (array->whole ? array->whole : array)->pins += (unsigned int)change;
}

/* ---- shapes ------------------------------------------------------------------------------------------------- */

struct limits {
    size_t width, height, depth; /* 0: must be 0 */
};

/* The row of the table in the documentation of cuArray3DCreate. */
static struct limits limits_of(const CUDA_ARRAY3D_DESCRIPTOR *shape, bool mipmapped)
{
    bool layered = shape->Flags & CUDA_ARRAY3D_LAYERED, surface = shape->Flags & CUDA_ARRAY3D_SURFACE_LDST;
    if (shape->Flags & CUDA_ARRAY3D_CUBEMAP)
        return (struct limits){32768, 32768, layered ? 2046 : 6};
    if (layered)
        return (struct limits){32768, shape->Height ? 32768 : 0, 2048};
    if (shape->Depth)
        return (struct limits){16384, 16384, 16384};
    if (shape->Height && (mipmapped || shape->Flags & CUDA_ARRAY3D_TEXTURE_GATHER))
        return (struct limits){32768, 32768, 0};
    if (shape->Height)
        return (struct limits){131072, 65536, 0};
    return (struct limits){surface || mipmapped ? 32768 : 131072, 0, 0};
}

static bool is_possible(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
    const unsigned int known = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |
                               CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_DEFERRED_MAPPING;
    struct limits most = limits_of(shape, levels > 0);
    size_t longest = shape->Width | shape->Height | (is_flat(shape) ? 0 : shape->Depth);
    if (shape->Flags & ~known || !fake_texel_bytes((int)shape->Format, shape->NumChannels) || !shape->Width ||
        shape->Width > most.width || shape->Height > most.height || shape->Depth > most.depth)
        return false;
    if ((most.height && !shape->Height) || (most.depth && !shape->Depth) || (levels && longest >> (levels - 1) == 0))
        return false;
    if (shape->Flags & CUDA_ARRAY3D_TEXTURE_GATHER && most.depth)
        return false;
    return !(shape->Flags & CUDA_ARRAY3D_CUBEMAP) || (shape->Width == shape->Height && shape->Depth % 6 == 0);
}

static size_t halved(size_t extent, unsigned int level)
{
    return extent ? at_least_one(extent >> level) : 0;
}

static CUDA_ARRAY3D_DESCRIPTOR level_of(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int level)
{
    CUDA_ARRAY3D_DESCRIPTOR found = *shape;
    found.Width = halved(shape->Width, level);
    found.Height = halved(shape->Height, level);
    found.Depth = is_flat(shape) ? shape->Depth : halved(shape->Depth, level);
    return found;
}

static size_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
    return shape->Width * fake_texel_bytes((int)shape->Format, shape->NumChannels) * at_least_one(shape->Height) *
           at_least_one(shape->Depth);
}

/* More than the texels, as on a GPU. */
static size_t size_of(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
    size_t bytes = 0;
    for (unsigned int i = 0; i < at_least_one(levels); i++) {
        CUDA_ARRAY3D_DESCRIPTOR level = level_of(shape, i);
        size_t row = level.Width * fake_texel_bytes((int)level.Format, level.NumChannels);
        bytes += (row + 63) / 64 * 64 * ((at_least_one(level.Height) + 7) / 8 * 8) * at_least_one(level.Depth);
    }
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* ---- life --------------------------------------------------------------------------------------------------- */

static void drop(struct fake_array *array)
{
    for (unsigned int i = 0; i < array->levels; i++)
        if (array->level[i].handle)
            fake_handle_end(array->level[i].handle);
    fake_handle_end(array->handle);
    fake_memory_uncharge(array->context->device, array->charged);
    free(array->texels);
    free(array->level);
    free(array);
}

static void end_array(struct fake_array *array)
{
    if (array->pins)
        fake_misuse("an array was destroyed while %u operations used it", array->pins);
    while (array->pins)
        fake_wait();
    drop(array);
}

static struct fake_array *new_array(struct fake_context *context, const CUDA_ARRAY3D_DESCRIPTOR *shape,
                                    unsigned int levels, CUresult *result)
{
    size_t bytes = 0, charge = shape->Flags & CUDA_ARRAY3D_DEFERRED_MAPPING ? 0 : 1;
    *result = is_possible(shape, levels) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    if (*result == CUDA_ERROR_INVALID_VALUE)
        return NULL;
    charge *= size_of(shape, levels);
    if (!fake_memory_charge(context->device, charge))
        return NULL;
    struct fake_array *array = calloc(1, sizeof *array);
    if (!array)
        abort();
    *array = (struct fake_array){.context = context->primary, .shape = *shape, .levels = levels, .charged = charge};
    for (unsigned int i = 0; i < at_least_one(levels); i++) {
        CUDA_ARRAY3D_DESCRIPTOR level = level_of(shape, i);
        bytes += level_bytes(&level);
    }
    array->texels = charge ? malloc(bytes) : NULL;
    if (array->texels)
        memset(array->texels, FRESH, bytes);
    array->level = levels ? calloc(levels, sizeof *array->level) : NULL;
    size_t at = 0;
    for (unsigned int i = 0; i < levels; i++) {
        struct fake_array *level = &array->level[i];
        *level = (struct fake_array){.context = context->primary, .shape = level_of(shape, i), .whole = array};
        level->texels = array->texels ? array->texels + at : NULL;
        at += level_bytes(&level->shape);
    }
    array->handle = fake_handle_new(levels ? FAKE_MIPMAP : FAKE_ARRAY, array);
    *result = CUDA_SUCCESS;
    return array;
}

static void visit(void *object, void *data)
{
    struct fake_array *array = object;
    if (array->context == data && !array->whole)
        drop(array);
}

void fake_arrays_end(struct fake_context *primary)
{
    fake_handle_each(FAKE_MIPMAP, visit, primary);
    fake_handle_each(FAKE_ARRAY, visit, primary);
}

FAKE_API CUresult cuArray3DCreate_v2(CUarray *made, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
    FAKE_CALL(FAKE_CURRENT);
    struct fake_array *array = result ? NULL : new_array(call.context, shape, 0, &result);
    if (array)
        *made = array->handle;
    FAKE_LEAVE("%zu x %zu x %zu, flags=%#x", shape->Width, shape->Height, shape->Depth, shape->Flags);
}

FAKE_API CUresult cuMipmappedArrayCreate(CUmipmappedArray *made, const CUDA_ARRAY3D_DESCRIPTOR *shape,
                                         unsigned int levels)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result && (!levels || levels > MOST_LEVELS))
        result = CUDA_ERROR_INVALID_VALUE;
    struct fake_array *array = result ? NULL : new_array(call.context, shape, levels, &result);
    if (array)
        *made = array->handle;
    FAKE_LEAVE("%zu x %zu x %zu, flags=%#x, %u levels", shape->Width, shape->Height, shape->Depth, shape->Flags,
               levels);
}

FAKE_API CUresult cuMipmappedArrayGetLevel(CUarray *made, CUmipmappedArray whole, unsigned int level)
{
    FAKE_CALL(FAKE_CURRENT);
    const struct fake_array *array = result ? NULL : fake_handle_get(whole, FAKE_MIPMAP);
    if (!result && (!array || level >= array->levels))
        result = array ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    if (!result && !array->level[level].handle)
        array->level[level].handle = fake_handle_new(FAKE_ARRAY, &array->level[level]);
    if (!result)
        *made = array->level[level].handle;
    FAKE_LEAVE("%p, %u", (void *)whole, level);
}

FAKE_API CUresult cuArrayDestroy(CUarray handle)
{
    FAKE_CALL(FAKE_CURRENT);
    struct fake_array *array = result ? NULL : fake_handle_get(handle, FAKE_ARRAY);
    if (!result && (!array || array->whole)) {
        if (array)
            fake_misuse("a level of a mipmapped array is to be destroyed");
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    if (!result)
        end_array(array);
    FAKE_LEAVE("%p", (void *)handle);
}

FAKE_API CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle)
{
    FAKE_CALL(FAKE_CURRENT);
    struct fake_array *array = result ? NULL : fake_handle_get(handle, FAKE_MIPMAP);
    if (!result && !array)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result)
        end_array(array);
    FAKE_LEAVE("%p", (void *)handle);
}

static CUresult needs_of(CUDA_ARRAY_MEMORY_REQUIREMENTS *needs, const void *handle, enum fake_kind kind)
{
    const struct fake_array *array = fake_handle_get(handle, kind);
    if (!array || !(array->shape.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING))
        return array ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    *needs = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = size_of(&array->shape, array->levels), .alignment = PAGE};
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *needs, CUarray handle, CUdevice device)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = needs_of(needs, handle, FAKE_ARRAY);
    FAKE_LEAVE("%p, %d", (void *)handle, device);
}

FAKE_API CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *needs, CUmipmappedArray handle,
                                                        CUdevice device)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = needs_of(needs, handle, FAKE_MIPMAP);
    FAKE_LEAVE("%p, %d", (void *)handle, device);
}
