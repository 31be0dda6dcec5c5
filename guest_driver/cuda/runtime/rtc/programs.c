/* Programs of NVRTC: a source with its headers and name expressions, the log, and what came of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

#define MAGIC UINT64_C(0x7874634356520001)
#define LOWERED "vgc: lowered name "

struct named {
    char *expression;
    char *lowered; /* NULL: the compiler did not say */
};

struct _nvrtcProgram {
    uint64_t magic;
    char *source;
    char *name;
    struct rt_header *headers;
    size_t num_headers;
    struct named *names;
    size_t num_names;
    struct rt_text log;
    struct rt_text image; /* for the loader; empty: none */
    bool is_compiled;     /* nvrtcCompileProgram() was called */
    bool has_succeeded;
    bool has_virtual_arch;
    bool has_lto;
    int (*callback)(void *, void *); /* NULL: none */
    void *payload;
};

static bool is_program(nvrtcProgram program)
{
    return program != NULL && program->magic == MAGIC;
}

static void free_program(nvrtcProgram program)
{
    for (size_t i = 0; i < program->num_headers; i++) {
        free(program->headers[i].name);
        free(program->headers[i].text);
    }
    for (size_t i = 0; i < program->num_names; i++) {
        free(program->names[i].expression);
        free(program->names[i].lowered);
    }
    free(program->headers);
    free(program->names);
    free(program->source);
    free(program->name);
    rt_text_free(&program->log);
    rt_text_free(&program->image);
    rt_handle_free(program, sizeof(*program));
}

static bool copy_headers(nvrtcProgram program, size_t count, const char *const *texts, const char *const *names)
{
    program->headers = calloc(count + 1, sizeof(*program->headers));
    if (program->headers == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct rt_header *header = &program->headers[program->num_headers++];
        *header = (struct rt_header){.name = strdup(names[i]), .text = strdup(texts[i])};
        if (header->name == NULL || header->text == NULL)
            return false;
    }
    return true;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *out, const char *source, const char *name, int num_headers,
                               const char *const *headers, const char *const *names)
{
    if (out == NULL || source == NULL || num_headers < 0 || (num_headers > 0 && (headers == NULL || names == NULL)))
        return NVRTC_ERROR_INVALID_INPUT;
    for (int i = 0; i < num_headers; i++)
        if (headers[i] == NULL || names[i] == NULL)
            return NVRTC_ERROR_INVALID_INPUT;
    nvrtcProgram program = rt_handle_new(sizeof(*program));
    if (program == NULL)
        return NVRTC_ERROR_OUT_OF_MEMORY;
    program->magic = MAGIC;
    program->source = strdup(source);
    program->name = strdup(name != NULL && *name != '\0' ? name : "default_program");
    if (program->source == NULL || program->name == NULL ||
        !copy_headers(program, (size_t)num_headers, headers, names)) {
        free_program(program);
        return NVRTC_ERROR_OUT_OF_MEMORY;
    }
    *out = program;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    if (program == NULL || !is_program(*program) || !rt_handle_end(&(*program)->magic))
        return NVRTC_ERROR_INVALID_PROGRAM;
    free_program(*program);
    *program = NULL;
    return NVRTC_SUCCESS;
}

/* ---- name expressions ----------------------------------------------------------------------- */

static struct named *find_name(nvrtcProgram program, const char *expression)
{
    for (size_t i = 0; i < program->num_names; i++)
        if (strcmp(program->names[i].expression, expression) == 0)
            return &program->names[i];
    return NULL;
}

