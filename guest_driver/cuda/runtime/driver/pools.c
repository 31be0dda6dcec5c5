/* Memory in the order of streams, and its pools, by the driver API. */
#include "runtime.h"

static void *pointer(CUdeviceptr memory)
{
    return (void *)(uintptr_t)memory;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Unlike cuMemAlloc(), these take a size of 0, for which there is no memory: the address is 0. */

CUresult cuMemAllocAsync(CUdeviceptr *memory, size_t bytes, CUstream stream)
{
    void *made = NULL;
    if (memory == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = RT_IN_CONTEXT(cudaMallocAsync(&made, bytes, stream));
    if (result == CUDA_SUCCESS)
        *memory = (CUdeviceptr)(uintptr_t)made;
    return result;
}

CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream stream)
{
    return RT_IN_CONTEXT(cudaFreeAsync(pointer(memory), stream));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *memory, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    void *made = NULL;
    if (memory == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = RT_IN_CONTEXT(cudaMallocFromPoolAsync(&made, bytes, (cudaMemPool_t)pool, stream));
    if (result == CUDA_SUCCESS)
        *memory = (CUdeviceptr)(uintptr_t)made;
    return result;
}

/* ---- pools ---------------------------------------------------------------------------------- */

_Static_assert(sizeof(CUmemPoolProps) == sizeof(struct cudaMemPoolProps) &&
                   sizeof(CUmemAccessDesc) == sizeof(struct cudaMemAccessDesc),
               "both interfaces describe pools alike");

/* They are devices', not contexts': none needs one. */

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    return RT_OF_DRIVER(cudaMemPoolCreate((cudaMemPool_t *)pool, (const struct cudaMemPoolProps *)properties));
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *list, size_t count)
{
    return RT_OF_DRIVER(cudaMemPoolSetAccess((cudaMemPool_t)pool, (const struct cudaMemAccessDesc *)list, count));
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
    return RT_OF_DRIVER(cudaMemPoolGetAccess((enum cudaMemAccessFlags *)flags, (cudaMemPool_t)pool,
                                             (struct cudaMemLocation *)location));
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    return RT_OF_DRIVER(cudaMemPoolDestroy((cudaMemPool_t)pool));
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    return RT_OF_DRIVER(cudaMemPoolTrimTo((cudaMemPool_t)pool, keep));
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    return RT_OF_DRIVER(cudaMemPoolGetAttribute((cudaMemPool_t)pool, (enum cudaMemPoolAttr)attribute, value));
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    return RT_OF_DRIVER(cudaMemPoolSetAttribute((cudaMemPool_t)pool, (enum cudaMemPoolAttr)attribute, value));
}
