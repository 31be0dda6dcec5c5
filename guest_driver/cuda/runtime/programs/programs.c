/* The program's GPU part: a unit is sent to the host at the first use of one of its functions or variables. Units with
 * relocatable code are linked with all others of their executable or library, as nvcc links them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blob.h"
#include "fatbins.h"
#include "runtime.h"

enum { MAX_NAME = 4200, MORE_OPTIONS = 2 };

struct rt_program {
    struct vgc_program *loaded; /* NULL: it does not compile */
    uint32_t contexts;          /* of the device */
    int result;                 /* of loading */
    cudaError_t error;
    uint32_t users; /* units */
};

static const struct vgc_cuda_blob *blob_of(const struct rt_unit *unit)
{
    const struct vgc_cuda_blob *blob = unit->data;
    if (unit->kind != 0)
        return NULL;
    return memcmp(blob->magic, VGC_CUDA_BLOB_MAGIC, sizeof(blob->magic)) == 0 ? blob : NULL;
}

static bool is_relocatable(const struct rt_unit *unit)
{
    const struct vgc_cuda_blob *blob = blob_of(unit);
    return blob != NULL && (blob->flags & VGC_CUDA_BLOB_RELOCATABLE) != 0;
}

/* ---- sending -------------------------------------------------------------------------------- */

struct parts {
    const char *name; /* not terminated */
    const char **options;
    uint32_t num_options;
    const char *text;
};

static cudaError_t take_apart(const struct vgc_cuda_blob *blob, struct parts *parts)
{
    const char *at = (const char *)(blob + 1);
    parts->name = at;
    const char *option = at + blob->name_len;
    const char *end = option + blob->options_len;
    parts->text = end;
    parts->num_options = 0;
    for (const char *c = option; c < end; c++)
        parts->num_options += *c == '\0';
    parts->options = calloc(parts->num_options + MORE_OPTIONS, sizeof(*parts->options));
    if (parts->options == NULL)
        return cudaErrorMemoryAllocation;
    for (uint32_t i = 0; i < parts->num_options; i++) {
        parts->options[i] = option;
        option += strlen(option) + 1;
    }
    return cudaSuccess;
}

/* Compiler option for what cudaDeviceSetLimit() has made of the heap of malloc() in kernels, or "". On GPUs the heap is
 * the VM's, and the host's configuration sets it. */
static void heap_option(const struct rt_device *device, char *option, size_t room)
{
    size_t bytes = device->limits[cudaLimitMallocHeapSize];
    option[0] = '\0';
    if (bytes != 0 && device->info.engine_kind == RT_SOFTWARE_GPU)
        (void)snprintf(option, room, "--malloc-heap-size=%zu", bytes);
}

/* `kernel`: an option for the compiler, or NULL. */
static int load_blob(struct rt_device *device, const struct vgc_cuda_blob *blob, const char *kernel,
                     struct vgc_program **program)
{
    char heap[64];
    struct parts parts;
    if (take_apart(blob, &parts) != cudaSuccess)
        return VGC_SYSTEM;
    heap_option(device, heap, sizeof(heap));
    if (heap[0] != '\0')
        parts.options[parts.num_options++] = heap; /* take_apart() leaves room for more */
    if (kernel != NULL)
        parts.options[parts.num_options++] = kernel;
    int result = vgc_program_load(atomic_load(&device->device), VGC_SOURCE_CUDA, parts.text, blob->text_len,
                                  parts.options, parts.num_options, program);
    free(parts.options);
    return result;
}

int rt_load_kernel(struct rt_device *device, const struct rt_unit *unit, const char *name, struct vgc_program **program)
{
    static const char form[] = "--kernel=%s";
    const struct vgc_cuda_blob *blob = blob_of(unit);
    if (blob == NULL || is_relocatable(unit))
        return VGC_NOT_FOUND;
    const size_t room = sizeof(form) + strlen(name);
    char *option = malloc(room);
    if (option == NULL)
        return VGC_SYSTEM;
    (void)snprintf(option, room, form, name);
    int result = load_blob(device, blob, option, program);
    free(option);
    return result;
}

/* An image of PTX takes the option for the heap, too. */
static int load_image(struct rt_device *device, const struct rt_unit *unit, struct vgc_program **program)
{
    char heap[64];
    const char **options = calloc(unit->num_options + 1u, sizeof(*options));
    uint32_t count = unit->num_options;
    if (options == NULL)
        return VGC_SYSTEM;
    for (uint32_t i = 0; i < count; i++)
        options[i] = unit->options[i];
    heap_option(device, heap, sizeof(heap));
    if (heap[0] != '\0')
        options[count++] = heap;
    int result =
        vgc_program_load(atomic_load(&device->device), unit->kind, unit->data, unit->size, options, count, program);
    free(options);
    return result;
}

