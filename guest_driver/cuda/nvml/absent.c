/* Hardware that no VM has: units of several GPUs in one case, and devices that a host's driver leaves out. */
#include "devices.h"

static nvmlReturn_t none(unsigned int *count)
{
    nvmlReturn_t result = nv_check();
    if (result == NVML_SUCCESS && count == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *count = 0;
    return result;
}

/* Every number is beyond the last of none. */
static nvmlReturn_t beyond(void)
{
    nvmlReturn_t result = nv_check();
    return result == NVML_SUCCESS ? NVML_ERROR_INVALID_ARGUMENT : result;
}

NV_API nvmlReturn_t nvmlUnitGetCount(unsigned int *count)
{
    return none(count);
}

NV_API nvmlReturn_t nvmlUnitGetHandleByIndex(unsigned int index, nvmlUnit_t *unit)
{
    (void)index;
    (void)unit;
    return beyond();
}

NV_API nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int *count)
{
    return none(count);
}

NV_API nvmlReturn_t nvmlGetExcludedDeviceInfoByIndex(unsigned int index, void *info)
{
    (void)index;
    (void)info;
    return beyond();
}
