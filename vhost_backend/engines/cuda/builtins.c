/* Built-in functions: kernels of modules that come with the host (builtins/), planned for each call.
 *
 * A call is one operation, and several launches in its stream. Its module is loaded when the first call needs it: the
 * call waits in its lane, and the worker's main thread asks the daemon for the module. A module that cannot be had
 * fails the calls that wait for it; the next call asks again.
 *
 * Calls that may fail because of data in the VM's memory have a word of pinned memory, to which the GPU copies the
 * status that their kernels leave.
 *
 * Where cuBLAS and cuFFT are used (libraries.c), they compute the calls that they can, and kernels all others.
 * Functions that are a library's own have no module. */
#include "cuda_engine.h"

#include "builtins/cuda_builtins.h"
#include "builtins/vgc_builtins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)CUDA_BUILTIN_ALIGNMENT <= (int)CUDA_ALIGN, "workspaces are aligned");
_Static_assert((int)CUDA_MODULES == (int)CUDA_BUILTIN_MODULES, "each module has its place");

struct cuda_builtin {
    struct cuda_kernel kernel; /* for its time; it has no function of the driver */
    uint32_t module;
    struct cuda_builtin *next;
};

static const struct cuda_builtin *builtin_of(const struct vgc_op *op)
{
    return (const struct cuda_builtin *)cuda_kernel_of(op);
}

static bool is_call(const struct vgc_op *op)
{
    return op->kind == VGC_OPK_LAUNCH && op->kernel->builtin != NULL;
}

/* Whether the call needs its module, as kernels compute it, or the parts that a library does not. */
static bool has_module(const struct vgc_op *op)
{
    return is_call(op) && !vgc_is_library_function(op->kernel->builtin);
}

static struct cuda_module *module_of(struct cuda_engine *engine, const struct vgc_op *op)
{
    return &engine->modules[builtin_of(op)->module];
}

void *cuda_find_builtin(struct vgc_engine *base, const struct vgc_builtin *builtin)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    if (vgc_is_library_function(builtin) && !cuda_library_is_used(engine, cuda_library_of(builtin)))
        return NULL;
    struct cuda_builtin *one = calloc(1, sizeof(*one));
    if (one == NULL)
        return NULL;
    one->module = cuda_builtin_module_of(builtin);
    one->next = engine->builtins;
    engine->builtins = one;
    return one;
}

/* Plans a call for a library, and finds the library's part of its workspace. False: kernels compute it. */
static bool plan_library(struct cuda_engine *engine, const struct vgc_op *op, uint64_t workspace,
                         struct cuda_library_call *call, uint64_t *bytes)
{
    const struct vgc_builtin *builtin = op->kernel->builtin;
    return cuda_library_is_used(engine, cuda_library_of(builtin)) &&
           cuda_library_plan(builtin, op->params, engine->base.num_pes, workspace, call) &&
           cuda_library_bytes(engine, call, bytes);
}

/* Kernels may have to compute what a library then does not. */
uint64_t cuda_launch_bytes(struct vgc_engine *base, const struct vgc_op *op)
{
    struct cuda_library_call call;
    uint64_t of_library;
    if (!is_call(op))
        return 0;
    uint64_t bytes = cuda_builtin_workspace(op->kernel->builtin, op->params, base->num_pes);
    if (plan_library(cuda_engine_of(base), op, 0, &call, &of_library) && call.scratch_bytes + of_library > bytes)
        bytes = call.scratch_bytes + of_library;
    return bytes;
}

uint32_t cuda_builtin_cost(const struct cuda_engine *engine, const struct vgc_op *op)
{
    if (!is_call(op))
        return 0;
    const struct vgc_builtin *builtin = op->kernel->builtin;
    uint32_t of_library = cuda_library_is_used(engine, cuda_library_of(builtin)) ? CUDA_LIBRARY_COMMANDS : 0;
    uint32_t of_kernels = cuda_builtin_plan(builtin, op->params, engine->base.num_pes, 0, NULL);
    return of_kernels + of_library + cuda_builtin_may_fail(builtin);
}

/* ---- waiting for modules ------------------------------------------------------------------------------------- */

void cuda_builtin_arrive(struct cuda_engine *engine, const struct vgc_op *op)
{
    if (has_module(op) && module_of(engine, op)->state == CUDA_MODULE_REFUSED)
        module_of(engine, op)->state = CUDA_MODULE_ABSENT;
}

