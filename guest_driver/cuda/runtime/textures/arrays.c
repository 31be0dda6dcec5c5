/* Arrays and mipmaps. Their handles are looked up in lists before they are looked into, so that a handle that was freed
 * is an error. */
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

enum { KNOWN_FLAGS = cudaArrayLayered | cudaArraySurfaceLoadStore | cudaArrayCubemap | cudaArrayTextureGather };
_Static_assert((int)cudaArrayLayered == VGC_ARRAY_LAYERED && (int)cudaArraySurfaceLoadStore == VGC_ARRAY_SURFACE &&
                   (int)cudaArrayCubemap == VGC_ARRAY_CUBEMAP && (int)cudaArrayTextureGather == VGC_ARRAY_GATHER,
               "flags of arrays");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cudaArray *arrays;
static struct cudaMipmappedArray *mipmaps;

/* ---- formats -------------------------------------------------------------------------------- */

cudaError_t rt_format_of(const struct cudaChannelFormatDesc *given, struct rt_format *format)
{
    const int bits[4] = {given->x, given->y, given->z, given->w};
    uint32_t channels = 0;
    while (channels < 4 && bits[channels] != 0)
        channels++;
    bool is_valid = (channels == 1 || channels == 2 || channels == 4) && (unsigned)given->f <= 2 &&
                    (bits[0] == 8 || bits[0] == 16 || bits[0] == 32) &&
                    !(given->f == cudaChannelFormatKindFloat && bits[0] == 8);
    for (uint32_t i = 0; i < 4; i++)
        is_valid = is_valid && bits[i] == (i < channels ? bits[0] : 0);
    if (!is_valid)
        return rt_explain(cudaErrorInvalidChannelDescriptor,
                          "channels of %d, %d, %d, %d bits, kind %d; allowed: 1, 2 or 4 of 8, 16 or 32 bits", given->x,
                          given->y, given->z, given->w, (int)given->f);
    *format = (struct rt_format){(uint32_t)given->f, (uint32_t)bits[0], channels};
    return cudaSuccess;
}

static struct cudaChannelFormatDesc description_of(const struct vgc_array_shape *shape)
{
    int bits = (int)shape->bits;
    return (struct cudaChannelFormatDesc){bits, shape->channels > 1 ? bits : 0, shape->channels > 2 ? bits : 0,
                                          shape->channels > 2 ? bits : 0, (enum cudaChannelFormatKind)shape->kind};
}

uint32_t rt_texel_bytes(const struct rt_texels *texels)
{
    return texels->shape.bits / 8 * texels->shape.channels;
}

/* ---- texels --------------------------------------------------------------------------------- */

struct rt_texels *rt_keep_texels(struct rt_texels *texels)
{
    (void)atomic_fetch_add(&texels->users, 1);
    return texels;
}

cudaError_t rt_drop_texels(struct rt_texels *texels)
{
    if (texels == NULL || atomic_fetch_sub(&texels->users, 1) > 1)
        return cudaSuccess;
    cudaError_t error = rt_fault(texels->device, rt_error(vgc_array_destroy(texels->array)));
    free(texels);
    return error;
}

static cudaError_t check_flags(unsigned flags)
{
    if ((flags & cudaArraySparse) != 0)
        return rt_unsupported("cudaArraySparse");
    if ((flags & cudaArrayDeferredMapping) != 0)
        return rt_unsupported("cudaArrayDeferredMapping");
    if ((flags & cudaArrayColorAttachment) != 0)
        return rt_unsupported("cudaArrayColorAttachment");
    if ((flags & ~(unsigned)KNOWN_FLAGS) != 0)
        return rt_explain(cudaErrorInvalidValue, "flags 0x%x of an array; allowed: those up to 0x%x", flags,
                          KNOWN_FLAGS);
    return cudaSuccess;
}

static cudaError_t make_shape(const struct cudaChannelFormatDesc *description, struct cudaExtent extent,
                              unsigned levels, unsigned flags, struct vgc_array_shape *shape)
{
    struct rt_format format;
    cudaError_t error = check_flags(flags);
    if (error == cudaSuccess)
        error = rt_format_of(description, &format);
    if (error != cudaSuccess)
        return error;
    if (extent.width > INT32_MAX || extent.height > INT32_MAX || extent.depth > INT32_MAX)
        return rt_explain(cudaErrorInvalidValue, "an array of %zu x %zu x %zu texels", extent.width, extent.height,
                          extent.depth);
    *shape = (struct vgc_array_shape){.width = (uint32_t)extent.width,
                                      .height = (uint32_t)extent.height,
                                      .depth = (uint32_t)extent.depth,
                                      .levels = levels,
                                      .kind = format.kind,
                                      .bits = format.bits,
                                      .channels = format.channels,
                                      .flags = flags};
    return cudaSuccess;
}

