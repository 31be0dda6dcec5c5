/* Launches of kernels that have a CPU version: which side runs them, and running them in the order of their stream, as
 * functions of the host are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "versions.h"

_Atomic uint32_t rt_num_either;

/* All that a launch needs, in one block of malloc(). */
struct work {
    struct rt_device *device;
    struct rt_either *either;
    struct rt_grid grid;
    uint64_t alignment[2]; /* of the arguments that follow */
};

void rt_local_register(struct rt_function *function)
{
    function->either = calloc(1, sizeof(*function->either));
    if (function->either == NULL)
        abort();
    function->either->function = function;
    (void)atomic_fetch_add(&rt_num_either, 1);
}

static void watch_exit(void)
{
    (void)atexit(rt_local_at_exit);
}

/* Looks the CPU version up, once. */
static bool is_available(struct rt_either *either)
{
    if (atomic_load_explicit(&either->is_looked_up, memory_order_acquire))
        return either->local.kernel != NULL;
    struct rt_local local = {NULL, NULL};
    (void)rt_local_of(either->function, &local);
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_exit);
    rt_local_lock();
    if (!atomic_load(&either->is_looked_up)) {
        either->local = local;
        rt_local_introduce(either);
        atomic_store_explicit(&either->is_looked_up, true, memory_order_release);
    }
    rt_local_unlock();
    return local.kernel != NULL;
}

/* ---- running -------------------------------------------------------------------------------- */

static void tell_failure(const struct work *work, cudaError_t error)
{
    char text[512];
    const void *address = atomic_load(&work->grid.fault);
    const char *name = work->either->function->name;
    if (error == cudaErrorIllegalAddress)
        (void)snprintf(text, sizeof(text), "FAULT: invalid address %p in the CPU version of kernel '%s'", address,
                       name);
    else
        (void)snprintf(text, sizeof(text), "the CPU version of kernel '%s' has failed", name);
    rt_keep_error(error, text);
}

/* Called by the stream's queue. */
static void run(cudaStream_t stream, cudaError_t before, void *data)
{
    struct work *work = data;
    (void)stream;
    if (before == cudaSuccess) {
        uint64_t begin = rt_now_ns();
        cudaError_t error = rt_local_begin(work->device, work->either);
        bool begun = error == cudaSuccess;
        if (begun)
            error = rt_local_run_grid(&work->grid);
        cudaError_t ended = rt_local_end(work->device, work->either, begun);
        error = error != cudaSuccess ? error : ended;
        if (error == cudaSuccess) {
            rt_local_note(work->either, &work->grid.shape, RT_CPU, rt_now_ns() - begin);
        } else {
            tell_failure(work, error);
            atomic_store(&work->device->late, rt_fault(work->device, error));
        }
    }
    free(work);
}

static struct work *new_work(struct rt_device *device, struct rt_either *either, void *const *arguments)
{
    const struct vgc_local_kernel *kernel = either->local.kernel;
    size_t bytes = sizeof(struct work) + kernel->num_parameters * sizeof(void *);
    for (unsigned i = 0; i < kernel->num_parameters; i++)
        bytes += (kernel->sizes[i] + 15u) / 16 * 16 + 16;
    struct work *work = calloc(1, bytes);
    if (work == NULL)
        return NULL;
    work->device = device;
    work->either = either;
    work->grid.table = either->local.table;
    work->grid.kernel = kernel;
    work->grid.arguments = (void **)(work + 1);
    uint8_t *at = (uint8_t *)(work->grid.arguments + kernel->num_parameters);
    for (unsigned i = 0; i < kernel->num_parameters; i++) {
        at = (uint8_t *)(((uintptr_t)at + 15) & ~(uintptr_t)15);
        work->grid.arguments[i] = memcpy(at, arguments[i], kernel->sizes[i]);
        at += kernel->sizes[i];
    }
    return work;
}

/* Launches that the device would refuse are refused, in the same words. */
static cudaError_t check(struct rt_device *device, const void *host, const struct rt_shape *shape, size_t shared)
{
    struct rt_launch launch;
    const dim3 grid = {shape->grid[0], shape->grid[1], shape->grid[2]};
    const dim3 block = {shape->block[0], shape->block[1], shape->block[2]};
    return rt_prepare_launch(device, host, grid, block, shared, 0, &launch);
}

