/* Figures of the VM beside its usage: the peak of its memory, its failed requests by status. */
#include "internal.h"

void vgc_count_memory(struct vgc_dp *dp)
{
    if (dp->memory_used > dp->counts.memory_peak_bytes)
        dp->counts.memory_peak_bytes = dp->memory_used;
}

void vgc_count_failure(struct vgc_dp *dp, uint32_t status)
{
    dp->counts.failures[status < VGC_NUM_STATUSES ? status : VGC_STATUS_INTERNAL]++;
}

void vgc_dp_counts(struct vgc_dp *dp, struct vgc_dp_counts *counts)
{
    vgc_dp_lock(dp);
    *counts = dp->counts;
    vgc_dp_unlock(dp);
}
