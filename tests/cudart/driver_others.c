/* Managed memory, pools, attributes of streams and kernels, handles for other processes; and what devices do not have.
 * With an argument, the program is the other process, which opens memory by its handle. */
#include <spawn.h>
#include <sys/wait.h>

#include "cudaProfiler.h"
#include "driver_checks.h"

extern char **environ;

static void managed(void)
{
    CUdeviceptr memory;
    CUstream stream;
    int seen = 0, preferred = 0;
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    OK(cuMemAllocManaged(&memory, 4096, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAdvise(memory, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, CU_DEVICE_CPU));
    OK(cuMemAdvise_v2(memory, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here));
    OK(cuMemRangeGetAttribute(&seen, sizeof(seen), CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, 4096));
    CHECK(seen == 1);
    void *values[] = {&seen, &preferred};
    size_t sizes[] = {sizeof(seen), sizeof(preferred)};
    CUmem_range_attribute attributes[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                          CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION};
    preferred = -9;
    OK(cuMemRangeGetAttributes(values, sizes, attributes, 2, memory, 4096));
    CHECK(seen == 1 && preferred == 0);
    *(volatile unsigned *)(uintptr_t)memory = 41;
    OK(cuMemPrefetchAsync(memory, 4096, 0, NULL));
    OK(cuMemsetD32(memory + 4, 42, 1));
    OK(cuMemPrefetchAsync_v2(memory, 4096, (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, 0}, 0, NULL));
    OK(cuCtxSynchronize());
    CHECK(((volatile unsigned *)(uintptr_t)memory)[0] == 41 && ((volatile unsigned *)(uintptr_t)memory)[1] == 42);
    OK(cuStreamCreate(&stream, 0));
    OK(cuStreamAttachMemAsync(stream, memory, 0, CU_MEM_ATTACH_SINGLE));
    OK(cuStreamDestroy(stream));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(memory, 4096, (CUmem_advise)99, 0));
    ENDS(CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync(memory, 4096, 5, NULL));
    OK(cuMemFree(memory));
}

static void pools(void)
{
    CUmemoryPool pool;
    CUdeviceptr memory;
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here};
    int descriptor;
    OK(cuMemPoolCreate(&pool, &properties));
    OK(cuMemPoolGetAccess(&flags, pool, &here));
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemAllocFromPoolAsync(&memory, 4096, pool, NULL));
    OK(cuMemsetD32Async(memory, 6, 1, NULL));
    CHECK(first_of(memory) == 6);
    OK(cuMemFreeAsync(memory, NULL));
    ENDS(CUDA_ERROR_NOT_SUPPORTED,
         cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemPoolDestroy(pool));
    properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
    ENDS(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, &properties));
}

