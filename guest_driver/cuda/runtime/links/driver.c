/* cuLink...: the driver's linker. */
#include <stdlib.h>

#include "runtime.h"

#define MAGIC UINT64_C(0x7874634c4b530001)

struct CUlinkState_st {
    uint64_t magic;
    struct rt_link link;
    struct rt_jit jit;
};

static bool is_state(CUlinkState state)
{
    return state != NULL && state->magic == MAGIC;
}

CUresult cuLinkCreate(unsigned int count, CUjit_option *options, void **values, CUlinkState *out)
{
    struct rt_jit jit;
    CUresult result = rt_enter_context(NULL, NULL);
    if (result == CUDA_SUCCESS)
        result = out == NULL ? CUDA_ERROR_INVALID_VALUE : rt_take_jit_options(count, options, values, &jit);
    if (result != CUDA_SUCCESS)
        return result;
    CUlinkState state = rt_handle_new(sizeof(*state));
    if (state == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    state->magic = MAGIC;
    state->jit = jit;
    rt_write_jit_log(&state->jit, false, ""); /* programs read both logs after a call that writes none */
    rt_write_jit_log(&state->jit, true, "");
    *out = state;
    return CUDA_SUCCESS;
}

/* Writes to the link's log why an input was refused. */
static CUresult added(CUlinkState state, const char *name, CUresult result)
{
    struct rt_text words = {.bytes = NULL};
    rt_link_explain(result, name, &words);
    if (words.len > 0)
        rt_write_jit_log(&state->jit, true, words.bytes);
    rt_text_free(&words);
    return result;
}

CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
                       unsigned int count, CUjit_option *options, void **values)
{
    struct rt_jit jit;
    const CUresult result = rt_enter_context(NULL, NULL);
    (void)type; /* the bytes say it */
    if (result != CUDA_SUCCESS)
        return result;
    if (!is_state(state))
        return CUDA_ERROR_INVALID_HANDLE;
    if (data == NULL || rt_take_jit_options(count, options, values, &jit) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    return added(state, name, rt_link_add(&state->link, name, data, size));
}

CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path, unsigned int count,
                       CUjit_option *options, void **values)
{
    struct rt_jit jit;
    const CUresult result = rt_enter_context(NULL, NULL);
    (void)type;
    if (result != CUDA_SUCCESS)
        return result;
    if (!is_state(state))
        return CUDA_ERROR_INVALID_HANDLE;
    if (path == NULL || rt_take_jit_options(count, options, values, &jit) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    return added(state, path, rt_link_add_file(&state->link, path));
}

CUresult cuLinkComplete(CUlinkState state, void **image, size_t *size)
{
    struct rt_device *device;
    CUresult result = rt_enter_context(NULL, &device);
    if (result != CUDA_SUCCESS)
        return result;
    if (!is_state(state))
        return CUDA_ERROR_INVALID_HANDLE;
    if (image == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    result = rt_link_complete(&state->link, device, &state->jit, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    *image = state->link.image;
    if (size != NULL)
        *size = state->link.image_size;
    return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state)
{
    const CUresult result = rt_enter_context(NULL, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    if (!is_state(state) || !rt_handle_end(&state->magic))
        return CUDA_ERROR_INVALID_HANDLE;
    rt_link_free(&state->link);
    rt_handle_free(state, sizeof(*state));
    return CUDA_SUCCESS;
}
