/* Managed memory by the driver API: where it should be, and who uses it. */
#include "runtime.h"

static void *pointer(CUdeviceptr memory)
{
    return (void *)(uintptr_t)memory;
}

static struct cudaMemLocation location_of(CUmemLocation location)
{
    return (struct cudaMemLocation){(enum cudaMemLocationType)location.type, location.id}; /* the same numbers */
}

/* ---- advice --------------------------------------------------------------------------------- */

CUresult cuMemAdvise(CUdeviceptr memory, size_t bytes, CUmem_advise advice, CUdevice device)
{
    return RT_IN_CONTEXT(cudaMemAdvise(pointer(memory), bytes, (enum cudaMemoryAdvise)advice, device));
}

CUresult cuMemAdvise_v2(CUdeviceptr memory, size_t bytes, CUmem_advise advice, CUmemLocation location)
{
    return RT_IN_CONTEXT(
        cudaMemAdvise_v2(pointer(memory), bytes, (enum cudaMemoryAdvise)advice, location_of(location)));
}

CUresult cuMemPrefetchAsync(CUdeviceptr memory, size_t bytes, CUdevice device, CUstream stream)
{
    return RT_IN_CONTEXT(cudaMemPrefetchAsync(pointer(memory), bytes, device, stream));
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr memory, size_t bytes, CUmemLocation location, unsigned int flags,
                               CUstream stream)
{
    return RT_IN_CONTEXT(cudaMemPrefetchAsync_v2(pointer(memory), bytes, location_of(location), flags, stream));
}

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr memory, size_t length, unsigned int flags)
{
    return RT_IN_CONTEXT(cudaStreamAttachMemAsync(stream, pointer(memory), length, flags));
}

/* ---- questions ------------------------------------------------------------------------------ */

CUresult cuMemRangeGetAttribute(void *data, size_t size, CUmem_range_attribute attribute, CUdeviceptr memory,
                                size_t bytes)
{
    return RT_IN_CONTEXT(
        cudaMemRangeGetAttribute(data, size, (enum cudaMemRangeAttribute)attribute, pointer(memory), bytes));
}

CUresult cuMemRangeGetAttributes(void **data, size_t *sizes, CUmem_range_attribute *attributes, size_t count,
                                 CUdeviceptr memory, size_t bytes)
{
    return RT_IN_CONTEXT(cudaMemRangeGetAttributes(data, sizes, (enum cudaMemRangeAttribute *)attributes, count,
                                                   pointer(memory), bytes));
}