static cudaError_t submit(struct rt_device *device, struct rt_either *either, const struct rt_shape *shape,
                          void *const *arguments, cudaStream_t stream)
{
    struct work *work = new_work(device, either, arguments);
    if (work == NULL)
        return cudaErrorMemoryAllocation;
    work->grid.shape = *shape;
    const struct rt_operation operation = {.kind = RT_HOST_FUNCTION,
                                           .host = {.callback = run, .stream = stream, .data = work}};
    cudaError_t error = rt_submit(device, stream, &operation);
    if (error != cudaSuccess)
        free(work);
    return error;
}

/* ---- choosing ------------------------------------------------------------------------------- */

/* False for launches that are wrong, which the device tells, and for those that a CPU version cannot do. */
static bool is_plain(const struct rt_shape *shape, size_t shared, uint32_t flags)
{
    uint64_t threads = (uint64_t)shape->block[0] * shape->block[1] * shape->block[2];
    return flags == 0 && shape->grid[0] > 0 && shape->grid[1] > 0 && shape->grid[2] > 0 &&
           shape->grid[0] <= INT32_MAX && shape->grid[1] <= UINT16_MAX && shape->grid[2] <= UINT16_MAX && threads > 0 &&
           threads <= 1024 && shape->block[2] <= 64 && shared <= VGC_LOCAL_DYNAMIC_BYTES;
}

static bool is_captured(struct rt_device *device, cudaStream_t stream)
{
    struct CUstream_st *checked;
    if (atomic_load(&rt_num_special) == 0)
        return false;
    return rt_check_stream(device, stream, &checked) != cudaSuccess || (checked != NULL && checked->capture != 0);
}

/* Launches on the device, and waits. False: it was not launched. */
static bool sample(const void *host, const struct rt_shape *shape, size_t shared, void *const *arguments,
                   cudaStream_t stream, cudaError_t *error)
{
    struct rt_device *device;
    struct rt_operation operation = {.kind = RT_LAUNCH};
    const dim3 grid = {shape->grid[0], shape->grid[1], shape->grid[2]};
    const dim3 block = {shape->block[0], shape->block[1], shape->block[2]};
    *error = rt_current(&device);
    if (*error != cudaSuccess || is_captured(device, stream) || cudaStreamSynchronize(stream) != cudaSuccess)
        return false;
    *error = rt_prepare_launch(device, host, grid, block, shared, 0, &operation.launch);
    operation.launch.arguments = arguments;
    uint64_t begin = rt_now_ns();
    if (*error == cudaSuccess)
        *error = rt_submit(device, stream, &operation);
    if (*error == cudaSuccess)
        *error = cudaStreamSynchronize(stream);
    if (*error == cudaSuccess)
        rt_local_note(operation.launch.function->either, shape, RT_GPU, rt_now_ns() - begin);
    return true;
}

/* The kernel's program has no room on the device, and the program goes on without. */
static bool has_no_room(struct rt_device *device, struct rt_function *function)
{
    struct vgc_function *loaded;
    cudaError_t error = rt_load_function(device, function, &loaded);
    if (error != cudaErrorMemoryAllocation && error != cudaErrorLaunchOutOfResources)
        return false;
    rt_tell_fallback("the VM has no room for the program's device code");
    return true;
}

bool rt_local_launch(const void *host, dim3 grid, dim3 block, size_t shared, void *const *arguments,
                     cudaStream_t stream, uint32_t flags, cudaError_t *error)
{
    struct rt_device *device;
    struct rt_function *function = rt_function(host);
    const struct rt_shape shape = {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}};
    if (function == NULL || function->either == NULL || rt_is_forked || rt_is_called_back || rt_is_shadowed() ||
        !is_plain(&shape, shared, flags) || !is_available(function->either))
        return false;
    struct rt_either *either = function->either;
    bool is_sample;
    enum rt_side side = rt_local_choose(either, &shape, &is_sample);
    bool is_without = false;
    if (side == RT_CPU || rt_falls_back()) {
        *error = rt_current(&device);
        if (*error != cudaSuccess)
            return true;
        is_without = rt_falls_back() && has_no_room(device, function);
        bool can_run = !is_captured(device, stream) && rt_local_can_reach(device);
        side = can_run && (side == RT_CPU || is_without || rt_has_spare()) ? RT_CPU : RT_GPU;
    }
    (void)atomic_fetch_add(&either->count[side], 1);
    if (side == RT_GPU)
        return is_sample && sample(host, &shape, shared, arguments, stream, error);
    *error = is_without ? cudaSuccess : check(device, host, &shape, shared);
    if (*error == cudaSuccess)
        *error = submit(device, either, &shape, arguments, stream);
    return true;
}
