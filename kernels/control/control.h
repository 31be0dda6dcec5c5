/* Entry points of hooks in kernels that find something to do, and the function modules that each of them calls. An
 * unbound hook never comes here: it loads one word (vgc_ctl_attention, vgc_ctl_bound) and goes on. */
#ifndef VGC_CONTROL_CONTROL_H
#define VGC_CONTROL_CONTROL_H

#include "functions/fault.h"
#include "functions/firmware.h"
#include "functions/load.h"
#include "functions/log.h"
#include "functions/perf.h"
#include "functions/snapshot.h"
#include "functions/stdio.h"

/* Begin of an attended block: one that begins while VGC_CTL_ATTEND_BLOCKS is set, so that its begin and end are
 * counted. */
VGC_CTL_FN void vgc_ctl_block_begin(const struct vgc_ctl_unit *unit)
{
    uint64_t now = vgc_ctl_now(unit);
    vgc_ctl_load_begin(unit, now);
    vgc_ctl_snapshot_state(unit, now);
    vgc_ctl_perf_begin(unit, now);
    vgc_ctl_snapshot_answer(unit);
}

/* End of an attended block. */
VGC_CTL_FN void vgc_ctl_block_end(const struct vgc_ctl_unit *unit)
{
    uint64_t now = vgc_ctl_now(unit);
    vgc_ctl_perf_end(unit, now, vgc_ctl_load_end(unit, now));
}

/* The element has left the launch it worked on. */
VGC_CTL_FN void vgc_ctl_idle(const struct vgc_ctl_unit *unit)
{
    vgc_ctl_snapshot_idle(unit);
}

/* A kernel has called vgc_poll(). */
VGC_CTL_FN void vgc_ctl_poll(const struct vgc_ctl_unit *unit)
{
    vgc_ctl_snapshot_answer(unit);
}

#endif
