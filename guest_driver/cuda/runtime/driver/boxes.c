/* Copies of rows and slices by the driver API. Widths are in bytes there; the runtime counts texels where an array
 * takes part. */
#include "runtime.h"

struct place {
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    CUarray array;
    size_t pitch;
    size_t height; /* rows from one slice to the next; 0: those of the copy */
    struct cudaPos position;
};

/* One side of a copy whose `texel` bytes, if it is not 0 yet, are those of the other side's array. */
struct side {
    cudaArray_t array;
    struct cudaPitchedPtr memory;
    struct cudaPos position;
};

static CUresult take_array(const struct place *place, struct side *side, size_t *texel)
{
    const CUresult result = RT_ASK(rt_check_array((cudaArray_t)place->array));
    if (result != CUDA_SUCCESS)
        return result;
    side->array = (cudaArray_t)place->array;
    *texel = rt_texel_bytes(side->array->texels);
    if (place->position.x % *texel != 0)
        return RT_ASK(rt_explain(cudaErrorInvalidValue,
                                 "a copy from byte %zu of rows of an array; texels have %zu bytes", place->position.x,
                                 *texel));
    side->position.x /= *texel;
    return CUDA_SUCCESS;
}

static CUresult take_side(const struct place *place, size_t width, size_t height, struct side *side, size_t *texel)
{
    *side = (struct side){.position = place->position};
    switch (place->type) {
    case CU_MEMORYTYPE_HOST:
        side->memory.ptr = (void *)(uintptr_t)place->host;
        break;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
        side->memory.ptr = (void *)(uintptr_t)place->device;
        break;
    case CU_MEMORYTYPE_ARRAY:
        return take_array(place, side, texel);
    default:
        return RT_ASK(rt_explain(cudaErrorInvalidValue, "memory of type %d; allowed: 1 to 4", (int)place->type));
    }
    side->memory.pitch = place->pitch != 0 ? place->pitch : place->position.x + width; /* one row may leave it out */
    side->memory.ysize = place->height != 0 ? place->height : place->position.y + height;
    return CUDA_SUCCESS;
}