nvrtcResult nvrtcAddNameExpression(nvrtcProgram program, const char *expression)
{
    if (!is_program(program))
        return NVRTC_ERROR_INVALID_PROGRAM;
    if (expression == NULL)
        return NVRTC_ERROR_INVALID_INPUT;
    if (program->is_compiled)
        return NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION;
    if (find_name(program, expression) != NULL)
        return NVRTC_SUCCESS;
    struct named *names = realloc(program->names, (program->num_names + 1) * sizeof(*names));
    if (names == NULL)
        return NVRTC_ERROR_OUT_OF_MEMORY;
    program->names = names;
    names[program->num_names] = (struct named){.expression = strdup(expression)};
    if (names[program->num_names].expression == NULL)
        return NVRTC_ERROR_OUT_OF_MEMORY;
    program->num_names++;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetLoweredName(nvrtcProgram program, const char *expression, const char **lowered)
{
    if (!is_program(program))
        return NVRTC_ERROR_INVALID_PROGRAM;
    if (expression == NULL || lowered == NULL)
        return NVRTC_ERROR_INVALID_INPUT;
    if (!program->has_succeeded)
        return NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION;
    const struct named *named = find_name(program, expression);
    if (named == NULL || named->lowered == NULL)
        return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
    *lowered = named->lowered;
    return NVRTC_SUCCESS;
}

static void add_names(nvrtcProgram program, struct rt_words *options)
{
    for (size_t i = 0; i < program->num_names; i++)
        rt_words_add(options, "--name-expression=%s", program->names[i].expression);
    rt_words_add(options, "--lowered-names");
}

/* Takes the lines that tell lowered names out of the compiler's log; the rest is for people. */
static void take_log(nvrtcProgram program, const char *log)
{
    while (*log != '\0') {
        const size_t len = strcspn(log, "\n"), whole = len + (log[len] == '\n');
        char *name;
        size_t index;
        if (strncmp(log, LOWERED, strlen(LOWERED)) != 0) {
            rt_text_add(&program->log, log, whole);
        } else if ((index = strtoul(log + strlen(LOWERED), &name, 10)) < program->num_names && name[0] == ':') {
            free(program->names[index].lowered);
            program->names[index].lowered = strndup(name + 2, (size_t)(log + len - name) - 2);
        }
        log += whole;
    }
}

/* A kernel whose lowered name the host's compiler does not tell is known by the name that it has in the source. */
static void find_names(nvrtcProgram program, struct vgc_program *loaded)
{
    for (size_t i = 0; i < program->num_names; i++) {
        struct vgc_function *function;
        struct vgc_function_info info;
        struct named *named = &program->names[i];
        const char *name = named->expression + (named->expression[0] == '&');
        if (named->lowered != NULL || vgc_program_function(loaded, name, &function) != VGC_OK)
            continue;
        vgc_function_info(function, &info);
        named->lowered = strdup(info.name);
    }
}

/* ---- compiling ------------------------------------------------------------------------------ */

/* The text for the host: headers, what is included before the source, and the source with its name. */
static void write_source(nvrtcProgram program, const struct rt_rtc_options *options, struct rt_text *text)
{
    rt_write_headers(text, program->source, program->name, program->headers, program->num_headers, options);
    for (size_t i = 0; i < options->pre_included.count; i++)
        rt_text_print(text, "#include \"%s\"\n", options->pre_included.words[i]);
    rt_text_print(text, "#line 1 \"");
    for (const char *c = program->name; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            rt_text_add(text, "\\", 1);
        rt_text_add(text, *c == '\n' ? " " : c, 1);
    }
    rt_text_print(text, "\"\n");
    rt_text_add(text, program->source, strlen(program->source));
}

/* The device whose host compiles. */
struct compiler {
    struct vgc_device *device;
    uint32_t engine_kind;
    bool is_own; /* opened for one compilation */
};

/* Options for the compilation that shows errors. Relocatable code may lack functions, which a link adds. Code that is
 * loaded must have all. */
static bool checked_options(const struct rt_rtc_options *options, struct rt_words *checked)
{
    for (size_t i = 0; i < options->passed.count; i++)
        rt_words_add(checked, "%s", options->passed.words[i]);
    if (options->is_relocatable)
        rt_words_add(checked, "--allow-undefined");
    return !checked->has_failed;
}

/* Has the host compile, and unloads what it loaded: cuModuleLoadData() finds it in the host's cache. */
static int compile(struct vgc_device *device, nvrtcProgram program, const struct rt_text *text,
                   const struct rt_words *options)
{
    struct rt_progress progress;
    struct vgc_program *loaded = NULL;
    rt_progress_begin(&progress);
    const int result = vgc_program_load(device, VGC_SOURCE_CUDA, text->bytes, text->len,
                                        (const char *const *)options->words, (uint32_t)options->count, &loaded);
    rt_progress_end(&progress);
    if (result == VGC_OK) {
        take_log(program, vgc_program_log(loaded));
        find_names(program, loaded);
        (void)vgc_program_unload(loaded);
    } else {
        take_log(program, result == VGC_COMPILE_FAILED ? vgc_last_log() : vgc_last_error());
    }
    return result;
}

static nvrtcResult result_of(int result)
{
    switch (result) {
    case VGC_OK:
        return NVRTC_SUCCESS;
    case VGC_COMPILE_FAILED:
        return NVRTC_ERROR_COMPILATION;
    case VGC_OUT_OF_MEMORY:
        return NVRTC_ERROR_OUT_OF_MEMORY;
    case VGC_INVALID_ARGUMENT:
        return NVRTC_ERROR_INVALID_INPUT;
    default:
        return NVRTC_ERROR_INTERNAL_ERROR;
    }
}

/* The calling thread's device, whatever the program's last error is. */
static nvrtcResult take_device(nvrtcProgram program, struct compiler *compiler)
{
    struct rt_device *device;
    const struct rt_visit visit = rt_visit_begin();
    const cudaError_t error = rt_device(rt_ordinal(), &device);
    if (error == cudaSuccess)
        *compiler = (struct compiler){atomic_load(&device->device), device->info.engine_kind, false};
    else
        rt_text_print(&program->log, "nvrtc: error: the device that compiles cannot be used: %s\n",
                      cudaGetErrorString(error));
    (void)rt_visit_end(visit, error);
    return error == cudaSuccess ? NVRTC_SUCCESS : NVRTC_ERROR_INTERNAL_ERROR;
}

/* NVRTC works in children of a process that has used CUDA, which cannot use the parent's device: frameworks compile in
 * several. Each compilation opens the device for itself there. */
static nvrtcResult open_own(nvrtcProgram program, struct compiler *compiler)
{
    struct vgc_info info;
    int result = rt_open_handle(rt_ordinal(), &compiler->device);
    if (result == VGC_OK) {
        compiler->is_own = true;
        result = vgc_info(compiler->device, &info);
        compiler->engine_kind = info.engine_kind;
    }
    if (result != VGC_OK)
        rt_text_print(&program->log, "nvrtc: error: the device that compiles cannot be used: %s\n", vgc_last_error());
    return result == VGC_OK ? NVRTC_SUCCESS : NVRTC_ERROR_INTERNAL_ERROR;
}

static nvrtcResult compile_on(const struct compiler *compiler, nvrtcProgram program, struct rt_rtc_options *options)
{
    struct rt_text text = {.bytes = NULL};
    struct rt_words checked = {.words = NULL};
    nvrtcResult result = NVRTC_SUCCESS;
    if (compiler->engine_kind == RT_SOFTWARE_GPU) /* NVRTC of a GPU's host has it itself */
        rt_words_add(&options->passed, "-D__CUDACC_RTC__=1");
    if (options->is_relocatable)
        rt_words_add(&options->passed, "-rdc=true");
    add_names(program, &options->passed);
    write_source(program, options, &text);
    if (text.has_failed || options->passed.has_failed || !checked_options(options, &checked))
        result = NVRTC_ERROR_OUT_OF_MEMORY;
    if (result == NVRTC_SUCCESS)
        result = result_of(compile(compiler->device, program, &text, &checked));
    rt_words_free(&checked);
    if (result == NVRTC_SUCCESS && !options->is_syntax_only)
        rt_write_container(&program->image, &options->passed, text.bytes);
    if (program->image.has_failed || program->log.has_failed)
        result = NVRTC_ERROR_OUT_OF_MEMORY;
    rt_text_free(&text);
    return result;
}

static nvrtcResult compile_with(nvrtcProgram program, struct rt_rtc_options *options)
{
    struct compiler compiler = {.device = NULL};
    nvrtcResult result = rt_is_forked ? open_own(program, &compiler) : take_device(program, &compiler);
    if (result == NVRTC_SUCCESS)
        result = compile_on(&compiler, program, options);
    if (compiler.is_own)
        vgc_close(compiler.device);
    return result;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char *const *words)
{
    struct rt_rtc_options options;
    if (!is_program(program))
        return NVRTC_ERROR_INVALID_PROGRAM;
    rt_text_free(&program->log);
    rt_text_free(&program->image);
    program->is_compiled = true;
    program->has_succeeded = false;
    nvrtcResult result = rt_take_rtc_options(count, words, &options, &program->log);
    program->has_virtual_arch = options.has_virtual_arch;
    program->has_lto = options.has_lto;
    if (result == NVRTC_SUCCESS && program->callback != NULL && program->callback(program->payload, NULL) != 0)
        result = NVRTC_ERROR_CANCELLED;
    if (result == NVRTC_SUCCESS)
        result = compile_with(program, &options);
    program->has_succeeded = result == NVRTC_SUCCESS;
    rt_free_rtc_options(&options);
    return result;
}

/* Called once, before a compilation: the host does not ask in its course. */
nvrtcResult nvrtcSetFlowCallback(nvrtcProgram program, int (*callback)(void *, void *), void *payload)
{
    if (!is_program(program))
        return NVRTC_ERROR_INVALID_PROGRAM;
    if (callback == NULL)
        return NVRTC_ERROR_INVALID_INPUT;
    program->callback = callback;
    program->payload = payload;
    return NVRTC_SUCCESS;
}

/* ---- results -------------------------------------------------------------------------------- */

static nvrtcResult get_size(nvrtcProgram program, size_t *size, bool is_there)
{
    if (!is_program(program))
        return NVRTC_ERROR_INVALID_PROGRAM;
    if (size == NULL)
        return NVRTC_ERROR_INVALID_INPUT;
    if (!program->has_succeeded)
        return NVRTC_ERROR_INVALID_PROGRAM;
    *size = is_there && program->image.len > 0 ? program->image.len + 1 : 0;
    return NVRTC_SUCCESS;
}

static nvrtcResult get(nvrtcProgram program, char *image, bool is_there)
{
    size_t size;
    const nvrtcResult result = get_size(program, &size, is_there);
    if (result != NVRTC_SUCCESS)
        return result;
    if (image == NULL || size == 0)
        return NVRTC_ERROR_INVALID_INPUT;
    memcpy(image, program->image.bytes, size);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *size)
{
    return get_size(program, size, true);
}

nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *ptx)
{
    return get(program, ptx, true);
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *size)
{
    return get_size(program, size, is_program(program) && !program->has_virtual_arch);
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin)
{
    return get(program, cubin, is_program(program) && !program->has_virtual_arch);
}

