/* The part of CUDA's runtime API that device code has without launching anything: errors and their texts, the device,
 * conditions of graphs. */
#pragma once
#include "cuda_runtime_api.h"
#include "vgc_error_texts.h"

extern "C" __device__ int __vgc_launch_error(int clear);
extern "C" __device__ int __vgc_launch_wait();
extern "C" __device__ unsigned __vgc_num_pes();

__VGC_FN__ cudaError_t cudaGetLastError() { return static_cast<cudaError_t>(__vgc_launch_error(1)); }
__VGC_FN__ cudaError_t cudaPeekAtLastError() { return static_cast<cudaError_t>(__vgc_launch_error(0)); }
/* Grids that the block has launched end before it returns. */
__VGC_FN__ cudaError_t cudaDeviceSynchronize() { return static_cast<cudaError_t>(__vgc_launch_wait()); }
__VGC_FN__ cudaError_t __cudaDeviceSynchronizeDeprecationAvoidance() { return cudaDeviceSynchronize(); }
__VGC_FN__ cudaError_t cudaRuntimeGetVersion(int *version) { return *version = CUDART_VERSION, cudaSuccess; }
/* Attributes that this header can know; the host's function knows the others, too. */
__VGC_FN__ cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    if (device != 0) return cudaErrorInvalidDevice;
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY: return *value = 1024, cudaSuccess;
    case cudaDevAttrMaxBlockDimZ: return *value = 64, cudaSuccess;
    case cudaDevAttrMaxGridDimX: return *value = 0x7fffffff, cudaSuccess;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: return *value = 65535, cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock: return *value = 48 << 10, cudaSuccess;
    case cudaDevAttrMultiProcessorCount: return *value = static_cast<int>(__vgc_num_pes()), cudaSuccess;
    case cudaDevAttrWarpSize: return *value = 32, cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor: return *value = 8, cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: return *value = 0, cudaSuccess;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrCooperativeLaunch: return *value = 1, cudaSuccess;
    default: return cudaErrorNotSupported;
    }
}
__VGC_FN__ cudaError_t cudaDeviceGetLimit(size_t *value, cudaLimit limit) {
    switch (limit) {
    case cudaLimitMallocHeapSize: return *value = __VGC_HEAP_BYTES__, cudaSuccess;
    case cudaLimitDevRuntimePendingLaunchCount: return *value = 2048, cudaSuccess;
    default: return cudaErrorUnsupportedLimit;
    }
}
__VGC_FN__ cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache *config) { return *config = cudaFuncCachePreferNone, cudaSuccess; }
__VGC_FN__ cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig *config) {
    return *config = cudaSharedMemBankSizeFourByte, cudaSuccess;
}
/* The handle is the address of the condition, which the guest's runtime reads. Programs declare the function, too, as CUDA's
 * header does, in C. */
extern "C" {
__VGC_FN__ void cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned value) {
    *reinterpret_cast<volatile unsigned *>(handle) = value;
}
}
__VGC_FN__ cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
__VGC_FN__ cudaError_t cudaGetDeviceCount(int *count) { return *count = 1, cudaSuccess; }

__VGC_FN__ const char *cudaGetErrorString(cudaError_t error) {
#define __VGC_TEXT(name, text) case name: return text;
    switch (error) {
        __VGC_ERRORS(__VGC_TEXT)
    default: return "unrecognized error code";
    }
#undef __VGC_TEXT
}
__VGC_FN__ const char *cudaGetErrorName(cudaError_t error) {
#define __VGC_NAME(name, text) case name: return #name;
    switch (error) {
        __VGC_ERRORS(__VGC_NAME)
    default: return "unrecognized error code";
    }
#undef __VGC_NAME
}
#undef __VGC_ERRORS
