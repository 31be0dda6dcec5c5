/* Memory and events of other processes by the driver API. Handles are the runtime's, so that a process may have either
 * interface. */
#include <string.h>

#include "runtime.h"

_Static_assert(sizeof(CUipcMemHandle) == sizeof(cudaIpcMemHandle_t) &&
                   sizeof(CUipcEventHandle) == sizeof(cudaIpcEventHandle_t),
               "both interfaces have the same handles");

static void *pointer(CUdeviceptr memory)
{
    return (void *)(uintptr_t)memory;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr memory)
{
    return RT_IN_CONTEXT(cudaIpcGetMemHandle((cudaIpcMemHandle_t *)handle, pointer(memory)));
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *memory, CUipcMemHandle handle, unsigned int flags)
{
    cudaIpcMemHandle_t same;
    void *opened = NULL;
    if (memory == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&same, &handle, sizeof(same));
    const CUresult result = RT_IN_CONTEXT(cudaIpcOpenMemHandle(&opened, same, flags));
    if (result == CUDA_SUCCESS)
        *memory = (CUdeviceptr)(uintptr_t)opened;
    return result;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr memory)
{
    return RT_IN_CONTEXT(cudaIpcCloseMemHandle(pointer(memory)));
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    return RT_IN_CONTEXT(cudaIpcGetEventHandle((cudaIpcEventHandle_t *)handle, event));
}

CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    CUcontext context;
    cudaIpcEventHandle_t same;
    CUresult result = event == NULL ? CUDA_ERROR_INVALID_VALUE : rt_enter_context(&context, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    memcpy(&same, &handle, sizeof(same));
    result = RT_ASK(cudaIpcOpenEventHandle(event, same));
    if (result == CUDA_SUCCESS && !rt_own(context, RT_OWNED_EVENT, *event)) {
        (void)RT_ASK(cudaEventDestroy(*event));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return result;
}

/* ---- pools, which no process shares ---------------------------------------------------------- */

CUresult cuMemPoolExportToShareableHandle(void *handle, CUmemoryPool pool, CUmemAllocationHandleType type,
                                          unsigned long long flags)
{
    return RT_IN_CONTEXT(cudaMemPoolExportToShareableHandle(handle, (cudaMemPool_t)pool,
                                                            (enum cudaMemAllocationHandleType)type, (unsigned)flags));
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle, CUmemAllocationHandleType type,
                                            unsigned long long flags)
{
    return RT_IN_CONTEXT(cudaMemPoolImportFromShareableHandle((cudaMemPool_t *)pool, handle,
                                                              (enum cudaMemAllocationHandleType)type, (unsigned)flags));
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr memory)
{
    return RT_IN_CONTEXT(cudaMemPoolExportPointer((struct cudaMemPoolPtrExportData *)data, pointer(memory)));
}

CUresult cuMemPoolImportPointer(CUdeviceptr *memory, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
    return RT_IN_CONTEXT(
        cudaMemPoolImportPointer((void **)memory, (cudaMemPool_t)pool, (struct cudaMemPoolPtrExportData *)data));
}
