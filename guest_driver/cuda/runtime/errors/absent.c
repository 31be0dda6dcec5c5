/* Functions that a VM's device does not have: memory that is shared with graphics and with other devices' drivers, and
 * what of arrays needs such memory. Calls say so by name. */
#include "runtime.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

/* `parameters` in parentheses. */
#define ABSENT(name, parameters)                                                                                       \
    cudaError_t name parameters;                                                                                       \
    RT_API cudaError_t name parameters                                                                                 \
    {                                                                                                                  \
        return rt_return(rt_unsupported(#name "()"));                                                                  \
    }

struct cudaArraySparseProperties;
struct cudaArrayMemoryRequirements;

/* ---- graphics ------------------------------------------------------------------------------- */

ABSENT(cudaGraphicsUnregisterResource, (cudaGraphicsResource_t resource))
ABSENT(cudaGraphicsResourceSetMapFlags, (cudaGraphicsResource_t resource, unsigned int flags))
ABSENT(cudaGraphicsMapResources, (int count, cudaGraphicsResource_t *resources, cudaStream_t stream))
ABSENT(cudaGraphicsUnmapResources, (int count, cudaGraphicsResource_t *resources, cudaStream_t stream))
ABSENT(cudaGraphicsResourceGetMappedPointer, (void **memory, size_t *bytes, cudaGraphicsResource_t resource))
ABSENT(cudaGraphicsSubResourceGetMappedArray,
       (cudaArray_t * array, cudaGraphicsResource_t resource, unsigned int index, unsigned int level))
ABSENT(cudaGraphicsResourceGetMappedMipmappedArray, (cudaMipmappedArray_t * array, cudaGraphicsResource_t resource))

/* ---- other drivers -------------------------------------------------------------------------- */

ABSENT(cudaImportExternalMemory, (cudaExternalMemory_t * memory, const struct cudaExternalMemoryHandleDesc *handle))
ABSENT(cudaExternalMemoryGetMappedBuffer,
       (void **buffer, cudaExternalMemory_t memory, const struct cudaExternalMemoryBufferDesc *description))
ABSENT(cudaExternalMemoryGetMappedMipmappedArray, (cudaMipmappedArray_t * array, cudaExternalMemory_t memory,
                                                   const struct cudaExternalMemoryMipmappedArrayDesc *description))
ABSENT(cudaDestroyExternalMemory, (cudaExternalMemory_t memory))
ABSENT(cudaImportExternalSemaphore,
       (cudaExternalSemaphore_t * semaphore, const struct cudaExternalSemaphoreHandleDesc *handle))
ABSENT(cudaSignalExternalSemaphoresAsync,
       (const cudaExternalSemaphore_t *semaphores, const struct cudaExternalSemaphoreSignalParams *params,
        unsigned int count, cudaStream_t stream))
ABSENT(cudaWaitExternalSemaphoresAsync,
       (const cudaExternalSemaphore_t *semaphores, const struct cudaExternalSemaphoreWaitParams *params,
        unsigned int count, cudaStream_t stream))
ABSENT(cudaDestroyExternalSemaphore, (cudaExternalSemaphore_t semaphore))
ABSENT(cudaDeviceGetNvSciSyncAttributes, (void *attributes, int device, int flags))

/* ---- arrays that are made of planes or mapped piece by piece ------------------------------------- */

ABSENT(cudaArrayGetPlane, (cudaArray_t * plane, cudaArray_t array, unsigned int index))
ABSENT(cudaArrayGetSparseProperties, (struct cudaArraySparseProperties * properties, cudaArray_t array))
ABSENT(cudaMipmappedArrayGetSparseProperties,
       (struct cudaArraySparseProperties * properties, cudaMipmappedArray_t mipmap))
ABSENT(cudaArrayGetMemoryRequirements,
       (struct cudaArrayMemoryRequirements * requirements, cudaArray_t array, int device))
ABSENT(cudaMipmappedArrayGetMemoryRequirements,
       (struct cudaArrayMemoryRequirements * requirements, cudaMipmappedArray_t mipmap, int device))
