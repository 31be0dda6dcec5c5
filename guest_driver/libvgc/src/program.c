/* Programs and their functions. */
#include <stdlib.h>
#include <string.h>

#include "cubin.h"
#include "program.h"

enum { RESPONSE_BYTES = 128 << 10 };

char *vgc_text_of(const char *strings, uint32_t size, uint32_t offset, uint32_t len)
{
    char *text = offset > size || len > size - offset ? NULL : malloc((size_t)len + 1);
    if (text == NULL)
        return NULL;
    memcpy(text, strings + offset, len);
    text[len] = '\0';
    return text;
}

static void free_program(struct vgc_program *program)
{
    vgc_disown(program->device, &program->owned);
    for (uint32_t i = 0; program->functions != NULL && i < program->num_functions; i++) {
        free((char *)(uintptr_t)program->functions[i].name);
        free((char *)(uintptr_t)program->functions[i].short_name);
    }
    free(program->functions);
    free(program->log);
    free(program->table);
    free(program);
}

static void end_program(struct vgc_owned *owned)
{
    free_program((struct vgc_program *)owned);
}

/* ---- the answer's table --------------------------------------------------------------------- */

static bool locate_parts(struct vgc_program *program, uint64_t len)
{
    const struct vgc_program_table *table = program->table;
    if (len < sizeof(*table))
        return false;
    uint64_t params_at = sizeof(*table) + (uint64_t)table->num_functions * sizeof(struct vgc_function_entry);
    uint64_t globals_at = params_at + (uint64_t)table->num_params * sizeof(struct vgc_param_entry);
    uint64_t strings_at = globals_at + (uint64_t)table->num_globals * sizeof(struct vgc_global_entry);
    uint64_t log_at = strings_at + table->strings_len;
    if (table->memory_bytes > atomic_load(&program->device->limits.memory_bytes) || log_at > len ||
        table->log_len > len - log_at)
        return false;
    const uint8_t *base = (const uint8_t *)table;
    program->entries = (const struct vgc_function_entry *)(const void *)(base + sizeof(*table));
    program->params = (const struct vgc_param_entry *)(const void *)(base + params_at);
    program->globals = (const struct vgc_global_entry *)(const void *)(base + globals_at);
    program->strings = (const char *)(base + strings_at);
    program->log = malloc((size_t)table->log_len + 1);
    if (program->log == NULL)
        return false;
    memcpy(program->log, base + log_at, table->log_len);
    program->log[table->log_len] = '\0';
    return true;
}

static bool param_is_sound(const struct vgc_param_entry *param, uint32_t param_bytes)
{
    if (param->offset > param_bytes || param->size > param_bytes - param->offset)
        return false;
    if (param->kind == VGC_PARAM_KIND_POINTER)
        return param->size == sizeof(uint64_t);
    return param->kind <= VGC_PARAM_KIND_OTHER;
}

static bool make_functions(struct vgc_program *program)
{
    uint32_t count = program->table->num_functions;
    uint32_t strings_len = program->table->strings_len;
    program->functions = calloc(VGC_MAX(count, 1u), sizeof(*program->functions));
    if (program->functions == NULL)
        return false;
    program->num_functions = count;
    for (uint32_t i = 0; i < count; i++) {
        struct vgc_function *function = &program->functions[i];
        const struct vgc_function_entry *entry = &program->entries[i];
        if (entry->first_param > program->table->num_params ||
            entry->num_params > program->table->num_params - entry->first_param ||
            entry->param_bytes > VGC_MAX_PARAM_BYTES)
            return false;
        function->program = program;
        function->entry = entry;
        function->params = program->params + entry->first_param;
        function->name = vgc_text_of(program->strings, strings_len, entry->name_off, entry->name_len);
        function->short_name = vgc_text_of(program->strings, strings_len, entry->short_off, entry->short_len);
        if (function->name == NULL || function->short_name == NULL)
            return false;
        for (uint32_t p = 0; p < entry->num_params; p++)
            if (!param_is_sound(&function->params[p], entry->param_bytes))
                return false;
    }
    return true;
}

