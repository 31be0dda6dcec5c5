/* Texture and surface objects. They keep the texels of their array, as programs may free the array first. */
#include <stdlib.h>

#include "runtime.h"

enum { MAX_LINEAR_TEXELS = 1 << 27, MAX_ANISOTROPY = 16 };

struct object {
    struct object *next;
    uint64_t number; /* what the program has */
    struct rt_device *device;
    uint32_t epoch;
    bool is_surface;
    struct rt_texels *texels; /* NULL: of memory */
    struct cudaResourceDesc resource;
    struct cudaTextureDesc sampling;
    struct cudaResourceViewDesc view;
    bool has_view;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *objects;

/* ---- what a texture is made of -------------------------------------------------------------- */

static cudaError_t form_of_memory(const void *memory, const struct cudaChannelFormatDesc *description,
                                  struct vgc_texture_form *form)
{
    struct rt_format format;
    cudaError_t error = rt_format_of(description, &format);
    if (error != cudaSuccess)
        return error;
    if (rt_is_spare(memory)) {
        rt_tell_no_fallback(cudaErrorMemoryAllocation, "a texture of memory beyond the VM's allotment");
        return rt_explain(cudaErrorMemoryAllocation, "memory at %p is beyond the VM's allotment", memory);
    }
    if (memory == NULL || !rt_is_device_pointer(memory, true))
        return rt_explain(cudaErrorInvalidValue, "a texture of memory at %p, which is not the device's", memory);
    form->address = (uint64_t)(uintptr_t)memory;
    form->kind = format.kind;
    form->bits = format.bits;
    form->channels = format.channels;
    return cudaSuccess;
}

static cudaError_t form_of_linear(const struct cudaResourceDesc *resource, struct vgc_texture_form *form)
{
    cudaError_t error = form_of_memory(resource->res.linear.devPtr, &resource->res.linear.desc, form);
    if (error != cudaSuccess)
        return error;
    /* CUDA takes more than was allocated, and programs give it: what is not there reads as what is beyond a texture. */
    size_t bytes = resource->res.linear.sizeInBytes;
    struct rt_range range;
    if (rt_find_range(resource->res.linear.devPtr, &range))
        bytes = RT_MIN(bytes, range.size - (form->address - range.begin));
    size_t texels = bytes / (form->bits / 8 * form->channels);
    if (texels == 0 || texels > MAX_LINEAR_TEXELS)
        return rt_explain(cudaErrorInvalidValue, "a texture of %zu texels of linear memory; allowed: 1 to %d", texels,
                          MAX_LINEAR_TEXELS);
    form->width = (uint32_t)texels;
    form->height = 1;
    return cudaSuccess;
}

static cudaError_t form_of_rows(const struct cudaResourceDesc *resource, struct vgc_texture_form *form)
{
    cudaError_t error = form_of_memory(resource->res.pitch2D.devPtr, &resource->res.pitch2D.desc, form);
    if (error != cudaSuccess)
        return error;
    size_t width = resource->res.pitch2D.width;
    size_t height = resource->res.pitch2D.height;
    if (width > INT32_MAX || height > INT32_MAX || resource->res.pitch2D.pitchInBytes == 0)
        return rt_explain(cudaErrorInvalidValue, "a texture of %zu x %zu texels at a pitch of %zu", width, height,
                          resource->res.pitch2D.pitchInBytes);
    form->pitch = resource->res.pitch2D.pitchInBytes;
    form->width = (uint32_t)width;
    form->height = (uint32_t)height;
    return cudaSuccess;
}

static cudaError_t form_of_resource(const struct cudaResourceDesc *resource, struct vgc_texture_form *form,
                                    struct rt_texels **texels)
{
    cudaError_t error;
    switch (resource->resType) {
    case cudaResourceTypeArray:
        error = rt_check_array(resource->res.array.array);
        if (error != cudaSuccess)
            return error;
        *texels = resource->res.array.array->texels;
        form->first_level = resource->res.array.array->level;
        form->num_levels = 1;
        break;
    case cudaResourceTypeMipmappedArray:
        error = rt_check_mipmap(resource->res.mipmap.mipmap);
        if (error != cudaSuccess)
            return error;
        *texels = resource->res.mipmap.mipmap->texels;
        break;
    case cudaResourceTypeLinear:
        return form_of_linear(resource, form);
    case cudaResourceTypePitch2D:
        return form_of_rows(resource, form);
    default:
        return rt_explain(cudaErrorInvalidValue, "a resource of type %d", (int)resource->resType);
    }
    form->array = (*texels)->array;
    return cudaSuccess;
}

/* ---- how it is read ------------------------------------------------------------------------- */

static void read_sampling(const struct cudaTextureDesc *sampling, bool is_linear, struct vgc_texture_form *form)
{
    form->flags = (sampling->readMode == cudaReadModeNormalizedFloat ? VGC_TEXTURE_AS_FLOAT : 0u) |
                  (sampling->sRGB != 0 ? VGC_TEXTURE_SRGB : 0u);
    if (!is_linear) /* is fetched by index */
        form->flags |= (sampling->normalizedCoords != 0 ? VGC_TEXTURE_NORMALISED : 0u) |
                       (sampling->filterMode == cudaFilterModeLinear ? VGC_TEXTURE_LINEAR : 0u) |
                       (sampling->mipmapFilterMode == cudaFilterModeLinear ? VGC_TEXTURE_LINEAR_LEVELS : 0u);
    for (int i = 0; i < 3; i++)
        form->edges[i] = (uint32_t)sampling->addressMode[i];
    for (int i = 0; i < 4; i++)
        form->border[i] = sampling->borderColor[i];
    form->max_anisotropy = RT_MIN(sampling->maxAnisotropy, (unsigned)MAX_ANISOTROPY);
    form->bias = sampling->mipmapLevelBias;
    form->min_level = sampling->minMipmapLevelClamp;
    form->max_level = sampling->maxMipmapLevelClamp;
}

static cudaError_t read_view(const struct cudaResourceViewDesc *view, struct vgc_texture_form *form)
{
    static const struct rt_format KINDS[] = {
        {VGC_CHANNEL_UNSIGNED, 8, 0}, {VGC_CHANNEL_SIGNED, 8, 0},    {VGC_CHANNEL_UNSIGNED, 16, 0},
        {VGC_CHANNEL_SIGNED, 16, 0},  {VGC_CHANNEL_UNSIGNED, 32, 0}, {VGC_CHANNEL_SIGNED, 32, 0},
        {VGC_CHANNEL_FLOAT, 16, 0},   {VGC_CHANNEL_FLOAT, 32, 0},
    };
    if (form->array == NULL)
        return rt_explain(cudaErrorInvalidValue, "a view of memory; allowed: of an array");
    if ((unsigned)view->format > cudaResViewFormatFloat4)
        return rt_explain(cudaErrorNotSupported, "a view of format %d; allowed: 0 to 24", (int)view->format);
    if (view->lastMipmapLevel < view->firstMipmapLevel || view->lastLayer < view->firstLayer)
        return rt_explain(cudaErrorInvalidValue, "a view of levels %u to %u, layers %u to %u", view->firstMipmapLevel,
                          view->lastMipmapLevel, view->firstLayer, view->lastLayer);
    if (view->format != cudaResViewFormatNone) {
        unsigned number = (unsigned)view->format - 1;
        form->kind = KINDS[number / 3].kind;
        form->bits = KINDS[number / 3].bits;
        form->channels = 1u << number % 3;
    }
    form->first_level += view->firstMipmapLevel;
    form->num_levels = view->lastMipmapLevel - view->firstMipmapLevel + 1;
    form->first_layer = view->firstLayer;
    form->num_layers = view->lastLayer - view->firstLayer + 1;
    return cudaSuccess;
}

cudaError_t rt_texture_form(const struct cudaResourceDesc *resource, const struct cudaTextureDesc *sampling,
                            const struct cudaResourceViewDesc *view, struct vgc_texture_form *form,
                            struct rt_texels **texels)
{
    *form = (struct vgc_texture_form){.num_levels = 0};
    *texels = NULL;
    for (int i = 0; i < 3; i++)
        if ((unsigned)sampling->addressMode[i] > cudaAddressModeBorder)
            return rt_explain(cudaErrorInvalidValue, "address mode %d; allowed: 0 to 3", (int)sampling->addressMode[i]);
    if ((unsigned)sampling->filterMode > cudaFilterModeLinear ||
        (unsigned)sampling->mipmapFilterMode > cudaFilterModeLinear)
        return rt_explain(cudaErrorInvalidFilterSetting, "filter modes %d and %d; allowed: 0 and 1",
                          (int)sampling->filterMode, (int)sampling->mipmapFilterMode);
    cudaError_t error = form_of_resource(resource, form, texels);
    if (error == cudaSuccess)
        read_sampling(sampling, resource->resType == cudaResourceTypeLinear, form);
    return error == cudaSuccess && view != NULL ? read_view(view, form) : error;
}

/* ---- objects -------------------------------------------------------------------------------- */

static cudaError_t add_object(struct rt_device *device, const struct object *made, unsigned long long *number)
{
    struct object *object = malloc(sizeof(*object));
    if (object == NULL) {
        (void)vgc_object_destroy(atomic_load(&device->device), made->number);
        return cudaErrorMemoryAllocation;
    }
    *object = *made;
    object->device = device;
    object->epoch = device->epoch;
    atomic_store(&device->only_there, "a texture or surface");
    if (object->texels != NULL)
        (void)rt_keep_texels(object->texels);
    (void)pthread_mutex_lock(&lock);
    object->next = objects;
    objects = object;
    (void)pthread_mutex_unlock(&lock);
    *number = object->number;
    return cudaSuccess;
}

/* With the lock. Two devices may give the same number: that of the current one is meant. */
static struct object **find_object(uint64_t number, bool is_surface)
{
    struct object **found = NULL;
    for (struct object **at = &objects; *at != NULL; at = &(*at)->next) {
        if ((*at)->number != number || (*at)->is_surface != is_surface || (*at)->epoch != (*at)->device->epoch)
            continue;
        if (found == NULL || (*at)->device->ordinal == rt_ordinal())
            found = at;
    }
    return found;
}

static cudaError_t refuse(uint64_t number, bool is_surface)
{
    return rt_explain(cudaErrorInvalidValue, "0x%llx is no %s object", (unsigned long long)number,
                      is_surface ? "surface" : "texture");
}

static cudaError_t destroy_object(uint64_t number, bool is_surface)
{
    if (number == 0)
        return cudaSuccess;
    (void)pthread_mutex_lock(&lock);
    struct object **at = find_object(number, is_surface);
    struct object *object = at != NULL ? *at : NULL;
    if (object != NULL)
        *at = object->next;
    (void)pthread_mutex_unlock(&lock);
    if (object == NULL)
        return refuse(number, is_surface);
    cudaError_t error =
        rt_fault(object->device, rt_error(vgc_object_destroy(atomic_load(&object->device->device), number)));
    cudaError_t dropped = rt_drop_texels(object->texels);
    free(object);
    return error != cudaSuccess ? error : dropped;
}

static cudaError_t copy_of_object(uint64_t number, bool is_surface, struct object *copy)
{
    (void)pthread_mutex_lock(&lock);
    struct object **at = find_object(number, is_surface);
    if (at != NULL)
        *copy = **at;
    (void)pthread_mutex_unlock(&lock);
    return at != NULL ? cudaSuccess : refuse(number, is_surface);
}

/* ---- the API: textures ---------------------------------------------------------------------- */

RT_API cudaError_t cudaCreateTextureObject(cudaTextureObject_t *texture, const struct cudaResourceDesc *resource,
                                           const struct cudaTextureDesc *sampling,
                                           const struct cudaResourceViewDesc *view)
{
    static const struct cudaTextureDesc PLAIN = {.addressMode = {cudaAddressModeWrap}};
    struct rt_device *device;
    struct vgc_texture_form form;
    struct object made = {.has_view = view != NULL};
    if (texture == NULL || resource == NULL)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = rt_current(&device);
    if (error != cudaSuccess)
        return rt_return(error);
    made.resource = *resource;
    made.sampling = sampling != NULL ? *sampling : PLAIN;
    if (view != NULL)
        made.view = *view;
    error = rt_texture_form(resource, &made.sampling, view, &form, &made.texels);
    if (error == cudaSuccess && made.texels != NULL && made.texels->device != device)
        error = rt_explain(cudaErrorInvalidValue, "a texture on device %d of an array on device %d", device->ordinal,
                           made.texels->device->ordinal);
    if (error == cudaSuccess)
        error = rt_fault(device, rt_error(vgc_texture_create(atomic_load(&device->device), &form, &made.number)));
    return rt_return(error == cudaSuccess ? add_object(device, &made, texture) : error);
}

RT_API cudaError_t cudaDestroyTextureObject(cudaTextureObject_t texture)
{
    return rt_return(destroy_object(texture, false));
}

RT_API cudaError_t cudaGetTextureObjectResourceDesc(struct cudaResourceDesc *resource, cudaTextureObject_t texture)
{
    struct object object;
    cudaError_t error = resource != NULL ? copy_of_object(texture, false, &object) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *resource = object.resource;
    return rt_return(error);
}

RT_API cudaError_t cudaGetTextureObjectTextureDesc(struct cudaTextureDesc *sampling, cudaTextureObject_t texture)
{
    struct object object;
    cudaError_t error = sampling != NULL ? copy_of_object(texture, false, &object) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *sampling = object.sampling;
    return rt_return(error);
}

RT_API cudaError_t cudaGetTextureObjectResourceViewDesc(struct cudaResourceViewDesc *view, cudaTextureObject_t texture)
{
    struct object object;
    cudaError_t error = view != NULL ? copy_of_object(texture, false, &object) : cudaErrorInvalidValue;
    if (error == cudaSuccess && !object.has_view)
        error = rt_explain(cudaErrorInvalidValue, "0x%llx was created without a view", texture);
    if (error == cudaSuccess)
        *view = object.view;
    return rt_return(error);
}

/* ---- the API: surfaces ---------------------------------------------------------------------- */

RT_API cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *surface, const struct cudaResourceDesc *resource)
{
    struct rt_device *device;
    struct object made = {.is_surface = true};
    if (surface == NULL || resource == NULL)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess && resource->resType != cudaResourceTypeArray)
        error = rt_explain(cudaErrorInvalidValue, "a surface of a resource of type %d; allowed: an array",
                           (int)resource->resType);
    if (error == cudaSuccess)
        error = rt_check_array(resource->res.array.array);
    if (error != cudaSuccess)
        return rt_return(error);
    cudaArray_t array = resource->res.array.array;
    if (array->texels->device != device)
        return rt_return(rt_explain(cudaErrorInvalidValue, "a surface on device %d of an array on device %d",
                                    device->ordinal, array->texels->device->ordinal));
    made.resource = *resource;
    made.texels = array->texels;
    error = rt_fault(device, rt_error(vgc_surface_create(array->texels->array, array->level, &made.number)));
    return rt_return(error == cudaSuccess ? add_object(device, &made, surface) : error);
}

RT_API cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t surface)
{
    return rt_return(destroy_object(surface, true));
}

RT_API cudaError_t cudaGetSurfaceObjectResourceDesc(struct cudaResourceDesc *resource, cudaSurfaceObject_t surface)
{
    struct object object;
    cudaError_t error = resource != NULL ? copy_of_object(surface, true, &object) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *resource = object.resource;
    return rt_return(error);
}
