/* Calls by name: chooses the side, calls, and goes on on the CPU where the host cannot. */
#include <stdlib.h>
#include <string.h>

#include "named_table.h"

static const uint64_t ASK_AGAIN_NS = 10 * VGC_NS_PER_S; /* a host that lacked a function, or was silent */

/* ---- choosing ------------------------------------------------------------------------------- */

static bool writes(const struct vgc_arg *arg)
{
    return arg->direction == VGC_ARG_OUT || arg->direction == VGC_ARG_INOUT;
}

static uint64_t size_of(const struct vgc_arg *args, uint32_t num_args)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < num_args; i++)
        if (args[i].direction != VGC_ARG_VALUE && __builtin_add_overflow(size, args[i].size, &size))
            return UINT64_MAX;
    return size;
}

static bool writes_in_place(const struct vgc_device *device, const struct vgc_arg *args, uint32_t num_args)
{
    for (uint32_t i = 0; i < num_args; i++)
        if (writes(&args[i]) && vgc_in_region(device, args[i].data, args[i].size))
            return true;
    return false;
}

static bool lacks(const struct vgc_device *device, const struct vgc_named *named)
{
    uint64_t until_ns = atomic_load_explicit(&named->missing_until_ns, memory_order_relaxed);
    return until_ns != 0 && named->missing_programs == device->programs_loaded && vgc_now_ns() < until_ns;
}

static void choose_only(struct vgc_choice *choice, uint32_t side)
{
    choice->side = side;
    choice->why = VGC_WHY_ONLY;
}

static void choose_faster(const struct vgc_sizes *sizes, struct vgc_choice *choice)
{
    struct vgc_pick pick = vgc_sizes_pick(sizes, choice->size);
    choice->side = pick.side == VGC_TIMED_CPU ? VGC_SIDE_CPU : VGC_SIDE_HOST;
    choice->why = pick.is_try ? VGC_WHY_TRIED : VGC_WHY_FASTER;
    choice->host_ns = pick.expected[VGC_TIMED_GPU];
    choice->cpu_ns = pick.expected[VGC_TIMED_CPU];
}

/* Choice for a function that is, or may be, on both sides. */
static void choose_side(const struct vgc_named_table *table, struct vgc_named *named, const char *type,
                        struct vgc_choice *choice)
{
    enum vgc_rule_side rule = vgc_named_rule(table, named, choice->size, type);
    if (rule != VGC_RULE_AUTO) {
        choice->side = rule == VGC_RULE_CPU ? VGC_SIDE_CPU : VGC_SIDE_HOST;
        choice->why = VGC_WHY_RULE;
        return;
    }
    choose_faster(&named->sizes, choice);
}

/* A host that is lost, or was silent a moment ago, need not be asked by a call that may go on without it. */
static void pass_over(const struct vgc_device *device, const struct vgc_named_table *table, struct vgc_choice *choice)
{
    if (!choice->may_fall_back || choice->side != VGC_SIDE_HOST)
        return;
    uint64_t until_ns = atomic_load_explicit(&table->silent_until_ns, memory_order_relaxed);
    if (atomic_load_explicit(&device->lost, memory_order_relaxed))
        choice->host_result = VGC_DEVICE_LOST;
    else if (until_ns != 0 && vgc_now_ns() < until_ns)
        choice->host_result = VGC_NO_ANSWER;
    else
        return;
    choose_only(choice, VGC_SIDE_CPU);
    choice->fell_back = true;
}

static int choose_forced(const char *name, struct vgc_choice *choice, uint32_t side)
{
    if (side == VGC_SIDE_CPU && !choice->has_local)
        return vgc_fail(VGC_NOT_FOUND, "no local function '%s' is registered", name);
    choice->side = side;
    choice->why = VGC_WHY_FORCED;
    choice->is_forced = true;
    return VGC_OK;
}

int vgc_choose(struct vgc_device *device, const char *name, const struct vgc_arg *args, uint32_t num_args,
               const struct vgc_choice_options *options, struct vgc_choice *choice)
{
    static const struct vgc_choice_options DEFAULTS;
    options = options != NULL ? options : &DEFAULTS;
    int result = vgc_check_name(name);
    if (result != VGC_OK)
        return result;
    if (options->side > VGC_SIDE_HOST)
        return vgc_fail(VGC_INVALID_ARGUMENT, "side %u; allowed: 0 to %d", options->side, VGC_SIDE_HOST);
    struct vgc_named_table *table = vgc_named_table_of(device);
    struct vgc_named *named = table != NULL ? vgc_named_find(table, name) : NULL;
    *choice = (struct vgc_choice){.size = options->size != 0 ? options->size : size_of(args, num_args)};
    choice->has_local = named != NULL && named->local != NULL;
    choice->may_fall_back = choice->has_local && options->falls_back;
    if (choice->may_fall_back && device != NULL)
        choice->writes_in_place = writes_in_place(device, args, num_args);
    if (options->side != VGC_SIDE_AUTO)
        result = choose_forced(name, choice, options->side);
    else if (!choice->has_local)
        choose_only(choice, VGC_SIDE_HOST);
    else if (device == NULL || vgc_named_is_inherited(table) || lacks(device, named))
        choose_only(choice, VGC_SIDE_CPU);
    else
        choose_side(table, named, options->type, choice);
    if (result == VGC_OK && device == NULL && choice->side == VGC_SIDE_HOST)
        return vgc_fail(choice->is_forced ? VGC_NO_DEVICE : VGC_NOT_FOUND,
                        "no local function '%s' is registered, and there is no device", name);
    if (result == VGC_OK && device != NULL)
        pass_over(device, table, choice);
    return result;
}

