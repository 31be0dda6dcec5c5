/* Errors: each thread's last one, their names and texts, and what libvgc's results are called in CUDA. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime.h"
#include "vgc_error_texts.h"

enum { MAX_TOLD = 64 };

static _Thread_local cudaError_t last;
static _Thread_local char explanation[4096];

cudaError_t rt_return(cudaError_t error)
{
    if (rt_is_forked)
        error = cudaErrorInitializationError;
    if (error == cudaSuccess || error == cudaErrorNotReady)
        return error;
    last = error;
    if (error == cudaErrorDevicesUnavailable)
        rt_note_loss_told();
    if (!rt_is_forked)
        rt_keep_error(error, explanation);
    explanation[0] = '\0';
    return error;
}

cudaError_t rt_explain(cudaError_t error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(explanation, sizeof(explanation), format, args);
    va_end(args);
    return error;
}

cudaError_t rt_swap_last(cudaError_t error)
{
    const cudaError_t before = last;
    last = error;
    return before;
}

/* Has it been said? `what` is a literal. */
static bool is_news(const char *what)
{
    static _Atomic(const char *) told[MAX_TOLD];
    for (size_t i = 0; i < MAX_TOLD; i++) {
        const char *before = NULL;
        if (atomic_compare_exchange_strong(&told[i], &before, what))
            return true;
        if (strcmp(before, what) == 0)
            return false;
    }
    return true;
}

cudaError_t rt_unsupported(const char *what)
{
    if (is_news(what))
        (void)fprintf(stderr, "virtio-gpu-compute: this program uses %s, which is not supported\n", what);
    return rt_explain(cudaErrorNotSupported, "%s is not supported", what);
}

/* A fault's text says what it was. */
static cudaError_t fault_kind(const char *text)
{
    if (strstr(text, "misaligned") != NULL)
        return cudaErrorMisalignedAddress;
    if (strstr(text, "illegal instruction") != NULL || strstr(text, "trap") != NULL)
        return cudaErrorLaunchFailure;
    if (strstr(text, "stack") != NULL)
        return cudaErrorLaunchFailure;
    return strstr(text, "address") != NULL ? cudaErrorIllegalAddress : cudaErrorLaunchFailure;
}

static cudaError_t kind_of(int result)
{
    switch ((enum vgc_result)result) {
    case VGC_OK:
        return cudaSuccess;
    case VGC_PENDING:
        return cudaErrorNotReady;
    case VGC_UNSUPPORTED:
        return cudaErrorNotSupported;
    case VGC_NOT_FOUND:
        return cudaErrorSymbolNotFound;
    case VGC_INVALID_ARGUMENT:
    case VGC_INVALID_ADDRESS:
        return cudaErrorInvalidValue;
    case VGC_OUT_OF_MEMORY:
        return cudaErrorMemoryAllocation;
    case VGC_RESOURCES_EXHAUSTED:
        return cudaErrorLaunchOutOfResources;
    case VGC_COMPILE_FAILED:
        return cudaErrorInvalidKernelImage;
    case VGC_LAUNCH_FAILED:
    case VGC_DEADLOCK:
        return cudaErrorLaunchFailure;
    case VGC_FAULT:
        return fault_kind(vgc_last_error());
    case VGC_ASSERT:
        return cudaErrorAssert;
    case VGC_TIMEOUT:
        return cudaErrorLaunchTimeout;
    case VGC_NO_ANSWER: /* what was asked for may be done yet */
        rt_note_loss_told();
        return cudaErrorDevicesUnavailable;
    case VGC_NO_CONTEXT:
    case VGC_DEVICE_LOST:
        return cudaErrorDevicesUnavailable;
    case VGC_NO_DEVICE:
    case VGC_NO_PERMISSION:
        return cudaErrorNoDevice;
    case VGC_INCOMPATIBLE:
        return cudaErrorInsufficientDriver;
    case VGC_SYSTEM:
        return cudaErrorOperatingSystem;
    case VGC_BAD_REQUEST:
    case VGC_CANCELLED:
    case VGC_INTERNAL:
        return cudaErrorUnknown;
    }
    return cudaErrorUnknown;
}

cudaError_t rt_error(int result)
{
    if (result != VGC_OK && result != VGC_PENDING)
        (void)snprintf(explanation, sizeof(explanation), "%s", vgc_last_error());
    return kind_of(result);
}

/* ---- names ---------------------------------------------------------------------------------- */

struct text {
    cudaError_t error;
    const char *name;
    const char *text;
};

#define NAME_AND_TEXT(error, text) {error, #error, text},
static const struct text TEXTS[] = {__VGC_ERRORS(NAME_AND_TEXT)};

static const struct text *find_text(cudaError_t error)
{
    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(TEXTS[0]); i++)
        if (TEXTS[i].error == error)
            return &TEXTS[i];
    return NULL;
}

RT_API const char *cudaGetErrorName(cudaError_t error)
{
    const struct text *found = find_text(error);
    return found != NULL ? found->name : "unrecognized error code";
}

RT_API const char *cudaGetErrorString(cudaError_t error)
{
    const struct text *found = find_text(error);
    return found != NULL ? found->text : "unrecognized error code";
}

/* ---- the last error ------------------------------------------------------------------------- */

/* A sticky error comes back with every call, and so with these. */
static cudaError_t sticky(void)
{
    struct rt_device *device = rt_device_at(rt_ordinal());
    return device != NULL ? rt_sticky(device) : cudaSuccess;
}

RT_API cudaError_t cudaPeekAtLastError(void)
{
    cudaError_t always = sticky();
    if (always == cudaErrorDevicesUnavailable)
        rt_note_loss_told();
    return always != cudaSuccess ? always : last;
}

RT_API cudaError_t cudaGetLastError(void)
{
    cudaError_t error = cudaPeekAtLastError();
    last = cudaSuccess;
    return error;
}
