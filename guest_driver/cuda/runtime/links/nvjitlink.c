/* nvJitLink: the linker as a library of its own, which needs no context. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvJitLink.h"
#include "runtime.h"

#define MAGIC UINT64_C(0x7874634a4c4b0001)

struct nvJitLink {
    uint64_t magic;
    struct rt_link link;
    struct rt_jit jit;
    struct rt_text errors;
    struct rt_text information;
    bool is_complete;
    bool wants_ptx;
    bool has_lto;
};

static bool is_link(nvJitLinkHandle handle)
{
    return handle != NULL && handle->magic == MAGIC;
}

/* ---- options -------------------------------------------------------------------------------- */

/* Options that have no meaning here, or none that can be seen; each may have a value behind "=". */
static const char *const IGNORED[] = {
    "-time",
    "-verbose",
    "-O0",
    "-O1",
    "-O2",
    "-O3",
    "-Ofc",
    "-ftz",
    "-prec-div",
    "-prec-sqrt",
    "-fma",
    "-kernels-used",
    "-r",
    "-Xptxas",
    "-optimize-unused-variables",
    "-Xnvvm",
    "-nvvm-latest",
    "-variables-used",
    "-no-cache",
    "-split-compile",
    "-split-compile-extended",
    "-maxrregcount",
    "-jump-table-density",
    "-device-stack-protector",
};

static bool is_called(const char *option, const char *name)
{
    const size_t len = strlen(name);
    return strncmp(option, name, len) == 0 && (option[len] == '\0' || option[len] == '=');
}

static bool is_ignored(const char *option)
{
    for (size_t i = 0; i < sizeof(IGNORED) / sizeof(IGNORED[0]); i++)
        if (is_called(option, IGNORED[i]))
            return true;
    return false;
}

/* "-arch=" and an architecture: sm_90, compute_90, lto_90, or with a letter behind it. */
static bool is_architecture(const char *option)
{
    static const char *const KINDS[] = {"-arch=sm_", "-arch=compute_", "-arch=lto_"};
    for (size_t i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); i++) {
        const size_t len = strlen(KINDS[i]);
        const size_t digits = strncmp(option, KINDS[i], len) == 0 ? strspn(option + len, "0123456789") : 0;
        if (digits > 0)
            return strlen(option + len) == digits + strspn(option + len + digits, "af");
    }
    return false;
}

static nvJitLinkResult take_option(nvJitLinkHandle link, const char *option, bool *has_architecture)
{
    CUjit_option lines = CU_JIT_GENERATE_LINE_INFO;
    void *on[] = {(void *)1};
    if (option == NULL)
        return NVJITLINK_ERROR_NULL_INPUT;
    if (is_architecture(option))
        *has_architecture = true;
    else if (strcmp(option, "-lto") == 0 || strcmp(option, "-dlto") == 0)
        link->has_lto = true;
    else if (strcmp(option, "-ptx") == 0)
        link->wants_ptx = true;
    else if (strcmp(option, "-g") == 0 || strcmp(option, "-lineinfo") == 0)
        (void)rt_take_jit_options(1, &lines, on, &link->jit);
    else if (!is_ignored(option))
        return NVJITLINK_ERROR_UNRECOGNIZED_OPTION;
    return NVJITLINK_SUCCESS;
}

nvJitLinkResult nvJitLinkCreate(nvJitLinkHandle *out, uint32_t count, const char **options)
{
    bool has_architecture = false;
    if (out == NULL || (count > 0 && options == NULL))
        return NVJITLINK_ERROR_NULL_INPUT;
    nvJitLinkHandle link = rt_handle_new(sizeof(*link));
    if (link == NULL)
        return NVJITLINK_ERROR_INTERNAL;
    link->magic = MAGIC;
    nvJitLinkResult result = NVJITLINK_SUCCESS;
    for (uint32_t i = 0; i < count && result == NVJITLINK_SUCCESS; i++)
        result = take_option(link, options[i], &has_architecture);
    if (result == NVJITLINK_SUCCESS && !has_architecture)
        result = NVJITLINK_ERROR_MISSING_ARCH;
    if (result == NVJITLINK_SUCCESS && link->wants_ptx && !link->has_lto)
        result = NVJITLINK_ERROR_INCOMPATIBLE_OPTIONS;
    if (result == NVJITLINK_SUCCESS)
        *out = link;
    else
        rt_handle_free(link, sizeof(*link));
    return result;
}

nvJitLinkResult nvJitLinkDestroy(nvJitLinkHandle *handle)
{
    if (handle == NULL || !is_link(*handle) || !rt_handle_end(&(*handle)->magic))
        return NVJITLINK_ERROR_INVALID_INPUT;
    nvJitLinkHandle link = *handle;
    rt_link_free(&link->link);
    rt_text_free(&link->errors);
    rt_text_free(&link->information);
    rt_handle_free(link, sizeof(*link));
    *handle = NULL;
    return NVJITLINK_SUCCESS;
}

/* ---- inputs --------------------------------------------------------------------------------- */

static nvJitLinkResult added(nvJitLinkHandle link, const char *name, CUresult result)
{
    rt_link_explain(result, name, &link->errors);
    switch (result) {
    case CUDA_SUCCESS:
        return NVJITLINK_SUCCESS;
    case CUDA_ERROR_FILE_NOT_FOUND:
        return NVJITLINK_ERROR_INVALID_INPUT;
    case CUDA_ERROR_INVALID_IMAGE:
        return NVJITLINK_ERROR_UNRECOGNIZED_INPUT;
    default:
        return NVJITLINK_ERROR_INTERNAL;
    }
}

