/* Programs: modules, their kernels and variables. */
#include "cuda_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the image's tables say, copied -------------------------------------------------------------------- */

static size_t names_bytes(const struct vgc_cuda_kernel_spec *specs, uint32_t count)
{
    size_t bytes = 1;
    for (uint32_t i = 0; i < count; i++)
        bytes += strlen(specs[i].short_name) + 1;
    return bytes;
}

static size_t params_count(const struct vgc_cuda_kernel_spec *specs, uint32_t count)
{
    size_t params = 1;
    for (uint32_t i = 0; i < count; i++)
        params += specs[i].num_params;
    return params;
}

static void free_program(struct vgc_cuda_program *program)
{
    if (program == NULL)
        return;
    free(program->params);
    free(program->names);
    free(program->texts);
    free(program);
}

static struct vgc_cuda_program *new_program(const struct vgc_cuda_kernel_spec *specs, uint32_t count)
{
    struct vgc_cuda_program *program = calloc(1, sizeof(*program) + count * sizeof(program->kernels[0]));
    if (program == NULL)
        return NULL;
    program->params = calloc(params_count(specs, count), sizeof(*program->params));
    program->names = calloc(names_bytes(specs, count), 1);
    if (program->params != NULL && program->names != NULL)
        return program;
    free_program(program);
    return NULL;
}

static void copy_specs(struct vgc_cuda_program *program, const struct vgc_cuda_kernel_spec *specs, uint32_t context)
{
    char *name = program->names;
    struct vgc_param_entry *params = program->params;
    for (uint32_t i = 0; i < program->num_kernels; i++) {
        struct cuda_kernel *kernel = &program->kernels[i];
        strcpy(name, specs[i].short_name);
        if (specs[i].num_params != 0)
            memcpy(params, specs[i].params, specs[i].num_params * sizeof(*params));
        kernel->prints = specs[i].prints != 0;
        kernel->base = (struct vgc_kernel){
            .name = name,
            .param_bytes = specs[i].param_bytes,
            .id = i,
            .context = context,
            .num_params = specs[i].num_params,
            .params = params,
            .engine_private = kernel,
        };
        name += strlen(name) + 1;
        params += specs[i].num_params;
    }
}

/* ---- what the driver says ----------------------------------------------------------------------------------- */

/* More dynamic shared memory than 48 KiB must be asked for: once, all that there is. A kernel that cannot have it is
 * good for launches with less, and the driver refuses the others. */
static void allow_shared(struct cuda_engine *engine, const struct cuda_kernel *kernel)
{
    enum { FREE_BYTES = 48 << 10 };
    uint32_t most = engine->base.max_shared_bytes;
    if (most <= FREE_BYTES || kernel->base.shared_bytes >= most)
        return;
    cuda_check(engine, engine->driver.cuFuncSetAttribute(kernel->function, DRV_FUNC_MAX_DYNAMIC_SHARED,
                                                         (int)(most - kernel->base.shared_bytes)));
}

static drv_result load_kernel(struct vgc_cuda_program *program, struct cuda_kernel *kernel, const char *name)
{
    const struct cuda_driver *driver = &program->engine->driver;
    int threads = 0;
    int shared = 0;
    int local = 0;
    drv_result error = driver->cuModuleGetFunction(&kernel->function, program->module, name);
    if (error == DRV_SUCCESS)
        error = driver->cuFuncGetAttribute(&threads, DRV_FUNC_MAX_THREADS, kernel->function);
    if (error == DRV_SUCCESS)
        error = driver->cuFuncGetAttribute(&shared, DRV_FUNC_SHARED_BYTES, kernel->function);
    if (error == DRV_SUCCESS)
        error = driver->cuFuncGetAttribute(&local, DRV_FUNC_LOCAL_BYTES, kernel->function);
    kernel->base.max_threads = (uint32_t)threads;
    kernel->base.shared_bytes = (uint32_t)shared;
    if ((uint32_t)local > program->local_bytes)
        program->local_bytes = (uint32_t)local;
    if (error == DRV_SUCCESS)
        allow_shared(program->engine, kernel);
    return error;
}

/* Engine entered. */
static int load(struct vgc_cuda_program *program, const void *image, const struct vgc_cuda_kernel_spec *specs,
                char *why)
{
    struct cuda_engine *engine = program->engine;
    drv_result error = engine->driver.cuModuleLoadData(&program->module, image);
    cuda_check(engine, error);
    if (error != DRV_SUCCESS)
        return cuda_why(engine, why, "the driver does not load it", error);
    for (uint32_t i = 0; i < program->num_kernels; i++) {
        error = load_kernel(program, &program->kernels[i], specs[i].name);
        cuda_check(engine, error);
        if (error != DRV_SUCCESS) {
            char what[128];
            snprintf(what, sizeof(what), "kernel %.100s", specs[i].short_name);
            engine->driver.cuModuleUnload(program->module);
            return cuda_why(engine, why, what, error);
        }
    }
    return 0;
}

struct vgc_cuda_program *vgc_cuda_program_load(struct vgc_engine *base, const void *image, uint64_t size,
                                               uint32_t context, const struct vgc_cuda_kernel_spec *kernels,
                                               uint32_t num_kernels, char *why)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    struct vgc_cuda_program *program = size == 0 ? NULL : new_program(kernels, num_kernels);
    if (program == NULL) {
        snprintf(why, VGC_CUDA_WHY, "%s", size == 0 ? "the image is empty" : "out of memory for its tables");
        return NULL;
    }
    program->engine = engine;
    program->num_kernels = num_kernels;
    copy_specs(program, kernels, context);
    vgc_engine_enter(&engine->base);
    int error = load(program, image, kernels, why);
    vgc_engine_leave(&engine->base);
    if (error == 0)
        return program;
    free_program(program);
    return NULL;
}

/* ---- questions, and the end --------------------------------------------------------------------------------- */

struct vgc_kernel *vgc_cuda_program_kernel(struct vgc_cuda_program *program, uint32_t index)
{
    return &program->kernels[index].base;
}

uint32_t vgc_cuda_program_local_bytes(struct vgc_cuda_program *program)
{
    return program->local_bytes;
}

int vgc_cuda_program_global(struct vgc_cuda_program *program, const char *name, uint64_t *address, uint64_t *size,
                            char *why)
{
    struct cuda_engine *engine = program->engine;
    drv_address found = 0;
    size_t bytes = 0;
    vgc_engine_enter(&engine->base);
    drv_result error = engine->driver.cuModuleGetGlobal_v2(&found, &bytes, program->module, name);
    cuda_check(engine, error);
    vgc_engine_leave(&engine->base);
    *address = found;
    *size = bytes;
    if (error == DRV_SUCCESS)
        return 0;
    char what[128];
    snprintf(what, sizeof(what), "variable %.100s", name);
    return cuda_why(engine, why, what, error);
}

void vgc_cuda_program_unload(struct vgc_cuda_program *program)
{
    struct cuda_engine *engine = program->engine;
    cuda_texts_forget(program);
    vgc_engine_enter(&engine->base);
    cuda_check(engine, engine->driver.cuModuleUnload(program->module));
    vgc_engine_leave(&engine->base);
    free_program(program);
}
