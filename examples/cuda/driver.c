/* Adds two vectors by CUDA's driver API: loads the kernel of vector_add.cu from a file, and launches it by name.
 *
 *     mynvcc -cubin examples/cuda/vector_add.cu -o vector_add.cubin
 *     mynvcc examples/cuda/driver.c -lcuda -o driver && ./driver vector_add.cubin
 *
 * The file may be PTX as well, made anywhere: nvcc -ptx -arch=sm_80 examples/cuda/vector_add.cu */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1 << 20, THREADS = 256 };

static void check(CUresult result, const char *what)
{
    const char *text = NULL;
    if (result == CUDA_SUCCESS)
        return;
    cuGetErrorString(result, &text);
    fprintf(stderr, "%s: %s (`vgc last-error` says more)\n", what, text);
    exit(1);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "vector_add.cubin";
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction add;
    CUdeviceptr memory[3];
    char name[100];
    int count = N;
    float *a = malloc(N * sizeof(float)), *b = malloc(N * sizeof(float)), *sum = malloc(N * sizeof(float));
    for (int i = 0; i < N; i++) {
        a[i] = (float)i;
        b[i] = 0.5f * (float)i;
    }

    check(cuInit(0), "driver");
    check(cuDeviceGet(&device, 0), "device");
    check(cuDeviceGetName(name, sizeof(name), device), "device");
    printf("%s\n", name);
    check(cuDevicePrimaryCtxRetain(&context, device), "context");
    check(cuCtxSetCurrent(context), "context");
    check(cuModuleLoad(&module, path), path);
    check(cuModuleGetFunction(&add, module, "_Z3addPKfS0_Pfi"),
          "kernel"); /* add(const float *, ...), as C++ names it */

    for (int i = 0; i < 3; i++)
        check(cuMemAlloc(&memory[i], N * sizeof(float)), "memory");
    check(cuMemcpyHtoD(memory[0], a, N * sizeof(float)), "copy in");
    check(cuMemcpyHtoD(memory[1], b, N * sizeof(float)), "copy in");
    void *arguments[] = {&memory[0], &memory[1], &memory[2], &count};
    check(cuLaunchKernel(add, (N + THREADS - 1) / THREADS, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL), "launch");
    check(cuMemcpyDtoH(sum, memory[2], N * sizeof(float)), "copy out");

    for (int i = 0; i < N; i++)
        if (sum[i] != a[i] + b[i]) {
            printf("element %d is %g, not %g\n", i, sum[i], a[i] + b[i]);
            return 1;
        }
    printf("%d sums are right\n", N);
    check(cuModuleUnload(module), "module");
    check(cuDevicePrimaryCtxRelease(device), "context");
    return 0;
}
