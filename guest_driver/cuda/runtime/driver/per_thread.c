/* Forms of functions in which the default stream is the calling thread's own: programs compiled with
 * --default-stream per-thread call them, or ask cuGetProcAddress() for them by its flag. */
#include "runtime.h"

#define PER_THREAD(name, suffix, parameters, arguments)                                                                \
    CUresult name##suffix parameters;                                                                                  \
    CUresult name##suffix parameters                                                                                   \
    {                                                                                                                  \
        const bool before = rt_default_is_per_thread;                                                                  \
        rt_default_is_per_thread = true;                                                                               \
        const CUresult result = name arguments;                                                                        \
        rt_default_is_per_thread = before;                                                                             \
        return result;                                                                                                 \
    }

/* Names that cuda.h gives to newer forms are the oldest ones here. */
#undef cuStreamBeginCapture
#undef cuStreamGetCaptureInfo
CUresult cuStreamBeginCapture(CUstream stream);
CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id);

PER_THREAD(cuMemPrefetchAsync_v2, _ptsz,
           (CUdeviceptr memory, size_t bytes, CUmemLocation location, unsigned int flags, CUstream stream),
           (memory, bytes, location, flags, stream))
PER_THREAD(cuMemcpyHtoD, _ptds, (CUdeviceptr to, const void *from, size_t bytes), (to, from, bytes))
PER_THREAD(cuMemcpyDtoH, _ptds, (void *to, CUdeviceptr from, size_t bytes), (to, from, bytes))
PER_THREAD(cuMemcpyDtoD, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes))
PER_THREAD(cuMemcpyDtoA, _ptds, (CUarray to, size_t offset, CUdeviceptr from, size_t bytes), (to, offset, from, bytes))
PER_THREAD(cuMemcpyAtoD, _ptds, (CUdeviceptr to, CUarray from, size_t offset, size_t bytes), (to, from, offset, bytes))
PER_THREAD(cuMemcpyHtoA, _ptds, (CUarray to, size_t offset, const void *from, size_t bytes), (to, offset, from, bytes))
PER_THREAD(cuMemcpyAtoH, _ptds, (void *to, CUarray from, size_t offset, size_t bytes), (to, from, offset, bytes))
PER_THREAD(cuMemcpyAtoA, _ptds, (CUarray to, size_t toOffset, CUarray from, size_t fromOffset, size_t bytes),
           (to, toOffset, from, fromOffset, bytes))
PER_THREAD(cuMemcpyHtoAAsync, _ptsz, (CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream),
           (to, offset, from, bytes, stream))
PER_THREAD(cuMemcpyAtoHAsync, _ptsz, (void *to, CUarray from, size_t offset, size_t bytes, CUstream stream),
           (to, from, offset, bytes, stream))
PER_THREAD(cuMemcpy2D, _ptds, (const CUDA_MEMCPY2D *copy), (copy))
PER_THREAD(cuMemcpy2DUnaligned, _ptds, (const CUDA_MEMCPY2D *copy), (copy))
PER_THREAD(cuMemcpy3D, _ptds, (const CUDA_MEMCPY3D *copy), (copy))
PER_THREAD(cuMemcpyHtoDAsync, _ptsz, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream),
           (to, from, bytes, stream))
PER_THREAD(cuMemcpyDtoHAsync, _ptsz, (void *to, CUdeviceptr from, size_t bytes, CUstream stream),
           (to, from, bytes, stream))
PER_THREAD(cuMemcpyDtoDAsync, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
           (to, from, bytes, stream))
PER_THREAD(cuMemcpy2DAsync, _ptsz, (const CUDA_MEMCPY2D *copy, CUstream stream), (copy, stream))
PER_THREAD(cuMemcpy3DAsync, _ptsz, (const CUDA_MEMCPY3D *copy, CUstream stream), (copy, stream))
PER_THREAD(cuMemsetD8, _ptds, (CUdeviceptr memory, unsigned char value, size_t count), (memory, value, count))
PER_THREAD(cuMemsetD16, _ptds, (CUdeviceptr memory, unsigned short value, size_t count), (memory, value, count))
PER_THREAD(cuMemsetD32, _ptds, (CUdeviceptr memory, unsigned int value, size_t count), (memory, value, count))
PER_THREAD(cuMemsetD2D8, _ptds, (CUdeviceptr memory, size_t pitch, unsigned char value, size_t width, size_t height),
           (memory, pitch, value, width, height))
