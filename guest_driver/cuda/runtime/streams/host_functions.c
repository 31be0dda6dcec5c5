/* Functions of the host in streams: deferred.c calls them. */
#include "runtime.h"

RT_API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    struct rt_device *device;
    const struct rt_operation operation = {.kind = RT_HOST_FUNCTION, .host = {.function = function, .data = data}};
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess && function == NULL)
        error = cudaErrorInvalidValue;
    return rt_return(error == cudaSuccess ? rt_submit(device, stream, &operation) : error);
}

RT_API cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *data,
                                         unsigned int flags)
{
    struct rt_device *device;
    const struct rt_operation operation = {.kind = RT_HOST_FUNCTION,
                                           .host = {.callback = callback, .stream = stream, .data = data}};
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess && (callback == NULL || flags != 0))
        error = cudaErrorInvalidValue;
    return rt_return(error == cudaSuccess ? rt_submit(device, stream, &operation) : error);
}
