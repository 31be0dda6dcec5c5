/* Function module of firmware: reports the result of a change of the control code on this element. The engine, which
 * owns the slots, makes the change itself. */
#ifndef VGC_CONTROL_FUNCTIONS_FIRMWARE_H
#define VGC_CONTROL_FUNCTIONS_FIRMWARE_H

#include "../execution.h"

/* `state`: enum vgc_ctl_firmware_state. `code`: result of the self test, or 256 + the signal that ended it. */
VGC_CTL_FN void vgc_ctl_firmware_state(const struct vgc_ctl_unit *unit, uint64_t version, uint32_t slot, uint32_t state,
                                       uint64_t code)
{
    uint64_t words[4] = {version, slot, state, code};
    struct vgc_ctl_message message = {
        VGC_CTL_FIRMWARE, VGC_CTL_INFO, VGC_CTL_FIRMWARE_STATE, sizeof(words), (const uint8_t *)words, 0, true};
    vgc_ctl_emit(unit, &message);
}

#endif
