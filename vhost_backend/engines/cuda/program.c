/* Programs: modules, their kernels and variables. */
#include "cuda_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- copies of the image's tables --------------------------------------------------------------------------- */

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

/* ---- loading ------------------------------------------------------------------------------------------------ */

/* Allows a kernel all dynamic shared memory of the device, as more than 48 KiB needs opt-in. If that fails, the driver
 * refuses launches with more. */
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
    int registers = 0;
    drv_result error = driver->cuModuleGetFunction(&kernel->function, program->module, name);
    if (error == DRV_SUCCESS)
        error = driver->cuFuncGetAttribute(&threads, DRV_FUNC_MAX_THREADS, kernel->function);
    if (error == DRV_SUCCESS)
        error = driver->cuFuncGetAttribute(&shared, DRV_FUNC_SHARED_BYTES, kernel->function);
    if (error == DRV_SUCCESS)
        error = driver->cuFuncGetAttribute(&local, DRV_FUNC_LOCAL_BYTES, kernel->function);
    if (error == DRV_SUCCESS)
        error = driver->cuFuncGetAttribute(&registers, DRV_FUNC_NUM_REGS, kernel->function);
    kernel->base.num_registers = (uint32_t)registers;
    kernel->base.local_bytes = (uint32_t)local;
    kernel->base.max_threads = (uint32_t)threads;
    kernel->base.shared_bytes = (uint32_t)shared;
    if ((uint32_t)local > program->local_bytes)
        program->local_bytes = (uint32_t)local;
    if (error == DRV_SUCCESS)
        allow_shared(program->engine, kernel);
    return error;
}

/* Loads module and kernels. Called with the engine entered. */
static int load(struct vgc_cuda_program *program, const void *image, const struct vgc_cuda_kernel_spec *specs,
                char *why)
{
    struct cuda_engine *engine = program->engine;
    drv_result error = engine->driver.cuModuleLoadData(&program->module, image);
    if (error == DRV_ERROR_OUT_OF_MEMORY && engine->memory->trim(engine) == DRV_SUCCESS)
        error = engine->driver.cuModuleLoadData(&program->module, image);
    cuda_check(engine, error);
    if (error != DRV_SUCCESS)
        return cuda_why(engine, why, "the driver does not load the program", error);
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

/* ---- stacks ------------------------------------------------------------------------------------------------- */

/* Sets the stack limit, which belongs to the device's primary context and also applies to green ones. If the driver
 * refuses it, launches wait or fail. */
static drv_result set_stacks(struct cuda_engine *engine, uint32_t bytes)
{
    const struct cuda_driver *driver = &engine->driver;
    drv_context ours;
    drv_result error = driver->cuCtxPushCurrent_v2(engine->setup.primary);
    if (error != DRV_SUCCESS)
        return error;
    error = driver->cuCtxSetLimit(DRV_LIMIT_STACK_SIZE, bytes);
    driver->cuCtxPopCurrent_v2(&ours);
    if (error == DRV_SUCCESS)
        engine->stack_bytes = bytes;
    return error == DRV_ERROR_INVALID_VALUE || error == DRV_ERROR_UNSUPPORTED_LIMIT ? DRV_SUCCESS : error;
}

static uint32_t largest_stack(const struct cuda_engine *engine)
{
    uint32_t most = CUDA_STACK_BYTES;
    for (const struct vgc_cuda_program *it = engine->provided; it != NULL; it = it->next_provided)
        most = it->local_bytes > most ? it->local_bytes : most;
    return most;
}

/* Grows stacks while nothing runs, as cuLaunchKernel of a kernel with more local memory than any before waits for all
 * running work. The limit "takes effect immediately" [CUDA driver API: cuCtxSetLimit]. */
static drv_result grow_stacks(struct cuda_engine *engine)
{
    uint32_t bytes = largest_stack(engine);
    if (bytes <= engine->stack_bytes)
        return DRV_SUCCESS;
    drv_result error = set_stacks(engine, bytes);
    if (error == DRV_ERROR_OUT_OF_MEMORY && engine->memory->trim(engine) == DRV_SUCCESS)
        error = set_stacks(engine, bytes);
    return error;
}

/* ---- the quota ---------------------------------------------------------------------------------------------- */

drv_result cuda_share_memory(struct cuda_engine *engine)
{
    uint64_t bytes = engine->memory_of_arrays;
    for (const struct vgc_cuda_program *it = engine->provided; it != NULL; it = it->next_provided)
        bytes += it->quota_bytes;
    return engine->memory->share(engine, bytes);
}

/* Ends a program's charge, and shrinks stacks that are not charged any more, as the driver never does that itself. */
static void leave_provided(struct vgc_cuda_program *program)
{
    struct cuda_engine *engine = program->engine;
    struct vgc_cuda_program **at = &engine->provided;
    while (*at != NULL && *at != program)
        at = &(*at)->next_provided;
    if (*at == NULL)
        return;
    *at = program->next_provided;
    if (largest_stack(engine) < engine->stack_bytes)
        cuda_check(engine, set_stacks(engine, largest_stack(engine)));
    cuda_check(engine, cuda_share_memory(engine));
}

int vgc_cuda_program_provide(struct vgc_cuda_program *program, uint64_t bytes, char *why)
{
    struct cuda_engine *engine = program->engine;
    const char *what = "allocations leave too little memory";
    vgc_engine_enter(&engine->base);
    program->quota_bytes = bytes;
    program->next_provided = engine->provided;
    engine->provided = program;
    drv_result error = cuda_share_memory(engine);
    if (error == DRV_SUCCESS) {
        what = "no room for the stacks of all threads";
        error = grow_stacks(engine);
    }
    cuda_check(engine, error);
    if (error != DRV_SUCCESS)
        leave_provided(program);
    vgc_engine_leave(&engine->base);
    return error == DRV_SUCCESS ? 0 : cuda_why(engine, why, what, error);
}

/* ---- lookup and unloading ----------------------------------------------------------------------------------- */

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
    bool may_go = cuda_texts_forget(program);
    vgc_engine_enter(&engine->base);
    cuda_timer_forget(program);
    cuda_builtins_forget(program);
    if (may_go) /* otherwise it stays until the context ends */
        cuda_check(engine, engine->driver.cuModuleUnload(program->module));
    leave_provided(program);
    vgc_engine_leave(&engine->base);
    free_program(program);
}
