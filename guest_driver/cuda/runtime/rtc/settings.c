/* Questions to NVRTC itself: architectures, and precompiled headers, which the host keeps for everybody. */
#include <string.h>

#include "runtime.h"

/* Those for which NVRTC 13 compiles; the host compiles for its GPU, whichever a program names. */
static const int ARCHITECTURES[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

static size_t pch_heap = 256 << 20; /* what was set, for those who ask */

nvrtcResult nvrtcGetNumSupportedArchs(int *count)
{
    if (count == NULL)
        return NVRTC_ERROR_INVALID_INPUT;
    *count = (int)(sizeof(ARCHITECTURES) / sizeof(ARCHITECTURES[0]));
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *architectures)
{
    if (architectures == NULL)
        return NVRTC_ERROR_INVALID_INPUT;
    memcpy(architectures, ARCHITECTURES, sizeof(ARCHITECTURES));
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPCHHeapSize(size_t *size)
{
    if (size == NULL)
        return NVRTC_ERROR_INVALID_INPUT;
    *size = __atomic_load_n(&pch_heap, __ATOMIC_RELAXED);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcSetPCHHeapSize(size_t size)
{
    __atomic_store_n(&pch_heap, size, __ATOMIC_RELAXED);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPCHCreateStatus(nvrtcProgram program)
{
    return program == NULL ? NVRTC_ERROR_INVALID_PROGRAM : NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED;
}

nvrtcResult nvrtcGetPCHHeapSizeRequired(nvrtcProgram program, size_t *size)
{
    if (program == NULL)
        return NVRTC_ERROR_INVALID_PROGRAM;
    return size == NULL ? NVRTC_ERROR_INVALID_INPUT : NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED;
}
