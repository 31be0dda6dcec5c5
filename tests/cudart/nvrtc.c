/* NVRTC in a guest: programs with headers, options, name expressions and errors, whose results the driver API loads.
 * argv[1]: a folder with headers. */
#include <nvrtc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "condition.h"
#include "cuda.h"

#define COMPILES(call) CHECK((call) == NVRTC_SUCCESS)
#define DRIVES(call) CHECK((call) == CUDA_SUCCESS)

static const char SOURCE[] =
    "#include \"given.h\"\n"
    "#include <scale.h>\n"
    "#include <cuda_fp16.h>\n"
    "#ifndef __CUDACC_RTC__\n"
    "#error \"not NVRTC\"\n"
    "#endif\n"
    "namespace n { __constant__ int base; }\n"
    "template <typename T> __global__ void scale_all(T *x, int count)\n"
    "{\n"
    "    const int i = threadIdx.x;\n"
    "    if (i < count)\n"
    "        x[i] = scale(x[i]) + GIVEN + T(n::base) + T(__half2float(__float2half(0.5f)) * 2);\n"
    "}\n";

static const char *log_of(nvrtcProgram program)
{
    static char log[65536];
    size_t size = 0;
    COMPILES(nvrtcGetProgramLogSize(program, &size));
    CHECK(size <= sizeof(log));
    COMPILES(nvrtcGetProgramLog(program, log));
    CHECK(strlen(log) + 1 == size);
    return log;
}

/* Compiles a source without headers; the program is the caller's. */
static nvrtcResult compile(nvrtcProgram *program, const char *source, int count, const char *const *options)
{
    COMPILES(nvrtcCreateProgram(program, source, "unit.cu", 0, NULL, NULL));
    return nvrtcCompileProgram(*program, count, options);
}

