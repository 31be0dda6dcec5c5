/* NVML in a program that uses CUDA's driver API, too: both tell the same of a device. */
#include <unistd.h>

#include "driver_checks.h"
#include "nvml.h"

/* The call of NVML ends with this result. */
#define TELLS(expected, call) CHECK((call) == (expected))

enum { BYTES = 1 << 20 };

static void check_names(nvmlDevice_t nvml, CUdevice cuda)
{
    char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE], other[256], uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE], hex[64] = "GPU-";
    CUuuid bytes;
    nvmlPciInfo_t pci;
    nvmlPciInfo_v2_t older;
    nvmlDevice_t found;
    TELLS(NVML_SUCCESS, nvmlDeviceGetName(nvml, name, sizeof(name)));
    OK(cuDeviceGetName(other, sizeof(other), cuda));
    CHECK(strcmp(name, other) == 0);
    TELLS(NVML_ERROR_INSUFFICIENT_SIZE, nvmlDeviceGetName(nvml, other, (unsigned)strlen(name)));
    OK(cuDeviceGetUuid(&bytes, cuda));
    for (int i = 0; i < 16; i++)
        sprintf(hex + strlen(hex), "%s%02x", i > 3 && i < 11 && i % 2 == 0 ? "-" : "", (unsigned char)bytes.bytes[i]);
    TELLS(NVML_SUCCESS, nvmlDeviceGetUUID(nvml, uuid, sizeof(uuid)));
    CHECK(strcmp(uuid, hex) == 0);
    TELLS(NVML_ERROR_INSUFFICIENT_SIZE, nvmlDeviceGetUUID(nvml, uuid, 40));
    TELLS(NVML_SUCCESS, nvmlDeviceGetHandleByUUID(uuid, &found));
    CHECK(found == nvml);
    TELLS(NVML_ERROR_NOT_FOUND, nvmlDeviceGetHandleByUUID("GPU-0", &found));
    OK(cuDeviceGetPCIBusId(other, sizeof(other), cuda));
    TELLS(NVML_SUCCESS, nvmlDeviceGetPciInfo(nvml, &pci));
    CHECK(strcmp(pci.busIdLegacy, other) == 0 && pci.pciDeviceId == 0x10661af4);
    CHECK(strlen(pci.busId) == strlen(other) + 4 && strcmp(pci.busId + 4, other) == 0);
    TELLS(NVML_SUCCESS, nvmlDeviceGetPciInfo_v2(nvml, &older));
    CHECK(strcmp(older.busId, pci.busIdLegacy) == 0 && older.reserved[3] == 0);
    TELLS(NVML_SUCCESS, nvmlDeviceGetHandleByPciBusId(pci.busId, &found));
    TELLS(NVML_SUCCESS, nvmlDeviceGetHandleByPciBusId(other, &found));
    TELLS(NVML_SUCCESS, nvmlDeviceGetHandleByPciBusId(other + 5, &found));
    CHECK(found == nvml);
    TELLS(NVML_ERROR_NOT_FOUND, nvmlDeviceGetHandleByPciBusId("0000:7f:1f.0", &found));
    TELLS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetHandleByPciBusId("0000:7f:1f.0 ", &found));
}

static void check_hardware(nvmlDevice_t nvml, CUdevice cuda)
{
    int major, minor, expected, elements, nvml_version, cuda_version;
    unsigned number;
    nvmlDeviceAttributes_t share;
    nvmlDeviceArchitecture_t architecture;
    TELLS(NVML_SUCCESS, nvmlDeviceGetCudaComputeCapability(nvml, &major, &minor));
    OK(cuDeviceGetAttribute(&expected, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, cuda));
    CHECK(major == expected);
    OK(cuDeviceGetAttribute(&expected, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, cuda));
    CHECK(minor == expected);
    TELLS(NVML_SUCCESS, nvmlDeviceGetArchitecture(nvml, &architecture));
    CHECK(architecture == NVML_DEVICE_ARCH_AMPERE); /* 8.0 */
    OK(cuDeviceGetAttribute(&elements, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, cuda));
    TELLS(NVML_SUCCESS, nvmlDeviceGetAttributes(nvml, &share));
    CHECK(share.multiprocessorCount == (unsigned)elements && share.memorySizeMB == 64);
    TELLS(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetNumGpuCores(nvml, &number));
    OK(cuDeviceGetAttribute(&expected, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, cuda));
    TELLS(expected > 0 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetMemoryBusWidth(nvml, &number));
    CHECK(expected == 0 || number == (unsigned)expected);
    OK(cuDeviceGetAttribute(&expected, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, cuda));
    TELLS(expected >= 1000 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED,
          nvmlDeviceGetMaxClockInfo(nvml, NVML_CLOCK_SM, &number));
    CHECK(expected < 1000 || number == (unsigned)expected / 1000);
    TELLS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetMaxClockInfo(nvml, NVML_CLOCK_COUNT, &number));
    TELLS(NVML_SUCCESS, nvmlSystemGetCudaDriverVersion(&nvml_version));
    OK(cuDriverGetVersion(&cuda_version));
    CHECK(nvml_version == cuda_version);
}

