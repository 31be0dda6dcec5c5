/* Launches of kernels. */
#include <string.h>

#include "runtime.h"

enum { MAX_PENDING = 16, MAX_BLOCK_THREADS = 1024, MAX_BLOCK_Z = 64, DEFAULT_SHARED_BYTES = 48 << 10 };

/* ---- f<<<grid, block, shared, stream>>> pushes these, and the stub of f takes them ------------- */

struct configuration {
    dim3 grid;
    dim3 block;
    size_t shared;
    cudaStream_t stream;
};

static _Thread_local struct configuration pending[MAX_PENDING];
static _Thread_local unsigned num_pending;

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);

RT_API unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
    struct rt_device *device;
    if (num_pending == MAX_PENDING)
        return 1;
    if (rt_managed_variables_wait()) /* the arguments, which come next, may be their addresses */
        (void)rt_current(&device);
    pending[num_pending++] = (struct configuration){grid, block, shared, (cudaStream_t)stream};
    return 0;
}

RT_API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    if (num_pending == 0)
        return rt_return(cudaErrorMissingConfiguration);
    const struct configuration *top = &pending[--num_pending];
    *grid = top->grid;
    *block = top->block;
    *shared = top->shared;
    *(cudaStream_t *)stream = top->stream;
    return cudaSuccess;
}

/* ---- checks --------------------------------------------------------------------------------- */

/* More threads than the kernel's launch bounds allow, or than there are registers for. */
static cudaError_t refuse_threads(const struct rt_device *device, const struct vgc_function_info *info,
                                  uint64_t threads)
{
    const bool is_bound = threads * info->num_registers <= device->told.block_registers;
    return rt_explain(is_bound ? cudaErrorInvalidValue : cudaErrorLaunchOutOfResources,
                      "%s: %llu threads in a block; allowed: %u", info->short_name, (unsigned long long)threads,
                      info->max_threads);
}

static cudaError_t check(const struct rt_device *device, const struct rt_launch *launch, dim3 grid, dim3 block,
                         size_t shared)
{
    const struct rt_function *function = launch->function;
    struct vgc_function_info info;
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    vgc_function_info(launch->loaded, &info);
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > INT32_MAX || grid.y > UINT16_MAX || grid.z > UINT16_MAX)
        return rt_explain(cudaErrorInvalidConfiguration,
                          "%s: grid (%u, %u, %u); allowed: 1 to (2147483647, 65535, 65535)", info.short_name, grid.x,
                          grid.y, grid.z);
    if (threads == 0 || block.x > MAX_BLOCK_THREADS || block.y > MAX_BLOCK_THREADS || block.z > MAX_BLOCK_Z ||
        threads > MAX_BLOCK_THREADS)
        return rt_explain(cudaErrorInvalidConfiguration,
                          "%s: block (%u, %u, %u); allowed: up to (1024, 1024, 64), 1024 threads", info.short_name,
                          block.x, block.y, block.z);
    if (threads > info.max_threads)
        return refuse_threads(device, &info, threads);
    size_t allowed = function->max_dynamic_shared >= 0
                         ? (size_t)function->max_dynamic_shared
                         : DEFAULT_SHARED_BYTES - RT_MIN(info.shared_bytes, (uint32_t)DEFAULT_SHARED_BYTES);
    if (shared > allowed)
        return rt_explain(cudaErrorInvalidValue,
                          "%s: %zu bytes of dynamic shared memory; allowed: %zu, or what cudaFuncSetAttribute() sets",
                          info.short_name, shared, allowed);
    return cudaSuccess;
}

