/* System calls of a data plane that is made and ended ten thousands of times a second, answered without the kernel.
 *
 * The linker has mmap(), eventfd() and their like lead here (--wrap, see Makefile). Mappings and descriptors that the
 * data plane has given back wait for the next one that asks for them. A mapping of no file is all zeroes, as ever.
 * While nobody has it, AddressSanitizer knows it as memory that nobody may touch, and likewise what lies around it.
 * What is given back twice, or not given back at the end, is a broken promise. */
#ifndef VGC_FUZZ_REUSE_H
#define VGC_FUZZ_REUSE_H

#include <stdint.h>

#include "vgc_inflight.h"

enum {
    REUSE_REGION_BYTES = 0x8000,
    /* in place of descriptors of files */
    REUSE_REGION_FD = 1000000,
    REUSE_INFLIGHT_FD,
};

/* Zeroes the files, and has random numbers begin anew. */
void reuse_begin(void);
/* Checks that everything was given back. */
void reuse_end(void);

/* Contents of the files, as others see them than the data plane. */
uint8_t *reuse_region(void);
struct vgc_inflight *reuse_inflight(void);

#endif
