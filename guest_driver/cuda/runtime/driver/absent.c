/* Functions that a VM's device does not have. Calls say so by name, and attributes of devices say so before
 * (CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED is 0), so that programs take their other path. */
#include "runtime.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

/* `parameters` in parentheses. */
#define ABSENT(name, parameters)                                                                                       \
    CUresult name parameters;                                                                                          \
    CUresult name parameters                                                                                           \
    {                                                                                                                  \
        const CUresult result = rt_check_driver();                                                                     \
        return result == CUDA_SUCCESS ? RT_ASK(rt_unsupported(#name "()")) : result;                                   \
    }

/* ---- memory that is mapped piece by piece: the host, not the guest, says at which address memory lies -------------
 */

ABSENT(cuMemAddressReserve,
       (CUdeviceptr * memory, size_t size, size_t alignment, CUdeviceptr hint, unsigned long long flags))
ABSENT(cuMemAddressFree, (CUdeviceptr memory, size_t size))
ABSENT(cuMemCreate, (CUmemGenericAllocationHandle * handle, size_t size, const CUmemAllocationProp *properties,
                     unsigned long long flags))
ABSENT(cuMemRelease, (CUmemGenericAllocationHandle handle))
ABSENT(cuMemMap,
       (CUdeviceptr memory, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags))
ABSENT(cuMemMapArrayAsync, (CUarrayMapInfo * list, unsigned int count, CUstream stream))
ABSENT(cuMemUnmap, (CUdeviceptr memory, size_t size))
ABSENT(cuMemSetAccess, (CUdeviceptr memory, size_t size, const CUmemAccessDesc *list, size_t count))
ABSENT(cuMemGetAccess, (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr memory))
ABSENT(cuMemGetAllocationGranularity,
       (size_t *granularity, const CUmemAllocationProp *properties, CUmemAllocationGranularity_flags option))
ABSENT(cuMemGetAllocationPropertiesFromHandle, (CUmemAllocationProp * properties, CUmemGenericAllocationHandle handle))
ABSENT(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * handle, void *memory))
ABSENT(cuMemExportToShareableHandle,
       (void *shareable, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags))
ABSENT(cuMemImportFromShareableHandle,
       (CUmemGenericAllocationHandle * handle, void *shareable, CUmemAllocationHandleType type))
ABSENT(cuMemGetHandleForAddressRange,
       (void *handle, CUdeviceptr memory, size_t size, CUmemRangeHandleType type, unsigned long long flags))

/* ---- several devices as one ------------------------------------------------------------------ */

ABSENT(cuMulticastCreate, (CUmemGenericAllocationHandle * handle, const CUmulticastObjectProp *properties))
ABSENT(cuMulticastAddDevice, (CUmemGenericAllocationHandle handle, CUdevice device))
ABSENT(cuMulticastBindMem, (CUmemGenericAllocationHandle handle, size_t offset, CUmemGenericAllocationHandle memory,
                            size_t memory_offset, size_t size, unsigned long long flags))
ABSENT(cuMulticastBindAddr,
       (CUmemGenericAllocationHandle handle, size_t offset, CUdeviceptr memory, size_t size, unsigned long long flags))
ABSENT(cuMulticastUnbind, (CUmemGenericAllocationHandle handle, CUdevice device, size_t offset, size_t size))
ABSENT(cuMulticastGetGranularity,
       (size_t *granularity, const CUmulticastObjectProp *properties, CUmulticastGranularity_flags option))

/* ---- memory and semaphores of other APIs ----------------------------------------------------- */

ABSENT(cuImportExternalMemory, (CUexternalMemory * memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *handle))
ABSENT(cuExternalMemoryGetMappedBuffer,
       (CUdeviceptr * buffer, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *description))
ABSENT(cuExternalMemoryGetMappedMipmappedArray, (CUmipmappedArray * mipmap, CUexternalMemory memory,
                                                 const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *description))
ABSENT(cuDestroyExternalMemory, (CUexternalMemory memory))
ABSENT(cuImportExternalSemaphore, (CUexternalSemaphore * semaphore, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *handle))
ABSENT(cuSignalExternalSemaphoresAsync,
       (const CUexternalSemaphore *semaphores, const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *parameters,
        unsigned int count, CUstream stream))
ABSENT(cuWaitExternalSemaphoresAsync,
       (const CUexternalSemaphore *semaphores, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *parameters,
        unsigned int count, CUstream stream))
ABSENT(cuDestroyExternalSemaphore, (CUexternalSemaphore semaphore))
ABSENT(cuGraphicsMapResources, (unsigned int count, CUgraphicsResource *resources, CUstream stream))
ABSENT(cuGraphicsUnmapResources, (unsigned int count, CUgraphicsResource *resources, CUstream stream))
ABSENT(cuGraphicsUnregisterResource, (CUgraphicsResource resource))
ABSENT(cuGraphicsResourceGetMappedPointer, (CUdeviceptr * memory, size_t *bytes, CUgraphicsResource resource))
ABSENT(cuGraphicsResourceGetMappedMipmappedArray, (CUmipmappedArray * mipmap, CUgraphicsResource resource))
ABSENT(cuGraphicsSubResourceGetMappedArray,
       (CUarray * array, CUgraphicsResource resource, unsigned int index, unsigned int level))
ABSENT(cuGraphicsResourceSetMapFlags, (CUgraphicsResource resource, unsigned int flags))
ABSENT(cuDeviceGetNvSciSyncAttributes, (void *list, CUdevice device, int flags))
ABSENT(cuDeviceGetLuid, (char *luid, unsigned int *mask, CUdevice device)) /* a name for Windows */

/* ---- values in memory that streams wait for --------------------------------------------------- */

ABSENT(cuStreamWaitValue32, (CUstream stream, CUdeviceptr memory, cuuint32_t value, unsigned int flags))
ABSENT(cuStreamWaitValue64, (CUstream stream, CUdeviceptr memory, cuuint64_t value, unsigned int flags))
ABSENT(cuStreamWriteValue32, (CUstream stream, CUdeviceptr memory, cuuint32_t value, unsigned int flags))
ABSENT(cuStreamWriteValue64, (CUstream stream, CUdeviceptr memory, cuuint64_t value, unsigned int flags))
ABSENT(cuStreamBatchMemOp, (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *list, unsigned int flags))

/* ---- parts of a GPU: the host says how many multiprocessors a VM has ------------------------- */

ABSENT(cuGreenCtxCreate, (CUgreenCtx * context, CUdevResourceDesc description, CUdevice device, unsigned int flags))
ABSENT(cuGreenCtxDestroy, (CUgreenCtx context))
ABSENT(cuCtxFromGreenCtx, (CUcontext * context, CUgreenCtx green))
ABSENT(cuDeviceGetDevResource, (CUdevice device, CUdevResource *resource, CUdevResourceType type))
ABSENT(cuCtxGetDevResource, (CUcontext context, CUdevResource *resource, CUdevResourceType type))
ABSENT(cuGreenCtxGetDevResource, (CUgreenCtx context, CUdevResource *resource, CUdevResourceType type))
ABSENT(cuDevSmResourceSplitByCount, (CUdevResource * parts, unsigned int *count, const CUdevResource *whole,
                                     CUdevResource *rest, unsigned int flags, unsigned int least))
ABSENT(cuDevResourceGenerateDesc, (CUdevResourceDesc * description, CUdevResource *resources, unsigned int count))
ABSENT(cuGreenCtxStreamCreate, (CUstream * stream, CUgreenCtx context, unsigned int flags, int priority))
ABSENT(cuGreenCtxRecordEvent, (CUgreenCtx context, CUevent event))
ABSENT(cuGreenCtxWaitEvent, (CUgreenCtx context, CUevent event))

/* ---- arrays that are made of planes or mapped piece by piece --------------------------------- */

ABSENT(cuArrayGetPlane, (CUarray * plane, CUarray array, unsigned int index))
ABSENT(cuArrayGetSparseProperties, (CUDA_ARRAY_SPARSE_PROPERTIES * properties, CUarray array))
ABSENT(cuMipmappedArrayGetSparseProperties, (CUDA_ARRAY_SPARSE_PROPERTIES * properties, CUmipmappedArray mipmap))
ABSENT(cuArrayGetMemoryRequirements, (CUDA_ARRAY_MEMORY_REQUIREMENTS * requirements, CUarray array, CUdevice device))
ABSENT(cuMipmappedArrayGetMemoryRequirements,
       (CUDA_ARRAY_MEMORY_REQUIREMENTS * requirements, CUmipmappedArray mipmap, CUdevice device))