/* A name for the linker that no other unit has: objects of several folders may come from files of one name. */
static char *unique_name(const struct vgc_cuda_blob *blob, uint32_t index)
{
    size_t room = blob->name_len + 16;
    char *name = malloc(room);
    if (name != NULL)
        (void)snprintf(name, room, "%.*s#%u", (int)blob->name_len, (const char *)(blob + 1), index);
    return name;
}

static int link_units(struct rt_device *device, struct rt_unit *const *units, uint32_t count,
                      struct vgc_program **program)
{
    struct vgc_source_unit *sources = calloc(count, sizeof(*sources));
    int result = sources != NULL ? VGC_OK : VGC_SYSTEM;
    char heap[64];
    const char *const option = heap;
    heap_option(device, heap, sizeof(heap));
    for (uint32_t i = 0; i < count && result == VGC_OK; i++) {
        const struct vgc_cuda_blob *blob = blob_of(units[i]);
        struct parts parts;
        if (take_apart(blob, &parts) != cudaSuccess) {
            result = VGC_SYSTEM;
            break;
        }
        sources[i] = (struct vgc_source_unit){.name = unique_name(blob, i),
                                              .text = parts.text,
                                              .size = blob->text_len,
                                              .options = parts.options,
                                              .num_options = parts.num_options};
    }
    if (result == VGC_OK)
        result = vgc_program_link(atomic_load(&device->device), sources, count, &option, heap[0] != '\0', program);
    for (uint32_t i = 0; sources != NULL && i < count; i++) {
        free((char *)(uintptr_t)sources[i].name);
        free((void *)(uintptr_t)sources[i].options);
    }
    free(sources);
    return result;
}

/* ---- loading -------------------------------------------------------------------------------- */

static cudaError_t error_of_load(int result, const struct rt_unit *unit)
{
    if (unit->kind != 0)
        return rt_error(result); /* images.c has more to say */
    if ((result == VGC_COMPILE_FAILED || result == VGC_UNSUPPORTED) && rt_is_fatbin(unit->data))
        return rt_fatbin_refused(unit->data);
    if (result == VGC_COMPILE_FAILED)
        (void)fprintf(stderr, "virtio-gpu-compute: %s\n", vgc_last_error());
    cudaError_t error = rt_error(result);
    if (result == VGC_UNSUPPORTED)
        return rt_explain(cudaErrorNoKernelImageForDevice, "%s", vgc_last_error());
    return error == cudaErrorLaunchOutOfResources ? cudaErrorMemoryAllocation : error;
}

/* With the registry's lock: the units that are loaded together with `unit`. */
static uint32_t companions(struct rt_unit *unit, struct rt_unit ***out)
{
    uint32_t count = unit->is_image;
    bool all = !unit->is_image && is_relocatable(unit);
    for (struct rt_unit *other = rt_units(); other != NULL; other = other->next)
        count += other == unit || (all && other->library == unit->library && is_relocatable(other));
    struct rt_unit **list = calloc(count + 1u, sizeof(*list));
    *out = list;
    if (list == NULL)
        return 0;
    list[0] = unit;
    uint32_t at = 0;
    for (struct rt_unit *other = rt_units(); other != NULL; other = other->next)
        if (other == unit || (all && other->library == unit->library && is_relocatable(other)))
            list[at++] = other;
    return count;
}

/* With the registry's lock: the name under which link_units() sent a relocatable unit. */
static char *name_of_linked(struct rt_unit *unit)
{
    struct rt_unit **units;
    uint32_t count = companions(unit, &units);
    char *name = NULL;
    for (uint32_t i = 0; i < count; i++)
        if (units[i] == unit)
            name = unique_name(blob_of(unit), i);
    free(units);
    return name;
}

static int load_units(struct rt_device *device, struct rt_unit *const *units, uint32_t count,
                      struct vgc_program **program)
{
    const struct vgc_cuda_blob *blob = blob_of(units[0]);
    if (units[0]->kind != 0)
        return load_image(device, units[0], program);
    if (blob == NULL)
        return rt_is_fatbin(units[0]->data) ? rt_fatbin_load(atomic_load(&device->device), units[0]->data, program)
                                            : VGC_UNSUPPORTED;
    return count == 1 ? load_blob(device, blob, NULL, program) : link_units(device, units, count, program);
}

