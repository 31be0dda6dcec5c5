/* Textures and surfaces: what the documentation of cuTexObjectCreate demands of descriptions. Kernels here read texels
 * as they are, without filters. */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum {
    ALIGN = 512,
    PITCH_ALIGN = 32,
    MOST_LINEAR = 1 << 28,
    MOST_ROW = 131072,
    MOST_ROWS = 65000,
    MOST_PITCH = 2097120
};

struct object {
    bool used;
    bool is_surface;
    struct fake_context *context;
    struct fake_array *array; /* or level 0; NULL: memory */
    CUdeviceptr address;
    size_t texel, width, height, pitch;
};

/* Number n is objects[n - 1]; numbers are never used again. */
static struct object *objects;
static size_t num_objects;

static uint64_t new_object(struct object object)
{
    objects = realloc(objects, (num_objects + 1) * sizeof *objects);
    if (!objects)
        abort();
    objects[num_objects++] = object;
    return num_objects;
}

static struct object *get(uint64_t number, bool is_surface)
{
    if (number && number <= num_objects && objects[number - 1].used && objects[number - 1].is_surface == is_surface)
        return &objects[number - 1];
    fake_misuse("%#llx is no %s, or was destroyed", (unsigned long long)number, is_surface ? "surface" : "texture");
    return NULL;
}

size_t fake_objects_count(void)
{
    size_t count = 0;
    for (size_t i = 0; i < num_objects; i++)
        count += objects[i].used;
    return count;
}

void fake_objects_end(struct fake_context *primary)
{
    for (size_t i = 0; i < num_objects; i++)
        if (objects[i].context == primary)
            objects[i].used = false;
}

const char *fake_object_texel(uint64_t number, size_t x, size_t y, size_t z, size_t *bytes)
{
    const struct object *object = number && number <= num_objects ? &objects[number - 1] : NULL;
    *bytes = object ? object->texel : 0;
    if (!object || !object->used)
        return NULL;
    const struct fake_array *array = object->array;
    if (array)
        return x < array->shape.Width && y < fake_array_rows(array) && z < fake_array_slices(array)
                   ? fake_array_row(array, y, z) + x * object->texel
                   : NULL;
    const struct fake_memory *memory = fake_memory_find(object->address, object->pitch * object->height);
    bool inside = memory && memory->host && x < object->width && y < object->height && z == 0;
    return inside ? memory->host + (object->address - memory->address) + y * object->pitch + x * object->texel : NULL;
}

/* ---- checks ------------------------------------------------------------------------------------------------- */

