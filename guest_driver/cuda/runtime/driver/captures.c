/* Captures of streams by the driver API, which are the runtime's. */
#include "runtime.h"

_Static_assert(sizeof(CUgraphEdgeData) == sizeof(cudaGraphEdgeData), "both interfaces have the same data of edges");

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    return RT_IN_CONTEXT(cudaStreamBeginCapture(stream, (enum cudaStreamCaptureMode)mode));
}

#undef cuStreamBeginCapture
CUresult cuStreamBeginCapture(CUstream stream);
CUresult cuStreamBeginCapture(CUstream stream) /* in CUDA 10.0 */
{
    return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *after,
                                     const CUgraphEdgeData *data, size_t count, CUstreamCaptureMode mode)
{
    return RT_IN_CONTEXT(cudaStreamBeginCaptureToGraph(stream, graph, after, (const cudaGraphEdgeData *)data, count,
                                                       (enum cudaStreamCaptureMode)mode));
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    return RT_IN_CONTEXT(cudaThreadExchangeStreamCaptureMode((enum cudaStreamCaptureMode *)mode));
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    return RT_IN_CONTEXT(cudaStreamEndCapture(stream, graph));
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    return RT_IN_CONTEXT(cudaStreamIsCapturing(stream, (enum cudaStreamCaptureStatus *)status));
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                   const CUgraphNode **after, size_t *count)
{
    return RT_IN_CONTEXT(cudaStreamGetCaptureInfo_v2(stream, (enum cudaStreamCaptureStatus *)status,
                                                     (unsigned long long *)id, graph, after, count));
}

#undef cuStreamGetCaptureInfo
CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id);
CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id) /* before CUDA 12 */
{
    return cuStreamGetCaptureInfo_v2(stream, status, id, NULL, NULL, NULL);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                   const CUgraphNode **after, const CUgraphEdgeData **data, size_t *count)
{
    return RT_IN_CONTEXT(cudaStreamGetCaptureInfo_v3(stream, (enum cudaStreamCaptureStatus *)status,
                                                     (unsigned long long *)id, graph, after,
                                                     (const cudaGraphEdgeData **)data, count));
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *after, size_t count, unsigned int flags)
{
    return RT_IN_CONTEXT(cudaStreamUpdateCaptureDependencies(stream, after, count, flags));
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *after, const CUgraphEdgeData *data,
                                              size_t count, unsigned int flags)
{
    return RT_IN_CONTEXT(
        cudaStreamUpdateCaptureDependencies_v2(stream, after, (const cudaGraphEdgeData *)data, count, flags));
}
