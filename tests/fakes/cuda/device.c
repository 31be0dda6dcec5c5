/* Devices and their attributes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake.h"

bool fake_can_open(void)
{
    char comm[64];
    snprintf(comm, sizeof comm, "/proc/self/task/%ld/comm", syscall(SYS_gettid));
    int name = open(comm, O_RDWR | O_CLOEXEC);
    int file = memfd_create("fake-cuda", MFD_CLOEXEC);
    bool both = name >= 0 && file >= 0;
    if (name >= 0)
        close(name);
    if (file >= 0)
        close(file);
    return both;
}

static CUresult initialise(void)
{
    if (fake.initialised)
        return CUDA_SUCCESS;
    if (fake_settings_once() != 0)
        return CUDA_ERROR_SYSTEM_NOT_READY;
    if (fake.settings.init_result)
        return (CUresult)fake.settings.init_result;
    if (!fake_can_open() || !fake_gpu_open())
        return CUDA_ERROR_OPERATING_SYSTEM;
    fake_settings_visible(&fake.settings);
    if (fake.settings.num_devices == 0)
        return CUDA_ERROR_NO_DEVICE;
    fake.initialised = true;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuInit(unsigned int flags)
{
    FAKE_CALL(FAKE_NOTHING);
    if (!result)
        result = flags ? CUDA_ERROR_INVALID_VALUE : initialise();
    FAKE_LEAVE("%u", flags);
}

FAKE_API CUresult cuDriverGetVersion(int *version)
{
    FAKE_CALL(FAKE_NOTHING);
    if (!result && fake_settings_once() != 0)
        result = CUDA_ERROR_SYSTEM_NOT_READY;
    if (!result)
        *version = fake.settings.driver_version;
    FAKE_LEAVE("%s", "");
}

static const struct fake_device *device_of(CUdevice device)
{
    return device >= 0 && device < fake.settings.num_devices ? &fake.settings.devices[device] : NULL;
}

#define FAKE_DEVICE_CALL(number)                                                                                       \
    FAKE_CALL(FAKE_INIT);                                                                                              \
    const struct fake_device *device = result ? NULL : device_of(number);                                              \
    if (!result && !device)                                                                                            \
    result = CUDA_ERROR_INVALID_DEVICE

FAKE_API CUresult cuDeviceGetCount(int *count)
{
    FAKE_CALL(FAKE_INIT);
    if (!result)
        *count = fake.settings.num_devices;
    FAKE_LEAVE("%s", "");
}

FAKE_API CUresult cuDeviceGet(CUdevice *found, int ordinal)
{
    FAKE_DEVICE_CALL(ordinal);
    if (!result)
        *found = ordinal;
    FAKE_LEAVE("%d", ordinal);
}

FAKE_API CUresult cuDeviceGetName(char *name, int size, CUdevice number)
{
    FAKE_DEVICE_CALL(number);
    if (!result)
        snprintf(name, (size_t)size, "%s", device->name);
    FAKE_LEAVE("%d", number);
}

FAKE_API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice number)
{
    FAKE_DEVICE_CALL(number);
    if (!result)
        memcpy(uuid->bytes, device->uuid, sizeof uuid->bytes);
    FAKE_LEAVE("%d", number);
}

FAKE_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice number)
{
    FAKE_DEVICE_CALL(number);
    if (!result)
        *bytes = device->memory_bytes;
    FAKE_LEAVE("%d", number);
}

FAKE_API CUresult cuDeviceGetPCIBusId(char *name, int size, CUdevice number)
{
    FAKE_DEVICE_CALL(number);
    if (!result && snprintf(name, (size_t)size, "0000:%02x:00.0", number + 1) >= size)
        result = CUDA_ERROR_INVALID_VALUE;
    FAKE_LEAVE("%d", number);
}

static const struct {
    int key, value;
} constants[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0x7fffffff},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3201000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6144},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 60 << 20},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 228 << 10},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, 1},
};

static int attribute_of(const struct fake_device *device, int number, int key)
{
    for (int i = 0; i < device->num_attributes; i++)
        if (device->attributes[i].key == key)
            return device->attributes[i].value;
    switch (key) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return device->sms;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return device->major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return device->minor;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        return device->shared_per_block;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        return device->shared_optin;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
        return device->stream_memops;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
        return device->host_pointers;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        return device->vmm;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return number + 1;
    default:
        break;
    }
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
        if (constants[i].key == key)
            return constants[i].value;
    return 0;
}

FAKE_API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute key, CUdevice number)
{
    FAKE_DEVICE_CALL(number);
    if (!result && ((int)key < 1 || (int)key > 200))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *value = attribute_of(device, number, (int)key);
    FAKE_LEAVE("%d, %d", (int)key, number);
}