int vgc_program_make(struct vgc_device *device, uint32_t id, bool is_registered, void *payload, uint64_t len,
                     struct vgc_program **out)
{
    struct vgc_program *program = calloc(1, sizeof(*program));
    if (program == NULL) {
        free(payload);
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    }
    program->device = device;
    program->epoch = device->epoch;
    program->id = id;
    program->is_registered = is_registered;
    program->table = (struct vgc_program_table *)payload;
    if (!locate_parts(program, len) || !make_functions(program)) {
        free_program(program);
        return vgc_fail(VGC_INTERNAL, "the device answered with a function table that contradicts itself");
    }
    vgc_own(device, &program->owned, end_program);
    vgc_set_log(program->log, strlen(program->log));
    if (!is_registered) /* that stays charged when this process has ended */
        vgc_quota_add(device, program->table->memory_bytes);
    if (id != 0) /* not a view of a single function */
        (void)atomic_fetch_add(&device->programs_loaded, 1);
    *out = program;
    return VGC_OK;
}

/* ---- loading -------------------------------------------------------------------------------- */

struct load { /* one PROGRAM_LOAD, from arguments to answer */
    struct vgc_device *device;
    struct vgc_body_program_load body;
    const void *source;
    const char *const *options;
    uint32_t num_options;
    uint64_t room; /* for the answer's payload */
    void *payload; /* private copy of it */
    uint64_t payload_len;
    struct vgc_response response;
};

static int check_load(struct load *load)
{
    uint64_t options_len = 0;
    for (uint32_t i = 0; i < load->num_options; i++)
        options_len += strlen(load->options[i]) + 1;
    if (options_len > VGC_MAX_OPTIONS_BYTES)
        return vgc_fail(VGC_INVALID_ARGUMENT, "compiler options of %llu bytes; allowed: %d",
                        (unsigned long long)options_len, VGC_MAX_OPTIONS_BYTES);
    if (load->body.source_len == 0 || load->body.source_len > VGC_MAX_SOURCE_BYTES)
        return vgc_fail(VGC_INVALID_ARGUMENT, "a program of %llu bytes; allowed: 1 to %d",
                        (unsigned long long)load->body.source_len, VGC_MAX_SOURCE_BYTES);
    load->body.options_len = (uint32_t)options_len;
    return VGC_OK;
}

/* Refuses a cubin for which the quota has no room. What sources and PTX take is known once the host has compiled them.
 */
static int check_memory(const struct load *load)
{
    if (load->body.kind != VGC_SOURCE_CUBIN)
        return VGC_OK;
    uint64_t needed = vgc_cubin_bytes(load->source, load->body.source_len);
    if (vgc_quota_has(load->device, needed))
        return VGC_OK;
    return vgc_fail(
        VGC_OUT_OF_MEMORY,
        "resources exhausted: the program takes %llu bytes of device memory, %llu of %llu bytes free" VGC_MAY_RAISE(
            "memory"),
        (unsigned long long)needed, (unsigned long long)vgc_quota_free(load->device),
        (unsigned long long)atomic_load(&load->device->limits.memory_bytes));
}

/* Staging holds options and source, then room for the answer. */
static void fill_staging(const struct load *load, uint8_t *staging)
{
    for (uint32_t i = 0; i < load->num_options; i++) {
        size_t len = strlen(load->options[i]) + 1;
        memcpy(staging, load->options[i], len);
        staging += len;
    }
    memcpy(staging, load->source, load->body.source_len);
}

static int send_load(struct load *load, struct vgc_message *message, uint8_t *staging, struct vgc_copy_back *back)
{
    uint64_t input = load->body.options_len + load->body.source_len;
    uint8_t *answer = staging + (input + VGC_HEAP_ALIGN - 1) / VGC_HEAP_ALIGN * VGC_HEAP_ALIGN;
    fill_staging(load, staging);
    *back = (struct vgc_copy_back){load->payload, answer, load->room};
    message->job->staging = staging;
    message->job->copies = back;
    message->job->num_copies = 1;
    message->job->copy_on_error = true;
    (void)vgc_message_put(message, VGC_BYTES(load->body), sizeof(load->body));
    (void)vgc_message_readable(message, staging, input); /* neither exceeds one descriptor */
    (void)vgc_message_writable(message, answer, load->room);
    int result = vgc_job_ask(message, &load->response);
    load->payload_len = VGC_MIN(load->response.payload_len, load->room);
    return result;
}

