/* Forms of functions that CUDA 12 has beside its others: with data of edges between nodes of graphs, all of which are
 * plain here, and older forms that programs compiled before still call. */
#include <string.h>

#include "edge_data.h"

#undef cudaStreamGetCaptureInfo

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id);
cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                          unsigned long long *id);
cudaError_t cudaStreamUpdateCaptureDependencies_v2_ptsz(cudaStream_t stream, cudaGraphNode_t *after,
                                                        const cudaGraphEdgeData *data, size_t count,
                                                        unsigned int flags);
cudaError_t cudaMemPrefetchAsync_v2_ptsz(const void *memory, size_t bytes, struct cudaMemLocation location,
                                         unsigned int flags, cudaStream_t stream);
cudaError_t cudaSetDoubleForDevice(double *value);
cudaError_t cudaSetDoubleForHost(double *value);

/* Edges of other kinds let a kernel begin before the one ahead of it has ended. */
static cudaError_t check_data(const cudaGraphEdgeData *data, size_t count)
{
    static const cudaGraphEdgeData plain;
    for (size_t i = 0; data != NULL && i < count; i++)
        if (memcmp(&data[i], &plain, sizeof(plain)) != 0)
            return rt_unsupported("edges of graphs other than plain ones (programmatic dependent launch)");
    return cudaSuccess;
}

/* `room` as the program gave it: data of the edges that fit into it. */
static void clear_data(cudaGraphEdgeData *data, size_t room, size_t count)
{
    if (data != NULL)
        memset(data, 0, RT_MIN(room, count) * sizeof(*data));
}

RT_API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                            unsigned long long *id)
{
    return cudaStreamGetCaptureInfo_v2(stream, status, id, NULL, NULL, NULL);
}

RT_API cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                                 unsigned long long *id)
{
    return cudaStreamGetCaptureInfo(stream == NULL ? cudaStreamPerThread : stream, status, id);
}

RT_API cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream, cudaGraphNode_t *after,
                                                          const cudaGraphEdgeData *data, size_t count,
                                                          unsigned int flags)
{
    cudaError_t error = check_data(data, count);
    return error != cudaSuccess ? rt_return(error) : cudaStreamUpdateCaptureDependencies(stream, after, count, flags);
}

RT_API cudaError_t cudaStreamUpdateCaptureDependencies_v2_ptsz(cudaStream_t stream, cudaGraphNode_t *after,
                                                               const cudaGraphEdgeData *data, size_t count,
                                                               unsigned int flags)
{
    return cudaStreamUpdateCaptureDependencies_v2(stream == NULL ? cudaStreamPerThread : stream, after, data, count,
                                                  flags);
}

RT_API cudaError_t cudaGraphAddDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t *from,
                                               const cudaGraphNode_t *to, const cudaGraphEdgeData *data, size_t count)
{
    cudaError_t error = check_data(data, count);
    return error != cudaSuccess ? rt_return(error) : cudaGraphAddDependencies(graph, from, to, count);
}

RT_API cudaError_t cudaGraphRemoveDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t *from,
                                                  const cudaGraphNode_t *to, const cudaGraphEdgeData *data,
                                                  size_t count)
{
    cudaError_t error = check_data(data, count);
    return error != cudaSuccess ? rt_return(error) : cudaGraphRemoveDependencies(graph, from, to, count);
}

RT_API cudaError_t cudaGraphGetEdges_v2(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                                        cudaGraphEdgeData *data, size_t *count)
{
    size_t room = count != NULL && from != NULL ? *count : 0;
    cudaError_t error = cudaGraphGetEdges(graph, from, to, count);
    if (error == cudaSuccess && count != NULL)
        clear_data(data, room, *count);
    return error;
}

RT_API cudaError_t cudaGraphNodeGetDependencies_v2(cudaGraphNode_t node, cudaGraphNode_t *before,
                                                   cudaGraphEdgeData *data, size_t *count)
{
    size_t room = count != NULL && before != NULL ? *count : 0;
    cudaError_t error = cudaGraphNodeGetDependencies(node, before, count);
    if (error == cudaSuccess && count != NULL)
        clear_data(data, room, *count);
    return error;
}

RT_API cudaError_t cudaGraphNodeGetDependentNodes_v2(cudaGraphNode_t node, cudaGraphNode_t *behind,
                                                     cudaGraphEdgeData *data, size_t *count)
{
    size_t room = count != NULL && behind != NULL ? *count : 0;
    cudaError_t error = cudaGraphNodeGetDependentNodes(node, behind, count);
    if (error == cudaSuccess && count != NULL)
        clear_data(data, room, *count);
    return error;
}

RT_API cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                       const cudaGraphEdgeData *data, size_t count, struct cudaGraphNodeParams *params)
{
    cudaError_t error = check_data(data, count);
    return error != cudaSuccess ? rt_return(error) : cudaGraphAddNode(node, graph, after, count, params);
}

RT_API cudaError_t cudaMemPrefetchAsync_v2_ptsz(const void *memory, size_t bytes, struct cudaMemLocation location,
                                                unsigned int flags, cudaStream_t stream)
{
    return cudaMemPrefetchAsync_v2(memory, bytes, location, flags, stream == NULL ? cudaStreamPerThread : stream);
}

/* Devices without double are gone: nothing is converted. */
RT_API cudaError_t cudaSetDoubleForDevice(double *value)
{
    return rt_return(value == NULL ? cudaErrorInvalidValue : cudaSuccess);
}

RT_API cudaError_t cudaSetDoubleForHost(double *value)
{
    return rt_return(value == NULL ? cudaErrorInvalidValue : cudaSuccess);
}
