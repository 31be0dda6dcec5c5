/* Function module of logs: formats with arguments, by level. */
#ifndef VGC_CONTROL_FUNCTIONS_LOG_H
#define VGC_CONTROL_FUNCTIONS_LOG_H

#include "../execution.h"

/* `payload`: address of the format, then its arguments. */
VGC_CTL_FN bool vgc_ctl_log_format(const struct vgc_ctl_unit *unit, uint32_t level, const uint8_t *payload,
                                   uint32_t length)
{
    struct vgc_ctl_message message = {VGC_CTL_LOG, level, VGC_CTL_LOG_FORMAT, length, payload, 0, false};
    return vgc_ctl_emit(unit, &message);
}

#endif
