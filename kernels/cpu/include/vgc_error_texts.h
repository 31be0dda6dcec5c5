/* Texts of all errors of the runtime API, for device code and for the runtime of host code. */
#pragma once

#define __VGC_ERRORS(with) \
    with(cudaSuccess, "no error") \
    with(cudaErrorInvalidValue, "invalid argument") \
    with(cudaErrorMemoryAllocation, "out of memory") \
    with(cudaErrorInitializationError, "initialization error") \
    with(cudaErrorCudartUnloading, "driver shutting down") \
    with(cudaErrorProfilerDisabled, "profiler disabled while using external profiling tool") \
    with(cudaErrorProfilerNotInitialized, "profiler not initialized: call cudaProfilerInitialize()") \
    with(cudaErrorProfilerAlreadyStarted, "profiler already started") \
    with(cudaErrorProfilerAlreadyStopped, "profiler already stopped") \
    with(cudaErrorInvalidConfiguration, "invalid configuration argument") \
    with(cudaErrorInvalidPitchValue, "invalid pitch argument") \
    with(cudaErrorInvalidSymbol, "invalid device symbol") \
    with(cudaErrorInvalidHostPointer, "invalid host pointer") \
    with(cudaErrorInvalidDevicePointer, "invalid device pointer") \
    with(cudaErrorInvalidTexture, "invalid texture reference") \
    with(cudaErrorInvalidTextureBinding, "texture is not bound to a pointer") \
    with(cudaErrorInvalidChannelDescriptor, "invalid channel descriptor") \
    with(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy") \
    with(cudaErrorAddressOfConstant, "invalid address of constant") \
    with(cudaErrorTextureFetchFailed, "fetch from texture failed") \
    with(cudaErrorTextureNotBound, "cannot fetch from a texture that is not bound") \
    with(cudaErrorSynchronizationError, "incorrect use of __syncthreads()") \
    with(cudaErrorInvalidFilterSetting, "linear filtering not supported for non-float type") \
    with(cudaErrorInvalidNormSetting, "read as normalized float not supported for data type") \
    with(cudaErrorMixedDeviceExecution, "device emulation mode and device execution mode cannot be mixed") \
    with(cudaErrorNotYetImplemented, "feature not yet implemented") \
    with(cudaErrorMemoryValueTooLarge, "memory size or pointer value too large to fit in 32 bit") \
    with(cudaErrorStubLibrary, "CUDA driver is a stub library") \
    with(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version") \
    with(cudaErrorCallRequiresNewerDriver, "API call is not supported in the installed CUDA driver") \
    with(cudaErrorInvalidSurface, "invalid surface reference") \
    with(cudaErrorDuplicateVariableName, "duplicate global variable looked up by string name") \
    with(cudaErrorDuplicateTextureName, "duplicate texture looked up by string name") \
    with(cudaErrorDuplicateSurfaceName, "duplicate surface looked up by string name") \
    with(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable") \
    with(cudaErrorIncompatibleDriverContext, "incompatible driver context") \
    with(cudaErrorMissingConfiguration, "__global__ function call is not configured") \
    with(cudaErrorPriorLaunchFailure, "unspecified launch failure in prior launch") \
    with(cudaErrorLaunchMaxDepthExceeded, "launch would exceed maximum depth of nested launches") \
    with(cudaErrorLaunchFileScopedTex, "launch failed because kernel uses unsupported, file-scoped textures (texture objects are supported)") \
    with(cudaErrorLaunchFileScopedSurf, "launch failed because kernel uses unsupported, file-scoped surfaces (surface objects are supported)") \
    with(cudaErrorSyncDepthExceeded, "cudaDeviceSynchronize failed because caller's grid depth exceeds cudaLimitDevRuntimeSyncDepth") \
    with(cudaErrorLaunchPendingCountExceeded, "launch failed because launch would exceed cudaLimitDevRuntimePendingLaunchCount") \
    with(cudaErrorInvalidDeviceFunction, "invalid device function") \
    with(cudaErrorNoDevice, "no CUDA-capable device is detected") \
    with(cudaErrorInvalidDevice, "invalid device ordinal") \
    with(cudaErrorDeviceNotLicensed, "device doesn't have valid Grid license") \
    with(cudaErrorSoftwareValidityNotEstablished, "integrity checks failed") \
    with(cudaErrorStartupFailure, "startup failure in cuda runtime") \
    with(cudaErrorInvalidKernelImage, "device kernel image is invalid") \
    with(cudaErrorDeviceUninitialized, "invalid device context") \
    with(cudaErrorMapBufferObjectFailed, "mapping of buffer object failed") \
    with(cudaErrorUnmapBufferObjectFailed, "unmapping of buffer object failed") \
    with(cudaErrorArrayIsMapped, "array is mapped") \
    with(cudaErrorAlreadyMapped, "resource already mapped") \
    with(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device") \
    with(cudaErrorAlreadyAcquired, "resource already acquired") \
    with(cudaErrorNotMapped, "resource not mapped") \
    with(cudaErrorNotMappedAsArray, "resource not mapped as array") \
    with(cudaErrorNotMappedAsPointer, "resource not mapped as pointer") \
    with(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered") \
    with(cudaErrorUnsupportedLimit, "limit is not supported on this architecture") \
    with(cudaErrorDeviceAlreadyInUse, "exclusive-thread device already in use by a different thread") \
    with(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices") \
    with(cudaErrorInvalidPtx, "a PTX JIT compilation failed") \
    with(cudaErrorInvalidGraphicsContext, "invalid OpenGL or DirectX context") \
    with(cudaErrorNvlinkUncorrectable, "uncorrectable NVLink error detected during the execution") \
    with(cudaErrorJitCompilerNotFound, "PTX JIT compiler library not found") \
    with(cudaErrorUnsupportedPtxVersion, "the provided PTX was compiled with an unsupported toolchain.") \
    with(cudaErrorJitCompilationDisabled, "PTX JIT compilation was disabled") \
    with(cudaErrorUnsupportedExecAffinity, "the provided execution affinity is not supported") \
    with(cudaErrorUnsupportedDevSideSync, "the provided PTX contains unsupported call to cudaDeviceSynchronize") \
    with(cudaErrorInvalidSource, "device kernel image is invalid") \
    with(cudaErrorFileNotFound, "file not found") \
    with(cudaErrorSharedObjectSymbolNotFound, "shared object symbol not found") \
    with(cudaErrorSharedObjectInitFailed, "shared object initialization failed") \
    with(cudaErrorOperatingSystem, "OS call failed or operation not supported on this OS") \
    with(cudaErrorInvalidResourceHandle, "invalid resource handle") \
    with(cudaErrorIllegalState, "the operation cannot be performed in the present state") \
    with(cudaErrorLossyQuery, "attempted introspection would be semantically lossy") \
    with(cudaErrorSymbolNotFound, "named symbol not found") \
    with(cudaErrorNotReady, "device not ready") \
    with(cudaErrorIllegalAddress, "an illegal memory access was encountered") \
    with(cudaErrorLaunchOutOfResources, "too many resources requested for launch") \
    with(cudaErrorLaunchTimeout, "the launch timed out and was terminated") \
    with(cudaErrorLaunchIncompatibleTexturing, "launch uses incompatible texturing mode") \
    with(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled") \
    with(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled") \
    with(cudaErrorSetOnActiveProcess, "cannot set while device is active in this process") \
    with(cudaErrorContextIsDestroyed, "context is destroyed") \
    with(cudaErrorAssert, "device-side assert triggered") \
    with(cudaErrorTooManyPeers, "peer mapping resources exhausted") \
    with(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped") \
    with(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region") \
    with(cudaErrorHardwareStackError, "hardware stack error") \
    with(cudaErrorIllegalInstruction, "an illegal instruction was encountered") \
    with(cudaErrorMisalignedAddress, "misaligned address") \
    with(cudaErrorInvalidAddressSpace, "operation not supported on global/shared address space") \
    with(cudaErrorInvalidPc, "invalid program counter") \
    with(cudaErrorLaunchFailure, "unspecified launch failure") \
    with(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch") \
    with(cudaErrorNotPermitted, "operation not permitted") \
    with(cudaErrorNotSupported, "operation not supported") \
    with(cudaErrorSystemNotReady, "system not yet initialized") \
    with(cudaErrorSystemDriverMismatch, "system has unsupported display driver / cuda driver combination") \
    with(cudaErrorCompatNotSupportedOnDevice, "forward compatibility was attempted on non supported HW") \
    with(cudaErrorMpsConnectionFailed, "MPS client failed to connect to the MPS control daemon or the MPS server") \
    with(cudaErrorMpsRpcFailure, "the remote procedural call between the MPS server and the MPS client failed") \
    with(cudaErrorMpsServerNotReady, "MPS server is not ready to accept new MPS client requests") \
    with(cudaErrorMpsMaxClientsReached, "the hardware resources required to create MPS client have been exhausted") \
    with(cudaErrorMpsMaxConnectionsReached, "the hardware resources required to support device connections have been exhausted") \
    with(cudaErrorMpsClientTerminated, "the MPS client has been terminated by the server") \
    with(cudaErrorCdpNotSupported, "is using CUDA Dynamic Parallelism, but the current configuration, like MPS, does not support it") \
    with(cudaErrorCdpVersionMismatch, "unsupported interaction between different versions of CUDA Dynamic Parallelism") \
    with(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing") \
    with(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture") \
    with(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences") \
    with(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began") \
    with(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work") \
    with(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream") \
    with(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream") \
    with(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream") \
    with(cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread") \
    with(cudaErrorTimeout, "wait operation timed out") \
    with(cudaErrorGraphExecUpdateFailure, "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update") \
    with(cudaErrorExternalDevice, "an async error has occured in external entity outside of CUDA") /* codespell:ignore occured */ \
    with(cudaErrorInvalidClusterSize, "a kernel launch error has occurred due to cluster misconfiguration") \
    with(cudaErrorFunctionNotLoaded, "the function handle is not loaded when calling an API that requires a loaded function") \
    with(cudaErrorInvalidResourceType, "one or more resources passed in are not valid resource types for the operation") \
    with(cudaErrorInvalidResourceConfiguration, "one or more resources are insufficient or non-applicable for the operation") \
    with(cudaErrorUnknown, "unknown error") \
    with(cudaErrorApiFailureBase, "api failure base")
