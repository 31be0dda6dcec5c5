/* Texture and surface objects of the driver API. Both interfaces have the same objects, and describe them by structs of
 * their own. */
#include <string.h>

#include "runtime.h"

enum {
    KNOWN_FLAGS = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB |
                  CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | CU_TRSF_SEAMLESS_CUBEMAP
};

/* ---- resources ------------------------------------------------------------------------------ */

CUresult rt_resource_of(const CUDA_RESOURCE_DESC *given, struct cudaResourceDesc *resource)
{
    *resource = (struct cudaResourceDesc){.resType = (enum cudaResourceType)given->resType};
    if (given->flags != 0)
        return RT_ASK(rt_explain(cudaErrorInvalidValue, "flags 0x%x of a resource; allowed: 0", given->flags));
    switch (given->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        resource->res.array.array = (cudaArray_t)given->res.array.hArray;
        return RT_ASK(rt_check_array(resource->res.array.array));
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        resource->res.mipmap.mipmap = (cudaMipmappedArray_t)given->res.mipmap.hMipmappedArray;
        return RT_ASK(rt_check_mipmap(resource->res.mipmap.mipmap));
    case CU_RESOURCE_TYPE_LINEAR:
        resource->res.linear.devPtr = (void *)(uintptr_t)given->res.linear.devPtr;
        resource->res.linear.sizeInBytes = given->res.linear.sizeInBytes;
        return rt_channels_of(given->res.linear.format, given->res.linear.numChannels, &resource->res.linear.desc);
    case CU_RESOURCE_TYPE_PITCH2D:
        resource->res.pitch2D.devPtr = (void *)(uintptr_t)given->res.pitch2D.devPtr;
        resource->res.pitch2D.width = given->res.pitch2D.width;
        resource->res.pitch2D.height = given->res.pitch2D.height;
        resource->res.pitch2D.pitchInBytes = given->res.pitch2D.pitchInBytes;
        return rt_channels_of(given->res.pitch2D.format, given->res.pitch2D.numChannels, &resource->res.pitch2D.desc);
    default:
        return RT_ASK(rt_explain(cudaErrorInvalidValue, "a resource of type %d; allowed: 0 to 3", (int)given->resType));
    }
}

static void tell_resource(const struct cudaResourceDesc *resource, CUDA_RESOURCE_DESC *told)
{
    memset(told, 0, sizeof(*told));
    told->resType = (CUresourcetype)resource->resType;
    switch (resource->resType) {
    case cudaResourceTypeArray:
        told->res.array.hArray = (CUarray)resource->res.array.array;
        break;
    case cudaResourceTypeMipmappedArray:
        told->res.mipmap.hMipmappedArray = (CUmipmappedArray)resource->res.mipmap.mipmap;
        break;
    case cudaResourceTypeLinear:
        told->res.linear.devPtr = (CUdeviceptr)(uintptr_t)resource->res.linear.devPtr;
        told->res.linear.format = rt_format_number(&resource->res.linear.desc, &told->res.linear.numChannels);
        told->res.linear.sizeInBytes = resource->res.linear.sizeInBytes;
        break;
    case cudaResourceTypePitch2D:
        told->res.pitch2D.devPtr = (CUdeviceptr)(uintptr_t)resource->res.pitch2D.devPtr;
        told->res.pitch2D.format = rt_format_number(&resource->res.pitch2D.desc, &told->res.pitch2D.numChannels);
        told->res.pitch2D.width = resource->res.pitch2D.width;
        told->res.pitch2D.height = resource->res.pitch2D.height;
        told->res.pitch2D.pitchInBytes = resource->res.pitch2D.pitchInBytes;
        break;
    }
}

/* ---- how they are read ---------------------------------------------------------------------- */

/* Integers of 8 and 16 bits are read as floats unless a flag says otherwise; texels of other types are read as they
 * are, whatever the flag says. */
