/* Launches: checks and parameters. */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static CUresult run_launch(struct fake_op *op)
{
    struct fake_launch *launch = (struct fake_launch *)op;
    return launch->kernel ? launch->kernel->run(launch) : CUDA_SUCCESS;
}

static void drop_launch(struct fake_op *op)
{
    ((struct fake_launch *)op)->module->in_flight--;
}

static CUresult check_geometry(const struct fake_launch *launch, const struct fake_function *function)
{
    static const unsigned int max_grid[] = {0x7fffffff, 65535, 65535}, max_block[] = {1024, 1024, 64};
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        if (!launch->grid[i] || launch->grid[i] > max_grid[i] || !launch->block[i] || launch->block[i] > max_block[i])
            return CUDA_ERROR_INVALID_VALUE;
        threads *= launch->block[i];
    }
    if (threads > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    if (threads > (uint64_t)function->max_threads)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    return launch->shared > (unsigned int)function->max_dynamic_shared ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* Copies each parameter from its pointer. */
static CUresult take_each(struct fake_launch *launch, const struct fake_function *function, void **params)
{
    if (function->num_params && !params)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < function->num_params; i++) {
        const struct fake_param *param = &function->params[i];
        if (param->offset + param->size > FAKE_MAX_PARAMS || !params[i])
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(launch->params + param->offset, params[i], param->size);
    }
    return CUDA_SUCCESS;
}

/* Copies all parameters from a buffer. */
static CUresult take_packed(struct fake_launch *launch, const struct fake_function *function, void **extra)
{
    const void *buffer = NULL;
    size_t size = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2)
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(size_t *)extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    size_t most = (function->param_bytes + 7) / 8 * 8;
    if (size < function->param_bytes || size > (function->params_known ? most : FAKE_MAX_PARAMS) || (size && !buffer))
        return CUDA_ERROR_INVALID_VALUE;
    if (size)
        memcpy(launch->params, buffer, size);
    return CUDA_SUCCESS;
}

static CUresult check_kernel(struct fake_launch *launch, struct fake_function *function)
{
    launch->kernel = fake_bench_kernel_find(function->name, function->param_bytes);
    if (!launch->kernel)
        launch->kernel = fake_kernel_find(function->name, function->param_bytes);
    if (!launch->kernel && (launch->kernel = fake_outside_kernel()))
        return CUDA_SUCCESS;
    if (!launch->kernel && fake.settings.foreign_kernels)
        fake_log_launch(function->name, launch->grid, launch->block, launch->params, launch->param_bytes);
    else if (!launch->kernel)
        fake_misuse("the fake has no kernel %s", function->name);
    else if (function->params_known && function->param_bytes != launch->kernel->param_bytes)
        fake_misuse("%s has %u bytes of parameters, the fake's kernel of that name %u", function->name,
                    function->param_bytes, launch->kernel->param_bytes);
    else
        return CUDA_SUCCESS;
    launch->kernel = NULL; /* without a kernel the launch does nothing */
    return CUDA_SUCCESS;
}

static CUresult prepare(struct fake_launch *launch, struct fake_function *function, void **params, void **extra)
{
    snprintf(launch->name, sizeof launch->name, "%s", function->name);
    launch->param_bytes = function->param_bytes;
    CUresult result = check_geometry(launch, function);
    if (!result && params && extra)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = extra ? take_packed(launch, function, extra) : take_each(launch, function, params);
    return result ? result : check_kernel(launch, function);
}

static CUresult submit(struct fake_call *call, struct fake_launch *launch, struct fake_function *function, CUstream on,
                       void **params, void **extra)
{
    CUresult result = CUDA_SUCCESS;
    struct fake_stream *stream = fake_stream_get(on, call->context, &result);
    if (!result && function->module->context != call->context) {
        fake_misuse("a function of a context that is not current");
        result = CUDA_ERROR_INVALID_CONTEXT;
    }
    if (!result)
        result = prepare(launch, function, params, extra);
    if (result) {
        free(launch);
        return result;
    }
    fake_context_flush(call->context);
    if (launch->kernel && strcmp(launch->kernel->name, "prints") == 0)
        fake_output_fix(call->context);
    launch->op.run = run_launch;
    launch->op.drop = drop_launch;
    launch->op.computes = true;
    launch->module = function->module;
    launch->module->in_flight++;
    result = fake_stack_fit(call->context, function);
    if (!result)
        return fake_submit(stream, &launch->op);
    launch->module->in_flight--;
    free(launch);
    return result;
}

static CUresult launch_named(struct fake_call *call, struct fake_launch sized, CUfunction handle, CUstream on,
                             void **params, void **extra, char name[FAKE_NAME])
{
    struct fake_function *function = fake_handle_get(handle, FAKE_FUNCTION);
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    struct fake_launch *launch = malloc(sizeof *launch);
    if (!launch)
        abort();
    *launch = sized;
    snprintf(name, FAKE_NAME, "%s", function->name);
    return submit(call, launch, function, on, params, extra);
}

FAKE_API CUresult cuLaunchKernel(CUfunction handle, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                                 unsigned int by, unsigned int bz, unsigned int shared, CUstream on, void **params,
                                 void **extra)
{
    FAKE_CALL(FAKE_CURRENT);
    char name[FAKE_NAME] = "";
    struct fake_launch sized = {.grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared};
    if (!result)
        result = launch_named(&call, sized, handle, on, params, extra, name);
    FAKE_LEAVE("%s, grid=%u,%u,%u, block=%u,%u,%u, shared=%u, %p", name, gx, gy, gz, bx, by, bz, shared, (void *)on);
}

/* Blocks that a multiprocessor holds at once, for cooperative launches. */
enum { RESIDENT_BLOCKS = 2 };

/* Takes the attribute of cooperative launches only. */
static CUresult check_attributes(const CUlaunchConfig *config, const struct fake_context *context)
{
    uint64_t blocks = (uint64_t)config->gridDimX * config->gridDimY * config->gridDimZ;
    for (unsigned int i = 0; i < config->numAttrs; i++) {
        if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
            fake_misuse("launch attribute %u, which the fake does not know", (unsigned int)config->attrs[i].id);
            return CUDA_ERROR_INVALID_VALUE;
        }
        if (config->attrs[i].value.cooperative && blocks > (uint64_t)RESIDENT_BLOCKS * context->sms)
            return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    }
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction handle, void **params, void **extra)
{
    FAKE_CALL(FAKE_CURRENT);
    char name[FAKE_NAME] = "";
    struct fake_launch sized = {.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                                .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                                .shared = config->sharedMemBytes};
    if (!result)
        result = check_attributes(config, call.context);
    if (!result)
        result = launch_named(&call, sized, handle, config->hStream, params, extra, name);
    FAKE_LEAVE("%s, grid=%u,%u,%u, attributes=%u", name, sized.grid[0], sized.grid[1], sized.grid[2], config->numAttrs);
}
