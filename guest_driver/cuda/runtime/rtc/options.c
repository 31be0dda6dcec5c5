/* Options of nvrtcCompileProgram(): its own are known by name; those that have a meaning here go to the host. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

enum kind { PASSED, IGNORED, BOOLEAN, FOLDER, HEADER, ARCHITECTURE, LTO, RELOCATABLE, SYNTAX_ONLY, ALONE };

struct option {
    const char *name;
    const char *brief; /* NULL: it has none */
    bool has_value;
    enum kind kind;
};

/* Options of NVRTC 11 to 13, by its documentation. */
static const struct option OPTIONS[] = {
    {"--gpu-architecture", "-arch", true, ARCHITECTURE},
    {"--define-macro", "-D", true, PASSED},
    {"--undefine-macro", "-U", true, PASSED},
    {"--include-path", "-I", true, FOLDER},
    {"--pre-include", "-include", true, HEADER},
    {"--no-source-include", "-no-source-include", false, ALONE},
    {"--std", "-std", true, PASSED},
    {"--device-debug", "-G", false, PASSED},
    {"--generate-line-info", "-lineinfo", false, PASSED},
    {"--ptxas-options", "-Xptxas", true, PASSED},
    {"--maxrregcount", "-maxrregcount", true, PASSED},
    {"--ftz", "-ftz", true, BOOLEAN},
    {"--prec-sqrt", "-prec-sqrt", true, BOOLEAN},
    {"--prec-div", "-prec-div", true, BOOLEAN},
    {"--fmad", "-fmad", true, BOOLEAN},
    {"--use_fast_math", "-use_fast_math", false, PASSED},
    {"--extra-device-vectorization", "-extra-device-vectorization", false, PASSED},
    {"--restrict", "-restrict", false, PASSED},
    {"--disable-warnings", "-w", false, PASSED},
    {"--device-as-default-execution-space", "-default-device", false, PASSED},
    {"--diag-suppress", "-diag-suppress", true, PASSED},
    {"--device-c", "-dc", false, RELOCATABLE},
    {"--device-w", "-dw", false, IGNORED},
    {"--relocatable-device-code", "-rdc", true, RELOCATABLE},
    {"--dlink-time-opt", "-dlto", false, LTO},
    {"--gen-opt-lto", "-gen-opt-lto", false, LTO},
    {"--fdevice-syntax-only", "-fdevice-syntax-only", false, SYNTAX_ONLY},
    /* what nothing here depends on */
    {"--extensible-whole-program", "-ewp", false, IGNORED},
    {"--dopt", "-dopt", true, IGNORED},
    {"--Ofast-compile", "-Ofc", true, IGNORED},
    {"--fno-signed-zeros", "-fno-signed-zeros", false, IGNORED},
    {"--ffinite-math-only", "-ffinite-math-only", false, IGNORED},
    {"--modify-stack-limit", "-modify-stack-limit", true, IGNORED},
    {"--jump-table-density", "-jtd", true, IGNORED},
    {"--device-stack-protector", "-device-stack-protector", true, IGNORED},
    {"--no-cache", "-no-cache", false, IGNORED},
    {"--frandom-seed", "-frandom-seed", true, IGNORED},
    {"--use-bundled-headers", NULL, true, IGNORED},
    {"--builtin-move-forward", "-builtin-move-forward", true, IGNORED},
    {"--builtin-initializer-list", "-builtin-initializer-list", true, IGNORED},
    {"--pch", "-pch", false, IGNORED},
    {"--create-pch", "-create-pch", true, IGNORED},
    {"--use-pch", "-use-pch", true, IGNORED},
    {"--pch-dir", "-pch-dir", true, IGNORED},
    {"--pch-verbose", "-pch-verbose", true, IGNORED},
    {"--pch-messages", "-pch-messages", true, IGNORED},
    {"--instantiate-templates-in-pch", "-instantiate-templates-in-pch", true, IGNORED},
    {"--Wreorder", "-Wreorder", false, IGNORED},
    {"--Wconversion", "-Wconversion", false, IGNORED},
    {"--warning-as-error", "-Werror", true, IGNORED},
    {"--fmax-errors", "-fmax-errors", true, IGNORED},
    {"--device-int128", "-device-int128", false, IGNORED},
    {"--device-float128", "-device-float128", false, IGNORED},
    {"--optimization-info", "-opt-info", true, IGNORED},
    {"--display-error-number", "-err-no", false, IGNORED},
    {"--no-display-error-number", "-no-err-no", false, IGNORED},
    {"--diag-error", "-diag-error", true, IGNORED},
    {"--diag-warn", "-diag-warn", true, IGNORED},
    {"--brief-diagnostics", "-brief-diag", true, IGNORED},
    {"--time", "-time", true, IGNORED},
    {"--split-compile", "-split-compile", true, IGNORED},
    {"--minimal", "-minimal", false, IGNORED},
    {"--fdevice-time-trace", "-fdevice-time-trace", true, IGNORED},
    {"--utf-8", "-utf-8", false, IGNORED},
    {"--version-ident", "-dQ", true, IGNORED},
    /* the software GPU's own, and that by which a host has nvcc compile */
    {"--memcheck", NULL, false, PASSED},
    {"--initcheck", NULL, false, PASSED},
    {"--racecheck", NULL, false, PASSED},
    {"--leak-check", NULL, false, PASSED},
    {"--lockstep", NULL, false, PASSED},
    {"--profile", NULL, false, PASSED},
    {"--use-nvcc", NULL, false, PASSED},
};

