/* Forms of the API in which the default stream is the calling thread's own: programs call them that were compiled with
 * --default-stream per-thread. */
#include "runtime.h"

#define PER_THREAD(name, suffix, parameters, arguments)                                                                \
    cudaError_t name##suffix parameters;                                                                               \
    RT_API cudaError_t name##suffix parameters                                                                         \
    {                                                                                                                  \
        bool before = rt_default_is_per_thread;                                                                        \
        rt_default_is_per_thread = true;                                                                               \
        cudaError_t error = name arguments;                                                                            \
        rt_default_is_per_thread = before;                                                                             \
        return error;                                                                                                  \
    }

PER_THREAD(cudaMemcpy, _ptds, (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind),
           (to, from, bytes, kind))
PER_THREAD(cudaMemcpyToSymbol, _ptds,
           (const void *symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind),
           (symbol, from, bytes, offset, kind))
PER_THREAD(cudaMemcpyFromSymbol, _ptds,
           (void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind),
           (to, symbol, bytes, offset, kind))
PER_THREAD(cudaMemcpy2D, _ptds,
           (void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width, size_t height,
            enum cudaMemcpyKind kind),
           (to, toPitch, from, fromPitch, width, height, kind))
PER_THREAD(cudaMemcpyToArray, _ptds,
           (cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes, enum cudaMemcpyKind kind),
           (to, x, y, from, bytes, kind))
PER_THREAD(cudaMemcpy2DToArray, _ptds,
           (cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height,
            enum cudaMemcpyKind kind),
           (to, x, y, from, pitch, width, height, kind))
PER_THREAD(cudaMemcpyFromArray, _ptds,
           (void *to, cudaArray_const_t from, size_t x, size_t y, size_t bytes, enum cudaMemcpyKind kind),
           (to, from, x, y, bytes, kind))
PER_THREAD(cudaMemcpy2DFromArray, _ptds,
           (void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width, size_t height,
            enum cudaMemcpyKind kind),
           (to, pitch, from, x, y, width, height, kind))
PER_THREAD(cudaMemcpyArrayToArray, _ptds,
           (cudaArray_t to, size_t toX, size_t toY, cudaArray_const_t from, size_t fromX, size_t fromY, size_t bytes,
            enum cudaMemcpyKind kind),
           (to, toX, toY, from, fromX, fromY, bytes, kind))
PER_THREAD(cudaMemcpy2DArrayToArray, _ptds,
           (cudaArray_t to, size_t toX, size_t toY, cudaArray_const_t from, size_t fromX, size_t fromY, size_t width,
            size_t height, enum cudaMemcpyKind kind),
           (to, toX, toY, from, fromX, fromY, width, height, kind))
PER_THREAD(cudaMemcpy3D, _ptds, (const struct cudaMemcpy3DParms *copy), (copy))
PER_THREAD(cudaMemcpy3DPeer, _ptds, (const struct cudaMemcpy3DPeerParms *copy), (copy))
PER_THREAD(cudaMemset, _ptds, (void *memory, int value, size_t bytes), (memory, value, bytes))
PER_THREAD(cudaMemset2D, _ptds, (void *memory, size_t pitch, int value, size_t width, size_t height),
           (memory, pitch, value, width, height))
PER_THREAD(cudaMemset3D, _ptds, (struct cudaPitchedPtr memory, int value, struct cudaExtent extent),
           (memory, value, extent))
PER_THREAD(cudaGraphUpload, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))
PER_THREAD(cudaGraphLaunch, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))
PER_THREAD(cudaGraphInstantiateWithParams, _ptsz,
           (cudaGraphExec_t * exec, cudaGraph_t graph, cudaGraphInstantiateParams *params), (exec, graph, params))
PER_THREAD(cudaStreamBeginCapture, _ptsz, (cudaStream_t stream, enum cudaStreamCaptureMode mode), (stream, mode))
PER_THREAD(cudaStreamBeginCaptureToGraph, _ptsz,
           (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *after, const cudaGraphEdgeData *data,
            size_t count, enum cudaStreamCaptureMode mode),
           (stream, graph, after, data, count, mode))
PER_THREAD(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t *graph), (stream, graph))
PER_THREAD(cudaStreamIsCapturing, _ptsz, (cudaStream_t stream, enum cudaStreamCaptureStatus *status), (stream, status))
PER_THREAD(cudaStreamGetCaptureInfo_v2, _ptsz,
           (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
            const cudaGraphNode_t **after, size_t *count),
           (stream, status, id, graph, after, count))
PER_THREAD(cudaStreamGetCaptureInfo_v3, _ptsz,
           (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
            const cudaGraphNode_t **after, const cudaGraphEdgeData **data, size_t *count),
           (stream, status, id, graph, after, data, count))
PER_THREAD(cudaStreamUpdateCaptureDependencies, _ptsz,
           (cudaStream_t stream, cudaGraphNode_t *after, size_t count, unsigned int flags),
           (stream, after, count, flags))
PER_THREAD(cudaMemcpyAsync, _ptsz,
           (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream),
           (to, from, bytes, kind, stream))
PER_THREAD(cudaMemcpyToSymbolAsync, _ptsz,
           (const void *symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
            cudaStream_t stream),
           (symbol, from, bytes, offset, kind, stream))
PER_THREAD(cudaMemcpyFromSymbolAsync, _ptsz,
           (void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream),
           (to, symbol, bytes, offset, kind, stream))
