/* Checked programs: kernels that were compiled with --memcheck, --initcheck or --racecheck call __vgc_check() before
 * they access memory (vgc_cpu_checks.h).
 *
 *   check.c    is the access within its object?
 *   race.c     shared memory: what was written, and which accesses conflict
 *   report.c   what was found: printed, and the error of the launch
 *   blocks.c   blocks of malloc(): which there are, and which nobody has freed in the end
 *   bounds.c   extents of device memory, and which of it was written
 */
#ifndef VGC_CPU_CHECK_H
#define VGC_CPU_CHECK_H

#include "cpu_engine.h"
#include "vgc_cpu_checks.h"

enum { CPU_CACHED_EXTENTS = 4 };

/* An access by one thread to a byte of shared memory. */
struct cpu_touch {
    const struct vgc_cpu_access *access; /* NULL: none */
    uint32_t time;
    uint32_t thread;
};

/* Accesses to a byte of shared memory: the last plain store, and two loads and two atomic operations since. */
struct cpu_cell {
    struct cpu_touch write;
    struct cpu_touch read[2];
    struct cpu_touch atomic[2];
};

/* State of a PE for checked programs. Time counts the waits of threads for each other. */
struct cpu_checks {
    uint64_t generation; /* of the bounds that the extents are from */
    struct cpu_extent extents[CPU_CACHED_EXTENTS];
    uint32_t next_extent;
    uint32_t now;
    uint32_t block_begin;
    uint32_t barrier;                                 /* time of the block's last barrier */
    uint32_t seen[VGC_CPU_MAX_THREADS][VGC_CPU_WARP]; /* time up to which a thread knows of a lane's accesses */
    struct cpu_cell *cells;                           /* one for each byte of shared memory that launches have had */
    size_t num_cells;
    _Alignas(64) uint8_t zeroes[VGC_CPU_SCRATCH]; /* for loads that must not happen */
    _Alignas(64) uint8_t sink[VGC_CPU_SCRATCH];   /* for stores */
};

/* check.c, for kernels */
uint8_t *__vgc_check(uint8_t *address, uint8_t *base, uint64_t bytes, const struct vgc_cpu_access *access,
                     uint64_t value);

/* blocks.c, for kernels */
void *__vgc_heap_allocate_checked(void *heap, uint64_t heap_bytes, uint64_t bytes, uint64_t align,
                                  const struct vgc_cpu_access *place);
void __vgc_heap_release_checked(void *heap, uint64_t heap_bytes, void *memory, const struct vgc_cpu_access *place);

/* race.c */
/* Checks an access to shared memory, at an offset from its begin. */
void cpu_check_shared(struct cpu_pe *pe, const uint8_t *address, uint64_t bytes, const struct vgc_cpu_access *access,
                      uint64_t value);

/* report.c */
/* True if the launch has not reported the access yet, or the two accesses. */
bool cpu_is_new_finding(struct cpu_pe *pe, const struct vgc_cpu_access *access, const struct vgc_cpu_access *other);
/* Prints a text, and makes it the error of the launch if it is the first. Ends the launch if there are too many. */
__attribute__((format(printf, 2, 3))) void cpu_report(struct cpu_pe *pe, const char *format, ...);
/* Ends the launch, whose error says why. */
__attribute__((noreturn)) void cpu_leave_launch(struct cpu_pe *pe);
const char *cpu_access_name(const struct vgc_cpu_access *access);

#endif
