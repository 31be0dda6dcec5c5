// Rule: NVRTC compiles source at run time, and the driver API loads and launches it beside the runtime's memory.
// flags: -lnvrtc -lcuda
// needs: libcuda libnvrtc
#include "check.h"
#include <cuda.h>
#include <nvrtc.h>
#include <vector>

static const char *SOURCE = "extern \"C\" __global__ void scale(float *x, float by, int n) {\n"
                            "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                            "    if (i < n) x[i] *= by;\n"
                            "}\n";

int main()
{
    nvrtcProgram program;
    size_t size;
    EXPECT_EQUAL(nvrtcCreateProgram(&program, SOURCE, "scale.cu", 0, NULL, NULL), NVRTC_SUCCESS);
    const char *options[] = {"--gpu-architecture=compute_80"};
    EXPECT_EQUAL(nvrtcCompileProgram(program, 1, options), NVRTC_SUCCESS);
    EXPECT_EQUAL(nvrtcGetPTXSize(program, &size), NVRTC_SUCCESS);
    std::vector<char> ptx(size);
    EXPECT_EQUAL(nvrtcGetPTX(program, ptx.data()), NVRTC_SUCCESS);
    EXPECT_EQUAL(nvrtcDestroyProgram(&program), NVRTC_SUCCESS);
    float *device, values[100];
    for (int i = 0; i < 100; i++)
        values[i] = i;
    CHECK(cudaMalloc(&device, sizeof values)); /* the runtime's context is the driver's current one */
    CHECK(cudaMemcpy(device, values, sizeof values, cudaMemcpyHostToDevice));
    CUmodule module;
    CUfunction function;
    EXPECT_EQUAL(cuModuleLoadData(&module, ptx.data()), CUDA_SUCCESS);
    EXPECT_EQUAL(cuModuleGetFunction(&function, module, "scale"), CUDA_SUCCESS);
    float by = 2.5f;
    int n = 100;
    void *arguments[] = {&device, &by, &n};
    EXPECT_EQUAL(cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL), CUDA_SUCCESS);
    EXPECT_EQUAL(cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 100; i++)
        EXPECT_EQUAL(values[i], i * 2.5f);
    EXPECT_EQUAL(cuModuleUnload(module), CUDA_SUCCESS);
    return finish();
}
