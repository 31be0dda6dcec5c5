/* Texture and surface references, until CUDA 11: variables of a program that are bound to an object. The host half's
 * variable says how the texture is read. */
#include <stdlib.h>

#include "runtime.h"

/* Object that a reference is bound to, on one device. */
struct binding {
    struct binding *next;
    const void *reference;
    struct rt_device *device;
    uint32_t epoch;
    uint64_t object; /* 0: none */
    struct rt_texels *texels;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct binding *bindings;

/* With the lock; NULL: out of memory. */
static struct binding *binding_of(const void *reference, struct rt_device *device)
{
    struct binding *at = bindings;
    while (at != NULL && !(at->reference == reference && at->device == device))
        at = at->next;
    if (at == NULL) {
        at = calloc(1, sizeof(*at));
        if (at == NULL)
            return NULL;
        *at = (struct binding){.next = bindings, .reference = reference, .device = device, .epoch = device->epoch};
        bindings = at;
    }
    if (at->epoch != device->epoch) { /* it went with cudaDeviceReset() */
        (void)rt_drop_texels(at->texels);
        at->texels = NULL;
        at->object = 0;
        at->epoch = device->epoch;
    }
    return at;
}

struct binding_request {
    uint64_t address; /* of the program's variable */
    uint64_t object;
};

static cudaError_t write_object(struct rt_device *device, const void *data, uint32_t number)
{
    const struct binding_request *request = data;
    return rt_fault(device, rt_error(vgc_copy_in(atomic_load(&device->device), request->address, &request->object,
                                                 sizeof(request->object), number, VGC_DETACHED)));
}

/* Writes the object into the program's variable, behind the work of the default stream, and then gives up what was
 * bound before. Takes over `object`. */
static cudaError_t bind(struct rt_device *device, struct rt_variable *variable, uint64_t object,
                        struct rt_texels *texels)
{
    struct binding_request request = {.object = object};
    const struct rt_operation operation = {.kind = RT_CALL, .call = {write_object, &request, sizeof(request)}};
    cudaError_t error = rt_load_variable(device, variable, &request.address);
    if (error == cudaSuccess)
        error = rt_submit(device, NULL, &operation);
    (void)pthread_mutex_lock(&lock);
    struct binding *binding = error == cudaSuccess ? binding_of(variable->host, device) : NULL;
    uint64_t old = binding != NULL ? binding->object : object;
    struct rt_texels *old_texels = binding != NULL ? binding->texels : NULL;
    if (binding != NULL) {
        binding->object = object;
        binding->texels = texels != NULL ? rt_keep_texels(texels) : NULL;
    }
    (void)pthread_mutex_unlock(&lock);
    if (error == cudaSuccess && binding == NULL)
        error = cudaErrorMemoryAllocation;
    (void)vgc_object_destroy(atomic_load(&device->device), old);
    (void)rt_drop_texels(old_texels);
    return error;
}

static cudaError_t find(const void *reference, bool is_surface, struct rt_device **device,
                        struct rt_variable **variable)
{
    cudaError_t error = rt_current(device);
    *variable = rt_variable(reference);
    if (error == cudaSuccess &&
        (*variable == NULL || !(is_surface ? (*variable)->is_surface : (*variable)->is_texture)))
        error = rt_explain(is_surface ? cudaErrorInvalidSurface : cudaErrorInvalidTexture,
                           "%p is no %s reference of this program", reference, is_surface ? "surface" : "texture");
    return error;
}

static struct cudaTextureDesc sampling_of(const struct textureReference *reference, const struct rt_variable *variable)
{
    return (struct cudaTextureDesc){
        .addressMode = {reference->addressMode[0], reference->addressMode[1], reference->addressMode[2]},
        .filterMode = reference->filterMode,
        .readMode = variable->reads_normalised ? cudaReadModeNormalizedFloat : cudaReadModeElementType,
        .sRGB = reference->sRGB,
        .normalizedCoords = reference->normalized,
        .maxAnisotropy = reference->maxAnisotropy,
        .mipmapFilterMode = reference->mipmapFilterMode,
        .mipmapLevelBias = reference->mipmapLevelBias,
        .minMipmapLevelClamp = reference->minMipmapLevelClamp,
        .maxMipmapLevelClamp = reference->maxMipmapLevelClamp};
}

/* Binds a resource, whose channels `format` names anew if it is not NULL. */
static cudaError_t bind_texture(const struct textureReference *reference, const struct cudaResourceDesc *resource,
                                const struct cudaChannelFormatDesc *format)
{
    struct rt_device *device;
    struct rt_variable *variable;
    struct vgc_texture_form form;
    struct rt_texels *texels;
    struct rt_format channels;
    uint64_t object;
    cudaError_t error = find(reference, false, &device, &variable);
    if (error != cudaSuccess)
        return error;
    struct cudaTextureDesc sampling = sampling_of(reference, variable);
    error = rt_texture_form(resource, &sampling, NULL, &form, &texels);
    if (error == cudaSuccess && texels != NULL && texels->device != device)
        error = rt_explain(cudaErrorInvalidValue, "an array on device %d is bound on device %d",
                           texels->device->ordinal, device->ordinal);
    if (error == cudaSuccess && format != NULL) {
        error = rt_format_of(format, &channels);
        form.kind = channels.kind;
        form.bits = channels.bits;
        form.channels = channels.channels;
    }
    if (error == cudaSuccess)
        error = rt_fault(device, rt_error(vgc_texture_create(atomic_load(&device->device), &form, &object)));
    return error == cudaSuccess ? bind(device, variable, object, texels) : error;
}

/* ---- the API -------------------------------------------------------------------------------- */

cudaError_t cudaBindTexture(size_t *offset, const struct textureReference *reference, const void *memory,
                            const struct cudaChannelFormatDesc *format, size_t bytes);
cudaError_t cudaBindTexture2D(size_t *offset, const struct textureReference *reference, const void *memory,
                              const struct cudaChannelFormatDesc *format, size_t width, size_t height, size_t pitch);
cudaError_t cudaBindTextureToArray(const struct textureReference *reference, cudaArray_const_t array,
                                   const struct cudaChannelFormatDesc *format);
cudaError_t cudaBindTextureToMipmappedArray(const struct textureReference *reference, cudaMipmappedArray_const_t array,
                                            const struct cudaChannelFormatDesc *format);
cudaError_t cudaUnbindTexture(const struct textureReference *reference);
cudaError_t cudaGetTextureAlignmentOffset(size_t *offset, const struct textureReference *reference);
cudaError_t cudaGetTextureReference(const struct textureReference **reference, const void *symbol);
cudaError_t cudaBindSurfaceToArray(const struct surfaceReference *reference, cudaArray_const_t array,
                                   const struct cudaChannelFormatDesc *format);
cudaError_t cudaGetSurfaceReference(const struct surfaceReference **reference, const void *symbol);

/* Textures begin at any texel, so that the offset is always 0. */
RT_API cudaError_t cudaBindTexture(size_t *offset, const struct textureReference *reference, const void *memory,
                                   const struct cudaChannelFormatDesc *format, size_t bytes)
{
    if (reference == NULL || format == NULL)
        return rt_return(cudaErrorInvalidValue);
    struct cudaResourceDesc resource = {.resType = cudaResourceTypeLinear};
    resource.res.linear.devPtr = (void *)(uintptr_t)memory;
    resource.res.linear.desc = *format;
    resource.res.linear.sizeInBytes = bytes;
    if (offset != NULL)
        *offset = 0;
    return rt_return(bind_texture(reference, &resource, NULL));
}

RT_API cudaError_t cudaBindTexture2D(size_t *offset, const struct textureReference *reference, const void *memory,
                                     const struct cudaChannelFormatDesc *format, size_t width, size_t height,
                                     size_t pitch)
{
    if (reference == NULL || format == NULL)
        return rt_return(cudaErrorInvalidValue);
    struct cudaResourceDesc resource = {.resType = cudaResourceTypePitch2D};
    resource.res.pitch2D.devPtr = (void *)(uintptr_t)memory;
    resource.res.pitch2D.desc = *format;
    resource.res.pitch2D.width = width;
    resource.res.pitch2D.height = height;
    resource.res.pitch2D.pitchInBytes = pitch;
    if (offset != NULL)
        *offset = 0;
    return rt_return(bind_texture(reference, &resource, NULL));
}

RT_API cudaError_t cudaBindTextureToArray(const struct textureReference *reference, cudaArray_const_t array,
                                          const struct cudaChannelFormatDesc *format)
{
    if (reference == NULL || format == NULL)
        return rt_return(cudaErrorInvalidValue);
    struct cudaResourceDesc resource = {.resType = cudaResourceTypeArray};
    resource.res.array.array = (cudaArray_t)(uintptr_t)array;
    return rt_return(bind_texture(reference, &resource, format));
}

RT_API cudaError_t cudaBindTextureToMipmappedArray(const struct textureReference *reference,
                                                   cudaMipmappedArray_const_t array,
                                                   const struct cudaChannelFormatDesc *format)
{
    if (reference == NULL || format == NULL)
        return rt_return(cudaErrorInvalidValue);
    struct cudaResourceDesc resource = {.resType = cudaResourceTypeMipmappedArray};
    resource.res.mipmap.mipmap = (cudaMipmappedArray_t)(uintptr_t)array;
    return rt_return(bind_texture(reference, &resource, format));
}

RT_API cudaError_t cudaUnbindTexture(const struct textureReference *reference)
{
    struct rt_device *device;
    struct rt_variable *variable;
    cudaError_t error = find(reference, false, &device, &variable);
    return rt_return(error == cudaSuccess ? bind(device, variable, 0, NULL) : error);
}

RT_API cudaError_t cudaGetTextureAlignmentOffset(size_t *offset, const struct textureReference *reference)
{
    struct rt_device *device;
    struct rt_variable *variable;
    if (offset == NULL)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = find(reference, false, &device, &variable);
    if (error != cudaSuccess)
        return rt_return(error);
    (void)pthread_mutex_lock(&lock);
    const struct binding *binding = binding_of(reference, device);
    bool is_bound = binding != NULL && binding->object != 0;
    (void)pthread_mutex_unlock(&lock);
    *offset = 0;
    return rt_return(is_bound ? cudaSuccess
                              : rt_explain(cudaErrorInvalidTextureBinding, "the texture reference is not bound"));
}

RT_API cudaError_t cudaGetTextureReference(const struct textureReference **reference, const void *symbol)
{
    struct rt_device *device;
    struct rt_variable *variable;
    cudaError_t error = reference != NULL ? find(symbol, false, &device, &variable) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *reference = symbol;
    return rt_return(error);
}

RT_API cudaError_t cudaBindSurfaceToArray(const struct surfaceReference *reference, cudaArray_const_t array,
                                          const struct cudaChannelFormatDesc *format)
{
    struct rt_device *device;
    struct rt_variable *variable;
    uint64_t object;
    struct rt_format channels;
    cudaError_t error = format != NULL ? find(reference, true, &device, &variable) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = rt_format_of(format, &channels);
    if (error == cudaSuccess)
        error = rt_check_array(array);
    if (error != cudaSuccess)
        return rt_return(error);
    const struct rt_texels *texels = array->texels;
    if (texels->device != device || channels.bits * channels.channels / 8 != rt_texel_bytes(texels))
        return rt_return(rt_explain(cudaErrorInvalidValue, "an array of device %d with texels of %u bytes",
                                    texels->device->ordinal, rt_texel_bytes(texels)));
    error = rt_fault(device, rt_error(vgc_surface_create(texels->array, array->level, &object)));
    return rt_return(error == cudaSuccess ? bind(device, variable, object, array->texels) : error);
}

RT_API cudaError_t cudaGetSurfaceReference(const struct surfaceReference **reference, const void *symbol)
{
    struct rt_device *device;
    struct rt_variable *variable;
    cudaError_t error = reference != NULL ? find(symbol, true, &device, &variable) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *reference = symbol;
    return rt_return(error);
}
