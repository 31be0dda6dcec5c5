/* Programs and their functions: found by id, and by name through a hash table that is rebuilt when programs change. */
#include "internal.h"

#include <stdlib.h>

/* ---- programs ----------------------------------------------------------------------------------------------- */

static struct vgc_program *program_find(struct vgc_dp *dp, uint32_t id)
{
    uint32_t index = vgc_index_of(id);
    return index < VGC_MAX_PROGRAMS && dp->programs[index].id == id ? &dp->programs[index] : NULL;
}

/* Puts the program into a free table entry and charges the quota. */
static int program_place(struct vgc_dp *dp, uint32_t index, uint32_t id, uint32_t engine_context, uint64_t charged)
{
    int error = vgc_memory_charge(dp, charged);
    if (error != 0)
        return error;
    dp->programs[index] =
        (struct vgc_program){.id = id, .serial = id >> 16, .context = engine_context, .charged = charged};
    if (engine_context == 0)
        dp->programs[index].context = VGC_OF_VM;
    dp->program_order[dp->num_programs++] = index;
    return (int)id;
}

static int program_add(struct vgc_dp *dp, uint32_t engine_context, uint64_t charged)
{
    uint32_t index = 0;
    while (index < VGC_MAX_PROGRAMS && dp->programs[index].id != 0)
        index++;
    if (index == VGC_MAX_PROGRAMS)
        return -ENOSPC;
    uint32_t serial = dp->programs[index].serial;
    return program_place(dp, index, vgc_make_id(&serial, index), engine_context, charged);
}

int vgc_dp_program_load(struct vgc_dp *dp, uint32_t id, uint32_t engine_context, uint64_t charged)
{
    uint32_t index = vgc_index_of(id);
    if (index >= VGC_MAX_PROGRAMS || id > INT32_MAX)
        return -EINVAL;
    vgc_dp_lock(dp);
    int error = -EEXIST;
    if (engine_context != 0 && !vgc_context_exists(dp, engine_context))
        error = -EINVAL;
    else if (dp->programs[index].id == 0)
        error = program_place(dp, index, id, engine_context, charged);
    vgc_dp_unlock(dp);
    return error < 0 ? error : 0;
}

int vgc_dp_program_add(struct vgc_dp *dp, uint32_t engine_context, uint64_t charged)
{
    vgc_dp_lock(dp);
    int id = program_add(dp, engine_context, charged);
    vgc_dp_unlock(dp);
    return id;
}

static int program_charge(struct vgc_dp *dp, uint32_t id, uint64_t charged)
{
    struct vgc_program *program = program_find(dp, id);
    if (program == NULL)
        return -ENOENT;
    if (charged <= program->charged)
        return 0;
    int error = vgc_memory_charge(dp, charged - program->charged);
    if (error == 0)
        program->charged = charged;
    return error;
}

int vgc_dp_program_charge(struct vgc_dp *dp, uint32_t id, uint64_t charged)
{
    vgc_dp_lock(dp);
    int error = program_charge(dp, id, charged);
    vgc_dp_unlock(dp);
    return error;
}

/* Python loads the program. */
void vgc_serve_program_load(struct vgc_dp *dp, struct vgc_req *req)
{
    const struct vgc_body_program_load *load = &req->body.program_load;
    bool is_registered = (load->flags & VGC_PROGRAM_FLAG_REGISTER) != 0;
    uint32_t allowed = is_registered ? VGC_PROGRAM_FLAG_REGISTER | VGC_PROGRAM_FLAG_KEEP : 0;
    if (load->reserved == 0 && (load->flags & ~allowed) == 0)
        vgc_serve_cold(dp, req);
    else
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "flags are %#x, and reserved is %#x; allowed: 0, %#x, %#x, and 0",
                 load->flags, load->reserved, VGC_PROGRAM_FLAG_REGISTER,
                 VGC_PROGRAM_FLAG_REGISTER | VGC_PROGRAM_FLAG_KEEP);
}

