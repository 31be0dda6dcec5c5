/* Names and properties that tell devices apart: the values that CUDA tells of the devices. */
#include "identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PCI_VENDOR = 0x1af4, PCI_DEVICE = 0x1066 }; /* of virtio-gpu-compute devices */

static nvmlReturn_t copy_text(const char *text, char *out, unsigned room)
{
    if (strlen(text) >= room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(out, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

/* ---- names ---------------------------------------------------------------------------------- */

NV_API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    nvmlReturn_t result = nv_check_device(device);
    if (result == NVML_SUCCESS && name == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        result = nv_know(device);
    return result == NVML_SUCCESS ? copy_text(device->info.engine_name, name, length) : result;
}

NV_API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    char text[NVML_DEVICE_UUID_BUFFER_SIZE] = "GPU-";
    nvmlReturn_t result = nv_check_device(device);
    if (result == NVML_SUCCESS && uuid == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        result = nv_know(device);
    if (result != NVML_SUCCESS)
        return result;
    char *end = text + strlen(text);
    for (size_t i = 0; i < sizeof(device->info.uuid); i++)
        end += sprintf(end, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", device->info.uuid[i]);
    return copy_text(text, uuid, length);
}

NV_API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    nvmlReturn_t result = nv_check_device(device);
    if (result == NVML_SUCCESS && index == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *index = device->index;
    return result;
}

/* ---- PCI ------------------------------------------------------------------------------------ */

struct nv_place nv_place_of(const struct nvmlDevice_st *device)
{
    struct nv_place place = {0};
    if (sscanf(device->address, "%x:%x:%x", &place.domain, &place.bus, &place.device) != 3)
        place = (struct nv_place){0};
    return place;
}

/* 0: the device has no such file. */
static unsigned read_number(const char *address, const char *file)
{
    char path[128], text[16] = "";
    (void)snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", address, file);
    FILE *opened = address[0] != '\0' ? fopen(path, "re") : NULL;
    if (opened == NULL)
        return 0;
    size_t len = fread(text, 1, sizeof(text) - 1, opened);
    (void)fclose(opened);
    text[len] = '\0';
    return (unsigned)strtoul(text, NULL, 16) & 0xffff;
}

NV_API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    nvmlReturn_t result = nv_check_device(device);
    if (result == NVML_SUCCESS && pci == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    struct nv_place place = nv_place_of(device);
    memset(pci, 0, sizeof(*pci));
    pci->domain = place.domain;
    pci->bus = place.bus;
    pci->device = place.device;
    pci->pciDeviceId = (unsigned)PCI_DEVICE << 16 | PCI_VENDOR;
    pci->pciSubSystemId =
        read_number(device->address, "subsystem_device") << 16 | read_number(device->address, "subsystem_vendor");
    (void)snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0", place.domain & 0xffff,
                   place.bus & 0xff, place.device & 0x1f);
    (void)snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", place.domain, place.bus & 0xff,
                   place.device & 0x1f);
    return NVML_SUCCESS;
}

/* The older struct ends with four reserved numbers in place of the longer address. */
static nvmlReturn_t fill_older(nvmlDevice_t device, nvmlPciInfo_v2_t *pci)
{
    nvmlPciInfo_t newer;
    nvmlReturn_t result = nvmlDeviceGetPciInfo_v3(device, &newer);
    if (result == NVML_SUCCESS && pci == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    memset(pci, 0, sizeof(*pci));
    memcpy(pci, &newer, offsetof(nvmlPciInfo_t, busId));
    return NVML_SUCCESS;
}

NV_API nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t *pci)
{
    return fill_older(device, pci);
}

NV_API nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_v2_t *pci)
{
    return fill_older(device, pci);
}

/* ---- generation of hardware ----------------------------------------------------------------- */

NV_API nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t *brand)
{
    nvmlReturn_t result = nv_check_device(device);
    if (result == NVML_SUCCESS && brand == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *brand = NVML_BRAND_UNKNOWN;
    return result;
}

NV_API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    nvmlReturn_t result = nv_check_device(device);
    if (result == NVML_SUCCESS && (major == NULL || minor == NULL))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        result = nv_know(device);
    if (result == NVML_SUCCESS && device->limits.compute_capability == 0)
        result = NVML_ERROR_NOT_SUPPORTED;
    if (result != NVML_SUCCESS)
        return result;
    *major = (int)(device->limits.compute_capability / 10);
    *minor = (int)(device->limits.compute_capability % 10);
    return NVML_SUCCESS;
}

static nvmlDeviceArchitecture_t architecture_of(int major, int minor)
{
    switch (major) {
    case 3:
        return NVML_DEVICE_ARCH_KEPLER;
    case 5:
        return NVML_DEVICE_ARCH_MAXWELL;
    case 6:
        return NVML_DEVICE_ARCH_PASCAL;
    case 7:
        return minor < 5 ? NVML_DEVICE_ARCH_VOLTA : NVML_DEVICE_ARCH_TURING;
    case 8:
        return minor < 9 ? NVML_DEVICE_ARCH_AMPERE : NVML_DEVICE_ARCH_ADA;
    case 9:
        return NVML_DEVICE_ARCH_HOPPER;
    case 10:
    case 12:
        return NVML_DEVICE_ARCH_BLACKWELL;
    default:
        return NVML_DEVICE_ARCH_UNKNOWN;
    }
}

NV_API nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *architecture)
{
    int major = 0, minor = 0;
    nvmlReturn_t result = nv_check_device(device);
    if (result == NVML_SUCCESS && architecture == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        result = nvmlDeviceGetCudaComputeCapability(device, &major, &minor);
    if (result == NVML_SUCCESS || result == NVML_ERROR_NOT_SUPPORTED)
        *architecture = architecture_of(major, minor);
    return result == NVML_ERROR_NOT_SUPPORTED ? NVML_SUCCESS : result;
}