nvrtcResult nvrtcGetLTOIRSize(nvrtcProgram program, size_t *size)
{
    return get_size(program, size, is_program(program) && program->has_lto);
}

nvrtcResult nvrtcGetLTOIR(nvrtcProgram program, char *ir)
{
    return get(program, ir, is_program(program) && program->has_lto);
}

nvrtcResult nvrtcGetNVVMSize(nvrtcProgram program, size_t *size) /* LTO-IR's name before CUDA 12 */
{
    return nvrtcGetLTOIRSize(program, size);
}

nvrtcResult nvrtcGetNVVM(nvrtcProgram program, char *ir)
{
    return nvrtcGetLTOIR(program, ir);
}

nvrtcResult nvrtcGetOptiXIRSize(nvrtcProgram program, size_t *size)
{
    return get_size(program, size, false);
}

nvrtcResult nvrtcGetOptiXIR(nvrtcProgram program, char *ir)
{
    return get(program, ir, false);
}

nvrtcResult nvrtcGetTileIRSize(nvrtcProgram program, size_t *size)
{
    return get_size(program, size, false);
}

nvrtcResult nvrtcGetTileIR(nvrtcProgram program, char *ir)
{
    return get(program, ir, false);
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size)
{
    if (!is_program(program))
        return NVRTC_ERROR_INVALID_PROGRAM;
    if (size == NULL)
        return NVRTC_ERROR_INVALID_INPUT;
    *size = program->log.len + 1;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log)
{
    if (!is_program(program))
        return NVRTC_ERROR_INVALID_PROGRAM;
    if (log == NULL)
        return NVRTC_ERROR_INVALID_INPUT;
    memcpy(log, program->log.bytes != NULL ? program->log.bytes : "", program->log.len + 1);
    return NVRTC_SUCCESS;
}