/* Behind the option's name in a word: "", or "=" and the value, or the value; NULL: it is another option. */
static const char *behind_name(const struct option *option, const char *word)
{
    const size_t len = strlen(option->name);
    if (strncmp(word, option->name, len) == 0 && (word[len] == '\0' || word[len] == '='))
        return word + len;
    if (option->brief == NULL)
        return NULL;
    const size_t brief = strlen(option->brief);
    const bool is_letter = brief == 2 && option->has_value; /* -D, -U and -I */
    if (strncmp(word, option->brief, brief) != 0 || (!is_letter && word[brief] != '\0' && word[brief] != '='))
        return NULL;
    return word + brief;
}

static nvrtcResult refuse(struct rt_text *log, const char *what, const char *word)
{
    rt_text_print(log, "nvrtc: error: %s: %s\n", what, word);
    return NVRTC_ERROR_INVALID_OPTION;
}

/* compute_80, sm_90a, lto_75: a number behind one of three words. */
static bool is_architecture(const char *value)
{
    const char *digits = strchr(value, '_');
    const size_t len = digits == NULL ? 0 : (size_t)(digits - value);
    if (!((len == 7 && strncmp(value, "compute", 7) == 0) || (len == 2 && strncmp(value, "sm", 2) == 0) ||
          (len == 3 && strncmp(value, "lto", 3) == 0)))
        return false;
    const size_t count = strspn(digits + 1, "0123456789");
    const char *end = digits + 1 + count;
    end += *end == 'a' || *end == 'f';
    return count >= 2 && count <= 3 && *end == '\0';
}

static bool is_boolean(const char *value)
{
    return strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
}

static void add_folder(struct rt_rtc_options *options, const char *value)
{
    char path[RT_MAX_PATH];
    if (rt_join_path(path, ".", value) && !rt_is_hosts_folder(path))
        rt_words_add(&options->folders, "%s", path);
}

/* `value` is NULL for options that have none. */
static nvrtcResult take(const struct option *option, const char *value, struct rt_rtc_options *options,
                        struct rt_text *log)
{
    switch (option->kind) {
    case ARCHITECTURE:
        if (!is_architecture(value))
            return refuse(log, "invalid value for --gpu-architecture (-arch)", value);
        options->has_virtual_arch = strncmp(value, "sm", 2) != 0;
        rt_words_add(&options->passed, "-arch=%s", value);
        break;
    case FOLDER:
        add_folder(options, value);
        break;
    case HEADER:
        rt_words_add(&options->pre_included, "%s", value);
        break;
    case ALONE:
        options->searches_own_folder = false;
        break;
    case LTO:
        options->has_lto = options->is_relocatable = true;
        break;
    case RELOCATABLE:
        if (value != NULL && !is_boolean(value))
            return refuse(log, "invalid value for --relocatable-device-code (-rdc)", value);
        options->is_relocatable = value == NULL || strcmp(value, "true") == 0;
        break;
    case SYNTAX_ONLY:
        options->is_syntax_only = true;
        break;
    case BOOLEAN:
        if (!is_boolean(value))
            return refuse(log, "the value of an option is neither true nor false", value);
        rt_words_add(&options->passed, "%s=%s", option->name, value);
        break;
    case PASSED:
        if (value == NULL)
            rt_words_add(&options->passed, "%s", option->name);
        else
            rt_words_add(&options->passed, "%s=%s", option->name, value);
        break;
    case IGNORED:
        break;
    }
    return NVRTC_SUCCESS;
}

/* Takes the option at *at, and the word behind it if that is its value. */
static nvrtcResult take_word(int count, const char *const *words, int *at, struct rt_rtc_options *options,
                             struct rt_text *log)
{
    const char *word = words[*at];
    if (word == NULL)
        return NVRTC_ERROR_INVALID_INPUT;
    for (size_t i = 0; i < sizeof(OPTIONS) / sizeof(OPTIONS[0]); i++) {
        const char *value = behind_name(&OPTIONS[i], word);
        if (value == NULL)
            continue;
        if (!OPTIONS[i].has_value && *value != '\0')
            return refuse(log, "the option has no value", word);
        if (OPTIONS[i].has_value && *value == '\0') {
            if (*at + 1 >= count || words[*at + 1] == NULL)
                return refuse(log, "a value is missing behind the option", word);
            value = words[++*at];
        } else {
            value += *value == '=';
        }
        return take(&OPTIONS[i], OPTIONS[i].has_value ? value : NULL, options, log);
    }
    return refuse(log, "unrecognized option", word);
}

nvrtcResult rt_take_rtc_options(int count, const char *const *words, struct rt_rtc_options *options,
                                struct rt_text *log)
{
    *options = (struct rt_rtc_options){.searches_own_folder = true, .has_virtual_arch = true};
    if (count < 0 || (count > 0 && words == NULL))
        return NVRTC_ERROR_INVALID_INPUT;
    for (int at = 0; at < count; at++) {
        const nvrtcResult result = take_word(count, words, &at, options, log);
        if (result != NVRTC_SUCCESS)
            return result;
    }
    const bool has_failed =
        options->passed.has_failed || options->folders.has_failed || options->pre_included.has_failed;
    return has_failed ? NVRTC_ERROR_OUT_OF_MEMORY : NVRTC_SUCCESS;
}

void rt_free_rtc_options(struct rt_rtc_options *options)
{
    rt_words_free(&options->passed);
    rt_words_free(&options->folders);
    rt_words_free(&options->pre_included);
}
