/* Copies of bytes from and to arrays by the driver API. An offset is in bytes from an array's begin. */
#include "runtime.h"

static void *pointer(CUdeviceptr memory)
{
    return (void *)(uintptr_t)memory;
}

CUresult cuMemcpyHtoA(CUarray to, size_t offset, const void *from, size_t bytes)
{
    return RT_IN_CONTEXT(cudaMemcpyToArray((cudaArray_t)to, offset, 0, from, bytes, cudaMemcpyHostToDevice));
}

CUresult cuMemcpyHtoAAsync(CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream)
{
    return RT_IN_CONTEXT(
        cudaMemcpyToArrayAsync((cudaArray_t)to, offset, 0, from, bytes, cudaMemcpyHostToDevice, stream));
}

CUresult cuMemcpyAtoH(void *to, CUarray from, size_t offset, size_t bytes)
{
    return RT_IN_CONTEXT(cudaMemcpyFromArray(to, (cudaArray_t)from, offset, 0, bytes, cudaMemcpyDeviceToHost));
}

CUresult cuMemcpyAtoHAsync(void *to, CUarray from, size_t offset, size_t bytes, CUstream stream)
{
    return RT_IN_CONTEXT(
        cudaMemcpyFromArrayAsync(to, (cudaArray_t)from, offset, 0, bytes, cudaMemcpyDeviceToHost, stream));
}

CUresult cuMemcpyDtoA(CUarray to, size_t offset, CUdeviceptr from, size_t bytes)
{
    return RT_IN_CONTEXT(cudaMemcpyToArray((cudaArray_t)to, offset, 0, pointer(from), bytes, cudaMemcpyDeviceToDevice));
}

CUresult cuMemcpyAtoD(CUdeviceptr to, CUarray from, size_t offset, size_t bytes)
{
    return RT_IN_CONTEXT(
        cudaMemcpyFromArray(pointer(to), (cudaArray_t)from, offset, 0, bytes, cudaMemcpyDeviceToDevice));
}

CUresult cuMemcpyAtoA(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes)
{
    return RT_IN_CONTEXT(cudaMemcpyArrayToArray((cudaArray_t)to, to_offset, 0, (cudaArray_t)from, from_offset, 0, bytes,
                                                cudaMemcpyDeviceToDevice));
}
