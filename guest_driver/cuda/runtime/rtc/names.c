/* Functions of NVRTC by name, and results by number. */
#include "runtime.h"

void *vgc_nvrtc_function(const char *name)
{
    return rt_find_function(RT_RTC_NAMES, RT_NUM_RTC_NAMES, name);
}

const char *nvrtcGetErrorString(nvrtcResult result)
{
#define NAME(result) [result] = #result
    static const char *const NAMES[] = {
        NAME(NVRTC_SUCCESS),
        NAME(NVRTC_ERROR_OUT_OF_MEMORY),
        NAME(NVRTC_ERROR_PROGRAM_CREATION_FAILURE),
        NAME(NVRTC_ERROR_INVALID_INPUT),
        NAME(NVRTC_ERROR_INVALID_PROGRAM),
        NAME(NVRTC_ERROR_INVALID_OPTION),
        NAME(NVRTC_ERROR_COMPILATION),
        NAME(NVRTC_ERROR_BUILTIN_OPERATION_FAILURE),
        NAME(NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION),
        NAME(NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION),
        NAME(NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID),
        NAME(NVRTC_ERROR_INTERNAL_ERROR),
        NAME(NVRTC_ERROR_TIME_FILE_WRITE_FAILED),
        NAME(NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED),
        NAME(NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED),
        NAME(NVRTC_ERROR_PCH_CREATE),
        NAME(NVRTC_ERROR_CANCELLED),
        NAME(NVRTC_ERROR_TIME_TRACE_FILE_WRITE_FAILED),
        NAME(NVRTC_ERROR_BUSY),
    };
    const size_t number = (size_t)result;
    return number < sizeof(NAMES) / sizeof(NAMES[0]) ? NAMES[number] : "NVRTC_ERROR unknown";
}
