/* Processes that compute on a device: those of this VM, with the memory that they have allocated. */
#include "devices.h"

static const unsigned NO_INSTANCE = 0xffffffff; /* of MIG */

/* Asks for the processes. *count is the room of the caller's array, and becomes the number of processes. */
static nvmlReturn_t ask_processes(nvmlDevice_t device, unsigned *count, const void *infos, struct nv_look *look)
{
    nvmlReturn_t result = nv_check_device(device);
    if (result == NVML_SUCCESS && (count == NULL || (*count > 0 && infos == NULL)))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        result = nv_look(device, look);
    if (result != NVML_SUCCESS)
        return result;
    unsigned room = *count;
    *count = (unsigned)look->num_processes;
    return look->num_processes <= room ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

NV_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                            nvmlProcessInfo_t *infos)
{
    struct nv_look look;
    nvmlReturn_t result = ask_processes(device, count, infos, &look);
    for (size_t i = 0; result == NVML_SUCCESS && i < look.num_processes; i++)
        infos[i] = (nvmlProcessInfo_t){look.processes[i].pid, look.processes[i].memory_bytes, NO_INSTANCE, NO_INSTANCE};
    return result;
}

NV_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
                                                            nvmlProcessInfo_v2_t *infos)
{
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos);
}

NV_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *count,
                                                         nvmlProcessInfo_v1_t *infos)
{
    struct nv_look look;
    nvmlReturn_t result = ask_processes(device, count, infos, &look);
    for (size_t i = 0; result == NVML_SUCCESS && i < look.num_processes; i++)
        infos[i] = (nvmlProcessInfo_v1_t){look.processes[i].pid, look.processes[i].memory_bytes};
    return result;
}

/* ---- graphics: the device has none, so no process uses it for that ------------------------------ */

static nvmlReturn_t no_processes(nvmlDevice_t device, unsigned *count)
{
    nvmlReturn_t result = nv_check_device(device);
    if (result == NVML_SUCCESS && count == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *count = 0;
    return result;
}

NV_API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                             nvmlProcessInfo_t *infos)
{
    (void)infos;
    return no_processes(device, count);
}

NV_API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
                                                             nvmlProcessInfo_v2_t *infos)
{
    (void)infos;
    return no_processes(device, count);
}

NV_API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int *count,
                                                          nvmlProcessInfo_v1_t *infos)
{
    (void)infos;
    return no_processes(device, count);
}