PER_THREAD(cuMemsetD2D16, _ptds, (CUdeviceptr memory, size_t pitch, unsigned short value, size_t width, size_t height),
           (memory, pitch, value, width, height))
PER_THREAD(cuMemsetD2D32, _ptds, (CUdeviceptr memory, size_t pitch, unsigned int value, size_t width, size_t height),
           (memory, pitch, value, width, height))
PER_THREAD(cuStreamBeginCapture_v2, _ptsz, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
PER_THREAD(cuStreamGetCaptureInfo_v3, _ptsz,
           (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **after,
            const CUgraphEdgeData **data, size_t *count),
           (stream, status, id, graph, after, data, count))
PER_THREAD(cuStreamUpdateCaptureDependencies_v2, _ptsz,
           (CUstream stream, CUgraphNode *after, const CUgraphEdgeData *data, size_t count, unsigned int flags),
           (stream, after, data, count, flags))
PER_THREAD(cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes))
PER_THREAD(cuMemcpyAsync, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
           (to, from, bytes, stream))
PER_THREAD(cuMemcpyPeer, _ptds, (CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes),
           (to, there, from, here, bytes))
PER_THREAD(cuMemcpyPeerAsync, _ptsz,
           (CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes, CUstream stream),
           (to, there, from, here, bytes, stream))
PER_THREAD(cuMemcpy3DPeer, _ptds, (const CUDA_MEMCPY3D_PEER *copy), (copy))
PER_THREAD(cuMemcpy3DPeerAsync, _ptsz, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream), (copy, stream))
PER_THREAD(cuMemsetD8Async, _ptsz, (CUdeviceptr memory, unsigned char value, size_t count, CUstream stream),
           (memory, value, count, stream))
PER_THREAD(cuMemsetD16Async, _ptsz, (CUdeviceptr memory, unsigned short value, size_t count, CUstream stream),
           (memory, value, count, stream))
PER_THREAD(cuMemsetD32Async, _ptsz, (CUdeviceptr memory, unsigned int value, size_t count, CUstream stream),
           (memory, value, count, stream))
PER_THREAD(cuMemsetD2D8Async, _ptsz,
           (CUdeviceptr memory, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream),
           (memory, pitch, value, width, height, stream))
PER_THREAD(cuMemsetD2D16Async, _ptsz,
           (CUdeviceptr memory, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream),
           (memory, pitch, value, width, height, stream))
PER_THREAD(cuMemsetD2D32Async, _ptsz,
           (CUdeviceptr memory, size_t pitch, unsigned int value, size_t width, size_t height, CUstream stream),
           (memory, pitch, value, width, height, stream))
PER_THREAD(cuStreamGetPriority, _ptsz, (CUstream stream, int *priority), (stream, priority))
PER_THREAD(cuStreamGetId, _ptsz, (CUstream stream, unsigned long long *id), (stream, id))
PER_THREAD(cuStreamGetFlags, _ptsz, (CUstream stream, unsigned int *flags), (stream, flags))
PER_THREAD(cuStreamGetDevice, _ptsz, (CUstream stream, CUdevice *device), (stream, device))
PER_THREAD(cuStreamGetCtx, _ptsz, (CUstream stream, CUcontext *context), (stream, context))
PER_THREAD(cuStreamGetCtx_v2, _ptsz, (CUstream stream, CUcontext *context, CUgreenCtx *green), (stream, context, green))
PER_THREAD(cuStreamWaitEvent, _ptsz, (CUstream stream, CUevent event, unsigned int flags), (stream, event, flags))
PER_THREAD(cuStreamEndCapture, _ptsz, (CUstream stream, CUgraph *graph), (stream, graph))
PER_THREAD(cuStreamIsCapturing, _ptsz, (CUstream stream, CUstreamCaptureStatus *status), (stream, status))
PER_THREAD(cuStreamAddCallback, _ptsz, (CUstream stream, CUstreamCallback callback, void *data, unsigned int flags),
           (stream, callback, data, flags))
