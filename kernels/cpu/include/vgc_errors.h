/* The part of CUDA's runtime API that device code has without launching anything: errors and their texts. */
#pragma once
#include "cuda_runtime_api.h"
#include "vgc_error_texts.h"

extern "C" __device__ int __vgc_launch_error(int clear);

__VGC_FN__ cudaError_t cudaGetLastError() { return static_cast<cudaError_t>(__vgc_launch_error(1)); }
__VGC_FN__ cudaError_t cudaPeekAtLastError() { return static_cast<cudaError_t>(__vgc_launch_error(0)); }
__VGC_FN__ cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
__VGC_FN__ cudaError_t __cudaDeviceSynchronizeDeprecationAvoidance() { return cudaSuccess; }
__VGC_FN__ cudaError_t cudaRuntimeGetVersion(int *version) { return *version = CUDART_VERSION, cudaSuccess; }
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