/* With the registry's lock. The device's values are the program's from now on. */
static void note_variables(struct rt_device *device, const struct rt_unit *unit)
{
    if (rt_has_variables(unit))
        atomic_store(&device->only_there, "a variable");
}

/* Would loading end like that again? Memory may be there the next time. */
static bool is_final(int result)
{
    return result == VGC_OK || result == VGC_COMPILE_FAILED || result == VGC_UNSUPPORTED;
}

/* With the registry's lock. The order of registration is that of the linker, backwards. */
static cudaError_t load(struct rt_device *device, struct rt_unit *unit, struct rt_program **out)
{
    struct rt_program *program = unit->programs[device->ordinal];
    if (program != NULL && program->contexts == device->contexts) {
        *out = program;
        return program->error;
    }
    struct rt_unit **units;
    uint32_t count = companions(unit, &units);
    program = calloc(1, sizeof(*program));
    if (count == 0 || program == NULL) {
        free(units);
        free(program);
        return cudaErrorMemoryAllocation;
    }
    program->contexts = device->contexts;
    struct rt_progress progress;
    rt_progress_begin(&progress);
    program->result = load_units(device, units, count, &program->loaded);
    rt_progress_end(&progress);
    program->error = error_of_load(program->result, unit);
    program->users = count;
    if (!is_final(program->result)) {
        cudaError_t error = program->error;
        free(units);
        free(program);
        return error;
    }
    for (uint32_t i = 0; i < count; i++) {
        units[i]->programs[device->ordinal] = program;
        note_variables(device, units[i]);
    }
    free(units);
    *out = program;
    return program->error;
}

cudaError_t rt_load_unit(struct rt_device *device, struct rt_unit *unit, struct vgc_program **loaded)
{
    struct rt_program *program;
    rt_registry_lock();
    cudaError_t error = load(device, unit, &program);
    if (error == cudaSuccess)
        *loaded = program->loaded;
    rt_registry_unlock();
    return error == cudaErrorDevicesUnavailable ? rt_fault(device, error) : error;
}

void rt_unload_unit(struct rt_unit *unit)
{
    rt_remove_variables(unit);
    rt_managed_variables_unload(unit);
    rt_registry_lock();
    rt_unload_alone(unit);
    for (int i = 0; i < RT_MAX_DEVICES; i++) {
        struct rt_program *program = unit->programs[i];
        unit->programs[i] = NULL;
        if (program == NULL || --program->users > 0)
            continue;
        struct rt_device *device = rt_device_at(i);
        if (program->loaded != NULL && device != NULL && atomic_load(&device->device) != NULL)
            (void)vgc_program_unload(program->loaded);
        free(program);
    }
    rt_registry_unlock();
}

/* ---- functions and variables ---------------------------------------------------------------- */

/* Finds a name in a program; 0 or negative as libvgc's. */
typedef int find_fn(struct vgc_program *program, const char *name, void *found);

static int find_loaded_function(struct vgc_program *program, const char *name, void *found)
{
    return vgc_program_function(program, name, found);
}

static int find_loaded_variable(struct vgc_program *program, const char *name, void *found)
{
    uint64_t size;
    return vgc_program_global(program, name, found, &size);
}

/* The last identifier of a mangled name: own of _ZL3own and of _ZN12_GLOBAL__N_13ownE; "" if it has no identifier. */
static void source_name(const char *mangled, char *room, size_t size)
{
    const char *at = mangled + strcspn(mangled, "0123456789");
    *room = '\0';
    while (*at >= '0' && *at <= '9') {
        char *begin;
        size_t len = strtoul(at, &begin, 10);
        if (len > strlen(begin))
            return;
        (void)snprintf(room, size, "%.*s", (int)len, begin);
        at = begin + len;
    }
}

/* Tries a name as it is, and as the linker of several units ends it if more than one of them has it for itself. */
static int find_with_unit(struct vgc_program *program, const char *name, const char *unit, find_fn *find_name,
                          void *found)
{
    char room[MAX_NAME];
    int result = find_name(program, name, found);
    if (result == VGC_OK || unit == NULL || *name == '\0')
        return result;
    (void)snprintf(room, sizeof(room), "%s@%s", name, unit);
    return find_name(program, room, found);
}