/* Python lists the functions. */
void vgc_serve_function_list(struct vgc_dp *dp, struct vgc_req *req)
{
    if (req->body.function_list.reserved == 0)
        vgc_serve_cold(dp, req);
    else
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "reserved is %#x; allowed: 0", req->body.function_list.reserved);
}

/* Python unloads the program, once no request in flight may use its kernels or variables. */
void vgc_serve_program_unload(struct vgc_dp *dp, struct vgc_req *req)
{
    if (req->body.program_unload.reserved != 0) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "reserved is %#x; allowed: 0", req->body.program_unload.reserved);
        return;
    }
    struct vgc_program *program = program_find(dp, req->body.program_unload.program);
    if (program == NULL || program->dying ||
        (program->context != VGC_OF_VM && program->context != vgc_context_number(dp, req->context))) {
        vgc_fail(dp, req, VGC_STATUS_NOT_FOUND, "context %u has no program %u, nor has the VM", req->request.context,
                 req->body.program_unload.program);
        return;
    }
    program->dying = true;
    dp->removals++;
    if (program->context == VGC_OF_VM)
        vgc_lines_wait(dp, req, vgc_serve_cold);
    else
        vgc_line_wait(dp, req, vgc_serve_cold);
}

/* ---- functions ---------------------------------------------------------------------------------------------- */

static bool is_callable(const struct vgc_dp *dp, const struct vgc_function *function, uint32_t context)
{
    const struct vgc_program *program = &dp->programs[function->program_index];
    return (program->context == context || program->context == VGC_OF_VM) && !program->dying;
}

/* Ids are serial << 16 | (index + 1), with one serial for the whole table. */
struct vgc_function *vgc_function_by_id(struct vgc_dp *dp, uint32_t id)
{
    uint32_t index = vgc_index_of(id);
    if (id >> 16 == VGC_BUILTIN_SERIAL)
        return vgc_builtin_find(dp, id);
    return index < dp->num_functions && dp->functions[index].id == id ? &dp->functions[index] : NULL;
}

struct vgc_function *vgc_function_find(struct vgc_dp *dp, uint32_t id, uint32_t context)
{
    struct vgc_function *function = vgc_function_by_id(dp, id);
    bool is_found = function != NULL && (function->kernel->builtin != NULL || is_callable(dp, function, context));
    return is_found ? function : NULL;
}

int vgc_dp_function_work(struct vgc_dp *dp, uint32_t function, struct vgc_function_work *work)
{
    vgc_dp_lock(dp);
    const struct vgc_function *found = vgc_function_by_id(dp, function);
    int error = found != NULL && found->work != NULL ? 0 : -ENOENT;
    if (error == 0)
        *work = *found->work;
    vgc_dp_unlock(dp);
    return error;
}

static uint32_t hash_of(uint32_t context, const char *name, size_t len)
{
    uint32_t hash = 2166136261u ^ context;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (uint8_t)name[i]) * 16777619u;
    return hash;
}

static bool is_named(const char *have, const char *name, size_t len)
{
    return strlen(have) == len && memcmp(have, name, len) == 0;
}

/* Finds a function of a context or, with VGC_OF_VM, of the VM. */
static struct vgc_function *named(struct vgc_dp *dp, uint32_t owner, const char *name, uint32_t len)
{
    if (dp->names_size == 0)
        return NULL;
    for (uint32_t at = hash_of(owner, name, len);; at++) {
        uint32_t entry = dp->names[at & (dp->names_size - 1)];
        if (entry == 0)
            return NULL;
        struct vgc_function *function = &dp->functions[entry - 1];
        if (dp->programs[function->program_index].context == owner && is_callable(dp, function, owner) &&
            (is_named(function->name, name, len) || is_named(function->short_name, name, len)))
            return function;
    }
}

struct vgc_function *vgc_function_named(struct vgc_dp *dp, uint32_t context, const char *name, uint32_t len)
{
    struct vgc_function *function = named(dp, context, name, len);
    if (function == NULL)
        function = vgc_builtin_by_name(dp, name, len); /* another context cannot take its name */
    return function != NULL ? function : named(dp, VGC_OF_VM, name, len);
}

