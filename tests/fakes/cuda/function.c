/* Attributes of kernels, and occupancy. */
#include "fake.h"

static const struct fake_device *device_of(const struct fake_function *function)
{
    return &fake.settings.devices[function->module->context->device];
}

static bool attribute(const struct fake_function *function, int key, int *value)
{
    switch (key) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = function->max_threads;
        return true;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = function->shared_bytes;
        return true;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        *value = 0;
        return true;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = function->local_bytes;
        return true;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = function->num_regs;
        return true;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = function->module->arch;
        return true;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = function->max_dynamic_shared;
        return true;
    default:
        return false;
    }
}

FAKE_API CUresult cuFuncGetAttribute(int *value, CUfunction_attribute key, CUfunction handle)
{
    FAKE_CALL(FAKE_CURRENT);
    const struct fake_function *function = result ? NULL : fake_handle_get(handle, FAKE_FUNCTION);
    if (!result && !function)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result && !attribute(function, (int)key, value))
        result = CUDA_ERROR_INVALID_VALUE;
    FAKE_LEAVE("%d, %p", (int)key, (void *)handle);
}

FAKE_API CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute key, int value)
{
    FAKE_CALL(FAKE_CURRENT);
    struct fake_function *function = result ? NULL : fake_handle_get(handle, FAKE_FUNCTION);
    if (!result && !function)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result && (int)key == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        if (value < 0 || value > device_of(function)->shared_optin - function->shared_bytes)
            result = CUDA_ERROR_INVALID_VALUE;
        else
            function->max_dynamic_shared = value;
    } else if (!result && (int)key != CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    FAKE_LEAVE("%p, %d, %d", (void *)handle, (int)key, value);
}

FAKE_API CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *size)
{
    FAKE_CALL(FAKE_CURRENT);
    const struct fake_function *function = result ? NULL : fake_handle_get(handle, FAKE_FUNCTION);
    if (!result && !function)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result && index >= function->num_params)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        *offset = function->params[index].offset;
        if (size)
            *size = function->params[index].size;
    }
    FAKE_LEAVE("%p, %zu", (void *)handle, index);
}

FAKE_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction handle, int threads,
                                                              size_t dynamic)
{
    FAKE_CALL(FAKE_CURRENT);
    const struct fake_function *function = result ? NULL : fake_handle_get(handle, FAKE_FUNCTION);
    if (!result && !function)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result && threads <= 0)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        size_t shared = dynamic + (size_t)function->shared_bytes;
        int by_threads = 2048 / ((threads + 31) / 32 * 32), by_shared = shared ? (int)((228 << 10) / shared) : 32;
        int least = by_threads < by_shared ? by_threads : by_shared;
        *blocks = threads > function->max_threads ? 0 : least < 32 ? least : 32;
    }
    FAKE_LEAVE("%p, %d, %zu", (void *)handle, threads, dynamic);
}