static CUresult take_array(struct object *object, struct fake_array *array)
{
    if (!array || array->context != object->context)
        return CUDA_ERROR_INVALID_HANDLE;
    object->array = array->levels ? &array->level[0] : array;
    object->texel = fake_texel_bytes((int)array->shape.Format, array->shape.NumChannels);
    return object->array->texels ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult take_memory(struct fake_call *call, struct object *object, size_t bytes)
{
    if (!object->texel || !object->width || !object->height || object->address % ALIGN)
        return CUDA_ERROR_INVALID_VALUE;
    return fake_memory_usable(call->context, object->address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult take_linear(struct fake_call *call, struct object *object, const CUDA_RESOURCE_DESC *from)
{
    object->address = from->res.linear.devPtr;
    object->texel = fake_texel_bytes((int)from->res.linear.format, from->res.linear.numChannels);
    object->width = object->texel ? from->res.linear.sizeInBytes / object->texel : 0;
    object->height = 1;
    object->pitch = from->res.linear.sizeInBytes;
    return object->width > MOST_LINEAR ? CUDA_ERROR_INVALID_VALUE
                                       : take_memory(call, object, from->res.linear.sizeInBytes);
}

static CUresult take_rows(struct fake_call *call, struct object *object, const CUDA_RESOURCE_DESC *from)
{
    object->address = from->res.pitch2D.devPtr;
    object->texel = fake_texel_bytes((int)from->res.pitch2D.format, from->res.pitch2D.numChannels);
    object->width = from->res.pitch2D.width;
    object->height = from->res.pitch2D.height;
    object->pitch = from->res.pitch2D.pitchInBytes;
    if (object->width > MOST_ROW || object->height > MOST_ROWS || object->pitch > MOST_PITCH || !object->height ||
        object->pitch % PITCH_ALIGN || object->pitch < object->width * object->texel)
        return CUDA_ERROR_INVALID_VALUE;
    return take_memory(call, object, object->pitch * (object->height - 1) + object->width * object->texel);
}

static CUresult take(struct fake_call *call, struct object *object, const CUDA_RESOURCE_DESC *from)
{
    object->context = call->context->primary;
    object->used = true;
    if (from->flags)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)from->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        return take_array(object, fake_handle_get(from->res.array.hArray, FAKE_ARRAY));
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        return take_array(object, fake_handle_get(from->res.mipmap.hMipmappedArray, FAKE_MIPMAP));
    case CU_RESOURCE_TYPE_LINEAR:
        return take_linear(call, object, from);
    case CU_RESOURCE_TYPE_PITCH2D:
        return take_rows(call, object, from);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static bool are_zero(const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (((const char *)bytes)[i])
            return false;
    return true;
}

static bool check_sampling(const CUDA_RESOURCE_DESC *from, const CUDA_TEXTURE_DESC *how)
{
    const unsigned int known = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB;
    bool mipmap = (int)from->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    for (int axis = 0; axis < 3; axis++)
        if ((unsigned int)how->addressMode[axis] > CU_TR_ADDRESS_MODE_BORDER)
            return false;
    return (unsigned int)how->filterMode <= CU_TR_FILTER_MODE_LINEAR &&
           (unsigned int)how->mipmapFilterMode <= CU_TR_FILTER_MODE_LINEAR && !(how->flags & ~known) &&
           how->maxAnisotropy <= 16 && are_zero(how->reserved, sizeof how->reserved) &&
           (!mipmap || how->flags & CU_TRSF_NORMALIZED_COORDINATES);
}

/* Bytes of a texel of a CUresourceViewFormat that is not compressed; 0: the number is not one of these. */
static size_t view_bytes(int format)
{
    static const unsigned char channel[] = {1, 1, 2, 2, 4, 4, 2, 4}, channels[] = {1, 2, 4};
    return format >= 1 && format <= 24 ? (size_t)channel[(format - 1) / 3] * channels[(format - 1) % 3] : 0;
}

static bool check_view(const struct object *object, const CUDA_RESOURCE_VIEW_DESC *view)
{
    if (!object->array || view_bytes((int)view->format) != object->texel ||
        !are_zero(view->reserved, sizeof view->reserved))
        return false;
    const CUDA_ARRAY3D_DESCRIPTOR *shape = &object->array->shape;
    const struct fake_array *whole = object->array->whole;
    bool layered = shape->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    unsigned int levels = whole && object->array == &whole->level[0] ? whole->levels : 1;
    return view->width == shape->Width && view->height == shape->Height && view->depth == shape->Depth &&
           view->firstMipmapLevel <= view->lastMipmapLevel && view->lastMipmapLevel < levels &&
           view->firstLayer <= view->lastLayer && view->lastLayer < (layered ? shape->Depth : 1);
}

/* ---- life --------------------------------------------------------------------------------------------------- */

FAKE_API CUresult cuTexObjectCreate(CUtexObject *made, const CUDA_RESOURCE_DESC *from, const CUDA_TEXTURE_DESC *how,
                                    const CUDA_RESOURCE_VIEW_DESC *view)
{
    FAKE_CALL(FAKE_CURRENT);
    struct object object = {0};
    if (!result)
        result = take(&call, &object, from);
    if (!result && (!check_sampling(from, how) || (view && !check_view(&object, view))))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *made = new_object(object);
    FAKE_LEAVE("%d, flags=%#x, filter=%d, view=%d", (int)from->resType, how->flags, (int)how->filterMode,
               view ? (int)view->format : 0);
}

FAKE_API CUresult cuSurfObjectCreate(CUsurfObject *made, const CUDA_RESOURCE_DESC *from)
{
    FAKE_CALL(FAKE_CURRENT);
    struct object object = {.is_surface = true};
    if (!result && (int)from->resType != CU_RESOURCE_TYPE_ARRAY)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = take(&call, &object, from);
    if (!result && !(object.array->shape.Flags & CUDA_ARRAY3D_SURFACE_LDST))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *made = new_object(object);
    FAKE_LEAVE("%d", (int)from->resType);
}

static CUresult destroy(uint64_t number, bool is_surface)
{
    struct object *object = get(number, is_surface);
    if (!object)
        return CUDA_ERROR_INVALID_VALUE;
    object->used = false;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuTexObjectDestroy(CUtexObject number)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = destroy(number, false);
    FAKE_LEAVE("%llu", number);
}

FAKE_API CUresult cuSurfObjectDestroy(CUsurfObject number)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = destroy(number, true);
    FAKE_LEAVE("%llu", number);
}
