/* Memory and sizes of a device: of the VM's share of it. */
#include <string.h>

#include "devices.h"

enum { CUDA_ENGINE = 2, MHZ = 1000, MIB = 1 << 20 }; /* of vgc_info; in kHz; in bytes */

/* ---- memory --------------------------------------------------------------------------------- */

static nvmlReturn_t ask_memory(nvmlDevice_t device, const void *out, nvmlMemory_t *memory)
{
    struct nv_look look;
    nvmlReturn_t result = nv_check_device(device);
    if (result == NVML_SUCCESS && out == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        result = nv_look(device, &look);
    if (result != NVML_SUCCESS)
        return result;
    unsigned long long quota = look.usage.memory_quota_bytes;
    unsigned long long used = look.usage.memory_used_bytes; /* more than a quota that has just shrunk */
    *memory = (nvmlMemory_t){.total = quota, .free = quota > used ? quota - used : 0, .used = used};
    return NVML_SUCCESS;
}

NV_API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    nvmlMemory_t told;
    nvmlReturn_t result = ask_memory(device, memory, &told);
    if (result == NVML_SUCCESS)
        *memory = told;
    return result;
}

NV_API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    nvmlMemory_t told;
    nvmlReturn_t result = nv_check_device(device);
    if (result == NVML_SUCCESS && memory != NULL && memory->version != nvmlMemory_v2)
        result = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (result == NVML_SUCCESS)
        result = ask_memory(device, memory, &told);
    if (result != NVML_SUCCESS)
        return result;
    memory->total = told.total;
    memory->reserved = 0;
    memory->free = told.free;
    memory->used = told.used;
    return NVML_SUCCESS;
}

/* ---- hardware ------------------------------------------------------------------------------- */

/* A number that the device tells of itself; 0 says that it does not. */
static nvmlReturn_t tell(uint32_t number, unsigned *out)
{
    if (number == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *out = number;
    return NVML_SUCCESS;
}

NV_API nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
    nvmlReturn_t result = nv_check_device(device);
    if (result == NVML_SUCCESS && (clock == NULL || (unsigned)type >= NVML_CLOCK_COUNT))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        result = nv_know(device);
    if (result != NVML_SUCCESS)
        return result;
    if (type == NVML_CLOCK_VIDEO)
        return NVML_ERROR_NOT_SUPPORTED;
    return tell((type == NVML_CLOCK_MEM ? device->limits.memory_clock_khz : device->limits.clock_khz) / MHZ, clock);
}

NV_API nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned int *bits)
{
    nvmlReturn_t result = nv_check_device(device);
    if (result == NVML_SUCCESS && bits == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        result = nv_know(device);
    return result == NVML_SUCCESS ? tell(device->limits.memory_bus_bits, bits) : result;
}

/* Cores for single precision of a processing element of NVIDIA's; 0: unknown. */
static unsigned cores_of(uint32_t compute_capability)
{
    switch (compute_capability) {
    case 60:
    case 70:
    case 72:
    case 75:
    case 80:
        return 64;
    case 50:
    case 52:
    case 53:
    case 61:
    case 62:
    case 86:
    case 87:
    case 89:
    case 90:
    case 100:
    case 103:
    case 120:
    case 121:
        return 128;
    default:
        return 0;
    }
}

/* Processing elements of the software GPU are made of the host's CPU, and have no such cores. */
NV_API nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int *count)
{
    struct nv_look look;
    nvmlReturn_t result = nv_check_device(device);
    if (result == NVML_SUCCESS && count == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        result = nv_look(device, &look);
    if (result != NVML_SUCCESS)
        return result;
    if (look.info.engine_kind != CUDA_ENGINE)
        return NVML_ERROR_NOT_SUPPORTED;
    return tell(look.info.num_pes * cores_of(look.limits.compute_capability), count);
}

/* NVIDIA's library tells the share of a MIG instance by this; here it is the VM's. There are no decoders, encoders and
 * slices. */
NV_API nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    struct nv_look look;
    nvmlReturn_t result = nv_check_device(device);
    if (result == NVML_SUCCESS && attributes == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        result = nv_look(device, &look);
    if (result != NVML_SUCCESS)
        return result;
    memset(attributes, 0, sizeof(*attributes));
    attributes->multiprocessorCount = look.info.num_pes;
    attributes->sharedCopyEngineCount = look.limits.copy_engines;
    attributes->memorySizeMB = look.info.memory_bytes / MIB;
    return NVML_SUCCESS;
}

NV_API nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    return nvmlDeviceGetAttributes_v2(device, attributes);
}
