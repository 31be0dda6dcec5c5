/* Modules and libraries: images that a program loads as it runs. Each is a unit of the runtime's, with kernels and
 * variables that get their place in the registry when they are asked for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

#define MAGIC UINT64_C(0x7874634347560002)
enum { MAX_FILE_BYTES = 256 << 20, MAX_OPTIONS_BYTES = 16 << 10 };

struct rt_asked {
    struct rt_asked *next;
    const char *name; /* the registered one's */
    void *registered; /* struct rt_function or struct rt_variable */
};

static bool is_module(const struct CUmod_st *module)
{
    return module != NULL && module->magic == MAGIC;
}

/* ---- loading -------------------------------------------------------------------------------- */

static void free_module(CUmodule module)
{
    for (struct rt_asked **list = (struct rt_asked *[]){module->kernels, module->variables, NULL}; *list != NULL;
         list++)
        for (struct rt_asked *asked = *list, *next; asked != NULL; asked = next) {
            next = asked->next;
            free(asked);
        }
    free(module->image);
    free((void *)(uintptr_t)module->unit.options);
    free(module->options);
    (void)pthread_mutex_destroy(&module->mutex);
    rt_handle_free(module, sizeof(*module));
}

/* End of a row of options, each with a NUL. */
static char *end_of(char *options, uint32_t count)
{
    while (count-- > 0)
        options += strlen(options) + 1;
    return options;
}