CUresult rt_sampling_of(const CUDA_TEXTURE_DESC *given, struct cudaTextureDesc *sampling)
{
    if ((given->flags & ~(unsigned)KNOWN_FLAGS) != 0)
        return RT_ASK(rt_explain(cudaErrorInvalidValue, "flags 0x%x of a texture; allowed: of 0x%x", given->flags,
                                 (unsigned)KNOWN_FLAGS));
    const bool is_raw = (given->flags & CU_TRSF_READ_AS_INTEGER) != 0;
    *sampling = (struct cudaTextureDesc){.filterMode = (enum cudaTextureFilterMode)given->filterMode,
                                         .readMode = is_raw ? cudaReadModeElementType : cudaReadModeNormalizedFloat,
                                         .sRGB = (given->flags & CU_TRSF_SRGB) != 0,
                                         .normalizedCoords = (given->flags & CU_TRSF_NORMALIZED_COORDINATES) != 0,
                                         .maxAnisotropy = given->maxAnisotropy,
                                         .mipmapFilterMode = (enum cudaTextureFilterMode)given->mipmapFilterMode,
                                         .mipmapLevelBias = given->mipmapLevelBias,
                                         .minMipmapLevelClamp = given->minMipmapLevelClamp,
                                         .maxMipmapLevelClamp = given->maxMipmapLevelClamp,
                                         .disableTrilinearOptimization =
                                             (given->flags & CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION) != 0,
                                         .seamlessCubemap = (given->flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0};
    for (int i = 0; i < 3; i++)
        sampling->addressMode[i] = (enum cudaTextureAddressMode)given->addressMode[i];
    memcpy(sampling->borderColor, given->borderColor, sizeof(sampling->borderColor));
    return CUDA_SUCCESS;
}

static void tell_sampling(const struct cudaTextureDesc *sampling, CUDA_TEXTURE_DESC *told)
{
    *told = (CUDA_TEXTURE_DESC){
        .filterMode = (CUfilter_mode)sampling->filterMode,
        .flags = (sampling->readMode == cudaReadModeElementType ? CU_TRSF_READ_AS_INTEGER : 0u) |
                 (sampling->normalizedCoords ? CU_TRSF_NORMALIZED_COORDINATES : 0u) |
                 (sampling->sRGB ? CU_TRSF_SRGB : 0u) |
                 (sampling->disableTrilinearOptimization ? CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION : 0u) |
                 (sampling->seamlessCubemap ? CU_TRSF_SEAMLESS_CUBEMAP : 0u),
        .maxAnisotropy = sampling->maxAnisotropy,
        .mipmapFilterMode = (CUfilter_mode)sampling->mipmapFilterMode,
        .mipmapLevelBias = sampling->mipmapLevelBias,
        .minMipmapLevelClamp = sampling->minMipmapLevelClamp,
        .maxMipmapLevelClamp = sampling->maxMipmapLevelClamp};
    for (int i = 0; i < 3; i++)
        told->addressMode[i] = (CUaddress_mode)sampling->addressMode[i];
    memcpy(told->borderColor, sampling->borderColor, sizeof(told->borderColor));
}

static struct cudaResourceViewDesc view_of(const CUDA_RESOURCE_VIEW_DESC *given)
{
    return (struct cudaResourceViewDesc){.format = (enum cudaResourceViewFormat)given->format, /* the same numbers */
                                         .width = given->width,
                                         .height = given->height,
                                         .depth = given->depth,
                                         .firstMipmapLevel = given->firstMipmapLevel,
                                         .lastMipmapLevel = given->lastMipmapLevel,
                                         .firstLayer = given->firstLayer,
                                         .lastLayer = given->lastLayer};
}

/* ---- textures ------------------------------------------------------------------------------- */

static void *handle_of(unsigned long long object)
{
    return (void *)(uintptr_t)object;
}

CUresult cuTexObjectCreate(CUtexObject *texture, const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *sampling,
                           const CUDA_RESOURCE_VIEW_DESC *view)
{
    CUcontext context;
    struct cudaResourceDesc of;
    struct cudaTextureDesc how;
    struct cudaResourceViewDesc seen;
    cudaTextureObject_t made = 0;
    CUresult result = rt_enter_context(&context, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    if (texture == NULL || resource == NULL || sampling == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    result = rt_resource_of(resource, &of);
    if (result == CUDA_SUCCESS)
        result = rt_sampling_of(sampling, &how);
    if (result != CUDA_SUCCESS)
        return result;
    if (view != NULL)
        seen = view_of(view);
    result = RT_ASK(cudaCreateTextureObject(&made, &of, &how, view != NULL ? &seen : NULL));
    if (result != CUDA_SUCCESS)
        return result;
    if (!rt_own(context, RT_OWNED_TEXTURE, handle_of(made))) {
        (void)RT_ASK(cudaDestroyTextureObject(made));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *texture = made;
    return CUDA_SUCCESS;
}

CUresult cuTexObjectDestroy(CUtexObject texture)
{
    const CUresult result = rt_enter_context(NULL, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    rt_disown(RT_OWNED_TEXTURE, handle_of(texture));
    return RT_ASK(cudaDestroyTextureObject(texture));
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *resource, CUtexObject texture)
{
    struct cudaResourceDesc of;
    if (resource == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = RT_IN_CONTEXT(cudaGetTextureObjectResourceDesc(&of, texture));
    if (result == CUDA_SUCCESS)
        tell_resource(&of, resource);
    return result;
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *sampling, CUtexObject texture)
{
    struct cudaTextureDesc how;
    if (sampling == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = RT_IN_CONTEXT(cudaGetTextureObjectTextureDesc(&how, texture));
    if (result == CUDA_SUCCESS)
        tell_sampling(&how, sampling);
    return result;
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *view, CUtexObject texture)
{
    struct cudaResourceViewDesc seen;
    if (view == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = RT_IN_CONTEXT(cudaGetTextureObjectResourceViewDesc(&seen, texture));
    if (result == CUDA_SUCCESS)
        *view = (CUDA_RESOURCE_VIEW_DESC){.format = (CUresourceViewFormat)seen.format,
                                          .width = seen.width,
                                          .height = seen.height,
                                          .depth = seen.depth,
                                          .firstMipmapLevel = seen.firstMipmapLevel,
                                          .lastMipmapLevel = seen.lastMipmapLevel,
                                          .firstLayer = seen.firstLayer,
                                          .lastLayer = seen.lastLayer};
    return result;
}

/* ---- surfaces ------------------------------------------------------------------------------- */

CUresult cuSurfObjectCreate(CUsurfObject *surface, const CUDA_RESOURCE_DESC *resource)
{
    CUcontext context;
    struct cudaResourceDesc of;
    cudaSurfaceObject_t made = 0;
    CUresult result = rt_enter_context(&context, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    if (surface == NULL || resource == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    result = rt_resource_of(resource, &of);
    if (result == CUDA_SUCCESS)
        result = RT_ASK(cudaCreateSurfaceObject(&made, &of));
    if (result != CUDA_SUCCESS)
        return result;
    if (!rt_own(context, RT_OWNED_SURFACE, handle_of(made))) {
        (void)RT_ASK(cudaDestroySurfaceObject(made));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *surface = made;
    return CUDA_SUCCESS;
}

CUresult cuSurfObjectDestroy(CUsurfObject surface)
{
    const CUresult result = rt_enter_context(NULL, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    rt_disown(RT_OWNED_SURFACE, handle_of(surface));
    return RT_ASK(cudaDestroySurfaceObject(surface));
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *resource, CUsurfObject surface)
{
    struct cudaResourceDesc of;
    if (resource == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = RT_IN_CONTEXT(cudaGetSurfaceObjectResourceDesc(&of, surface));
    if (result == CUDA_SUCCESS)
        tell_resource(&of, resource);
    return result;
}