/* Has a mangled name that no other unit can use? Static ones in a namespace have an L before the identifier. */
static bool is_internal(const char *name)
{
    if (strncmp(name, "_ZL", 3) == 0 || strncmp(name, "_ZN12_GLOBAL__N_1", 17) == 0)
        return true;
    for (const char *at = strncmp(name, "_ZN", 3) == 0 ? strchr(name, 'L') : NULL; at != NULL; at = strchr(at + 1, 'L'))
        if (at[1] >= '1' && at[1] <= '9')
            return true;
    return false;
}

/* Finds what clang's host code calls `name`. A static function or variable (_ZL5twicePfi) has other names, too: with
 * nvcc the one that it would have outside (_Z5twicePfi), on the software GPU variables the one in the source. */
static int find(struct rt_program *program, struct rt_unit *unit, const char *name, find_fn *find_name, void *found)
{
    char room[MAX_NAME];
    if (!is_internal(name) || strlen(name) >= sizeof(room))
        return find_name(program->loaded, name, found);
    char *unit_name = program->users > 1 ? name_of_linked(unit) : NULL;
    int result = find_with_unit(program->loaded, name, unit_name, find_name, found);
    if (result != VGC_OK && name[2] == 'L') {
        (void)snprintf(room, sizeof(room), "_Z%s", name + 3);
        result = find_with_unit(program->loaded, room, unit_name, find_name, found);
    }
    if (result != VGC_OK) {
        source_name(name, room, sizeof(room));
        result = find_with_unit(program->loaded, room, unit_name, find_name, found);
    }
    free(unit_name);
    return result;
}

/* The program lacks the name, unless the device was lost. */
static cudaError_t error_of_find(int result, cudaError_t lacking)
{
    cudaError_t error = rt_error(result);
    return error == cudaSuccess || error == cudaErrorDevicesUnavailable ? error
                                                                        : rt_explain(lacking, "%s", vgc_last_error());
}

/* Without the registry's lock: a device that was lost meanwhile has a kernel that is to blame. */
static cudaError_t error_of_use(struct rt_device *device, cudaError_t error)
{
    return error == cudaErrorDevicesUnavailable ? rt_fault(device, error) : error;
}

/* The function in the unit's program; without a unit, the host's of that name. With the registry's lock. */
static cudaError_t look_up(struct rt_device *device, struct rt_function *function, struct vgc_function **loaded)
{
    struct rt_program *program;
    if (function->unit == NULL)
        return error_of_find(vgc_function_find(device->device, function->name, loaded), cudaErrorSymbolNotFound);
    const struct rt_program *whole = function->unit->programs[device->ordinal];
    const bool has_whole = whole != NULL && whole->contexts == device->contexts && whole->error == cudaSuccess;
    if (!has_whole && rt_find_alone(device, function, loaded))
        return cudaSuccess;
    cudaError_t error = load(device, function->unit, &program);
    return error != cudaSuccess
               ? error
               : error_of_find(find(program, function->unit, function->name, find_loaded_function, loaded),
                               cudaErrorInvalidDeviceFunction);
}

static cudaError_t load_function(struct rt_device *device, struct rt_function *function, struct vgc_function **loaded)
{
    *loaded = atomic_load_explicit(&function->loaded[device->ordinal], memory_order_acquire);
    if (*loaded != NULL)
        return cudaSuccess;
    rt_registry_lock();
    cudaError_t error = look_up(device, function, loaded);
    if (error == cudaSuccess)
        atomic_store_explicit(&function->loaded[device->ordinal], *loaded, memory_order_release);
    rt_registry_unlock();
    return error_of_use(device, error);
}

cudaError_t rt_load_function(struct rt_device *device, struct rt_function *function, struct vgc_function **loaded)
{
    uint32_t contexts = device->contexts;
    cudaError_t error = load_function(device, function, loaded);
    return error == cudaErrorDevicesUnavailable && rt_go_on(device, contexts) ? load_function(device, function, loaded)
                                                                              : error;
}

cudaError_t rt_load_variable(struct rt_device *device, struct rt_variable *variable, uint64_t *address)
{
    struct rt_program *program;
    rt_registry_lock();
    cudaError_t error = load(device, variable->unit, &program);
    *address = variable->address[device->ordinal];
    if (error == cudaSuccess && *address == 0) {
        error = error_of_find(find(program, variable->unit, variable->name, find_loaded_variable, address),
                              cudaErrorInvalidSymbol);
        if (error == cudaSuccess)
            error = rt_add_variable(device, variable, *address);
        if (error == cudaSuccess)
            variable->address[device->ordinal] = *address;
    }
    rt_registry_unlock();
    return error_of_use(device, error);
}