static void streams_and_kernels(CUcontext context)
{
    CUstream stream, other;
    CUstreamAttrValue value = {.syncPolicy = CU_SYNC_POLICY_YIELD};
    CUmodule module;
    CUfunction scale;
    CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_UNLOADED;
    CUdevice device = 9;
    CUcontext of;
    CUgreenCtx green = (CUgreenCtx)&value;
    CUdeviceptr memory;
    size_t count = 0;
    unsigned n = 1;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    OK(cuStreamCopyAttributes(other, stream));
    value.syncPolicy = CU_SYNC_POLICY_AUTO;
    OK(cuStreamGetAttribute(other, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    CHECK(value.syncPolicy == CU_SYNC_POLICY_YIELD);
    OK(cuStreamGetCtx_v2(stream, &of, &green));
    CHECK(of == context && green == NULL);
    OK(cuCtxSynchronize_v2(context));
    OK(cuCtxGetDevice_v2(&device, context));
    CHECK(device == 0);
    OK(cuModuleLoadData(&module, SCALE));
    OK(cuModuleGetFunction(&scale, module, "scale"));
    OK(cuFuncGetParamCount(scale, &count));
    CHECK(count == 2);
    OK(cuFuncIsLoaded(&state, scale));
    CHECK(state == CU_FUNCTION_LOADING_STATE_LOADED);
    OK(cuFuncSetSharedMemConfig(scale, CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE));
    OK(cuKernelSetCacheConfig((CUkernel)scale, CU_FUNC_CACHE_PREFER_L1, 0));
    ENDS(CUDA_ERROR_INVALID_HANDLE, cuFuncLoad(NULL));
    OK(cuMemAlloc(&memory, 4));
    OK(cuMemsetD32(memory, 5, 1));
    void *parameters[] = {&memory, &n};
    CUDA_LAUNCH_PARAMS one = {scale, 1, 1, 1, 1, 1, 1, 0, stream, parameters};
    OK(cuProfilerStart());
    OK(cuLaunchCooperativeKernelMultiDevice(&one, 1, 0));
    OK(cuStreamSynchronize(stream));
    OK(cuProfilerStop());
    ENDS(CUDA_ERROR_NOT_SUPPORTED, cuProfilerInitialize("config", "output", CU_OUT_CSV));
    CHECK(first_of(memory) == 15);
    ENDS(CUDA_ERROR_INVALID_VALUE, cuLaunchCooperativeKernelMultiDevice(&one, 0, 0));
    const unsigned yes = 1;
    OK(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_IS_MANAGED, memory));
    OK(cuMemFree(memory));
    OK(cuStreamDestroy(stream));
    OK(cuStreamDestroy(other));
}

/* Second process: it opens the memory, sees what lies there, and writes. */
static void processes(char *program)
{
    CUipcMemHandle handle;
    CUdeviceptr memory, again;
    char text[2 * sizeof(handle) + 1];
    int status;
    pid_t child;
    OK(cuMemAlloc(&memory, 4096));
    OK(cuMemsetD32(memory, 1234, 1));
    OK(cuIpcGetMemHandle(&handle, memory));
    ENDS(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    for (size_t i = 0; i < sizeof(handle); i++)
        sprintf(text + 2 * i, "%02x", (unsigned char)handle.reserved[i]);
    CHECK(posix_spawn(&child, program, NULL, NULL, (char *[]){program, text, NULL}, environ) == 0);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(first_of(memory) == 4321);
    OK(cuMemFree(memory));
    memset(&handle, 0x55, sizeof(handle));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

static int the_other_process(const char *text)
{
    CUipcMemHandle handle;
    CUdeviceptr memory;
    CUcontext context = begin();
    for (size_t i = 0; i < sizeof(handle); i++) {
        unsigned byte;
        CHECK(sscanf(text + 2 * i, "%2x", &byte) == 1);
        handle.reserved[i] = (char)byte;
    }
    OK(cuIpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK(first_of(memory) == 1234);
    OK(cuMemsetD32(memory, 4321, 1));
    OK(cuCtxSynchronize());
    OK(cuIpcCloseMemHandle(memory));
    OK(cuCtxDestroy(context));
    return 0;
}

/* Functions for what no device has: attributes tell of it, and so does the result of a call. */
static void absent(void)
{
    CUdeviceptr memory = 0;
    CUmemGenericAllocationHandle handle;
    CUexternalMemory external;
    CUgreenCtx green;
    size_t size;
    int has = 1;
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    const CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD};
    static const CUdevice_attribute ATTRIBUTES[] = {
        CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED};
    for (size_t i = 0; i < sizeof(ATTRIBUTES) / sizeof(ATTRIBUTES[0]); i++) {
        OK(cuDeviceGetAttribute(&has, ATTRIBUTES[i], 0));
        CHECK(has == 0);
    }
    ENDS(CUDA_ERROR_NOT_SUPPORTED, cuMemGetAllocationGranularity(&size, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    ENDS(CUDA_ERROR_NOT_SUPPORTED, cuMemAddressReserve(&memory, 1 << 21, 0, 0, 0));
    ENDS(CUDA_ERROR_NOT_SUPPORTED, cuMemCreate(&handle, 1 << 21, &properties, 0));
    ENDS(CUDA_ERROR_NOT_SUPPORTED, cuImportExternalMemory(&external, &description));
    ENDS(CUDA_ERROR_NOT_SUPPORTED, cuStreamWriteValue32(NULL, memory, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    ENDS(CUDA_ERROR_NOT_SUPPORTED, cuGreenCtxCreate(&green, NULL, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    ENDS(CUDA_ERROR_NOT_SUPPORTED, cuGraphicsMapResources(0, NULL, NULL));
}

int main(int count, char **arguments)
{
    ENDS(CUDA_ERROR_NOT_INITIALIZED, cuMemUnmap(0, 0));
    if (count == 2)
        return the_other_process(arguments[1]);
    CUcontext context = begin();
    managed();
    pools();
    streams_and_kernels(context);
    processes(arguments[0]);
    absent();
    OK(cuCtxDestroy(context));
    puts("PASS");
    return 0;
}
