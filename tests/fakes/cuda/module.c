/* Modules, their functions and globals. */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static CUresult place_globals(struct fake_module *module)
{
    for (size_t i = 0; i < module->num_globals; i++) {
        struct fake_global *global = &module->globals[i];
        CUresult result;
        global->memory = fake_memory_new(module->context, global->size, FAKE_MEM_MODULE, NULL, &result);
        if (result)
            return result;
        if (global->init)
            memcpy(global->memory->host, global->init, global->size);
        else
            memset(global->memory->host, 0, global->size);
    }
    return CUDA_SUCCESS;
}

static void module_free(struct fake_module *module)
{
    for (size_t i = 0; i < module->num_functions; i++) {
        fake_handle_end(module->functions[i].handle);
        free(module->functions[i].params);
        free(module->functions[i].name);
    }
    for (size_t i = 0; i < module->num_globals; i++) {
        if (module->globals[i].memory)
            fake_memory_end(module->globals[i].memory);
        free(module->globals[i].name);
    }
    free(module->functions);
    free(module->globals);
    free(module);
}

static CUresult load(CUmodule *handle, const void *image, struct fake_context *context)
{
    if (!image)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_can_open())
        return CUDA_ERROR_OPERATING_SYSTEM;
    struct fake_module *module = calloc(1, sizeof *module);
    if (!module)
        abort();
    module->context = context;
    const struct fake_device *device = &fake.settings.devices[context->device];
    CUresult result = fake_cubin_read(image, module);
    /* A cubin runs on its architecture and on later minor revisions of it. */
    if (!result && (module->arch / 10 != device->major || module->arch % 10 > device->minor))
        result = CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (!result)
        result = place_globals(module);
    if (result) {
        module_free(module);
        return result;
    }
    for (size_t i = 0; i < module->num_functions; i++) {
        struct fake_function *function = &module->functions[i];
        function->handle = fake_handle_new(FAKE_FUNCTION, function);
        int dynamic = device->shared_per_block - function->shared_bytes;
        function->max_dynamic_shared = dynamic > 0 ? dynamic : 0;
    }
    *handle = module->handle = fake_handle_new(FAKE_MODULE, module);
    return CUDA_SUCCESS;
}

void fake_module_end(struct fake_module *module)
{
    if (module->in_flight)
        fake_misuse("a module was unloaded while %u launches of its kernels were in flight", module->in_flight);
    while (module->in_flight)
        fake_wait();
    fake_handle_end(module->handle);
    module_free(module);
}

FAKE_API CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = load(module, image, call.context);
    if (!result)
        fake_context_flush(call.context);
    FAKE_LEAVE("-> %p", result ? NULL : (void *)*module);
}

FAKE_API CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int num_options,
                                     CUjit_option *options, void **values)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result && num_options && (!options || !values))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = load(module, image, call.context);
    if (!result)
        fake_context_flush(call.context);
    FAKE_LEAVE("%u options -> %p", num_options, result ? NULL : (void *)*module);
}

static struct fake_module *module_get(CUmodule handle, struct fake_context *context, CUresult *result)
{
    struct fake_module *module = *result ? NULL : fake_handle_get(handle, FAKE_MODULE);
    if (!*result && !module)
        *result = CUDA_ERROR_INVALID_HANDLE;
    if (module && module->context != context) {
        fake_misuse("module %p is of a context that is not current", (void *)handle);
        *result = CUDA_ERROR_INVALID_CONTEXT;
    }
    return *result ? NULL : module;
}

FAKE_API CUresult cuModuleUnload(CUmodule handle)
{
    FAKE_CALL(FAKE_CURRENT);
    struct fake_module *module = module_get(handle, call.context, &result);
    if (module) {
        fake_context_flush(call.context);
        fake_module_end(module);
    }
    FAKE_LEAVE("%p", (void *)handle);
}

FAKE_API CUresult cuModuleGetFunction(CUfunction *found, CUmodule handle, const char *name)
{
    FAKE_CALL(FAKE_CURRENT);
    struct fake_module *module = module_get(handle, call.context, &result);
    if (module)
        result = CUDA_ERROR_NOT_FOUND;
    for (size_t i = 0; module && i < module->num_functions; i++)
        if (strcmp(module->functions[i].name, name) == 0) {
            *found = module->functions[i].handle;
            result = CUDA_SUCCESS;
        }
    FAKE_LEAVE("%p, %s", (void *)handle, name);
}

FAKE_API CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *size, CUmodule handle, const char *name)
{
    FAKE_CALL(FAKE_CURRENT);
    struct fake_module *module = module_get(handle, call.context, &result);
    if (module)
        result = CUDA_ERROR_NOT_FOUND;
    for (size_t i = 0; module && i < module->num_globals; i++)
        if (strcmp(module->globals[i].name, name) == 0) {
            if (address)
                *address = module->globals[i].memory->address;
            if (size)
                *size = module->globals[i].size;
            result = CUDA_SUCCESS;
        }
    FAKE_LEAVE("%p, %s", (void *)handle, name);
}
