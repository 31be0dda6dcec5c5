/* Built-in functions that the engine has: every context finds them, before those of the VM. Their ids follow from the
 * table alone, so that they are the same in each worker. */
#include "internal.h"

#include "builtins/vgc_builtins.h"

#include <stdlib.h>

enum { TYPE_BITS = 3, NUM_PLACES = VGC_NUM_FUNCTIONS << TYPE_BITS };

_Static_assert(VGC_NUM_TYPES <= 1 << TYPE_BITS, "types of one function have neighbouring places");
_Static_assert(VGC_BUILTIN_BLOCK <= VGC_MAX_PARAM_BYTES && VGC_BUILTIN_PARAMS <= VGC_MAX_CALL_ARGS, "fit a request");
_Static_assert((int)VGC_BUILTIN_WHY <= VGC_MAX_ERROR_TEXT, "fit a response");

/* A built-in function. `function.id` is 0 if the engine does not have it. */
struct entry {
    struct vgc_function function;
    struct vgc_kernel kernel;
};

struct vgc_builtins {
    struct entry entries[NUM_PLACES];
    struct vgc_param_entry params[VGC_NUM_FUNCTIONS][VGC_BUILTIN_PARAMS]; /* the same for all types */
    struct vgc_function_work works[NUM_PLACES]; /* untouched, and no memory, while nobody launches them */
    uint16_t order[NUM_PLACES];                 /* places of the functions that the engine has, in the table's order */
    uint32_t count;
};

static uint32_t place_of(const struct vgc_builtin *builtin)
{
    return builtin->function << TYPE_BITS | builtin->type;
}

static void add(struct vgc_builtins *builtins, const struct vgc_builtin *builtin, void *engine_private)
{
    uint32_t place = place_of(builtin);
    struct entry *entry = &builtins->entries[place];
    struct vgc_param_entry *params = builtins->params[builtin->function];
    for (uint32_t i = 0; i < builtin->num_params; i++) {
        const struct vgc_builtin_param *param = &builtin->params[i];
        params[i] = (struct vgc_param_entry){.offset = param->offset, .size = param->size, .kind = param->kind};
    }
    entry->kernel = (struct vgc_kernel){.name = builtin->name,
                                        .param_bytes = builtin->param_bytes,
                                        .max_threads = 1,
                                        .num_params = builtin->num_params,
                                        .params = params,
                                        .builtin = builtin,
                                        .engine_private = engine_private};
    entry->function = (struct vgc_function){.id = (uint32_t)VGC_BUILTIN_SERIAL << 16 | (place + 1),
                                            .kernel = &entry->kernel,
                                            .name = (char *)(uintptr_t)builtin->name,
                                            .short_name = (char *)(uintptr_t)builtin->name,
                                            .work = &builtins->works[place]};
    builtins->order[builtins->count++] = (uint16_t)place;
}

static void add_if_there(struct vgc_dp *dp, const struct vgc_builtin *builtin)
{
    void *engine_private = dp->engine->ops->builtin(dp->engine, builtin);
    if (engine_private != NULL)
        add(dp->builtins, builtin, engine_private);
}

int vgc_builtins_init(struct vgc_dp *dp)
{
    const struct vgc_builtin *builtin;
    if (dp->engine->ops->builtin == NULL)
        return 0;
    dp->builtins = calloc(1, sizeof(*dp->builtins));
    if (dp->builtins == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; (builtin = vgc_builtin_at(i)) != NULL; i++)
        add_if_there(dp, builtin);
    for (uint32_t i = 0; (builtin = vgc_library_function_at(i)) != NULL; i++)
        add_if_there(dp, builtin);
    return 0;
}

void vgc_builtins_free(struct vgc_dp *dp)
{
    free(dp->builtins);
    dp->builtins = NULL;
}

/* ---- finding them ------------------------------------------------------------------------------------------- */

static struct vgc_function *function_at(const struct vgc_dp *dp, uint32_t place)
{
    struct vgc_function *function = &dp->builtins->entries[place].function;
    return function->id != 0 ? function : NULL;
}

struct vgc_function *vgc_builtin_find(const struct vgc_dp *dp, uint32_t id)
{
    uint32_t place = vgc_index_of(id);
    return dp->builtins != NULL && place < NUM_PLACES ? function_at(dp, place) : NULL;
}

struct vgc_function *vgc_builtin_by_name(const struct vgc_dp *dp, const char *name, uint32_t len)
{
    const struct vgc_builtin *builtin = dp->builtins != NULL ? vgc_builtin_named(name, len) : NULL;
    return builtin != NULL ? function_at(dp, place_of(builtin)) : NULL;
}

const struct vgc_kernel *vgc_dp_builtin(const struct vgc_dp *dp, uint32_t number, uint32_t *id)
{
    if (dp->builtins == NULL || number >= dp->builtins->count)
        return NULL;
    const struct entry *entry = &dp->builtins->entries[dp->builtins->order[number]];
    *id = entry->function.id;
    return &entry->kernel;
}

/* ---- checks ------------------------------------------------------------------------------------------------- */

/* Checks a range that an argument of a CALL leads to; false: the request was answered. */
static bool check_argument(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_builtin *builtin,
                           const struct vgc_builtin_range *range, const struct vgc_call *call)
{
    const struct vgc_call_arg *arg = &call->args[range->param];
    const struct vgc_builtin_param *param = &builtin->params[range->param];
    if (arg->kind == VGC_ARG_KIND_IN && param->use != VGC_USE_IN) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "%s writes %s, which is an IN argument; allowed: OUT, INOUT",
                 builtin->name, param->name);
        return false;
    }
    uint64_t offset = range->address - call->addresses[range->param];
    if (offset <= arg->size && range->bytes <= arg->size - offset)
        return true;
    vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "%s needs %lu bytes for %s, whose argument has %lu", builtin->name,
             (unsigned long)(offset + range->bytes), param->name, (unsigned long)arg->size);
    return false;
}

static bool check_range(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_builtin *builtin,
                        const struct vgc_builtin_range *range, const struct vgc_call *call)
{
    if (range->bytes == 0)
        return true;
    if (call != NULL && call->args[range->param].kind != VGC_ARG_KIND_VALUE)
        return check_argument(dp, req, builtin, range, call);
    return vgc_check_range(dp, req, range->address, range->bytes);
}

bool vgc_builtin_check_params(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_kernel *kernel,
                              const uint8_t *params, const struct vgc_call *call)
{
    struct vgc_builtin_need need = {0};
    char why[VGC_BUILTIN_WHY];
    if (VGC_LIKELY(kernel->builtin == NULL))
        return true;
    int error = vgc_builtin_check(kernel->builtin, params, &need, why);
    for (uint32_t i = 0; i < need.num_ranges; i++) /* as far as known: arguments that are too short seem to overlap */
        if (!check_range(dp, req, kernel->builtin, &need.ranges[i], call))
            return false;
    if (error == 0)
        return true;
    vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "%s: %s", kernel->name, why);
    return false;
}