PER_THREAD(cudaMemcpy2DAsync, _ptsz,
           (void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width, size_t height,
            enum cudaMemcpyKind kind, cudaStream_t stream),
           (to, toPitch, from, fromPitch, width, height, kind, stream))
PER_THREAD(cudaMemcpyToArrayAsync, _ptsz,
           (cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes, enum cudaMemcpyKind kind,
            cudaStream_t stream),
           (to, x, y, from, bytes, kind, stream))
PER_THREAD(cudaMemcpy2DToArrayAsync, _ptsz,
           (cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height,
            enum cudaMemcpyKind kind, cudaStream_t stream),
           (to, x, y, from, pitch, width, height, kind, stream))
PER_THREAD(cudaMemcpyFromArrayAsync, _ptsz,
           (void *to, cudaArray_const_t from, size_t x, size_t y, size_t bytes, enum cudaMemcpyKind kind,
            cudaStream_t stream),
           (to, from, x, y, bytes, kind, stream))
PER_THREAD(cudaMemcpy2DFromArrayAsync, _ptsz,
           (void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width, size_t height,
            enum cudaMemcpyKind kind, cudaStream_t stream),
           (to, pitch, from, x, y, width, height, kind, stream))
PER_THREAD(cudaMemcpy3DAsync, _ptsz, (const struct cudaMemcpy3DParms *copy, cudaStream_t stream), (copy, stream))
PER_THREAD(cudaMemcpy3DPeerAsync, _ptsz, (const struct cudaMemcpy3DPeerParms *copy, cudaStream_t stream),
           (copy, stream))
PER_THREAD(cudaMemsetAsync, _ptsz, (void *memory, int value, size_t bytes, cudaStream_t stream),
           (memory, value, bytes, stream))
PER_THREAD(cudaMemset2DAsync, _ptsz,
           (void *memory, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
           (memory, pitch, value, width, height, stream))
PER_THREAD(cudaMemset3DAsync, _ptsz,
           (struct cudaPitchedPtr memory, int value, struct cudaExtent extent, cudaStream_t stream),
           (memory, value, extent, stream))
PER_THREAD(cudaStreamQuery, _ptsz, (cudaStream_t stream), (stream))
PER_THREAD(cudaStreamGetFlags, _ptsz, (cudaStream_t stream, unsigned int *flags), (stream, flags))
PER_THREAD(cudaStreamGetId, _ptsz, (cudaStream_t stream, unsigned long long *id), (stream, id))
PER_THREAD(cudaStreamGetDevice, _ptsz, (cudaStream_t stream, int *device), (stream, device))
PER_THREAD(cudaStreamGetPriority, _ptsz, (cudaStream_t stream, int *priority), (stream, priority))
PER_THREAD(cudaStreamSynchronize, _ptsz, (cudaStream_t stream), (stream))
PER_THREAD(cudaStreamWaitEvent, _ptsz, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
           (stream, event, flags))
PER_THREAD(cudaStreamAddCallback, _ptsz,
           (cudaStream_t stream, cudaStreamCallback_t callback, void *data, unsigned int flags),
           (stream, callback, data, flags))
PER_THREAD(cudaStreamAttachMemAsync, _ptsz, (cudaStream_t stream, void *memory, size_t length, unsigned int flags),
           (stream, memory, length, flags))
PER_THREAD(cudaStreamCopyAttributes, _ptsz, (cudaStream_t to, cudaStream_t from), (to, from))
PER_THREAD(cudaStreamGetAttribute, _ptsz,
           (cudaStream_t stream, cudaLaunchAttributeID id, cudaLaunchAttributeValue *value), (stream, id, value))
PER_THREAD(cudaStreamSetAttribute, _ptsz,
           (cudaStream_t stream, cudaLaunchAttributeID id, const cudaLaunchAttributeValue *value), (stream, id, value))
PER_THREAD(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream), (event, stream))
PER_THREAD(cudaEventRecordWithFlags, _ptsz, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
           (event, stream, flags))
PER_THREAD(cudaLaunchKernel, _ptsz,
           (const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream),
           (function, grid, block, arguments, shared, stream))
PER_THREAD(cudaLaunchCooperativeKernel, _ptsz,
           (const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream),
           (function, grid, block, arguments, shared, stream))
PER_THREAD(cudaLaunchKernelExC, _ptsz, (const cudaLaunchConfig_t *config, const void *function, void **arguments),
           (config, function, arguments))
PER_THREAD(cudaLaunchHostFunc, _ptsz, (cudaStream_t stream, cudaHostFn_t function, void *data),
           (stream, function, data))
PER_THREAD(cudaMemPrefetchAsync, _ptsz, (const void *memory, size_t bytes, int device, cudaStream_t stream),
           (memory, bytes, device, stream))
PER_THREAD(cudaMallocAsync, _ptsz, (void **memory, size_t bytes, cudaStream_t stream), (memory, bytes, stream))
PER_THREAD(cudaFreeAsync, _ptsz, (void *memory, cudaStream_t stream), (memory, stream))
PER_THREAD(cudaMallocFromPoolAsync, _ptsz, (void **memory, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
           (memory, bytes, pool, stream))

unsigned int __cudaPushCallConfiguration_ptsz(dim3 grid, dim3 block, size_t shared, void *stream);

RT_API unsigned int __cudaPushCallConfiguration_ptsz(dim3 grid, dim3 block, size_t shared, void *stream)
{
    return __cudaPushCallConfiguration(grid, block, shared, stream == NULL ? cudaStreamPerThread : stream);
}
