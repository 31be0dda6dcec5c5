/* Function module of faults. Async-signal-safe: reporting a fault may be the last thing that an element does. */
#ifndef VGC_CONTROL_FUNCTIONS_FAULT_H
#define VGC_CONTROL_FUNCTIONS_FAULT_H

#include "perf.h"

/* `payload`: a 64-bit code (enum vgc_ctl_fault), then text or, with type VGC_CTL_FAULT_FORMAT, format and arguments.
 * Counted in the element's row even if no channel is bound. Never waits. */
VGC_CTL_FN bool vgc_ctl_fault_emit(const struct vgc_ctl_unit *unit, uint32_t type, uint32_t level,
                                   const uint8_t *payload, uint32_t length)
{
    struct vgc_ctl_message message = {VGC_CTL_FAULT, level, type, length, payload, 0, true};
    vgc_ctl_add64(&unit->pe->faults, 1);
    return vgc_ctl_emit(unit, &message);
}

/* Reports a fault that the engine found, with a text; text that does not fit into one record is cut off. */
VGC_CTL_FN bool vgc_ctl_fault_text(const struct vgc_ctl_unit *unit, uint64_t code, const uint8_t *text, uint32_t length)
{
    uint8_t payload[VGC_CTL_MAX_PAYLOAD];
    uint32_t room = VGC_CTL_MAX_PAYLOAD - sizeof(code);
    uint32_t kept = length < room ? length : room;
    vgc_ctl_copy(payload, &code, sizeof(code));
    vgc_ctl_copy(payload + sizeof(code), text, kept);
    return vgc_ctl_fault_emit(unit, VGC_CTL_FAULT_TEXT, VGC_CTL_CRITICAL, payload, (uint32_t)sizeof(code) + kept);
}

#endif