PER_THREAD(cuStreamAttachMemAsync, _ptsz, (CUstream stream, CUdeviceptr memory, size_t length, unsigned int flags),
           (stream, memory, length, flags))
PER_THREAD(cuStreamQuery, _ptsz, (CUstream stream), (stream))
PER_THREAD(cuStreamSynchronize, _ptsz, (CUstream stream), (stream))
PER_THREAD(cuEventRecord, _ptsz, (CUevent event, CUstream stream), (event, stream))
PER_THREAD(cuEventRecordWithFlags, _ptsz, (CUevent event, CUstream stream, unsigned int flags), (event, stream, flags))
PER_THREAD(cuLaunchKernel, _ptsz,
           (CUfunction function, unsigned int gridX, unsigned int gridY, unsigned int gridZ, unsigned int blockX,
            unsigned int blockY, unsigned int blockZ, unsigned int shared, CUstream stream, void **parameters,
            void **extra),
           (function, gridX, gridY, gridZ, blockX, blockY, blockZ, shared, stream, parameters, extra))
PER_THREAD(cuLaunchKernelEx, _ptsz,
           (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra),
           (config, function, parameters, extra))
PER_THREAD(cuLaunchHostFunc, _ptsz, (CUstream stream, CUhostFn function, void *data), (stream, function, data))
PER_THREAD(cuLaunchCooperativeKernel, _ptsz,
           (CUfunction function, unsigned int gridX, unsigned int gridY, unsigned int gridZ, unsigned int blockX,
            unsigned int blockY, unsigned int blockZ, unsigned int shared, CUstream stream, void **parameters),
           (function, gridX, gridY, gridZ, blockX, blockY, blockZ, shared, stream, parameters))
PER_THREAD(cuGraphInstantiateWithParams, _ptsz,
           (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters), (exec, graph, parameters))
PER_THREAD(cuGraphUpload, _ptsz, (CUgraphExec exec, CUstream stream), (exec, stream))
PER_THREAD(cuGraphLaunch, _ptsz, (CUgraphExec exec, CUstream stream), (exec, stream))
PER_THREAD(cuStreamCopyAttributes, _ptsz, (CUstream to, CUstream from), (to, from))
PER_THREAD(cuStreamGetAttribute, _ptsz, (CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue *value),
           (stream, attribute, value))
PER_THREAD(cuStreamSetAttribute, _ptsz, (CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue *value),
           (stream, attribute, value))
PER_THREAD(cuMemFreeAsync, _ptsz, (CUdeviceptr memory, CUstream stream), (memory, stream))
PER_THREAD(cuMemAllocAsync, _ptsz, (CUdeviceptr * memory, size_t bytes, CUstream stream), (memory, bytes, stream))
PER_THREAD(cuMemAllocFromPoolAsync, _ptsz, (CUdeviceptr * memory, size_t bytes, CUmemoryPool pool, CUstream stream),
           (memory, bytes, pool, stream))
PER_THREAD(cuStreamBeginCaptureToGraph, _ptsz,
           (CUstream stream, CUgraph graph, const CUgraphNode *after, const CUgraphEdgeData *data, size_t count,
            CUstreamCaptureMode mode),
           (stream, graph, after, data, count, mode))
PER_THREAD(cuStreamGetCaptureInfo_v2, _ptsz,
           (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **after,
            size_t *count),
           (stream, status, id, graph, after, count))
PER_THREAD(cuMemPrefetchAsync, _ptsz, (CUdeviceptr memory, size_t bytes, CUdevice device, CUstream stream),
           (memory, bytes, device, stream))
PER_THREAD(cuStreamUpdateCaptureDependencies, _ptsz,
           (CUstream stream, CUgraphNode *after, size_t count, unsigned int flags), (stream, after, count, flags))
PER_THREAD(cuStreamBeginCapture, _ptsz, (CUstream stream), (stream))
PER_THREAD(cuStreamGetCaptureInfo, _ptsz, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id),
           (stream, status, id))
