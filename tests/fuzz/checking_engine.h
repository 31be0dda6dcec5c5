/* An engine for fuzzing: computes nothing, holds the data plane to everything that vgc_engine.h promises engines, and
 * finishes at once or late, as told. */
#ifndef VGC_CHECKING_ENGINE_H
#define VGC_CHECKING_ENGINE_H

#include "vgc_engine.h"

enum { CHECKING_MAX_ALLOCS = 1024 };

/* One __device__ variable of every program. */
static const uint64_t CHECKING_GLOBAL = 0x100000, CHECKING_GLOBAL_BYTES = 64;

struct checking_alloc {
    uint64_t address;
    uint64_t size;
};

struct checking_engine {
    struct vgc_engine base;
    bool late;           /* operations wait for a poll */
    bool region_visible; /* kernels may use the region in place */
    uint32_t fail_next;  /* this many operations fail */
    uint64_t next_address;
    uint32_t num_allocs;
    struct checking_alloc allocs[CHECKING_MAX_ALLOCS];
    uint8_t *region; /* what was mapped last */
    uint64_t region_size;
    struct vgc_op *first; /* waiting, oldest first */
    uint32_t printed[VGC_MAX_CONTEXTS + 1];
};

extern const struct vgc_kernel CHECKING_KERNELS[2];

void checking_engine_init(struct checking_engine *engine);

/* Bytes that the quota should count. */
uint64_t checking_engine_charged(const struct checking_engine *engine);

#endif
