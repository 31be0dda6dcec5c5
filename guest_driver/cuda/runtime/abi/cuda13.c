/* libcudart.so.13, where CUDA 13's functions differ from those of CUDA 12: other parameters, or structs with other
 * fields or more room. What other files define under these names, for CUDA 12, is called core_... in this library (see
 * Makefile). */
#define cudaRuntimeGetVersion core_cudaRuntimeGetVersion
#define cudaDriverGetVersion core_cudaDriverGetVersion
#define cudaChooseDevice core_cudaChooseDevice
#define cudaPointerGetAttributes core_cudaPointerGetAttributes
#define cudaGetTextureObjectResourceDesc core_cudaGetTextureObjectResourceDesc
#define cudaGetTextureObjectResourceViewDesc core_cudaGetTextureObjectResourceViewDesc
#define cudaGetSurfaceObjectResourceDesc core_cudaGetSurfaceObjectResourceDesc
#define cudaMemAdvise core_cudaMemAdvise
#define cudaMemPrefetchAsync core_cudaMemPrefetchAsync
#define cudaMemPrefetchAsync_ptsz core_cudaMemPrefetchAsync_ptsz
#define cudaStreamUpdateCaptureDependencies core_cudaStreamUpdateCaptureDependencies
#define cudaStreamUpdateCaptureDependencies_ptsz core_cudaStreamUpdateCaptureDependencies_ptsz
#define cudaGraphAddDependencies core_cudaGraphAddDependencies
#define cudaGraphRemoveDependencies core_cudaGraphRemoveDependencies
#define cudaGraphGetEdges core_cudaGraphGetEdges
#define cudaGraphNodeGetDependencies core_cudaGraphNodeGetDependencies
#define cudaGraphNodeGetDependentNodes core_cudaGraphNodeGetDependentNodes
#define cudaGraphAddNode core_cudaGraphAddNode
#include "graphs/edge_data.h"
#include "runtime.h"
#undef cudaRuntimeGetVersion
#undef cudaDriverGetVersion
#undef cudaChooseDevice
#undef cudaPointerGetAttributes
#undef cudaGetTextureObjectResourceDesc
#undef cudaGetTextureObjectResourceViewDesc
#undef cudaGetSurfaceObjectResourceDesc
#undef cudaMemAdvise
#undef cudaMemPrefetchAsync
#undef cudaMemPrefetchAsync_ptsz
#undef cudaStreamUpdateCaptureDependencies
#undef cudaStreamUpdateCaptureDependencies_ptsz
#undef cudaGraphAddDependencies
#undef cudaGraphRemoveDependencies
#undef cudaGraphGetEdges
#undef cudaGraphNodeGetDependencies
#undef cudaGraphNodeGetDependentNodes
#undef cudaGraphAddNode
#undef cudaGetDeviceProperties
#undef cudaStreamGetCaptureInfo

#include <string.h>

#include "texture_types.h"

enum { VERSION = 13000, PROPERTIES_BYTES = 1008, POINTER_BYTES = 88, RESOURCE_BYTES = 144, VIEW_BYTES = 112 };

struct properties {
#define FIELD(type, name, dimension) type name dimension;
#include "properties13.h"
#undef FIELD
    int device_numa_config;
    int device_numa_id;
    int mps_enabled;
    int host_numa_id;
    unsigned gpu_pci_device_id;
    unsigned gpu_pci_subsystem_id;
    int host_numa_multinode_ipc_supported;
    int reserved[56];
};
_Static_assert(sizeof(struct properties) == PROPERTIES_BYTES, "programs have room for this");

static void enlarge(void *to, size_t room, const void *from, size_t size)
{
    memcpy(to, from, size);
    memset((char *)to + size, 0, room - size);
}

cudaError_t cudaRuntimeGetVersion(int *version);

RT_API cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (version == NULL)
        return rt_return(cudaErrorInvalidValue);
    *version = VERSION;
    return rt_return(cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int *version);

