/* Modules and libraries: what they are loaded from, what they have, what their logs say, what goes with them. */
#include "driver_checks.h"

static void images(void)
{
    CUmodule module = NULL;
    CUfunction function, again;
    char log[2000] = "", info[100] = "full";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,
                              CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_MAX_REGISTERS};
    void *values[] = {log, (void *)sizeof(log), info, (void *)sizeof(info), (void *)32};
    ENDS(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(&module, NULL));
    ENDS(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, ""));
    ENDS(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, "abc"));
    ENDS(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, "__global__ void kernel() {}"));
    ENDS(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, "/* no end"));
    ENDS(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&module, "/nowhere/module.ptx"));
    ENDS(CUDA_ERROR_INVALID_PTX,
         cuModuleLoadDataEx(&module,
                            "// a comment\n/* another */ .version 7.0\n.target sm_80\n.address_size 64\n"
                            ".visible .entry kernel()\n{\n  bogus;\n}\n",
                            5, options, values));
    CHECK(strstr(log, "7:") != NULL && strstr(log, "bogus") != NULL && info[0] == '\0');
    CHECK((size_t)(uintptr_t)values[1] == strlen(log) + 1 && values[3] == NULL);
    CHECK(module == NULL);
    values[1] = (void *)10;
    log[10] = 'x';
    ENDS(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&module, ".version 7.0\n.target nothing", 2, options, values));
    CHECK(strlen(log) == 9 && log[10] == 'x');
    values[1] = (void *)sizeof(log);
    ENDS(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
         cuModuleLoadDataEx(&module, ".version 99.1\n.target sm_80\n.new_directive\n", 2, options, values));
    CHECK(strstr(log, "3:") != NULL && strstr(log, "Unsupported .version 99.1") != NULL);

    values[1] = (void *)sizeof(log);
    values[3] = (void *)sizeof(info);
    char *copy = strdup(SCALE);
    OK(cuModuleLoadDataEx(&module, copy, 5, options, values));
    memset(copy, 'x', strlen(copy)); /* the image is not needed any more */
    free(copy);
    ENDS(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&function, module, "nothing"));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuModuleGetFunction(&function, module, ""));
    OK(cuModuleGetFunction(&function, module, "scale"));
    OK(cuModuleGetFunction(&again, module, "scale"));
    CHECK(function == again);
    OK(cuModuleUnload(module));
    ENDS(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(module));
    ENDS(CUDA_ERROR_INVALID_HANDLE, cuFuncSetCacheConfig(function, CU_FUNC_CACHE_PREFER_L1));
}

static void variables(void)
{
    CUmodule one, two;
    CUfunction scale;
    CUdeviceptr factors[2], memory;
    size_t size;
    OK(cuModuleLoadData(&one, SCALE));
    OK(cuModuleLoadData(&two, SCALE));
    OK(cuModuleGetGlobal(&factors[0], &size, one, "factor"));
    OK(cuModuleGetGlobal(&factors[1], NULL, two, "factor"));
    ENDS(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal(NULL, NULL, one, "nothing"));
    CHECK(size == 4 && factors[0] != factors[1] && first_of(factors[0]) == 3);
    OK(cuMemsetD32(factors[1], 5, 1));
    OK(cuMemAlloc(&memory, 4));
    OK(cuMemsetD32(memory, 2, 1));
    unsigned count = 1;
    void *parameters[] = {&memory, &count};
    OK(cuModuleGetFunction(&scale, two, "scale"));
    OK(cuLaunchKernel(scale, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    CHECK(first_of(memory) == 10);
    OK(cuModuleUnload(two));
    ENDS(CUDA_ERROR_INVALID_HANDLE, cuModuleGetGlobal(&factors[1], NULL, two, "factor"));
    CHECK(first_of(factors[0]) == 3);
}

static void libraries(void)
{
    CUlibrary library, found;
    CUkernel kernel;
    CUfunction function;
    CUmodule module;
    CUdeviceptr memory, factor;
    const char *name;
    unsigned count = 0;
    int value;
    size_t offset, size;
    OK(cuLibraryLoadData(&library, SCALE, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "report"));
    ENDS(CUDA_ERROR_NOT_FOUND, cuLibraryGetKernel(&kernel, library, "nothing"));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuKernelGetName(&name, NULL));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuFuncGetName(&name, NULL));
    OK(cuKernelGetName(&name, kernel));
    CHECK(strcmp(name, "report") == 0);
    OK(cuKernelGetLibrary(&found, kernel));
    CHECK(found == library);
    OK(cuKernelGetFunction(&function, kernel));
    OK(cuFuncGetModule(&module, function));
    OK(cuLibraryGetKernelCount(&count, library));
    CHECK(count == 2);
    CUkernel all[2] = {NULL};
    OK(cuLibraryEnumerateKernels(all, 2, library));
    CHECK(all[0] != all[1] && (all[0] == kernel || all[1] == kernel));
    OK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, 0));
    CHECK(value == 1024);
    OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 4096, kernel, 0));
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
    CHECK(value == 4096);
    ENDS(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS, 1));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuFuncGetAttribute(&value, (CUfunction_attribute)99, function));
    OK(cuLibraryGetGlobal(&factor, &size, library, "factor"));
    CHECK(size == 4 && first_of(factor) == 3);
    OK(cuFuncGetParamInfo(function, 0, &offset, &size));
    CHECK(offset == 0 && size == 8);
    ENDS(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(function, 1, &offset, &size));
    OK(cuMemAlloc(&memory, 4));
    void *parameters[] = {&memory};
    OK(cuLaunchKernel((CUfunction)kernel, 3, 1, 1, 8, 1, 1, 64, NULL, parameters, NULL));
    CHECK(first_of(memory) == 11);
    OK(cuLibraryUnload(library));
    ENDS(CUDA_ERROR_INVALID_HANDLE, cuLibraryUnload(library));
}

int main(void)
{
    CUcontext context = begin();
    images();
    variables();
    libraries();
    OK(cuCtxDestroy(context));
    puts("PASS");
    return 0;
}
