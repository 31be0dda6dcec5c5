/* Arrays and mipmapped arrays of the driver API, which are the runtime's: a CUarray is a cudaArray_t. */
#include "runtime.h"

/* ---- formats -------------------------------------------------------------------------------- */

static const struct {
    CUarray_format format;
    enum cudaChannelFormatKind kind;
    int bits;
} FORMATS[] = {
    {CU_AD_FORMAT_UNSIGNED_INT8, cudaChannelFormatKindUnsigned, 8},
    {CU_AD_FORMAT_UNSIGNED_INT16, cudaChannelFormatKindUnsigned, 16},
    {CU_AD_FORMAT_UNSIGNED_INT32, cudaChannelFormatKindUnsigned, 32},
    {CU_AD_FORMAT_SIGNED_INT8, cudaChannelFormatKindSigned, 8},
    {CU_AD_FORMAT_SIGNED_INT16, cudaChannelFormatKindSigned, 16},
    {CU_AD_FORMAT_SIGNED_INT32, cudaChannelFormatKindSigned, 32},
    {CU_AD_FORMAT_HALF, cudaChannelFormatKindFloat, 16},
    {CU_AD_FORMAT_FLOAT, cudaChannelFormatKindFloat, 32},
};
enum { NUM_FORMATS = sizeof(FORMATS) / sizeof(FORMATS[0]) };

CUresult rt_channels_of(CUarray_format format, unsigned count, struct cudaChannelFormatDesc *channels)
{
    if (count != 1 && count != 2 && count != 4)
        return RT_ASK(rt_explain(cudaErrorInvalidValue, "texels of %u channels; allowed: 1, 2 or 4", count));
    for (unsigned i = 0; i < NUM_FORMATS; i++)
        if (FORMATS[i].format == format) {
            const int bits = FORMATS[i].bits;
            *channels = (struct cudaChannelFormatDesc){bits, count > 1 ? bits : 0, count > 2 ? bits : 0,
                                                       count > 2 ? bits : 0, FORMATS[i].kind};
            return CUDA_SUCCESS;
        }
    return RT_ASK(rt_explain(cudaErrorInvalidValue,
                             "texels of format 0x%x; allowed: integers of 8, 16 and 32 bits, half and float",
                             (unsigned)format));
}

CUarray_format rt_format_number(const struct cudaChannelFormatDesc *channels, unsigned *count)
{
    *count = channels->y == 0 ? 1 : channels->z == 0 ? 2 : 4;
    for (unsigned i = 0; i < NUM_FORMATS; i++)
        if (FORMATS[i].kind == channels->f && FORMATS[i].bits == channels->x)
            return FORMATS[i].format;
    return (CUarray_format)0; /* not reached: the runtime makes arrays of these formats alone */
}

/* ---- arrays --------------------------------------------------------------------------------- */

/* Notes a new array or mipmapped array in the current context. */
static CUresult give(CUcontext context, enum rt_owned_kind kind, void *made, CUresult result)
{
    if (result != CUDA_SUCCESS || rt_own(context, kind, made))
        return result;
    (void)(kind == RT_OWNED_ARRAY ? RT_ASK(cudaFreeArray(made)) : RT_ASK(cudaFreeMipmappedArray(made)));
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *description)
{
    CUcontext context;
    cudaArray_t made = NULL;
    struct cudaChannelFormatDesc channels;
    CUresult result = rt_enter_context(&context, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    if (array == NULL || description == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const struct cudaExtent extent = {description->Width, description->Height, description->Depth};
    result = rt_channels_of(description->Format, description->NumChannels, &channels);
    if (result == CUDA_SUCCESS)
        result = RT_ASK(cudaMalloc3DArray(&made, &channels, extent, description->Flags));
    result = give(context, RT_OWNED_ARRAY, made, result);
    if (result == CUDA_SUCCESS)
        *array = (CUarray)made;
    return result;
}

CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *description)
{
    if (description == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUDA_ARRAY3D_DESCRIPTOR flat = {.Width = description->Width,
                                          .Height = description->Height,
                                          .Format = description->Format,
                                          .NumChannels = description->NumChannels};
    return cuArray3DCreate(array, &flat);
}

CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR *description, CUarray array)
{
    struct cudaChannelFormatDesc channels;
    struct cudaExtent extent;
    unsigned flags;
    CUresult result = rt_enter_context(NULL, NULL);
    if (result == CUDA_SUCCESS && description == NULL)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = RT_ASK(cudaArrayGetInfo(&channels, &extent, &flags, (cudaArray_t)array));
    if (result != CUDA_SUCCESS)
        return result;
    *description = (CUDA_ARRAY3D_DESCRIPTOR){
        .Width = extent.width, .Height = extent.height, .Depth = extent.depth, .Flags = flags};
    description->Format = rt_format_number(&channels, &description->NumChannels);
    return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR *description, CUarray array)
{
    CUDA_ARRAY3D_DESCRIPTOR all;
    const CUresult result = description == NULL ? CUDA_ERROR_INVALID_VALUE : cuArray3DGetDescriptor(&all, array);
    if (result == CUDA_SUCCESS)
        *description = (CUDA_ARRAY_DESCRIPTOR){all.Width, all.Height, all.Format, all.NumChannels};
    return result;
}

CUresult cuArrayDestroy(CUarray array)
{
    CUresult result = rt_enter_context(NULL, NULL);
    if (result == CUDA_SUCCESS)
        result = RT_ASK(rt_check_array((cudaArray_t)array));
    if (result != CUDA_SUCCESS)
        return result;
    rt_disown(RT_OWNED_ARRAY, array);
    return RT_ASK(cudaFreeArray((cudaArray_t)array));
}

/* ---- mipmapped arrays ----------------------------------------------------------------------- */

CUresult cuMipmappedArrayCreate(CUmipmappedArray *mipmap, const CUDA_ARRAY3D_DESCRIPTOR *description,
                                unsigned int levels)
{
    CUcontext context;
    cudaMipmappedArray_t made = NULL;
    struct cudaChannelFormatDesc channels;
    CUresult result = rt_enter_context(&context, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    if (mipmap == NULL || description == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const struct cudaExtent extent = {description->Width, description->Height, description->Depth};
    result = rt_channels_of(description->Format, description->NumChannels, &channels);
    if (result == CUDA_SUCCESS)
        result = RT_ASK(cudaMallocMipmappedArray(&made, &channels, extent, levels, description->Flags));
    result = give(context, RT_OWNED_MIPMAP, made, result);
    if (result == CUDA_SUCCESS)
        *mipmap = (CUmipmappedArray)made;
    return result;
}

CUresult cuMipmappedArrayGetLevel(CUarray *array, CUmipmappedArray mipmap, unsigned int level)
{
    return RT_IN_CONTEXT(cudaGetMipmappedArrayLevel((cudaArray_t *)array, (cudaMipmappedArray_t)mipmap, level));
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmap)
{
    CUresult result = rt_enter_context(NULL, NULL);
    if (result == CUDA_SUCCESS)
        result = RT_ASK(rt_check_mipmap((cudaMipmappedArray_t)mipmap));
    if (result != CUDA_SUCCESS)
        return result;
    rt_disown(RT_OWNED_MIPMAP, mipmap);
    return RT_ASK(cudaFreeMipmappedArray((cudaMipmappedArray_t)mipmap));
}
