/* Linking in a guest: PTX and CUDA C, by the driver's cuLink... and by nvJitLink; what is linked runs. argv[1]: a file
 * for the PTX; argv[2]: what mynvcc has made of links.cu. */
#include <nvJitLink.h>
#include <nvrtc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "condition.h"
#include "cuda.h"

#define COMPILES(call) CHECK((call) == NVRTC_SUCCESS)
#define DRIVES(call) CHECK((call) == CUDA_SUCCESS)
#define LINKS(call) CHECK((call) == NVJITLINK_SUCCESS)

static const char CALLER[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                             ".extern .func (.param .b32 r) twice(.param .b32 x);\n"
                             ".visible .entry k(.param .u64 p)\n"
                             "{\n"
                             "  .reg .b64 %a; .reg .b32 %v; .param .b32 x; .param .b32 r;\n"
                             "  ld.param.u64 %a, [p]; ld.global.u32 %v, [%a]; st.param.b32 [x], %v;\n"
                             "  call (r), twice, (x);\n"
                             "  ld.param.b32 %v, [r]; st.global.u32 [%a], %v; ret;\n"
                             "}\n";
static const char CALLEE[] = "extern \"C\" __device__ int twice(int x) { return FACTOR * x; }\n";

/* Relocatable code of the function that the caller lacks; to be freed. */
static char *compile_callee(size_t *size)
{
    nvrtcProgram program;
    const char *const options[] = {"-arch=sm_80", "-dc", "-DFACTOR=2"};
    COMPILES(nvrtcCreateProgram(&program, CALLEE, "twice.cu", 0, NULL, NULL));
    COMPILES(nvrtcCompileProgram(program, 3, options));
    COMPILES(nvrtcGetCUBINSize(program, size));
    char *image = malloc(*size);
    COMPILES(nvrtcGetCUBIN(program, image));
    COMPILES(nvrtcDestroyProgram(&program));
    return image;
}

static void check_image(const void *image, const char *name)
{
    CUmodule module;
    CUfunction kernel;
    CUdeviceptr memory;
    int value = 21;
    void *arguments[] = {&memory};
    DRIVES(cuModuleLoadData(&module, image));
    DRIVES(cuModuleGetFunction(&kernel, module, name));
    DRIVES(cuMemAlloc(&memory, sizeof(value)));
    DRIVES(cuMemcpyHtoD(memory, &value, sizeof(value)));
    DRIVES(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    DRIVES(cuMemcpyDtoH(&value, memory, sizeof(value)));
    CHECK(value == 42);
    DRIVES(cuMemFree(memory));
    DRIVES(cuModuleUnload(module));
}

static void check_driver(const char *path)
{
    CUlinkState state;
    size_t callee_size, size = 0;
    void *image = NULL;
    static char log[4096];
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)sizeof(log)};
    char *callee = compile_callee(&callee_size);
    log[0] = 'x';
    DRIVES(cuLinkCreate(2, options, values, &state));
    CHECK(log[0] == '\0' && values[1] == NULL); /* nothing has been said yet */
    values[1] = (void *)sizeof(log);
    CHECK(cuLinkComplete(state, &image, &size) == CUDA_ERROR_INVALID_VALUE); /* without inputs */
    DRIVES(cuLinkAddFile(state, CU_JIT_INPUT_PTX, path, 0, NULL, NULL));
    CHECK(cuLinkComplete(state, &image, &size) == CUDA_ERROR_INVALID_PTX);
    CHECK(strstr(log, "twice") != NULL && (size_t)values[1] == strlen(log) + 1);
    DRIVES(cuLinkAddData(state, CU_JIT_INPUT_CUBIN, callee, callee_size, "twice", 0, NULL, NULL));
    DRIVES(cuLinkAddFile(state, CU_JIT_INPUT_LIBRARY, "/nowhere/libcudadevrt.a", 0, NULL, NULL));
    DRIVES(cuLinkComplete(state, &image, &size));
    CHECK(size > 0);
    check_image(image, "k");
    DRIVES(cuLinkDestroy(state));
    CHECK(cuLinkDestroy(state) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuLinkComplete(state, &image, &size) == CUDA_ERROR_INVALID_HANDLE);
    DRIVES(cuLinkCreate(0, NULL, NULL, &state));
    CHECK(cuLinkAddData(state, CU_JIT_INPUT_PTX, "nothing", 8, "n", 0, NULL, NULL) == CUDA_ERROR_INVALID_IMAGE);
    CHECK(cuLinkAddData(state, CU_JIT_INPUT_PTX, NULL, 8, "n", 0, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuLinkAddFile(state, CU_JIT_INPUT_PTX, "/nowhere/a.ptx", 0, NULL, NULL) == CUDA_ERROR_FILE_NOT_FOUND);
    CHECK(cuLinkComplete(state, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
    DRIVES(cuLinkDestroy(state));
    CHECK(cuLinkCreate(0, NULL, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
    free(callee);
}

/* Code that mynvcc has made, alone and with PTX that calls it. */
static void check_mynvccs(const char *ptx, const char *path)
{
    CUlinkState state;
    size_t size;
    void *image;
    static char log[4096], code[1 << 16];
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)sizeof(log)};
    FILE *file = fopen(path, "rbe");
    CHECK(file != NULL);
    const size_t code_size = fread(code, 1, sizeof(code), file);
    CHECK(fclose(file) == 0 && code_size > 8 && code_size < sizeof(code));
    DRIVES(cuLinkCreate(2, options, values, &state));
    DRIVES(cuLinkAddData(state, CU_JIT_INPUT_PTX, code, code_size, "code", 0, NULL, NULL));
    DRIVES(cuLinkComplete(state, &image, &size));
    check_image(image, "alone");
    DRIVES(cuLinkAddFile(state, CU_JIT_INPUT_PTX, ptx, 0, NULL, NULL));
    DRIVES(cuLinkComplete(state, &image, &size));
    check_image(image, "k");
    const size_t head = code[0] == '/' ? 40 : code_size; /* a text may end anywhere behind its head */
    for (size_t cut = 8; cut < head; cut += cut < 40 ? 8 : code_size / 8)
        CHECK(cuLinkAddData(state, CU_JIT_INPUT_PTX, code, cut, "cut", 0, NULL, NULL) == CUDA_ERROR_INVALID_IMAGE);
    CHECK(strstr(log, "'cut' is of no kind that can be linked (allowed: PTX, ") != NULL);
    CHECK((size_t)values[1] == strlen(log) + 1);
    CHECK(cuLinkAddFile(state, CU_JIT_INPUT_PTX, "/nowhere/a.ptx", 0, NULL, NULL) == CUDA_ERROR_FILE_NOT_FOUND);
    CHECK(strcmp(log, "error: cannot read '/nowhere/a.ptx'\n") == 0);
    DRIVES(cuLinkDestroy(state));
}

static void check_nvjitlink(const char *path)
{
    nvJitLinkHandle link;
    unsigned major, minor;
    size_t callee_size, size = 0;
    static char log[4096];
    const char *options[] = {"-arch=sm_80", "-O3", "-lineinfo"}, *unknown[] = {"-arch=sm_80", "-bogus"};
    const char *ptx[] = {"-arch=sm_80", "-ptx"};
    char *callee = compile_callee(&callee_size);
    LINKS(nvJitLinkVersion(&major, &minor));
    CHECK(major == 12 && minor == 2);
    LINKS(nvJitLinkCreate(&link, 3, options));
    CHECK(nvJitLinkGetLinkedCubinSize(link, &size) == NVJITLINK_ERROR_INVALID_INPUT);
    LINKS(nvJitLinkAddData(link, NVJITLINK_INPUT_PTX, CALLER, strlen(CALLER), "caller"));
    CHECK(nvJitLinkComplete(link) == NVJITLINK_ERROR_PTX_COMPILE);
    LINKS(nvJitLinkGetErrorLogSize(link, &size));
    CHECK(size > 1 && size <= sizeof(log));
    LINKS(nvJitLinkGetErrorLog(link, log));
    CHECK(strstr(log, "twice") != NULL);
    LINKS(nvJitLinkDestroy(&link));
    CHECK(link == NULL);
    LINKS(nvJitLinkCreate(&link, 3, options));
    LINKS(nvJitLinkAddFile(link, NVJITLINK_INPUT_PTX, path));
    LINKS(nvJitLinkAddData(link, NVJITLINK_INPUT_ANY, callee, callee_size, "-odd\nname"));
    LINKS(nvJitLinkComplete(link));
    LINKS(nvJitLinkGetErrorLogSize(link, &size));
    CHECK(size == 0);
    LINKS(nvJitLinkGetLinkedCubinSize(link, &size));
    void *image = malloc(size);
    LINKS(nvJitLinkGetLinkedCubin(link, image));
    CHECK(nvJitLinkGetLinkedPtxSize(link, &size) == NVJITLINK_ERROR_INVALID_INPUT);
    LINKS(nvJitLinkDestroy(&link));
    check_image(image, "k");
    CHECK(nvJitLinkCreate(&link, 2, unknown) == NVJITLINK_ERROR_UNRECOGNIZED_OPTION);
    CHECK(nvJitLinkCreate(&link, 0, NULL) == NVJITLINK_ERROR_MISSING_ARCH);
    const char *const wrong[] = {"-arch=sm_XX", "-arch=sm_", "-arch=90", "-arch", "-arch=sm_90x"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        CHECK(nvJitLinkCreate(&link, 1, (const char **)&wrong[i]) == NVJITLINK_ERROR_UNRECOGNIZED_OPTION);
    const char *const right[] = {"-arch=sm_90", "-arch=compute_100", "-arch=sm_90a", "-arch=lto_80"};
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        size_t image = 1;
        LINKS(nvJitLinkCreate(&link, 1, (const char **)&right[i]));
        LINKS(nvJitLinkComplete(link)); /* of nothing */
        LINKS(nvJitLinkGetLinkedCubinSize(link, &image));
        CHECK(image == 0);
        LINKS(nvJitLinkDestroy(&link));
    }
    CHECK(nvJitLinkCreate(&link, 2, ptx) == NVJITLINK_ERROR_INCOMPATIBLE_OPTIONS);
    CHECK(nvJitLinkCreate(NULL, 0, NULL) == NVJITLINK_ERROR_NULL_INPUT);
    LINKS(nvJitLinkCreate(&link, 1, options));
    CHECK(nvJitLinkAddData(link, NVJITLINK_INPUT_LTOIR, "BC\xc0\xde....", 8, "ir") ==
          NVJITLINK_ERROR_UNRECOGNIZED_INPUT);
    CHECK(nvJitLinkAddFile(link, NVJITLINK_INPUT_PTX, "/nowhere/a.ptx") == NVJITLINK_ERROR_INVALID_INPUT);
    LINKS(nvJitLinkGetErrorLog(link, log));
    CHECK(strstr(log, "'ir' is of no kind that can be linked") != NULL);
    LINKS(nvJitLinkDestroy(&link));
    CHECK(nvJitLinkDestroy(&link) == NVJITLINK_ERROR_INVALID_INPUT);
    free(image);
    free(callee);
}

int main(int argc, char **argv)
{
    CUcontext context;
    CHECK(argc == 3);
    FILE *file = fopen(argv[1], "we");
    CHECK(file != NULL && fputs(CALLER, file) > 0 && fclose(file) == 0);
    DRIVES(cuInit(0));
    DRIVES(cuCtxCreate(&context, 0, 0));
    check_driver(argv[1]);
    check_mynvccs(argv[1], argv[2]);
    check_nvjitlink(argv[1]);
    DRIVES(cuCtxDestroy(context));
    puts("PASS");
    return 0;
}
