// Rule: errors have the names, the texts and the numbers that the documentation gives them.
#include "check.h"
#include <string.h>

static void expect(cudaError_t error, int number, const char *name, const char *text)
{
    EXPECT_EQUAL(error, number);
    if (strcmp(cudaGetErrorName(error), name) || (text && strcmp(cudaGetErrorString(error), text))) {
        printf("FAIL: %d is '%s', '%s'\n", number, cudaGetErrorName(error), cudaGetErrorString(error));
        failures++;
    }
}

int main()
{
    expect(cudaSuccess, 0, "cudaSuccess", "no error");
    expect(cudaErrorInvalidValue, 1, "cudaErrorInvalidValue", "invalid argument");
    expect(cudaErrorMemoryAllocation, 2, "cudaErrorMemoryAllocation", "out of memory");
    expect(cudaErrorInitializationError, 3, "cudaErrorInitializationError", "initialization error");
    expect(cudaErrorInvalidConfiguration, 9, "cudaErrorInvalidConfiguration", "invalid configuration argument");
    expect(cudaErrorInvalidPitchValue, 12, "cudaErrorInvalidPitchValue", "invalid pitch argument");
    expect(cudaErrorInvalidSymbol, 13, "cudaErrorInvalidSymbol", "invalid device symbol");
    expect(cudaErrorInvalidMemcpyDirection, 21, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy");
    expect(cudaErrorInsufficientDriver, 35, "cudaErrorInsufficientDriver",
           "CUDA driver version is insufficient for CUDA runtime version");
    expect(cudaErrorInvalidDeviceFunction, 98, "cudaErrorInvalidDeviceFunction", "invalid device function");
    expect(cudaErrorNoDevice, 100, "cudaErrorNoDevice", "no CUDA-capable device is detected");
    expect(cudaErrorInvalidDevice, 101, "cudaErrorInvalidDevice", "invalid device ordinal");
    expect(cudaErrorNoKernelImageForDevice, 209, "cudaErrorNoKernelImageForDevice",
           "no kernel image is available for execution on the device");
    expect(cudaErrorInvalidResourceHandle, 400, "cudaErrorInvalidResourceHandle", "invalid resource handle");
    expect(cudaErrorNotReady, 600, "cudaErrorNotReady", "device not ready");
    expect(cudaErrorIllegalAddress, 700, "cudaErrorIllegalAddress", "an illegal memory access was encountered");
    expect(cudaErrorLaunchOutOfResources, 701, "cudaErrorLaunchOutOfResources",
           "too many resources requested for launch");
    expect(cudaErrorLaunchTimeout, 702, "cudaErrorLaunchTimeout", "the launch timed out and was terminated");
    expect(cudaErrorAssert, 710, "cudaErrorAssert", "device-side assert triggered");
    expect(cudaErrorLaunchFailure, 719, "cudaErrorLaunchFailure", "unspecified launch failure");
    expect(cudaErrorCooperativeLaunchTooLarge, 720, "cudaErrorCooperativeLaunchTooLarge",
           "too many blocks in cooperative launch");
    expect(cudaErrorNotSupported, 801, "cudaErrorNotSupported", "operation not supported");
    expect(cudaErrorStreamCaptureUnsupported, 900, "cudaErrorStreamCaptureUnsupported",
           "operation not permitted when stream is capturing");
    expect(cudaErrorUnknown, 999, "cudaErrorUnknown", "unknown error");
    expect((cudaError_t)12345, 12345, "unrecognized error code", "unrecognized error code");
    return finish();
}
