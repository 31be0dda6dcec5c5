/* Function module of snapshots: the element's state lies in its row of the control area, where the host reads all
 * elements at once. An element with a bound channel answers with one record per binding, at its next poll point. */
#ifndef VGC_CONTROL_FUNCTIONS_SNAPSHOT_H
#define VGC_CONTROL_FUNCTIONS_SNAPSHOT_H

#include "../execution.h"

VGC_CTL_FN void vgc_ctl_snapshot_state(const struct vgc_ctl_unit *unit, uint64_t now)
{
    struct vgc_ctl_pe *pe = unit->pe;
    vgc_ctl_store64(&pe->kernel, unit->kernel);
    vgc_ctl_store64(&pe->launch, unit->launch);
    vgc_ctl_store64(&pe->block, unit->block);
    vgc_ctl_store64(&pe->since_ns, now);
    vgc_ctl_store32(&pe->warps, (unit->threads + 31) / 32);
}

/* Marks the element as idle. */
VGC_CTL_FN void vgc_ctl_snapshot_idle(const struct vgc_ctl_unit *unit)
{
    vgc_ctl_store64(&unit->pe->kernel, 0);
    vgc_ctl_store32(&unit->pe->warps, 0);
}

/* Answers the bound snapshot, if that has not been answered. */
VGC_CTL_FN void vgc_ctl_snapshot_answer(const struct vgc_ctl_unit *unit)
{
    uint64_t word = vgc_ctl_bound(unit, VGC_CTL_SNAPSHOT);
    uint64_t seen = vgc_ctl_load64(&unit->pe->snapshot_seen);
    if (word == 0 || seen == vgc_ctl_bind_generation(word))
        return;
    if (!vgc_ctl_cas64(&unit->pe->snapshot_seen, seen, vgc_ctl_bind_generation(word)))
        return; /* another warp answers */
    uint64_t words[4] = {unit->kernel, unit->launch, unit->block, vgc_ctl_load64(&unit->pe->since_ns)};
    struct vgc_ctl_message message = {
        VGC_CTL_SNAPSHOT, VGC_CTL_INFO, VGC_CTL_SNAPSHOT_STATE, sizeof(words), (const uint8_t *)words, 0, false};
    vgc_ctl_emit(unit, &message);
}

#endif