RT_API cudaError_t cudaDriverGetVersion(int *version)
{
    cudaError_t error = core_cudaDriverGetVersion(version);
    if (error == cudaSuccess && *version != 0)
        *version = VERSION;
    return error;
}

cudaError_t cudaGetDeviceProperties(struct properties *properties, int ordinal);

RT_API cudaError_t cudaGetDeviceProperties(struct properties *properties, int ordinal)
{
    struct cudaDeviceProp all;
    if (properties == NULL)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = cudaGetDeviceProperties_v2(&all, ordinal);
    if (error != cudaSuccess)
        return error;
    memset(properties, 0, sizeof(*properties));
#define FIELD(type, name, dimension) memcpy(&properties->name, &all.name, sizeof(all.name));
#include "properties13.h"
#undef FIELD
    properties->device_numa_id = properties->host_numa_id = -1; /* none */
    return error;
}

cudaError_t cudaChooseDevice(int *ordinal, const struct properties *wanted);

RT_API cudaError_t cudaChooseDevice(int *ordinal, const struct properties *wanted)
{
    struct cudaDeviceProp all = {0};
    if (wanted == NULL)
        return rt_return(cudaErrorInvalidValue);
#define FIELD(type, name, dimension) memcpy(&all.name, &wanted->name, sizeof(all.name));
#include "properties13.h"
#undef FIELD
    return core_cudaChooseDevice(ordinal, &all);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *memory);

RT_API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *memory)
{
    struct cudaPointerAttributes all;
    if (attributes == NULL)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = core_cudaPointerGetAttributes(&all, memory);
    if (error == cudaSuccess)
        enlarge(attributes, POINTER_BYTES, &all, sizeof(all));
    return error;
}

cudaError_t cudaGetTextureObjectResourceDesc(struct cudaResourceDesc *resource, cudaTextureObject_t texture);

RT_API cudaError_t cudaGetTextureObjectResourceDesc(struct cudaResourceDesc *resource, cudaTextureObject_t texture)
{
    struct cudaResourceDesc all;
    if (resource == NULL)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = core_cudaGetTextureObjectResourceDesc(&all, texture);
    if (error == cudaSuccess)
        enlarge(resource, RESOURCE_BYTES, &all, sizeof(all));
    return error;
}

cudaError_t cudaGetSurfaceObjectResourceDesc(struct cudaResourceDesc *resource, cudaSurfaceObject_t surface);

RT_API cudaError_t cudaGetSurfaceObjectResourceDesc(struct cudaResourceDesc *resource, cudaSurfaceObject_t surface)
{
    struct cudaResourceDesc all;
    if (resource == NULL)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = core_cudaGetSurfaceObjectResourceDesc(&all, surface);
    if (error == cudaSuccess)
        enlarge(resource, RESOURCE_BYTES, &all, sizeof(all));
    return error;
}

cudaError_t cudaGetTextureObjectResourceViewDesc(struct cudaResourceViewDesc *view, cudaTextureObject_t texture);

RT_API cudaError_t cudaGetTextureObjectResourceViewDesc(struct cudaResourceViewDesc *view, cudaTextureObject_t texture)
{
    struct cudaResourceViewDesc all;
    if (view == NULL)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = core_cudaGetTextureObjectResourceViewDesc(&all, texture);
    if (error == cudaSuccess)
        enlarge(view, VIEW_BYTES, &all, sizeof(all));
    return error;
}

cudaError_t cudaMemAdvise(const void *memory, size_t bytes, enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location);

RT_API cudaError_t cudaMemAdvise(const void *memory, size_t bytes, enum cudaMemoryAdvise advice,
                                 struct cudaMemLocation location)
{
    return cudaMemAdvise_v2(memory, bytes, advice, location);
}

cudaError_t cudaMemPrefetchAsync(const void *memory, size_t bytes, struct cudaMemLocation location, unsigned int flags,
                                 cudaStream_t stream);

