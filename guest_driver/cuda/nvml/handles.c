/* Handles of devices: by index, UUID and PCI address. */
#include <stdio.h>
#include <string.h>

#include "devices.h"
#include "identity.h"

NV_API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    nvmlReturn_t result = nv_check();
    if (result != NVML_SUCCESS)
        return result;
    if (count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = nv_count();
    return NVML_SUCCESS;
}

NV_API nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
    return nvmlDeviceGetCount_v2(count);
}

NV_API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    nvmlReturn_t result = nv_check();
    if (result != NVML_SUCCESS)
        return result;
    if (device == NULL || nv_device_at(index) == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = nv_device_at(index);
    return NVML_SUCCESS;
}

NV_API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

/* A device that does not answer has no UUID; the error is told if no other device has the one that is wanted. */
NV_API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    char own[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
    nvmlReturn_t result = nv_check();
    if (result != NVML_SUCCESS)
        return result;
    if (uuid == NULL || device == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    result = NVML_ERROR_NOT_FOUND;
    for (unsigned i = 0; i < nv_count(); i++) {
        nvmlReturn_t asked = nvmlDeviceGetUUID(nv_device_at(i), own, sizeof(own));
        if (asked != NVML_SUCCESS) {
            result = asked;
        } else if (strcmp(own, uuid) == 0) {
            *device = nv_device_at(i);
            return NVML_SUCCESS;
        }
    }
    return result;
}

/* The text of a UUID's 16 bytes, as nvmlDeviceGetUUID() writes it. */
static void write_uuid(const unsigned char *bytes, char *text)
{
    text += sprintf(text, "GPU-");
    for (unsigned i = 0; i < NVML_DEVICE_UUID_BINARY_LEN; i++)
        text += sprintf(text, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", bytes[i]);
}

NV_API nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
    char text[NVML_DEVICE_UUID_ASCII_LEN + 1] = "";
    nvmlReturn_t result = nv_check();
    if (result != NVML_SUCCESS)
        return result;
    if (uuid == NULL || device == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (uuid->version != nvmlUUID_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (uuid->type == NVML_UUID_TYPE_ASCII)
        memcpy(text, uuid->value.str, NVML_DEVICE_UUID_ASCII_LEN);
    else if (uuid->type == NVML_UUID_TYPE_BINARY)
        write_uuid(uuid->value.bytes, text);
    else
        return NVML_ERROR_INVALID_ARGUMENT;
    return nvmlDeviceGetHandleByUUID(text, device);
}

/* "domain:bus:device.function" or "bus:device.function", in hexadecimal. */
static bool parse_address(const char *text, struct nv_place *place)
{
    unsigned function;
    int end = 0;
    *place = (struct nv_place){0};
    if (sscanf(text, "%x:%x:%x.%x%n", &place->domain, &place->bus, &place->device, &function, &end) == 4 &&
        text[end] == '\0')
        return true;
    place->domain = 0;
    return sscanf(text, "%x:%x.%x%n", &place->bus, &place->device, &function, &end) == 3 && text[end] == '\0';
}

NV_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvmlDevice_t *device)
{
    struct nv_place wanted;
    nvmlReturn_t result = nv_check();
    if (result != NVML_SUCCESS)
        return result;
    if (address == NULL || device == NULL || !parse_address(address, &wanted))
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < nv_count(); i++) {
        struct nv_place own = nv_place_of(nv_device_at(i));
        if (own.domain == wanted.domain && own.bus == wanted.bus && own.device == wanted.device) {
            *device = nv_device_at(i);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

NV_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *address, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByPciBusId_v2(address, device);
}
