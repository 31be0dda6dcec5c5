/* Memory by the driver API: device memory is a number there, and the direction of a copy is in its function's name. */
#include "runtime.h"

static void *pointer(CUdeviceptr memory)
{
    return (void *)(uintptr_t)memory;
}

/* ---- allocations ---------------------------------------------------------------------------- */

/* Notes new memory in the current context, and returns its address. */
static CUresult give(CUcontext context, enum rt_owned_kind kind, void *made, CUresult result)
{
    if (result != CUDA_SUCCESS || rt_own(context, kind, made))
        return result;
    (void)(kind == RT_OWNED_MEMORY ? RT_ASK(cudaFree(made)) : RT_ASK(cudaFreeHost(made)));
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult give_device(CUcontext context, CUdeviceptr *memory, void *made, CUresult result)
{
    result = give(context, RT_OWNED_MEMORY, made, result);
    if (result == CUDA_SUCCESS)
        *memory = (CUdeviceptr)(uintptr_t)made;
    return result;
}

CUresult cuMemAlloc(CUdeviceptr *memory, size_t bytes)
{
    CUcontext context;
    void *made = NULL;
    const CUresult result = rt_enter_context(&context, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    if (memory == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult error = RT_ASK(cudaMalloc(&made, bytes));
    return give_device(context, memory, made, error);
}

CUresult cuMemAllocPitch(CUdeviceptr *memory, size_t *pitch, size_t width, size_t height, unsigned int element)
{
    CUcontext context;
    void *made = NULL;
    const CUresult result = rt_enter_context(&context, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    if (memory == NULL || pitch == NULL || width == 0 || height == 0 || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult error = RT_ASK(cudaMallocPitch(&made, pitch, width, height));
    return give_device(context, memory, made, error);
}

CUresult cuMemAllocManaged(CUdeviceptr *memory, size_t bytes, unsigned int flags)
{
    CUcontext context;
    void *made = NULL;
    const CUresult result = rt_enter_context(&context, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    if (memory == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult error = RT_ASK(cudaMallocManaged(&made, bytes, flags));
    return give_device(context, memory, made, error);
}

CUresult cuMemFree(CUdeviceptr memory)
{
    const CUresult result = rt_enter_context(NULL, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    if (memory == 0)
        return CUDA_ERROR_INVALID_VALUE;
    rt_disown(RT_OWNED_MEMORY, pointer(memory)); /* before another thread can have the address */
    return RT_ASK(cudaFree(pointer(memory)));
}

CUresult cuMemGetInfo(size_t *left, size_t *total)
{
    return RT_IN_CONTEXT(cudaMemGetInfo(left, total));
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr memory)
{
    struct rt_range range;
    const CUresult result = rt_enter_context(NULL, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    if (!rt_find_range(pointer(memory), &range))
        return CUDA_ERROR_NOT_FOUND;
    if (base != NULL)
        *base = range.begin;
    if (bytes != NULL)
        *bytes = range.size;
    return CUDA_SUCCESS;
}

/* ---- memory of the host --------------------------------------------------------------------- */

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags)
{
    CUcontext context;
    void *made = NULL;
    const CUresult result = rt_enter_context(&context, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    if (memory == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult error = RT_ASK(cudaHostAlloc(&made, bytes, flags));
    const CUresult given = give(context, RT_OWNED_HOST_MEMORY, made, error);
    if (given == CUDA_SUCCESS)
        *memory = made;
    return given;
}

CUresult cuMemAllocHost(void **memory, size_t bytes)
{
    return cuMemHostAlloc(memory, bytes, 0);
}

CUresult cuMemFreeHost(void *memory)
{
    const CUresult result = rt_enter_context(NULL, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    if (memory == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    rt_disown(RT_OWNED_HOST_MEMORY, memory);
    return RT_ASK(cudaFreeHost(memory));
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *device, void *host, unsigned int flags)
{
    void *found = NULL;
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = RT_IN_CONTEXT(cudaHostGetDevicePointer(&found, host, flags));
    if (result == CUDA_SUCCESS)
        *device = (CUdeviceptr)(uintptr_t)found;
    return result;
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *host)
{
    return RT_IN_CONTEXT(cudaHostGetFlags(flags, host));
}

CUresult cuMemHostRegister(void *memory, size_t bytes, unsigned int flags)
{
    return RT_IN_CONTEXT(cudaHostRegister(memory, bytes, flags));
}

CUresult cuMemHostUnregister(void *memory)
{
    return RT_IN_CONTEXT(cudaHostUnregister(memory));
}

/* ---- copies --------------------------------------------------------------------------------- */

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return RT_IN_CONTEXT(cudaMemcpy(pointer(to), pointer(from), bytes, cudaMemcpyDefault));
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
    return RT_IN_CONTEXT(cudaMemcpy(pointer(to), from, bytes, cudaMemcpyHostToDevice));
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
    return RT_IN_CONTEXT(cudaMemcpy(to, pointer(from), bytes, cudaMemcpyDeviceToHost));
}

CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return RT_IN_CONTEXT(cudaMemcpy(pointer(to), pointer(from), bytes, cudaMemcpyDeviceToDevice));
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return RT_IN_CONTEXT(cudaMemcpyAsync(pointer(to), pointer(from), bytes, cudaMemcpyDefault, stream));
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return RT_IN_CONTEXT(cudaMemcpyAsync(pointer(to), from, bytes, cudaMemcpyHostToDevice, stream));
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return RT_IN_CONTEXT(cudaMemcpyAsync(to, pointer(from), bytes, cudaMemcpyDeviceToHost, stream));
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return RT_IN_CONTEXT(cudaMemcpyAsync(pointer(to), pointer(from), bytes, cudaMemcpyDeviceToDevice, stream));
}

static CUresult copy_peer(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes,
                          CUstream stream, bool waits)
{
    if (!rt_is_context(there) || !rt_is_context(here))
        return CUDA_ERROR_INVALID_CONTEXT;
    return waits ? RT_IN_CONTEXT(cudaMemcpyPeer(pointer(to), there->ordinal, pointer(from), here->ordinal, bytes))
                 : RT_IN_CONTEXT(
                       cudaMemcpyPeerAsync(pointer(to), there->ordinal, pointer(from), here->ordinal, bytes, stream));
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes)
{
    return copy_peer(to, there, from, here, bytes, NULL, true);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes,
                           CUstream stream)
{
    return copy_peer(to, there, from, here, bytes, stream, false);
}

/* ---- fills ---------------------------------------------------------------------------------- */

/* `width` units in each of `height` rows. */
static CUresult fill(CUdeviceptr memory, size_t pitch, uint32_t value, uint32_t unit, size_t width, size_t height,
                     CUstream stream, bool waits)
{
    struct cudaPitchedPtr rows = {.ptr = pointer(memory), .pitch = pitch, .ysize = height};
    if (__builtin_mul_overflow(width, unit, &rows.xsize))
        return CUDA_ERROR_INVALID_VALUE;
    return RT_IN_CONTEXT(rt_fill_units(rows, value, unit, stream, waits));
}

#define FILLS(bits, type)                                                                                              \
    CUresult cuMemsetD##bits(CUdeviceptr memory, type value, size_t count)                                             \
    {                                                                                                                  \
        return fill(memory, 0, value, bits / 8, count, 1, NULL, true);                                                 \
    }                                                                                                                  \
    CUresult cuMemsetD##bits##Async(CUdeviceptr memory, type value, size_t count, CUstream stream)                     \
    {                                                                                                                  \
        return fill(memory, 0, value, bits / 8, count, 1, stream, false);                                              \
    }                                                                                                                  \
    CUresult cuMemsetD2D##bits(CUdeviceptr memory, size_t pitch, type value, size_t width, size_t height);             \
    CUresult cuMemsetD2D##bits(CUdeviceptr memory, size_t pitch, type value, size_t width, size_t height)              \
    {                                                                                                                  \
        return fill(memory, pitch, value, bits / 8, width, height, NULL, true);                                        \
    }                                                                                                                  \
    CUresult cuMemsetD2D##bits##Async(CUdeviceptr memory, size_t pitch, type value, size_t width, size_t height,       \
                                      CUstream stream);                                                                \
    CUresult cuMemsetD2D##bits##Async(CUdeviceptr memory, size_t pitch, type value, size_t width, size_t height,       \
                                      CUstream stream)                                                                 \
    {                                                                                                                  \
        return fill(memory, pitch, value, bits / 8, width, height, stream, false);                                     \
    }

FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned int)

/* ---- what is known of a pointer ------------------------------------------------------------- */

struct known {
    struct rt_range range;
    struct cudaPointerAttributes attributes;
};

/* False: CUDA does not know the pointer. */
static bool find_known(CUdeviceptr memory, struct known *known)
{
    return rt_find_range(pointer(memory), &known->range) &&
           RT_ASK(cudaPointerGetAttributes(&known->attributes, pointer(memory))) == CUDA_SUCCESS;
}

static CUcontext context_of(const struct known *known)
{
    const bool is_of_host = known->attributes.type == cudaMemoryTypeHost;
    CUcontext owner = rt_owner(is_of_host ? RT_OWNED_HOST_MEMORY : RT_OWNED_MEMORY, pointer(known->range.begin));
    return owner != NULL ? owner : rt_primary_context(known->range.device->ordinal);
}

static CUresult attribute_of(const struct known *known, int attribute, void *value)
{
    const struct cudaPointerAttributes *attributes = &known->attributes;
    const void *found = NULL;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)value = context_of(known);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)value = attributes->type == cudaMemoryTypeHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        found = attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER ? attributes->hostPointer : attributes->devicePointer;
        if (found == NULL) /* it has none on that side */
            return CUDA_ERROR_INVALID_VALUE;
        *(const void **)value = found;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned *)value = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)value = known->range.begin;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)value = attributes->type == cudaMemoryTypeManaged;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = known->range.device->ordinal;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)value = known->range.begin;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)value = known->range.size;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned *)value = 1;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr memory)
{
    struct known known;
    const CUresult result = rt_check_driver();
    if (result != CUDA_SUCCESS)
        return result;
    if (value == NULL || !find_known(memory, &known))
        return CUDA_ERROR_INVALID_VALUE;
    return attribute_of(&known, (int)attribute, value);
}

/* For memory that CUDA does not know, all values are 0. Neither function needs a context. */
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **values, CUdeviceptr memory)
{
    struct known known;
    const CUresult result = rt_check_driver();
    if (result != CUDA_SUCCESS)
        return result;
    if (attributes == NULL || values == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const bool is_known = find_known(memory, &known);
    for (unsigned i = 0; i < count; i++) {
        const bool is_short =
            attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE || attributes[i] == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
            attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED || attributes[i] == CU_POINTER_ATTRIBUTE_MAPPED;
        if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            *(int *)values[i] = -2; /* as published, for no device */
        else if (is_short)
            *(unsigned *)values[i] = 0;
        else
            *(uint64_t *)values[i] = 0;
        if (is_known)
            (void)attribute_of(&known, (int)attributes[i], values[i]);
    }
    return CUDA_SUCCESS;
}

/* Copies of ordinary memory are done when their call returns, which is all that CU_POINTER_ATTRIBUTE_SYNC_MEMOPS asks
 * for. The other attributes are facts. */
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr memory)
{
    struct known known;
    const CUresult result = rt_enter_context(NULL, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    if (value == NULL || !find_known(memory, &known))
        return CUDA_ERROR_INVALID_VALUE;
    return attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
