/* Forms of the runtime API for C++ in the guest's host code, over its functions for C. cuda_runtime_api.h declares both, and
 * includes this. */
#pragma once
#include "texture_types.h"

/* Before a kernel: it may run on the device or on the guest's CPU. */
#ifdef __VGC_LOCAL__
#define __vgc_either__ __attribute__((annotate("vgc.either")))
#undef __host__
#define __host__ __attribute__((host)) __attribute__((annotate("vgc.host")))
#undef __managed__
#define __managed__ __attribute__((device)) __attribute__((annotate("vgc.managed")))
#else
#define __vgc_either__
#endif

/* ---- names that clang looks for in objects with __managed__ variables, which it compiles as HIP ---- */

#ifdef __VGC_MANAGED__
typedef cudaError_t hipError_t;
typedef cudaStream_t hipStream_t;
extern "C" unsigned int __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, void *stream = 0)
    __asm__("__cudaPushCallConfiguration");
extern "C" hipError_t hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                                      hipStream_t stream);
#endif

/* ---- what CUB, Thrust and libcu++ ask of nvcc ---- */

/* nvcc hides what some lambdas return; clang knows it of all. */
#define __nv_is_extended_device_lambda_closure_type(...) false
#define __nv_is_extended_host_device_lambda_closure_type(...) false
#define __nv_is_extended_device_lambda_with_preserved_return_type(...) false
#ifdef __CUDACC_RDC__ /* their kernels are templates: the device does not launch them, and so does not compile them for that */
#ifndef CCCL_DISABLE_CDP
#define CCCL_DISABLE_CDP
#endif
#ifndef CUB_DISABLE_CDP
#define CUB_DISABLE_CDP
#endif
#endif

/* ---- memory ---- */

template <class T> inline cudaError_t cudaMalloc(T **memory, size_t bytes) {
    return cudaMalloc((void **)memory, bytes);
}
template <class T> inline cudaError_t cudaMallocHost(T **memory, size_t bytes, unsigned int flags) {
    return cudaHostAlloc((void **)memory, bytes, flags);
}
template <class T> inline cudaError_t cudaHostAlloc(T **memory, size_t bytes, unsigned int flags) {
    return cudaHostAlloc((void **)memory, bytes, flags);
}
template <class T> inline cudaError_t cudaHostGetDevicePointer(T **device, void *host, unsigned int flags) {
    return cudaHostGetDevicePointer((void **)device, host, flags);
}
template <class T> inline cudaError_t cudaMallocManaged(T **memory, size_t bytes, unsigned int flags) {
    return cudaMallocManaged((void **)memory, bytes, flags);
}
template <class T> inline cudaError_t cudaMallocPitch(T **memory, size_t *pitch, size_t width, size_t height) {
    return cudaMallocPitch((void **)memory, pitch, width, height);
}
template <class T> inline cudaError_t cudaMallocAsync(T **memory, size_t bytes, cudaStream_t stream) {
    return cudaMallocAsync((void **)memory, bytes, stream);
}
template <class T> inline cudaError_t cudaMallocFromPoolAsync(T **memory, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
    return cudaMallocFromPoolAsync((void **)memory, bytes, pool, stream);
}
template <class T> inline cudaError_t cudaMallocAsync(T **memory, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
    return cudaMallocFromPoolAsync((void **)memory, bytes, pool, stream);
}
template <class T>
inline cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, T *memory, size_t bytes, unsigned int flags) {
    return cudaStreamAttachMemAsync(stream, (void *)memory, bytes, flags);
}
inline cudaError_t cudaMemPrefetchAsync(const void *memory, size_t bytes, cudaMemLocation location, unsigned int flags,
                                        cudaStream_t stream) {
    return cudaMemPrefetchAsync_v2(memory, bytes, location, flags, stream);
}
inline cudaError_t cudaMemAdvise(const void *memory, size_t bytes, enum cudaMemoryAdvise advice, cudaMemLocation location) {
    return cudaMemAdvise_v2(memory, bytes, advice, location);
}
inline cudaPitchedPtr make_cudaPitchedPtr(void *memory, size_t pitch, size_t width, size_t height) {
    return {memory, pitch, width, height};
}
inline cudaPos make_cudaPos(size_t x, size_t y, size_t z) { return {x, y, z}; }
inline cudaExtent make_cudaExtent(size_t width, size_t height, size_t depth) { return {width, height, depth}; }

