/* Launches by the driver API: with a list of parameters, with a buffer of all of them, or in parts. */
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

enum { MAX_PARAMETERS = 1024 };

struct buffer {
    const unsigned char *bytes;
    size_t size;
};

/* The list `extra` of a launch: pairs of what comes and where, up to CU_LAUNCH_PARAM_END. */
static CUresult take_buffer(void **extra, struct buffer *buffer)
{
    *buffer = (struct buffer){.bytes = NULL};
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2)
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer->bytes = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1] != NULL)
            memcpy(&buffer->size, extra[1], sizeof(buffer->size));
        else
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* Where each of the kernel's parameters is in a buffer. */
static CUresult spread(const void *kernel, const struct buffer *buffer, void **parameters)
{
    struct rt_function *function;
    struct rt_device *device;
    struct vgc_function *loaded;
    struct vgc_function_info info;
    CUresult result = rt_check_kernel(kernel, &function);
    if (result == CUDA_SUCCESS)
        result = rt_enter_context(NULL, &device);
    if (result == CUDA_SUCCESS)
        result = RT_ASK(rt_load_function(device, function, &loaded));
    if (result != CUDA_SUCCESS)
        return result;
    vgc_function_info(loaded, &info);
    if (info.num_params > MAX_PARAMETERS)
        return CUDA_ERROR_NOT_SUPPORTED;
    for (uint32_t i = 0; i < info.num_params; i++) {
        struct vgc_param parameter;
        (void)vgc_function_param(loaded, i, &parameter);
        if (buffer->bytes == NULL || (size_t)parameter.offset + parameter.size > buffer->size)
            return RT_ASK(rt_explain(cudaErrorInvalidValue, "%s: %zu bytes of parameters; it takes %u", info.short_name,
                                     buffer->size, info.param_bytes));
        parameters[i] = (void *)(uintptr_t)(buffer->bytes + parameter.offset);
    }
    return CUDA_SUCCESS;
}

static CUresult launch(const cudaLaunchConfig_t *config, const void *kernel, void **parameters, void **extra)
{
    struct buffer buffer;
    void *spread_parameters[MAX_PARAMETERS];
    CUresult result = rt_enter_context(NULL, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    struct rt_function *function;
    result = rt_check_kernel(kernel, &function);
    if (result == CUDA_SUCCESS)
        result = rt_bind_references(function->unit);
    if (result != CUDA_SUCCESS)
        return result;
    if (parameters == NULL && extra != NULL) {
        result = take_buffer(extra, &buffer);
        if (result == CUDA_SUCCESS)
            result = spread(kernel, &buffer, spread_parameters);
        if (result != CUDA_SUCCESS)
            return result;
        parameters = spread_parameters;
    } else if (parameters != NULL && extra != NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return RT_ASK(cudaLaunchKernelExC(config, kernel, parameters));
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
                        CUstream stream, void **parameters, void **extra)
{
    const cudaLaunchConfig_t config = {.gridDim = {grid_x, grid_y, grid_z},
                                       .blockDim = {block_x, block_y, block_z},
                                       .dynamicSmemBytes = shared,
                                       .stream = stream};
    return launch(&config, function, parameters, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                   unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                   unsigned int shared, CUstream stream, void **parameters)
{
    cudaLaunchAttribute cooperative = {.id = cudaLaunchAttributeCooperative, .val = {.cooperative = 1}};
    const cudaLaunchConfig_t config = {.gridDim = {grid_x, grid_y, grid_z},
                                       .blockDim = {block_x, block_y, block_z},
                                       .dynamicSmemBytes = shared,
                                       .stream = stream,
                                       .attrs = &cooperative,
                                       .numAttrs = 1};
    return launch(&config, function, parameters, NULL);
}

_Static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute), "both interfaces have the same attributes");

cudaLaunchConfig_t rt_launch_config(const CUlaunchConfig *given)
{
    return (cudaLaunchConfig_t){.gridDim = {given->gridDimX, given->gridDimY, given->gridDimZ},
                                .blockDim = {given->blockDimX, given->blockDimY, given->blockDimZ},
                                .dynamicSmemBytes = given->sharedMemBytes,
                                .stream = given->hStream,
                                .attrs = (cudaLaunchAttribute *)given->attrs,
                                .numAttrs = given->numAttrs};
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *given, CUfunction function, void **parameters, void **extra)
{
    if (given == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const cudaLaunchConfig_t config = rt_launch_config(given);
    return launch(&config, function, parameters, extra);
}

/* Until CUDA 12: one kernel on several devices, whose grids wait for each other. */
CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned int count, unsigned int flags)
{
    struct cudaLaunchParams launches[RT_MAX_DEVICES];
    struct rt_function *function;
    CUresult result = rt_check_driver();
    if (result == CUDA_SUCCESS && (list == NULL || count == 0 || count > RT_MAX_DEVICES))
        result = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; result == CUDA_SUCCESS && i < count; i++) {
        result = rt_check_kernel(list[i].function, &function);
        launches[i] = (struct cudaLaunchParams){.func = list[i].function,
                                                .gridDim = {list[i].gridDimX, list[i].gridDimY, list[i].gridDimZ},
                                                .blockDim = {list[i].blockDimX, list[i].blockDimY, list[i].blockDimZ},
                                                .args = list[i].kernelParams,
                                                .sharedMem = list[i].sharedMemBytes,
                                                .stream = list[i].hStream};
    }
    return result == CUDA_SUCCESS ? RT_ASK(cudaLaunchCooperativeKernelMultiDevice(launches, count, flags)) : result;
}

