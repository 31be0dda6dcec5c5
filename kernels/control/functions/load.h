/* Function module of load: how busy the element is. The element only counts; the host samples the counters and makes
 * VGC_CTL_LOAD_SAMPLE records from them. */
#ifndef VGC_CONTROL_FUNCTIONS_LOAD_H
#define VGC_CONTROL_FUNCTIONS_LOAD_H

#include "perf.h"

/* Counts the begin of a block. The first block of a launch on this element counts the launch, too. */
VGC_CTL_FN void vgc_ctl_load_begin(const struct vgc_ctl_unit *unit, uint64_t now)
{
    struct vgc_ctl_pe *pe = unit->pe;
    uint64_t ended = vgc_ctl_load64(&pe->ended_ns);
    if (vgc_ctl_load64(&pe->launches_seen) != unit->launch) {
        vgc_ctl_store64(&pe->launches_seen, unit->launch);
        vgc_ctl_own_add64(&pe->launches, 1);
    } else if (ended != 0 && now > ended) {
        vgc_ctl_own_add64(&pe->stall_ns, now - ended);
    }
}

/* Counts the end of a block; returns its duration in ns. */
VGC_CTL_FN uint64_t vgc_ctl_load_end(const struct vgc_ctl_unit *unit, uint64_t now)
{
    struct vgc_ctl_pe *pe = unit->pe;
    uint64_t since = vgc_ctl_load64(&pe->since_ns);
    uint64_t duration = now > since ? now - since : 0;
    vgc_ctl_own_add64(&pe->blocks, 1);
    vgc_ctl_own_add64(&pe->warps_done, (unit->threads + 31) / 32);
    vgc_ctl_own_add64(&pe->busy_ns, duration);
    vgc_ctl_store64(&pe->ended_ns, now);
    return duration;
}

#endif