static cudaError_t make_texels(const struct vgc_array_shape *shape, struct rt_texels **out)
{
    struct rt_device *device;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess)
        error = rt_check_unsafe();
    if (error != cudaSuccess)
        return error;
    struct rt_texels *texels = calloc(1, sizeof(*texels));
    if (texels == NULL)
        return cudaErrorMemoryAllocation;
    error = rt_error(vgc_array_create(atomic_load(&device->device), shape, &texels->array));
    if (error != cudaSuccess) {
        free(texels);
        error = error == cudaErrorLaunchOutOfResources ? cudaErrorMemoryAllocation : rt_fault(device, error);
        rt_tell_no_fallback(error, "arrays");
        return error;
    }
    atomic_init(&texels->users, 1);
    texels->device = device;
    texels->epoch = device->epoch;
    texels->shape = *shape;
    atomic_store(&device->only_there, "an array");
    *out = texels;
    return cudaSuccess;
}

/* ---- handles -------------------------------------------------------------------------------- */

static cudaError_t check_texels(const struct rt_texels *texels)
{
    if (texels->epoch != texels->device->epoch)
        return rt_explain(cudaErrorInvalidResourceHandle, "the array is from before cudaDeviceReset()");
    return rt_sticky(texels->device);
}

cudaError_t rt_check_array(cudaArray_const_t array)
{
    bool found = false;
    (void)pthread_mutex_lock(&lock);
    for (const struct cudaArray *at = arrays; at != NULL && !found; at = at->next)
        found = at == array;
    for (const struct cudaMipmappedArray *at = mipmaps; at != NULL && !found; at = at->next)
        found = array >= at->levels && array < at->levels + at->texels->shape.levels;
    (void)pthread_mutex_unlock(&lock);
    if (!found)
        return rt_explain(cudaErrorInvalidResourceHandle, "%p is not an array", (const void *)array);
    return check_texels(array->texels);
}

cudaError_t rt_check_mipmap(cudaMipmappedArray_const_t mipmap)
{
    bool found = false;
    (void)pthread_mutex_lock(&lock);
    for (const struct cudaMipmappedArray *at = mipmaps; at != NULL && !found; at = at->next)
        found = at == mipmap;
    (void)pthread_mutex_unlock(&lock);
    if (!found)
        return rt_explain(cudaErrorInvalidResourceHandle, "%p is not a mipmapped array", (const void *)mipmap);
    return check_texels(mipmap->texels);
}

static cudaError_t create_array(cudaArray_t *out, const struct cudaChannelFormatDesc *format, struct cudaExtent extent,
                                unsigned flags)
{
    struct vgc_array_shape shape;
    struct rt_texels *texels;
    if (out == NULL || format == NULL)
        return cudaErrorInvalidValue;
    cudaError_t error = make_shape(format, extent, 1, flags, &shape);
    if (error == cudaSuccess)
        error = make_texels(&shape, &texels);
    if (error != cudaSuccess)
        return error;
    struct cudaArray *array = calloc(1, sizeof(*array));
    if (array == NULL) {
        (void)rt_drop_texels(texels);
        return cudaErrorMemoryAllocation;
    }
    (void)pthread_mutex_lock(&lock);
    *array = (struct cudaArray){.next = arrays, .texels = texels, .extent = extent};
    arrays = array;
    (void)pthread_mutex_unlock(&lock);
    *out = array;
    return cudaSuccess;
}

/* ---- the API: arrays ------------------------------------------------------------------------ */

RT_API cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *format, size_t width,
                                   size_t height, unsigned int flags)
{
    if ((flags & (cudaArrayLayered | cudaArrayCubemap)) != 0)
        return rt_return(rt_explain(cudaErrorInvalidValue, "layers and cubes are made by cudaMalloc3DArray()"));
    return rt_return(create_array(array, format, (struct cudaExtent){width, height, 0}, flags));
}

RT_API cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *format,
                                     struct cudaExtent extent, unsigned int flags)
{
    return rt_return(create_array(array, format, extent, flags));
}

static bool unlink_array(cudaArray_t array)
{
    bool found = false;
    (void)pthread_mutex_lock(&lock);
    for (struct cudaArray **at = &arrays; *at != NULL && !found; at = &(*at)->next) {
        found = *at == array;
        if (found) {
            *at = array->next;
            break;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return found;
}

RT_API cudaError_t cudaFreeArray(cudaArray_t array)
{
    struct rt_device *device;
    cudaError_t error = rt_current(&device);
    if (error != cudaSuccess || array == NULL)
        return rt_return(error);
    if (!unlink_array(array))
        return rt_return(
            rt_explain(cudaErrorInvalidValue, "cudaFreeArray(%p): no array, or a level of a mipmap", (void *)array));
    error = rt_drop_texels(array->texels);
    free(array);
    return rt_return(error);
}

RT_API cudaError_t cudaGetChannelDesc(struct cudaChannelFormatDesc *format, cudaArray_const_t array)
{
    cudaError_t error = format != NULL ? rt_check_array(array) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *format = description_of(&array->texels->shape);
    return rt_return(error);
}

RT_API struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind kind)
{
    return (struct cudaChannelFormatDesc){x, y, z, w, kind};
}

RT_API cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *format, struct cudaExtent *extent,
                                    unsigned int *flags, cudaArray_t array)
{
    cudaError_t error = rt_check_array(array);
    if (error != cudaSuccess)
        return rt_return(error);
    if (format != NULL)
        *format = description_of(&array->texels->shape);
    if (extent != NULL)
        *extent = array->extent;
    if (flags != NULL)
        *flags = array->texels->shape.flags;
    return rt_return(cudaSuccess);
}