bool cuda_builtin_may_go(struct cuda_engine *engine, const struct vgc_op *op)
{
    if (!has_module(op))
        return true;
    struct cuda_module *module = module_of(engine, op);
    if (module->state == CUDA_MODULE_ABSENT) {
        module->state = CUDA_MODULE_WANTED;
        vgc_engine_ask(&engine->base);
    }
    return module->state == CUDA_MODULE_LOADED || module->state == CUDA_MODULE_REFUSED;
}

bool cuda_builtin_reports(const struct vgc_op *op)
{
    return is_call(op) && cuda_builtin_may_fail(op->kernel->builtin);
}

const char *vgc_cuda_engine_wanted(struct vgc_engine *base)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    const char *found = NULL;
    vgc_engine_enter(base);
    for (uint32_t i = 0; i < CUDA_MODULES && found == NULL; i++)
        if (engine->modules[i].state == CUDA_MODULE_WANTED) {
            engine->modules[i].state = CUDA_MODULE_ASKED;
            found = cuda_builtin_module(i);
        }
    vgc_engine_leave(base);
    return found;
}

/* ---- modules ------------------------------------------------------------------------------------------------- */

/* The module with a name that vgc_cuda_engine_wanted() has given. */
static struct cuda_module *module_named(struct cuda_engine *engine, const char *name)
{
    uint32_t number = 0;
    while (number + 1 < CUDA_MODULES && strcmp(cuda_builtin_module(number), name) != 0)
        number++;
    return &engine->modules[number];
}

static int compare_names(const void *a, const void *b)
{
    const struct cuda_kernel *const *first = a, *const *second = b;
    return strcmp((*first)->base.name, (*second)->base.name);
}

/* Makes pinned words for statuses, while nothing of the VM runs that the driver might wait for. */
static drv_result make_statuses(struct cuda_engine *engine)
{
    void *words = NULL;
    if (engine->statuses != NULL)
        return DRV_SUCCESS;
    drv_result error =
        engine->driver.cuMemHostAlloc(&words, CUDA_STATUSES * sizeof(*engine->statuses), DRV_HOST_ALLOC_PORTABLE);
    if (error != DRV_SUCCESS)
        return error;
    engine->statuses = words;
    for (uint32_t i = 0; i < CUDA_STATUSES; i++)
        engine->free_statuses[i] = &engine->statuses[i];
    engine->num_free_statuses = CUDA_STATUSES;
    return DRV_SUCCESS;
}

int vgc_cuda_engine_use_module(struct vgc_engine *base, const char *name, struct vgc_cuda_program *program, char *why)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    struct cuda_module *module = module_named(engine, name);
    const struct cuda_kernel **kernels = malloc(program->num_kernels * sizeof(struct cuda_kernel *) + 1);
    if (kernels == NULL) {
        snprintf(why, VGC_CUDA_WHY, "out of memory for its table of kernels");
        return -1;
    }
    for (uint32_t i = 0; i < program->num_kernels; i++)
        kernels[i] = &program->kernels[i];
    qsort(kernels, program->num_kernels, sizeof(struct cuda_kernel *), compare_names);
    vgc_engine_enter(base);
    drv_result error = make_statuses(engine);
    cuda_check(engine, error);
    if (error == DRV_SUCCESS) {
        module->program = program;
        module->kernels = kernels;
        module->state = CUDA_MODULE_LOADED;
    }
    vgc_engine_leave(base);
    if (error == DRV_SUCCESS)
        return 0;
    free(kernels);
    return cuda_why(engine, why, "no pinned memory for statuses", error);
}

void vgc_cuda_engine_refuse_module(struct vgc_engine *base, const char *name, uint32_t status, const char *why)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    struct cuda_module *module = module_named(engine, name);
    vgc_engine_enter(base);
    module->state = CUDA_MODULE_REFUSED;
    module->status = status;
    snprintf(module->why, sizeof(module->why), "%s", why);
    vgc_engine_leave(base);
}

void cuda_builtins_forget(const struct vgc_cuda_program *program)
{
    for (uint32_t i = 0; i < CUDA_MODULES; i++) {
        struct cuda_module *module = &program->engine->modules[i];
        if (module->program != program)
            continue;
        free(module->kernels);
        *module = (struct cuda_module){.state = CUDA_MODULE_ABSENT};
    }
}

void cuda_builtins_close(struct cuda_engine *engine)
{
    if (engine->statuses != NULL)
        engine->driver.cuMemFreeHost(engine->statuses);
    engine->statuses = NULL;
    while (engine->builtins != NULL) {
        struct cuda_builtin *next = engine->builtins->next;
        free(engine->builtins);
        engine->builtins = next;
    }
}

/* ---- calls --------------------------------------------------------------------------------------------------- */

