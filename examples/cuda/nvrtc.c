/* Compiles a kernel as the program runs, by NVRTC, and launches it by the driver API. The exponent is chosen then, too:
 *
 *     mynvcc examples/cuda/nvrtc.c -lnvrtc -lcuda -o nvrtc && ./nvrtc 3 */
#include <cuda.h>
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1 << 20, THREADS = 256 };

static const char SOURCE[] = "template <int E> __global__ void raise(float *x, int n)\n"
                             "{\n"
                             "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                             "    float product = 1;\n"
                             "    for (int k = 0; k < E && i < n; k++)\n"
                             "        product *= x[i];\n"
                             "    if (i < n)\n"
                             "        x[i] = product;\n"
                             "}\n";

static void check(CUresult result, const char *what)
{
    const char *text = NULL;
    if (result == CUDA_SUCCESS)
        return;
    cuGetErrorString(result, &text);
    fprintf(stderr, "%s: %s (`vgc last-error` says more)\n", what, text);
    exit(1);
}

/* PTX of the kernel for an exponent, and the name that the linker gives it; both stay until the program ends. */
static char *compile(int exponent, const char **name)
{
    char expression[32];
    nvrtcProgram program;
    size_t size = 0;
    const char *const options[] = {"--gpu-architecture=compute_80", "-std=c++17"};
    snprintf(expression, sizeof(expression), "raise<%d>", exponent);
    nvrtcCreateProgram(&program, SOURCE, "raise.cu", 0, NULL, NULL);
    nvrtcAddNameExpression(program, expression);
    const nvrtcResult result = nvrtcCompileProgram(program, 2, options);
    nvrtcGetProgramLogSize(program, &size);
    char *log = malloc(size);
    nvrtcGetProgramLog(program, log);
    fputs(log, stderr);
    if (result != NVRTC_SUCCESS) {
        fprintf(stderr, "%s\n", nvrtcGetErrorString(result));
        exit(1);
    }
    nvrtcGetPTXSize(program, &size);
    char *ptx = malloc(size);
    nvrtcGetPTX(program, ptx);
    nvrtcGetLoweredName(program, expression, name);
    return ptx;
}

int main(int argc, char **argv)
{
    const int exponent = argc > 1 ? atoi(argv[1]) : 3;
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction raise;
    CUdeviceptr memory;
    const char *name;
    int count = N, wrong = 0;
    float *x = malloc(N * sizeof(float));
    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 8);

    check(cuInit(0), "driver");
    check(cuDeviceGet(&device, 0), "device");
    check(cuDevicePrimaryCtxRetain(&context, device), "context");
    check(cuCtxSetCurrent(context), "context");
    check(cuModuleLoadData(&module, compile(exponent, &name)), "module");
    check(cuModuleGetFunction(&raise, module, name), "kernel");
    check(cuMemAlloc(&memory, N * sizeof(float)), "memory");
    check(cuMemcpyHtoD(memory, x, N * sizeof(float)), "copy");
    void *arguments[] = {&memory, &count};
    check(cuLaunchKernel(raise, (N + THREADS - 1) / THREADS, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL), "launch");
    check(cuMemcpyDtoH(x, memory, N * sizeof(float)), "copy");
    for (int i = 0; i < N; i++) {
        float expected = 1;
        for (int k = 0; k < exponent; k++)
            expected *= (float)(i % 8);
        wrong += x[i] != expected;
    }
    printf("%s: %d powers are right\n", name, N - wrong);
    return wrong != 0;
}
