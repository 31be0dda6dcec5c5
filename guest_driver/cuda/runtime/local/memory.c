/* Memory of the device for CPU versions of kernels.
 *
 * Allocations have the same addresses in this process, where nothing can be accessed. The first touch makes managed
 * memory (managed.c) of an allocation's pages, and so brings them, and what else the kernel touches, to the host; work
 * of the device takes them back. Variables of the device are copied to those of the library, and back. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory/managed.h"
#include "versions.h"

/* One kernel that uses variables runs at a time: they share the library's. */
static pthread_mutex_t variables_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- variables ------------------------------------------------------------------------------ */

static cudaError_t copy_variables(struct rt_device *device, const struct rt_either *either, bool to_device)
{
    const struct vgc_local_kernel *kernel = either->local.kernel;
    struct vgc_device *opened = atomic_load(&device->device);
    cudaError_t error = cudaSuccess;
    for (unsigned i = 0; i < kernel->num_variables && error == cudaSuccess; i++) {
        uint64_t address;
        const struct vgc_local_variable *variable = &kernel->variables[i];
        error = rt_load_variable(device, rt_variable_named(either->function->unit, variable->name), &address);
        if (error == cudaSuccess && to_device)
            error = rt_error(vgc_copy_in(opened, address, variable->address, *variable->size, 0, NULL));
        else if (error == cudaSuccess)
            error = rt_error(vgc_copy_out(opened, variable->address, address, *variable->size, 0, NULL));
    }
    return error;
}

bool rt_local_has_variables(const struct rt_function *function, const struct vgc_local_kernel *kernel)
{
    for (unsigned i = 0; i < kernel->num_variables; i++) {
        const struct rt_variable *variable = rt_variable_named(function->unit, kernel->variables[i].name);
        if (variable == NULL || variable->is_managed || variable->is_texture || variable->is_surface ||
            variable->size != *kernel->variables[i].size)
            return false;
    }
    return true;
}

cudaError_t rt_local_begin(struct rt_device *device, const struct rt_either *either)
{
    cudaError_t error = cudaSuccess;
    rt_managed_watch();
    if (rt_has_mirrors()) {
        error = rt_mirrors_enter(device, 0);
        if (error == cudaSuccess)
            error = rt_error(vgc_stream_synchronize(atomic_load(&device->device), 0));
    }
    if (either->local.kernel->num_variables == 0)
        return error;
    (void)pthread_mutex_lock(&variables_lock);
    return error == cudaSuccess ? copy_variables(device, either, false) : error;
}

cudaError_t rt_local_end(struct rt_device *device, const struct rt_either *either, bool has_run)
{
    cudaError_t error = cudaSuccess;
    if (has_run && either->local.kernel->num_variables > 0)
        error = copy_variables(device, either, true);
    if (either->local.kernel->num_variables > 0)
        (void)pthread_mutex_unlock(&variables_lock);
    cudaError_t released =
        rt_has_mirrors() ? rt_adopted_release(device) : cudaSuccess; /* they are read from the device */
    return error != cudaSuccess ? error : released;
}

/* ---- allocations ---------------------------------------------------------------------------- */

bool rt_local_can_reach(struct rt_device *device)
{
    return rt_is_all_reserved(device) && !rt_is_sharing(device);
}

bool rt_local_fault(void *address)
{
    return rt_managed_adopt(address);
}
