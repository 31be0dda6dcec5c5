/* Kernels of a unit that has very many, as one with CUB or Thrust, of which a process launches a few: each is compiled
 * alone when it is first used. All of them would take the host minutes, and more time than a compilation gets. */
#include <stdlib.h>

#include "runtime.h"

enum { MANY = 64 };

struct rt_alone {
    struct rt_alone *next;
    struct rt_device *device;
    uint32_t contexts; /* of the device */
    struct vgc_program *program;
};

/* Variables are shared by all kernels of a unit. The host's compiler refuses kernels with others of their own. */
static bool is_compiled_alone(const struct rt_device *device, const struct rt_function *function)
{
    const struct rt_unit *unit = function->unit;
    return unit->num_kernels >= MANY && !function->is_shared && device->info.engine_kind == RT_SOFTWARE_GPU &&
           !rt_has_variables(unit);
}

static int load(struct rt_device *device, const struct rt_function *function, struct rt_alone *alone,
                struct vgc_function **loaded)
{
    struct rt_progress progress;
    rt_progress_begin(&progress);
    int result = rt_load_kernel(device, function->unit, function->name, &alone->program);
    rt_progress_end(&progress);
    if (result != VGC_OK)
        return result;
    result = vgc_program_function(alone->program, function->name, loaded);
    if (result != VGC_OK)
        (void)vgc_program_unload(alone->program);
    return result;
}

bool rt_find_alone(struct rt_device *device, struct rt_function *function, struct vgc_function **loaded)
{
    struct rt_unit *unit = function->unit;
    if (!is_compiled_alone(device, function))
        return false;
    struct rt_alone *alone = calloc(1, sizeof(*alone));
    if (alone == NULL)
        return false;
    alone->device = device;
    alone->contexts = device->contexts;
    int result = load(device, function, alone, loaded);
    if (result == VGC_OK) {
        alone->next = unit->alone;
        unit->alone = alone;
        return true;
    }
    free(alone);
    function->is_shared = result == VGC_COMPILE_FAILED || result == VGC_NOT_FOUND;
    return false;
}

void rt_unload_alone(struct rt_unit *unit)
{
    while (unit->alone != NULL) {
        struct rt_alone *alone = unit->alone;
        unit->alone = alone->next;
        if (alone->contexts == alone->device->contexts && atomic_load(&alone->device->device) != NULL)
            (void)vgc_program_unload(alone->program);
        free(alone);
    }
}
