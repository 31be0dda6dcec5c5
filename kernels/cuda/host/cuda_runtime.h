/* The runtime's header as nvcc includes it before each source, with forms of CUDA 12 that CUDA 13 has taken away.
 *
 * Guests are told that they have CUDA 12, whatever compiler the host has. nvcc must parse their host code to know which
 * kernels it instantiates, but makes no code of it: only the declarations count here, and no structure's size. */
#pragma once

/* Members that cudaDeviceProp has no more, declared beside one that it has. */
#if __CUDACC_VER_MAJOR__ >= 13
#define mpsEnabled                                                                                                     \
    mpsEnabled, clockRate, deviceOverlap, kernelExecTimeoutEnabled, computeMode, maxTexture1DLinear, memoryClockRate,  \
        singleToDoublePrecisionPerfRatio, cooperativeMultiDeviceLaunch
#endif
#include_next <cuda_runtime.h>
#undef mpsEnabled

#if defined(__cplusplus) && defined(CUDART_VERSION) && CUDART_VERSION >= 13000
#include <cuda_profiler_api.h>

cudaError_t cudaThreadSynchronize();
cudaError_t cudaThreadExit();
cudaError_t cudaThreadSetLimit(cudaLimit, size_t);
cudaError_t cudaThreadGetLimit(size_t *, cudaLimit);
cudaError_t cudaThreadSetCacheConfig(cudaFuncCache);
cudaError_t cudaThreadGetCacheConfig(cudaFuncCache *);

/* A device by its number, where CUDA 13 has a location. */
cudaError_t cudaMemPrefetchAsync(const void *, size_t, int, cudaStream_t = nullptr);
cudaError_t cudaMemAdvise(const void *, size_t, cudaMemoryAdvise, int);

/* Edges without data. */
cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t *, const cudaGraphNode_t *, size_t);
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t, const cudaGraphNode_t *, const cudaGraphNode_t *, size_t);
cudaError_t cudaGraphGetEdges(cudaGraph_t, cudaGraphNode_t *, cudaGraphNode_t *, size_t *);
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t, cudaGraphNode_t *, size_t *);
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t, cudaGraphNode_t *, size_t *);
cudaError_t cudaGraphAddNode(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, cudaGraphNodeParams *);
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t, cudaGraphNode_t *, size_t, unsigned = 0);
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus *, unsigned long long * = nullptr,
                                     cudaGraph_t * = nullptr, const cudaGraphNode_t ** = nullptr, size_t * = nullptr);

/* Second forms, which are the only ones of CUDA 13, under plain names. */
cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp *, int);
cudaError_t cudaMemPrefetchAsync_v2(const void *, size_t, cudaMemLocation, unsigned, cudaStream_t = nullptr);
cudaError_t cudaMemAdvise_v2(const void *, size_t, cudaMemoryAdvise, cudaMemLocation);
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t, cudaStreamCaptureStatus *, unsigned long long * = nullptr,
                                        cudaGraph_t * = nullptr, const cudaGraphNode_t ** = nullptr,
                                        size_t * = nullptr);
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t, cudaStreamCaptureStatus *, unsigned long long *, cudaGraph_t *,
                                        const cudaGraphNode_t **, const cudaGraphEdgeData **, size_t *);
cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t, cudaStreamCaptureStatus *, unsigned long long * = nullptr,
                                        cudaGraph_t * = nullptr, const cudaGraphNode_t ** = nullptr,
                                        const cudaGraphEdgeData ** = nullptr, size_t * = nullptr);
cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t, cudaGraphNode_t *, const cudaGraphEdgeData *, size_t,
                                                   unsigned = 0);
cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, const cudaGraphEdgeData *,
                                size_t, cudaGraphNodeParams *);
cudaError_t cudaGraphAddDependencies_v2(cudaGraph_t, const cudaGraphNode_t *, const cudaGraphNode_t *,
                                        const cudaGraphEdgeData *, size_t);
cudaError_t cudaGraphRemoveDependencies_v2(cudaGraph_t, const cudaGraphNode_t *, const cudaGraphNode_t *,
                                           const cudaGraphEdgeData *, size_t);
cudaError_t cudaGraphGetEdges_v2(cudaGraph_t, cudaGraphNode_t *, cudaGraphNode_t *, cudaGraphEdgeData *, size_t *);
cudaError_t cudaGraphNodeGetDependencies_v2(cudaGraphNode_t, cudaGraphNode_t *, cudaGraphEdgeData *, size_t *);
cudaError_t cudaGraphNodeGetDependentNodes_v2(cudaGraphNode_t, cudaGraphNode_t *, cudaGraphEdgeData *, size_t *);

/* Cooperative launches on several devices. */
struct cudaLaunchParams {
    void *func;
    dim3 gridDim, blockDim;
    void **args;
    size_t sharedMem;
    cudaStream_t stream;
};
enum { cudaCooperativeLaunchMultiDeviceNoPreSync = 1, cudaCooperativeLaunchMultiDeviceNoPostSync = 2 };
constexpr auto cudaDevAttrCooperativeMultiDeviceLaunch = static_cast<cudaDeviceAttr>(96);
cudaError_t cudaLaunchCooperativeKernelMultiDevice(cudaLaunchParams *, unsigned, unsigned = 0);

#endif

#include "../include/vgc_old_warps.h"
