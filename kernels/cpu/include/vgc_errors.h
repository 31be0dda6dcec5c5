/* The part of CUDA's runtime API that device code has without launching anything: errors and their texts. */
#pragma once
#include "cuda_runtime_api.h"

extern "C" __device__ int __vgc_launch_error(int clear);

__VGC_FN__ cudaError_t cudaGetLastError() { return static_cast<cudaError_t>(__vgc_launch_error(1)); }
__VGC_FN__ cudaError_t cudaPeekAtLastError() { return static_cast<cudaError_t>(__vgc_launch_error(0)); }
__VGC_FN__ cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
__VGC_FN__ cudaError_t __cudaDeviceSynchronizeDeprecationAvoidance() { return cudaSuccess; }
__VGC_FN__ cudaError_t cudaRuntimeGetVersion(int *version) { return *version = CUDART_VERSION, cudaSuccess; }
__VGC_FN__ cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
__VGC_FN__ cudaError_t cudaGetDeviceCount(int *count) { return *count = 1, cudaSuccess; }

/* Errors that kernels may meet or are often handed. */
#define __VGC_ERRORS(with) \
    with(cudaSuccess, "no error") \
    with(cudaErrorInvalidValue, "invalid argument") \
    with(cudaErrorMemoryAllocation, "out of memory") \
    with(cudaErrorInitializationError, "initialization error") \
    with(cudaErrorInvalidConfiguration, "invalid configuration argument") \
    with(cudaErrorInvalidSymbol, "invalid device symbol") \
    with(cudaErrorInvalidDevicePointer, "invalid device pointer") \
    with(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy") \
    with(cudaErrorLaunchMaxDepthExceeded, "launch would exceed maximum depth of nested launches") \
    with(cudaErrorLaunchPendingCountExceeded, "launch would exceed maximum number of pending launches") \
    with(cudaErrorInvalidDeviceFunction, "invalid device function") \
    with(cudaErrorNoDevice, "no CUDA-capable device is detected") \
    with(cudaErrorInvalidDevice, "invalid device ordinal") \
    with(cudaErrorInvalidResourceHandle, "invalid resource handle") \
    with(cudaErrorNotReady, "device not ready") \
    with(cudaErrorIllegalAddress, "an illegal memory access was encountered") \
    with(cudaErrorLaunchOutOfResources, "too many resources requested for launch") \
    with(cudaErrorLaunchTimeout, "the launch timed out and was terminated") \
    with(cudaErrorAssert, "device-side assert triggered") \
    with(cudaErrorMisalignedAddress, "misaligned address") \
    with(cudaErrorLaunchFailure, "unspecified launch failure") \
    with(cudaErrorNotPermitted, "operation not permitted") \
    with(cudaErrorNotSupported, "operation not supported") \
    with(cudaErrorUnknown, "unknown error")
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
