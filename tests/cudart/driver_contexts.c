/* Contexts: what is current in a thread, and what goes with a context. */
#include <pthread.h>

#include "driver_checks.h"

static void *in_another_thread(void *context)
{
    CUcontext current;
    CUdeviceptr memory;
    OK(cuCtxGetCurrent(&current));
    CHECK(current == NULL);
    ENDS(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&memory, 4));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&memory, 4));
    OK(cuMemFree(memory));
    return NULL;
}

static size_t free_bytes(void)
{
    size_t left, total;
    OK(cuMemGetInfo(&left, &total));
    return left;
}

/* Parameters that say how multiprocessors are shared, which the host decides. */
static void parameters(CUdevice device)
{
    CUcontext context;
    CUexecAffinityParam affinity = {.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT, .param = {.smCount = {1}}};
    CUctxCigParam graphics = {.sharedDataType = CIG_DATA_TYPE_NV_BLOB};
    CUctxCreateParams none = {0}, some = {.execAffinityParams = &affinity, .numExecAffinityParams = 1};
    int can = 1;
    OK(cuCtxCreate_v4(&context, NULL, CU_CTX_MAP_HOST, device));
    OK(cuCtxDestroy(context));
    OK(cuCtxCreate_v4(&context, &none, 0, device));
    ENDS(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
    OK(cuCtxSetFlags(CU_CTX_SCHED_YIELD));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuCtxSetFlags(0x1000));
    OK(cuCtxDestroy(context));
    OK(cuCtxCreate_v3(&context, NULL, 0, 0, device));
    OK(cuCtxAttach(&context, 0));
    OK(cuCtxDetach(context));
    OK(cuCtxDetach(context));
    ENDS(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(context));
    OK(cuDeviceGetExecAffinitySupport(&can, CU_EXEC_AFFINITY_TYPE_SM_COUNT, device));
    CHECK(can == 0);
    ENDS(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, cuCtxCreate_v4(&context, &some, 0, device));
    ENDS(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, cuCtxCreate_v3(&context, &affinity, 1, 0, device));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuCtxCreate_v3(&context, NULL, 1, 0, device));
    some.cigParams = &graphics;
    ENDS(CUDA_ERROR_INVALID_VALUE, cuCtxCreate_v4(&context, &some, 0, device));
    none.cigParams = &graphics;
    ENDS(CUDA_ERROR_NOT_SUPPORTED, cuCtxCreate_v4(&context, &none, 0, device));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuCtxCreate(&context, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD, device));
    ENDS(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate_v4(&context, NULL, 0, 1));
}

static void attributes(CUdevice device)
{
    CUdevprop properties;
    int value = -1;
    OK(cuDeviceGetProperties(&properties, device));
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, device));
    CHECK(value > 0 && properties.maxThreadsDim[2] == value && properties.SIMDWidth == 32);
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH, device));
    CHECK(value > 0);
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX - 1, device));
    CHECK(value == 0);
    ENDS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, device));
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device));
    CHECK(value == 0);
}

/* Memory pools are devices': they need no context. */
static void pools(CUdevice device)
{
    CUmemoryPool pool;
    CUcontext none;
    cuuint64_t bytes = 1 << 20;
    OK(cuCtxGetCurrent(&none));
    CHECK(none == NULL);
    OK(cuDeviceGetDefaultMemPool(&pool, device));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes));
    bytes = 0;
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes));
    CHECK(bytes == 1 << 20);
    OK(cuMemPoolTrimTo(pool, 0));
}

int main(void)
{
    CUdevice device;
    CUcontext first, second, primary, current;
    CUdeviceptr memory;
    CUmodule module;
    CUfunction function;
    CUstream stream;
    unsigned flags, version;
    unsigned long long ids[2];
    int active, count;
    pthread_t thread;

    ENDS(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
    ENDS(CUDA_ERROR_NOT_INITIALIZED, cuCtxGetCurrent(&current));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuInit(1));
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    CHECK(count == 1);
    ENDS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, 1));
    OK(cuDeviceGet(&device, 0));
    ENDS(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
    parameters(device);
    attributes(device);
    pools(device);

    OK(cuCtxCreate(&first, 0, device));
    OK(cuCtxCreate(&second, CU_CTX_SCHED_SPIN, device));
    OK(cuCtxGetId(first, &ids[0]));
    OK(cuCtxGetId(NULL, &ids[1]));
    CHECK(first != second && ids[0] != ids[1]);
    OK(cuCtxGetFlags(&flags));
    CHECK(flags == CU_CTX_SCHED_SPIN);
    OK(cuCtxPopCurrent(&current));
    CHECK(current == second);
    OK(cuCtxGetCurrent(&current));
    CHECK(current == first);
    OK(cuCtxPushCurrent(second));
    OK(cuCtxGetApiVersion(NULL, &version));
    CHECK(version > 0);
    CHECK(pthread_create(&thread, NULL, in_another_thread, first) == 0 && pthread_join(thread, NULL) == 0);

    /* What is made in a context goes with it: memory, modules, streams. */
    const size_t before = free_bytes();
    OK(cuMemAlloc(&memory, 1 << 20));
    OK(cuModuleLoadData(&module, SCALE));
    OK(cuModuleGetFunction(&function, module, "scale"));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamGetCtx(stream, &current));
    CHECK(current == second);
    CHECK(free_bytes() < before);
    OK(cuCtxDestroy(second));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == first);
    CHECK(free_bytes() == before);
    ENDS(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(&function, module, "scale"));
    ENDS(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    ENDS(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(stream));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuMemFree(memory));
    ENDS(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(second));
    ENDS(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(second));

    /* The primary context is counted; what the others have stays when it goes. */
    OK(cuMemAlloc(&memory, 4));
    OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
    CHECK(!active);
    OK(cuDevicePrimaryCtxRetain(&primary, device));
    OK(cuDevicePrimaryCtxRetain(&current, device));
    CHECK(primary == current && primary != first);
    OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
    CHECK(active);
    OK(cuDevicePrimaryCtxRelease(device));
    OK(cuDevicePrimaryCtxRelease(device));
    ENDS(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(device));
    OK(cuMemsetD32(memory, 7, 1));
    CHECK(first_of(memory) == 7);

    /* No context is left. */
    OK(cuCtxDestroy(first));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == NULL);
    ENDS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(&current));
    ENDS(CUDA_ERROR_INVALID_CONTEXT, cuMemFree(memory));
    puts("PASS");
    return 0;
}