static const struct cuda_kernel *find_kernel(const struct cuda_module *module, const char *name)
{
    struct cuda_kernel wanted = {.base.name = name};
    const struct cuda_kernel *key = &wanted;
    const struct cuda_kernel **found =
        bsearch(&key, module->kernels, module->program->num_kernels, sizeof(struct cuda_kernel *), compare_names);
    return found != NULL ? *found : NULL;
}

static drv_result launch(const struct cuda_engine *engine, const struct cuda_module *module, drv_stream stream,
                         struct cuda_builtin_launch *planned)
{
    const struct cuda_kernel *kernel = find_kernel(module, planned->kernel);
    size_t size = planned->param_bytes;
    void *extra[] = {(void *)DRV_LAUNCH_PARAM_POINTER, planned->params, (void *)DRV_LAUNCH_PARAM_SIZE, &size,
                     (void *)DRV_LAUNCH_PARAM_END};
    if (kernel == NULL)
        return DRV_ERROR_NOT_FOUND;
    return engine->driver.cuLaunchKernel(kernel->function, planned->blocks, 1, 1, planned->threads, 1, 1,
                                         planned->shared_bytes, stream, NULL, extra);
}

/* Fails a call. The kernel of a graph's operation is that of the first launch of its batch, not that of its node. */
static void fail(struct vgc_op *op, uint32_t status, const char *why)
{
    const struct vgc_kernel *kernel = op->nodes != NULL ? op->nodes[op->node].kernel : op->kernel;
    op->status = status;
    snprintf(op->error, sizeof(op->error), "%s: %s", kernel->name, why);
}

/* Submits a call to a library, if one can compute it. False: kernels have to. */
static bool submit_to_library(struct cuda_engine *engine, drv_stream stream, struct vgc_op *op, drv_result *error)
{
    const struct cuda_module *module = module_of(engine, op);
    struct cuda_library_call call;
    uint64_t bytes;
    if (!plan_library(engine, op, op->workspace, &call, &bytes) || call.scratch_bytes + bytes > op->workspace_bytes)
        return false;
    *error = call.num_before != 0 ? launch(engine, module, stream, &call.before) : DRV_SUCCESS;
    if (*error != DRV_SUCCESS)
        return true;
    switch (cuda_library_submit(engine, stream, &call, op->workspace + call.scratch_bytes, bytes)) {
    case CUDA_LIBRARY_DONE:
        if (call.num_behind != 0)
            *error = launch(engine, module, stream, &call.behind);
        return true;
    case CUDA_LIBRARY_REFUSED:
        return false;
    default:
        if (!call.keeps_input)
            fail(op, VGC_STATUS_LAUNCH_FAILED, "a library of the host failed, and may have changed the input before");
        return !call.keeps_input;
    }
}

drv_result cuda_submit_builtin(struct cuda_engine *engine, drv_stream stream, struct vgc_op *op)
{
    struct cuda_builtin_launch launches[CUDA_BUILTIN_LAUNCHES];
    const struct cuda_module *module = module_of(engine, op);
    drv_result error = DRV_SUCCESS;
    if (has_module(op) && module->state == CUDA_MODULE_REFUSED) {
        fail(op, module->status, module->why);
        return DRV_SUCCESS;
    }
    if (submit_to_library(engine, stream, op, &error))
        return error;
    if (!has_module(op)) {
        fail(op, VGC_STATUS_LAUNCH_FAILED, "the host's library refuses the call, or lacks memory for it");
        return DRV_SUCCESS;
    }
    uint32_t count = cuda_builtin_plan(op->kernel->builtin, op->params, engine->base.num_pes, op->workspace, launches);
    for (uint32_t i = 0; i < count && error == DRV_SUCCESS; i++)
        error = launch(engine, module, stream, &launches[i]);
    if (error != DRV_SUCCESS || count == 0 || !cuda_builtin_reports(op))
        return error;
    uint32_t *status = engine->free_statuses[--engine->num_free_statuses];
    op->engine_private = status;
    *status = 0;
    return engine->driver.cuMemcpyDtoHAsync_v2(status, op->workspace, sizeof(*status), stream);
}

void cuda_builtin_end(struct cuda_engine *engine, struct vgc_op *op)
{
    uint32_t *status = op->engine_private;
    if (op->kind != VGC_OPK_LAUNCH || status == NULL)
        return;
    const char *why = cuda_builtin_failed(*status);
    if (why != NULL && op->status == VGC_STATUS_OK)
        fail(op, VGC_STATUS_INVALID_ARGUMENT, why);
    engine->free_statuses[engine->num_free_statuses++] = status;
    op->engine_private = NULL;
}
