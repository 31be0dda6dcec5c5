/* Errors as text per thread, and deadlines. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { MESSAGE_BYTES = 4096 };

static _Thread_local char message[MESSAGE_BYTES];
static _Thread_local char *last_log;
static _Thread_local size_t last_log_room;

_Static_assert((int)VGC_INTERNAL == (int)VGC_STATUS_INTERNAL, "enum vgc_result begins with enum vgc_status");
_Static_assert((int)VGC_COMPILE_FAILED == (int)VGC_STATUS_COMPILE_FAILED, "enum vgc_result");
_Static_assert((int)VGC_DEVICE_LOST == (int)VGC_STATUS_DEVICE_LOST, "enum vgc_result");
_Static_assert((int)VGC_ARG_INOUT == (int)VGC_ARG_KIND_INOUT, "enum vgc_arg_direction is enum vgc_arg_kind");
_Static_assert((int)VGC_LAUNCH_COOPERATIVE == (int)VGC_LAUNCH_FLAG_COOPERATIVE, "flags are enum vgc_launch_flag");
_Static_assert((int)VGC_SOURCE_CUDA_UNITS == (int)VGC_PROGRAM_KIND_CUDA_UNITS, "enum vgc_source_kind");
_Static_assert(sizeof(struct vgc_device_usage) == sizeof(struct vgc_usage), "vgc_device_usage is the wire's");
_Static_assert(sizeof(struct vgc_device_limits) == sizeof(struct vgc_device_properties), "the wire's");
_Static_assert(sizeof(struct vgc_param) == sizeof(struct vgc_param_entry), "vgc_param is the wire's");
_Static_assert((int)VGC_PARAM_FLOAT == (int)VGC_PARAM_KIND_FLOAT, "enum vgc_param_type is enum vgc_param_kind");
_Static_assert((int)VGC_PARAM_OTHER == (int)VGC_PARAM_KIND_OTHER, "enum vgc_param_type is enum vgc_param_kind");

const char *vgc_version(void)
{
    return "0.1.0";
}

const char *vgc_result_name(int result)
{
    switch ((enum vgc_result)result) {
    case VGC_OK:
        return "OK";
    case VGC_BAD_REQUEST:
        return "BAD_REQUEST";
    case VGC_UNSUPPORTED:
        return "UNSUPPORTED";
    case VGC_NO_CONTEXT:
        return "NO_CONTEXT";
    case VGC_NOT_FOUND:
        return "NOT_FOUND";
    case VGC_INVALID_ARGUMENT:
        return "INVALID_ARGUMENT";
    case VGC_INVALID_ADDRESS:
        return "INVALID_ADDRESS";
    case VGC_OUT_OF_MEMORY:
        return "OUT_OF_MEMORY";
    case VGC_RESOURCES_EXHAUSTED:
        return "RESOURCES_EXHAUSTED";
    case VGC_COMPILE_FAILED:
        return "COMPILE_FAILED";
    case VGC_LAUNCH_FAILED:
        return "LAUNCH_FAILED";
    case VGC_FAULT:
        return "FAULT";
    case VGC_ASSERT:
        return "ASSERT";
    case VGC_TIMEOUT:
        return "TIMEOUT";
    case VGC_DEADLOCK:
        return "DEADLOCK";
    case VGC_DEVICE_LOST:
        return "DEVICE_LOST";
    case VGC_CANCELLED:
        return "CANCELLED";
    case VGC_INTERNAL:
        return "INTERNAL";
    case VGC_PENDING:
        return "PENDING";
    case VGC_NO_DEVICE:
        return "NO_DEVICE";
    case VGC_NO_PERMISSION:
        return "NO_PERMISSION";
    case VGC_INCOMPATIBLE:
        return "INCOMPATIBLE";
    case VGC_NO_ANSWER:
        return "NO_ANSWER";
    case VGC_SYSTEM:
        return "SYSTEM";
    }
    return "unknown result";
}

const char *vgc_last_error(void)
{
    return message;
}

const char *vgc_last_log(void)
{
    return last_log != NULL ? last_log : "";
}

int vgc_fail(int result, const char *format, ...)
{
    char text[MESSAGE_BYTES]; /* arguments may point into `message` */
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    memcpy(message, text, sizeof(text));
    return result;
}

int vgc_fail_errno(const char *format, ...)
{
    int error = errno;
    char text[MESSAGE_BYTES / 2];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    bool denied = error == EACCES || error == EPERM;
    return vgc_fail(denied ? VGC_NO_PERMISSION : VGC_SYSTEM, "%s: %s%s", text, vgc_error_text(error),
                    denied ? vgc_denied_hint : "");
}

int vgc_fail_swapped(uint32_t magic)
{
    return vgc_fail(
        VGC_INCOMPATIBLE,
        "driver and device differ in byte order: the configuration's magic reads as 0x%08x, expected 0x%08x; "
        "the device is little-endian on all machines, and this build of the driver does not convert",
        magic, VGC_CONFIG_MAGIC);
}

void vgc_set_log(const char *log, size_t len)
{
    if (len + 1 > last_log_room) {
        char *larger = realloc(last_log, len + 1);
        if (larger == NULL)
            len = last_log_room > 0 ? last_log_room - 1 : 0;
        else
            last_log = larger, last_log_room = len + 1;
    }
    if (last_log == NULL)
        return;
    memcpy(last_log, log, len);
    last_log[len] = '\0';
}

uint64_t vgc_deadline(uint64_t timeout_ns)
{
    uint64_t now = vgc_now_ns();
    return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

bool vgc_backoff(uint64_t *step_ns, uint64_t deadline_ns)
{
    uint64_t now = vgc_now_ns();
    if (now >= deadline_ns)
        return false;
    int cancel = vgc_cancel_off();
    vgc_nap(VGC_MIN(*step_ns, deadline_ns - now));
    vgc_cancel_back(cancel);
    *step_ns = VGC_MIN(*step_ns * 2, VGC_NS_PER_MS);
    return true;
}
