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
