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

#endif

#include "../include/vgc_old_warps.h"
