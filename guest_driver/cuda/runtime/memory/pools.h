/* Pools and their pieces: what pools.c (the memory) and pool_handles.c (the pools as the program sees them) share. */
#ifndef VGC_CUDART_POOLS_H
#define VGC_CUDART_POOLS_H

#include "runtime.h"

#define POOL_MAGIC UINT64_C(0x4c4f4f5055434756)

enum { PIECE_UNIT = 512, ANY_STREAM = -1 };

struct rt_piece {
    struct rt_piece *next; /* free ones: the last freed first */
    struct CUmemPoolHandle_st *pool;
    uint64_t address;
    size_t size;
    int stream;    /* number of the stream that frees it; ANY_STREAM: it has ended */
    uint64_t turn; /* of its freeing, see rt_mark() */
    bool is_used;
};

struct CUmemPoolHandle_st {
    uint64_t magic;
    struct CUmemPoolHandle_st *next;
    struct rt_device *device;
    uint32_t epoch;
    bool is_default;
    bool is_ended;           /* goes when its last piece comes back */
    struct rt_piece *pieces; /* free */
    uint64_t max_size;       /* 0: the device's */
    uint64_t threshold;
    uint64_t reserved, reserved_high;
    uint64_t used, used_high;
    int reuse[3];
};

void rt_pools_lock(void);
void rt_pools_unlock(void);
/* With the lock, as are all below. NULL: no memory in the guest. */
struct CUmemPoolHandle_st *rt_pool_create(struct rt_device *device);
struct CUmemPoolHandle_st *rt_pool_default(struct rt_device *device);
/* The one of cudaMallocAsync(). */
struct CUmemPoolHandle_st *rt_pool_current(struct rt_device *device);
void rt_pool_set_current(struct CUmemPoolHandle_st *pool, bool is_current);
cudaError_t rt_pool_check(cudaMemPool_t pool);
/* Gives back what is free, until `keep` bytes are held. Only what is no longer in use by a stream. */
void rt_pool_trim(struct CUmemPoolHandle_st *pool, uint64_t keep);
/* Frees a pool that was destroyed, once it is empty. */
void rt_pool_end_if_empty(struct CUmemPoolHandle_st *pool);

#endif