nvJitLinkResult nvJitLinkAddData(nvJitLinkHandle link, nvJitLinkInputType type, const void *data, size_t size,
                                 const char *name)
{
    if (!is_link(link) || type == NVJITLINK_INPUT_NONE)
        return NVJITLINK_ERROR_INVALID_INPUT;
    if (data == NULL)
        return NVJITLINK_ERROR_NULL_INPUT;
    return added(link, name, rt_link_add(&link->link, name, data, size));
}

nvJitLinkResult nvJitLinkAddFile(nvJitLinkHandle link, nvJitLinkInputType type, const char *path)
{
    if (!is_link(link) || type == NVJITLINK_INPUT_NONE)
        return NVJITLINK_ERROR_INVALID_INPUT;
    if (path == NULL)
        return NVJITLINK_ERROR_NULL_INPUT;
    return added(link, path, rt_link_add_file(&link->link, path));
}

nvJitLinkResult nvJitLinkComplete(nvJitLinkHandle link)
{
    struct rt_device *device = NULL;
    struct rt_text words = {.bytes = NULL};
    if (!is_link(link))
        return NVJITLINK_ERROR_INVALID_INPUT;
    if (link->link.num_inputs == 0) { /* an image of nothing */
        link->is_complete = true;
        return NVJITLINK_SUCCESS;
    }
    /* a child of a process that has used CUDA may link, and has no device */
    CUresult result = rt_is_forked ? CUDA_SUCCESS : RT_ASK(rt_device(rt_ordinal(), &device));
    if (result == CUDA_SUCCESS)
        result = rt_link_complete(&link->link, device, &link->jit, &words);
    else
        rt_text_print(&words, "error: the device that links cannot be used\n");
    if (words.len > 0)
        rt_text_add(result == CUDA_SUCCESS ? &link->information : &link->errors, words.bytes, words.len);
    rt_text_free(&words);
    link->is_complete = result == CUDA_SUCCESS;
    switch (result) {
    case CUDA_SUCCESS:
        return NVJITLINK_SUCCESS;
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
        return NVJITLINK_ERROR_PTX_COMPILE;
    case CUDA_ERROR_INVALID_VALUE:
        return NVJITLINK_ERROR_INVALID_INPUT;
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
        return NVJITLINK_ERROR_FINALIZE;
    default:
        return NVJITLINK_ERROR_INTERNAL;
    }
}

/* ---- results -------------------------------------------------------------------------------- */

static nvJitLinkResult get_size(nvJitLinkHandle link, size_t *size, bool is_there)
{
    if (!is_link(link) || !link->is_complete || !is_there)
        return NVJITLINK_ERROR_INVALID_INPUT;
    if (size == NULL)
        return NVJITLINK_ERROR_NULL_INPUT;
    *size = link->link.image_size;
    return NVJITLINK_SUCCESS;
}

static nvJitLinkResult get(nvJitLinkHandle link, void *image, bool is_there)
{
    size_t size;
    const nvJitLinkResult result = get_size(link, &size, is_there);
    if (result != NVJITLINK_SUCCESS)
        return result;
    if (image == NULL)
        return NVJITLINK_ERROR_NULL_INPUT;
    if (size > 0)
        memcpy(image, link->link.image, size);
    return NVJITLINK_SUCCESS;
}

nvJitLinkResult nvJitLinkGetLinkedCubinSize(nvJitLinkHandle link, size_t *size)
{
    return get_size(link, size, true);
}

nvJitLinkResult nvJitLinkGetLinkedCubin(nvJitLinkHandle link, void *cubin)
{
    return get(link, cubin, true);
}

nvJitLinkResult nvJitLinkGetLinkedPtxSize(nvJitLinkHandle link, size_t *size)
{
    return get_size(link, size, is_link(link) && link->wants_ptx);
}

nvJitLinkResult nvJitLinkGetLinkedPtx(nvJitLinkHandle link, char *ptx)
{
    return get(link, ptx, is_link(link) && link->wants_ptx);
}

nvJitLinkResult nvJitLinkGetLinkedLTOIRSize(nvJitLinkHandle link, size_t *size)
{
    return get_size(link, size, is_link(link) && link->has_lto);
}

nvJitLinkResult nvJitLinkGetLinkedLTOIR(nvJitLinkHandle link, void *ir)
{
    return get(link, ir, is_link(link) && link->has_lto);
}

static nvJitLinkResult log_size(nvJitLinkHandle link, const struct rt_text *log, size_t *size)
{
    if (!is_link(link))
        return NVJITLINK_ERROR_INVALID_INPUT;
    if (size == NULL)
        return NVJITLINK_ERROR_NULL_INPUT;
    *size = log->len == 0 ? 0 : log->len + 1;
    return NVJITLINK_SUCCESS;
}

static nvJitLinkResult get_log(nvJitLinkHandle link, const struct rt_text *log, char *text)
{
    if (!is_link(link))
        return NVJITLINK_ERROR_INVALID_INPUT;
    if (text == NULL)
        return NVJITLINK_ERROR_NULL_INPUT;
    if (log->len > 0)
        memcpy(text, log->bytes, log->len + 1);
    return NVJITLINK_SUCCESS;
}

nvJitLinkResult nvJitLinkGetErrorLogSize(nvJitLinkHandle link, size_t *size)
{
    return log_size(link, &link->errors, size);
}

nvJitLinkResult nvJitLinkGetErrorLog(nvJitLinkHandle link, char *log)
{
    return get_log(link, &link->errors, log);
}

nvJitLinkResult nvJitLinkGetInfoLogSize(nvJitLinkHandle link, size_t *size)
{
    return log_size(link, &link->information, size);
}

nvJitLinkResult nvJitLinkGetInfoLog(nvJitLinkHandle link, char *log)
{
    return get_log(link, &link->information, log);
}
