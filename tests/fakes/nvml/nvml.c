/* Fake libnvidia-ml.so.1 with two devices. Xid errors are lines "DEVICE XID" in the file (a FIFO) that VGC_FAKE_XIDS
 * names. VGC_FAKE_NVML_RESULT is the result of nvmlInit_v2. Every UUID that begins with "GPU-" is the first device's;
 * VGC_FAKE_CLOCKS has its current clocks and P-state: "SM_MHZ MEMORY_MHZ PSTATE". */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int nvml_return;
enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, TIMEOUT = 10, DEVICES = 2 };

struct event_data {
    void *device;
    unsigned long long type, data;
    unsigned int gpu_instance, compute_instance;
};

struct pci_info {
    char legacy[16];
    unsigned int domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

static char devices[DEVICES];
static int xids = -1;

static long index_of(const void *device)
{
    return (const char *)device - devices;
}

nvml_return nvmlInit_v2(void)
{
    const char *result = getenv("VGC_FAKE_NVML_RESULT");
    return result ? atoi(result) : SUCCESS;
}

nvml_return nvmlShutdown(void)
{
    return SUCCESS;
}

const char *nvmlErrorString(nvml_return result)
{
    return result == 9 ? "Driver Not Loaded" : "an error";
}

nvml_return nvmlSystemGetDriverVersion(char *text, unsigned int size)
{
    snprintf(text, size, "999.10");
    return SUCCESS;
}

nvml_return nvmlDeviceGetCount_v2(unsigned int *count)
{
    *count = DEVICES;
    return SUCCESS;
}

nvml_return nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)
{
    *device = &devices[index];
    return SUCCESS;
}

nvml_return nvmlDeviceGetUUID(void *device, char *text, unsigned int size)
{
    snprintf(text, size, "GPU-%ld", index_of(device));
    return SUCCESS;
}

nvml_return nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
    *device = &devices[0];
    return strncmp(uuid, "GPU-", 4) == 0 ? SUCCESS : NOT_FOUND;
}

/* Gets one of the three numbers of VGC_FAKE_CLOCKS. */
static nvml_return clock_of(const void *device, int which, unsigned int *value)
{
    const char *text = getenv("VGC_FAKE_CLOCKS");
    unsigned int numbers[3];
    if (index_of(device) != 0 ||
        sscanf(text ? text : "1980 3201 0", "%u %u %u", &numbers[0], &numbers[1], &numbers[2]) != 3)
        return NOT_SUPPORTED;
    *value = numbers[which];
    return SUCCESS;
}

nvml_return nvmlDeviceGetClockInfo(void *device, int type, unsigned int *mhz)
{
    return type == 1 || type == 2 ? clock_of(device, type - 1, mhz) : NOT_SUPPORTED; /* NVML_CLOCK_SM, _MEM */
}

nvml_return nvmlDeviceGetPerformanceState(void *device, unsigned int *pstate)
{
    return clock_of(device, 2, pstate);
}

/* The second device has none. */
nvml_return nvmlDeviceGetVbiosVersion(void *device, char *text, unsigned int size)
{
    snprintf(text, size, "96.00.%ld", index_of(device));
    return index_of(device) == 0 ? SUCCESS : NOT_SUPPORTED;
}

nvml_return nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *info)
{
    memset(info, 0, sizeof *info);
    snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02x:00.0", (unsigned char)(1 + index_of(device)));
    return SUCCESS;
}

nvml_return nvmlEventSetCreate(void **set)
{
    const char *path = getenv("VGC_FAKE_XIDS");
    xids = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    *set = devices;
    return SUCCESS;
}

nvml_return nvmlEventSetFree(void *set)
{
    (void)set;
    if (xids >= 0)
        close(xids);
    return SUCCESS;
}

/* The second device supports no events. */
nvml_return nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set)
{
    (void)set;
    return types == 8 && index_of(device) == 0 ? SUCCESS : NOT_SUPPORTED;
}

nvml_return nvmlEventSetWait_v2(void *set, struct event_data *data, unsigned int timeout_ms)
{
    struct pollfd waiting = {.fd = xids, .events = POLLIN};
    char line[32] = "";
    (void)set;
    if (poll(&waiting, 1, (int)timeout_ms) <= 0)
        return TIMEOUT;
    for (size_t at = 0; at < sizeof line - 1 && read(xids, line + at, 1) == 1 && line[at] != '\n'; at++)
        ;
    unsigned int device = 0;
    memset(data, 0, sizeof *data);
    if (sscanf(line, "%u %llu", &device, &data->data) != 2 || device >= DEVICES)
        return TIMEOUT;
    data->device = &devices[device];
    data->type = 8;
    return SUCCESS;
}
