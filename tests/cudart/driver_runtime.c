/* Both interfaces in one program: one device, one primary context, and each with its own last error. */
#include "driver_checks.h"

int main(void)
{
    CUcontext primary, current, own;
    CUmodule module;
    CUfunction scale;
    unsigned *memory, count = COUNT, value = 0;
    cudaStream_t stream;
    CHECK(cudaMalloc((void **)&memory, COUNT * sizeof(unsigned)) == cudaSuccess); /* which begins the driver, too */
    OK(cuCtxGetCurrent(&current));
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(current == primary);
    OK(cuModuleLoadData(&module, SCALE));
    OK(cuModuleGetFunction(&scale, module, "scale"));
    CHECK(cudaMemset(memory, 1, COUNT * sizeof(unsigned)) == cudaSuccess);
    CHECK(cudaStreamCreate(&stream) == cudaSuccess);
    void *list[] = {&memory, &count};
    OK(cuLaunchKernel(scale, 4, 1, 1, 32, 1, 1, 0, stream, list, NULL));
    CHECK(cudaLaunchKernel((void *)scale, (dim3){4, 1, 1}, (dim3){32, 1, 1}, list, 0, stream) == cudaSuccess);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(cudaMemcpy(&value, memory, sizeof(value), cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(value == 9u * 0x01010101);

    /* Errors of one are not the other's. */
    ENDS(CUDA_ERROR_INVALID_VALUE, cuMemFree(12345));
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    CHECK(cudaFree((void *)12345) == cudaErrorInvalidValue);
    OK(cuCtxSynchronize());
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);

    /* cudaSetDevice() puts the primary context in place of another. */
    OK(cuCtxCreate(&own, 0, 0));
    CHECK(cudaSetDevice(0) == cudaSuccess);
    OK(cuCtxGetCurrent(&current));
    CHECK(current == primary);
    OK(cuCtxDestroy(own));
    CHECK(cudaFree(memory) == cudaSuccess);
    puts("PASS");
    return 0;
}