/* ---- variables of the device, by the address that they have in host code ---- */

template <class T> inline const void *__vgc_symbol(const T &symbol) {
    return const_cast<const char *>(&reinterpret_cast<const volatile char &>(symbol));
}
template <class T>
inline cudaError_t cudaMemcpyToSymbol(const T &symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind) {
    return cudaMemcpyToSymbol(__vgc_symbol(symbol), from, bytes, offset, kind);
}
template <class T>
inline cudaError_t cudaMemcpyToSymbolAsync(const T &symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
                                           cudaStream_t stream) {
    return cudaMemcpyToSymbolAsync(__vgc_symbol(symbol), from, bytes, offset, kind, stream);
}
template <class T>
inline cudaError_t cudaMemcpyFromSymbol(void *to, const T &symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind) {
    return cudaMemcpyFromSymbol(to, __vgc_symbol(symbol), bytes, offset, kind);
}
template <class T>
inline cudaError_t cudaMemcpyFromSymbolAsync(void *to, const T &symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
                                             cudaStream_t stream) {
    return cudaMemcpyFromSymbolAsync(to, __vgc_symbol(symbol), bytes, offset, kind, stream);
}
template <class T> inline cudaError_t cudaGetSymbolAddress(void **memory, const T &symbol) {
    return cudaGetSymbolAddress(memory, __vgc_symbol(symbol));
}
template <class T> inline cudaError_t cudaGetSymbolSize(size_t *bytes, const T &symbol) {
    return cudaGetSymbolSize(bytes, __vgc_symbol(symbol));
}
template <class T>
inline cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                                                  const T &symbol, const void *from, size_t bytes, size_t offset,
                                                  enum cudaMemcpyKind kind) {
    return cudaGraphAddMemcpyNodeToSymbol(node, graph, after, count, __vgc_symbol(symbol), from, bytes, offset, kind);
}
template <class T>
inline cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                                    size_t count, void *to, const T &symbol, size_t bytes, size_t offset,
                                                    enum cudaMemcpyKind kind) {
    return cudaGraphAddMemcpyNodeFromSymbol(node, graph, after, count, to, __vgc_symbol(symbol), bytes, offset, kind);
}

/* ---- events and graphs ---- */

inline cudaError_t cudaEventCreate(cudaEvent_t *event, unsigned int flags) { return cudaEventCreateWithFlags(event, flags); }
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, cudaGraphNode_t *wrong, char *log, size_t logBytes) {
    if (wrong != nullptr)
        *wrong = nullptr;
    if (log != nullptr && logBytes > 0)
        log[0] = 0;
    return cudaGraphInstantiate(exec, graph, 0ull);
}
inline cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                               unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **after, const cudaGraphEdgeData **data, size_t *count) {
    return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, after, data, count);
}
inline cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *after,
                                                       const cudaGraphEdgeData *data, size_t count, unsigned int flags) {
    return cudaStreamUpdateCaptureDependencies_v2(stream, after, data, count, flags);
}
inline cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                            const cudaGraphEdgeData *data, size_t count) {
    return cudaGraphAddDependencies_v2(graph, from, to, data, count);
}
inline cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                               const cudaGraphEdgeData *data, size_t count) {
    return cudaGraphRemoveDependencies_v2(graph, from, to, data, count);
}
inline cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *data,
                                     size_t *count) {
    return cudaGraphGetEdges_v2(graph, from, to, data, count);
}
inline cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *before, cudaGraphEdgeData *data,
                                                size_t *count) {
    return cudaGraphNodeGetDependencies_v2(node, before, data, count);
}
inline cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *behind, cudaGraphEdgeData *data,
                                                  size_t *count) {
    return cudaGraphNodeGetDependentNodes_v2(node, behind, data, count);
}
inline cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                    const cudaGraphEdgeData *data, size_t count, struct cudaGraphNodeParams *params) {
    return cudaGraphAddNode_v2(node, graph, after, data, count, params);
}
inline cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t *wrong,
                                       enum cudaGraphExecUpdateResult *result) {
    cudaGraphExecUpdateResultInfo info = {};
    const cudaError_t error = cudaGraphExecUpdate(exec, graph, &info);
    if (wrong != nullptr)
        *wrong = info.errorNode;
    if (result != nullptr)
        *result = info.result;
    return error;
}