/* ---- the API: mipmaps ----------------------------------------------------------------------- */

static size_t halved(size_t extent, uint32_t times)
{
    return extent == 0 ? 0 : RT_MAX(extent >> times, (size_t)1);
}

static unsigned most_levels(struct cudaExtent extent, unsigned flags)
{
    bool is_flat = (flags & (cudaArrayLayered | cudaArrayCubemap)) != 0;
    size_t longest = extent.width | extent.height | (is_flat ? 0 : extent.depth);
    unsigned levels = 1;
    while ((longest >>= 1) != 0)
        levels++;
    return levels;
}

static struct cudaMipmappedArray *new_mipmap(struct rt_texels *texels, struct cudaExtent extent)
{
    struct cudaMipmappedArray *mipmap = calloc(1, sizeof(*mipmap));
    struct cudaArray *levels = calloc(texels->shape.levels, sizeof(*levels));
    bool is_flat = (texels->shape.flags & (cudaArrayLayered | cudaArrayCubemap)) != 0;
    if (mipmap == NULL || levels == NULL) {
        free(mipmap);
        free(levels);
        return NULL;
    }
    for (uint32_t i = 0; i < texels->shape.levels; i++) {
        struct cudaExtent smaller = {halved(extent.width, i), halved(extent.height, i),
                                     is_flat ? extent.depth : halved(extent.depth, i)};
        levels[i] = (struct cudaArray){.texels = texels, .mipmap = mipmap, .level = i, .extent = smaller};
    }
    mipmap->texels = texels;
    mipmap->levels = levels;
    return mipmap;
}

RT_API cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *out, const struct cudaChannelFormatDesc *format,
                                            struct cudaExtent extent, unsigned int levels, unsigned int flags)
{
    struct vgc_array_shape shape;
    struct rt_texels *texels;
    if (out == NULL || format == NULL)
        return rt_return(cudaErrorInvalidValue);
    levels = RT_MAX(RT_MIN(levels, most_levels(extent, flags)), 1u);
    cudaError_t error = make_shape(format, extent, levels, flags, &shape);
    if (error == cudaSuccess)
        error = make_texels(&shape, &texels);
    if (error != cudaSuccess)
        return rt_return(error);
    struct cudaMipmappedArray *mipmap = new_mipmap(texels, extent);
    if (mipmap == NULL) {
        (void)rt_drop_texels(texels);
        return rt_return(cudaErrorMemoryAllocation);
    }
    (void)pthread_mutex_lock(&lock);
    mipmap->next = mipmaps;
    mipmaps = mipmap;
    (void)pthread_mutex_unlock(&lock);
    *out = mipmap;
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t *array, cudaMipmappedArray_const_t mipmap, unsigned int level)
{
    cudaError_t error = array != NULL ? rt_check_mipmap(mipmap) : cudaErrorInvalidValue;
    if (error == cudaSuccess && level >= mipmap->texels->shape.levels)
        error = rt_explain(cudaErrorInvalidValue, "level %u; the mipmap has %u", level, mipmap->texels->shape.levels);
    if (error == cudaSuccess)
        *array = &mipmap->levels[level];
    return rt_return(error);
}

static bool unlink_mipmap(cudaMipmappedArray_t mipmap)
{
    bool found = false;
    (void)pthread_mutex_lock(&lock);
    for (struct cudaMipmappedArray **at = &mipmaps; *at != NULL && !found; at = &(*at)->next) {
        found = *at == mipmap;
        if (found) {
            *at = mipmap->next;
            break;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return found;
}

RT_API cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t mipmap)
{
    struct rt_device *device;
    cudaError_t error = rt_current(&device);
    if (error != cudaSuccess || mipmap == NULL)
        return rt_return(error);
    if (!unlink_mipmap(mipmap))
        return rt_return(
            rt_explain(cudaErrorInvalidValue, "cudaFreeMipmappedArray(%p): no mipmapped array", (void *)mipmap));
    error = rt_drop_texels(mipmap->texels);
    free(mipmap->levels);
    free(mipmap);
    return rt_return(error);
}
