/* The GPU control module: what hooks in kernels come to when they find something to do, and which function modules
 * are asked then. An unbound hook never comes here: it has looked at one word (vgc_ctl_attention, vgc_ctl_bound). */
#ifndef VGC_CONTROL_CONTROL_H
#define VGC_CONTROL_CONTROL_H

#include "functions/fault.h"
#include "functions/firmware.h"
#include "functions/load.h"
#include "functions/log.h"
#include "functions/perf.h"
#include "functions/snapshot.h"
#include "functions/stdio.h"

/* A block that is attended begins. */
VGC_CTL_FN void vgc_ctl_block_begin(const struct vgc_ctl_unit *unit)
{
    uint64_t now = vgc_ctl_now(unit);
    vgc_ctl_load_begin(unit, now);
    vgc_ctl_snapshot_state(unit, now);
    vgc_ctl_perf_begin(unit, now);
    vgc_ctl_snapshot_answer(unit);
}

/* An attended block has ended; its beginning was attended too. */
VGC_CTL_FN void vgc_ctl_block_end(const struct vgc_ctl_unit *unit)
{
    uint64_t now = vgc_ctl_now(unit);
    vgc_ctl_perf_end(unit, now, vgc_ctl_load_end(unit, now));
}

/* The element has no part in a launch any more. */
VGC_CTL_FN void vgc_ctl_idle(const struct vgc_ctl_unit *unit)
{
    vgc_ctl_snapshot_idle(unit);
}

/* A kernel has come to a poll point. */
VGC_CTL_FN void vgc_ctl_poll(const struct vgc_ctl_unit *unit)
{
    vgc_ctl_snapshot_answer(unit);
}

#endif
