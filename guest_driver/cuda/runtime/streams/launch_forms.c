/* Launches with a configuration, on several devices, and those of nvcc 13's stubs. */
#include "runtime.h"

/* Flags of a launch with these attributes. Hints are ignored. */
static cudaError_t take_attributes(const cudaLaunchConfig_t *config, uint32_t *flags)
{
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const cudaLaunchAttribute *attribute = &config->attrs[i];
        switch (attribute->id) {
        case cudaLaunchAttributeCooperative:
            *flags |= attribute->val.cooperative != 0 ? VGC_LAUNCH_COOPERATIVE : 0;
            break;
        case cudaLaunchAttributeClusterDimension:
            if (attribute->val.clusterDim.x > 1 || attribute->val.clusterDim.y > 1 || attribute->val.clusterDim.z > 1)
                return rt_unsupported(
                    "clusters whose size is chosen at the launch (kernels with __cluster_dims__ work)");
            break;
        case cudaLaunchAttributeProgrammaticEvent:
            return rt_unsupported("cudaLaunchAttributeProgrammaticEvent");
        case cudaLaunchAttributeIgnore:
        case cudaLaunchAttributeAccessPolicyWindow:
        case cudaLaunchAttributeSynchronizationPolicy:
        case cudaLaunchAttributeClusterSchedulingPolicyPreference:
        case cudaLaunchAttributeProgrammaticStreamSerialization:
        case cudaLaunchAttributePriority:
            break;
        default:
            return rt_explain(cudaErrorInvalidValue, "launch attribute %d", (int)attribute->id);
        }
    }
    return cudaSuccess;
}

static cudaError_t launch(const cudaLaunchConfig_t *config, const void *function, void **arguments, uint32_t flags)
{
    struct rt_device *device;
    struct rt_operation operation = {.kind = RT_LAUNCH};
    cudaError_t error;
    if (atomic_load_explicit(&rt_num_either, memory_order_relaxed) > 0 &&
        rt_local_launch(function, config->gridDim, config->blockDim, config->dynamicSmemBytes, arguments,
                        config->stream, flags, &error))
        return error;
    error = rt_current(&device);
    if (error == cudaSuccess)
        error = rt_prepare_launch(device, function, config->gridDim, config->blockDim, config->dynamicSmemBytes, flags,
                                  &operation.launch);
    if (error == cudaSuccess)
        error = rt_give_arguments(&operation.launch, arguments);
    return error == cudaSuccess ? rt_submit(device, config->stream, &operation) : error;
}

RT_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **arguments)
{
    uint32_t flags = 0;
    if (config == NULL || (config->numAttrs > 0 && config->attrs == NULL))
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = take_attributes(config, &flags);
    return rt_return(error == cudaSuccess ? launch(config, function, arguments, flags) : error);
}

/* Grids of several devices cannot wait for each other; one device is a cooperative launch. */
RT_API cudaError_t cudaLaunchCooperativeKernelMultiDevice(struct cudaLaunchParams *list, unsigned int num_devices,
                                                          unsigned int flags)
{
    (void)flags;
    if (list == NULL || num_devices == 0)
        return rt_return(cudaErrorInvalidValue);
    if (num_devices > 1)
        return rt_return(rt_unsupported("cooperative launches on several devices"));
    const cudaLaunchConfig_t config = {.gridDim = list->gridDim,
                                       .blockDim = list->blockDim,
                                       .dynamicSmemBytes = list->sharedMem,
                                       .stream = list->stream};
    return rt_return(launch(&config, list->func, list->args, VGC_LAUNCH_COOPERATIVE));
}

/* ---- stubs of nvcc 13 ------------------------------------------------------------------------- */

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function);
cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *function);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                               cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                    cudaStream_t stream);

RT_API cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function)
{
    if (kernel == NULL)
        return rt_return(cudaErrorInvalidValue);
    if (rt_function(function) == NULL)
        return rt_return(cudaErrorInvalidDeviceFunction);
    *kernel = (cudaKernel_t)(uintptr_t)function;
    return cudaSuccess;
}

RT_API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                      cudaStream_t stream)
{
    return cudaLaunchKernel((const void *)kernel, grid, block, arguments, shared, stream);
}

RT_API cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                           cudaStream_t stream)
{
    return __cudaLaunchKernel(kernel, grid, block, arguments, shared, stream == NULL ? cudaStreamPerThread : stream);
}

RT_API cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *function)
{
    return __cudaGetKernel(kernel, function);
}