/* ---- how it went ---------------------------------------------------------------------------- */

/* The host could not take the call; none of its results say that the function has done something wrong. */
static bool is_shortage(int result)
{
    return result == VGC_RESOURCES_EXHAUSTED || result == VGC_OUT_OF_MEMORY || result == VGC_DEVICE_LOST ||
           result == VGC_NO_CONTEXT || result == VGC_NO_ANSWER || result == VGC_UNSUPPORTED;
}

static bool goes_on(const struct vgc_choice *choice, int result)
{
    if (choice->side != VGC_SIDE_HOST || !choice->has_local)
        return false;
    if (choice->may_fall_back && is_shortage(result))
        return result != VGC_NO_ANSWER || !choice->writes_in_place;
    return result == VGC_NOT_FOUND && !choice->is_forced;
}

static void note_failure(const struct vgc_device *device, struct vgc_named_table *table, struct vgc_named *named,
                         int result)
{
    if (result == VGC_NO_ANSWER)
        table->silent_until_ns = vgc_now_ns() + ASK_AGAIN_NS;
    if (result != VGC_NOT_FOUND)
        return;
    named->missing_programs = device->programs_loaded;
    named->missing_until_ns = vgc_now_ns() + ASK_AGAIN_NS;
}

bool vgc_choice_end(struct vgc_device *device, const char *name, struct vgc_choice *choice, int result,
                    uint64_t took_ns)
{
    struct vgc_named_table *table = vgc_named_table_of(device);
    struct vgc_named *named = table != NULL ? vgc_named_find(table, name) : NULL;
    choice->took_ns = took_ns;
    if (named == NULL || device == NULL)
        return false;
    if (result == VGC_OK) {
        enum vgc_timed_side side = choice->side == VGC_SIDE_CPU ? VGC_TIMED_CPU : VGC_TIMED_GPU;
        if (choice->has_local)
            vgc_sizes_note(&named->sizes, choice->size, side, choice->why == VGC_WHY_TRIED, took_ns);
        return false;
    }
    if (choice->side == VGC_SIDE_HOST)
        note_failure(device, table, named, result);
    if (!goes_on(choice, result))
        return false;
    choice->fell_back = result != VGC_NOT_FOUND;
    choice->host_result = result;
    choose_only(choice, VGC_SIDE_CPU);
    return true;
}

/* ---- calling -------------------------------------------------------------------------------- */

static int call_local(struct vgc_device *device, const char *name, const struct vgc_geometry *geometry,
                      const struct vgc_arg *args, uint32_t num_args)
{
    struct vgc_named_table *table = vgc_named_table_of(device);
    struct vgc_named *named = table != NULL ? vgc_named_find(table, name) : NULL;
    struct vgc_local *local = named != NULL ? named->local : NULL;
    if (local == NULL)
        return vgc_fail(VGC_NOT_FOUND, "no local function '%s' is registered", name);
    if (local->function == NULL)
        return vgc_fail(VGC_UNSUPPORTED, "the local function '%s' is one that only its caller can run", name);
    for (uint32_t i = 0; i < num_args; i++)
        if (args[i].direction == VGC_ARG_OUT && args[i].size > 0)
            memset(args[i].data, 0, args[i].size);
    int error = local->function(local->user, geometry, args, num_args);
    return error == 0 ? VGC_OK
                      : vgc_fail(VGC_LAUNCH_FAILED, "the local function '%s' has failed: it returned %d", name, error);
}

/* Buffers that the host changes in place, as they were. */
static uint8_t *save(const struct vgc_device *device, const struct vgc_arg *args, uint32_t num_args)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < num_args; i++)
        if (args[i].direction == VGC_ARG_INOUT && vgc_in_region(device, args[i].data, args[i].size))
            bytes += args[i].size;
    uint8_t *saved = malloc(bytes + 1);
    uint8_t *at = saved;
    for (uint32_t i = 0; saved != NULL && i < num_args; i++)
        if (args[i].direction == VGC_ARG_INOUT && vgc_in_region(device, args[i].data, args[i].size)) {
            memcpy(at, args[i].data, args[i].size);
            at += args[i].size;
        }
    return saved;
}