/* The blocks of a cooperative launch wait for one another: all must find room at once. */
static cudaError_t check_residence(const struct rt_device *device, const struct rt_launch *launch)
{
    struct vgc_function_info info;
    const struct vgc_geometry *geometry = &launch->geometry;
    uint64_t blocks = (uint64_t)geometry->grid[0] * geometry->grid[1] * geometry->grid[2];
    uint32_t threads = geometry->block[0] * geometry->block[1] * geometry->block[2];
    vgc_function_info(launch->loaded, &info);
    uint64_t room = (uint64_t)device->info.num_pes * rt_resident_blocks(device, &info, threads, geometry->shared_bytes);
    if (blocks <= room)
        return cudaSuccess;
    return rt_explain(cudaErrorCooperativeLaunchTooLarge,
                      "%s: %llu blocks wait for one another; there is room for %llu", info.short_name,
                      (unsigned long long)blocks, (unsigned long long)room);
}

/* ---- launching ------------------------------------------------------------------------------ */

cudaError_t rt_issue_launch(struct rt_device *device, const struct rt_launch *launch, uint32_t number)
{
    struct vgc_geometry geometry = launch->geometry;
    geometry.stream = number;
    if (rt_is_shadowed())
        rt_shadow_launched(launch->function->name);
    int result = vgc_launch(launch->loaded, &geometry, launch->arguments, launch->num_arguments, VGC_DETACHED);
    return rt_fault(device, rt_error(result));
}

cudaError_t rt_prepare_launch(struct rt_device *device, const void *host, dim3 grid, dim3 block, size_t shared,
                              uint32_t flags, struct rt_launch *launch)
{
    struct vgc_function_info info;
    *launch = (struct rt_launch){.function = rt_function(host),
                                 .geometry = {.grid = {grid.x, grid.y, grid.z},
                                              .block = {block.x, block.y, block.z},
                                              .shared_bytes = (uint32_t)shared,
                                              .flags = flags}};
    if (launch->function == NULL)
        return rt_explain(cudaErrorInvalidDeviceFunction, "%p is not a kernel of this program", host);
    cudaError_t error = rt_load_function(device, launch->function, &launch->loaded);
    if (error != cudaSuccess)
        return error;
    vgc_function_info(launch->loaded, &info);
    launch->num_arguments = info.num_params;
    error = check(device, launch, grid, block, shared);
    bool is_cooperative = (flags & VGC_LAUNCH_COOPERATIVE) != 0;
    return error == cudaSuccess && is_cooperative ? check_residence(device, launch) : error;
}

cudaError_t rt_give_arguments(struct rt_launch *launch, void *const *arguments)
{
    if (arguments == NULL && launch->num_arguments > 0)
        return rt_explain(cudaErrorInvalidValue, "a launch of %s without its arguments", launch->function->name);
    launch->arguments = arguments;
    return rt_check_spare(launch);
}

static cudaError_t launch(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream,
                          uint32_t flags)
{
    struct rt_device *device;
    struct rt_operation operation = {.kind = RT_LAUNCH};
    cudaError_t error;
    if (atomic_load_explicit(&rt_num_either, memory_order_relaxed) > 0 &&
        rt_local_launch(host, grid, block, shared, arguments, stream, flags, &error))
        return error;
    error = rt_current(&device);
    if (error == cudaSuccess)
        error = rt_prepare_launch(device, host, grid, block, shared, flags, &operation.launch);
    if (error == cudaSuccess)
        error = rt_give_arguments(&operation.launch, arguments);
    return error == cudaSuccess ? rt_submit(device, stream, &operation) : error;
}

RT_API cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                                    cudaStream_t stream)
{
    return rt_return(launch(function, grid, block, arguments, shared, stream, 0));
}

/* Names that stubs of kernels call in objects with managed variables. */
cudaError_t hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                            cudaStream_t stream);
cudaError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);

RT_API cudaError_t hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                                   cudaStream_t stream)
{
    return cudaLaunchKernel(function, grid, block, arguments, shared, stream);
}

RT_API cudaError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    return __cudaPopCallConfiguration(grid, block, shared, stream);
}

RT_API cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                                               size_t shared, cudaStream_t stream)
{
    return rt_return(launch(function, grid, block, arguments, shared, stream, VGC_LAUNCH_COOPERATIVE));
}
