/* Blocks of managed memory: what managed.c (moving them), managed_blocks.c (making them) and advice.c share. */
#ifndef VGC_CUDART_MANAGED_H
#define VGC_CUDART_MANAGED_H

#include "runtime.h"

enum rt_holder { RT_ON_HOST, RT_SHARED, RT_ON_DEVICE, RT_NUM_SIDES }; /* which side has the newest data */

struct rt_advice { /* of cudaMemAdvise() and cudaMemPrefetchAsync(), for a granule */
    bool is_read_mostly;
    bool host_accesses;
    int16_t preferred;    /* cudaCpuDeviceId, cudaInvalidDeviceId or an ordinal */
    int16_t prefetched;   /* likewise */
    uint32_t accessed_by; /* bit i: device i */
};

struct rt_span { /* offsets in a block */
    size_t from;
    size_t to;
};

struct rt_block {
    struct rt_block *next;
    struct rt_device *device;
    uint32_t contexts;
    uint64_t allocation; /* of the device, which may begin before `begin` */
    uint64_t allocation_size;
    uint8_t *begin;
    size_t size; /* whole pages */
    uint8_t *alias;
    int fd;
    bool is_fresh;   /* what was never written is zero, but not yet on the device */
    bool is_adopted; /* allocations of the device, which CPU versions of kernels use: adopted.c */
    bool is_spare;   /* the process's own memory, in place of the device's: nothing moves */
    bool is_host;    /* host memory that is too large for the region, or that kernels cannot reach there */
    size_t granule;  /* bytes that move together */
    size_t num_granules;
    size_t count[RT_NUM_SIDES]; /* granules */
    size_t expected;            /* granule that a program which goes on would touch next */
    size_t ahead;
    size_t num_kept;       /* allocations in a block that has outlived the device's memory (lost.c) */
    struct rt_span *spans; /* the bytes that move; NULL: all */
    size_t num_spans;
    struct rt_advice *advice; /* per granule; NULL: none was given */
    uint8_t sides[];          /* enum rt_holder per granule */
};

/* Recursive, but never taken while the device works on something that waits for the host. */
void rt_managed_lock(void);
void rt_managed_unlock(void);
/* With the lock. NULL: no managed memory. */
struct rt_block *rt_managed_block(const void *address);
struct rt_block *rt_managed_first(const struct rt_device *device);
size_t rt_managed_granule(size_t size);
void rt_managed_add(struct rt_block *block);
void rt_managed_remove(struct rt_block *block);
/* Allocates managed memory that the program asked for with cudaHostAlloc(). */
cudaError_t rt_managed_allocate_host(struct rt_device *device, size_t size, unsigned flags, void **pointer);

/* With the lock: sends what the host has written, and takes the block from it. */
cudaError_t rt_managed_push(struct rt_block *block);
/* With the lock: gives all of the block to the host, which has its data. False: more mappings than the kernel allows a
 * process. */
bool rt_managed_keep(struct rt_block *block);
/* With the lock: the device is at work that may use any memory. */
void rt_managed_busy(struct rt_device *device);

/* Maps the process's side of a block, in place of what lies there. */
cudaError_t rt_block_map(struct rt_block *block);
void rt_block_free(struct rt_block *block);
/* Gives back what the block, which is in no list, lies in. `is_lost`: the device's side is gone already. */
cudaError_t rt_block_end(struct rt_block *block, bool is_lost);

#endif
