/* Errors of NVML: their texts, and results of libvgc as errors. */
#include "errors.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error_file.h"
#include "libvgc/vgc.h"

static const char *const TEXTS[] = {
    [NVML_SUCCESS] = "Success",
    [NVML_ERROR_UNINITIALIZED] = "Uninitialized",
    [NVML_ERROR_INVALID_ARGUMENT] = "Invalid Argument",
    [NVML_ERROR_NOT_SUPPORTED] = "Not Supported",
    [NVML_ERROR_NO_PERMISSION] = "Insufficient Permissions",
    [NVML_ERROR_ALREADY_INITIALIZED] = "Already Initialized",
    [NVML_ERROR_NOT_FOUND] = "Not Found",
    [NVML_ERROR_INSUFFICIENT_SIZE] = "Insufficient Size",
    [NVML_ERROR_INSUFFICIENT_POWER] = "Insufficient External Power",
    [NVML_ERROR_DRIVER_NOT_LOADED] = "Driver Not Loaded",
    [NVML_ERROR_TIMEOUT] = "Timeout",
    [NVML_ERROR_IRQ_ISSUE] = "Interrupt Request Issue",
    [NVML_ERROR_LIBRARY_NOT_FOUND] = "NVML Shared Library Not Found",
    [NVML_ERROR_FUNCTION_NOT_FOUND] = "Function Not Found",
    [NVML_ERROR_CORRUPTED_INFOROM] = "Corrupted infoROM",
    [NVML_ERROR_GPU_IS_LOST] = "GPU is lost",
    [NVML_ERROR_RESET_REQUIRED] = "GPU requires reset",
    [NVML_ERROR_OPERATING_SYSTEM] = "GPU access blocked by the operating system",
    [NVML_ERROR_LIB_RM_VERSION_MISMATCH] = "Driver/library version mismatch",
    [NVML_ERROR_IN_USE] = "In use by another client",
    [NVML_ERROR_MEMORY] = "Insufficient Memory",
    [NVML_ERROR_NO_DATA] = "No Data",
    [NVML_ERROR_VGPU_ECC_NOT_SUPPORTED] = "vGPU ECC Not Supported",
    [NVML_ERROR_INSUFFICIENT_RESOURCES] = "Insufficient Resources",
    [NVML_ERROR_FREQ_NOT_SUPPORTED] = "Frequency Not Supported",
    [NVML_ERROR_ARGUMENT_VERSION_MISMATCH] = "Argument Version Mismatch",
    [NVML_ERROR_DEPRECATED] = "Deprecated",
    [NVML_ERROR_NOT_READY] = "Not Ready",
    [NVML_ERROR_GPU_NOT_FOUND] = "GPU Not Found",
    [NVML_ERROR_INVALID_STATE] = "Invalid State",
    [NVML_ERROR_RESET_TYPE_NOT_SUPPORTED] = "Reset Type Not Supported",
};

NV_API const char *nvmlErrorString(nvmlReturn_t result)
{
    return (unsigned)result < sizeof(TEXTS) / sizeof(TEXTS[0]) ? TEXTS[result] : "Unknown Error";
}

static nvmlReturn_t of_result(int vgc_result)
{
    switch (vgc_result) {
    case VGC_OK:
        return NVML_SUCCESS;
    case VGC_UNSUPPORTED:
        return NVML_ERROR_NOT_SUPPORTED;
    case VGC_RESOURCES_EXHAUSTED:
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    case VGC_NO_DEVICE:
    case VGC_DEVICE_LOST:
        return NVML_ERROR_GPU_IS_LOST;
    case VGC_NO_PERMISSION:
        return NVML_ERROR_NO_PERMISSION;
    case VGC_INCOMPATIBLE:
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    case VGC_NO_ANSWER:
        return NVML_ERROR_TIMEOUT;
    case VGC_SYSTEM:
        return NVML_ERROR_OPERATING_SYSTEM;
    default:
        return NVML_ERROR_UNKNOWN;
    }
}

/* Programs that ask again and again get one error again and again, which is written once. */
static void keep(const char *text)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static char kept[4096];
    (void)pthread_mutex_lock(&mutex);
    if (strcmp(text, kept) != 0) {
        (void)snprintf(kept, sizeof(kept), "%s", text);
        rt_write_error_file(kept);
    }
    (void)pthread_mutex_unlock(&mutex);
}

nvmlReturn_t nv_result(int vgc_result)
{
    char text[4096];
    nvmlReturn_t error = of_result(vgc_result);
    if (error == NVML_SUCCESS)
        return error;
    (void)snprintf(text, sizeof(text), "NVML, %s: %s", nvmlErrorString(error), vgc_last_error());
    keep(text);
    return error;
}