/* ---- launches and functions ---- */

template <class T>
inline cudaError_t cudaLaunchKernel(T *function, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream) {
    return cudaLaunchKernel((const void *)function, grid, block, arguments, shared, stream);
}
template <class T>
inline cudaError_t cudaLaunchCooperativeKernel(T *function, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream) {
    return cudaLaunchCooperativeKernel((const void *)function, grid, block, arguments, shared, stream);
}
template <class... Parameters>
inline cudaError_t __vgc_launch(const cudaLaunchConfig_t *config, const void *function, Parameters... parameters) {
    void *list[] = {const_cast<char *>(&reinterpret_cast<const volatile char &>(parameters))..., nullptr};
    return cudaLaunchKernelExC(config, function, list);
}
/* The arguments are converted to the kernel's parameters, whose addresses it is launched with. */
template <class... Parameters, class... Arguments>
inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*function)(Parameters...), Arguments &&...arguments) {
    return __vgc_launch<Parameters...>(config, (const void *)function, static_cast<Arguments &&>(arguments)...);
}
template <class T> inline cudaError_t cudaFuncSetCacheConfig(T *function, enum cudaFuncCache config) {
    return cudaFuncSetCacheConfig((const void *)function, config);
}
template <class T> inline cudaError_t cudaFuncSetSharedMemConfig(T *function, enum cudaSharedMemConfig config) {
    return cudaFuncSetSharedMemConfig((const void *)function, config);
}
template <class T> inline cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, T *function) {
    return cudaFuncGetAttributes(attributes, (const void *)function);
}
template <class T> inline cudaError_t cudaFuncSetAttribute(T *function, enum cudaFuncAttribute attribute, int value) {
    return cudaFuncSetAttribute((const void *)function, attribute, value);
}
template <class T> inline cudaError_t cudaFuncGetName(const char **name, T *function) {
    return cudaFuncGetName(name, (const void *)function);
}

/* ---- occupancy ---- */

template <class T>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, T function, int blockSize, size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, (const void *)function, blockSize, shared,
                                                                  cudaOccupancyDefault);
}
template <class T>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, T function, int blockSize, size_t shared,
                                                                          unsigned int flags) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, (const void *)function, blockSize, shared,
                                                                  flags);
}
template <class T>
inline cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *shared, T *function, int blocks, int blockSize) {
    return cudaOccupancyAvailableDynamicSMemPerBlock(shared, (const void *)function, blocks, blockSize);
}
template <class T> inline cudaError_t cudaOccupancyMaxPotentialClusterSize(int *size, T *function, const cudaLaunchConfig_t *config) {
    return cudaOccupancyMaxPotentialClusterSize(size, (const void *)function, config);
}
template <class T> inline cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, T *function, const cudaLaunchConfig_t *config) {
    return cudaOccupancyMaxActiveClusters(clusters, (const void *)function, config);
}

