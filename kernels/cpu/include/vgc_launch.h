/* Launches in device code, and the parts of CUDA's runtime API that go with them. Grids run in the order of their launches, when
 * their block waits or has ended, unless their stream is cudaStreamTailLaunch: streams and events have nothing to order. Copies,
 * fills and cudaFree() let those run that were launched before. */
#pragma once
#include "cuda_runtime_api.h"
#include "vgc_heap.h"

extern "C" {
/* Configuration, from between <<< and >>>; the compiler puts the call of the kernel before it (launches.cpp). */
__host__ __device__ void __vgc_configure(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = 0);
}

/* Streams are numbers that no named stream has; all but cudaStreamTailLaunch are alike. */
__VGC_FN__ cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
    return *stream = reinterpret_cast<cudaStream_t>(0x100), cudaSuccess;
}
__VGC_FN__ cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
__VGC_FN__ cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned = 0) { return cudaSuccess; }
__VGC_FN__ cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
    return *event = reinterpret_cast<cudaEvent_t>(0x100), cudaSuccess;
}
__VGC_FN__ cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t = 0) { return cudaSuccess; }
__VGC_FN__ cudaError_t cudaEventRecordWithFlags(cudaEvent_t, cudaStream_t = 0, unsigned = 0) { return cudaSuccess; }
__VGC_FN__ cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }

__VGC_FN__ cudaError_t cudaMalloc(void **memory, size_t bytes) {
    *memory = malloc(bytes);
    return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
template <class T> __VGC_FN__ cudaError_t cudaMalloc(T **memory, size_t bytes) {
    *memory = static_cast<T *>(malloc(bytes));
    return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
__VGC_FN__ cudaError_t cudaFree(void *memory) { return __vgc_launch_wait(), free(memory), cudaSuccess; }
__VGC_FN__ cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t = 0) {
    return __vgc_launch_wait(), __builtin_memcpy(to, from, bytes), cudaSuccess;
}
__VGC_FN__ cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t = 0) {
    return __vgc_launch_wait(), __builtin_memset(memory, value, bytes), cudaSuccess;
}
__VGC_FN__ cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                                         cudaMemcpyKind, cudaStream_t = 0) {
    __vgc_launch_wait();
    for (size_t row = 0; row < height; row++)
        __builtin_memcpy(static_cast<char *>(to) + row * to_pitch, static_cast<const char *>(from) + row * from_pitch, width);
    return cudaSuccess;
}
__VGC_FN__ cudaError_t cudaMemset2DAsync(void *memory, size_t pitch, int value, size_t width, size_t height, cudaStream_t = 0) {
    __vgc_launch_wait();
    for (size_t row = 0; row < height; row++)
        __builtin_memset(static_cast<char *>(memory) + row * pitch, value, width);
    return cudaSuccess;
}