RT_API cudaError_t cudaMemPrefetchAsync(const void *memory, size_t bytes, struct cudaMemLocation location,
                                        unsigned int flags, cudaStream_t stream)
{
    return cudaMemPrefetchAsync_v2(memory, bytes, location, flags, stream);
}

cudaError_t cudaMemPrefetchAsync_ptsz(const void *memory, size_t bytes, struct cudaMemLocation location,
                                      unsigned int flags, cudaStream_t stream);

RT_API cudaError_t cudaMemPrefetchAsync_ptsz(const void *memory, size_t bytes, struct cudaMemLocation location,
                                             unsigned int flags, cudaStream_t stream)
{
    return cudaMemPrefetchAsync_v2(memory, bytes, location, flags, stream == NULL ? cudaStreamPerThread : stream);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                     cudaGraph_t *graph, const cudaGraphNode_t **after, const cudaGraphEdgeData **data,
                                     size_t *count);

RT_API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                            unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **after,
                                            const cudaGraphEdgeData **data, size_t *count)
{
    return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, after, data, count);
}

cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                          unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **after,
                                          const cudaGraphEdgeData **data, size_t *count);

RT_API cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                                 unsigned long long *id, cudaGraph_t *graph,
                                                 const cudaGraphNode_t **after, const cudaGraphEdgeData **data,
                                                 size_t *count)
{
    return cudaStreamGetCaptureInfo_v3(stream == NULL ? cudaStreamPerThread : stream, status, id, graph, after, data,
                                       count);
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *after,
                                                const cudaGraphEdgeData *data, size_t count, unsigned int flags);

RT_API cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *after,
                                                       const cudaGraphEdgeData *data, size_t count, unsigned int flags)
{
    return cudaStreamUpdateCaptureDependencies_v2(stream, after, data, count, flags);
}

cudaError_t cudaStreamUpdateCaptureDependencies_ptsz(cudaStream_t stream, cudaGraphNode_t *after,
                                                     const cudaGraphEdgeData *data, size_t count, unsigned int flags);

RT_API cudaError_t cudaStreamUpdateCaptureDependencies_ptsz(cudaStream_t stream, cudaGraphNode_t *after,
                                                            const cudaGraphEdgeData *data, size_t count,
                                                            unsigned int flags)
{
    return cudaStreamUpdateCaptureDependencies_v2(stream == NULL ? cudaStreamPerThread : stream, after, data, count,
                                                  flags);
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                     const cudaGraphEdgeData *data, size_t count);

RT_API cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                            const cudaGraphEdgeData *data, size_t count)
{
    return cudaGraphAddDependencies_v2(graph, from, to, data, count);
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                        const cudaGraphEdgeData *data, size_t count);

RT_API cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                               const cudaGraphNode_t *to, const cudaGraphEdgeData *data, size_t count)
{
    return cudaGraphRemoveDependencies_v2(graph, from, to, data, count);
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *data,
                              size_t *count);

RT_API cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                                     cudaGraphEdgeData *data, size_t *count)
{
    return cudaGraphGetEdges_v2(graph, from, to, data, count);
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *before, cudaGraphEdgeData *data,
                                         size_t *count);

RT_API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *before, cudaGraphEdgeData *data,
                                                size_t *count)
{
    return cudaGraphNodeGetDependencies_v2(node, before, data, count);
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *behind, cudaGraphEdgeData *data,
                                           size_t *count);

RT_API cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *behind,
                                                  cudaGraphEdgeData *data, size_t *count)
{
    return cudaGraphNodeGetDependentNodes_v2(node, behind, data, count);
}

cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                             const cudaGraphEdgeData *data, size_t count, struct cudaGraphNodeParams *params);

RT_API cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                    const cudaGraphEdgeData *data, size_t count, struct cudaGraphNodeParams *params)
{
    return cudaGraphAddNode_v2(node, graph, after, data, count, params);
}