static int try_load(struct load *load)
{
    struct vgc_message message;
    uint8_t *staging = NULL;
    uint64_t input = load->body.options_len + load->body.source_len;
    load->payload = malloc(load->room);
    struct vgc_copy_back *back = malloc(sizeof(*back));
    int result = load->payload == NULL || back == NULL
                     ? vgc_fail(VGC_SYSTEM, "out of memory in the guest")
                     : vgc_alloc_or_reap(load->device, input + VGC_HEAP_ALIGN + load->room, &staging);
    if (result == VGC_OK) {
        result = vgc_message_begin(&message, load->device, VGC_OP_PROGRAM_LOAD, 0, true);
        if (result == VGC_OK)
            return send_load(load, &message, staging, back);
        (void)vgc_heap_free(load->device, staging);
    }
    free(back);
    return result;
}

static int refuse_answer(const struct load *load)
{
    return vgc_fail(VGC_RESOURCES_EXHAUSTED,
                    "the device's answer of %llu bytes does not fit the region; allowed: at most %llu bytes",
                    (unsigned long long)load->room, (unsigned long long)load->device->transport->region_bytes);
}

int vgc_program_end(struct vgc_device *device, uint32_t id)
{
    struct vgc_message message;
    struct vgc_body_program_unload body = {.program = id};
    int result = vgc_message_begin(&message, device, VGC_OP_PROGRAM_UNLOAD, 0, true);
    if (result != VGC_OK)
        return result;
    (void)vgc_message_put(&message, VGC_BYTES(body), sizeof(body));
    return vgc_job_run(&message, NULL);
}

static int load_program(struct vgc_device *device, int kind, uint32_t flags, const void *source, uint64_t size,
                        const char *const *options, uint32_t num_options, struct vgc_program **program)
{
    struct load load = {.device = device,
                        .body = {.kind = (uint32_t)kind, .source_len = size, .flags = flags},
                        .source = source,
                        .options = options,
                        .num_options = num_options,
                        .room = VGC_MIN((uint64_t)RESPONSE_BYTES, device->transport->region_bytes / 32)};
    *program = NULL;
    vgc_set_log("", 0);
    int result = check_load(&load);
    if (result == VGC_OK)
        result = vgc_check_usable(device);
    if (result == VGC_OK)
        result = check_memory(&load);
    if (result == VGC_OK)
        result = try_load(&load);
    if (result == VGC_OK && load.response.aux > load.payload_len) { /* cut short: the second time it is cached */
        if (flags == 0)
            (void)vgc_program_end(device, (uint32_t)load.response.value);
        free(load.payload);
        load.payload = NULL;
        load.room = load.response.aux;
        result = load.room <= device->transport->region_bytes ? try_load(&load) : refuse_answer(&load);
    }
    if (result == VGC_OK) {
        void *table = realloc(load.payload, VGC_MAX(load.payload_len, (uint64_t)1)); /* a small part of the room */
        return vgc_program_make(device, (uint32_t)load.response.value, flags != 0, table != NULL ? table : load.payload,
                                load.payload_len, program);
    }
    if (result == VGC_COMPILE_FAILED) {
        vgc_set_log(load.payload, load.payload_len);
        bool is_source = kind == VGC_SOURCE_CUDA || kind == VGC_SOURCE_CUDA_UNITS;
        result = vgc_fail(result, "the program does not %s:\n%s", is_source ? "compile" : "load", vgc_last_log());
    }
    free(load.payload);
    return result;
}

int vgc_program_load(struct vgc_device *device, int kind, const void *source, uint64_t size, const char *const *options,
                     uint32_t num_options, struct vgc_program **program)
{
    return load_program(device, kind, 0, source, size, options, num_options, program);
}

int vgc_program_register(struct vgc_device *device, int kind, const void *source, uint64_t size,
                         const char *const *options, uint32_t num_options, bool keep, struct vgc_program **program)
{
    uint32_t flags = VGC_PROGRAM_FLAG_REGISTER | (keep ? VGC_PROGRAM_FLAG_KEEP : 0u);
    return load_program(device, kind, flags, source, size, options, num_options, program);
}

