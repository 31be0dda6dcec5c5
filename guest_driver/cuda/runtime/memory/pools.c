/* Memory in the order of streams: cudaMallocAsync() takes what was freed earlier in the same stream, or anywhere before
 * the last wait for it, without asking the device. Each piece is an allocation of the device. */
#include <stdlib.h>
#include <string.h>

#include "pools.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUmemPoolHandle_st *pools;
static _Atomic size_t num_free; /* pieces */
static struct CUmemPoolHandle_st *defaults[RT_MAX_DEVICES];
static struct CUmemPoolHandle_st *currents[RT_MAX_DEVICES];

void rt_pools_lock(void)
{
    (void)pthread_mutex_lock(&lock);
}

void rt_pools_unlock(void)
{
    (void)pthread_mutex_unlock(&lock);
}

/* ---- pools ---------------------------------------------------------------------------------- */

/* With the lock. */
struct CUmemPoolHandle_st *rt_pool_create(struct rt_device *device)
{
    struct CUmemPoolHandle_st *pool = rt_handle_new(sizeof(*pool));
    if (pool == NULL)
        return NULL;
    pool->magic = POOL_MAGIC;
    pool->device = device;
    pool->epoch = device->epoch;
    pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
    pool->next = pools;
    pools = pool;
    return pool;
}

struct CUmemPoolHandle_st *rt_pool_default(struct rt_device *device)
{
    struct CUmemPoolHandle_st **pool = &defaults[device->ordinal];
    if (*pool == NULL) {
        *pool = rt_pool_create(device);
        if (*pool != NULL)
            (*pool)->is_default = true;
    }
    return *pool;
}

struct CUmemPoolHandle_st *rt_pool_current(struct rt_device *device)
{
    struct CUmemPoolHandle_st *current = currents[device->ordinal];
    return current != NULL ? current : rt_pool_default(device);
}

cudaError_t rt_pool_check(cudaMemPool_t pool)
{
    if ((uintptr_t)pool < 4096 || pool->magic != POOL_MAGIC || pool->is_ended || pool->epoch != pool->device->epoch)
        return rt_explain(cudaErrorInvalidValue, "%p is not a memory pool", (void *)pool);
    return cudaSuccess;
}

void rt_pool_set_current(struct CUmemPoolHandle_st *pool, bool is_current)
{
    struct CUmemPoolHandle_st **current = &currents[pool->device->ordinal];
    if (is_current)
        *current = pool;
    else if (*current == pool)
        *current = NULL;
}

/* ---- pieces --------------------------------------------------------------------------------- */

/* With the lock. All work that uses it has ended. */
static void release(struct rt_piece *piece)
{
    struct rt_range range;
    piece->pool->reserved -= piece->size;
    if (rt_remove_range(piece->address, &range))
        (void)rt_free(&range);
    free(piece);
}

static void unlink_piece(struct rt_piece **at)
{
    *at = (*at)->next;
    (void)atomic_fetch_sub(&num_free, 1);
}

void rt_pool_trim(struct CUmemPoolHandle_st *pool, uint64_t keep)
{
    for (struct rt_piece **at = &pool->pieces; *at != NULL && pool->reserved > keep;) {
        struct rt_piece *piece = *at;
        if (piece->stream != ANY_STREAM) {
            at = &piece->next;
            continue;
        }
        unlink_piece(at);
        release(piece);
    }
}

/* The smallest that is large enough, and not twice as large. */
static struct rt_piece *take_free(struct CUmemPoolHandle_st *pool, size_t size, int stream)
{
    struct rt_piece **best = NULL;
    for (struct rt_piece **at = &pool->pieces; *at != NULL; at = &(*at)->next) {
        struct rt_piece *piece = *at;
        bool is_ready = piece->stream == stream || (piece->stream == ANY_STREAM && pool->reuse[1] != 0);
        if (!is_ready || piece->size < size || piece->size / 2 > size)
            continue;
        if (best == NULL || piece->size < (*best)->size)
            best = at;
        if (piece->size == size)
            break;
    }
    if (best == NULL)
        return NULL;
    struct rt_piece *taken = *best;
    unlink_piece(best);
    return taken;
}

typedef cudaError_t allocate_function(struct rt_device *device, size_t size, void **pointer);

