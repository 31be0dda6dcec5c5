/* Figures of the VM beside its usage: the peak of its memory, its failed requests by status, classes of latencies. */
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

uint32_t vgc_latency_class(uint64_t ns)
{
    uint64_t units = ns >> 8;
    if (units < 4)
        return (uint32_t)units;
    uint32_t doubling = 63 - (uint32_t)__builtin_clzll(units);
    uint32_t class = (doubling - 1) * 4 + ((uint32_t)(units >> (doubling - 2)) & 3);
    return class < VGC_LATENCY_CLASSES ? class : VGC_LATENCY_CLASSES - 1;
}

void vgc_dp_counts(struct vgc_dp *dp, struct vgc_dp_counts *counts)
{
    vgc_dp_lock(dp);
    *counts = dp->counts;
    vgc_dp_unlock(dp);
}