int vgc_program_unload(struct vgc_program *program)
{
    if (program == NULL)
        return VGC_OK;
    if (program->is_registered) {
        free_program(program);
        return VGC_OK;
    }
    bool stale = program->epoch != program->device->epoch;
    bool asks = !stale && vgc_check_usable(program->device) == VGC_OK; /* quotas count for all processes of the VM */
    int result = stale ? VGC_OK : vgc_program_end(program->device, program->id);
    if (asks)
        vgc_quota_give(program->device, program->table->memory_bytes);
    free_program(program);
    return result;
}

/* ---- looking up ----------------------------------------------------------------------------- */

const char *vgc_program_log(const struct vgc_program *program)
{
    return program->log;
}

uint32_t vgc_program_num_functions(const struct vgc_program *program)
{
    return program->num_functions;
}

struct vgc_function *vgc_program_function_at(struct vgc_program *program, uint32_t index)
{
    return index < program->num_functions ? &program->functions[index] : NULL;
}

int vgc_program_function(struct vgc_program *program, const char *name, struct vgc_function **function)
{
    struct vgc_function *found = NULL;
    bool ambiguous = false;
    *function = NULL;
    for (uint32_t i = 0; i < program->num_functions; i++) {
        struct vgc_function *candidate = &program->functions[i];
        if (strcmp(candidate->name, name) == 0) {
            *function = candidate;
            return VGC_OK;
        }
        if (strcmp(candidate->short_name, name) != 0)
            continue;
        ambiguous = found != NULL;
        found = candidate;
    }
    if (ambiguous)
        return vgc_fail(VGC_INVALID_ARGUMENT, "several functions are called '%s': use the linker's name, such as '%s'",
                        name, found->name);
    if (found == NULL)
        return vgc_fail(VGC_NOT_FOUND, "the program has no kernel '%s'%s%s", name,
                        program->num_functions > 0 ? "; it has, for one, " : "",
                        program->num_functions > 0 ? program->functions[0].short_name : "");
    *function = found;
    return VGC_OK;
}

int vgc_program_global(struct vgc_program *program, const char *name, uint64_t *address, uint64_t *size)
{
    size_t wanted = strlen(name);
    for (uint32_t i = 0; i < program->table->num_globals; i++) {
        const struct vgc_global_entry *entry = &program->globals[i];
        if (entry->name_off > program->table->strings_len ||
            entry->name_len > program->table->strings_len - entry->name_off)
            continue;
        if (entry->name_len != wanted || memcmp(program->strings + entry->name_off, name, wanted) != 0)
            continue;
        *address = entry->address;
        *size = entry->size;
        return VGC_OK;
    }
    return vgc_fail(VGC_NOT_FOUND, "the program has no __device__ or __constant__ variable '%s'", name);
}

/* Programs of functions that the host has by name have no table. */
static uint32_t constant_bytes_of(const struct vgc_program *program)
{
    return program->table != NULL ? program->table->constant_bytes : 0;
}

void vgc_function_info(const struct vgc_function *function, struct vgc_function_info *info)
{
    *info = (struct vgc_function_info){.name = function->name,
                                       .short_name = function->short_name,
                                       .num_params = function->entry->num_params,
                                       .param_bytes = function->entry->param_bytes,
                                       .shared_bytes = function->entry->shared_bytes,
                                       .max_threads = function->entry->max_threads,
                                       .num_registers = function->entry->num_registers,
                                       .local_bytes = function->entry->local_bytes,
                                       .constant_bytes = constant_bytes_of(function->program)};
}

int vgc_function_param(const struct vgc_function *function, uint32_t index, struct vgc_param *param)
{
    if (index >= function->entry->num_params)
        return vgc_fail(VGC_INVALID_ARGUMENT, "%s has %u parameters, there is no number %u", function->short_name,
                        function->entry->num_params, index);
    const struct vgc_param_entry *entry = &function->params[index];
    *param = (struct vgc_param){.offset = entry->offset, .size = entry->size, .kind = entry->kind};
    return VGC_OK;
}