static cudaError_t new_piece(struct CUmemPoolHandle_st *pool, size_t size, allocate_function *allocate,
                             struct rt_piece **out)
{
    void *memory;
    struct rt_range range;
    if (pool->max_size != 0 && size > pool->max_size - RT_MIN(pool->reserved, pool->max_size))
        return rt_explain(cudaErrorMemoryAllocation, "the pool holds %llu of at most %llu bytes",
                          (unsigned long long)pool->reserved, (unsigned long long)pool->max_size);
    struct rt_piece *piece = calloc(1, sizeof(*piece));
    if (piece == NULL)
        return cudaErrorMemoryAllocation;
    cudaError_t error = allocate(pool->device, size, &memory);
    if (error != cudaSuccess) {
        free(piece);
        return error;
    }
    *piece = (struct rt_piece){.pool = pool, .address = (uint64_t)(uintptr_t)memory, .size = size};
    (void)rt_remove_range(piece->address, &range);
    range.owner = piece;
    error = rt_add_range(&range); /* has room: one was just removed */
    pool->reserved += size;
    pool->reserved_high = RT_MAX(pool->reserved_high, pool->reserved);
    *out = piece;
    return error;
}

/* With the lock. What pools of the device hold unused is given back after a wait for all that may use it; *out: a piece
 * of this pool that fits, instead. */
static cudaError_t empty_pools(struct CUmemPoolHandle_st *pool, size_t size, int stream, struct rt_piece **out)
{
    rt_drain_device(pool->device);
    cudaError_t error = rt_error(vgc_synchronize(atomic_load(&pool->device->device)));
    if (error != cudaSuccess)
        return error;
    for (struct CUmemPoolHandle_st *other = pools; other != NULL; other = other->next) {
        if (other->device != pool->device)
            continue;
        for (struct rt_piece *piece = other->pieces; piece != NULL; piece = piece->next)
            piece->stream = ANY_STREAM;
        if ((*out = other == pool ? take_free(pool, size, stream) : NULL) != NULL)
            return cudaSuccess;
        rt_pool_trim(other, 0);
    }
    return cudaSuccess;
}

/* With the lock. */
static cudaError_t take(struct CUmemPoolHandle_st *pool, size_t size, int stream, struct rt_piece **out)
{
    *out = take_free(pool, size, stream);
    if (*out != NULL)
        return cudaSuccess;
    cudaError_t error = new_piece(pool, size, rt_allocate, out);
    if (error == cudaErrorMemoryAllocation && atomic_load(&num_free) > 0) {
        error = empty_pools(pool, size, stream, out);
        if (error != cudaSuccess || *out != NULL)
            return error;
        error = new_piece(pool, size, rt_allocate, out);
    }
    return error == cudaErrorMemoryAllocation && rt_falls_back() ? new_piece(pool, size, rt_allocate_anywhere, out)
                                                                 : error;
}

/* With the lock. */
static void give(struct rt_piece *piece, int stream)
{
    struct CUmemPoolHandle_st *pool = piece->pool;
    piece->is_used = false;
    piece->stream = stream;
    piece->turn = rt_next_turn();
    piece->next = pool->pieces;
    pool->pieces = piece;
    pool->used -= piece->size;
    (void)atomic_fetch_add(&num_free, 1);
}

void rt_pool_end_if_empty(struct CUmemPoolHandle_st *pool)
{
    if (!pool->is_ended || pool->used > 0 || pool->pieces != NULL)
        return;
    for (struct CUmemPoolHandle_st **at = &pools; *at != NULL; at = &(*at)->next) {
        if (*at == pool) {
            *at = pool->next;
            break;
        }
    }
    rt_handle_free(pool, sizeof(*pool));
}

/* ---- for others ----------------------------------------------------------------------------- */

static struct rt_piece *piece_of(const struct rt_range *range)
{
    return range->kind == RT_DEVICE_MEMORY ? range->owner : NULL;
}

bool rt_pools_take_back(uint64_t begin, cudaError_t *error)
{
    struct rt_range range;
    rt_pools_lock(); /* as long as it is held, the piece stays */
    bool is_known = rt_find_range((const void *)(uintptr_t)begin, &range) && range.begin == begin;
    struct rt_piece *piece = is_known ? piece_of(&range) : NULL;
    if (piece == NULL || !piece->is_used) {
        rt_pools_unlock();
        if (piece != NULL)
            *error = rt_explain(cudaErrorInvalidValue, "%#llx was freed already", (unsigned long long)begin);
        return piece != NULL;
    }
    struct CUmemPoolHandle_st *pool = piece->pool;
    give(piece, ANY_STREAM);
    rt_pool_trim(pool, pool->is_ended ? 0 : pool->threshold);
    rt_pool_end_if_empty(pool);
    rt_pools_unlock();
    return true;
}