/* Options of the loader, behind those of the image; takes the source out of a container of NVRTC's. */
static CUresult take_options(CUmodule module, const struct rt_jit *jit)
{
    uint32_t count = 0;
    module->options = calloc(1, MAX_OPTIONS_BYTES + sizeof(jit->options));
    if (module->options == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (module->unit.kind == VGC_SOURCE_CUDA) {
        module->unit.data = rt_read_container(module->image, module->options, MAX_OPTIONS_BYTES, &count);
        if (module->unit.data == NULL)
            return CUDA_ERROR_INVALID_IMAGE;
        module->unit.size = strlen(module->unit.data);
    }
    if (module->unit.kind == VGC_SOURCE_CUDA_UNITS) {
        module->unit.data = (const char *)module->image + sizeof(struct rt_linked);
        module->unit.size -= sizeof(struct rt_linked);
    }
    memcpy(end_of(module->options, count), jit->options, sizeof(jit->options));
    count += jit->num_options;
    const char **list = calloc(count + 1u, sizeof(*list));
    if (list == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        list[i] = end_of(module->options, i);
    module->unit.options = list;
    module->unit.num_options = count;
    return CUDA_SUCCESS;
}

/* The program may free the image; other devices, and contexts after a loss, still need it. */
static CUresult make_module(const void *image, const struct rt_jit *jit, CUmodule *made)
{
    uint64_t size = 0;
    const int kind = image == NULL ? -1 : rt_image_kind(&image, &size);
    if (kind < 0) /* CUDA_ERROR_INVALID_IMAGE */
        return RT_ASK(rt_explain(
            cudaErrorInvalidKernelImage,
            "an image of no known kind (allowed: PTX, a cubin, a fat binary, a container of mynvcc or NVRTC)"));
    CUmodule module = rt_handle_new(sizeof(*module));
    if (module == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    (void)pthread_mutex_init(&module->mutex, NULL);
    module->image = malloc(size + 1);
    if (module->image == NULL) {
        free_module(module);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(module->image, image, size);
    ((char *)module->image)[size] = '\0';
    module->magic = MAGIC;
    module->unit.is_image = true;
    module->unit.data = module->image;
    module->unit.kind = kind;
    module->unit.size = size;
    const CUresult result = take_options(module, jit);
    if (result == CUDA_SUCCESS)
        *made = module;
    else
        free_module(module);
    return result;
}

/* Whether the host's compiler or driver is older than a module of PTX: words of ptxas and of the software GPU's
 * compiler, and the error of NVIDIA's driver. */
static bool is_too_new(const char *why)
{
    return strstr(why, "Unsupported .version") != NULL || strstr(why, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION") != NULL;
}

/* The result of loading an image, where libvgc's alone says too little. */
static CUresult result_of_load(cudaError_t error, int kind)
{
    switch (error) {
    case cudaErrorInvalidKernelImage: /* it does not compile */
        if (kind == VGC_SOURCE_PTX && is_too_new(vgc_last_error()))
            return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
        return kind == VGC_SOURCE_PTX ? CUDA_ERROR_INVALID_PTX : CUDA_ERROR_INVALID_IMAGE;
    case cudaErrorNotSupported: /* by this host's engine */
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case cudaErrorLaunchOutOfResources:
        return CUDA_ERROR_OUT_OF_MEMORY;
    default:
        return rt_result_of(error);
    }
}

static CUresult load_on(CUmodule module, struct rt_device *device, const struct rt_jit *jit)
{
    struct vgc_program *program = NULL;
    const struct rt_visit visit = rt_visit_begin();
    const cudaError_t error = rt_load_unit(device, &module->unit, &program);
    (void)rt_visit_end(visit, error);
    if (jit != NULL) {
        rt_write_jit_log(jit, true, error != cudaSuccess ? vgc_last_error() : "");
        rt_write_jit_log(jit, false, program != NULL ? vgc_program_log(program) : "");
    }
    return error == cudaSuccess ? CUDA_SUCCESS : result_of_load(error, module->unit.kind);
}

static CUresult load(CUmodule *out, const void *image, const struct rt_jit *jit)
{
    CUcontext context;
    CUmodule module;
    struct rt_device *device;
    CUresult result = rt_enter_context(&context, &device);
    if (result != CUDA_SUCCESS)
        return result;
    if (out == NULL || image == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    result = make_module(image, jit, &module);
    if (result != CUDA_SUCCESS)
        return result;
    result = load_on(module, device, jit);
    if (result == CUDA_SUCCESS && !rt_own(context, RT_OWNED_MODULE, module))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        (void)rt_unload_module(module);
        return result;
    }
    *out = module;
    return CUDA_SUCCESS;
}

CUresult rt_unload_module(CUmodule module)
{
    if (!is_module(module) || !rt_handle_end(&module->magic))
        return CUDA_ERROR_INVALID_HANDLE;
    rt_forget_references(module);
    rt_forget_unit(&module->unit);
    rt_unload_unit(&module->unit);
    free_module(module);
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options,
                            void **values)
{
    struct rt_jit jit;
    const CUresult result = rt_take_jit_options(count, options, values, &jit);
    return result == CUDA_SUCCESS ? load(module, image, &jit) : result;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

CUresult rt_try_image(struct rt_device *device, const void *image, const struct rt_jit *jit, struct rt_text *words)
{
    CUmodule module;
    struct vgc_program *program = NULL;
    CUresult result = make_module(image, jit, &module);
    if (result != CUDA_SUCCESS)
        return result;
    result = load_on(module, device, jit);
    if (result == CUDA_SUCCESS)
        result = RT_ASK(rt_load_unit(device, &module->unit, &program));
    if (words != NULL)
        rt_text_print(words, "%s", result == CUDA_SUCCESS ? vgc_program_log(program) : vgc_last_error());
    (void)rt_unload_module(module);
    return result;
}

CUresult rt_read_image(const char *path, void **image, size_t *bytes_read)
{
    FILE *file = path == NULL ? NULL : fopen(path, "rbe");
    if (file == NULL)
        return path == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_FILE_NOT_FOUND;
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    char *bytes = size >= 0 && size <= MAX_FILE_BYTES ? calloc(1, (size_t)size + RT_IMAGE_PADDING) : NULL;
    CUresult result = bytes != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    rewind(file);
    if (result == CUDA_SUCCESS && fread(bytes, 1, (size_t)size, file) != (size_t)size)
        result = CUDA_ERROR_INVALID_IMAGE;
    (void)fclose(file);
    if (result == CUDA_SUCCESS && rt_whole_image_kind(bytes, (uint64_t)size) < 0)
        result = RT_ASK(
            rt_explain(cudaErrorInvalidKernelImage, "the file '%s' is cut off, or an image of no known kind", path));
    if (result != CUDA_SUCCESS) {
        free(bytes);
        return result;
    }
    *image = bytes;
    *bytes_read = (size_t)size;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoad(CUmodule *module, const char *path)
{
    void *image;
    size_t size;
    CUresult result = rt_enter_context(NULL, NULL);
    if (result == CUDA_SUCCESS)
        result = rt_read_image(path, &image, &size);
    if (result != CUDA_SUCCESS)
        return result;
    result = cuModuleLoadData(module, image);
    free(image);
    return result;
}

CUresult cuModuleUnload(CUmodule module)
{
    const CUresult result = rt_enter_context(NULL, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    if (!is_module(module))
        return CUDA_ERROR_INVALID_HANDLE;
    rt_disown(RT_OWNED_MODULE, module);
    return rt_unload_module(module);
}

CUresult cuModuleGetLoadingMode(int *mode);
CUresult cuModuleGetLoadingMode(int *mode)
{
    enum { EAGER = 1 };
    if (mode == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = EAGER;
    return CUDA_SUCCESS;
}

/* ---- kernels -------------------------------------------------------------------------------- */

CUresult rt_check_kernel(const void *kernel, struct rt_function **function)
{
    *function = kernel == NULL ? NULL : rt_function(kernel);
    return *function != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* With the module's mutex. */
static void *find_asked(const struct rt_asked *asked, const char *name)
{
    while (asked != NULL && strcmp(asked->name, name) != 0)
        asked = asked->next;
    return asked != NULL ? asked->registered : NULL;
}

/* With the module's mutex. */
static bool note_asked(struct rt_asked **list, const char *name, void *registered)
{
    struct rt_asked *asked = malloc(sizeof(*asked));
    if (asked == NULL)
        return false;
    *asked = (struct rt_asked){*list, name, registered};
    *list = asked;
    return true;
}

/* With the module's mutex: a kernel that nobody has asked for yet. */
static CUresult find_kernel(CUmodule module, struct rt_device *device, const char *name, struct rt_function **function)
{
    struct vgc_function *loaded;
    struct rt_function *made = rt_register_kernel(&module->unit, name);
    if (made == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = RT_ASK(rt_load_function(device, made, &loaded));
    if (result != CUDA_SUCCESS) {
        rt_forget_kernel(made);
        return result == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_NOT_FOUND : result;
    }
    if (!note_asked(&module->kernels, made->name, made)) {
        rt_forget_kernel(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *function = made;
    return CUDA_SUCCESS;
}

static CUresult get_kernel(CUmodule module, struct rt_device *device, const char *name, void **kernel)
{
    struct rt_function *function;
    if (!is_module(module))
        return CUDA_ERROR_INVALID_HANDLE;
    if (kernel == NULL || name == NULL || *name == '\0')
        return CUDA_ERROR_INVALID_VALUE;
    (void)pthread_mutex_lock(&module->mutex);
    function = find_asked(module->kernels, name);
    const CUresult result = function != NULL ? CUDA_SUCCESS : find_kernel(module, device, name, &function);
    (void)pthread_mutex_unlock(&module->mutex);
    if (result == CUDA_SUCCESS)
        *kernel = function;
    return result;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    struct rt_device *device;
    const CUresult result = rt_enter_context(NULL, &device);
    return result == CUDA_SUCCESS ? get_kernel(module, device, name, (void **)function) : result;
}

/* The module's program on the current device. */
static CUresult program_of(CUmodule module, struct vgc_program **program)
{
    struct rt_device *device;
    const CUresult result = rt_enter_context(NULL, &device);
    if (result != CUDA_SUCCESS)
        return result;
    return is_module(module) ? RT_ASK(rt_load_unit(device, &module->unit, program)) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule module)
{
    struct vgc_program *program;
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = program_of(module, &program);
    if (result == CUDA_SUCCESS)
        *count = vgc_program_num_functions(program);
    return result;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int count, CUmodule module)
{
    struct vgc_program *program;
    CUresult result = functions == NULL ? CUDA_ERROR_INVALID_VALUE : program_of(module, &program);
    for (unsigned i = 0; result == CUDA_SUCCESS && i < RT_MIN(count, vgc_program_num_functions(program)); i++) {
        struct vgc_function_info info;
        vgc_function_info(vgc_program_function_at(program, i), &info);
        result = cuModuleGetFunction(&functions[i], module, info.name);
    }
    return result;
}

/* ---- variables ------------------------------------------------------------------------------ */

/* With the module's mutex. */
static CUresult find_variable(CUmodule module, struct rt_device *device, const char *name,
                              struct rt_variable **variable)
{
    struct vgc_program *program;
    uint64_t address, size;
    CUresult result = RT_ASK(rt_load_unit(device, &module->unit, &program));
    if (result != CUDA_SUCCESS)
        return result;
    struct rt_variable *found = find_asked(module->variables, name);
    if (found != NULL && found->address[device->ordinal] != 0) {
        *variable = found;
        return CUDA_SUCCESS;
    }
    result = RT_ASK(rt_error(vgc_program_global(program, name, &address, &size)));
    if (result != CUDA_SUCCESS)
        return result;
    if (found == NULL) {
        found = rt_register_variable(&module->unit, name);
        if (found == NULL || !note_asked(&module->variables, found->name, found))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    found->size = size;
    result = RT_ASK(rt_add_variable(device, found, address));
    if (result == CUDA_SUCCESS)
        found->address[device->ordinal] = address;
    *variable = found;
    return result;
}

CUresult cuModuleGetGlobal(CUdeviceptr *memory, size_t *bytes, CUmodule module, const char *name)
{
    struct rt_device *device;
    struct rt_variable *variable = NULL;
    CUresult result = rt_enter_context(NULL, &device);
    if (result != CUDA_SUCCESS)
        return result;
    if (!is_module(module))
        return CUDA_ERROR_INVALID_HANDLE;
    if (name == NULL || *name == '\0')
        return CUDA_ERROR_INVALID_VALUE;
    (void)pthread_mutex_lock(&module->mutex);
    result = find_variable(module, device, name, &variable);
    (void)pthread_mutex_unlock(&module->mutex);
    if (result == CUDA_SUCCESS && memory != NULL)
        *memory = variable->address[device->ordinal];
    if (result == CUDA_SUCCESS && bytes != NULL)
        *bytes = variable->size;
    return result;
}

/* ---- libraries: modules of no context ------------------------------------------------------- */

CUresult cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *options, void **values,
                           unsigned int count, CUlibraryOption *library_options, void **library_values,
                           unsigned int library_count)
{
    struct rt_jit jit;
    struct rt_device *device;
    CUmodule module;
    (void)library_options, (void)library_values, (void)library_count; /* the image is always copied */
    CUresult result = rt_check_driver();
    if (result != CUDA_SUCCESS)
        return result;
    if (library == NULL || image == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    result = rt_take_jit_options(count, options, values, &jit);
    if (result == CUDA_SUCCESS)
        result = make_module(image, &jit, &module);
    if (result != CUDA_SUCCESS)
        return result;
    result = RT_ASK(rt_device(rt_ordinal(), &device));
    if (result == CUDA_SUCCESS)
        result = load_on(module, device, &jit); /* so that errors come where NVIDIA's driver finds them */
    if (result != CUDA_SUCCESS) {
        (void)rt_unload_module(module);
        return result;
    }
    *library = (CUlibrary)module;
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *options, void **values,
                               unsigned int count, CUlibraryOption *library_options, void **library_values,
                               unsigned int library_count)
{
    void *image;
    size_t size;
    CUresult result = rt_check_driver();
    if (result == CUDA_SUCCESS)
        result = rt_read_image(path, &image, &size);
    if (result != CUDA_SUCCESS)
        return result;
    result = cuLibraryLoadData(library, image, options, values, count, library_options, library_values, library_count);
    free(image);
    return result;
}

CUresult cuLibraryUnload(CUlibrary library)
{
    const CUresult result = rt_check_driver();
    return result == CUDA_SUCCESS ? rt_unload_module((CUmodule)library) : result;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    struct rt_device *device;
    CUresult result = rt_check_driver();
    if (result == CUDA_SUCCESS)
        result = RT_ASK(rt_device(rt_ordinal(), &device));
    return result == CUDA_SUCCESS ? get_kernel((CUmodule)library, device, name, (void **)kernel) : result;
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    struct vgc_program *program;
    if (module == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = program_of((CUmodule)library, &program);
    if (result == CUDA_SUCCESS)
        *module = (CUmodule)library;
    return result;
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
    return cuModuleGetFunctionCount(count, (CUmodule)library);
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int count, CUlibrary library)
{
    return cuModuleEnumerateFunctions((CUfunction *)kernels, count, (CUmodule)library);
}

CUresult cuLibraryGetGlobal(CUdeviceptr *memory, size_t *bytes, CUlibrary library, const char *name)
{
    return cuModuleGetGlobal(memory, bytes, (CUmodule)library, name);
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    struct rt_function *found;
    struct rt_device *device;
    struct vgc_function *loaded;
    CUresult result = rt_enter_context(NULL, &device);
    if (result == CUDA_SUCCESS)
        result = function == NULL ? CUDA_ERROR_INVALID_VALUE : rt_check_kernel(kernel, &found);
    if (result == CUDA_SUCCESS)
        result = RT_ASK(rt_load_function(device, found, &loaded));
    if (result == CUDA_SUCCESS)
        *function = (CUfunction)kernel;
    return result;
}

/* The module or library that a kernel is of; those that mynvcc registers are of none. */
static CUresult module_of(const void *kernel, CUmodule *module)
{
    struct rt_function *function;
    const CUresult result = module == NULL ? CUDA_ERROR_INVALID_VALUE : rt_check_kernel(kernel, &function);
    if (result != CUDA_SUCCESS)
        return result;
    if (function->host != function)
        return CUDA_ERROR_NOT_FOUND;
    *module = (CUmodule)((char *)function->unit - offsetof(struct CUmod_st, unit));
    return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
    return module_of(kernel, (CUmodule *)library);
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
    return module_of(function, module);
}