/* Limits on the size of a block. */
struct __vgc_block_limits {
    int processor, block, processors, warp;
};
inline cudaError_t __vgc_limits_of(const void *function, __vgc_block_limits *limits) {
    const struct { cudaDeviceAttr attribute; int *value; } asked[] = {
        {cudaDevAttrMaxThreadsPerMultiProcessor, &limits->processor},
        {cudaDevAttrMaxThreadsPerBlock, &limits->block},
        {cudaDevAttrMultiProcessorCount, &limits->processors},
        {cudaDevAttrWarpSize, &limits->warp},
    };
    int device;
    cudaError_t error = cudaGetDevice(&device);
    for (unsigned i = 0; error == cudaSuccess && i < sizeof(asked) / sizeof(asked[0]); i++)
        error = cudaDeviceGetAttribute(asked[i].value, asked[i].attribute, device);
    cudaFuncAttributes attributes;
    if (error == cudaSuccess)
        error = cudaFuncGetAttributes(&attributes, function);
    if (error == cudaSuccess && attributes.maxThreadsPerBlock < limits->block)
        limits->block = attributes.maxThreadsPerBlock;
    return error;
}
/* The size of blocks with which most threads run on a multiprocessor: whole warps, from the largest size down; of equal
 * ones, the largest. */
template <class Shared, class T>
inline cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(int *minGridSize, int *blockSize, T function, Shared sharedOf,
                                                                           int limit = 0, unsigned int flags = 0) {
    if (minGridSize == nullptr || blockSize == nullptr || function == nullptr)
        return cudaErrorInvalidValue;
    __vgc_block_limits limits;
    cudaError_t error = __vgc_limits_of((const void *)function, &limits);
    if (error != cudaSuccess)
        return error;
    const int most = limit > 0 && limit < limits.block ? limit : limits.block;
    int best = 0;
    for (int warps = (most + limits.warp - 1) / limits.warp; warps > 0 && best < limits.processor; warps--) {
        const int size = warps * limits.warp < most ? warps * limits.warp : most;
        int blocks = 0;
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, function, size, sharedOf(size), flags);
        if (error != cudaSuccess)
            return error;
        if (blocks * size > best) {
            best = blocks * size;
            *blockSize = size;
            *minGridSize = blocks * limits.processors;
        }
    }
    return best > 0 ? cudaSuccess : cudaErrorInvalidValue;
}
template <class Shared, class T>
inline cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int *minGridSize, int *blockSize, T function, Shared sharedOf,
                                                                  int limit) {
    return cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(minGridSize, blockSize, function, sharedOf, limit,
                                                                   cudaOccupancyDefault);
}
struct __vgc_fixed_shared {
    size_t bytes;
    __host__ __device__ size_t operator()(int) const { return bytes; }
};
template <class T>
inline cudaError_t cudaOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, T function, size_t shared, int limit,
                                                               unsigned int flags) {
    return cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(minGridSize, blockSize, function, __vgc_fixed_shared{shared}, limit,
                                                                   flags);
}
template <class T>
inline cudaError_t cudaOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, T function, size_t shared, int limit) {
    return cudaOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, function, shared, limit, cudaOccupancyDefault);
}

/* ---- texture and surface references ---- */

