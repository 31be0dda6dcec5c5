/* Barrier objects in shared memory. Only threads of one block use an object, one after the other. */
#include "cpu_check.h"
#include "vgc_cpu_mbarrier.h"

static uint64_t field(uint64_t value, uint32_t bits)
{
    return value & ((UINT64_C(1) << bits) - 1);
}

/* Takes `count` arrivals and adds to the bytes that the phase waits for; `dropped` arrivals are not expected in later
 * phases. Returns the object as it was before. */
uint64_t __vgc_mbarrier_arrive(uint64_t *barrier, uint32_t count, uint32_t dropped, int32_t bytes)
{
    uint64_t before = *barrier;
    uint64_t phase = before >> VGC_MBARRIER_PHASE;
    uint64_t expected = field((before >> VGC_MBARRIER_EXPECTED) - dropped, VGC_MBARRIER_COUNT_BITS);
    uint64_t pending = field(before - count, VGC_MBARRIER_COUNT_BITS);
    uint64_t waited = field((before >> VGC_MBARRIER_BYTES) + (uint64_t)(int64_t)bytes, VGC_MBARRIER_BYTES_BITS);
    if (pending == 0 && waited == 0) {
        pending = expected;
        phase ^= 1;
        if (cpu_current_pe()->is_checked) /* those that wait know of all that was done before */
            cpu_race_barrier(cpu_current_pe());
    }
    *barrier = pending | expected << VGC_MBARRIER_EXPECTED | waited << VGC_MBARRIER_BYTES | phase << VGC_MBARRIER_PHASE;
    return before;
}