static void check_memory(nvmlDevice_t nvml)
{
    nvmlMemory_t memory;
    nvmlMemory_v2_t newer = {.version = 1};
    nvmlProcessInfo_t process;
    size_t left, total;
    unsigned count = 0;
    CUdeviceptr block;
    OK(cuMemAlloc(&block, BYTES));
    OK(cuMemGetInfo(&left, &total));
    TELLS(NVML_SUCCESS, nvmlDeviceGetMemoryInfo(nvml, &memory));
    CHECK(memory.free == left && memory.total == total && memory.used == total - left && memory.used >= BYTES);
    TELLS(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, nvmlDeviceGetMemoryInfo_v2(nvml, &newer));
    newer.version = nvmlMemory_v2;
    TELLS(NVML_SUCCESS, nvmlDeviceGetMemoryInfo_v2(nvml, &newer));
    CHECK(newer.total == total && newer.free == left && newer.reserved == 0);
    TELLS(NVML_ERROR_INSUFFICIENT_SIZE, nvmlDeviceGetComputeRunningProcesses(nvml, &count, NULL));
    CHECK(count == 1);
    TELLS(NVML_SUCCESS, nvmlDeviceGetComputeRunningProcesses(nvml, &count, &process));
    CHECK(count == 1 && process.pid == (unsigned)getpid() && process.usedGpuMemory == BYTES);
    OK(cuMemFree(block));
    TELLS(NVML_SUCCESS, nvmlDeviceGetComputeRunningProcesses(nvml, &count, &process));
    CHECK(process.usedGpuMemory == 0);
}

/* Wrong arguments end with the documented errors. */
static void check_refusals(nvmlDevice_t nvml)
{
    char text[80];
    unsigned number = 1;
    nvmlDevice_t device, wrong = (nvmlDevice_t)(void *)&number;
    nvmlUtilization_t utilization;
    nvmlGpuP2PStatus_t status;
    TELLS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetHandleByIndex(1, &device));
    TELLS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetHandleByIndex(0, NULL));
    TELLS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetCount(NULL));
    TELLS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetName(wrong, text, sizeof(text)));
    TELLS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetName(NULL, text, sizeof(text)));
    TELLS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetName(nvml, NULL, 0));
    TELLS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetMemoryInfo(nvml, NULL));
    TELLS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetMemoryInfo_v2(nvml, NULL));
    TELLS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetUtilizationRates(nvml, NULL));
    TELLS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetUtilizationRates(wrong, &utilization));
    TELLS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetComputeRunningProcesses(nvml, NULL, NULL));
    TELLS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetComputeRunningProcesses(nvml, &number, NULL));
    TELLS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetP2PStatus(nvml, nvml, NVML_P2P_CAPS_INDEX_READ, &status));
    TELLS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetTemperature(wrong, NVML_TEMPERATURE_GPU, &number));
    TELLS(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetTemperature(nvml, NVML_TEMPERATURE_GPU, &number));
    TELLS(NVML_ERROR_INSUFFICIENT_SIZE, nvmlSystemGetDriverVersion(text, 1));
    TELLS(NVML_ERROR_INVALID_ARGUMENT, nvmlSystemGetProcessName((unsigned)getpid(), text, 0));
    TELLS(NVML_ERROR_NOT_FOUND, nvmlSystemGetProcessName(0x7fffffff, text, sizeof(text)));
    TELLS(NVML_SUCCESS, nvmlSystemGetProcessName((unsigned)getpid(), text, sizeof(text)));
    CHECK(text[0] != '\0');
    TELLS(NVML_ERROR_INVALID_ARGUMENT, nvmlInitWithFlags(1U << 31));
}

int main(void)
{
    CUdevice cuda;
    nvmlDevice_t nvml = NULL;
    unsigned count;
    TELLS(NVML_ERROR_UNINITIALIZED, nvmlDeviceGetCount(&count));
    TELLS(NVML_ERROR_UNINITIALIZED, nvmlShutdown());
    TELLS(NVML_SUCCESS, nvmlInit());
    TELLS(NVML_SUCCESS, nvmlInitWithFlags(NVML_INIT_FLAG_NO_ATTACH));
    TELLS(NVML_SUCCESS, nvmlShutdown()); /* of two */
    TELLS(NVML_SUCCESS, nvmlDeviceGetCount(&count));
    CHECK(count == 1);
    TELLS(NVML_SUCCESS, nvmlDeviceGetHandleByIndex(0, &nvml));
    (void)begin();
    OK(cuDeviceGet(&cuda, 0));
    check_names(nvml, cuda);
    check_hardware(nvml, cuda);
    check_memory(nvml);
    check_refusals(nvml);
    TELLS(NVML_SUCCESS, nvmlShutdown());
    TELLS(NVML_ERROR_UNINITIALIZED, nvmlDeviceGetIndex(nvml, &count));
    TELLS(NVML_ERROR_UNINITIALIZED, nvmlDeviceGetNumFans(nvml, &count));
    TELLS(NVML_ERROR_UNINITIALIZED, nvmlShutdown());
    puts("PASS");
    return 0;
}
