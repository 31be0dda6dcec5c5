/* The library itself: its beginning and end, versions, names of processes. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "devices.h"

enum { CUDA_VERSION = 13000 }; /* of the driver API, as cuDriverGetVersion() tells */

NV_API nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    if ((flags & ~(unsigned)(NVML_INIT_FLAG_NO_GPUS | NVML_INIT_FLAG_NO_ATTACH)) != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    return nv_begin((flags & NVML_INIT_FLAG_NO_GPUS) == 0);
}

NV_API nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

NV_API nvmlReturn_t nvmlInit(void)
{
    return nvmlInitWithFlags(0);
}

NV_API nvmlReturn_t nvmlShutdown(void)
{
    return nv_end();
}

static nvmlReturn_t tell(const char *text, char *out, unsigned room)
{
    nvmlReturn_t result = nv_check();
    if (result != NVML_SUCCESS)
        return result;
    if (out == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(out, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

NV_API nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    return tell(vgc_version(), version, length);
}

/* Drivers here have no branches: each is its version. */
NV_API nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_t *info, unsigned int length)
{
    nvmlReturn_t result = nv_check();
    if (result == NVML_SUCCESS && info == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS && info->version != nvmlSystemDriverBranchInfo_v1)
        result = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (result != NVML_SUCCESS)
        return result;
    return tell(vgc_version(), info->branch, length < sizeof(info->branch) ? length : (unsigned)sizeof(info->branch));
}

/* NVIDIA's begins with the version of CUDA, and goes on with that of the driver. */
NV_API nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    char text[NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE];
    (void)snprintf(text, sizeof(text), "%d.%s", CUDA_VERSION / 1000, vgc_version());
    return tell(text, version, length);
}

NV_API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    nvmlReturn_t result = nv_check();
    if (result != NVML_SUCCESS)
        return result;
    if (version == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *version = CUDA_VERSION;
    return NVML_SUCCESS;
}

NV_API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    return nvmlSystemGetCudaDriverVersion_v2(version);
}

/* The first word of the command line; of a thread of the kernel, which has none, its name. */
static ssize_t read_name(unsigned pid, const char *file, char *name, size_t room)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%u/%s", pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t len = read(fd, name, room - 1);
    (void)close(fd);
    name[len > 0 ? len : 0] = '\0';
    name[strcspn(name, "\n")] = '\0';
    return len;
}

NV_API nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    nvmlReturn_t result = nv_check();
    if (result != NVML_SUCCESS)
        return result;
    if (name == NULL || length == 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    ssize_t len = read_name(pid, "cmdline", name, length);
    if (len == 0)
        len = read_name(pid, "comm", name, length);
    return len < 0 ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS;
}
