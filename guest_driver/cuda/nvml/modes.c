/* Modes that follow from what the device is: it only computes, for several processes at once, without MIG. */
#include "devices.h"

static nvmlReturn_t tell(nvmlDevice_t device, unsigned mode, unsigned *out)
{
    nvmlReturn_t result = nv_check_device(device);
    if (result == NVML_SUCCESS && out == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *out = mode;
    return result;
}

NV_API nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode)
{
    return tell(device, NVML_COMPUTEMODE_DEFAULT, (unsigned *)mode);
}

NV_API nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t *display)
{
    return tell(device, NVML_FEATURE_DISABLED, (unsigned *)display);
}

NV_API nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t *is_active)
{
    return tell(device, NVML_FEATURE_DISABLED, (unsigned *)is_active);
}

NV_API nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig)
{
    return tell(device, 0, is_mig);
}

NV_API nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    return tell(device, 0, count);
}

/* The guest can change nothing about it, so nothing is pending. */
NV_API nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending)
{
    nvmlReturn_t result = nv_check_device(device);
    if (result == NVML_SUCCESS && (current == NULL || pending == NULL))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        result = nv_know(device);
    if (result == NVML_SUCCESS && device->limits.ecc == 0)
        result = NVML_ERROR_NOT_SUPPORTED; /* or the host does not say */
    if (result == NVML_SUCCESS)
        *current = *pending = NVML_FEATURE_ENABLED;
    return result;
}

/* Kernels of a device do not reach memory of others, as cudaDeviceCanAccessPeer() tells. */
NV_API nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t peer, nvmlGpuP2PCapsIndex_t index,
                                           nvmlGpuP2PStatus_t *status)
{
    nvmlReturn_t result = nv_check_device(device);
    if (result == NVML_SUCCESS)
        result = nv_check_device(peer);
    if (result == NVML_SUCCESS && (status == NULL || device == peer || (unsigned)index >= NVML_P2P_CAPS_INDEX_UNKNOWN))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *status = NVML_P2P_STATUS_NOT_SUPPORTED;
    return result;
}
