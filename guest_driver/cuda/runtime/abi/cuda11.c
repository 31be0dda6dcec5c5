/* libcudart.so.11.0, where CUDA 11's functions differ from those of CUDA 12: other parameters, or structs that are
 * smaller, which programs have no more room for than that.
 *
 * What other files define under these names, for CUDA 12, is called core_... in this library (see Makefile). */
#define cudaRuntimeGetVersion core_cudaRuntimeGetVersion
#define cudaFuncGetAttributes core_cudaFuncGetAttributes
#define cudaCreateTextureObject core_cudaCreateTextureObject
#define cudaGetTextureObjectTextureDesc core_cudaGetTextureObjectTextureDesc
#define cudaGraphInstantiate core_cudaGraphInstantiate
#define cudaGraphExecUpdate core_cudaGraphExecUpdate
#define cudaGetDriverEntryPoint core_cudaGetDriverEntryPoint
#define cudaGetDriverEntryPoint_ptsz core_cudaGetDriverEntryPoint_ptsz
#include "runtime.h"
#undef cudaGetDriverEntryPoint
#undef cudaGetDriverEntryPoint_ptsz
#undef cudaRuntimeGetVersion
#undef cudaFuncGetAttributes
#undef cudaCreateTextureObject
#undef cudaGetTextureObjectTextureDesc
#undef cudaGraphInstantiate
#undef cudaGraphExecUpdate

#include <stdio.h>
#include <string.h>

#include "texture_types.h"

enum { VERSION = 11080, FUNCTION_BYTES = 52, TEXTURE_BYTES = 68 };

_Static_assert(offsetof(struct cudaFuncAttributes, clusterDimMustBeSet) == FUNCTION_BYTES, "CUDA 11 ends here");
_Static_assert(offsetof(struct cudaTextureDesc, seamlessCubemap) == TEXTURE_BYTES, "CUDA 11 ends here");

cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function);
cudaError_t cudaCreateTextureObject(cudaTextureObject_t *texture, const struct cudaResourceDesc *resource,
                                    const struct cudaTextureDesc *sampling, const struct cudaResourceViewDesc *view);
cudaError_t cudaCreateTextureObject_v2(cudaTextureObject_t *texture, const struct cudaResourceDesc *resource,
                                       const struct cudaTextureDesc *sampling, const struct cudaResourceViewDesc *view);
cudaError_t cudaGetTextureObjectTextureDesc(struct cudaTextureDesc *sampling, cudaTextureObject_t texture);
cudaError_t cudaGetTextureObjectTextureDesc_v2(struct cudaTextureDesc *sampling, cudaTextureObject_t texture);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, cudaGraphNode_t *wrong, char *log,
                                 size_t log_bytes);
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t *wrong,
                                enum cudaGraphExecUpdateResult *result);

RT_API cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (version == NULL)
        return rt_return(cudaErrorInvalidValue);
    *version = VERSION;
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function)
{
    struct cudaFuncAttributes all;
    if (attributes == NULL)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = core_cudaFuncGetAttributes(&all, function);
    if (error == cudaSuccess)
        memcpy(attributes, &all, FUNCTION_BYTES);
    return error;
}

RT_API cudaError_t cudaCreateTextureObject(cudaTextureObject_t *texture, const struct cudaResourceDesc *resource,
                                           const struct cudaTextureDesc *sampling,
                                           const struct cudaResourceViewDesc *view)
{
    struct cudaTextureDesc all = {0};
    if (sampling != NULL)
        memcpy(&all, sampling, TEXTURE_BYTES);
    return core_cudaCreateTextureObject(texture, resource, sampling != NULL ? &all : NULL, view);
}

RT_API cudaError_t cudaCreateTextureObject_v2(cudaTextureObject_t *texture, const struct cudaResourceDesc *resource,
                                              const struct cudaTextureDesc *sampling,
                                              const struct cudaResourceViewDesc *view)
{
    return core_cudaCreateTextureObject(texture, resource, sampling, view);
}

RT_API cudaError_t cudaGetTextureObjectTextureDesc(struct cudaTextureDesc *sampling, cudaTextureObject_t texture)
{
    struct cudaTextureDesc all;
    if (sampling == NULL)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = core_cudaGetTextureObjectTextureDesc(&all, texture);
    if (error == cudaSuccess)
        memcpy(sampling, &all, TEXTURE_BYTES);
    return error;
}

RT_API cudaError_t cudaGetTextureObjectTextureDesc_v2(struct cudaTextureDesc *sampling, cudaTextureObject_t texture)
{
    return core_cudaGetTextureObjectTextureDesc(sampling, texture);
}

RT_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, cudaGraphNode_t *wrong, char *log,
                                        size_t log_bytes)
{
    cudaError_t error = core_cudaGraphInstantiate(exec, graph, 0);
    if (wrong != NULL)
        *wrong = NULL;
    if (log != NULL && log_bytes > 0)
        (void)snprintf(log, log_bytes, "%s", error == cudaSuccess ? "" : cudaGetErrorString(error));
    return error;
}

RT_API cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t *wrong,
                                       enum cudaGraphExecUpdateResult *result)
{
    cudaGraphExecUpdateResultInfo info = {0};
    cudaError_t error = core_cudaGraphExecUpdate(exec, graph, &info);
    if (wrong != NULL)
        *wrong = info.errorNode;
    if (result != NULL)
        *result = info.result;
    return error;
}

/* Without a place for the answer of CUDA 12. */
cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags);
cudaError_t cudaGetDriverEntryPoint_ptsz(const char *name, void **function, unsigned long long flags);

RT_API cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags)
{
    return cudaGetDriverEntryPointByVersion(name, function, VERSION, flags, NULL);
}

RT_API cudaError_t cudaGetDriverEntryPoint_ptsz(const char *name, void **function, unsigned long long flags)
{
    return cudaGetDriverEntryPointByVersion(name, function, VERSION,
                                            flags != 0 ? flags : cudaEnablePerThreadDefaultStream, NULL);
}
