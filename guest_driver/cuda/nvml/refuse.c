/* Ends of the functions that refuse: build/refusals.c has their names. */
#include "refusals.h"

#include "devices.h"

int nv_refuse_device(const void *device)
{
    nvmlReturn_t result = nv_check_device(device);
    return (int)(result == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : result);
}

int nv_refuse(void)
{
    nvmlReturn_t result = nv_check();
    return (int)(result == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : result);
}