static void names_insert(struct vgc_dp *dp, uint32_t context, const char *name, uint32_t function_index)
{
    uint32_t at = hash_of(context, name, strlen(name));
    while (dp->names[at & (dp->names_size - 1)] != 0)
        at++;
    dp->names[at & (dp->names_size - 1)] = function_index + 1;
}

/* Rebuilds the hash table of names. Later programs are entered first, so that they are found first. */
static int rebuild_names(struct vgc_dp *dp)
{
    uint32_t size = 64;
    while (size < 4 * dp->num_functions)
        size *= 2;
    uint32_t *names = calloc(size, sizeof(*names));
    if (names == NULL)
        return -ENOMEM;
    free(dp->names);
    dp->names = names;
    dp->names_size = size;
    for (uint32_t order = dp->num_programs; order-- > 0;) {
        uint32_t program_index = dp->program_order[order];
        for (uint32_t i = 0; i < dp->num_functions; i++) {
            const struct vgc_function *function = &dp->functions[i];
            if (function->id == 0 || function->program_index != program_index)
                continue;
            names_insert(dp, dp->programs[program_index].context, function->name, i);
            if (strcmp(function->name, function->short_name) != 0)
                names_insert(dp, dp->programs[program_index].context, function->short_name, i);
        }
    }
    return 0;
}

static void forget_function(struct vgc_function *function)
{
    free(function->name);
    free(function->short_name);
    free(function->work);
    *function = (struct vgc_function){0};
}

/* Checks that parameters lie inside the parameter block and the block fits into a request, as requests rely on; and
 * that kinds are those of the wire format and pointers have its size, as drivers rely on. */
static bool params_are_sound(const struct vgc_kernel *kernel)
{
    if (kernel->param_bytes > VGC_MAX_PARAM_BYTES)
        return false;
    for (uint32_t i = 0; i < kernel->num_params; i++) {
        const struct vgc_param_entry *param = &kernel->params[i];
        if (param->offset > kernel->param_bytes || param->size > kernel->param_bytes - param->offset)
            return false;
        if (param->kind > VGC_PARAM_KIND_OTHER || param->reserved != 0 ||
            (param->kind == VGC_PARAM_KIND_POINTER && param->size != sizeof(uint64_t)))
            return false;
    }
    return true;
}

/* Puts the function into a free table entry, growing the table to it if needed. */
static int function_place(struct vgc_dp *dp, uint32_t index, uint32_t id, const struct vgc_program *program,
                          const struct vgc_kernel *kernel, const char *name, const char *short_name)
{
    struct vgc_function *function = &dp->functions[index];
    *function = (struct vgc_function){.id = id,
                                      .program_index = (uint32_t)(program - dp->programs),
                                      .kernel = kernel,
                                      .name = strdup(name),
                                      .short_name = strdup(short_name)};
    bool is_registered = program->context == VGC_OF_VM;
    if (is_registered)
        function->work = calloc(1, sizeof(*function->work));
    if (index >= dp->num_functions)
        dp->num_functions = index + 1;
    if (function->name == NULL || function->short_name == NULL || (is_registered && function->work == NULL)) {
        forget_function(function);
        return -ENOMEM;
    }
    return (int)function->id;
}

static int function_add(struct vgc_dp *dp, uint32_t program_id, const struct vgc_kernel *kernel, const char *name,
                        const char *short_name)
{
    const struct vgc_program *program = program_find(dp, program_id);
    uint32_t index = 0;
    if (program == NULL)
        return -ENOENT;
    if (!params_are_sound(kernel))
        return -EINVAL;
    while (index < dp->num_functions && dp->functions[index].id != 0)
        index++;
    if (index == VGC_MAX_FUNCTIONS - 1)
        return -ENOSPC;
    uint32_t id = vgc_make_id(&dp->function_serial, index);
    if (dp->function_serial == VGC_BUILTIN_SERIAL)
        id = vgc_make_id(&dp->function_serial, index);
    return function_place(dp, index, id, program, kernel, name, short_name);
}