static void check_whole_program(const char *folder)
{
    char include[1024];
    nvrtcProgram program;
    CUmodule module;
    CUfunction function;
    CUdeviceptr base, memory;
    size_t size = 0, cubin = 0, lto = 1;
    const char *const headers[] = {"#define GIVEN 10\n"}, *const names[] = {"given.h"};
    const char *lowered = NULL, *variable = NULL;
    (void)snprintf(include, sizeof(include), "-I%s", folder);
    const char *const options[] = {include, "--gpu-architecture", "sm_80",     "-std=c++17",
                                   "-D",    "UNUSED=1",           "-fmad=true"};
    COMPILES(nvrtcCreateProgram(&program, SOURCE, "scale.cu", 1, headers, names));
    COMPILES(nvrtcAddNameExpression(program, "scale_all<int>"));
    COMPILES(nvrtcAddNameExpression(program, "&n::base"));
    CHECK(nvrtcGetLoweredName(program, "scale_all<int>", &lowered) == NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION);
    CHECK(nvrtcGetPTXSize(program, &size) == NVRTC_ERROR_INVALID_PROGRAM);
    COMPILES(nvrtcCompileProgram(program, 7, options));
    CHECK(strcmp(log_of(program), "") == 0);
    CHECK(nvrtcAddNameExpression(program, "scale_all<float>") == NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION);
    CHECK(nvrtcGetLoweredName(program, "scale_all<float>", &lowered) == NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID);
    COMPILES(nvrtcGetLoweredName(program, "scale_all<int>", &lowered));
    COMPILES(nvrtcGetLoweredName(program, "&n::base", &variable));
    CHECK(strcmp(lowered, "_Z9scale_allIiEvPT_i") == 0 && strcmp(variable, "_ZN1n4baseE") == 0);
    COMPILES(nvrtcGetPTXSize(program, &size));
    COMPILES(nvrtcGetCUBINSize(program, &cubin));
    COMPILES(nvrtcGetLTOIRSize(program, &lto));
    CHECK(size > 1 && cubin > 1 && lto == 0);
    char *images[] = {malloc(size), malloc(cubin)};
    COMPILES(nvrtcGetPTX(program, images[0]));
    COMPILES(nvrtcGetCUBIN(program, images[1]));
    CHECK(strlen(images[0]) + 1 == size);
    for (int i = 0; i < 2; i++) {
        int values[4] = {1, 2, 3, 4}, count = 4, seven = 7;
        void *arguments[] = {&memory, &count};
        DRIVES(cuModuleLoadData(&module, images[i]));
        DRIVES(cuModuleGetFunction(&function, module, lowered));
        DRIVES(cuModuleGetGlobal(&base, &size, module, variable));
        DRIVES(cuMemAlloc(&memory, sizeof(values)));
        DRIVES(cuMemcpyHtoD(base, &seven, sizeof(seven)));
        DRIVES(cuMemcpyHtoD(memory, values, sizeof(values)));
        DRIVES(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
        DRIVES(cuMemcpyDtoH(values, memory, sizeof(values)));
        for (int k = 0; k < 4; k++)
            CHECK(values[k] == 3 * (k + 1) + 18);
        DRIVES(cuMemFree(memory));
        DRIVES(cuModuleUnload(module));
        free(images[i]);
    }
    COMPILES(nvrtcDestroyProgram(&program));
    CHECK(program == NULL && nvrtcDestroyProgram(&program) == NVRTC_ERROR_INVALID_PROGRAM);
}

static void check_errors(void)
{
    nvrtcProgram program;
    size_t size;
    char byte;
    const char *const none[] = {NULL}, *const unknown[] = {"--bogus"}, *const arch[] = {"-arch=sm_eighty"};
    const char *const missing[] = {"-arch"}, *const neither[] = {"--fmad=perhaps"};
    CHECK(compile(&program, "__global__ void k(int *x) { *x = y; }", 0, NULL) == NVRTC_ERROR_COMPILATION);
    CHECK(strstr(log_of(program), "unit.cu") != NULL && strstr(log_of(program), "undeclared identifier 'y'") != NULL);
    CHECK(nvrtcGetPTXSize(program, &size) == NVRTC_ERROR_INVALID_PROGRAM);
    CHECK(nvrtcGetPTX(program, &byte) == NVRTC_ERROR_INVALID_PROGRAM);
    COMPILES(nvrtcDestroyProgram(&program));
    CHECK(compile(&program, "", 1, unknown) == NVRTC_ERROR_INVALID_OPTION);
    CHECK(strstr(log_of(program), "--bogus") != NULL);
    CHECK(nvrtcCompileProgram(program, 1, arch) == NVRTC_ERROR_INVALID_OPTION);
    CHECK(strstr(log_of(program), "sm_eighty") != NULL && strstr(log_of(program), "--bogus") == NULL);
    CHECK(nvrtcCompileProgram(program, 1, missing) == NVRTC_ERROR_INVALID_OPTION);
    CHECK(nvrtcCompileProgram(program, 1, neither) == NVRTC_ERROR_INVALID_OPTION);
    CHECK(nvrtcCompileProgram(program, 1, none) == NVRTC_ERROR_INVALID_INPUT);
    CHECK(nvrtcCompileProgram(program, -1, NULL) == NVRTC_ERROR_INVALID_INPUT);
    COMPILES(nvrtcDestroyProgram(&program));
    CHECK(compile(&program, "#include <absent.h>\n", 0, NULL) == NVRTC_ERROR_COMPILATION);
    CHECK(strstr(log_of(program), "absent.h") != NULL);
    COMPILES(nvrtcDestroyProgram(&program));
    CHECK(nvrtcCreateProgram(NULL, "", "", 0, NULL, NULL) == NVRTC_ERROR_INVALID_INPUT);
    CHECK(nvrtcCreateProgram(&program, NULL, "", 0, NULL, NULL) == NVRTC_ERROR_INVALID_INPUT);
    CHECK(nvrtcCreateProgram(&program, "", "", 1, NULL, NULL) == NVRTC_ERROR_INVALID_INPUT);
    CHECK(nvrtcCompileProgram(NULL, 0, NULL) == NVRTC_ERROR_INVALID_PROGRAM);
    COMPILES(nvrtcCreateProgram(&program, "__global__ void k() {}", NULL, 0, NULL, NULL));
    COMPILES(nvrtcAddNameExpression(program, "absent<3>"));
    CHECK(nvrtcCompileProgram(program, 0, NULL) == NVRTC_ERROR_COMPILATION);
    COMPILES(nvrtcDestroyProgram(&program));
}

static int refuse(void *payload, void *reserved)
{
    (void)reserved;
    ++*(int *)payload;
    return 1;
}

static void check_settings(void)
{
    nvrtcProgram program;
    int major, minor, count, calls = 0, architectures[64];
    size_t size = 0;
    const char *const virtual[] = {"-arch=compute_90", "-dlto", "--split-compile=0", "-w"};
    COMPILES(nvrtcVersion(&major, &minor));
    CHECK(major == 12 && minor == 9);
    COMPILES(nvrtcGetNumSupportedArchs(&count));
    CHECK(count > 0 && count <= 64);
    COMPILES(nvrtcGetSupportedArchs(architectures));
    CHECK(architectures[0] == 75);
    COMPILES(compile(&program, "__global__ void k() {}", 4, virtual));
    COMPILES(nvrtcGetCUBINSize(program, &size));
    CHECK(size == 0);
    COMPILES(nvrtcGetLTOIRSize(program, &size));
    CHECK(size > 1);
    COMPILES(nvrtcSetFlowCallback(program, refuse, &calls));
    CHECK(nvrtcCompileProgram(program, 0, NULL) == NVRTC_ERROR_CANCELLED && calls == 1);
    COMPILES(nvrtcDestroyProgram(&program));
    CHECK(strcmp(nvrtcGetErrorString(NVRTC_ERROR_COMPILATION), "NVRTC_ERROR_COMPILATION") == 0);
    CHECK(strcmp(nvrtcGetErrorString((nvrtcResult)99), "NVRTC_ERROR unknown") == 0);
}

int main(int argc, char **argv)
{
    CUcontext context;
    CHECK(argc == 2);
    check_settings(); /* NVRTC needs no cuInit() */
    check_errors();
    DRIVES(cuInit(0));
    DRIVES(cuCtxCreate(&context, 0, 0));
    check_whole_program(argv[1]);
    DRIVES(cuCtxDestroy(context));
    puts("PASS");
    return 0;
}