static enum cudaMemcpyKind kind_of(CUmemorytype from, CUmemorytype to)
{
    if (from == CU_MEMORYTYPE_UNIFIED || to == CU_MEMORYTYPE_UNIFIED)
        return cudaMemcpyDefault;
    if (from == CU_MEMORYTYPE_HOST)
        return to == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
    return to == CU_MEMORYTYPE_HOST ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

static struct place source_of(const CUDA_MEMCPY3D *copy)
{
    return (struct place){.type = copy->srcMemoryType,
                          .host = copy->srcHost,
                          .device = copy->srcDevice,
                          .array = copy->srcArray,
                          .pitch = copy->srcPitch,
                          .height = copy->srcHeight,
                          .position = {copy->srcXInBytes, copy->srcY, copy->srcZ}};
}

static struct place destination_of(const CUDA_MEMCPY3D *copy)
{
    return (struct place){.type = copy->dstMemoryType,
                          .host = copy->dstHost,
                          .device = copy->dstDevice,
                          .array = copy->dstArray,
                          .pitch = copy->dstPitch,
                          .height = copy->dstHeight,
                          .position = {copy->dstXInBytes, copy->dstY, copy->dstZ}};
}

CUresult rt_box_of(const CUDA_MEMCPY3D *copy, struct cudaMemcpy3DParms *box)
{
    struct side from, to;
    size_t texel = 0;
    if (copy == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (copy->srcLOD != 0 || copy->dstLOD != 0)
        return RT_ASK(rt_explain(cudaErrorInvalidValue, "srcLOD and dstLOD must be 0: a level is an array of its own"));
    const struct place source = source_of(copy), destination = destination_of(copy);
    CUresult result = take_side(&source, copy->WidthInBytes, copy->Height, &from, &texel);
    if (result == CUDA_SUCCESS)
        result = take_side(&destination, copy->WidthInBytes, copy->Height, &to, &texel);
    if (result != CUDA_SUCCESS)
        return result;
    if (texel != 0 && copy->WidthInBytes % texel != 0)
        return RT_ASK(rt_explain(cudaErrorInvalidValue, "rows of %zu bytes of an array; texels have %zu bytes",
                                 copy->WidthInBytes, texel));
    *box =
        (struct cudaMemcpy3DParms){.srcArray = from.array,
                                   .srcPos = from.position,
                                   .srcPtr = from.memory,
                                   .dstArray = to.array,
                                   .dstPos = to.position,
                                   .dstPtr = to.memory,
                                   .extent = {copy->WidthInBytes / (texel == 0 ? 1 : texel), copy->Height, copy->Depth},
                                   .kind = kind_of(copy->srcMemoryType, copy->dstMemoryType)};
    return CUDA_SUCCESS;
}

static CUmemorytype type_of(const struct cudaPitchedPtr *memory, bool is_host, bool is_default)
{
    if (memory->ptr == NULL)
        return CU_MEMORYTYPE_ARRAY;
    if (is_default)
        return CU_MEMORYTYPE_UNIFIED;
    return is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

CUresult rt_tell_box(const struct cudaMemcpy3DParms *box, CUDA_MEMCPY3D *copy)
{
    const cudaArray_t array = box->srcArray != NULL ? box->srcArray : box->dstArray;
    const CUresult result = array == NULL ? CUDA_SUCCESS : RT_ASK(rt_check_array(array));
    if (result != CUDA_SUCCESS)
        return result;
    const size_t texel = array == NULL ? 1 : rt_texel_bytes(array->texels);
    const bool is_default = box->kind == cudaMemcpyDefault;
    const bool from_host = box->kind == cudaMemcpyHostToDevice || box->kind == cudaMemcpyHostToHost;
    const bool to_host = box->kind == cudaMemcpyDeviceToHost || box->kind == cudaMemcpyHostToHost;
    *copy = (CUDA_MEMCPY3D){.srcXInBytes = box->srcPos.x * (box->srcArray != NULL ? texel : 1),
                            .srcY = box->srcPos.y,
                            .srcZ = box->srcPos.z,
                            .srcMemoryType = type_of(&box->srcPtr, from_host, is_default),
                            .srcArray = (CUarray)box->srcArray,
                            .srcPitch = box->srcPtr.pitch,
                            .srcHeight = box->srcPtr.ysize,
                            .dstXInBytes = box->dstPos.x * (box->dstArray != NULL ? texel : 1),
                            .dstY = box->dstPos.y,
                            .dstZ = box->dstPos.z,
                            .dstMemoryType = type_of(&box->dstPtr, to_host, is_default),
                            .dstArray = (CUarray)box->dstArray,
                            .dstPitch = box->dstPtr.pitch,
                            .dstHeight = box->dstPtr.ysize,
                            .WidthInBytes = box->extent.width * texel,
                            .Height = box->extent.height,
                            .Depth = box->extent.depth};
    if (copy->srcMemoryType == CU_MEMORYTYPE_HOST)
        copy->srcHost = box->srcPtr.ptr;
    else
        copy->srcDevice = (CUdeviceptr)(uintptr_t)box->srcPtr.ptr;
    if (copy->dstMemoryType == CU_MEMORYTYPE_HOST)
        copy->dstHost = box->dstPtr.ptr;
    else
        copy->dstDevice = (CUdeviceptr)(uintptr_t)box->dstPtr.ptr;
    return CUDA_SUCCESS;
}

static CUresult copy_box(const CUDA_MEMCPY3D *copy, CUstream stream, bool waits)
{
    struct cudaMemcpy3DParms box;
    CUresult result = rt_enter_context(NULL, NULL);
    if (result == CUDA_SUCCESS)
        result = rt_box_of(copy, &box);
    if (result != CUDA_SUCCESS)
        return result;
    return waits ? RT_ASK(cudaMemcpy3D(&box)) : RT_ASK(cudaMemcpy3DAsync(&box, stream));
}

/* ---- three dimensions ----------------------------------------------------------------------- */

CUresult cuMemcpy3D(const CUDA_MEMCPY3D *copy)
{
    return copy_box(copy, NULL, true);
}

CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D *copy, CUstream stream)
{
    return copy_box(copy, stream, false);
}

/* ---- two dimensions ------------------------------------------------------------------------- */

static CUresult copy_rows(const CUDA_MEMCPY2D *copy, CUstream stream, bool waits)
{
    if (copy == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUDA_MEMCPY3D box = {.srcXInBytes = copy->srcXInBytes,
                               .srcY = copy->srcY,
                               .srcMemoryType = copy->srcMemoryType,
                               .srcHost = copy->srcHost,
                               .srcDevice = copy->srcDevice,
                               .srcArray = copy->srcArray,
                               .srcPitch = copy->srcPitch,
                               .dstXInBytes = copy->dstXInBytes,
                               .dstY = copy->dstY,
                               .dstMemoryType = copy->dstMemoryType,
                               .dstHost = copy->dstHost,
                               .dstDevice = copy->dstDevice,
                               .dstArray = copy->dstArray,
                               .dstPitch = copy->dstPitch,
                               .WidthInBytes = copy->WidthInBytes,
                               .Height = copy->Height,
                               .Depth = 1};
    return copy_box(&box, stream, waits);
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D *copy)
{
    return copy_rows(copy, NULL, true);
}

CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *copy)
{
    return copy_rows(copy, NULL, true);
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    return copy_rows(copy, stream, false);
}

/* ---- between contexts ----------------------------------------------------------------------- */

static bool is_on_device(CUmemorytype type)
{
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_ARRAY;
}

/* Contexts are read where the side is on a device. */
static bool lacks_context(CUmemorytype type, CUcontext context)
{
    return is_on_device(type) && !rt_is_context(context);
}

/* From device to device: behind all work of both, unless a stream says behind what. */
static CUresult copy_between(const CUDA_MEMCPY3D *copy, CUcontext from, CUcontext to, CUstream stream, bool waits)
{
    struct cudaMemcpy3DParms box;
    CUresult result = rt_enter_context(NULL, NULL);
    if (result == CUDA_SUCCESS)
        result = rt_box_of(copy, &box);
    if (result != CUDA_SUCCESS)
        return result;
    const struct cudaMemcpy3DPeerParms peers = {.srcArray = box.srcArray,
                                                .srcPos = box.srcPos,
                                                .srcPtr = box.srcPtr,
                                                .srcDevice = from->ordinal,
                                                .dstArray = box.dstArray,
                                                .dstPos = box.dstPos,
                                                .dstPtr = box.dstPtr,
                                                .dstDevice = to->ordinal,
                                                .extent = box.extent};
    return waits ? RT_ASK(cudaMemcpy3DPeer(&peers)) : RT_ASK(cudaMemcpy3DPeerAsync(&peers, stream));
}

static CUresult copy_peers(const CUDA_MEMCPY3D_PEER *copy, CUstream stream, bool waits)
{
    if (copy == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (lacks_context(copy->srcMemoryType, copy->srcContext) || lacks_context(copy->dstMemoryType, copy->dstContext))
        return CUDA_ERROR_INVALID_CONTEXT;
    const CUDA_MEMCPY3D box = {.srcXInBytes = copy->srcXInBytes,
                               .srcY = copy->srcY,
                               .srcZ = copy->srcZ,
                               .srcLOD = copy->srcLOD,
                               .srcMemoryType = copy->srcMemoryType,
                               .srcHost = copy->srcHost,
                               .srcDevice = copy->srcDevice,
                               .srcArray = copy->srcArray,
                               .srcPitch = copy->srcPitch,
                               .srcHeight = copy->srcHeight,
                               .dstXInBytes = copy->dstXInBytes,
                               .dstY = copy->dstY,
                               .dstZ = copy->dstZ,
                               .dstLOD = copy->dstLOD,
                               .dstMemoryType = copy->dstMemoryType,
                               .dstHost = copy->dstHost,
                               .dstDevice = copy->dstDevice,
                               .dstArray = copy->dstArray,
                               .dstPitch = copy->dstPitch,
                               .dstHeight = copy->dstHeight,
                               .WidthInBytes = copy->WidthInBytes,
                               .Height = copy->Height,
                               .Depth = copy->Depth};
    return is_on_device(copy->srcMemoryType) && is_on_device(copy->dstMemoryType)
               ? copy_between(&box, copy->srcContext, copy->dstContext, stream, waits)
               : copy_box(&box, stream, waits);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *copy)
{
    return copy_peers(copy, NULL, true);
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *copy, CUstream stream)
{
    return copy_peers(copy, stream, false);
}
