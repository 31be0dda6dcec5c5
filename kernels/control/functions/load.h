/* The function module of load: how busy the element is. Its counters are sampled by the host, which makes
 * VGC_CTL_LOAD_SAMPLE records of them; the element only counts. */
#ifndef VGC_CONTROL_FUNCTIONS_LOAD_H
#define VGC_CONTROL_FUNCTIONS_LOAD_H

#include "perf.h"

/* A block begins: work of a launch that the element had no part in before is one launch more. */
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

/* A block has ended; returns for how long it ran. */
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