template <class T, int dimensions, enum cudaTextureReadMode mode>
inline cudaError_t cudaBindTexture(size_t *offset, const texture<T, dimensions, mode> &reference, const void *memory,
                                   const cudaChannelFormatDesc &format, size_t bytes) {
    return cudaBindTexture(offset, static_cast<const textureReference *>(&reference), memory, &format, bytes);
}
template <class T, int dimensions, enum cudaTextureReadMode mode>
inline cudaError_t cudaBindTexture(size_t *offset, const texture<T, dimensions, mode> &reference, const void *memory, size_t bytes) {
    return cudaBindTexture(offset, reference, memory, cudaCreateChannelDesc<T>(), bytes);
}
template <class T, int dimensions, enum cudaTextureReadMode mode>
inline cudaError_t cudaBindTexture2D(size_t *offset, const texture<T, dimensions, mode> &reference, const void *memory,
                                     const cudaChannelFormatDesc &format, size_t width, size_t height, size_t pitch) {
    return cudaBindTexture2D(offset, static_cast<const textureReference *>(&reference), memory, &format, width, height, pitch);
}
template <class T, int dimensions, enum cudaTextureReadMode mode>
inline cudaError_t cudaBindTexture2D(size_t *offset, const texture<T, dimensions, mode> &reference, const void *memory, size_t width,
                                     size_t height, size_t pitch) {
    return cudaBindTexture2D(offset, reference, memory, cudaCreateChannelDesc<T>(), width, height, pitch);
}
template <class T, int dimensions, enum cudaTextureReadMode mode>
inline cudaError_t cudaBindTextureToArray(const texture<T, dimensions, mode> &reference, cudaArray_const_t array,
                                          const cudaChannelFormatDesc &format) {
    return cudaBindTextureToArray(static_cast<const textureReference *>(&reference), array, &format);
}
/* In the format of the array. */
template <class T, int dimensions, enum cudaTextureReadMode mode>
inline cudaError_t cudaBindTextureToArray(const texture<T, dimensions, mode> &reference, cudaArray_const_t array) {
    cudaChannelFormatDesc format;
    const cudaError_t error = cudaGetChannelDesc(&format, array);
    return error == cudaSuccess ? cudaBindTextureToArray(reference, array, format) : error;
}
template <class T, int dimensions, enum cudaTextureReadMode mode>
inline cudaError_t cudaBindTextureToMipmappedArray(const texture<T, dimensions, mode> &reference, cudaMipmappedArray_const_t array,
                                                   const cudaChannelFormatDesc &format) {
    return cudaBindTextureToMipmappedArray(static_cast<const textureReference *>(&reference), array, &format);
}
template <class T, int dimensions, enum cudaTextureReadMode mode>
inline cudaError_t cudaBindTextureToMipmappedArray(const texture<T, dimensions, mode> &reference, cudaMipmappedArray_const_t array) {
    cudaArray_t level;
    cudaChannelFormatDesc format;
    cudaError_t error = cudaGetMipmappedArrayLevel(&level, array, 0);
    if (error == cudaSuccess)
        error = cudaGetChannelDesc(&format, level);
    return error == cudaSuccess ? cudaBindTextureToMipmappedArray(reference, array, format) : error;
}
template <class T, int dimensions, enum cudaTextureReadMode mode>
inline cudaError_t cudaUnbindTexture(const texture<T, dimensions, mode> &reference) {
    return cudaUnbindTexture(static_cast<const textureReference *>(&reference));
}
template <class T, int dimensions, enum cudaTextureReadMode mode>
inline cudaError_t cudaGetTextureAlignmentOffset(size_t *offset, const texture<T, dimensions, mode> &reference) {
    return cudaGetTextureAlignmentOffset(offset, static_cast<const textureReference *>(&reference));
}
template <class T, int dimensions>
inline cudaError_t cudaBindSurfaceToArray(const surface<T, dimensions> &reference, cudaArray_const_t array,
                                          const cudaChannelFormatDesc &format) {
    return cudaBindSurfaceToArray(static_cast<const surfaceReference *>(&reference), array, &format);
}
template <class T, int dimensions>
inline cudaError_t cudaBindSurfaceToArray(const surface<T, dimensions> &reference, cudaArray_const_t array) {
    cudaChannelFormatDesc format;
    const cudaError_t error = cudaGetChannelDesc(&format, array);
    return error == cudaSuccess ? cudaBindSurfaceToArray(reference, array, format) : error;
}

#ifdef __CUDACC_RDC__
/* ---- relocatable device code ---- */

/* Registers a file's unit. clang calls a function for it that has a name of its own in each file, and that nvcc's device
 * linker would write; mynvcc lets all of them call this one (relocatable.cpp). */
extern "C" {
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **unit);
__attribute__((weak, used)) void __vgc_register_relocatable(void (*register_contents)(void **), void *wrapper, const void *,
                                                            void (*)(void **)) {
    void **unit = __cudaRegisterFatBinary(wrapper);
    register_contents(unit);
    __cudaRegisterFatBinaryEnd(unit);
}
}
#endif