/* ---- launches in parts, as CUDA had them before 4.0 ------------------------------------------ */

static CUresult parts_of(CUfunction function, struct rt_parts **parts)
{
    struct rt_function *found;
    CUresult result = rt_enter_context(NULL, NULL);
    if (result == CUDA_SUCCESS)
        result = rt_check_kernel(function, &found);
    if (result != CUDA_SUCCESS)
        return result;
    if (found->parts == NULL)
        found->parts = calloc(1, sizeof(*found->parts));
    *parts = found->parts;
    return found->parts != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z)
{
    struct rt_parts *parts;
    if (x <= 0 || y <= 0 || z <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = parts_of(function, &parts);
    if (result == CUDA_SUCCESS)
        memcpy(parts->block, (unsigned[]){(unsigned)x, (unsigned)y, (unsigned)z}, sizeof(parts->block));
    return result;
}

CUresult cuFuncSetSharedSize(CUfunction function, unsigned int bytes)
{
    struct rt_parts *parts;
    const CUresult result = parts_of(function, &parts);
    if (result == CUDA_SUCCESS)
        parts->shared = bytes;
    return result;
}

CUresult cuParamSetSize(CUfunction function, unsigned int bytes)
{
    struct rt_parts *parts;
    if (bytes > sizeof(parts->buffer))
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = parts_of(function, &parts);
    if (result == CUDA_SUCCESS)
        parts->size = bytes;
    return result;
}

CUresult cuParamSetv(CUfunction function, int offset, void *data, unsigned int bytes)
{
    struct rt_parts *parts;
    if (offset < 0 || data == NULL || bytes > sizeof(parts->buffer) || (size_t)offset > sizeof(parts->buffer) - bytes)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = parts_of(function, &parts);
    if (result == CUDA_SUCCESS)
        memcpy(parts->buffer + offset, data, bytes);
    return result;
}

CUresult cuParamSeti(CUfunction function, int offset, unsigned int value)
{
    return cuParamSetv(function, offset, &value, sizeof(value));
}

CUresult cuParamSetf(CUfunction function, int offset, float value)
{
    return cuParamSetv(function, offset, &value, sizeof(value));
}

CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream)
{
    struct rt_parts *parts;
    if (width <= 0 || height <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = parts_of(function, &parts);
    if (result != CUDA_SUCCESS)
        return result;
    size_t size = parts->size;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, parts->buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    return cuLaunchKernel(function, (unsigned)width, (unsigned)height, 1, parts->block[0], parts->block[1],
                          parts->block[2], parts->shared, stream, NULL, extra);
}

CUresult cuLaunchGrid(CUfunction function, int width, int height)
{
    return cuLaunchGridAsync(function, width, height, NULL);
}

CUresult cuLaunch(CUfunction function)
{
    return cuLaunchGridAsync(function, 1, 1, NULL);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    return RT_IN_CONTEXT(cudaLaunchHostFunc(stream, function, data));
}
