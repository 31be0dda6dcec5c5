/* Checked accesses: what compiled kernels tell the runtime before an access to memory, with --memcheck, --initcheck or
 * --racecheck. Included by C (check.c, race.c) and C++ (compiler/checks.cpp). */
#ifndef VGC_CPU_CHECKS_H
#define VGC_CPU_CHECKS_H

#include <stdint.h>

enum {
    VGC_ACCESS_READ = 1,
    VGC_ACCESS_WRITE = 2,
    VGC_ACCESS_ATOMIC = 4,
    VGC_ACCESS_VOLATILE = 8,
    VGC_ACCESS_COPY = 16,  /* part of a copy of memory, which may have padding */
    VGC_ACCESS_VALUE = 32, /* the call has the stored value */
    VGC_ACCESS_LARGE = 64, /* of more than VGC_CPU_SCRATCH bytes, a number known when the program is compiled */
};

enum { VGC_CPU_SCRATCH = 64 }; /* bytes of memory to which accesses go that must not happen */

/* The object that an access is derived from. */
enum vgc_object_kind {
    VGC_OBJECT_POINTER = 0, /* what a pointer points to; `base` is the pointer, NULL if it is not one */
    VGC_OBJECT_SHARED = 1,  /* a __shared__ variable of object_bytes at `base` */
    VGC_OBJECT_DYNAMIC = 2, /* the dynamic shared memory */
    VGC_OBJECT_ANY_SHARED = 3,
    VGC_OBJECT_VARIABLE = 4, /* a __device__ or __constant__ variable of object_bytes at `base` */
    VGC_OBJECT_LOCAL = 5,    /* a local variable of object_bytes at `base` */
};

/* A place in the source that accesses memory. */
struct vgc_cpu_access {
    const char *file;
    const char *object;    /* name of the object; "" if it has none */
    uint64_t object_bytes; /* 0: not known */
    uint32_t line;
    uint32_t column;
    uint32_t flags;  /* VGC_ACCESS_* */
    uint32_t kind;   /* enum vgc_object_kind */
    uint32_t checks; /* VGC_CPU_KERNEL_*CHECK */
    uint32_t reserved;
};

/* For a local variable `value` is the address of bits, one for each of its bytes, that say which were written; 0: not
 * known.
 *
 * Checks an access of `bytes` bytes; returns the address to use: of some other memory if this access must not happen.
 * Ends the launch if that is LARGE. A copy of memory, of any length, must not happen if the address is another.
 *
 * uint8_t *__vgc_check(uint8_t *address, uint8_t *base, uint64_t bytes, const struct vgc_cpu_access *access,
 *                      uint64_t value);
 *
 * In the place of __vgc_heap_allocate() and __vgc_heap_release(), called at a place:
 *
 * void *__vgc_heap_allocate_checked(void *heap, uint64_t heap_bytes, uint64_t bytes, uint64_t align,
 *                                   const struct vgc_cpu_access *place);
 * void __vgc_heap_release_checked(void *heap, uint64_t heap_bytes, void *memory, const struct vgc_cpu_access *place);
 */

#endif