void rt_pools_settle(struct rt_device *device, int stream, uint64_t mark)
{
    if (atomic_load(&num_free) == 0)
        return;
    rt_pools_lock();
    for (struct CUmemPoolHandle_st *pool = pools, *next; pool != NULL; pool = next) {
        next = pool->next;
        if (pool->device != device)
            continue;
        for (struct rt_piece *piece = pool->pieces; piece != NULL; piece = piece->next)
            if (piece->turn <= mark && (stream == RT_ALL_STREAMS || piece->stream == stream))
                piece->stream = ANY_STREAM;
        rt_pool_trim(pool, pool->is_ended ? 0 : pool->threshold);
        rt_pool_end_if_empty(pool);
    }
    rt_pools_unlock();
}

/* The device's memory is gone; the program may still hold its pools. */
void rt_pools_forget(struct rt_device *device)
{
    rt_pools_lock();
    for (struct CUmemPoolHandle_st **at = &pools; *at != NULL;) {
        struct CUmemPoolHandle_st *pool = *at;
        if (pool->device != device) {
            at = &pool->next;
            continue;
        }
        for (struct rt_piece *piece = pool->pieces, *next; piece != NULL; piece = next) {
            next = piece->next;
            (void)atomic_fetch_sub(&num_free, 1);
            free(piece);
        }
        pool->pieces = NULL;
        *at = pool->next;
    }
    defaults[device->ordinal] = currents[device->ordinal] = NULL;
    rt_pools_unlock();
}

/* ---- allocating ----------------------------------------------------------------------------- */

static cudaError_t allocate(struct rt_device *device, struct CUmemPoolHandle_st *pool, size_t bytes,
                            cudaStream_t stream, void **memory)
{
    struct rt_piece *piece;
    struct CUstream_st *checked;
    bool is_captured = false;
    cudaError_t error = rt_check_stream(device, stream, &checked);
    if (error != cudaSuccess || bytes == 0)
        return error;
    if (atomic_load(&rt_num_special) > 0)
        error = rt_capture_allocation(checked, bytes, memory, &is_captured);
    if (error != cudaSuccess || is_captured)
        return error;
    if (bytes > SIZE_MAX - PIECE_UNIT)
        return rt_explain(cudaErrorMemoryAllocation, "%zu bytes", bytes);
    size_t size = (bytes + PIECE_UNIT - 1) / PIECE_UNIT * PIECE_UNIT;
    rt_pools_lock();
    if (pool == NULL)
        pool = rt_pool_current(device);
    error =
        pool == NULL ? cudaErrorMemoryAllocation : take(pool, size, checked == NULL ? 0 : (int)checked->number, &piece);
    if (error == cudaSuccess) {
        piece->is_used = true;
        pool->used += piece->size;
        pool->used_high = RT_MAX(pool->used_high, pool->used);
        *memory = (void *)(uintptr_t)piece->address;
    }
    rt_pools_unlock();
    return error;
}

RT_API cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t stream)
{
    struct rt_device *device;
    if (memory == NULL)
        return rt_return(cudaErrorInvalidValue);
    *memory = NULL;
    cudaError_t error = rt_current(&device);
    return rt_return(error == cudaSuccess ? allocate(device, NULL, bytes, stream, memory) : error);
}

RT_API cudaError_t cudaMallocFromPoolAsync(void **memory, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
{
    struct rt_device *device;
    if (memory == NULL)
        return rt_return(cudaErrorInvalidValue);
    *memory = NULL;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess)
        error = rt_pool_check(pool);
    return rt_return(error == cudaSuccess ? allocate(pool->device, pool, bytes, stream, memory) : error);
}

RT_API cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream)
{
    struct rt_device *device;
    struct rt_range range;
    struct CUstream_st *checked;
    bool is_captured = false;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess)
        error = rt_check_stream(device, stream, &checked);
    if (error == cudaSuccess && memory != NULL && atomic_load(&rt_num_special) > 0)
        error = rt_capture_free(checked, memory, &is_captured);
    if (error != cudaSuccess || memory == NULL || is_captured || rt_free_graph_memory(memory))
        return rt_return(error);
    rt_pools_lock(); /* as long as it is held, the piece stays */
    bool is_known = rt_find_range(memory, &range) && range.begin == (uint64_t)(uintptr_t)memory;
    struct rt_piece *piece = is_known ? piece_of(&range) : NULL;
    bool is_used = piece != NULL && piece->is_used;
    if (is_used)
        give(piece, checked == NULL ? 0 : (int)checked->number);
    rt_pools_unlock();
    if (is_known && piece == NULL && range.kind == RT_DEVICE_MEMORY)
        return cudaFree(memory); /* of cudaMalloc(): nothing is gained by keeping it */
    return rt_return(is_used ? cudaSuccess
                             : rt_explain(cudaErrorInvalidValue,
                                          "cudaFreeAsync(%p): no allocation begins there, or it was freed", memory));
}
