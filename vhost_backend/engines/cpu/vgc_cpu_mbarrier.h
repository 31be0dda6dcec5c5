/* Layout of a barrier object in shared memory (an mbarrier of PTX, which leaves it open), for compiler and runtime. */
#ifndef VGC_CPU_MBARRIER_H
#define VGC_CPU_MBARRIER_H

enum {
    VGC_MBARRIER_COUNT_BITS = 20, /* arrivals that the running phase still waits for */
    VGC_MBARRIER_EXPECTED = 20,   /* first bit of as many: arrivals of each phase */
    VGC_MBARRIER_BYTES = 40,      /* bytes that the running phase still waits for, with a sign */
    VGC_MBARRIER_BYTES_BITS = 23,
    VGC_MBARRIER_PHASE = 63, /* changes with each phase */
    VGC_MBARRIER_MAX_COUNT = (1 << 20) - 1,
};

#endif