static void restore(const struct vgc_device *device, const struct vgc_arg *args, uint32_t num_args,
                    const uint8_t *saved)
{
    for (uint32_t i = 0; i < num_args; i++)
        if (args[i].direction == VGC_ARG_INOUT && vgc_in_region(device, args[i].data, args[i].size)) {
            memcpy(args[i].data, saved, args[i].size);
            saved += args[i].size;
        }
}

/* The call on the host. True: it is to go on on the CPU. */
static bool call_host(struct vgc_device *device, const char *name, const struct vgc_geometry *geometry,
                      const struct vgc_arg *args, uint32_t num_args, struct vgc_choice *choice, int *result)
{
    uint8_t *saved = choice->writes_in_place ? save(device, args, num_args) : NULL;
    if (choice->writes_in_place && saved == NULL)
        choice->may_fall_back = false; /* no memory for a copy */
    uint64_t begin_ns = vgc_now_ns();
    *result = vgc_call(device, name, geometry, args, num_args, NULL);
    bool goes_on = vgc_choice_end(device, name, choice, *result, vgc_now_ns() - begin_ns);
    if (goes_on && saved != NULL)
        restore(device, args, num_args, saved);
    free(saved);
    return goes_on;
}

int vgc_call_named(struct vgc_device *device, const char *name, const struct vgc_geometry *geometry,
                   const struct vgc_arg *args, uint32_t num_args, const struct vgc_choice_options *options,
                   struct vgc_choice *out)
{
    static const struct vgc_geometry ONE = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
    struct vgc_choice choice;
    geometry = geometry != NULL ? geometry : &ONE;
    int result = vgc_choose(device, name, args, num_args, options, &choice);
    if (result != VGC_OK)
        return result;
    if (choice.side == VGC_SIDE_CPU || call_host(device, name, geometry, args, num_args, &choice, &result)) {
        uint64_t begin_ns = vgc_now_ns();
        result = call_local(device, name, geometry, args, num_args);
        (void)vgc_choice_end(device, name, &choice, result, vgc_now_ns() - begin_ns);
    }
    if (out != NULL)
        *out = choice;
    return result;
}

/* ---- looking -------------------------------------------------------------------------------- */

int vgc_choice_rows(struct vgc_device *device, const char *name, struct vgc_choice_row *rows, uint32_t room,
                    uint32_t *count)
{
    int result = vgc_check_name(name);
    *count = 0;
    if (result != VGC_OK)
        return result;
    struct vgc_named_table *table = vgc_named_table_of(device);
    struct vgc_named *named = table != NULL ? vgc_named_find(table, name) : NULL;
    for (uint32_t i = 0; named != NULL && i < VGC_SIZE_CLASSES; i++) {
        struct vgc_size_class *at = vgc_sizes_at(&named->sizes, i);
        if (at == NULL || at->times.samples[VGC_TIMED_GPU] + at->times.samples[VGC_TIMED_CPU] == 0)
            continue;
        struct vgc_choice next = {.size = vgc_size_class_floor(i)};
        choose_side(table, named, NULL, &next);
        if (*count < room)
            rows[*count] = (struct vgc_choice_row){
                .size_from = next.size,
                .size_to = i + 1 < VGC_SIZE_CLASSES ? vgc_size_class_floor(i + 1) : UINT64_MAX,
                .host_ns = at->times.samples[VGC_TIMED_GPU] > 0 ? at->times.ns[VGC_TIMED_GPU] : 0,
                .cpu_ns = at->times.samples[VGC_TIMED_CPU] > 0 ? at->times.ns[VGC_TIMED_CPU] : 0,
                .host_samples = at->times.samples[VGC_TIMED_GPU],
                .cpu_samples = at->times.samples[VGC_TIMED_CPU],
                .side = next.side,
                .why = next.why};
        (*count)++;
    }
    return VGC_OK;
}

int vgc_choice_pick(const struct vgc_choice_row *rows, uint32_t num_rows, uint64_t size, struct vgc_choice *choice)
{
    struct vgc_sizes sizes = {0};
    for (uint32_t i = 0; i < num_rows; i++) {
        const struct vgc_times_line line = {
            .size_class = vgc_size_class_of(rows[i].size_from),
            .ns = {[VGC_TIMED_GPU] = rows[i].host_ns, [VGC_TIMED_CPU] = rows[i].cpu_ns},
            .samples = {[VGC_TIMED_GPU] = rows[i].host_samples, [VGC_TIMED_CPU] = rows[i].cpu_samples}};
        vgc_sizes_recall(&sizes, &line);
    }
    *choice = (struct vgc_choice){.size = size};
    choose_faster(&sizes, choice);
    vgc_sizes_free(&sizes);
    return VGC_OK;
}