static int function_load(struct vgc_dp *dp, uint32_t program_id, uint32_t id, const struct vgc_kernel *kernel,
                         const char *name, const char *short_name)
{
    const struct vgc_program *program = program_find(dp, program_id);
    uint32_t index = vgc_index_of(id);
    if (program == NULL)
        return -ENOENT;
    if (index >= VGC_MAX_FUNCTIONS - 1 || id >> 16 >= VGC_BUILTIN_SERIAL || !params_are_sound(kernel))
        return -EINVAL;
    if (dp->functions[index].id != 0)
        return -EEXIST;
    int placed = function_place(dp, index, id, program, kernel, name, short_name);
    return placed < 0 ? placed : 0;
}

int vgc_dp_function_load(struct vgc_dp *dp, uint32_t program, uint32_t id, const struct vgc_kernel *kernel,
                         const char *name, const char *short_name)
{
    vgc_dp_lock(dp);
    int error = function_load(dp, program, id, kernel, name, short_name);
    vgc_dp_unlock(dp);
    return error;
}

int vgc_dp_function_add(struct vgc_dp *dp, uint32_t program, const struct vgc_kernel *kernel, const char *name,
                        const char *short_name)
{
    vgc_dp_lock(dp);
    int id = function_add(dp, program, kernel, name, short_name);
    vgc_dp_unlock(dp);
    return id;
}

int vgc_dp_program_publish(struct vgc_dp *dp)
{
    vgc_dp_lock(dp);
    int error = rebuild_names(dp);
    vgc_dp_unlock(dp);
    return error;
}

int vgc_dp_global_add(struct vgc_dp *dp, uint32_t program_id, uint64_t address, uint64_t size)
{
    vgc_dp_lock(dp);
    const struct vgc_program *program = program_find(dp, program_id);
    int error = -ENOENT;
    if (program != NULL)
        error = vgc_alloc_insert(dp, (struct vgc_alloc){.address = address,
                                                        .size = size,
                                                        .context = program->context,
                                                        .program_index = (uint32_t)(program - dp->programs)});
    vgc_dp_unlock(dp);
    return error;
}

static void forget_order(struct vgc_dp *dp, uint32_t program_index)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < dp->num_programs; i++)
        if (dp->program_order[i] != program_index)
            dp->program_order[kept++] = dp->program_order[i];
    dp->num_programs = kept;
}

static void program_remove(struct vgc_dp *dp, struct vgc_program *program)
{
    uint32_t program_index = (uint32_t)(program - dp->programs);
    for (uint32_t i = 0; i < dp->num_functions; i++)
        if (dp->functions[i].id != 0 && dp->functions[i].program_index == program_index)
            forget_function(&dp->functions[i]);
    vgc_alloc_drop_of(dp, 0, program_index);
    forget_order(dp, program_index);
    dp->memory_used -= program->charged;
    dp->removals++;
    *program = (struct vgc_program){.serial = program->serial};
}

int vgc_dp_program_remove(struct vgc_dp *dp, uint32_t id)
{
    vgc_dp_lock(dp);
    struct vgc_program *program = program_find(dp, id);
    int error = program == NULL ? -ENOENT : 0;
    if (error == 0) {
        program_remove(dp, program);
        error = rebuild_names(dp);
    }
    vgc_dp_unlock(dp);
    return error;
}

void vgc_objects_free(struct vgc_dp *dp)
{
    for (uint32_t i = 0; i < dp->num_functions; i++)
        forget_function(&dp->functions[i]);
    free(dp->names);
    dp->names = NULL;
    vgc_temp_drop_all(dp);
    while (dp->num_allocs != 0)
        vgc_alloc_drop(dp, &dp->allocs[dp->num_allocs - 1]);
}
