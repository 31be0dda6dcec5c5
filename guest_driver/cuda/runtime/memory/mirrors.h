/* Page-locked host memory: what host.c (where it lies) and mirrors.c (how kernels see it) share. */
#ifndef VGC_CUDART_MIRRORS_H
#define VGC_CUDART_MIRRORS_H

#include "runtime.h"

enum rt_place_of_host { RT_IN_REGION, RT_IN_PAGES, RT_OF_PROGRAM };

struct rt_mirror {
    struct rt_mirror *next; /* of those that have a device address */
    enum rt_place_of_host place;
    struct vgc_device *opened; /* whose region it lies in */
    uint8_t *allocation;       /* before alignment */
    uint8_t *host;
    size_t size;
    bool is_read_only;
    struct rt_device *device; /* of the mirror, as are all below */
    uint64_t address;         /* 0: none yet */
    uint8_t *snapshot;        /* what both sides last had; NULL: nothing was sent yet */
    uint8_t *buffer;
    bool in_use;   /* a kernel was sent since */
    bool is_shown; /* in the region, and `vgc shadow` compares it */
    struct rt_mirror *next_shown;
};

/* Address at which kernels of the device see the memory; its mirror is made if it has none. */
cudaError_t rt_mirror_make(struct rt_device *device, struct rt_mirror *mirror, uint64_t *address);
/* Notes that kernels may write to memory in the region. */
void rt_mirror_show(struct rt_mirror *mirror);
/* Frees the mirror's device memory, if it has any, but not the memory itself. */
void rt_mirror_end(struct rt_mirror *mirror);

#endif
